package reactor

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// An output is the bytes that a connection still has to send: sealed pieces, then the tail to which handlers append.
//
//	        reply or post             all has left
//	 empty ───────────────▶ dirty ──────────────────▶ empty, or closed if the connection is closing
//	                        ▲   │ the socket is full
//	             writable   │   ▼                     a share has left: in loop.ready, then dirty again
//	                       blocked
//
//	queue:  [ sealed ][ lent ][ sealed ]      tail.B: +OK\r\n$5\r\n…      tail.Lent: pieces between its bytes
//	          ^ head: the kernel took sent bytes of the first piece
//
// reactor.O1. The tail's buffer is leased from the loop's pool while the tail holds bytes or Serve runs, and not
// longer.
// reactor.O2. bytes is exactly the length of queue and tail, with lent pieces, less the bytes that the kernel took.
// reactor.O3. A lent piece's release runs exactly once: when the kernel has taken the last of the piece, or when the
// connection ends.
//
// In the usual case nothing is ever sealed: the tail is written whole at the end of the loop's iteration.
type output struct {
	tail  protocol.Reply
	queue []piece
	head  int // queue[:head] was sent
	bytes int
	idle  int // unused bytes of the queue's leased buffers

	marks []mark // bytes that may not leave yet (reactor.G1)
	held  int    // bytes covered by marks
	gated bool   // it is in loop.gated

	replied bool // the tail has the place of the last batch's reply

	dirty     bool      // it is in loop.dirty
	blocked   bool      // the socket is full; the backend watches it
	softSince time.Time // when bytes passed the soft limit; zero: it is below
}

// A piece is a run of bytes that does not grow any more.
type piece struct {
	b       []byte // the bytes that the kernel has not taken
	lease   []byte // the leased buffer in which b lies, returned when the piece was sent; nil: none
	idle    int    // unused bytes of lease beyond the sealed ones
	release func() // of a lent piece, or a chunk
}

// Sizes of pieces. A longer post becomes its own piece, because copying it would cost more.
const (
	replySize   = 16 << 10  // a fresh reply buffer
	replyKeep   = 256 << 10 // a buffer that grew past this is left to the garbage collector
	replyPooled = 8 << 20   // bytes of idle buffers a loop keeps
	pieceCopy   = 8 << 10   // a post shorter than this is copied into a tail that holds replies
	postPieces  = 16        // pieces that may wait before short posts share a buffer, which then costs less
	flushBound  = 1 << 20   // bytes that one connection may send before the loop serves the others
	iovBound    = 64        // pieces in one writev
)

// A bufferPool lends reply buffers. It lends the most recently used one first, because that is still in the cache.
type bufferPool struct {
	free  [][]byte
	bytes int
	most  int // bytes it keeps
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

// giveBack takes a buffer that is not used any more.
func (p *bufferPool) giveBack(b []byte) {
	poison(b)
	if cap(b) < replySize || cap(b) > replyKeep || p.bytes+cap(b) > p.most {
		return
	}
	p.bytes += cap(b)
	p.free = append(p.free, b)
}

// open makes the tail ready to be appended to.
func (o *output) open(pool *bufferPool) *protocol.Reply {
	if o.tail.B == nil {
		o.tail.B, o.replied = pool.lease(), false
	}
	return &o.tail
}

// settle counts the bytes appended to the tail after from. An empty tail gives its buffer back (reactor.O1).
func (o *output) settle(pool *bufferPool, from protocol.Mark) {
	o.bytes += o.tail.Since(from)
	if len(o.tail.B) == 0 && len(o.tail.Lent) == 0 {
		o.dropTail(pool)
	}
}

func (o *output) dropTail(pool *bufferPool) {
	b := o.tail.B
	if release := o.tail.Taken(); release != nil {
		release()
	} else if b != nil {
		pool.giveBack(b)
	}
}

// post appends bytes that many connections share, such as a published message. They become a piece that points to them,
// so nothing is copied and no buffer is leased. Short ones are copied if the tail already has a buffer, or if many
// pieces wait.
func (o *output) post(pool *bufferPool, p []byte) {
	if len(p) >= pieceCopy || o.tail.B == nil && len(o.queue)-o.head < postPieces {
		o.bytes += len(p)
		o.seal(pool)
		o.queue = append(o.queue, piece{b: p})
		return
	}
	o.copyIn(pool, p)
}

// copyIn appends a copy of short bytes.
func (o *output) copyIn(pool *bufferPool, p []byte) {
	o.bytes += len(p)
	if o.tail.B != nil && len(o.tail.B)+len(p) > cap(o.tail.B) {
		o.seal(pool)
	}
	r := o.open(pool)
	r.B = append(r.B, p...)
}

// postReply appends a reply, which belongs to the loop afterwards.
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
	o.split(r.B, nil, nil, r.Lent)
}

