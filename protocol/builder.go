package protocol

import (
	"bytes"

	"spindle/internal/invariant"
	"spindle/internal/number"
)

// A Builder takes a reply as values instead of bytes: a script's machine makes its own values of them, and nothing is
// encoded and parsed again.
//
// It is told what the bytes would say, in their order: plain values, and announcements of aggregates before their
// elements. An announcement may come late (BeginAt); then it belongs where the mark was set.
//
// No method takes bytes: what an interface is given escapes, and callers keep short texts on their stacks. Room is
// filled instead.
type Builder interface {
	Status(line string)
	Error(e *Error)
	Room(n int) []byte // a bulk string of n bytes, which the caller fills before its next call
	Int(n int64)
	Uint(n uint64)
	Null(array bool) // RESP2 tells a null array from a null string
	Bool(b bool)
	Double(text string)
	BigNumber(digits string)
	Verbatim(format, text string)
	Begin(kind byte, n int)             // n values follow: kind is '*', '%', '~', '>' or '|', and a pair is two values
	Mark() int                          // how many values and announcements there are so far
	BeginAt(mark int, kind byte, n int) // Begin, where mark was set
	Rollback(mark int)                  // what came since mark is forgotten
	Full() bool                         // no more values are wanted
}

// Build has all that follows told to b instead of written as bytes; nil goes back to bytes. The reply must be empty.
func (r *Reply) Build(b Builder) {
	invariant.That(r.Len() == 0, "a reply of %d bytes cannot become values", r.Len())
	r.into = b
}

// lendInto tells a builder of a lent bulk string, which is copied there.
func (r *Reply) lendInto(total int, release func(), pieces [][]byte) {
	room := r.into.Room(total)
	for _, piece := range pieces {
		room = room[copy(room, piece):]
	}
	if release != nil {
		release()
	}
}

// tell has a builder hear what RESP bytes say. They are our own, so they are well formed.
func tell(b Builder, p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\r')
		line, rest := p[1:end], p[end+2:]
		switch kind := p[0]; kind {
		case '+':
			b.Status(string(line))
		case '-':
			code, text, _ := bytes.Cut(line, []byte{' '})
			b.Error(&Error{string(code), string(text)})
		case ':':
			if n, ok := number.ParseInt(line); ok {
				b.Int(n)
			} else {
				n, _ := number.ParseUint(line)
				b.Uint(n)
			}
		case '_':
			b.Null(false)
		case '#':
			b.Bool(line[0] == 't')
		case ',':
			b.Double(string(line))
		case '(':
			b.BigNumber(string(line))
		default:
			n, _ := number.ParseInt(line)
			switch {
			case n < 0:
				b.Null(kind == '*')
			case kind == '$':
				copy(b.Room(int(n)), rest)
				rest = rest[n+2:]
			case kind == '=':
				b.Verbatim(string(rest[:3]), string(rest[4:n]))
				rest = rest[n+2:]
			case kind == '%' || kind == '|':
				b.Begin(kind, int(2*n))
			default:
				b.Begin(kind, int(n))
			}
		}
		p = rest
	}
}
