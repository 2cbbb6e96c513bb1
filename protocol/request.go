package protocol

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"spindle/internal/number"
)

// Bounds of a client's requests.
const (
	MaxLine = 64 << 10 // an inline request, or a line with a length
	BigBulk = 32 << 10 // a last argument of at least this many bytes may be streamed into a Bulk

	unauthenticatedArgs = 10
	unauthenticatedBulk = 16 << 10
	maxBatch            = 1024 // requests of one Parse, to keep a batch and so a turn short
)

// Limits are the protocol limits that hold for one client during a Parse.
type Limits struct {
	MaxBulk         int  // proto-max-bulk-len; 0: no limit (a primary's stream)
	Unauthenticated bool // a password is required and was not given: only small requests are allowed
}

// A Limiter is a Session (see Handler.Open) that has its own protocol limits. The loop asks before each Parse, on the
// goroutine that calls Serve.
type Limiter interface{ Limits() Limits }

// A Scratch is the memory for a Parse's requests. Several parsers may share one if each batch is served before the next
// Parse. So an event loop needs only one.
type Scratch struct {
	requests []Request
	args     [][]byte
	text     []byte // unescaped quoted words of inline requests
}

// A Parser splits the bytes of one connection into requests. The zero value is ready, without limits.
//
//	buf:  *1\r\n$4\r\nPING\r\n  *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhel
//	      '---- request ----'   '-- incomplete: state below ----------'
//	                            0                           at      len(buf)
//
// An incomplete request is not parsed again when more bytes arrive. So any number of reads takes time linear in the
// bytes. That holds for a million arguments in single bytes, and for one argument of 512 MB in pieces.
//
// protocol.I1. consumed is where the incomplete request begins. The caller keeps buf[consumed:], appends new bytes, and
// calls Parse on that. Offsets of the state count from there.
// protocol.I2. How the bytes are cut into reads changes neither the requests nor the error that ends them.
// protocol.I3. An error comes alone: the Parse before returned the requests before it.
type Parser struct {
	Requests []Request // requests that the last Parse, Feed or Advance completed
	Limits   Limits

	scratch *Scratch
	more    bool

	// The state of the incomplete request.
	kind  byte // 0: none
	bulk  bool // an argument's header was read, its bytes are missing
	count int  // number of arguments it announced
	left  int  // number of arguments still missing; 0: the count itself is missing
	at    int  // offset of the first byte not parsed: a header, or the argument's bytes
	size  int  // length of the current argument
	seen  int  // offset up to which a line's end has been searched
	need  int  // length of buf that the next Parse needs

	stream stream
}

const (
	multibulk = byte('*')
	inline    = byte('i')
)

// NewParser returns a parser that puts its requests into s; nil gives it its own memory.
func NewParser(s *Scratch) *Parser { return &Parser{scratch: s} }

// Use gives p another scratch memory, when its connection moves to another loop.
func (p *Parser) Use(s *Scratch) { p.scratch = s }

