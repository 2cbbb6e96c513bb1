package bitmap

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// offset reads the position of a bit. If width is above 0, arg may also be "#n": the n-th field of that width.
//
// Errors: errOffset, also for an offset beyond proto-max-bulk-len.
func offset(c *command.Context, arg []byte, width int) (int64, error) {
	scale := int64(1)
	if width > 0 && len(arg) > 0 && arg[0] == '#' {
		arg, scale = arg[1:], int64(width)
	}
	n, ok := number.ParseInt(arg)
	n *= scale // may overflow; Redis accepts such numbers, too
	if !ok || n < 0 || n>>3 >= c.MaxBulk() && !c.Obeys() {
		return 0, errOffset
	}
	return n, nil
}

// getBit is GETBIT key offset. Replies: 0 or 1. A bit past the end, or of a missing key, is 0. Errors: errOffset,
// ErrWrongType.
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

// setBit is SETBIT key offset 0|1. The string grows with zeros to hold the bit.
//
// Replies: the old bit. Errors: errOffset, errBit, ErrWrongType.
// Propagates as written if the bit or the length has changed.
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
		c.DB.Reach(key, v, int(at>>3)+1) // makes the string raw and long enough
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

// byteAt returns byte i of v, or 0 past its end.
func byteAt(v value.Value, i int64) byte {
	if i >= int64(length(v)) {
		return 0
	}
	var text [number.MaxIntLen]byte
	return v.Range(int(i), int(i)+1, text[:0])[0]
}

// chunkEnd returns the end of the chunk that holds the byte at from, or to if to comes first.
func chunkEnd(from, to int) int { return min(to, from&^(value.ChunkSize-1)+value.ChunkSize) }
