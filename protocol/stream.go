package protocol

import "spindle/internal/invariant"

// A stream is a request whose last argument is read into memory of its own as it arrives, instead of into the read buffer.
//
//	read buffer:  *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n | first bytes of the argument
//	              '------------ head, copied -----------'  '--------> Bulk.Data[:got]
//
// got counts the two bytes behind the argument too: the request is complete at len(Data)+2.
type stream struct {
	head  []byte
	count int
	bulk  *Bulk
	got   int
}

// Stream puts the argument that Large spoke of into b, whose Data has exactly that size. It takes all of buf, which is what the last
// Parse left. From here on bytes go to Feed, or to Room and Advance, until either says that the request is complete;
// it is p.Requests then, with End 0, because it was not cut from a buffer.
//
// Ownership: b is the request's; the caller calls b.Release after serving it unless Taken, see Served.
func (p *Parser) Stream(buf []byte, b *Bulk) {
	at, size, ok := p.Large()
	invariant.That(ok && len(b.Data) == size, "streaming %d bytes into %d (large: %t)", size, len(b.Data), ok)
	p.stream = stream{head: append([]byte(nil), buf[:at]...), count: p.count, bulk: b}
	p.forget()
	p.Requests = nil
	p.Feed(buf[at:])
}

// Streaming says whether a request is being streamed, or has been and waits for Served.
func (p *Parser) Streaming() bool { return p.stream.bulk != nil }

// Streamed is how much of the argument has arrived, and how long it is.
func (p *Parser) Streamed() (got, size int) {
	if p.stream.bulk == nil {
		return 0, 0
	}
	size = len(p.stream.bulk.Data)
	return min(p.stream.got, size), size
}

// Begun is what has arrived of the argument. It is the bulk's memory.
func (p *Parser) Begun() []byte {
	got, _ := p.Streamed()
	return p.stream.bulk.Data[:got]
}

// Lent says whether the argument's memory is the handler's.
func (p *Parser) Lent() bool { return p.stream.bulk != nil && p.stream.bulk.Release != nil }

// Room is where the next bytes of the argument go, for a read straight into it; empty when only its CRLF is missing.
func (p *Parser) Room() []byte {
	if s := &p.stream; s.got < len(s.bulk.Data) {
		return s.bulk.Data[s.got:]
	}
	return nil
}

// Advance says that n bytes were read into Room. It never completes the request: the CRLF has still to be fed.
func (p *Parser) Advance(n int) { p.stream.got += n }

// Feed takes what it needs of buf and says how much that was, and whether the request is complete.
func (p *Parser) Feed(buf []byte) (n int, complete bool) {
	s := &p.stream
	n = copy(p.Room(), buf)
	s.got += n
	if missing := len(s.bulk.Data) + 2 - s.got; missing <= 2 {
		skip := min(missing, len(buf)-n)
		s.got += skip
		n += skip
	}
	if s.got == len(s.bulk.Data)+2 {
		p.Replay()
		return n, true
	}
	return n, false
}

// Replay makes p.Requests again from a complete streamed request: when the core left it undone, it is submitted once more.
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
	p.stream = stream{}
	p.Requests = nil
	return b
}
