package hash

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
)

// For a reader, a field past its deadline is absent. A server that expires keys then removes the field, propagates HDEL
// and publishes "hexpired". A replica or a paused server only hides the field. Commands from the primary still see it.
//
// Commands that read a field, or derive a value from it, call find. HLEN counts such fields. HDEL, HSET and HEXPIRE
// treat them as present, as in Redis.

// past reports whether deadline has passed.
func past(c *command.Context, deadline int64) bool { return deadline != 0 && deadline < c.Now }

// asOf returns the time at which deadlines are judged. For commands from the primary and of a log, which may come late,
// no deadline has passed.
func asOf(c *command.Context) int64 {
	if c.Space.Trusting {
		return math.MinInt64
	}
	return c.Now
}

// removes reports whether this server removes expired fields at once.
func removes(c *command.Context) bool {
	return !c.Space.Replica && !c.Space.Hiding && !c.Space.Trusting
}

// find returns a field's value in v, the hash at key. A field past its deadline is not found, and may be removed.
// lapsed means that it was removed, so v and any Edit of the key are invalid. gone means that the key was removed, too.
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

// editField finds the hash at key, and the value of field in it, for a command that will set the field. e is nil if key
// does not exist.
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

// lapse removes a field past its deadline. gone means that the key was removed, too.
func lapse(c *command.Context, key, field []byte, notify bool) (gone bool) {
	e := c.DB.Edit(key)
	expired(c, key, field)
	if notify {
		c.Name(&c.Lapsed, field)
	}
	hashes.Delete(e, field)
	return lapsed(c, e, key, hashes.Least(e.Value()), notify)
}

// expired reports a field that is about to be removed to the statistics and the hook.
func expired(c *command.Context, key, field []byte) {
	c.Space.Stats.ExpiredFields++
	if c.Space.Hooks.FieldExpired != nil {
		c.Space.Hooks.FieldExpired(c.DB.Index(), key, field)
	}
}

// lapsed completes a removal of expired fields, which are in c.Lapsed. least is the next deadline in the hash.
func lapsed(c *command.Context, e *value.Edit, key []byte, least int64, notify bool) (gone bool) {
	gone = hashes.Len(e.Value()) == 0
	if gone {
		c.DB.Remove(e)
	} else {
		c.DB.SetFieldsDeadline(key, least)
		c.DB.Touched(key)
	}
	if notify {
		c.NotifyNamed(command.EventHash, "hexpired", key, &c.Lapsed)
		if gone {
			c.Notify(command.EventGeneric, "del", key)
		}
	}
	return gone
}

// lapseAll removes all expired fields of v, the hash at key. It returns the hash after that, or the zero Value if the
// key is gone. A server that only hides expired fields keeps them here. So HRANDFIELD on a replica may reply expired
// fields, as in Redis.
func lapseAll(c *command.Context, v value.Value, key []byte) value.Value {
	if !hashes.Volatile(v) || !past(c, hashes.Least(v)) || !removes(c) {
		return v
	}
	e := c.DB.Edit(key)
	next, n := hashes.ExpirePast(e, c.Now, func(field []byte) {
		expired(c, key, field)
		c.Name(&c.Lapsed, field)
	})
	if n > 0 && lapsed(c, e, key, next, true) {
		return value.Value{}
	}
	return e.Value()
}

// refresh tells the keyspace the next deadline of the hash at key, after a deadline has changed.
func refresh(c *command.Context, e *value.Edit, key []byte) {
	c.DB.SetFieldsDeadline(key, hashes.Least(e.Value()))
}
