package protocol

import "spindle/internal/invariant"

// A stream is a request whose last argument is read into memory of its own as it arrives, instead of into the read
// buffer.
//
//	read buffer:  *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n | first bytes of the argument
//	              '------------ head, copied -----------'  '--------> Bulk.Data[:got]
//
// Memory follows what arrives, not what was announced: it begins small and becomes eight times as large whenever it is
// full. The new memory takes the bytes that arrive, and as many of the old ones at a time, so that no single read
// copies much.
//
//	old   |xxxxxxxx|             len(old.Data) bytes, those below copied are in bulk too
//	bulk  |xxx.....|yyyy......................|   y: arrived since
//
// got counts the two bytes behind the argument too: the request is complete at size+2.
type stream struct {
	head   []byte
	count  int
	bulk   *Bulk
	size   int // of the argument
	got    int
	old    *Bulk // the memory before, until all of it is copied; nil nearly always
	copied int
}

const (
	bulkAtOnce = 1 << 20 // an argument up to here gets all its memory at once
	bulkGrowth = 8       // larger steps copy less, smaller ones hold less memory for what may never come
)

// bulkMemory is how much memory an argument of size bytes gets when filled of them are there: the smallest step above
// that. The steps are size divided by powers of bulkGrowth, so that each is filled to the same share before the next.
func bulkMemory(size, filled int) int {
	for n := size; ; {
		smaller := (n + bulkGrowth - 1) / bulkGrowth
		if n <= bulkAtOnce || smaller <= filled {
			return n
		}
		n = smaller
	}
}

// Expects is how much memory Stream needs for the argument that Large spoke of, when buf is what the last Parse left.
func (p *Parser) Expects(buf []byte) int {
	at, size, _ := p.Large()
	return bulkMemory(size, len(buf)-at)
}

// Stream puts the argument that Large spoke of into b, whose Data has as many bytes as Expects says, or all the
// argument has. It takes all of buf, which is what the last Parse left. From here on bytes go to Feed, or to Room and
// Advance, until either says that the request is complete; it is p.Requests then, with End 0, because it was not cut
// from a buffer. In between, Cramped may ask for more memory.
//
// Ownership: b is the request's; the caller calls b.Release after serving it unless Taken, see Served.
func (p *Parser) Stream(buf []byte, b *Bulk) {
	at, size, ok := p.Large()
	invariant.That(ok && len(b.Data) > len(buf)-at || len(b.Data) == size,
		"streaming %d bytes into %d (large: %t)", size, len(b.Data), ok)
	p.stream = stream{head: append([]byte(nil), buf[:at]...), count: p.count, bulk: b, size: size}
	p.forget()
	p.Requests = nil
	p.Feed(buf[at:])
}

// Cramped is how much memory the argument needs to go on: 0 while there is room, else Enlarge has to come before the
// next Feed.
func (p *Parser) Cramped() int {
	if s := &p.stream; s.bulk != nil && s.got == len(s.bulk.Data) && s.got < s.size {
		return bulkMemory(s.size, s.got)
	}
	return 0
}

// Enlarge goes on in b, whose Data has as many bytes as Cramped says. The memory before is released when all of it has
// been copied.
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

// Streaming says whether a request is being streamed, or has been and waits for Served.
func (p *Parser) Streaming() bool { return p.stream.bulk != nil }

// Streamed is how much of the argument has arrived, how many bytes the handler or the Go heap has lent for it, and of
// these how many are a copy of others, because the argument moves to larger memory.
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

// Begun is the beginning of what has arrived of the argument, as far as it lies together. It is the bulk's memory.
func (p *Parser) Begun() []byte {
	got, _, _ := p.Streamed()
	if old := p.stream.old; old != nil { // not all of it has been moved
		return old.Data[:min(got, len(old.Data))]
	}
	return p.stream.bulk.Data[:got]
}

// Lent says whether the argument's memory is the handler's.
func (p *Parser) Lent() bool { return p.stream.bulk != nil && p.stream.bulk.Release != nil }

// Room is where the next bytes of the argument go, for a read straight into it; empty when only its CRLF is missing, or
// Cramped.
func (p *Parser) Room() []byte {
	if s := &p.stream; s.got < len(s.bulk.Data) {
		return s.bulk.Data[s.got:]
	}
	return nil
}

// Advance says that n bytes were read into Room. It never completes the request: the CRLF has still to be fed.
func (p *Parser) Advance(n int) {
	p.stream.got += n
	p.stream.moveOld(n)
}

// Feed takes what it needs of buf and says how much that was, and whether the request is complete. If it is Cramped, it
// takes the rest of what it needs after Enlarge.
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

// Replay makes p.Requests again from a complete streamed request: when the core left it undone, it is submitted once
// more.
func (p *Parser) Replay() {
	s, into := &p.stream, p.scratch
	args := collect(s.head, s.count-1, into.args[:0])
	args = append(args, s.bulk.Data)
	into.args = args
	into.requests = append(into.requests[:0], Request{Args: args[:len(args):len(args)], Bulk: s.bulk})
	p.Requests = into.requests
}

// Served ends a streamed request after its batch was served, or one that will never be complete, and returns its bulk.
func (p *Parser) Served() *Bulk {
	b := p.stream.bulk
	p.stream.dropOld()
	p.stream = stream{}
	p.Requests = nil
	return b
}
