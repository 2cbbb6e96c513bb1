package hash

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
	"spindle/internal/number"
	"spindle/protocol"
)

var (
	wordHSet   = []byte("HSET")
	wordFields = []byte("FIELDS")
)

// incrBy is HINCRBY key field increment. The field keeps its deadline.
//
// Replies: the new value. Errors: ErrNotInteger, ErrWrongType, "hash value is not an integer", ErrOverflow. Propagates
// as written.
func (h *commands) incrBy(c *command.Context) error {
	by, err := command.Int(c.Args[3])
	if err != nil {
		return err
	}
	key, field := c.Args[1], c.Args[2]
	e, old, found, err := editField(c, key, field)
	if err != nil {
		return err
	}
	n := int64(0)
	if found {
		if n, found = old.Integer(); !found {
			return errNotInteger
		}
	}
	sum := n + by
	if (by < 0 && sum > n) || (by > 0 && sum < n) {
		return protocol.ErrOverflow
	}
	h.replace(c, e, key, field, number.AppendInt(h.text[:0], sum))
	done(c, key, "hincrby", 1, c.Args[2:3], 1)
	c.Reply.Int(sum)
	return nil
}

// incrByFloat is HINCRBYFLOAT key field increment. It computes with the long doubles of x86. The field keeps its
// deadline.
//
// Replies: the new value, as a bulk string.
// Errors: ErrNotFloat, "value is NaN or Infinity", ErrWrongType, "hash value is not a float", "increment would produce
// NaN or Infinity".
// Propagates: HSET key field value, because another machine may round or print differently. HSET removes a deadline, so
// HPEXPIREAT follows if the field has one.
func (h *commands) incrByFloat(c *command.Context) error {
	by, ok := number.ParseLong(c.Args[3])
	if !ok {
		return protocol.ErrNotFloat
	}
	if _, ok = by.Add(number.Long{}); !ok {
		return errInfinite
	}
	key, field := c.Args[1], c.Args[2]
	e, old, found, err := editField(c, key, field)
	if err != nil {
		return err
	}
	var sum number.Long
	deadline := int64(0)
	if found {
		_, deadline, _ = hashes.Get(e.Value(), field)
		if sum, ok = longDouble(old); !ok {
			return errNotFloat
		}
	}
	if sum, ok = sum.Add(by); !ok {
		return errNaN
	}
	text := number.AppendLong(h.text[:0], sum)
	h.replace(c, e, key, field, text)
	done(c, key, "hincrbyfloat", 1, c.Args[2:3], 1)
	c.Reply.Bulk(text)
	c.Propagate(wordHSet, key, field, c.Effects.Keep(text))
	if deadline != 0 {
		propagateDeadline(c, key, field, deadline)
	}
	return nil
}

// longDouble converts an element to a long double.
func longDouble(e listpack.Element) (number.Long, bool) {
	if e.IsInt {
		return number.LongFromInt(e.Int), true
	}
	return number.ParseLong(e.Bytes())
}

// replace sets the value of a field, which keeps its deadline. e is nil if key does not exist.
func (h *commands) replace(c *command.Context, e *value.Edit, key, field, val []byte) {
	limits := h.settings.Limits()
	if e != nil {
		hashes.Set(e, field, val, true, limits)
		return
	}
	h.pair = [2][]byte{field, val}
	create(c, key, h.pair[:], limits)
	h.pair = [2][]byte{}
}