// insert inserts a post before a reply that is already in the tail. It returns how far the reply has moved.
func (o *output) insert(at protocol.Mark, p []byte) int {
	o.tail.Insert(at, p)
	o.bytes += len(p)
	return len(p)
}

// insertReply is insert for a reply.
func (o *output) insertReply(at protocol.Mark, r *protocol.Reply) int {
	n := r.Len()
	o.tail.InsertReply(at, r)
	o.bytes += n
	return n
}

// seal turns the tail into pieces. New replies go into a fresh buffer.
func (o *output) seal(pool *bufferPool) {
	if o.tail.B == nil {
		return
	}
	if len(o.tail.B) == 0 && len(o.tail.Lent) == 0 {
		o.dropTail(pool)
		return
	}
	b, lent := o.tail.B, slices.Clone(o.tail.Lent)
	lease, release := b, o.tail.Taken()
	if release != nil {
		lease = nil
	}
	if len(b) <= cap(b)/8 { // a blocked connection must not hold a whole buffer for a few bytes
		b = slices.Clone(b)
		if release != nil {
			release()
		} else {
			pool.giveBack(lease)
		}
		lease, release = nil, nil
	}
	o.split(b, lease, release, lent)
}

// split appends b and the pieces lent between its bytes to the queue. The last piece gets the lease or the release of
// b's memory.
func (o *output) split(b, lease []byte, release func(), lent []protocol.Lent) {
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
	if from < len(b) || lease != nil || release != nil {
		idle := 0
		if lease != nil || release != nil {
			idle = cap(b) - len(b)
		}
		o.queue = append(o.queue, piece{b: b[from:], lease: lease, release: release, idle: idle})
		o.idle += idle
	}
}

// A flushed says how far a flush has come.
type flushed uint8

const (
	flushedAll  flushed = iota // nothing is left
	flushedSome                // the kernel took this iteration's share; more may go at once
	flushedFull                // the socket is full
	flushedHeld                // the rest may not leave yet
	flushedDead                // the peer is gone
)

