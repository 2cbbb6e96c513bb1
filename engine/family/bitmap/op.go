package bitmap

import (
	"encoding/binary"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// An operation is AND, OR, XOR or NOT.
type operation uint8

const (
	and operation = iota
	or
	xor
	not
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
	}
	return 0, protocol.ErrSyntax
}

// bitOp is BITOP AND|OR|XOR|NOT destkey key [key …]. The result is as long as the longest source; shorter sources are
// padded with zeros. If all sources are empty, destkey is deleted.
//
// Replies: the result's length in bytes. Errors: ErrSyntax, errNotOfOne, ErrWrongType. Propagates as written.
// Cost: the turn takes as long as the result needs. It is made chunk by chunk, and chunks of zeros are not stored.
func bitOp(c *command.Context) error {
	op, err := operationOf(c.Args[1])
	if err != nil {
		return err
	}
	target, keys := c.Args[2], c.Args[3:]
	if op == not && len(keys) != 1 {
		return errNotOfOne
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
	if c.DB.SetFilled(target, longest, func(dst []byte, off int) { op.fill(dst, off, sources) }) {
		c.Notify(command.EventNew, "new", target)
	}
	c.Changed(1)
	c.Notify(command.EventString, "set", target)
	c.Reply.Int(int64(longest))
	return nil
}

// fill sets dst to the part of the result that begins at byte off. dst lies within one chunk.
func (op operation) fill(dst []byte, off int, sources []value.Value) {
	var text [number.MaxIntLen]byte
	for i, v := range sources {
		piece := text[:0]
		if to := min(off+len(dst), length(v)); off < to {
			piece = v.Range(off, to, text[:0])
		}
		switch {
		case i == 0:
			n := copy(dst, piece)
			clear(dst[n:])
			if op == not {
				invert(dst)
			}
		case op == and:
			if value.Unwritten(piece) {
				piece = nil
			}
			andInto(dst[:len(piece)], piece)
			clear(dst[len(piece):])
		case value.Unwritten(piece): // OR and XOR with zeros change nothing
		case op == or:
			orInto(dst[:len(piece)], piece)
		case op == xor:
			xorInto(dst[:len(piece)], piece)
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

// andInto, orInto and xorInto combine src into dst, which has the same length.
func andInto(dst, src []byte) {
	for ; len(dst) >= 32 && len(src) >= 32; dst, src = dst[32:], src[32:] {
		put4(dst, word(dst, 0)&word(src, 0), word(dst, 8)&word(src, 8), word(dst, 16)&word(src, 16),
			word(dst, 24)&word(src, 24))
	}
	for i := range dst {
		dst[i] &= src[i]
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
