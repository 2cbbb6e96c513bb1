package bitmap

import (
	"encoding/binary"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// An operation is BITOP's first argument. X is the first source, Y any other one.
type operation uint8

const (
	and operation = iota
	or
	xor
	not
	diff  // the bits of X that no Y has
	diff1 // the bits of a Y that X does not have
	andOr // the bits of X that a Y has, too
	one   // the bits that exactly one source has
)

var (
	wordDel      = []byte("DEL")
	wordSet      = []byte("SET")
	wordSetRange = []byte("SETRANGE")
)

// operationOf reads BITOP's first argument.
//
// Errors: ErrSyntax.
func operationOf(arg []byte) (operation, error) {
	switch {
	case command.Is(arg, "AND"):
		return and, nil
	case command.Is(arg, "OR"):
		return or, nil
	case command.Is(arg, "XOR"):
		return xor, nil
	case command.Is(arg, "NOT"):
		return not, nil
	case command.Is(arg, "DIFF"):
		return diff, nil
	case command.Is(arg, "DIFF1"):
		return diff1, nil
	case command.Is(arg, "ANDOR"):
		return andOr, nil
	case command.Is(arg, "ONE"):
		return one, nil
	}
	return 0, protocol.ErrSyntax
}

// bitOp is BITOP AND|OR|XOR|NOT|DIFF|DIFF1|ANDOR|ONE destkey key [key …]. The result is as long as the longest source.
// Shorter sources are padded with zeros. If all sources are empty, destkey is deleted.
//
// Replies: the result's length in bytes. Errors: ErrSyntax, errNotOfOne, errOfTwo, ErrWrongType.
// Propagates as written. DIFF, DIFF1, ANDOR and ONE exist only since Redis 8.2, so they propagate the result.
// Cost: the turn lasts until the whole result is made. It is made chunk by chunk, and chunks of zeros are not stored.
func bitOp(c *command.Context) error {
	op, err := operationOf(c.Args[1])
	if err != nil {
		return err
	}
	target, keys := c.Args[2], c.Args[3:]
	if op == not && len(keys) != 1 {
		return errNotOfOne
	}
	if (op == diff || op == diff1 || op == andOr) && len(keys) < 2 {
		return errOfTwo
	}
	longest := 0
	for _, key := range keys {
		v, err := readString(c, key)
		if err != nil {
			return err
		}
		longest = max(longest, length(v))
	}
	if longest == 0 {
		if c.DB.Delete(target) {
			c.Changed(1)
			c.Notify(command.EventGeneric, "del", target)
			if op >= diff {
				c.Propagate(wordDel, target)
			}
		}
		c.Reply.Int(0)
		return nil
	}
	if !c.Space.Heap().Affords(longest) {
		return protocol.ErrNoMemory
	}
	var few [16]value.Value
	sources := few[:0]
	for _, key := range keys { // again: a lookup that deletes an expired key invalidates the values found before
		sources = append(sources, c.DB.Peek(key))
	}
	c.Overwrites(target, value.String)
	if c.DB.SetFilled(target, longest, func(dst []byte, off int) { op.fill(dst, off, sources) }) {
		c.Notify(command.EventNew, "new", target)
	}
	c.Changed(1)
	c.Notify(command.EventString, "set", target)
	c.Reply.Int(int64(longest))
	if op >= diff {
		propagateResult(c, target)
	}
	return nil
}

// propagateResult sends the string at key piece by piece. Pieces of zeros are not sent.
func propagateResult(c *command.Context, key []byte) {
	v := c.DB.Peek(key)
	off, n := 0, v.Len()
	for piece := range v.Chunks {
		switch last := off+len(piece) == n; {
		case off == 0:
			c.Propagate(wordSet, key, piece)
		case last || !value.Unwritten(piece):
			c.Propagate(wordSetRange, key, c.Effects.Number(int64(off)), piece)
		}
		off += len(piece)
	}
}

// fill sets dst to the part of the result that begins at byte off. dst is within one chunk.
func (op operation) fill(dst []byte, off int, sources []value.Value) {
	switch op {
	case diff1, andOr:
		or.fill(dst, off, sources[1:])
		op.combine(dst, off, sources[0])
	case one:
		for len(dst) > 0 {
			n := min(len(dst), countRoom)
			fillOne(dst[:n], off, sources)
			dst, off = dst[n:], off+n
		}
	default:
		var text [number.MaxIntLen]byte
		n := copy(dst, part(sources[0], off, len(dst), &text))
		clear(dst[n:])
		if op == not {
			invert(dst)
		}
		for _, v := range sources[1:] {
			op.combine(dst, off, v)
		}
	}
}

// part returns up to n bytes of a string, beginning at off. At the string's end it returns fewer.
func part(v value.Value, off, n int, text *[number.MaxIntLen]byte) []byte {
	to := min(off+n, length(v))
	if off >= to {
		return nil
	}
	return v.Range(off, to, text[:0])
}

// combine applies the operation to dst and the part of v that begins at off.
func (op operation) combine(dst []byte, off int, v value.Value) {
	var text [number.MaxIntLen]byte
	piece := part(v, off, len(dst), &text)
	zeros := value.Unwritten(piece)
	switch {
	case op == and || op == andOr:
		if zeros {
			piece = nil
		}
		andInto(dst[:len(piece)], piece)
		clear(dst[len(piece):])
	case zeros: // zeros change nothing
	case op == or:
		orInto(dst[:len(piece)], piece)
	case op == xor:
		xorInto(dst[:len(piece)], piece)
	case op == diff || op == diff1:
		andNotInto(dst[:len(piece)], piece)
	}
}

// countRoom is the number of bytes that fillOne processes at a time.
const countRoom = 1 << 10

// fillOne sets dst to the bits that are set in exactly one source.
func fillOne(dst []byte, off int, sources []value.Value) {
	var room [countRoom]byte
	more := room[:len(dst)] // the bits that at least two of the sources so far have
	clear(dst)
	for _, v := range sources {
		var text [number.MaxIntLen]byte
		piece := part(v, off, len(dst), &text)
		for i, b := range piece {
			more[i] |= dst[i] & b
			dst[i] = (dst[i] | b) &^ more[i]
		}
	}
}

func invert(dst []byte) {
	for ; len(dst) >= 32; dst = dst[32:] {
		put4(dst, ^word(dst, 0), ^word(dst, 8), ^word(dst, 16), ^word(dst, 24))
	}
	for i := range dst {
		dst[i] = ^dst[i]
	}
}

// andInto, andNotInto, orInto and xorInto combine src into dst, which has the same length.
func andInto(dst, src []byte) {
	for ; len(dst) >= 32 && len(src) >= 32; dst, src = dst[32:], src[32:] {
		put4(dst, word(dst, 0)&word(src, 0), word(dst, 8)&word(src, 8), word(dst, 16)&word(src, 16),
			word(dst, 24)&word(src, 24))
	}
	for i := range dst {
		dst[i] &= src[i]
	}
}

func andNotInto(dst, src []byte) {
	for ; len(dst) >= 32 && len(src) >= 32; dst, src = dst[32:], src[32:] {
		put4(dst, word(dst, 0)&^word(src, 0), word(dst, 8)&^word(src, 8), word(dst, 16)&^word(src, 16),
			word(dst, 24)&^word(src, 24))
	}
	for i := range dst {
		dst[i] &^= src[i]
	}
}

func orInto(dst, src []byte) {
	for ; len(dst) >= 32 && len(src) >= 32; dst, src = dst[32:], src[32:] {
		put4(dst, word(dst, 0)|word(src, 0), word(dst, 8)|word(src, 8), word(dst, 16)|word(src, 16),
			word(dst, 24)|word(src, 24))
	}
	for i := range dst {
		dst[i] |= src[i]
	}
}

func xorInto(dst, src []byte) {
	for ; len(dst) >= 32 && len(src) >= 32; dst, src = dst[32:], src[32:] {
		put4(dst, word(dst, 0)^word(src, 0), word(dst, 8)^word(src, 8), word(dst, 16)^word(src, 16),
			word(dst, 24)^word(src, 24))
	}
	for i := range dst {
		dst[i] ^= src[i]
	}
}

func word(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

func put4(b []byte, w0, w1, w2, w3 uint64) {
	binary.LittleEndian.PutUint64(b, w0)
	binary.LittleEndian.PutUint64(b[8:], w1)
	binary.LittleEndian.PutUint64(b[16:], w2)
	binary.LittleEndian.PutUint64(b[24:], w3)
}
