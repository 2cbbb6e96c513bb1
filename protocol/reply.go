package protocol

import (
	"errors"
	"slices"

	"spindle/internal/invariant"
	"spindle/internal/number"
)

// A Reply collects the bytes of the replies to a batch. Handlers append to a buffer. Lent pieces between its bytes are
// sent without copying.
//
//	B:     +OK\r\n $5\r\nhello\r\n $536870912\r\n | \r\n :1\r\n
//	lent:                                         ^ At = 35: Data (off the heap), Release when it has left
//
// Lifetime: the loop owns it. A handler may append during Serve and must not keep any of it.
//
// A long reply is not one buffer: see spill.go.
//
// protocol.L1. Lent is sorted by At, and no At is beyond len(B).
// protocol.L2. lent is the length of all Lent's Data and of dropped bytes. So a Mark's offset in the reply is
// len(B)+lent.
type Reply struct {
	B      []byte
	RESP3  bool // the client sent HELLO 3: maps, sets, doubles, nulls and pushes have their own types
	Lent   []Lent
	NoData bool   // it shows no data, and waits for no replica; only a Conn's PostReply reads it
	Chunks Chunks // memory for long replies; nil: the reply stays in one buffer, B

	into    Builder // takes values instead of bytes (Build); usually nil
	lent    int
	release func() // frees the chunk that holds B
	full    bool   // Chunks has refused more memory
	whole   int    // if full: the reply's length when it became full; nothing before that was dropped
	kept    int    // if full: len(Lent) at that time
}

// A Lent is a piece of a reply that is sent from where it lies.
type Lent struct {
	At      int // it goes before B[At]
	Data    []byte
	Release func() // called once, on any goroutine, when Data is no longer needed; may be nil
}

// OK replies +OK.
func (r *Reply) OK() {
	if r.into != nil {
		r.into.Status("OK")
		return
	}
	r.B = append(r.B, "+OK\r\n"...)
}

// Simple replies a status line. s has no CR or LF.
func (r *Reply) Simple(s string) {
	if r.into != nil {
		r.into.Status(s)
		return
	}
	r.B = append(append(append(r.B, '+'), s...), '\r', '\n')
}

// Error replies an error: "-CODE text" for an *Error (also a wrapped one), "-ERR text" for any other error. It removes
// CR and LF at the ends of the text and replaces them by spaces inside. So a client's bytes cannot begin a second
// reply.
func (r *Reply) Error(err error) {
	e, ok := err.(*Error)
	if !ok {
		e = asError(err)
	}
	if r.into != nil {
		r.into.Error(&Error{e.Code, string(appendLine(nil, e.Text))})
		return
	}
	r.B = append(append(r.B, '-'), e.Code...)
	if e.Text != "" {
		r.B = appendLine(append(r.B, ' '), e.Text)
	}
	r.B = append(r.B, '\r', '\n')
}

// asError returns the *Error that err wraps, or makes one.
func asError(err error) *Error {
	if e := new(Error); errors.As(err, &e) {
		return e
	}
	return &Error{"ERR", err.Error()}
}

