package keys

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
)

// del is DEL key [key …] and UNLINK. For both, the turn takes O(1) to free a value, whatever its size.
//
// Replies: the number of deleted keys. On a writable replica, an expired key counts as deleted, as in Redis. Propagates
// as written, if it deleted any.
func del(c *command.Context) error {
	removed := 0
	keys := c.Args[1:]
	for i, key := range keys {
		if i+prefetchAhead < len(keys) {
			c.DB.Prefetch(keys[i+prefetchAhead])
		} else if i+prefetchAhead == len(keys) {
			c.Space.Prefetched()
		}
		if c.DB.Delete(key) {
			c.Notify(command.EventGeneric, "del", key)
			removed++
		}
	}
	c.Changed(removed)
	c.Reply.Int(int64(removed))
	return nil
}

// prefetchAhead is the number of keys by which DEL starts the cache misses early. The misses of a key's block start
// eight keys after those of its bucket.
const prefetchAhead = 12

// exists is EXISTS key [key …]. Replies: the number of keys that exist. A repeated key is counted again.
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

// touch is TOUCH key [key …]. It counts as an access even under CLIENT NO-TOUCH. Replies: the number of keys that
// exist.
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

// typeOf is TYPE key. Replies: the type as a status, "none" for a missing key.
func typeOf(c *command.Context) error {
	v := glance(c, c.Args[1])
	if !v.Exists() {
		c.Reply.Simple(value.None.String())
		return nil
	}
	c.Reply.Simple(v.TypeName())
	return nil
}

// glance looks key up for reading, without counting it as an access. If key is missing, it publishes a miss.
func glance(c *command.Context, key []byte) value.Value {
	v := inspect(c, key)
	if !v.Exists() {
		c.Notify(command.EventKeyMiss, "keymiss", key)
	}
	return v
}

// inspect is glance without the event of a miss.
func inspect(c *command.Context, key []byte) value.Value {
	quiet := c.Space.NoTouch
	c.Space.NoTouch = true
	v := c.DB.Lookup(key)
	c.Space.NoTouch = quiet
	return v
}
