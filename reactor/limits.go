package reactor

import (
	"time"

	"spindle/protocol"
)

// This file has the limits on the cost of a connection. A connection that exceeds one is closed, and other connections
// are not affected.

// overLimit closes the connection if its output is past the hard limit of its class, or has been past the soft one for
// too long. It reports whether it has closed the connection.
func (c *conn) overLimit() bool {
	r := c.loop.reactor
	class := protocol.Class(c.class.Load())
	if class == protocol.ClassReplica { // a replica's stream waits elsewhere, and is limited there
		return false
	}
	limit := r.settings.Output.Get()[class]
	used := uint64(c.out.bytes)
	if used <= replySize { // every connection may fill a buffer
		used = 0
	}
	if limit.Hard != 0 && used >= limit.Hard {
		c.cut(class)
		return true
	}
	if used >= replySize+strangerOutput && c.stranger() {
		c.cut(class)
		return true
	}
	if limit.Soft == 0 || used < limit.Soft {
		c.out.softSince = time.Time{}
		return false
	}
	now := time.Now()
	patience := time.Duration(limit.Seconds) * time.Second
	if c.out.softSince.IsZero() {
		c.out.softSince = now
		time.AfterFunc(patience+time.Millisecond, func() { c.post(mail{kind: mailLimits, c: c}) })
		return false
	}
	if now.Sub(c.out.softSince) <= patience {
		return false
	}
	c.cut(class)
	return true
}

// strangerOutput bounds the unread output of an unauthenticated client, beyond the buffer that each connection may
// fill.
const strangerOutput = 1 << 10

// stranger reports whether the client must authenticate and has never done so.
func (c *conn) stranger() bool {
	return !c.known && c.limiter != nil && c.limiter.Limits().Unauthenticated
}

// cut closes a connection that does not read its output. Nothing more is written to it.
func (c *conn) cut(class protocol.Class) {
	r := c.loop.reactor
	r.outLimit.Add(1)
	c.become(lifeClosed) // the keeper does not count this output, so that no other client is evicted for it
	c.noteOutput()       // the log line shows it
	if r.options.OutputLimit != nil && c.session != nil {
		r.options.OutputLimit(c.session, class, c.out.bytes)
	}
	c.discard()
}

// overQuery closes a connection with too much unserved input. begin is the beginning of that input.
func (c *conn) overQuery(begin []byte) {
	r := c.loop.reactor
	r.inLimit.Add(1)
	if r.options.QueryLimit != nil {
		r.options.QueryLimit(c.session, begin[:min(len(begin), queryBegin)])
	}
	c.close()
}

// An excess is the rest of an argument that is longer than the query-buffer limit. It is read and dropped. If the
// connection were closed at once, the bytes on their way would cause a reset, and the client might not read the error.
type excess struct {
	left  int    // bytes until the connection closes
	taken int    // bytes so far
	begin []byte // the first of them
}

const (
	lineEnd    = 2       // bytes after an argument; they count, as in Redis
	queryBegin = 64      // bytes of a query that the log shows, as in Redis
	excessMost = 1 << 20 // bytes beyond the limit that are read
)

// pastLimit reports whether an argument of size bytes exceeds the query-buffer limit.
func (c *conn) pastLimit(size int) bool {
	return int64(size)+lineEnd > c.loop.reactor.settings.QueryBuffer.Get()
}

// beginExcess begins to drop an argument of size bytes, of which arrived is already here.
func (c *conn) beginExcess(arrived []byte, size int) {
	limit := c.loop.reactor.settings.QueryBuffer.Get()
	c.excess = &excess{left: int(min(int64(size)+lineEnd, limit+excessMost))}
	c.discardExcess(arrived)
}

// discardExcess drops bytes of the argument, and closes the connection when enough have come.
func (c *conn) discardExcess(data []byte) {
	e := c.excess
	e.begin = append(e.begin, data[:min(len(data), queryBegin-len(e.begin))]...)
	e.taken += len(data)
	if e.left -= len(data); e.left <= 0 {
		c.seenIn = e.taken
		c.usageIn.Store(int64(e.taken)) // what the log line shows as qbuf
		c.overQuery(e.begin)
	}
}

// noteInput publishes how much unserved input the connection holds, and closes the connection if that is too much.
func (c *conn) noteInput() {
	n, room, lent := len(c.pending)-c.served, cap(c.pending)-len(c.pending), 0
	if c.streaming() {
		got, held, twice := c.parser.Streamed()
		n, room = n+got, room+twice // lent memory that is not filled costs nothing yet
		if c.parser.Lent() {
			lent = held
		}
	}
	if n == c.seenIn && room == c.seenRoom && int64(lent) == c.usageLent.Load() {
		return
	}
	c.seenIn, c.seenRoom = n, room
	c.usageIn.Store(int64(n))
	c.usageRoom.Store(int64(room))
	c.usageLent.Store(int64(lent))
	c.tellKeeper()
	if n > chunkMin && c.life != lifeClosed && int64(n) > c.loop.reactor.settings.QueryBuffer.Get() {
		begin := c.pending[c.served:]
		if c.streaming() {
			begin = c.parser.Begun()
		}
		c.overQuery(begin)
	}
}

// noteOutput publishes how much output the connection holds.
func (c *conn) noteOutput() {
	if c.out.bytes == c.seenOut {
		return
	}
	c.seenOut = c.out.bytes
	c.usageOut.Store(int64(c.out.bytes))
	c.usageIdle.Store(int64(c.out.idle + cap(c.out.tail.B) - len(c.out.tail.B)))
	c.usageOll.Store(int64(c.out.pieces()))
	c.tellKeeper()
}

// tellKeeper reports the present cost of the buffers to the session. It does nothing after Closed.
func (c *conn) tellKeeper() {
	if c.keeper != nil && c.life != lifeClosed {
		u := c.Usage()
		c.keeper.Account(u.Total, u.Reserved)
	}
}

// SetClass selects the output limit.
func (c *conn) SetClass(class protocol.Class) {
	if protocol.Class(c.class.Swap(uint32(class))) != class {
		c.post(mail{kind: mailLimits, c: c})
	}
}

// connBytes is the cost of an idle connection: its conn, its entries in maps and lists, its addresses.
const connBytes = 768

// Usage returns the sizes of the connection's buffers.
func (c *conn) Usage() protocol.Usage {
	u := protocol.Usage{
		Query:     int(c.usageIn.Load()),
		QueryFree: int(c.usageRoom.Load()),
		Output:    int(c.usageOut.Load()),
		Pieces:    int(c.usageOll.Load()),
		ReplyCap:  replySize,
	}
	u.Reserved = int(c.usageLent.Load())
	u.Total = connBytes + u.Query + u.QueryFree + u.Output + int(c.usageIdle.Load())
	return u
}
