package protocol

import (
	"bytes"

	"spindle/internal/invariant"
	"spindle/internal/number"
)

// A Builder receives a reply as values instead of bytes. A script engine makes its own values of them, without encoding
// and parsing.
//
// Its calls come in the order of the bytes: plain values, and headers of aggregates before their elements. A header may
// come late (BeginAt); then it belongs at its mark.
//
// No method takes bytes, because arguments of an interface call escape to the heap, and callers keep short texts on the
// stack. Instead the caller fills the result of Room.
type Builder interface {
	Status(line string)
	Error(e *Error)
	Room(n int) []byte // a bulk string of n bytes, which the caller fills before its next call
	Int(n int64)
	Uint(n uint64)
	Null(array bool) // RESP2 distinguishes a null array from a null string
	Bool(b bool)
	Double(text string)
	BigNumber(digits string)
	Verbatim(format, text string)
	Begin(kind byte, n int)             // n values follow: kind is '*', '%', '~', '>' or '|', and a pair is two values
	Mark() int                          // the number of values and headers so far
	BeginAt(mark int, kind byte, n int) // Begin at mark
	Rollback(mark int)                  // removes everything since mark
	Size() int                          // how many bytes the reply would have
	Full() bool                         // no more values are wanted
}

// Build sends everything that follows to b instead of encoding it. nil switches back. The reply must be empty.
func (r *Reply) Build(b Builder) {
	invariant.That(r.Len() == 0, "a reply of %d bytes cannot become values", r.Len())
	r.into = b
}

// Built returns the same as Len, also for a reply that goes to a Builder.
func (r *Reply) Built() int {
	if r.into != nil {
		return r.into.Size()
	}
	return r.Len()
}

// lendInto copies a lent bulk string into the builder.
func (r *Reply) lendInto(total int, release func(), pieces [][]byte) {
	room := r.into.Room(total)
	for _, piece := range pieces {
		room = room[copy(room, piece):]
	}
	if release != nil {
		release()
	}
}

// replay sends RESP bytes to a builder. This server has made the bytes, so they are well formed.
func replay(b Builder, p []byte) {
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
