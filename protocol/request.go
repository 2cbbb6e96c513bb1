package protocol

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"spindle/internal/number"
)

// Bounds of what a client may send before it is cut off.
const (
	MaxLine = 64 << 10 // an inline request, or the line of a length
	BigBulk = 32 << 10 // a last argument of at least this many bytes may be streamed into a Bulk

	unauthenticatedArgs = 10
	unauthenticatedBulk = 16 << 10
	maxBatch            = 1024 // requests of one Parse: keeps a batch, and so a turn, short
)

// Limits are what the protocol allows one client at the moment of a Parse.
type Limits struct {
	MaxBulk         int  // proto-max-bulk-len; 0 means no limit (a primary's stream)
	Unauthenticated bool // a password is asked for and has not been given: small requests only
}

// A Limiter is a Session (see Handler.Open) that knows its client's limits. The loop asks before each Parse, on the
// goroutine that calls Serve.
type Limiter interface{ Limits() Limits }

// A Scratch is the memory a Parse puts requests into. One serves any number of parsers as long as a batch has been
// served before the next Parse: an event loop has one, whatever the number of its connections.
type Scratch struct {
	requests []Request
	args     [][]byte
	text     []byte // quoted words of inline requests, unescaped
}

// A Parser cuts the requests of one connection out of its bytes. The zero value is ready, without limits.
//
//	buf:  *1\r\n$4\r\nPING\r\n  *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhel
//	      '---- request ----'   '-- incomplete: state below ----------'
//	                            0                           at      len(buf)
//
// What is incomplete is remembered, not parsed again when more bytes arrive, so any number of reads costs time linear
// in the bytes, whether a million arguments come one byte at a time or one argument of 512 MB comes in pieces.
//
// protocol.I1. consumed is where the incomplete request begins: the caller keeps buf[consumed:], appends what arrives,
// and calls Parse on that. Offsets of the state count from there.
// protocol.I2. How the bytes are cut into reads never changes what is read, nor which error ends it.
// protocol.I3. An error comes alone: requests before it were returned by the Parse before.
type Parser struct {
	Requests []Request // what the last Parse, Feed or Advance completed
	Limits   Limits

	scratch *Scratch
	more    bool

	// The incomplete request.
	kind  byte // 0: none
	bulk  bool // the header of an argument was read, its bytes are awaited
	count int  // arguments it announced
	left  int  // arguments still missing; 0: the count itself is
	at    int  // offset of the first byte not understood: a header, or the argument's bytes
	size  int  // of the argument awaited
	seen  int  // offset up to which the end of a line has been looked for
	need  int  // length of buf below which Parse cannot go on

	stream stream
}

const (
	multibulk = byte('*')
	inline    = byte('i')
)

// NewParser returns a parser that puts its requests into s; nil gives it memory of its own.
func NewParser(s *Scratch) *Parser { return &Parser{scratch: s} }

// Use gives p another scratch memory: when its connection moves to another loop.
func (p *Parser) Use(s *Scratch) { p.scratch = s }

// Parse cuts the complete requests out of buf into p.Requests and says how many bytes they took.
//
// Shape: arguments are views into buf, in wire order (quoted words of inline requests: into the scratch memory).
// Lifetime: until the next Parse on the same scratch memory, or until buf changes.
// Errors: the protocol error to answer before closing; nothing behind it can be trusted.
// Cost: no allocation in steady state; some 10 ns an argument.
// Source: the RESP2 specification; where it is silent, what Redis 7.4 does with the bytes.
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
		// The usual case, without a state: a count and lengths of few digits, everything there.
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
			if uint(size) > maxSize || end > len(buf)-2 { // too much, wrong, or not there yet
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
		// Field by field: append would put the request together elsewhere in words and copy it in pairs of words, which
		// the processor makes wait until the words have reached the cache: 5 ns a request (BenchmarkBatch/PING of
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

// More says that Parse stopped although more of buf can be understood: serve p.Requests, then call Parse on the rest.
func (p *Parser) More() bool { return p.more }

// Pending says whether a request is incomplete.
func (p *Parser) Pending() bool { return p.kind != 0 }

// Need is how long the buffer must be, from the beginning of the incomplete request, before a Parse can get any
// further: at least the end of the argument that is awaited. Parsing earlier is harmless. 0 if nothing is pending.
func (p *Parser) Need() int { return p.need }

// Awaited is the length of the argument that has begun and is not complete; 0 if there is none.
func (p *Parser) Awaited() int {
	if !p.bulk {
		return 0
	}
	return p.size
}

// Large says whether the incomplete request waits only for its last argument and that is worth a Bulk: size bytes of
// which the first is, or will be, buf[at].
func (p *Parser) Large() (at, size int, ok bool) {
	if p.bulk && p.left == 1 && p.size >= BigBulk {
		return p.at, p.size, true
	}
	return 0, 0, false
}

// Reset forgets the incomplete request, for a parser's next connection.
func (p *Parser) Reset() {
	p.forget()
	p.Requests, p.more = nil, false
	p.stream = stream{}
}

func (p *Parser) forget() {
	p.kind, p.bulk = 0, false
	p.count, p.left, p.at, p.size, p.seen, p.need = 0, 0, 0, 0, 0, 0
}

// trim lets go of memory that a request of very many arguments left behind.
func (s *Scratch) trim() {
	const keep = 16 << 10
	if cap(s.args) > keep && len(s.args) < keep/4 {
		s.args = make([][]byte, 0, keep/4)
	}
	if s.text = s.text[:0]; cap(s.text) > MaxLine {
		s.text = nil
	}
}

// word is the four bytes at buf[at], the first one lowest; 0 if there are not four.
func word(buf []byte, at int) uint32 {
	if len(buf)-at < 4 {
		return 0
	}
	return binary.LittleEndian.Uint32(buf[at:])
}

// isOneDigit says that w is kind, a digit, CR and LF.
func isOneDigit(w uint32, kind byte) bool {
	return w&0xffff00ff == uint32(kind)|'\r'<<16|'\n'<<24 && w>>8&0xff-'0' <= 9
}

// isTwoDigits says that w is kind, two digits of which the first is not 0, and CR.
func isTwoDigits(w uint32, kind byte) bool {
	return w&0xff0000ff == uint32(kind)|'\r'<<24 && w>>8&0xff-'1' <= 8 && w>>16&0xff-'0' <= 9
}

// shortHeader reads kind, one to nine digits, CR and LF at buf[at], and returns the number and the offset behind them.
// -1 stands for everything else: incomplete, wrong, or merely unusual.
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

// resume goes on with the incomplete multibulk request at the beginning of buf, as far as buf reaches. When it is
// complete, p.count is the number of its arguments and p.at its length.
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
		p.at += p.size + 2 // what stands in the place of the CRLF is not looked at
		p.bulk = false
		p.left--
	}
	return true, nil
}

// length is the number in a header line.
type length struct {
	value int64
	bad   bool // not a number
	next  int  // offset behind the line
}

// header reads the line at p.at, of which the first byte is left to the caller. Not ok: it is not complete yet, or
// longer than any line may be, which tooLong says.
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

// lineEnd finds the first c at or behind p.at, not looking twice at what an earlier call has looked at. A NUL hides
// everything behind it, as it does from the reference server: such a line ends only by being too long. -1: not there
// yet.
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

// collect appends views of the first n arguments of a multibulk request that is known to be well-formed so far.
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
