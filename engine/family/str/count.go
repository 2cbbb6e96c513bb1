package str

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// incr is INCR key. Replies: the new value. Errors: ErrWrongType, ErrNotInteger, ErrOverflow. Propagates as written.
func incr(c *command.Context) error { return add(c, 1) }

// decr is DECR key; see incr.
func decr(c *command.Context) error { return add(c, -1) }

// incrBy is INCRBY key increment; see incr.
func incrBy(c *command.Context) error {
	n, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	return add(c, n)
}

// decrBy is DECRBY key decrement; see incr. Further error: "decrement would overflow" for the least integer, which has
// no negative.
func decrBy(c *command.Context) error {
	n, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	if n == math.MinInt64 {
		return errDecrement
	}
	return add(c, -n)
}

func add(c *command.Context, by int64) error {
	key := c.Args[1]
	n := int64(0)
	at := c.DB.Counter(key) // the usual case: the value is stored as an integer
	if at != nil {
		n = *at
	} else {
		v, err := writeString(c, key)
		if err != nil {
			return err
		}
		if v.Exists() {
			var ok bool
			if n, ok = integer(v); !ok {
				return protocol.ErrNotInteger
			}
		}
	}
	sum := n + by
	if (by < 0 && sum > n) || (by > 0 && sum < n) {
		return protocol.ErrOverflow
	}
	if at != nil {
		*at = sum
		c.DB.Touched(key)
	} else if c.DB.SetInt(key, sum, keyspace.KeepTTL) {
		c.Notify(command.EventNew, "new", key)
	}
	c.Changed(1)
	c.Notify(command.EventString, "incrby", key)
	c.Reply.Int(sum)
	return nil
}

// integer reads a string as an integer, even if it is stored as bytes after an edit in place.
func integer(v value.Value) (int64, bool) {
	if n, ok := v.Int(); ok {
		return n, true
	}
	if v.Len() > number.MaxIntLen {
		return 0, false
	}
	var scratch [number.MaxIntLen]byte
	return number.ParseInt(v.Bytes(scratch[:0]))
}

// incrByFloat is INCRBYFLOAT key increment. It computes with the long doubles of x86.
//
// Replies: the new value, as a bulk string.
// Errors: ErrWrongType, ErrNotFloat, "increment would produce NaN or Infinity".
// Propagates: SET key value KEEPTTL, because another machine may round or print differently.
func incrByFloat(c *command.Context) error {
	key := c.Args[1]
	v, err := writeString(c, key)
	if err != nil {
		return err
	}
	var sum number.Long
	if v.Exists() {
		var ok bool
		if sum, ok = longDouble(v); !ok {
			return protocol.ErrNotFloat
		}
	}
	by, ok := number.ParseLong(c.Args[2])
	if !ok {
		return protocol.ErrNotFloat
	}
	if sum, ok = sum.Add(by); !ok {
		return errNaN
	}
	var room [128]byte
	text := number.AppendLong(room[:0], sum) // embstr even for a whole number
	if c.DB.SetPlain(key, text, keyspace.KeepTTL) {
		c.Notify(command.EventNew, "new", key)
	}
	c.Changed(1)
	c.Notify(command.EventString, "incrbyfloat", key)
	c.Reply.Bulk(text)
	c.Propagate(wordSet, key, c.Effects.Keep(text), wordKeepTTL)
	return nil
}

// longDouble reads a string as a long double.
func longDouble(v value.Value) (number.Long, bool) {
	if n, ok := v.Int(); ok {
		return number.LongFromInt(n), true
	}
	if b, ok := v.Contiguous(); ok {
		return number.ParseLong(b)
	}
	return number.Long{}, false // a string in chunks is longer than any number
}

// writeString looks key up for changing it. A missing key gives the zero Value and no error.
//
// Errors: ErrWrongType.
func writeString(c *command.Context, key []byte) (value.Value, error) {
	v := c.DB.LookupWrite(key)
	if v.Exists() && v.Type() != value.String {
		return v, protocol.ErrWrongType
	}
	return v, nil
}
