package reactor

import (
	"slices"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// An output is what a connection has still to send, in order: sealed pieces, then the tail that handlers append to.
//
//	queue:  [ sealed ][ lent ][ sealed ]      tail.B: +OK\r\n$5\r\n…      tail.Lent: pieces between its bytes
//	          ^ head: the kernel took sent bytes of the first piece
//
// O1. The tail's buffer is leased from the loop's pool while the tail holds bytes or Serve runs, and not longer.
// O2. bytes is exactly what queue and tail hold, lent pieces included, less what the kernel took.
// O3. A lent piece's release runs exactly once: when the kernel has taken the last of it, or when the connection ends.
//
// In the usual case nothing is ever sealed: the tail is written whole at the end of the loop's iteration.
type output struct {
	tail  protocol.Reply
	queue []piece
	head  int // queue[:head] has left
	bytes int
	idle  int // bytes of the queue's leased buffers that hold nothing
}

// A piece is a run of bytes that nobody appends to any more.
type piece struct {
	b       []byte // what the kernel has yet to take
	lease   []byte // the leased buffer b lies in, given back when the piece has left; nil if there is none
	idle    int    // what lease has room for beyond what was sealed
	release func() // of a lent piece
}

// What a connection pays for the pieces it may hold: beyond these sizes copying costs more than a piece of its own.
const (
	replySize   = 16 << 10  // a fresh reply buffer
	replyKeep   = 256 << 10 // a buffer that grew past this is left to the garbage collector
	replyPooled = 8 << 20   // bytes of idle buffers a loop keeps
	pieceCopy   = 8 << 10   // a post shorter than this is copied into the tail
	flushBound  = 1 << 20   // bytes one connection may send before the loop looks at the others
	iovBound    = 64        // pieces in one writev
)

// A bufferPool lends reply buffers, the one used last first: it is still in the cache.
type bufferPool struct {
	free  [][]byte
	bytes int
}

func (p *bufferPool) lease() []byte {
	n := len(p.free)
	if n == 0 {
		return make([]byte, 0, replySize)
	}
	b := p.free[n-1]
	p.free[n-1] = nil
	p.free = p.free[:n-1]
	p.bytes -= cap(b)
	return b[:0]
}

// giveBack takes a buffer that nobody looks at any more.
func (p *bufferPool) giveBack(b []byte) {
	poison(b)
	if cap(b) < replySize || cap(b) > replyKeep || p.bytes+cap(b) > replyPooled {
		return
	}
	p.bytes += cap(b)
	p.free = append(p.free, b)
}

// open makes the tail ready to be appended to.
func (o *output) open(pool *bufferPool) *protocol.Reply {
	if o.tail.B == nil {
		o.tail.B = pool.lease()
	}
	return &o.tail
}

// settle counts what was appended to the tail since it held before bytes and lent lent pieces; an empty tail gives its buffer back (O1).
func (o *output) settle(pool *bufferPool, before, lent int) {
	o.bytes += len(o.tail.B) - before
	for _, l := range o.tail.Lent[lent:] {
		o.bytes += len(l.Data)
	}
	if len(o.tail.B) == 0 && len(o.tail.Lent) == 0 {
		o.dropTail(pool)
	}
}

func (o *output) dropTail(pool *bufferPool) {
	if o.tail.B != nil {
		pool.giveBack(o.tail.B)
		o.tail.B = nil
	}
	clear(o.tail.Lent)
	o.tail.Lent = o.tail.Lent[:0]
	if cap(o.tail.Lent) > 64 {
		o.tail.Lent = nil
	}
}

// post appends shared bytes: short ones are copied, long ones become a piece that points at them.
func (o *output) post(pool *bufferPool, p []byte) {
	o.bytes += len(p)
	if len(p) >= pieceCopy {
		o.seal(pool)
		o.queue = append(o.queue, piece{b: p})
		return
	}
	if o.tail.B != nil && len(o.tail.B)+len(p) > cap(o.tail.B) {
		o.seal(pool)
	}
	r := o.open(pool)
	r.B = append(r.B, p...)
}

// postReply appends a reply that belongs to the loop from here on.
func (o *output) postReply(pool *bufferPool, r *protocol.Reply) {
	if len(r.Lent) == 0 {
		if len(r.B) > 0 {
			o.post(pool, r.B)
		}
		return
	}
	o.seal(pool)
	o.bytes += len(r.B)
	for _, l := range r.Lent {
		o.bytes += len(l.Data)
	}
	o.split(r.B, nil, r.Lent)
}

// insert puts shared bytes at offset at of the tail: a post that was decided before a reply that is already there.
// Returns how far what lay behind has moved.
func (o *output) insert(at, lent int, p []byte) int {
	o.tail.B = slices.Insert(o.tail.B, at, p...)
	o.bytes += len(p)
	for i := lent; i < len(o.tail.Lent); i++ {
		o.tail.Lent[i].At += len(p)
	}
	return len(p)
}

// insertReply is insert for a reply. Its lent pieces go between those before and after.
func (o *output) insertReply(at, lent int, r *protocol.Reply) (moved, lentMoved int) {
	pieces := slices.Clone(r.Lent)
	for i := range pieces {
		pieces[i].At += at
		o.bytes += len(pieces[i].Data)
	}
	o.insert(at, lent, r.B)
	o.tail.Lent = slices.Insert(o.tail.Lent, lent, pieces...)
	return len(r.B), len(pieces)
}

// seal turns the tail into pieces, so that it can stay behind while new replies go into a fresh buffer.
func (o *output) seal(pool *bufferPool) {
	if o.tail.B == nil {
		return
	}
	if len(o.tail.B) == 0 && len(o.tail.Lent) == 0 {
		o.dropTail(pool)
		return
	}
	b := o.tail.B
	lease := b
	if len(b) <= cap(b)/8 { // a blocked connection must not hold a whole buffer for a few bytes
		b = slices.Clone(b)
		pool.giveBack(lease)
		lease = nil
	}
	lent := o.tail.Lent
	o.tail.B = nil
	o.split(b, lease, lent)
	clear(lent)
	o.tail.Lent = lent[:0]
}

// split appends b and the pieces lent between its bytes to the queue. The last piece carries the lease.
func (o *output) split(b, lease []byte, lent []protocol.Lent) {
	from := 0
	for _, l := range lent {
		if l.At > from {
			o.queue = append(o.queue, piece{b: b[from:l.At]})
			from = l.At
		}
		if len(l.Data) > 0 {
			o.queue = append(o.queue, piece{b: l.Data, release: l.Release})
		} else if l.Release != nil {
			l.Release()
		}
	}
	if from < len(b) || lease != nil {
		idle := max(0, cap(lease)-len(b))
		o.queue = append(o.queue, piece{b: b[from:], lease: lease, idle: idle})
		o.idle += idle
	}
}

// A flushed says how far a flush came.
type flushed uint8

const (
	flushedAll  flushed = iota // nothing is left
	flushedSome                // the kernel took its share of this iteration; more may go at once
	flushedFull                // the socket is full
	flushedDead                // the peer is gone
)

// flush sends what it can without waiting. It returns the bytes the kernel took.
func (o *output) flush(fd int, pool *bufferPool) (int, flushed) {
	if len(o.queue) == 0 && len(o.tail.Lent) == 0 { // the usual case: one buffer, one write
		if len(o.tail.B) == 0 {
			o.dropTail(pool)
			return 0, flushedAll
		}
		n, errno := send(fd, o.tail.B)
		if n == len(o.tail.B) {
			o.bytes -= n
			o.dropTail(pool)
			invariant.That(o.bytes == 0, "O2: %d bytes left in an empty output", o.bytes)
			return n, flushedAll
		}
		if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
			return 0, flushedDead
		}
		o.seal(pool)
		o.advance(pool, max(n, 0))
		return max(n, 0), flushedFull
	}
	o.seal(pool)
	total := 0
	for o.head < len(o.queue) {
		if total >= flushBound {
			return total, flushedSome
		}
		n, want, errno := o.writePieces(fd)
		if errno == unix.EINTR {
			continue
		}
		if errno == unix.EAGAIN {
			return total, flushedFull
		}
		if errno != 0 {
			return total, flushedDead
		}
		o.advance(pool, n)
		total += n
		if n < want {
			return total, flushedFull
		}
	}
	invariant.That(o.bytes == 0, "O2: %d bytes left in an empty output", o.bytes)
	return total, flushedAll
}

