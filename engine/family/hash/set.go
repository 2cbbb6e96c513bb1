package hash

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
)

// set is HSET key field value [field value …]. A field that it sets loses its deadline.
//
// Replies: the number of new fields. Errors: arity, ErrWrongType. Propagates as written.
func (h *commands) set(c *command.Context) error {
	created, err := h.put(c)
	if err == nil {
		c.Reply.Int(int64(created))
	}
	return err
}

// mset is HMSET key field value [field value …]. Replies: OK. Otherwise it is like set.
func (h *commands) mset(c *command.Context) error {
	_, err := h.put(c)
	if err == nil {
		c.Reply.OK()
	}
	return err
}

func (h *commands) put(c *command.Context) (created int, err error) {
	if len(c.Args)%2 == 1 {
		return 0, command.ErrArity(c.Spec)
	}
	key, pairs := c.Args[1], c.Args[2:]
	e, err := edit(c, key)
	if err != nil {
		return 0, err
	}
	limits := h.settings.Limits()
	if e == nil {
		created = create(c, key, pairs, limits)
	} else {
		created = setAll(c, e, key, pairs, false, limits)
	}
	done(c, key, "hset", len(pairs)/2, pairs, 2)
	return created, nil
}

// create makes a hash of alternating fields and values at key, which does not exist.
func create(c *command.Context, key []byte, pairs [][]byte, limits hashes.Limits) (created int) {
	if limits.Holds(pairs) {
		e := c.DB.Create(key, value.Hash, value.Listpack, hashes.FillBytes(pairs))
		created = hashes.Fill(e, pairs, limits)
	} else {
		b := hashes.NewBuilder(c.Space.Store(), len(pairs)/2)
		for i := len(pairs) - 2; i >= 0; i -= 2 { // last pair first: Add keeps the first value of a field
			b.Add(pairs[i], pairs[i+1], 0)
		}
		created = b.Len()
		c.DB.CreateRoot(key, value.Hash, value.HashTable, b.Root())
	}
	c.Notify(command.EventNew, "new", key)
	return created
}

// setAll sets alternating fields and values. If keep is true, fields keep their deadlines.
func setAll(c *command.Context, e *value.Edit, key []byte, pairs [][]byte, keep bool, limits hashes.Limits) (
	created int) {
	if !limits.Holds(pairs) {
		hashes.Convert(e)
	}
	fewer := false
	for i := 0; i < len(pairs); i += 2 {
		isNew, freed := hashes.Set(e, pairs[i], pairs[i+1], keep, limits)
		if isNew {
			created++
		}
		fewer = fewer || freed
	}
	if fewer {
		refresh(c, e, key)
	}
	return created
}

// done publishes and propagates n changes. The changed fields are every step-th of fields.
func done(c *command.Context, key []byte, event string, n int, fields [][]byte, step int) {
	c.DB.Touched(key)
	c.NotifySubkeys(command.EventHash, event, key, fields, step)
	c.Changed(n)
}

// setNX is HSETNX key field value. Replies: 1, or 0 if the field exists. Errors: ErrWrongType. Propagates as written.
func (h *commands) setNX(c *command.Context) error {
	key, pairs := c.Args[1], c.Args[2:4]
	e, _, found, err := editField(c, key, pairs[0])
	if err != nil {
		return err
	}
	if found {
		c.Reply.Int(0)
		return nil
	}
	if limits := h.settings.Limits(); e == nil {
		create(c, key, pairs, limits)
	} else {
		setAll(c, e, key, pairs, false, limits)
	}
	c.Reply.Int(1)
	done(c, key, "hset", 1, pairs, 2)
	return nil
}

// del is HDEL key field [field …]. Replies: the number of removed fields. Errors: ErrWrongType. Propagates as written.
func del(c *command.Context) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil || e == nil {
		c.Reply.Int(0)
		return err
	}
	deleted, fewer, empty := 0, false, false
	for _, field := range c.Args[2:] {
		was, freed := hashes.Delete(e, field)
		if was {
			deleted++
			c.Name(&c.Named, field)
			fewer = fewer || freed
			if empty = hashes.Len(e.Value()) == 0; empty {
				break
			}
		}
	}
	switch {
	case empty:
		c.DB.Remove(e)
	case fewer:
		refresh(c, e, key)
	}
	if deleted > 0 {
		done(c, key, "hdel", deleted, c.Named.All(), 1)
		c.Named.Reset()
		if empty {
			c.Notify(command.EventGeneric, "del", key)
		}
	}
	c.Reply.Int(int64(deleted))
	return nil
}
