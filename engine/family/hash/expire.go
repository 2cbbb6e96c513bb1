package hash

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
)

var (
	wordHPExpireAt = []byte("HPEXPIREAT")
	wordHDel       = []byte("HDEL")
)

// latest is the latest deadline that a client may set, in Unix ms: the year 4199.
const latest = 1<<46 - 1

// expire is HEXPIRE key seconds [NX | XX | GT | LT] FIELDS n field [field …].
//
// Replies an integer for each field: 1 if set, 0 if the condition does not hold, -2 if there is no such field. It
// replies 2 if the deadline has already passed; the field is then removed.
// Errors: ErrWrongType, ErrNotInteger, a time out of range, FIELDS missing or with a wrong number.
// Propagates: HPEXPIREAT key ms with the changed fields, so that a replica expires them at the same instant. For each
// removed field it propagates HDEL.
func expire(c *command.Context) error { return setDeadlines(c, c.Now, 1000) }

// expireAt is HEXPIREAT key unix-seconds …; see expire.
func expireAt(c *command.Context) error { return setDeadlines(c, 0, 1000) }

// pexpire is HPEXPIRE key milliseconds …; see expire.
func pexpire(c *command.Context) error { return setDeadlines(c, c.Now, 1) }

// pexpireAt is HPEXPIREAT key unix-milliseconds …; see expire.
func pexpireAt(c *command.Context) error { return setDeadlines(c, 0, 1) }

// setDeadlines implements all four commands. The time argument counts units of unitMs from base, which is in Unix ms.
func setDeadlines(c *command.Context, base, unitMs int64) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	when, err := deadlineOf(c, c.Args[2], base, unitMs)
	if err != nil {
		return err
	}
	at := 4 // the index of the number of fields
	only := conditionOf(c.Args[3])
	if only != hashes.Always {
		at++
	}
	fields, err := fieldsOf(c.Args, at, errFieldCount)
	if err != nil {
		return err
	}
	c.Reply.Array(len(fields))
	if e == nil {
		for range fields {
			c.Reply.Int(int64(hashes.NoField))
		}
		return nil
	}
	d := deadlines{c: c, e: e, key: key, when: max(when, 1), only: only, passed: c.HasPassed(when)}
	var room [8]hashes.Outcome
	outcomes := d.set(fields, room[:0])
	if d.updated > 0 && (d.updated < len(fields) || base != 0 || unitMs != 1) {
		d.propagate(at, outcomes)
	}
	d.end()
	return nil
}

// deadlineOf converts the number of an option to Unix milliseconds. The number counts units of unitMs from base, in
// Unix ms.
//
// Errors: ErrNotInteger, a time out of range.
func deadlineOf(c *command.Context, arg []byte, base, unitMs int64) (int64, error) {
	n, err := command.Int(arg)
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, errNegative
	case n > latest/unitMs || n*unitMs > latest-base:
		return 0, errExpireTime(c.Spec.Full)
	}
	return n*unitMs + base, nil
}

func conditionOf(arg []byte) hashes.Condition {
	switch {
	case command.Is(arg, "NX"):
		return hashes.NX
	case command.Is(arg, "XX"):
		return hashes.XX
	case command.Is(arg, "GT"):
		return hashes.GT
	case command.Is(arg, "LT"):
		return hashes.LT
	}
	return hashes.Always
}

// fieldsOf parses FIELDS n field …, where n is args[at].
func fieldsOf(args [][]byte, at int, badCount error) ([][]byte, error) {
	if !command.Is(args[at-1], "FIELDS") {
		return nil, errNoFields
	}
	n, err := command.Int(args[at])
	if err != nil || n < 1 {
		return nil, badCount
	}
	if n != int64(len(args)-at-1) {
		return nil, errFieldsDiffer
	}
	return args[at+1:], nil
}

// deadlines is the state of one call that sets deadlines.
type deadlines struct {
	c       *command.Context
	e       *value.Edit
	key     []byte
	when    int64
	only    hashes.Condition
	passed  bool // the deadline has passed: fields are removed instead
	updated int
	removed int
}

// set sets the deadline of each field and appends its outcome to outcomes.
func (d *deadlines) set(fields [][]byte, outcomes []hashes.Outcome) []hashes.Outcome {
	c := d.c
	hashes.AllowDeadlines(d.e) // OBJECT ENCODING shows this even if nothing else changes
	for _, field := range fields {
		o := hashes.Expire(d.e, field, d.when, d.only, d.passed)
		switch o {
		case hashes.Done:
			d.updated++
			c.Name(&c.Named, field)
		case hashes.Removed:
			d.removed++
			c.Name(&c.Named, field)
			c.Space.Stats.ExpiredFields++
			c.Propagate(wordHDel, d.key, field)
		}
		outcomes = append(outcomes, o)
		c.Reply.Int(int64(o))
	}
	return outcomes
}