// writePieces writes the first pieces of the queue, at most flushBound bytes.
func (o *output) writePieces(fd int) (n, want int, errno unix.Errno) {
	var iov [iovBound]unix.Iovec
	count := 0
	for i := o.head; i < len(o.queue) && count < iovBound && want < flushBound; i++ {
		b := o.queue[i].b
		if len(b) > flushBound-want {
			b = b[:flushBound-want]
		}
		if len(b) == 0 {
			continue
		}
		iov[count].Base = &b[0]
		iov[count].SetLen(len(b))
		count++
		want += len(b)
	}
	if count == 0 {
		return 0, 0, 0
	}
	n, errno = writev(fd, iov[:count])
	return n, want, errno
}

// advance forgets n bytes the kernel took and every piece that has left whole.
func (o *output) advance(pool *bufferPool, n int) {
	o.bytes -= n
	for o.head < len(o.queue) {
		p := &o.queue[o.head]
		if n < len(p.b) {
			p.b = p.b[n:]
			return
		}
		n -= len(p.b)
		o.finish(pool, p)
		o.head++
	}
	o.queue, o.head = o.queue[:0], 0
	if cap(o.queue) > 64 {
		o.queue = nil
	}
}

// finish gives back what a piece held (O3).
func (o *output) finish(pool *bufferPool, p *piece) {
	if p.lease != nil {
		pool.giveBack(p.lease)
	}
	if p.release != nil {
		p.release()
	}
	o.idle -= p.idle
	*p = piece{}
}

// abandon gives everything back unsent: the connection ends.
func (o *output) abandon(pool *bufferPool) {
	for i := o.head; i < len(o.queue); i++ {
		o.finish(pool, &o.queue[i])
	}
	o.queue, o.head, o.bytes = nil, 0, 0
	for _, l := range o.tail.Lent {
		if l.Release != nil {
			l.Release()
		}
	}
	o.dropTail(pool)
	o.tail.Lent = nil
}

// pieces counts what the output is held in.
func (o *output) pieces() int {
	n := len(o.queue) - o.head
	if len(o.tail.B) > 0 || len(o.tail.Lent) > 0 {
		n += 1 + len(o.tail.Lent)
	}
	return n
}
