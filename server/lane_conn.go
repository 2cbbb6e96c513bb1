package server

import (
	"sync"

	"spindle/protocol"
)

// A laneConn is a connection of the lane as the core sees it. While a carried batch runs, its replies are in nobody's
// output yet. What is decided for the client meanwhile (a timeout, an end of the connection) waits here, so that it
// comes behind them.
type laneConn struct {
	protocol.Conn
	mu      sync.Mutex
	carries bool
	behind  []func()
}

// hold has what is decided from here on wait until release. At the beginning of a carried batch's turn.
func (c *laneConn) hold() {
	c.mu.Lock()
	c.carries = true
	c.mu.Unlock()
}

// release sends the batch's replies, and what has waited behind them. At the end of that turn.
func (c *laneConn) release(turn uint64, r *protocol.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Conn.PostReply(turn, r)
	for _, f := range c.behind {
		f()
	}
	c.carries, c.behind = false, nil
}

// follow does f behind what a carried batch replies.
func (c *laneConn) follow(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.carries {
		c.behind = append(c.behind, f)
	} else {
		f()
	}
}

// Post implements protocol.Conn.
func (c *laneConn) Post(turn uint64, p []byte) { c.follow(func() { c.Conn.Post(turn, p) }) }

// PostReply implements protocol.Conn.
func (c *laneConn) PostReply(turn uint64, r *protocol.Reply) {
	c.follow(func() { c.Conn.PostReply(turn, r) })
}

// Close implements protocol.Conn.
func (c *laneConn) Close(afterOutput bool) {
	if !afterOutput {
		c.Conn.Close(false)
		return
	}
	c.follow(func() { c.Conn.Close(true) })
}

// Loop implements protocol.Conn: messages for many come by Post.
func (c *laneConn) Loop() protocol.Loop { return nil }
