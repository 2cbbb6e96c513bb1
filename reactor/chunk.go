package reactor

import (
	"math/bits"

	"spindle/internal/invariant"
)

// This file has the read chunks: the memory of bytes between the socket and the handler.
//
// reactor.L1. A request's arguments point into memory of the loop. Bytes that are served as they arrive lie in the
// loop's read buffer, or in a buffer of its ring. Bytes that had to wait lie in the connection's chunk, long arguments
// in a Bulk. The arguments are valid until Handler.Serve returns.
// reactor.L2. The read buffer belongs to the loop and is overwritten by the next read of any connection. A buffer of
// the ring goes back to the kernel when its bytes have been served (uring.B1).
// reactor.L3. A connection leases a chunk from the loop's pool while it holds bytes that were not served. An idle
// connection has no buffer.
// reactor.L4. Builds with checks fill released memory with 0xDB, so that an argument used too late is noticed at once.

const (
	chunkMin  = 4 << 10
	chunkMax  = 1 << 20 // larger ones are left to the garbage collector
	chunkIdle = 4 << 20 // bytes of idle chunks a loop keeps
)

// A chunkPool lends chunks whose sizes are powers of two. It lends the most recently used chunk first.
type chunkPool struct {
	free  [9][][]byte // 4 KB … 1 MB
	bytes int
	most  int // bytes that it may keep
}

func (p *chunkPool) lease(n int) []byte {
	if n > chunkMax {
		return make([]byte, 0, n)
	}
	class := chunkClass(n)
	free := p.free[class]
	if len(free) == 0 {
		return make([]byte, 0, chunkMin<<class)
	}
	b := free[len(free)-1]
	p.free[class] = free[:len(free)-1]
	p.bytes -= cap(b)
	return b[:0]
}

func (p *chunkPool) giveBack(b []byte) {
	poison(b)
	n := cap(b)
	if n < chunkMin || n > chunkMax || n&(n-1) != 0 || p.bytes+n > p.most {
		return
	}
	p.bytes += n
	class := chunkClass(n)
	p.free[class] = append(p.free[class], b)
}

// chunkClass returns the class of the smallest chunk that holds n bytes.
func chunkClass(n int) int {
	return max(0, bits.Len(uint(n-1))-12)
}

// poison overwrites released memory in builds with checks (reactor.L4).
func poison(b []byte) {
	if !invariant.Enabled {
		return
	}
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xDB
	}
}

// keep appends bytes to the pending ones.
func (c *conn) keep(data []byte) {
	if len(data) == 0 {
		return
	}
	c.room(len(data))
	c.pending = append(c.pending, data...)
}

// room makes room for n more bytes in the chunk. It drops the served bytes if that helps.
func (c *conn) room(n int) {
	have := len(c.pending) - c.served
	if c.pending == nil {
		c.pending = c.grow(0, n)
		return
	}
	if len(c.pending)+n <= cap(c.pending) {
		return
	}
	if have+n <= cap(c.pending) && c.served >= have { // moved at most once per byte that arrived
		copy(c.pending, c.pending[c.served:])
	} else {
		grown := c.grow(have, n)
		grown = append(grown, c.pending[c.served:]...)
		c.loop.chunks.giveBack(c.pending)
		c.pending = grown
	}
	c.pending, c.served = c.pending[:have], 0
}

// An argument of chunkExact bytes or more gets a chunk of its exact size, which no pool takes back. Up to chunkAtOnce,
// it gets this chunk as soon as its length is known. A longer argument gets it when half of it has arrived, because a
// header alone must not cost much.
const (
	chunkExact  = 64 << 10
	chunkAtOnce = 256 << 10
)

// grow returns a larger chunk, for have bytes and n more. The chunk is at least twice as large, so that a byte is
// copied a bounded number of times. For a long argument that began recently, the chunk has the argument's size: waiting
// bytes must not cost twice their number.
func (c *conn) grow(have, n int) []byte {
	double := max(have+n, have*2)
	if p := c.parser; p != nil && p.Awaited() >= max(have/4, chunkExact) && p.Need() >= have+n &&
		p.Need() <= max(double, chunkAtOnce) {
		return make([]byte, 0, p.Need())
	}
	return c.loop.chunks.lease(double)
}

// drained gives the chunk back when all its bytes are served (reactor.L3).
func (c *conn) drained() {
	if c.pending != nil && c.served == len(c.pending) {
		c.loop.chunks.giveBack(c.pending)
		c.pending, c.served = nil, 0
	}
}
