package protocol

import "spindle/internal/invariant"

// A stream is a request whose last argument is read into separate memory as it arrives, instead of into the read
// buffer.
//
//	read buffer:  *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n | first bytes of the argument
//	              '------------ head, copied -----------'  '--------> Bulk.Data[:got]
//
// Memory grows with the bytes that arrive, not with the announced length. It begins small and becomes eight times as
// large whenever it is full. New bytes go to the new memory. With each read, as many old bytes are copied there, so
// that no single read copies much.
//
//	old   |xxxxxxxx|             len(old.Data) bytes, those below copied are in bulk too
//	bulk  |xxx.....|yyyy......................|   y: arrived since
//
// got also counts the CRLF after the argument: the request is complete at size+2.
type stream struct {
	head   []byte
	count  int
	bulk   *Bulk
	size   int // size of the argument
	got    int
	old    *Bulk // the earlier memory, until all of it is copied; usually nil
	copied int
}

const (
	bulkAtOnce = 1 << 20 // an argument up to this size gets all its memory at once
	bulkGrowth = 8       // larger steps copy less, smaller ones hold less memory for bytes that may never come
)

// bulkMemory returns how much memory an argument of size bytes gets when filled bytes of it have arrived. It is the
// smallest step above filled. Steps are size divided by powers of bulkGrowth, so that each step is filled to the same
// share.
func bulkMemory(size, filled int) int {
	for n := size; ; {
		smaller := (n + bulkGrowth - 1) / bulkGrowth
		if n <= bulkAtOnce || smaller <= filled {
			return n
		}
		n = smaller
	}
}

// Expects returns the memory that Stream needs for Large's argument. buf is the rest that the last Parse has left.
func (p *Parser) Expects(buf []byte) int {
	at, size, _ := p.Large()
	return bulkMemory(size, len(buf)-at)
}

// Stream moves Large's argument into b. b.Data has the size that Expects returns, or the argument's whole size. Stream
// takes all of buf, which is the rest that the last Parse has left. Later bytes go to Feed, or to Room and Advance,
// until Feed reports the request complete. The request is then p.Requests, with End 0. In between, Cramped may ask for
// more memory.
//
// Ownership: b belongs to the request. The caller calls b.Release after serving it unless Taken; see Served.
func (p *Parser) Stream(buf []byte, b *Bulk) {
	at, size, ok := p.Large()
	invariant.That(ok && len(b.Data) > len(buf)-at || len(b.Data) == size,
		"streaming %d bytes into %d (large: %t)", size, len(b.Data), ok)
	p.stream = stream{head: append([]byte(nil), buf[:at]...), count: p.count, bulk: b, size: size}
	p.forget()
	p.Requests = nil
	p.Feed(buf[at:])
}

// Cramped returns how much memory the argument needs to continue, or 0 if there is room. If it is not 0, the caller
// calls Enlarge before the next Feed.
func (p *Parser) Cramped() int {
	if s := &p.stream; s.bulk != nil && s.got == len(s.bulk.Data) && s.got < s.size {
		return bulkMemory(s.size, s.got)
	}
	return 0
}

// Enlarge continues in b, whose Data has the size that Cramped returned. The old memory is released when all of it was
// copied.
func (p *Parser) Enlarge(b *Bulk) {
	s := &p.stream
	s.moveOld(s.got)
	s.old, s.bulk, s.copied = s.bulk, b, 0
}

// moveOld copies up to n more bytes of the old memory.
func (s *stream) moveOld(n int) {
	if s.old == nil {
		return
	}
	s.copied += copy(s.bulk.Data[s.copied:min(s.copied+n, len(s.old.Data))], s.old.Data[s.copied:])
	if s.copied == len(s.old.Data) {
		s.dropOld()
	}
}

func (s *stream) dropOld() {
	if s.old != nil && s.old.Release != nil {
		s.old.Release(s.old)
	}
	s.old, s.copied = nil, 0
}

// Streaming reports whether a request is being streamed, or is complete and waits for Served.
func (p *Parser) Streaming() bool { return p.stream.bulk != nil }

// Streamed returns how much of the argument has arrived, and how much memory is lent for it. twice is the part of that
// memory that holds copies, because the argument is moving to larger memory.
func (p *Parser) Streamed() (got, lent, twice int) {
	s := &p.stream
	if s.bulk == nil {
		return 0, 0, 0
	}
	lent = len(s.bulk.Data)
	if s.old != nil {
		lent += len(s.old.Data)
	}
	return min(s.got, s.size), lent, s.copied
}

// Begun returns the argument's bytes so far, as far as they are contiguous. They lie in the bulk's memory.
func (p *Parser) Begun() []byte {
	got, _, _ := p.Streamed()
	if old := p.stream.old; old != nil { // a part of it has not been copied yet
		return old.Data[:min(got, len(old.Data))]
	}
	return p.stream.bulk.Data[:got]
}

// Lent reports whether the argument's memory belongs to the handler.
func (p *Parser) Lent() bool { return p.stream.bulk != nil && p.stream.bulk.Release != nil }

// Room returns where the argument's next bytes go, for a read directly into it. It is empty if only the CRLF is
// missing, or if Cramped is not 0.
func (p *Parser) Room() []byte {
	if s := &p.stream; s.got < len(s.bulk.Data) {
		return s.bulk.Data[s.got:]
	}
	return nil
}

// Advance notes that n bytes were read into Room. It never completes the request: the CRLF must come through Feed.
func (p *Parser) Advance(n int) {
	p.stream.got += n
	p.stream.moveOld(n)
}

// Feed takes the bytes that it needs from buf. n is their number, and complete means that the request is complete. If
// Cramped is not 0, it takes the rest only after Enlarge.
func (p *Parser) Feed(buf []byte) (n int, complete bool) {
	s := &p.stream
	n = copy(p.Room(), buf)
	p.Advance(n)
	if missing := s.size + 2 - s.got; missing <= 2 {
		skip := min(missing, len(buf)-n)
		s.got += skip
		n += skip
	}
	if s.got == s.size+2 {
		s.moveOld(s.size)
		p.Replay()
		return n, true
	}
	return n, false
}

// Replay restores p.Requests from a complete streamed request that the core has not run, to submit it again.
func (p *Parser) Replay() {
	s, into := &p.stream, p.scratch
	args := collect(s.head, s.count-1, into.args[:0])
	args = append(args, s.bulk.Data)
	into.args = args
	into.requests = append(into.requests[:0], Request{Args: args[:len(args):len(args)], Bulk: s.bulk})
	p.Requests = into.requests
}

// Served ends a streamed request after its batch was served, or one that will never be complete. It returns the
// request's bulk.
func (p *Parser) Served() *Bulk {
	b := p.stream.bulk
	p.stream.dropOld()
	p.stream = stream{}
	p.Requests = nil
	return b
}
