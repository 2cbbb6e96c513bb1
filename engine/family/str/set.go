package str

import (
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// Words of propagated commands.
var (
	wordSet       = []byte("SET")
	wordPxAt      = []byte("PXAT")
	wordKeepTTL   = []byte("KEEPTTL")
	wordDel       = []byte("DEL")
	wordPersist   = []byte("PERSIST")
	wordPExpireAt = []byte("PEXPIREAT")
)

type setOptions struct {
	onlyNew, onlyOld bool // NX, XX
	only             condition
	get, keepTTL     bool
	unit             unit
	expiry           []byte // the number as text
}

func (o *setOptions) parse(args [][]byte) error {
	for i := 0; i < len(args); i++ {
		switch word := args[i]; {
		case command.Is(word, "NX") && !o.onlyOld && o.only.is == always:
			o.onlyNew = true
		case command.Is(word, "XX") && !o.onlyNew && o.only.is == always:
			o.onlyOld = true
		case comparisonOf(word) != always:
			if o.onlyNew || o.onlyOld || o.only.is != always || i+1 == len(args) {
				return protocol.ErrSyntax
			}
			i++
			o.only = condition{is: comparisonOf(word), arg: args[i]}
		case command.Is(word, "GET"):
			o.get = true
		case command.Is(word, "KEEPTTL") && o.unit == noExpiry:
			o.keepTTL = true
		default:
			u := unitOf(word)
			if u == noExpiry || o.keepTTL || i+1 == len(args) || (o.unit != noExpiry && o.unit != u) {
				return protocol.ErrSyntax
			}
			i++
			o.unit, o.expiry = u, args[i] // of repeated options the last one counts
		}
	}
	return o.only.check()
}

// set is SET key value [condition] [GET] [EX seconds | PX ms | EXAT s | PXAT ms | KEEPTTL]. A condition is NX, XX, or a
// comparison with the old value: IFEQ or IFNE value, IFDEQ or IFDNE digest.
//
// Replies: OK, or null if the condition does not hold. With GET it replies the old value or null in either case.
// Errors: ErrSyntax, ErrNotInteger, "invalid expire time", errDigest; with GET or a comparison ErrWrongType.
// Propagates as written, without GET and comparison. With an expiry it propagates SET key value PXAT ms. So a replica
// expires the key at the same instant and does not check NX or XX again.
func set(c *command.Context) error {
	if len(c.Args) == 3 {
		store(c, c.Args[1], c.Args[2], 0)
		c.Changed(1)
		c.Notify(command.EventString, "set", c.Args[1])
		c.Reply.OK()
		return nil
	}
	var o setOptions
	if err := o.parse(c.Args[3:]); err != nil {
		return err
	}
	done, err := o.run(c, c.Args[1], c.Args[2])
	if err != nil || o.get {
		return err
	}
	if done {
		c.Reply.OK()
	} else {
		c.Reply.Null()
	}
	return nil
}

// run sets key to val if the options allow it. It replies the old value if the options include GET.
func (o *setOptions) run(c *command.Context, key, val []byte) (done bool, err error) {
	when := int64(0)
	if o.unit != noExpiry {
		if when, err = deadline(c, o.unit, o.expiry); err != nil {
			return false, err
		}
	}
	exists := false
	switch {
	case o.get:
		v, err := readString(c, key)
		if err != nil {
			return false, err
		}
		exists = v.Exists()
		appendValue(c, v)
		if !o.only.holds(v) {
			return false, nil
		}
	case o.only.is != always:
		v, err := writeString(c, key)
		if err != nil || !o.only.holds(v) {
			return false, err
		}
	case o.onlyNew || o.onlyOld:
		exists = c.DB.LookupWrite(key).Exists()
	}
	if (o.onlyNew && exists) || (o.onlyOld && !exists) {
		return false, nil
	}
	if o.keepTTL {
		when = keyspace.KeepTTL
	}
	store(c, key, val, when)
	c.Changed(1)
	c.Notify(command.EventString, "set", key)
	if o.unit != noExpiry {
		c.Notify(command.EventGeneric, "expire", key)
	}
	o.propagate(c, key, val, when)
	return true, nil
}

// propagate propagates a form of the call that needs no reply, and that every version of Redis knows.
func (o *setOptions) propagate(c *command.Context, key, val []byte, when int64) {
	compares := o.only.is != always
	switch {
	case o.unit != noExpiry && (o.unit != pxAt || compares):
		c.Propagate(wordSet, key, val, wordPxAt, c.Effects.Number(when))
	case compares && o.keepTTL:
		c.Propagate(wordSet, key, val, wordKeepTTL)
	case compares:
		c.Propagate(wordSet, key, val)
	case o.get && o.unit == noExpiry:
		o.propagateWithoutGet(c)
	}
}

// propagateWithoutGet propagates the request without GET, because a replica needs no reply.
func (o *setOptions) propagateWithoutGet(c *command.Context) {
	var kept [8][]byte
	args := append(kept[:0], c.Args[:3]...)
	for _, a := range c.Args[3:] {
		if !command.Is(a, "GET") {
			args = append(args, a)
		}
	}
	c.Propagate(args...)
}

// store writes val at key and replaces any old value. If the argument has its own memory block, the block becomes the
// value without a copy.
func store(c *command.Context, key, val []byte, when int64) {
	c.Overwrites(key, value.String)
	var created bool
	if b := c.Bulk; b != nil && !b.Taken && len(val) >= adoptFrom && len(val) == len(b.Data) && &val[0] == &b.Data[0] {
		created = c.DB.SetBulk(key, c.Bulk.Ref, len(val), when)
		c.Bulk.Taken = true
	} else {
		created = c.DB.SetString(key, val, when)
	}
	if created {
		c.Notify(command.EventNew, "new", key)
	}
}

// adoptFrom is the least size from which an argument's block becomes the value. A shorter value may fit next to its
// key.
const adoptFrom = 64 << 10

// setNX is SETNX key value. Replies: 1, or 0 if the key exists. Propagates as written.
func setNX(c *command.Context) error {
	if c.DB.LookupWrite(c.Args[1]).Exists() {
		c.Reply.Int(0)
		return nil
	}
	store(c, c.Args[1], c.Args[2], 0)
	c.Changed(1)
	c.Notify(command.EventString, "set", c.Args[1])
	c.Reply.Int(1)
	return nil
}

// setEx is SETEX key seconds value. Replies: OK. Errors: ErrNotInteger, "invalid expire time".
// Propagates: SET key value PXAT ms.
func setEx(c *command.Context) error { return setWithExpiry(c, ex) }

// psetEx is PSETEX key milliseconds value; see setEx.
func psetEx(c *command.Context) error { return setWithExpiry(c, px) }

func setWithExpiry(c *command.Context, u unit) error {
	o := setOptions{unit: u, expiry: c.Args[2]}
	if _, err := o.run(c, c.Args[1], c.Args[3]); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

// getSet is GETSET key value. Replies: the old value or null. Errors: ErrWrongType. Propagates: SET key value.
func getSet(c *command.Context) error {
	v, err := readString(c, c.Args[1])
	if err != nil {
		return err
	}
	appendValue(c, v)
	store(c, c.Args[1], c.Args[2], 0)
	c.Changed(1)
	c.Notify(command.EventString, "set", c.Args[1])
	c.Propagate(wordSet, c.Args[1], c.Args[2])
	return nil
}

// mset is MSET key value [key value …]. Replies: OK. Errors: wrong number of arguments. Propagates as written.
func mset(c *command.Context) error {
	if len(c.Args)%2 == 0 {
		return errPairs(c)
	}
	setAll(c)
	c.Reply.OK()
	return nil
}

// msetNX is MSETNX key value [key value …]. It sets all keys, or none if one exists. Replies: 1 or 0. Propagates as
// written.
func msetNX(c *command.Context) error {
	if len(c.Args)%2 == 0 {
		return errPairs(c)
	}
	for i := 1; i < len(c.Args); i += 2 {
		if c.DB.LookupWrite(c.Args[i]).Exists() {
			c.Reply.Int(0)
			return nil
		}
	}
	setAll(c)
	c.Reply.Int(1)
	return nil
}

func setAll(c *command.Context) {
	for i := 1; i < len(c.Args); i += 2 {
		store(c, c.Args[i], c.Args[i+1], 0)
		c.Notify(command.EventString, "set", c.Args[i])
	}
	c.Changed(len(c.Args) / 2)
}

func readString(c *command.Context, key []byte) (value.Value, error) {
	return c.Find(key, value.String)
}
