package str

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/protocol"
)

var wordMSet = []byte("MSET")

// msetEx is MSETEX n key value [key value …] [NX | XX] [EX seconds | PX ms | EXAT s | PXAT ms | KEEPTTL]. It sets all
// keys or none, with one deadline.
//
// Replies: 1; 0 if a key exists (NX) or a key is missing (XX). Errors: a wrong n, ErrSyntax, ErrNotInteger, "invalid
// expire time". Propagates: MSET, or a SET with PXAT or KEEPTTL for each key.
func msetEx(c *command.Context) error {
	n, err := command.Int(c.Args[1])
	switch {
	case err != nil || n < 1 || n > math.MaxInt32:
		return errNumKeys
	case n > int64(len(c.Args)-2)/2:
		return protocol.ErrSyntax
	}
	pairs, o := c.Args[2:2+2*n], setOptions{}
	if err := o.parse(c.Args[2+2*n:]); err != nil {
		return err
	}
	if o.get || o.only.is != always {
		return protocol.ErrSyntax
	}
	when := int64(0)
	if o.unit != noExpiry {
		if when, err = deadline(c, o.unit, o.expiry); err != nil {
			return err
		}
	}
	if o.onlyNew || o.onlyOld {
		for i := 0; i < len(pairs); i += 2 {
			if c.DB.LookupWrite(pairs[i]).Exists() != o.onlyOld {
				c.Reply.Int(0)
				return nil
			}
		}
	}
	if o.keepTTL {
		when = keyspace.KeepTTL
	}
	setPairs(c, pairs, when)
	c.Reply.Int(1)
	return nil
}

// setPairs sets keys with one deadline; see DB.SetString.
func setPairs(c *command.Context, pairs [][]byte, when int64) {
	for i := 0; i < len(pairs); i += 2 {
		key, val := pairs[i], pairs[i+1]
		store(c, key, val, when)
		c.Notify(command.EventString, "set", key)
		switch {
		case when == keyspace.KeepTTL:
			c.Propagate(wordSet, key, val, wordKeepTTL)
		case when != 0:
			c.Propagate(wordSet, key, val, wordPxAt, c.Effects.Number(when))
			c.Notify(command.EventGeneric, "expire", key)
		}
	}
	if when == 0 {
		var room [16][]byte
		c.Propagate(append(append(room[:0], wordMSet), pairs...)...)
	}
	c.Changed(len(pairs) / 2)
}
