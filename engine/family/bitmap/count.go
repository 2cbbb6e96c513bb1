package bitmap

import (
	"math/bits"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// unit reads BYTE or BIT. width is the number of bits in one unit of a range.
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

// clip converts a range of units, both ends included, to the bits [from, to). The string has size bits, a unit has
// width bits. A negative end counts from the end of the string.
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

// bitCount is BITCOUNT key [start end [BYTE | BIT]]. Replies: the number of bits that are 1.
//
// Errors: ErrSyntax, ErrNotInteger, ErrWrongType.
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
	if start < 0 && end < 0 && start > end { // clip may have moved both to 0, but the range is empty
		from, to = 0, 0
	}
	return answerCount(c, v, from, to)
}

func answerCount(c *command.Context, v value.Value, from, to int64) error {
	if c.IsLong(kilobytes(from, to)) {
		return c.ReadBeside(func(r *command.Reading) error {
			r.Reply.Int(count(r, v, from, to))
			return nil
		})
	}
	c.Reply.Int(count(c.Inline(), v, from, to))
	return nil
}

// kilobytes returns the length of the bits [from, to) in KB, the unit in which IsLong counts strings.
func kilobytes(from, to int64) int { return int((to - from) >> 13) }

// count returns the number of ones among the bits [from, to) of v.
func count(r *command.Reading, v value.Value, from, to int64) int64 {
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
		r.Steps((next - at) >> 10)
		if piece := v.Range(at, next, text[:0]); !value.Unwritten(piece) {
			n += ones(piece)
		}
		at = next
	}
	return int64(n - before - behind)
}

// ones returns the number of ones in b. Each round adds eight words to four counters, which do not wait for each other.
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

// bitPos is BITPOS key bit [start [end [BYTE | BIT]]].
//
// Replies: the first position of bit, counted from the start of the string, or -1. If no end is given, the string
// counts as followed by zeros without end. An empty range contains neither bit.
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
	beyond := int64(-1) // the reply if the bits do not contain it
	if bit == 0 && n <= 4 && from < to {
		beyond = to
	}
	return answerPos(c, v, from, to, bit == 1, beyond)
}

func answerPos(c *command.Context, v value.Value, from, to int64, set bool, beyond int64) error {
	if c.IsLong(kilobytes(from, to)) {
		return c.ReadBeside(func(r *command.Reading) error {
			replyPos(r, v, from, to, set, beyond)
			return nil
		})
	}
	replyPos(c.Inline(), v, from, to, set, beyond)
	return nil
}

func replyPos(r *command.Reading, v value.Value, from, to int64, set bool, beyond int64) {
	at := search(r, v, from, to, set)
	if at < 0 {
		at = beyond
	}
	r.Reply.Int(at)
}

// search returns the position of the first 1 among the bits [from, to) of v, or -1. If set is false, it looks for a 0
// instead.
func search(r *command.Reading, v value.Value, from, to int64, set bool) int64 {
	if from >= to {
		return -1
	}
	flip := byte(0xFF) // makes the bit searched for a 1
	if set {
		flip = 0
	}
	if from&7 != 0 { // skip the bits of the first byte before from
		if x := (byteAt(v, from>>3) ^ flip) & (0xFF >> (from & 7)); x != 0 {
			return within(from&^7+int64(bits.LeadingZeros8(x)), to)
		}
		from = from&^7 + 8
	}
	var text [number.MaxIntLen]byte
	for at, end := int(from>>3), int((to+7)>>3); at < end; {
		next := chunkEnd(at, end)
		r.Steps((next - at) >> 10)
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

// within returns at, or -1 if at is not below to. The last byte of a range may have bits beyond the range.
func within(at, to int64) int64 {
	if at >= to {
		return -1
	}
	return at
}

// firstOne returns the position of the first 1 in b after each byte is xored with flip, or -1.
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
