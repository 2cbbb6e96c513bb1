package hash

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
	"spindle/protocol"
)

// get is HGET key field. Replies: the value, or nil. Errors: ErrWrongType.
func get(c *command.Context) error {
	v, err := lookup(c)
	if err != nil {
		return err
	}
	if v.Exists() {
		if val, found, _, _ := find(c, v, c.Args[1], c.Args[2]); found {
			bulk(c, val)
			return nil
		}
	}
	c.Reply.Null()
	return nil
}

// mget is HMGET key field [field …]. Replies: an array of values, null for each missing field. Errors: ErrWrongType.
func mget(c *command.Context) error {
	v, err := lookup(c)
	if err != nil {
		return err
	}
	key := c.Args[1]
	c.Reply.Array(len(c.Args) - 2)
	lapsed, deleted := false, false
	for _, field := range c.Args[2:] {
		if !v.Exists() || deleted {
			c.Reply.Null()
			continue
		}
		val, deadline, found := hashes.Get(v, field)
		switch {
		case !found:
			c.Reply.Null()
		case !past(c, deadline) || c.Space.Trusting:
			bulk(c, val)
		default:
			if c.Reply.Null(); removes(c) {
				c.Name(&c.Lapsed, field)
				deleted = lapse(c, key, field, false)
				v = c.DB.Peek(key)
			}
			lapsed = lapsed || !deleted
		}
	}
	if lapsed { // one event for all; none if the first expired field was the only one, as in Redis
		c.NotifyNamed(command.EventHash, "hexpired", key, &c.Lapsed)
		if deleted {
			c.Notify(command.EventGeneric, "del", key)
		}
	}
	c.Lapsed.Reset()
	return nil
}

// exists is HEXISTS key field. Replies: 1 or 0. Errors: ErrWrongType.
func exists(c *command.Context) error {
	v, err := lookup(c)
	if err != nil {
		return err
	}
	n := int64(0)
	if v.Exists() {
		if _, found, _, _ := find(c, v, c.Args[1], c.Args[2]); found {
			n = 1
		}
	}
	c.Reply.Int(n)
	return nil
}

// strlen is HSTRLEN key field. Replies: the length of the value, 0 for a missing field. Errors: ErrWrongType.
func strlen(c *command.Context) error {
	v, err := lookup(c)
	if err != nil {
		return err
	}
	n := 0
	if v.Exists() {
		if val, found, _, _ := find(c, v, c.Args[1], c.Args[2]); found {
			n = val.Len()
		}
	}
	c.Reply.Int(int64(n))
	return nil
}

// length is HLEN key. Replies: the number of fields. Fields past their deadline count until they are removed.
// Errors: ErrWrongType.
func length(c *command.Context) error {
	v, err := lookup(c)
	if err != nil {
		return err
	}
	n := 0
	if v.Exists() {
		n = hashes.Len(v)
	}
	c.Reply.Int(int64(n))
	return nil
}

// parts says which parts of each field all replies.
type parts uint8

const (
	theField parts = 1 << iota
	theValue
)

// getAll is HGETALL key. Replies: a map of fields and values. Errors: ErrWrongType.
func getAll(c *command.Context) error { return all(c, theField|theValue) }

// keys is HKEYS key. Replies: an array of fields. Errors: ErrWrongType.
func keys(c *command.Context) error { return all(c, theField) }

// vals is HVALS key. Replies: an array of values. Errors: ErrWrongType.
func vals(c *command.Context) error { return all(c, theValue) }

// all replies parts of all fields of the hash.
func all(c *command.Context, of parts) error {
	v, err := lookup(c)
	if err != nil {
		return err
	}
	if v.Exists() && c.IsLong(hashes.Len(v)) {
		return c.ReadBeside(func(r *command.Reading) error {
			answerAll(r, v, of)
			return nil
		})
	}
	answerAll(c.Inline(), v, of)
	return nil
}

// answerAll replies parts of all fields that are not past their deadline. It knows their number in advance only if no
// field has a deadline.
func answerAll(r *command.Reading, v value.Value, of parts) {
	reply := r.Reply
	n, known, mark := 0, true, reply.Mark()
	if v.Exists() {
		n, known = hashes.Len(v), !hashes.Volatile(v)
	}
	if known {
		heading(reply, of, n)
	}
	if !v.Exists() {
		return
	}
	n = 0
	hashes.All(v, func(field, val listpack.Element, deadline int64) bool {
		r.Step()
		if deadline != 0 && deadline < r.Now {
			return true
		}
		n++
		if of&theField != 0 {
			answer(reply, field)
		}
		if of&theValue != 0 {
			answer(reply, val)
		}
		return true
	})
	switch {
	case known:
	case of == theField|theValue:
		reply.MapAt(mark, n)
	default:
		reply.ArrayAt(mark, n)
	}
}

func heading(reply *protocol.Reply, of parts, n int) {
	if of == theField|theValue {
		reply.Map(n)
	} else {
		reply.Array(n)
	}
}
