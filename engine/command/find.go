package command

import (
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// Find returns the value of type t at key, for reading, and counts a miss. For a missing key it returns the zero Value
// without an error.
//
// Errors: ErrWrongType.
func (c *Context) Find(key []byte, t value.Type) (value.Value, error) {
	v := c.DB.Lookup(key)
	switch {
	case !v.Exists():
		c.Notify(EventKeyMiss, "keymiss", key)
	case v.Type() != t:
		return v, protocol.ErrWrongType
	}
	return v, nil
}

// FindEdit returns the value of type t at key, for changing it. For a missing key it returns nil without an error.
//
// Errors: ErrWrongType.
func (c *Context) FindEdit(key []byte, t value.Type) (*value.Edit, error) {
	e := c.DB.Edit(key)
	if e != nil && e.Value().Type() != t {
		return nil, protocol.ErrWrongType
	}
	return e, nil
}

// OpenScan reads the arguments of HSCAN, SSCAN or ZSCAN and finds the value. values means that NOVALUES is allowed. If
// v does not exist, OpenScan has replied, and has not looked at the options.
//
// Errors: ErrCursor, ErrWrongType, those of parseScan.
func (c *Context) OpenScan(t value.Type, values bool) (v value.Value, cursor uint64, o Scan, err error) {
	cursor, ok := ParseCursor(c.Args[2])
	if !ok {
		return v, 0, o, ErrCursor
	}
	if v, err = c.Find(c.Args[1], t); err != nil {
		return v, 0, o, err
	}
	if !v.Exists() {
		c.Inline().AnswerScan(0, 0)
		return v, 0, o, nil
	}
	o, err = parseScan(c.Args[3:], values)
	return v, cursor, o, err
}

// AnswerScan begins the reply of a scan: the next cursor, and an array of n elements, which the caller appends.
func (r *Reading) AnswerScan(next uint64, n int) {
	var text [number.MaxIntLen]byte
	r.Reply.Array(2)
	r.Reply.Bulk(number.AppendUint(text[:0], next))
	r.Reply.Array(n)
}
