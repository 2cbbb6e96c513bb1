package str

import (
	"spindle/engine/command"
	"spindle/protocol"
)

// appendTo is APPEND key value. Replies: the new length. Errors: ErrWrongType, ErrStringTooBig. Propagates as written.
func appendTo(c *command.Context) error {
	key, suffix := c.Args[1], c.Args[2]
	v, err := writeString(c, key)
	if err != nil {
		return err
	}
	after := len(suffix)
	if !v.Exists() {
		store(c, key, suffix, 0)
	} else {
		if tooBig(c, int64(v.Len()), len(suffix)) {
			return protocol.ErrStringTooBig
		}
		if !c.Space.Heap().Affords(len(suffix)) {
			return protocol.ErrNoMemory
		}
		after = c.DB.Append(key, suffix)
	}
	c.Changed(1)
	c.Notify(command.EventString, "append", key)
	c.Reply.Int(int64(after))
	return nil
}

// setRange is SETRANGE key offset value. It overwrites the bytes at offset; a shorter string is first extended with
// zeros.
//
// Replies: the new length.
// Errors: ErrNotInteger, "offset is out of range", ErrWrongType, ErrStringTooBig.
// Propagates as written; an empty value changes nothing.
func setRange(c *command.Context) error {
	key, data := c.Args[1], c.Args[3]
	offset, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	if offset < 0 {
		return errOffset
	}
	v, err := writeString(c, key)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		c.Reply.Int(int64(length(v)))
		return nil
	}
	if tooBig(c, offset, len(data)) {
		return protocol.ErrStringTooBig
	}
	if end := int(offset) + len(data); end > length(v) && !c.Space.Heap().Affords(end-length(v)) {
		return protocol.ErrNoMemory
	}
	created := !v.Exists()
	after := c.DB.SetRange(key, int(offset), data)
	if created {
		c.Notify(command.EventNew, "new", key)
	}
	c.Changed(1)
	c.Notify(command.EventString, "setrange", key)
	c.Reply.Int(int64(after))
	return nil
}

// tooBig reports whether size+more bytes exceed proto-max-bulk-len. Commands from our primary or our own log have no
// limit, because they were allowed before.
func tooBig(c *command.Context, size int64, more int) bool {
	if c.Obeys() {
		return false
	}
	total := size + int64(more)
	return total < size || total > c.MaxBulk()
}
