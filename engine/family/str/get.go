package str

import (
	"spindle/engine/command"
	"spindle/protocol"
)

// get is GET key. Replies: the value, or nil. Errors: ErrWrongType.
func get(c *command.Context) error {
	v, err := readString(c, c.Args[1])
	if err != nil {
		return err
	}
	appendValue(c, v)
	return nil
}

// mget is MGET key [key …]. Replies: an array of values; null for a missing key or another type.
func mget(c *command.Context) error {
	keys := c.Args[1:]
	c.Reply.Array(len(keys))
	for i, key := range keys {
		if i+prefetchAhead < len(keys) {
			c.DB.Prefetch(keys[i+prefetchAhead])
		} else if i+prefetchAhead == len(keys) {
			c.Space.Prefetched()
		}
		v, err := readString(c, key)
		if err != nil {
			c.Reply.Null()
			continue
		}
		appendValue(c, v)
	}
	return nil
}

// prefetchAhead is the number of keys by which MGET starts the cache misses early. The misses of a key's block start
// eight keys after those of its bucket.
const prefetchAhead = 12

// strlen is STRLEN key. Replies: the length in bytes; 0 if there is no such key. Errors: ErrWrongType.
func strlen(c *command.Context) error {
	v, err := readString(c, c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Int(int64(length(v)))
	return nil
}

// getRange is GETRANGE key start end, and SUBSTR. The range includes both ends. A negative end counts from the end of
// the string.
//
// Replies: the substring, or an empty one. Errors: ErrNotInteger, ErrWrongType.
func getRange(c *command.Context) error {
	start, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	end, err := command.Int(c.Args[3])
	if err != nil {
		return err
	}
	v, err := readString(c, c.Args[1])
	if err != nil {
		return err
	}
	from, to := clip(start, end, length(v))
	if from == to {
		c.Reply.BulkString("")
		return nil
	}
	appendRange(c, v, from, to)
	return nil
}

// clip converts the ends of GETRANGE to a range [from, to).
func clip(start, end int64, length int) (from, to int) {
	n := int64(length)
	if n == 0 || (start < 0 && end < 0 && start > end) {
		return 0, 0
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	end = min(end, n-1)
	if start > end {
		return 0, 0
	}
	return int(start), int(end) + 1
}

// getEx is GETEX key [EX seconds | PX ms | EXAT s | PXAT ms | PERSIST]. It is GET, but also changes the deadline.
//
// Replies: the value, or null. Errors: ErrSyntax, ErrWrongType, ErrNotInteger, "invalid expire time".
// Propagates only the change: PEXPIREAT key ms, or PERSIST key. If the new deadline has already passed, it propagates
// DEL or UNLINK.
func getEx(c *command.Context) error {
	u, expiry, persist := noExpiry, []byte(nil), false
	for i := 2; i < len(c.Args); i++ {
		if command.Is(c.Args[i], "PERSIST") && u == noExpiry {
			persist = true
			continue
		}
		next := unitOf(c.Args[i])
		if next == noExpiry || persist || i+1 == len(c.Args) || (u != noExpiry && u != next) {
			return protocol.ErrSyntax
		}
		i++
		u, expiry = next, c.Args[i]
	}
	key := c.Args[1]
	v, err := readString(c, key)
	if err != nil {
		return err
	}
	if !v.Exists() {
		c.Reply.Null()
		return nil
	}
	when := int64(0)
	if u != noExpiry {
		if when, err = deadline(c, u, expiry); err != nil {
			return err
		}
	}
	appendValue(c, v)
	switch {
	case u.absolute() && c.HasPassed(when):
		c.DB.Delete(key)
		c.Changed(1)
		c.Propagate(c.Removal(), key)
		c.Notify(command.EventGeneric, "del", key)
	case u != noExpiry:
		c.DB.SetDeadline(key, when)
		c.Changed(1)
		c.Propagate(wordPExpireAt, key, c.Effects.Number(when))
		c.Notify(command.EventGeneric, "expire", key)
	case persist && c.DB.Persist(key):
		c.Changed(1)
		c.Propagate(wordPersist, key)
		c.Notify(command.EventGeneric, "persist", key)
	}
	return nil
}

// getDel is GETDEL key. Replies: the value, or nil. Errors: ErrWrongType. Propagates: DEL key.
func getDel(c *command.Context) error {
	key := c.Args[1]
	v, err := readString(c, key)
	if err != nil {
		return err
	}
	appendValue(c, v)
	if v.Exists() && c.DB.Delete(key) {
		c.Changed(1)
		c.Propagate(wordDel, key)
		c.Notify(command.EventGeneric, "del", key)
	}
	return nil
}
