package hash

import (
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
)

// A field past its deadline is absent to whoever reads it. A server that removes expired keys removes the field then,
// tells the sinks HDEL and publishes "hexpired"; others (a replica, a paused server) hide it; and to commands from the
// primary it is still there.
//
// Commands that name a field to read or to build on it go this way. HLEN counts such fields, and HDEL, HSET and HEXPIRE
// take them as they are, as in the reference.

// past says that a deadline has passed.
func past(c *command.Context, deadline int64) bool { return deadline != 0 && deadline < c.Now }

// removes says that what is past its deadline is removed here and now.
func removes(c *command.Context) bool {
	return !c.Space.Replica && !c.Space.Hiding && !c.Space.Trusting
}

// find is a field's value in v, the hash at key. One past its deadline is not found, and may be removed: lapsed, then
// neither v nor an Edit of the key holds any longer; gone: the key went with it.
func find(c *command.Context, v value.Value, key, field []byte) (val listpack.Element, found, lapsed, gone bool) {
	val, deadline, found := hashes.Get(v, field)
	if !found || !past(c, deadline) || c.Space.Trusting {
		return val, found, false, false
	}
	if !removes(c) {
		return listpack.Element{}, false, false, false
	}
	return listpack.Element{}, false, true, lapse(c, key, field, true)
}

// editField finds the hash at key and field's value in it, for a command that is about to set it; e is nil if there is
// no such key.
//
// Errors: ErrWrongType.
func editField(c *command.Context, key, field []byte) (e *value.Edit, val listpack.Element, found bool, err error) {
	if e, err = edit(c, key); err != nil || e == nil {
		return nil, val, false, err
	}
	val, found, lapsed, gone := find(c, e.Value(), key, field)
	switch {
	case gone:
		e = nil
	case lapsed:
		e = c.DB.Edit(key)
	}
	return e, val, found, nil
}

// lapse removes a field that is past its deadline and says whether the key is gone with it.
func lapse(c *command.Context, key, field []byte, notify bool) (gone bool) {
	e := c.DB.Edit(key)
	expired(c, key, field)
	hashes.Delete(e, field)
	return lapsed(c, e, key, hashes.Least(e.Value()), notify)
}

// expired tells of a field that is about to go.
func expired(c *command.Context, key, field []byte) {
	c.Space.Stats.ExpiredFields++
	if c.Space.Hooks.FieldExpired != nil {
		c.Space.Hooks.FieldExpired(c.DB.Index(), key, field)
	}
}

// lapsed ends a removal of expired fields, after which the next one is due at least.
func lapsed(c *command.Context, e *value.Edit, key []byte, least int64, notify bool) (gone bool) {
	gone = hashes.Len(e.Value()) == 0
	if gone {
		c.DB.Remove(e)
	} else {
		c.DB.SetFieldsDeadline(key, least)
		c.DB.Touched(key)
	}
	if notify {
		c.Notify(command.EventHash, "hexpired", key)
		if gone {
			c.Notify(command.EventGeneric, "del", key)
		}
	}
	return gone
}

// lapseAll removes all fields of v, the hash at key, that are past their deadline. It returns the hash as it is then,
// the zero Value if the key is gone. What only hides expired fields hides none here: HRANDFIELD of a replica may answer
// them, as in the reference.
func lapseAll(c *command.Context, v value.Value, key []byte) value.Value {
	if !hashes.Volatile(v) || !past(c, hashes.Least(v)) || !removes(c) {
		return v
	}
	e := c.DB.Edit(key)
	next, n := hashes.ExpirePast(e, c.Now, func(field []byte) { expired(c, key, field) })
	if n > 0 && lapsed(c, e, key, next, true) {
		return value.Value{}
	}
	return e.Value()
}

// refresh tells the keyspace when the hash at key is due next, after one of its deadlines has changed.
func refresh(c *command.Context, e *value.Edit, key []byte) {
	c.DB.SetFieldsDeadline(key, hashes.Least(e.Value()))
}