// Parse cuts buf into complete requests (p.Requests) and returns how many bytes they took.
//
// Shape: arguments are views into buf, in wire order. Quoted words of inline requests are in the scratch memory.
// Lifetime: until the next Parse on the same scratch memory, or until buf changes.
// Errors: the protocol error to send before closing; nothing after it can be parsed.
// Cost: no allocation in steady state; about 10 ns an argument.
// Source: the RESP2 specification; where it is silent, Redis 7.4's behaviour.
func (p *Parser) Parse(buf []byte) (consumed int, err *Error) {
	s := p.scratch
	if s == nil {
		s = &Scratch{}
		p.scratch = s
	}
	s.trim()
	p.Requests, p.more = nil, false
	requests, args := s.requests[:0], s.args[:0]
	maxSize := uint(math.MaxInt)
	if p.Limits.MaxBulk != 0 {
		maxSize = uint(p.Limits.MaxBulk)
	}
	if p.Limits.Unauthenticated {
		maxSize = min(maxSize, unauthenticatedBulk)
	}
	at := 0
	if p.kind != 0 {
		if len(buf) < p.need {
			return 0, nil
		}
		goto slow
	}

next:
	for at < len(buf) && len(requests) < maxBatch {
		if buf[at] != '*' {
			p.kind = inline
			goto slow
		}
		// This is the usual case, without state: a count and lengths of few digits, and all bytes are present.
		var count, pos int
		first := len(args)
		if w := word(buf, at); isOneDigit(w, '*') {
			count, pos = int(w>>8&0xff-'0'), at+4
		} else {
			count, pos = shortHeader(buf, at, '*')
		}
		if count <= 0 || count > unauthenticatedArgs && p.Limits.Unauthenticated {
			p.kind = multibulk
			goto slow
		}
		for range count {
			if len(buf)-pos < 6 { // "$0\r\n\r\n"
				args = args[:first]
				p.kind = multibulk
				goto slow
			}
			var size int
			switch w := word(buf, pos); {
			case isOneDigit(w, '$'):
				size = int(w>>8&0xff - '0')
				pos += 4
			case isTwoDigits(w, '$') && buf[pos+4] == '\n':
				size = int((w>>8&0xff-'0')*10 + w>>16&0xff - '0')
				pos += 5
			default:
				size, pos = shortHeader(buf, pos, '$')
			}
			end := pos + size
			if uint(size) > maxSize || end > len(buf)-2 { // too long, wrong, or incomplete
				args = args[:first]
				p.kind = multibulk
				goto slow
			}
			args = append(args, buf[pos:end:end])
			pos = end + 2
		}
		at = pos
		if len(requests) == cap(requests) {
			requests = slices.Grow(requests, 1)
		}
		// The fields are set one by one. append would build the request elsewhere in single words and copy pairs of
		// words. The processor then waits until the words are in the cache: 5 ns a request (BenchmarkBatch/PING of
		// package server).
		requests = requests[:len(requests)+1]
		r := &requests[len(requests)-1]
		r.Args, r.End, r.Bulk = args[first:len(args):len(args)], at, nil
	}
	p.more = at < len(buf)
	goto done

slow:
	{
		var complete bool
		first := len(args)
		if p.kind == inline {
			args, complete, err = p.parseInline(buf[at:], args)
		} else if complete, err = p.resume(buf[at:]); complete {
			args = collect(buf[at:at+p.at], p.count, args)
		}
		switch {
		case err != nil && len(requests) > 0: // protocol.I3
			p.forget()
			p.more, err = true, nil
		case complete:
			at += p.at
			p.forget()
			if len(args) > first {
				requests = append(requests, Request{Args: args[first:len(args):len(args)], End: at})
			}
			goto next
		}
	}

done:
	s.requests, s.args = requests, args
	p.Requests = requests
	return at, err
}

// More reports that Parse stopped although buf has more requests. The caller serves p.Requests, then calls Parse on the
// rest.
func (p *Parser) More() bool { return p.more }

// Pending reports whether a request is incomplete.
func (p *Parser) Pending() bool { return p.kind != 0 }

// Need returns the buffer length, from the start of the incomplete request, that the next Parse needs to make progress.
// It is at least the end of the current argument. Parsing earlier is harmless. Need is 0 if no request is pending.
func (p *Parser) Need() int { return p.need }

// Awaited returns the length of the current incomplete argument, or 0 if there is none.
func (p *Parser) Awaited() int {
	if !p.bulk {
		return 0
	}
	return p.size
}

// Large reports whether only the last argument is missing, and it is large enough for a Bulk. Its size bytes begin at
// buf[at].
func (p *Parser) Large() (at, size int, ok bool) {
	if p.bulk && p.left == 1 && p.size >= BigBulk {
		return p.at, p.size, true
	}
	return 0, 0, false
}

// Reset forgets the incomplete request, so that the parser can serve another connection.
func (p *Parser) Reset() {
	p.forget()
	p.Requests, p.more = nil, false
	p.stream = stream{}
}

func (p *Parser) forget() {
	p.kind, p.bulk = 0, false
	p.count, p.left, p.at, p.size, p.seen, p.need = 0, 0, 0, 0, 0, 0
}

// trim frees the memory of a request with very many arguments.
func (s *Scratch) trim() {
	const keep = 16 << 10
	if cap(s.args) > keep && len(s.args) < keep/4 {
		s.args = make([][]byte, 0, keep/4)
	}
	if s.text = s.text[:0]; cap(s.text) > MaxLine {
		s.text = nil
	}
}

// word returns the four bytes at buf[at], the first one lowest. It returns 0 if there are fewer than four.
func word(buf []byte, at int) uint32 {
	if len(buf)-at < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(buf[at:])
}

// isOneDigit reports whether w is kind, a digit, CR and LF.
func isOneDigit(w uint32, kind byte) bool {
	return w&0xffff00ff == uint32(kind)|'\r'<<16|'\n'<<24 && w>>8&0xff-'0' <= 9
}

// isTwoDigits reports whether w is kind, two digits without a leading zero, and CR.
func isTwoDigits(w uint32, kind byte) bool {
	return w&0xff0000ff == uint32(kind)|'\r'<<24 && w>>8&0xff-'1' <= 8 && w>>16&0xff-'0' <= 9
}

