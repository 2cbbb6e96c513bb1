package topology

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A cable forwards connections to one server, and can fail like a network.
type cable struct {
	Port     int
	listener net.Listener
	to       string

	mu    sync.Mutex
	links map[*wire]bool
}

// A wire is one connection through a cable.
type wire struct {
	ends [2]*net.TCPConn // the client and the server
	deaf atomic.Bool     // nothing arrives any more, in either direction
	left atomic.Int64    // bytes that still reach the client before the wire breaks
}

// plug makes a cable to s.
func plug(t *testing.T, s *testkit.Server) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{Port: l.Addr().(*net.TCPAddr).Port, listener: l, to: s.Addr, links: map[*wire]bool{}}
	t.Cleanup(func() {
		l.Close()
		c.each(func(w *wire) { w.end(false) })
	})
	go c.accept()
	return c
}

func (c *cable) address() string { return "127.0.0.1 " + strconv.Itoa(c.Port) }

func (c *cable) accept() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.to)
		if err != nil {
			near.Close()
			continue
		}
		w := &wire{ends: [2]*net.TCPConn{near.(*net.TCPConn), far.(*net.TCPConn)}}
		w.left.Store(1 << 60)
		c.mu.Lock()
		c.links[w] = true
		c.mu.Unlock()
		for i := range w.ends {
			go func() {
				w.carry(i)
				c.mu.Lock()
				delete(c.links, w)
				c.mu.Unlock()
			}()
		}
	}
}

// carry copies bytes from one end to the other until either fails.
func (w *wire) carry(from int) {
	p := make([]byte, 16<<10)
	for {
		n, err := w.ends[from].Read(p)
		if err != nil {
			if !w.deaf.Load() {
				w.end(false)
			}
			return
		}
		if w.deaf.Load() {
			continue
		}
		if from == 1 {
			if left := w.left.Add(-int64(n)); left < 0 {
				_, _ = w.ends[0].Write(p[:max(0, int64(n)+left)])
				w.end(false)
				return
			}
		}
		if _, err := w.ends[1-from].Write(p[:n]); err != nil {
			w.end(false)
			return
		}
	}
}

// end closes both ends. With reset, bytes in transit are lost.
func (w *wire) end(reset bool) {
	for _, e := range w.ends {
		if reset {
			_ = e.SetLinger(0)
		}
		e.Close()
	}
}

func (c *cable) each(do func(*wire)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.links {
		do(w)
	}
}

// cut closes all connections, with a reset or without.
func (c *cable) cut(reset bool) { c.each(func(w *wire) { w.end(reset) }) }

// cutAfter closes the connections after n more bytes to the client, so in the middle of a command.
func (c *cable) cutAfter(n int64) { c.each(func(w *wire) { w.left.Store(n) }) }

// deafen stops all bytes on the current connections without closing them. It returns the number of these connections.
func (c *cable) deafen() (n int) {
	c.each(func(w *wire) { w.deaf.Store(true); n++ })
	time.AfterFunc(time.Minute, func() {
		c.each(func(w *wire) { // close the ends that have not noticed the break
			if w.deaf.Load() {
				w.end(true)
			}
		})
	})
	return n
}
