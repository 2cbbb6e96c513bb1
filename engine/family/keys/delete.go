package keys

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
)

// del is DEL key [key …] and UNLINK. Either frees a value in O(1) of the turn, whatever its size.
//
// Replies: how many keys it deleted. Propagates as written, if there was one.
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

// prefetchAhead is how many keys ahead DEL starts the cache misses of a key. The misses of a block follow eight keys
// after those of its bucket.
const prefetchAhead = 12

// remove deletes key, unless its deadline has passed.
func remove(c *command.Context, key []byte) bool {
	if c.DB.Volatile() != 0 && !c.DB.LookupWrite(key).Exists() {
		return false
	}
	return c.DB.Delete(key)
}

// exists is EXISTS key [key …]. Replies: how many keys exist; a repeated key counts again.
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

// touch is TOUCH key [key …]. It counts as an access even under CLIENT NO-TOUCH. Replies: how many exist.
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

// glance looks key up for reading, without counting it as an access, and publishes a miss.
func glance(c *command.Context, key []byte) value.Value {
	v := inspect(c, key)
	if !v.Exists() {
		c.Notify(command.EventKeyMiss, "keymiss", key)
	}
	return v
}

// inspect is glance that publishes no miss.
func inspect(c *command.Context, key []byte) value.Value {
	quiet := c.Space.NoTouch
	c.Space.NoTouch = true
	v := c.DB.Lookup(key)
	c.Space.NoTouch = quiet
	return v
}