// shortHeader reads kind, one to nine digits, CR and LF at buf[at]. It returns the number and the offset after them.
// For an incomplete, wrong or unusual header n is -1.
func shortHeader(buf []byte, at int, kind byte) (n, next int) {
	b := buf[at:]
	if len(b) < 4 || b[0] != kind {
		return -1, at
	}
	n = int(b[1] - '0')
	if n > 9 {
		return -1, at
	}
	if n == 0 && b[2] != '\r' {
		return -1, at // a leading zero
	}
	for i := 2; i < len(b)-1 && i < 11; i++ {
		c := b[i]
		if c == '\r' {
			if b[i+1] != '\n' {
				return -1, at
			}
			return n, at + i + 2
		}
		digit := int(c - '0')
		if digit > 9 {
			return -1, at
		}
		n = n*10 + digit
	}
	return -1, at
}

// resume continues with the incomplete multibulk request at the start of buf. When it is complete, p.count is the
// number of its arguments and p.at its length.
func (p *Parser) resume(buf []byte) (complete bool, err *Error) {
	if p.left == 0 {
		n, ok, err := p.header(buf, ErrTooBigMultibulkCount)
		if !ok {
			return false, err
		}
		switch {
		case n.bad || n.value > math.MaxInt32:
			return false, ErrMultibulkLength
		case n.value > unauthenticatedArgs && p.Limits.Unauthenticated:
			return false, ErrUnauthenticatedMultibulk
		}
		p.at = n.next
		if n.value <= 0 {
			return true, nil
		}
		p.count, p.left = int(n.value), int(n.value)
	}
	for p.left > 0 {
		if !p.bulk {
			n, ok, err := p.header(buf, ErrTooBigBulkCount)
			if !ok {
				return false, err
			}
			switch {
			case buf[p.at] != '$':
				return false, Errorf("ERR", "Protocol error: expected '$', got '%s'", buf[p.at:p.at+1])
			case n.bad || n.value < 0 || p.Limits.MaxBulk != 0 && n.value > int64(p.Limits.MaxBulk):
				return false, ErrBulkLength
			case n.value > unauthenticatedBulk && p.Limits.Unauthenticated:
				return false, ErrUnauthenticatedBulk
			}
			p.at, p.size, p.bulk = n.next, int(n.value), true
		}
		if len(buf)-p.at-2 < p.size {
			p.need = p.at + p.size + 2
			return false, nil
		}
		p.at += p.size + 2 // the bytes in place of the CRLF are not checked
		p.bulk = false
		p.left--
	}
	return true, nil
}

// length is the number in a header line.
type length struct {
	value int64
	bad   bool // not a number
	next  int  // offset after the line
}

// header reads the line at p.at; the caller checks the line's first byte. ok is false if the line is incomplete, or
// longer than a line may be. For a line that is too long, err is tooLong.
func (p *Parser) header(buf []byte, tooLong *Error) (n length, ok bool, err *Error) {
	end, err := p.lineEnd(buf, '\r', tooLong)
	if err != nil || end < 0 {
		return n, false, err
	}
	if end+1 >= len(buf) {
		p.need = end + 2
		return n, false, nil
	}
	n.next, n.bad = end+2, true
	if end > p.at {
		value, good := number.ParseInt(buf[p.at+1 : end])
		n.value, n.bad = value, !good
	}
	return n, true, nil
}

// lineEnd finds the first c at or after p.at, without searching bytes twice. A NUL hides everything after it, as in
// Redis: a line with a NUL ends only by being too long. lineEnd returns -1 if c has not arrived.
func (p *Parser) lineEnd(buf []byte, c byte, tooLong *Error) (int, *Error) {
	from := max(p.at, p.seen)
	window := buf[min(from, len(buf)):min(len(buf), p.at+MaxLine+1)]
	end := bytes.IndexByte(window, c)
	if end >= 0 {
		window = window[:end]
	}
	if nul := bytes.IndexByte(window, 0); nul >= 0 {
		p.seen = from + nul
	} else if end >= 0 {
		p.seen = from + end
		return p.seen, nil
	} else {
		p.seen = from + len(window)
	}
	if len(buf)-p.at > MaxLine {
		return -1, tooLong
	}
	p.need = len(buf) + 1
	return -1, nil
}

// collect appends views of the first n arguments of a multibulk request that is well-formed so far.
func collect(request []byte, n int, args [][]byte) [][]byte {
	at := bytes.IndexByte(request, '\r') + 2
	for range n {
		end := at + bytes.IndexByte(request[at:], '\r')
		size, _ := number.ParseInt(request[at+1 : end])
		from := end + 2
		to := from + int(size)
		args = append(args, request[from:to:to])
		at = to + 2
	}
	return args
}