// appendLine appends text. It drops CR and LF at the ends of the text, and writes spaces for those inside.
func appendLine(dst []byte, text string) []byte {
	for text != "" && isNewline(text[0]) {
		text = text[1:]
	}
	for text != "" && isNewline(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	from := len(dst)
	dst = append(dst, text...)
	for i := from; i < len(dst); i++ {
		if isNewline(dst[i]) {
			dst[i] = ' '
		}
	}
	return dst
}

func isNewline(c byte) bool { return c == '\r' || c == '\n' }

// Bulk replies one string of any bytes.
func (r *Reply) Bulk(p []byte) {
	if r.into != nil {
		copy(r.into.Room(len(p)), p)
		return
	}
	b := appendHeader(r.room(len(p)+headerMax+2), '$', len(p))
	b = append(b, p...)
	r.B = append(b, '\r', '\n')
}

// BulkString is Bulk for a Go string.
func (r *Reply) BulkString(s string) {
	if r.into != nil {
		copy(r.into.Room(len(s)), s)
		return
	}
	b := appendHeader(r.room(len(s)+headerMax+2), '$', len(s))
	b = append(b, s...)
	r.B = append(b, '\r', '\n')
}

// BulkInt replies n as a bulk string: "$2\r\n10\r\n".
func (r *Reply) BulkInt(n int64) {
	if r.into != nil {
		number.AppendInt(r.into.Room(number.IntLen(n))[:0], n)
		return
	}
	b := appendHeader(r.room(number.MaxIntLen+headerMax+2), '$', number.IntLen(n))
	r.B = append(number.AppendInt(b, n), '\r', '\n')
}

// BulkRoom replies a bulk string of n bytes and returns them for the caller to fill at once.
func (r *Reply) BulkRoom(n int) []byte {
	if r.into != nil {
		return r.into.Room(n)
	}
	b := appendHeader(r.room(n+headerMax+2), '$', n)
	room := b[len(b) : len(b)+n : len(b)+n]
	r.B = append(b[:len(b)+n], '\r', '\n')
	return room
}

// LendBulk replies a bulk string of total bytes without copying it. pieces are its bytes, in order.
//
// Lifetime: the pieces belong to the reply until it calls release, once, on any goroutine. release may be nil.
// Cost: no copy. For less than about ten KB Bulk is cheaper.
func (r *Reply) LendBulk(total int, release func(), pieces ...[]byte) {
	if r.into != nil {
		r.lendInto(total, release, pieces)
		return
	}
	r.B = appendHeader(r.B, '$', total)
	sum := 0
	for _, piece := range pieces {
		if len(piece) > 0 {
			r.Lent = append(r.Lent, Lent{At: len(r.B), Data: piece})
			r.lent += len(piece)
			sum += len(piece)
		}
	}
	invariant.That(sum == total, "lent bulk: %d bytes in pieces, %d announced", sum, total)
	if release != nil {
		if sum == 0 {
			release()
		} else {
			r.Lent[len(r.Lent)-1].Release = release
		}
	}
	r.B = append(r.B, '\r', '\n')
}

// Lend appends raw bytes without copying them, for example a part of a replication stream.
//
// Lifetime: data belongs to the reply until it calls release, once, on any goroutine. release may be nil.
func (r *Reply) Lend(data []byte, release func()) {
	if len(data) == 0 {
		if release != nil {
			release()
		}
		return
	}
	r.Lent = append(r.Lent, Lent{At: len(r.B), Data: data, Release: release})
	r.lent += len(data)
}

// Null replies null: RESP3 "_", RESP2 the null bulk string "$-1".
func (r *Reply) Null() {
	if r.into != nil {
		r.into.Null(false)
		return
	}
	if r.RESP3 {
		r.B = append(r.B, "_\r\n"...)
	} else {
		r.B = append(r.B, "$-1\r\n"...)
	}
}

// NullArray replies a missing list: RESP3 "_", RESP2 the null array "*-1".
func (r *Reply) NullArray() {
	if r.into != nil {
		r.into.Null(true)
		return
	}
	if r.RESP3 {
		r.B = append(r.B, "_\r\n"...)
	} else {
		r.B = append(r.B, "*-1\r\n"...)
	}
}

// Int replies an integer.
func (r *Reply) Int(n int64) {
	if r.into != nil {
		r.into.Int(n)
		return
	}
	if uint64(n) < 10 {
		r.B = append(r.B, ':', byte('0'+n), '\r', '\n')
		return
	}
	if uint64(n) < 1e8 { // the usual numbers, with one check of the room
		const most = len(":12345678\r\n")
		b := r.room(most)
		text := b[len(b) : len(b)+most]
		text[0] = ':'
		end := 1 + number.Put8((*[8]byte)(text[1:]), uint64(n))
		text[end], text[end+1] = '\r', '\n'
		r.B = b[:len(b)+end+2]
		return
	}
	r.B = append(number.AppendInt(append(r.room(number.MaxIntLen+3), ':'), n), '\r', '\n')
}

// Uint replies an integer that may exceed int64.
func (r *Reply) Uint(n uint64) {
	if r.into != nil {
		r.into.Uint(n)
		return
	}
	r.B = append(number.AppendUint(append(r.B, ':'), n), '\r', '\n')
}

// Bool replies a boolean: RESP3 "#t" or "#f", RESP2 1 or 0.
func (r *Reply) Bool(b bool) {
	switch {
	case !r.RESP3 && b:
		r.Int(1)
	case !r.RESP3:
		r.Int(0)
	case r.into != nil:
		r.into.Bool(b)
	case b:
		r.B = append(r.B, "#t\r\n"...)
	default:
		r.B = append(r.B, "#f\r\n"...)
	}
}

// Double replies a double: RESP3 ",3.14", RESP2 the same text as a bulk string.
func (r *Reply) Double(f float64) {
	var text [32]byte
	r.DoubleText(number.AppendDouble(text[:0], f))
}

// DoubleText is Double for a number that is already text, such as a long double.
func (r *Reply) DoubleText(text []byte) {
	if !r.RESP3 {
		r.Bulk(text)
		return
	}
	if r.into != nil {
		r.into.Double(string(text))
		return
	}
	r.B = append(append(append(r.B, ','), text...), '\r', '\n')
}

// BigNumber replies an integer of any length: RESP3 "(", RESP2 a bulk string.
func (r *Reply) BigNumber(digits string) {
	if !r.RESP3 {
		r.BulkString(digits)
		return
	}
	if r.into != nil {
		r.into.BigNumber(digits)
		return
	}
	r.B = append(append(append(r.B, '('), digits...), '\r', '\n')
}

// Verbatim replies text for people: RESP3 "=" with its three-letter format ("txt", "mkd"), RESP2 a bulk string.
func (r *Reply) Verbatim(format, text string) {
	if !r.RESP3 {
		r.BulkString(text)
		return
	}
	if r.into != nil {
		r.into.Verbatim(format, text)
		return
	}
	b := appendHeader(r.room(len(text)+headerMax+6), '=', len(text)+4)
	for i := range 3 {
		if i < len(format) {
			b = append(b, format[i])
		} else {
			b = append(b, ' ')
		}
	}
	b = append(append(b, ':'), text...)
	r.B = append(b, '\r', '\n')
}

// Array announces n elements, which follow as replies.
func (r *Reply) Array(n int) { r.begin('*', n, n) }

// Map announces n pairs: RESP3 "%n", RESP2 an array of 2n.
func (r *Reply) Map(n int) {
	if r.RESP3 {
		r.begin('%', n, 2*n)
	} else {
		r.begin('*', 2*n, 2*n)
	}
}

// Set announces n different elements: RESP3 "~n", RESP2 an array.
func (r *Reply) Set(n int) { r.begin(r.kind('~'), n, n) }

// Push announces n elements that answer no request: RESP3 ">n", RESP2 an array.
func (r *Reply) Push(n int) { r.begin(r.kind('>'), n, n) }

// Attribute announces n pairs about the reply that follows. RESP3 only: check r.RESP3 first.
func (r *Reply) Attribute(n int) {
	invariant.That(r.RESP3, "RESP2 has no attributes")
	r.begin('|', n, 2*n)
}

// begin announces an aggregate: n is the number in its header, values is how many values follow.
func (r *Reply) begin(kind byte, n, values int) {
	if r.into != nil {
		r.into.Begin(kind, values)
		return
	}
	r.B = appendHeader(r.B, kind, n)
}

// kind returns the type byte for an aggregate of RESP3's type c.
func (r *Reply) kind(c byte) byte {
	if r.RESP3 {
		return c
	}
	return '*'
}

// Raw appends bytes that are RESP already.
func (r *Reply) Raw(p []byte) {
	if r.into != nil {
		replay(r.into, p)
		return
	}
	r.B = append(r.B, p...)
}

// Join moves everything from other to the end of r, with lent pieces.
func (r *Reply) Join(other *Reply) {
	if r.into != nil {
		replay(r.into, slices.Concat(slices.Collect(other.Pieces)...))
		other.Reset()
		return
	}
	at := len(r.B)
	r.B = append(r.B, other.B...)
	for _, lent := range other.Lent {
		lent.At += at
		r.Lent = append(r.Lent, lent)
	}
	r.lent += other.lent
	if other.full && !r.full {
		r.full, r.whole, r.kept = true, 0, 0 // no mark of r can be found after this
	}
	other.B = other.B[:0]
	clear(other.Lent)
	other.Lent, other.lent, other.full = other.Lent[:0], 0, false
}

// Cut moves everything after m into other, which is empty. The command that wrote it continues later, and this part of
// its reply is sent with the rest. Lent pieces move, too.
func (r *Reply) Cut(m Mark, other *Reply) {
	if r.full {
		other.full = true // the client of r will not read these either
		r.Rollback(m)
		return
	}
	i, at := r.place(m)
	other.B = append(other.B, r.B[at:]...)
	for _, lent := range r.Lent[i:] {
		lent.At -= at
		other.Lent = append(other.Lent, lent)
		other.lent += len(lent.Data)
		r.lent -= len(lent.Data)
	}
	clear(r.Lent[i:])
	r.B, r.Lent = r.B[:at], r.Lent[:i]
}

// Len returns how many bytes will be sent, with lent pieces.
func (r *Reply) Len() int { return len(r.B) + r.lent }

// Reset empties the reply for its next use, and releases lent pieces that were not sent.
func (r *Reply) Reset() { r.Rollback(Mark{}) }

// Taken empties a reply whose pieces and bytes in B now belong to the caller. release, if not nil, frees B.
func (r *Reply) Taken() (release func()) {
	release = r.release
	r.B, r.lent, r.release, r.full = nil, 0, nil, false
	clear(r.Lent)
	if r.Lent = r.Lent[:0]; cap(r.Lent) > 64 {
		r.Lent = nil
	}
	return release
}

// A Mark is a place in a reply: where a handler began, or where the header of an aggregate is missing.
type Mark struct{ pos int }

// Mark returns the current place.
func (r *Reply) Mark() Mark {
	if r.into != nil {
		return Mark{r.into.Mark()}
	}
	return Mark{len(r.B) + r.lent}
}

// Moved returns the mark's place after n bytes were inserted before it.
func (m Mark) Moved(n int) Mark { return Mark{m.pos + n} }

// Offset returns how many bytes are before the mark.
func (m Mark) Offset() int { return m.pos }

// Since returns how many bytes were appended after m.
func (r *Reply) Since(m Mark) int { return len(r.B) + r.lent - m.pos }

// place finds m: bytes inserted at m go before Lent[i] and at B[at]. If a spilled piece contains m, place splits it.
func (r *Reply) place(m Mark) (i, at int) {
	last := 0
	if n := len(r.Lent); n > 0 {
		last = r.Lent[n-1].At
	}
	if at = m.pos - r.lent; at > last || len(r.Lent) == 0 { // the usual case: after every piece
		return len(r.Lent), at
	}
	pos, from := 0, 0
	for i := range r.Lent {
		l := &r.Lent[i]
		if m.pos <= pos+l.At-from {
			return i, from + m.pos - pos
		}
		pos += l.At - from
		from = l.At
		if cut := m.pos - pos; cut < len(l.Data) {
			l.Release = shared(l.Release, 2)
			r.Lent = slices.Insert(r.Lent, i, Lent{At: l.At, Data: l.Data[:cut:cut], Release: l.Release})
			r.Lent[i+1].Data = r.Lent[i+1].Data[cut:]
			return i + 1, from
		}
		pos += len(l.Data)
	}
	return len(r.Lent), at
}

// Rollback removes everything after m, and releases pieces lent there. A full reply can only return to a mark from
// before it was full; a later mark leaves it unchanged.
func (r *Reply) Rollback(m Mark) {
	if r.into != nil {
		r.into.Rollback(m.pos)
		return
	}
	if r.full {
		if m.pos > r.whole {
			return // no client will read it
		}
		r.refill()
	}
	i, at := r.place(m)
	for i := i; i < len(r.Lent); i++ {
		r.lent -= len(r.Lent[i].Data)
		if release := r.Lent[i].Release; release != nil {
			release()
		}
		r.Lent[i] = Lent{}
	}
	r.B, r.Lent = r.B[:at], r.Lent[:i]
}

// Insert inserts p at m, before the bytes after m.
func (r *Reply) Insert(m Mark, p []byte) {
	if r.full {
		return
	}
	i, at := r.place(m)
	r.insert(i, at, p)
}

func (r *Reply) insert(i, at int, p []byte) {
	r.B = slices.Insert(r.B, at, p...)
	for ; i < len(r.Lent); i++ {
		r.Lent[i].At += len(p)
	}
}

// InsertReply is Insert for a reply. The pieces of other go between those before m and those after it.
func (r *Reply) InsertReply(m Mark, other *Reply) {
	if r.full {
		other.Reset()
		return
	}
	i, at := r.place(m)
	r.insert(i, at, other.B)
	pieces := slices.Clone(other.Lent)
	for k := range pieces {
		pieces[k].At += at
		r.lent += len(pieces[k].Data)
	}
	r.Lent = slices.Insert(r.Lent, i, pieces...)
}

// ArrayAt inserts "*n" at m, for an array whose length is known only after its last element. Marks after m are invalid
// afterwards, so close nested arrays from the inside out.
//
//	m := r.Mark()
//	for … { r.Bulk(…); n++ }
//	r.ArrayAt(m, n)
//
// Cost: the bytes after m move by a few bytes; a large body stays in place.
func (r *Reply) ArrayAt(m Mark, n int) { r.headerAt(m, '*', n, n) }

// MapAt is ArrayAt for n pairs.
func (r *Reply) MapAt(m Mark, n int) {
	if r.RESP3 {
		r.headerAt(m, '%', n, 2*n)
	} else {
		r.headerAt(m, '*', 2*n, 2*n)
	}
}

// SetAt is ArrayAt for a set.
func (r *Reply) SetAt(m Mark, n int) { r.headerAt(m, r.kind('~'), n, n) }

// largeBody is the length of a body for which a late header is lent instead of moving the body.
const largeBody = 64 << 10

// headerAt inserts an aggregate's header at m: n is the number in it, values is how many values follow.
func (r *Reply) headerAt(m Mark, kind byte, n, values int) {
	if r.into != nil {
		r.into.BeginAt(m.pos, kind, values)
		return
	}
	if r.full {
		return // no client will read it
	}
	var buf [headerMax]byte
	header := appendHeader(buf[:0], kind, n)
	i, at := r.place(m)
	if len(r.B)-at > largeBody {
		r.Lent = slices.Insert(r.Lent, i, Lent{At: at, Data: slices.Clone(header)})
		r.lent += len(header)
		return
	}
	r.insert(i, at, header)
}

// Pieces yields the reply's bytes in the order they are sent.
func (r *Reply) Pieces(yield func([]byte) bool) {
	from := 0
	for i := range r.Lent {
		if at := r.Lent[i].At; at > from {
			if !yield(r.B[from:at]) {
				return
			}
			from = at
		}
		if !yield(r.Lent[i].Data) {
			return
		}
	}
	if from < len(r.B) {
		yield(r.B[from:])
	}
}

// headerMax is the longest header: type, length and CRLF.
const headerMax = 1 + number.MaxIntLen + 2

// room returns B with space for n more bytes, so that the following appends do not grow it twice.
func (r *Reply) room(n int) []byte {
	if cap(r.B)-len(r.B) < n {
		r.grow(n)
	}
	return r.B
}

// appendHeader appends a type byte, n and CRLF.
func appendHeader(b []byte, kind byte, n int) []byte {
	if uint(n) < 10 {
		return append(b, kind, byte('0'+n), '\r', '\n')
	}
	if uint(n) < 100 {
		return append(b, kind, byte('0'+n/10), byte('0'+n%10), '\r', '\n')
	}
	return append(number.AppendInt(append(b, kind), int64(n)), '\r', '\n')
}
