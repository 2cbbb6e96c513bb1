package bitmap

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

var (
	errOffset = &protocol.Error{Code: "ERR", Text: "bit offset is not an integer or out of range"}
	errBit    = &protocol.Error{Code: "ERR", Text: "bit is not an integer or out of range"}
)

// offset reads where a bit lies: a number of bits, or, for a field of width bits, "#n" for the n-th of such fields.
// width is 0 where that form is not allowed.
//
// Errors: errOffset, also for what no string may be long enough for (proto-max-bulk-len).
func offset(c *command.Context, arg []byte, width int) (int64, error) {
	scale := int64(1)
	if width > 0 && len(arg) > 0 && arg[0] == '#' {
		arg, scale = arg[1:], int64(width)
	}
	n, ok := number.ParseInt(arg)
	n *= scale // may wrap round: the reference takes such numbers for what then comes out
	if !ok || n < 0 || n>>3 >= c.MaxBulk() && !c.Obeys() {
		return 0, errOffset
	}
	return n, nil
}

// getBit is GETBIT key offset. Replies: 0 or 1; 0 behind the end and for no key. Errors: errOffset, ErrWrongType.
func getBit(c *command.Context) error {
	at, err := offset(c, c.Args[2], 0)
	if err != nil {
		return err
	}
	v, err := readString(c, c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Int(int64(byteAt(v, at>>3)>>(7-at&7)) & 1)
	return nil
}

// setBit is SETBIT key offset 0|1: the string grows with zeros as far as it must.
//
// Replies: the bit that was there. Errors: errOffset, errBit, ErrWrongType.
// Propagates as written, unless nothing has changed: neither the bit nor the length.
func setBit(c *command.Context) error {
	key := c.Args[1]
	at, err := offset(c, c.Args[2], 0)
	if err != nil {
		return err
	}
	bit, ok := number.ParseInt(c.Args[3])
	if !ok || bit&^1 != 0 {
		return errBit
	}
	v, err := writeString(c, key)
	if err != nil {
		return err
	}
	long := length(v) > int(at>>3)
	if !long && !c.Space.Heap().Affords(int(at>>3)+1-length(v)) {
		return protocol.ErrNoMemory
	}
	if !v.Exists() {
		v = c.DB.Reach(key, v, int(at>>3)+1)
		c.Notify(command.EventNew, "new", key)
	}
	old, shift := byteAt(v, at>>3), 7-at&7
	was := int64(old>>shift) & 1
	if was == bit {
		c.DB.Reach(key, v, int(at>>3)+1) // raw from now on, and as long as it must be
	} else {
		c.DB.Patch(key, int(at>>3), []byte{old ^ 1<<shift})
	}
	if was != bit || !long {
		c.DB.Touch(key)
		c.Changed(1)
		c.Notify(command.EventString, "setbit", key)
	}
	c.Reply.Int(was)
	return nil
}

// byteAt is byte i of v, 0 behind its end.
func byteAt(v value.Value, i int64) byte {
	if i >= int64(length(v)) {
		return 0
	}
	var text [number.MaxIntLen]byte
	return v.Range(int(i), int(i)+1, text[:0])[0]
}

// chunkEnd is where the piece of a string ends that begins at byte from, in front of to, and lies in one chunk.
func chunkEnd(from, to int) int { return min(to, from&^(value.ChunkSize-1)+value.ChunkSize) }
