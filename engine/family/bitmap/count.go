package bitmap

import (
	"math/bits"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

var errBitArgument = &protocol.Error{Code: "ERR", Text: "The bit argument must be 1 or 0."}

// unit reads BYTE or BIT: how many bits the ends of a range count.
//
// Errors: ErrSyntax.
func unit(arg []byte) (width int64, err error) {
	switch {
	case command.Is(arg, "BIT"):
		return 1, nil
	case command.Is(arg, "BYTE"):
		return 8, nil
	}
	return 0, protocol.ErrSyntax
}

// clip turns the two ends of a range of units, both of which count and may stand for distances from the end, into the
// bits [from, to) of a string of size bits.
func clip(start, end, size, width int64) (from, to int64) {
	n := size / width
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	end = min(end, n-1)
	if start > end {
		return 0, 0
	}
	return start * width, (end + 1) * width
}

// bitCount is BITCOUNT key [start end [BYTE | BIT]]. Replies: how many bits are 1. Errors: ErrSyntax, ErrNotInteger,
// ErrWrongType.
func bitCount(c *command.Context) error {
	start, end, width := int64(0), int64(-1), int64(8)
	var err error
	switch len(c.Args) {
	case 2:
	case 4, 5:
		if start, err = command.Int(c.Args[2]); err != nil {
			return err
		}
		if end, err = command.Int(c.Args[3]); err != nil {
			return err
		}
		if len(c.Args) == 5 {
			if width, err = unit(c.Args[4]); err != nil {
				return err
			}
		}
	default:
		return protocol.ErrSyntax
	}
	v, err := readString(c, c.Args[1])
	if err != nil {
		return err
	}
	from, to := clip(start, end, int64(length(v))*8, width)
	if start < 0 && end < 0 && start > end { // clipped to a short string they might have met
		from, to = 0, 0
	}
	c.Reply.Int(count(v, from, to))
	return nil
}

// count is how many of the bits [from, to) of v are 1.
func count(v value.Value, from, to int64) int64 {
	if from >= to {
		return 0
	}
	first, last := from>>3, (to-1)>>3
	before := bits.OnesCount8(byteAt(v, first) &^ (0xFF >> (from & 7)))
	behind := bits.OnesCount8(byteAt(v, last) & (1<<(7-(to-1)&7) - 1))
	var text [number.MaxIntLen]byte
	n := 0
	for at, end := int(first), int(last)+1; at < end; {
		next := chunkEnd(at, end)
		if piece := v.Range(at, next, text[:0]); !value.Unwritten(piece) {
			n += ones(piece)
		}
		at = next
	}
	return int64(n - before - behind)
}

// ones is how many bits of b are 1. Eight words a round: the sums of four counters do not wait for each other.
func ones(b []byte) int {
	var n0, n1, n2, n3 int
	for ; len(b) >= 64; b = b[64:] {
		n0 += bits.OnesCount64(word(b, 0)) + bits.OnesCount64(word(b, 8))
		n1 += bits.OnesCount64(word(b, 16)) + bits.OnesCount64(word(b, 24))
		n2 += bits.OnesCount64(word(b, 32)) + bits.OnesCount64(word(b, 40))
		n3 += bits.OnesCount64(word(b, 48)) + bits.OnesCount64(word(b, 56))
	}
	for ; len(b) >= 8; b = b[8:] {
		n0 += bits.OnesCount64(word(b, 0))
	}
	for _, x := range b {
		n1 += bits.OnesCount8(x)
	}
	return n0 + n1 + n2 + n3
}

// bitPos is BITPOS key bit [start [end [BYTE | BIT]]]: where the first such bit is, counted from the string's
// beginning.
//
// Replies: the position, or -1. Without an end the string goes on with zeros for ever; an empty range has neither bit.
// Errors: ErrNotInteger, errBitArgument, ErrSyntax, ErrWrongType.
func bitPos(c *command.Context) error {
	bit, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	if bit != 0 && bit != 1 {
		return errBitArgument
	}
	start, end, width := int64(0), int64(-1), int64(8)
	n := len(c.Args)
	if n > 6 {
		return protocol.ErrSyntax
	}
	if n > 3 {
		if start, err = command.Int(c.Args[3]); err != nil {
			return err
		}
	}
	if n > 5 {
		if width, err = unit(c.Args[5]); err != nil {
			return err
		}
	}
	if n > 4 {
		if end, err = command.Int(c.Args[4]); err != nil {
			return err
		}
	}
	v, err := readString(c, c.Args[1])
	if err != nil {
		return err
	}
	if !v.Exists() {
		c.Reply.Int(-bit)
		return nil
	}
	from, to := clip(start, end, int64(v.Len())*8, width)
	at := search(v, from, to, bit == 1)
	if at < 0 && bit == 0 && n <= 4 && from < to {
		at = to
	}
	c.Reply.Int(at)
	return nil
}

// search is the first of the bits [from, to) of v that is 1, or 0 if set is false; -1 if there is none.
func search(v value.Value, from, to int64, set bool) int64 {
	if from >= to {
		return -1
	}
	flip := byte(0xFF) // what makes the bit that is looked for a 1
	if set {
		flip = 0
	}
	if from&7 != 0 { // the bits of the first byte that are in front of it
		if x := (byteAt(v, from>>3) ^ flip) & (0xFF >> (from & 7)); x != 0 {
			return within(from&^7+int64(bits.LeadingZeros8(x)), to)
		}
		from = from&^7 + 8
	}
	var text [number.MaxIntLen]byte
	for at, end := int(from>>3), int((to+7)>>3); at < end; {
		next := chunkEnd(at, end)
		piece := v.Range(at, next, text[:0])
		if !set || !value.Unwritten(piece) {
			if i := firstOne(piece, flip); i >= 0 {
				return within(int64(at)*8+int64(i), to)
			}
		}
		at = next
	}
	return -1
}

// within is at, or -1 if it is not in front of to: the last byte of a range may have more bits than belong to it.
func within(at, to int64) int64 {
	if at >= to {
		return -1
	}
	return at
}

// firstOne is the first bit of b, each byte of it xored with flip, that is 1; -1 if there is none.
func firstOne(b []byte, flip byte) int {
	i, wide := 0, uint64(flip)*0x0101010101010101
	for ; len(b)-i >= 32; i += 32 {
		p := b[i : i+32]
		if (word(p, 0)^wide)|(word(p, 8)^wide)|(word(p, 16)^wide)|(word(p, 24)^wide) != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if x := b[i] ^ flip; x != 0 {
			return i*8 + bits.LeadingZeros8(x)
		}
	}
	return -1
}
