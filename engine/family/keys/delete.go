package keys

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
)

// del is DEL key [key …], and UNLINK: a value is let go in O(1) by either, whatever its size.
//
// Replies: how many keys there were. Propagates as written, if there was any.
func del(c *command.Context) error {
	removed := 0
	keys := c.Args[1:]
	for i, key := range keys {
		if i+prefetchAhead < len(keys) {
			c.DB.Prefetch(keys[i+prefetchAhead])
		} else if i+prefetchAhead == len(keys) {
			c.Space.Prefetched()
		}
		if remove(c, key) {
			c.Notify(command.EventGeneric, "del", key)
			removed++
		}
	}
	c.Changed(removed)
	c.Reply.Int(int64(removed))
	return nil
}

// prefetchAhead is how far in front of the key it removes DEL starts the next cache misses: the block's follow the
// bucket's eight keys later.
const prefetchAhead = 12

// remove deletes key, unless its deadline has ended it already.
func remove(c *command.Context, key []byte) bool {
	if c.DB.Volatile() != 0 && !c.DB.LookupWrite(key).Exists() {
		return false
	}
	return c.DB.Delete(key)
}

// exists is EXISTS key [key …]. Replies: how many exist; a key given twice counts twice.
func exists(c *command.Context) error {
	n := int64(0)
	for _, key := range c.Args[1:] {
		if glance(c, key).Exists() {
			n++
		}
	}
	c.Reply.Int(n)
	return nil
}

// touch is TOUCH key [key …]: it notes an access, also for a client that said NO-TOUCH. Replies: how many exist.
func touch(c *command.Context) error {
	quiet := c.Space.NoTouch
	c.Space.NoTouch = false
	n := int64(0)
	for _, key := range c.Args[1:] {
		if c.DB.Lookup(key).Exists() {
			n++
		} else {
			c.Notify(command.EventKeyMiss, "keymiss", key)
		}
	}
	c.Space.NoTouch = quiet
	c.Reply.Int(n)
	return nil
}

// typeOf is TYPE key. Replies: a status, "none" for no key.
func typeOf(c *command.Context) error {
	v := glance(c, c.Args[1])
	if !v.Exists() {
		c.Reply.Simple(value.None.String())
		return nil
	}
	c.Reply.Simple(v.TypeName())
	return nil
}

// glance looks key up for reading without counting it as an access: who asks whether a key exists does not use it. A
// miss is told.
func glance(c *command.Context, key []byte) value.Value {
	v := inspect(c, key)
	if !v.Exists() {
		c.Notify(command.EventKeyMiss, "keymiss", key)
	}
	return v
}

// inspect is glance without telling of a miss.
func inspect(c *command.Context, key []byte) value.Value {
	quiet := c.Space.NoTouch
	c.Space.NoTouch = true
	v := c.DB.Lookup(key)
	c.Space.NoTouch = quiet
	return v
}