// flush sends all bytes that the socket takes without waiting. It returns their number.
func (o *output) flush(l *link, pool *bufferPool) (int, flushed) {
	if len(o.marks) > 0 {
		return o.flushFree(l, pool)
	}
	if l.tls != nil {
		return o.flushTLS(l.tls, pool)
	}
	if len(o.queue) == 0 && len(o.tail.Lent) == 0 { // the usual case: one buffer, one write
		if len(o.tail.B) == 0 {
			o.dropTail(pool)
			return 0, flushedAll
		}
		n, errno := send(l.fd, o.tail.B)
		if n == len(o.tail.B) {
			o.bytes -= n
			o.dropTail(pool)
			invariant.That(o.bytes == 0, "reactor.O2: %d bytes left in an empty output", o.bytes)
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
	total, result := o.flushPieces(l, pool, o.bytes)
	if result == flushedAll {
		invariant.That(o.bytes == 0, "reactor.O2: %d bytes left in an empty output", o.bytes)
	}
	return total, result
}

// flushFree flushes the bytes that may leave (reactor.G1).
func (o *output) flushFree(l *link, pool *bufferPool) (int, flushed) {
	if l.tls != nil {
		return o.flushFreeTLS(l.tls, pool)
	}
	free := o.bytes - o.held
	if free == 0 {
		return 0, flushedHeld
	}
	o.seal(pool)
	total, result := o.flushPieces(l, pool, free)
	if result == flushedAll {
		result = flushedHeld
	}
	return total, result
}

// flushPieces sends the first most bytes of the queue.
func (o *output) flushPieces(l *link, pool *bufferPool, most int) (int, flushed) {
	total := 0
	for total < most {
		if total >= flushBound {
			return total, flushedSome
		}
		n, want, errno := o.writePieces(l.fd, most-total)
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
	return total, flushedAll
}

// writePieces writes the first pieces of the queue: at most `most` bytes, and at most flushBound.
func (o *output) writePieces(fd, most int) (n, want int, errno unix.Errno) {
	most = min(most, flushBound)
	if b := o.queue[o.head].b; o.head == len(o.queue)-1 && len(b) <= most {
		n, errno = send(fd, b)
		return max(n, 0), len(b), errno
	}
	var iov [iovBound]unix.Iovec
	count := 0
	for i := o.head; i < len(o.queue) && count < iovBound && want < most; i++ {
		b := o.queue[i].b
		if len(b) > most-want {
			b = b[:most-want]
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

// takeWhole removes and returns all output, if it is one short piece that may leave.
func (o *output) takeWhole() (p piece, ok bool) {
	switch {
	case len(o.marks) > 0 || len(o.tail.Lent) > 0 || o.bytes > flushBound/4:
		return p, false
	case len(o.queue) == 0 && len(o.tail.B) > 0:
		p.b = o.tail.B
		if p.release = o.tail.Taken(); p.release == nil {
			p.lease = p.b
		}
	case o.tail.B == nil && o.head == len(o.queue)-1:
		p = o.queue[o.head]
		o.queue[o.head] = piece{}
		o.idle -= p.idle
		o.emptyQueue()
	default:
		return p, false
	}
	o.bytes -= len(p.b)
	invariant.That(o.bytes == 0, "reactor.O2: %d bytes left in an empty output", o.bytes)
	return p, true
}

// putBack puts an unsent part of takeWhole's piece back. The output is empty.
func (o *output) putBack(p piece) {
	invariant.That(o.bytes == 0 && o.tail.B == nil, "reactor.U3: output was added to what the kernel has")
	o.queue = append(o.queue, p)
	o.bytes, o.idle = len(p.b), o.idle+p.idle
}

// advance drops n bytes that the kernel took, and the pieces that were sent completely.
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
	o.emptyQueue()
}

func (o *output) emptyQueue() {
	o.queue, o.head = o.queue[:0], 0
	if cap(o.queue) > postPieces {
		o.queue = nil
	}
}

// finish releases the memory of a piece (reactor.O3).
func (o *output) finish(pool *bufferPool, p *piece) {
	p.free(pool)
	o.idle -= p.idle
	*p = piece{}
}

// free releases the memory of a piece that is in no output.
func (p *piece) free(pool *bufferPool) {
	if p.lease != nil {
		pool.giveBack(p.lease)
	}
	if p.release != nil {
		p.release()
	}
}

// abandon releases all unsent output, because the connection ends.
func (o *output) abandon(pool *bufferPool) {
	for i := o.head; i < len(o.queue); i++ {
		o.finish(pool, &o.queue[i])
	}
	o.queue, o.head, o.bytes = nil, 0, 0
	o.marks, o.held = nil, 0
	for _, l := range o.tail.Lent {
		if l.Release != nil {
			l.Release()
		}
	}
	o.dropTail(pool)
	o.tail.Lent = nil
}

// pieces counts the pieces of the output.
func (o *output) pieces() int {
	n := len(o.queue) - o.head
	if len(o.tail.B) > 0 || len(o.tail.Lent) > 0 {
		n += 1 + len(o.tail.Lent)
	}
	return n
}