// propagate sends HPEXPIREAT with the fields whose deadline was set. Argument at of the call is the number of fields.
func (d *deadlines) propagate(at int, outcomes []hashes.Outcome) {
	c := d.c
	var room [16][]byte
	args := append(room[:0], wordHPExpireAt, d.key, c.Effects.Number(d.when))
	args = append(args, c.Args[3:at]...)
	args = append(args, c.Effects.Number(int64(d.updated)))
	for i, o := range outcomes {
		if o == hashes.Done {
			args = append(args, c.Args[at+1+i])
		}
	}
	c.Propagate(args...)
}

// end reports the changes to the keyspace and publishes their events.
func (d *deadlines) end() {
	c := d.c
	if d.updated+d.removed == 0 {
		return
	}
	c.Changed(d.updated + d.removed)
	if hashes.Len(d.e.Value()) == 0 {
		c.DB.Remove(d.e)
		c.NotifyNamed(command.EventHash, "hdel", d.key, &c.Named)
		c.Notify(command.EventGeneric, "del", d.key)
		return
	}
	refresh(c, d.e, d.key)
	c.DB.Touched(d.key)
	event := "hexpire"
	if d.removed > 0 {
		event = "hdel"
	}
	c.NotifyNamed(command.EventHash, event, d.key, &c.Named)
}

// persist is HPERSIST key FIELDS n field [field …].
//
// Replies: for each field 1, -1 if it has no deadline, -2 if there is no such field. Errors: ErrWrongType, FIELDS
// missing or with a wrong number. Propagates as written, but without the fields past their deadline. A replica would
// otherwise keep these fields.
func persist(c *command.Context) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	fields, err := fieldsOf(c.Args, 3, errFieldCountOf)
	if err != nil {
		return err
	}
	c.Reply.Array(len(fields))
	var room [16][]byte
	persisted, lapsed := room[:0], false
	for _, field := range fields {
		o := hashes.NoField
		if e != nil {
			o = hashes.Persist(e, field, asOf(c))
		}
		switch {
		case o == hashes.Done:
			persisted = append(persisted, field)
			c.Name(&c.Named, field)
		case o == hashes.NoField && e != nil && !lapsed:
			_, _, lapsed = hashes.Get(e.Value(), field)
		}
		c.Reply.Int(int64(o))
	}
	if len(persisted) == 0 {
		return nil
	}
	refresh(c, e, key)
	if lapsed {
		propagateFields(c, persisted, wordHPersist, key)
	}
	done(c, key, "hpersist", 1, c.Named.All(), 1)
	c.Named.Reset()
	return nil
}

// ttl is HTTL key FIELDS n field [field …]. Replies, for each field: the seconds left, rounded up; -1 without a
// deadline; -2 if there is no such field.
// Errors: those of persist.
func ttl(c *command.Context) error { return left(c, c.Now, 1000) }

// pttl is HPTTL: ttl in milliseconds.
func pttl(c *command.Context) error { return left(c, c.Now, 1) }

// expireTime is HEXPIRETIME: it replies the deadline in Unix seconds, rounded up. Otherwise it is like ttl.
func expireTime(c *command.Context) error { return left(c, 0, 1000) }

// pexpireTime is HPEXPIRETIME: expireTime in milliseconds.
func pexpireTime(c *command.Context) error { return left(c, 0, 1) }

// left replies the deadlines as times after base, in units of unitMs.
func left(c *command.Context, base, unitMs int64) error {
	v, err := lookup(c)
	if err != nil {
		return err
	}
	fields, err := fieldsOf(c.Args, 3, errFieldCountOf)
	if err != nil {
		return err
	}
	since := int64(math.MinInt64) // earlier deadlines have passed
	if v.Exists() {
		since = c.Now
		if v.Packed() != nil {
			since++ // for a listpack Redis is a millisecond stricter
		}
	}
	c.Reply.Array(len(fields))
	for _, field := range fields {
		o := int64(hashes.NoField)
		if v.Exists() {
			switch _, deadline, found := hashes.Get(v, field); {
			case !found:
			case deadline == 0:
				o = int64(hashes.NoDeadline)
			case deadline >= since:
				o = (deadline - base + unitMs - 1) / unitMs
			}
		}
		c.Reply.Int(o)
	}
	return nil
}
