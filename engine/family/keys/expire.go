package keys

import (
	"math"

	"spindle/engine/command"
)

var (
	wordPExpireAt = []byte("PEXPIREAT")
)

// expire is EXPIRE key seconds [NX | XX | GT | LT].
//
// Replies: 1, or 0 if there is no such key or the condition does not hold.
// Errors: "Unsupported option", options that exclude each other, ErrNotInteger, "invalid expire time".
// Propagates: PEXPIREAT key ms with the options, so that a replica expires the key at the same instant. If the new
// deadline has already passed, it propagates DEL or UNLINK.
func expire(c *command.Context) error { return setDeadline(c, c.Now, 1000) }

// expireAt is EXPIREAT key unix-seconds [NX | XX | GT | LT]; see expire.
func expireAt(c *command.Context) error { return setDeadline(c, 0, 1000) }

// pexpire is PEXPIRE key milliseconds [NX | XX | GT | LT]; see expire.
func pexpire(c *command.Context) error { return setDeadline(c, c.Now, 1) }

// pexpireAt is PEXPIREAT key unix-milliseconds [NX | XX | GT | LT]; see expire. Propagates as written.
func pexpireAt(c *command.Context) error { return setDeadline(c, 0, 1) }

// setDeadline implements all four commands. The time argument counts units of unitMs from base, which is in Unix ms.
func setDeadline(c *command.Context, base, unitMs int64) error {
	var only condition
	if err := only.parse(c.Args[3:]); err != nil {
		return err
	}
	n, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	if n > math.MaxInt64/unitMs || n < math.MinInt64/unitMs || n*unitMs > math.MaxInt64-base {
		return errExpireTime(c.Spec.Full)
	}
	when := n*unitMs + base
	key := c.Args[1]
	v := c.DB.LookupWrite(key)
	if !v.Exists() || !only.holds(v.Deadline(), when) {
		c.Reply.Int(0)
		return nil
	}
	c.Changed(1)
	if c.HasPassed(when) {
		c.DB.Delete(key)
		c.Propagate(c.Removal(), key)
		c.Notify(command.EventGeneric, "del", key)
		c.Reply.Int(1)
		return nil
	}
	c.DB.SetDeadline(key, max(when, 1)) // a past deadline may be below 1; 0 would mean none
	if base != 0 || unitMs != 1 {
		var room [8][]byte
		args := append(room[:0], wordPExpireAt, key, c.Effects.Number(when))
		c.Propagate(append(args, c.Args[3:]...)...)
	}
	c.Notify(command.EventGeneric, "expire", key)
	c.Reply.Int(1)
	return nil
}

// condition says when EXPIRE and its kin may change a deadline.
type condition struct{ nx, xx, gt, lt bool }

func (k *condition) parse(args [][]byte) error {
	for _, a := range args {
		switch {
		case command.Is(a, "NX"):
			k.nx = true
		case command.Is(a, "XX"):
			k.xx = true
		case command.Is(a, "GT"):
			k.gt = true
		case command.Is(a, "LT"):
			k.lt = true
		default:
			return errUnsupported(a)
		}
	}
	if k.nx && (k.xx || k.gt || k.lt) {
		return errNXWithOthers
	}
	if k.gt && k.lt {
		return errGTWithLT
	}
	return nil
}

// holds reports whether the condition allows the deadline when. old is the key's present deadline. 0 means none, which
// counts as later than any other.
func (k *condition) holds(old, when int64) bool {
	switch {
	case k.nx && old != 0, k.xx && old == 0:
		return false
	case k.gt && (old == 0 || when <= old), k.lt && old != 0 && when >= old:
		return false
	}
	return true
}

// ttl is TTL key. Replies: the seconds left, rounded; -1 without a deadline, -2 for a missing key.
func ttl(c *command.Context) error { return left(c, c.Now, 1000) }

// pttl is PTTL key: ttl in milliseconds.
func pttl(c *command.Context) error { return left(c, c.Now, 1) }

// expireTime is EXPIRETIME key. Replies: the deadline in Unix seconds; -1 without a deadline, -2 for a missing key.
func expireTime(c *command.Context) error { return left(c, 0, 1000) }

// pexpireTime is PEXPIRETIME key: expireTime in milliseconds.
func pexpireTime(c *command.Context) error { return left(c, 0, 1) }

// left replies the deadline as a time after base, in units of unitMs.
func left(c *command.Context, base, unitMs int64) error {
	v := glance(c, c.Args[1])
	switch {
	case !v.Exists():
		c.Reply.Int(-2)
	case v.Deadline() == 0:
		c.Reply.Int(-1)
	default:
		ms := uint64(max(v.Deadline()-base, 0)) // unsigned: rounding up the last instant cannot overflow
		c.Reply.Int(int64((ms + uint64(unitMs/2)) / uint64(unitMs)))
	}
	return nil
}

// persist is PERSIST key. Replies: 1, or 0 for a missing key or a key without a deadline. Propagates as written.
func persist(c *command.Context) error {
	if !c.DB.LookupWrite(c.Args[1]).Exists() || !c.DB.Persist(c.Args[1]) {
		c.Reply.Int(0)
		return nil
	}
	c.Changed(1)
	c.Notify(command.EventGeneric, "persist", c.Args[1])
	c.Reply.Int(1)
	return nil
}
