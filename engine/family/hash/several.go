package hash

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
	"spindle/protocol"
)

var wordHPersist = []byte("HPERSIST")

// several is the state of one call that reads fields of a hash and changes them: HGETDEL, HGETEX, HSETEX. It removes
// the fields that it finds past their deadline. If the hash becomes empty, its key stays until end.
type several struct {
	c       *command.Context
	key     []byte
	e       *value.Edit // nil if there is no such key
	lapsed  bool        // fields past their deadline were removed
	changed int
	removed bool // changed fields were removed
}

// find returns a field's value. A field past its deadline is not found.
func (s *several) find(field []byte) (val listpack.Element, found bool) {
	if s.e == nil {
		return val, false
	}
	val, deadline, found := hashes.Get(s.e.Value(), field)
	if !found || !past(s.c, deadline) || s.c.Space.Trusting {
		return val, found
	}
	if removes(s.c) {
		expired(s.c, s.key, field)
		s.c.Name(&s.c.Lapsed, field)
		hashes.Delete(s.e, field)
		s.lapsed = true
	}
	return listpack.Element{}, false
}

// reply writes a field's value, or null, and reports whether the field exists.
func (s *several) reply(field []byte) (found bool) {
	val, found := s.find(field)
	if found {
		bulk(s.c, val)
	} else {
		s.c.Reply.Null()
	}
	return found
}

// remove removes a field that exists.
func (s *several) remove(field []byte) {
	hashes.Delete(s.e, field)
	s.removed = true
	s.change(field)
}

// change records that a field was changed.
func (s *several) change(field []byte) {
	s.changed++
	s.c.Name(&s.c.Named, field)
}

// end publishes the changes. event is the event for the fields that were changed and not removed.
func (s *several) end(event string) {
	if !s.lapsed && s.changed == 0 {
		return
	}
	c := s.c
	empty := hashes.Len(s.e.Value()) == 0
	if empty {
		c.DB.Remove(s.e)
	} else {
		refresh(c, s.e, s.key)
		c.DB.Touched(s.key)
	}
	if s.lapsed {
		c.NotifyNamed(command.EventHash, "hexpired", s.key, &c.Lapsed)
	}
	switch {
	case s.removed:
		c.NotifyNamed(command.EventHash, "hdel", s.key, &c.Named)
	case s.changed > 0:
		c.NotifyNamed(command.EventHash, event, s.key, &c.Named)
	}
	if empty {
		c.Notify(command.EventGeneric, "del", s.key)
	}
	c.Changed(s.changed)
}

// getDel is HGETDEL key FIELDS n field [field …]. It replies the values of fields and removes the fields.
//
// Replies: an array of values, null for each missing field. Errors: ErrWrongType, FIELDS missing or with a wrong
// number. Propagates: HDEL key field ….
func getDel(c *command.Context) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	fields, err := fieldsOf(c.Args, 3, errFieldCountOf)
	if err != nil {
		return err
	}
	s := several{c: c, key: key, e: e}
	c.Reply.Array(len(fields))
	for _, field := range fields {
		if s.reply(field) {
			s.remove(field)
		}
	}
	if s.changed > 0 {
		var room [16][]byte
		c.Propagate(append(append(room[:0], wordHDel, key), fields...)...)
	}
	s.end("")
	return nil
}

// getEx is HGETEX key [EX seconds | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS n field [field …]. It replies the values
// of fields, and sets or removes their deadline.
//
// Replies: an array of values, null for each missing field. A field whose new deadline has already passed is removed.
// Errors: ErrWrongType, ErrNotInteger, a time out of range, FIELDS missing or with a wrong number.
// Propagates: HPEXPIREAT key ms, HPERSIST, or HDEL for each removed field.
func getEx(c *command.Context) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	when, timed, persists, at := int64(0), false, false, 2 // at is the index of FIELDS
	if base, unitMs, ok := unitOf(c, c.Args[2]); ok {
		if when, err = deadlineOf(c, c.Args[3], base, unitMs); err != nil {
			return err
		}
		timed, at = true, 4
	} else if command.Is(c.Args[2], "PERSIST") {
		persists, at = true, 3
	}
	switch {
	case at+1 == len(c.Args):
		return command.ErrArity(c.Spec)
	case !command.Is(c.Args[at], "FIELDS"):
		return errNoFields
	}
	fields, err := fieldsOf(c.Args, at+1, errFieldCountOf)
	if err != nil {
		return err
	}
	s := several{c: c, key: key, e: e}
	passed := timed && c.HasPassed(when)
	if (timed || persists) && e != nil {
		hashes.AllowDeadlines(e)
	}
	c.Reply.Array(len(fields))
	for _, field := range fields {
		switch found := s.reply(field); {
		case !found:
		case passed:
			s.remove(field)
			c.Propagate(wordHDel, key, field)
		case timed:
			hashes.Expire(e, field, max(when, 1), hashes.Always, false)
			s.change(field)
		case persists && hashes.Persist(e, field, asOf(c)) == hashes.Done:
			s.change(field)
		}
	}
	switch {
	case s.changed == 0 || passed:
	case timed:
		propagateFields(c, fields, wordHPExpireAt, key, c.Effects.Number(when))
	default:
		propagateFields(c, fields, wordHPersist, key)
	}
	if persists {
		s.end("hpersist")
	} else {
		s.end("hexpire")
	}
	return nil
}

// propagateFields sends a command that ends in FIELDS n field ….
func propagateFields(c *command.Context, fields [][]byte, words ...[]byte) {
	var room [16][]byte
	args := append(append(room[:0], words...), wordFields, c.Effects.Number(int64(len(fields))))
	c.Propagate(append(args, fields...)...)
}

// unitOf returns how to read the number after EX, PX, EXAT or PXAT: it counts units of unitMs from base, in Unix ms.
func unitOf(c *command.Context, word []byte) (base, unitMs int64, ok bool) {
	switch {
	case command.Is(word, "EX"):
		return c.Now, 1000, true
	case command.Is(word, "PX"):
		return c.Now, 1, true
	case command.Is(word, "EXAT"):
		return 0, 1000, true
	case command.Is(word, "PXAT"):
		return 0, 1, true
	}
	return 0, 0, false
}

// setExOptions are the options of HSETEX.
type setExOptions struct {
	newKey, oldKey       bool // NX, XX
	newFields, oldFields bool // FNX, FXX
	keepTTL, timed       bool
	when                 int64
	pairs                [][]byte
}

// parse reads the arguments after the key. The first wrong argument decides the error, as in Redis.
func (o *setExOptions) parse(c *command.Context) error {
	args := c.Args
	for i := 2; i < len(args); i++ {
		word := args[i]
		base, unitMs, isUnit := unitOf(c, word)
		switch {
		case command.Is(word, "FIELDS"):
			return o.parsePairs(c, args[i+1:])
		case isUnit || command.Is(word, "KEEPTTL"):
			if o.timed || o.keepTTL {
				return errOneExpiry
			}
			if o.keepTTL = !isUnit; o.keepTTL {
				continue
			}
			i++
			if i == len(args) {
				return command.ErrArity(c.Spec)
			}
			var err error
			if o.when, err = deadlineOf(c, args[i], base, unitMs); err != nil {
				return err
			}
			o.timed = true
		case command.Is(word, "FNX") || command.Is(word, "FXX"):
			if o.newFields || o.oldFields {
				return errOneFieldRule
			}
			o.newFields = command.Is(word, "FNX")
			o.oldFields = !o.newFields
		case command.Is(word, "NX") && !o.oldKey:
			o.newKey = true
		case command.Is(word, "XX") && !o.newKey:
			o.oldKey = true
		case command.Is(word, "NX") || command.Is(word, "XX"):
			return protocol.ErrSyntax
		default:
			return errUnknownArgument(word)
		}
	}
	return command.ErrArity(c.Spec)
}

// parsePairs reads n field value [field value …].
func (o *setExOptions) parsePairs(c *command.Context, args [][]byte) error {
	if len(args) < 3 {
		return command.ErrArity(c.Spec)
	}
	n, err := command.Int(args[0])
	if err != nil || n < 1 || n > math.MaxInt32 {
		return errInvalidCount
	}
	if o.pairs = args[1:]; int64(len(o.pairs)) != 2*n {
		return command.ErrArity(c.Spec)
	}
	return nil
}

// setEx is HSETEX key [NX | XX] [FNX | FXX] [deadline | KEEPTTL] FIELDS n field value [field value …].
//
// It sets all fields or none. The deadline is EX seconds, PX ms, EXAT s or PXAT ms, as with SET. NX and XX come from
// Valkey: the key must be new, or exist.
// Replies: 1, or 0 if a condition does not hold. Errors: arity, an unknown argument, two options of a kind,
// ErrNotInteger, a time out of range, ErrWrongType.
// Propagates: HSET, then HPEXPIREAT for the fields with a deadline; HDEL for each field if the deadline has passed.
func (h *commands) setEx(c *command.Context) error {
	var o setExOptions
	if err := o.parse(c); err != nil {
		return err
	}
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	s := several{c: c, key: key, e: e}
	if (o.newKey && e != nil) || (o.oldKey && e == nil) || !s.allow(&o) {
		c.Reply.Int(0)
		s.end("")
		return nil
	}
	if s.lapsed { // before the event of the fields that are set now
		c.NotifyNamed(command.EventHash, "hexpired", key, &c.Lapsed)
		s.lapsed = false
	}
	if limits := h.settings.Limits(); e == nil {
		create(c, key, o.pairs, limits)
		s.e = c.DB.Edit(key)
	} else {
		setAll(c, e, key, o.pairs, o.keepTTL, limits)
	}
	c.Reply.Int(1)
	s.publish(&o)
	return nil
}

// allow reports whether FNX or FXX permits the call.
func (s *several) allow(o *setExOptions) bool {
	if !o.newFields && !o.oldFields {
		return true
	}
	for i := 0; i < len(o.pairs); i += 2 {
		if _, found := s.find(o.pairs[i]); found != o.oldFields {
			return false
		}
	}
	return true
}

// publish sets the deadline of the fields that were set, propagates the call and publishes the changes.
func (s *several) publish(o *setExOptions) {
	c, key := s.c, s.key
	passed := o.timed && c.HasPassed(o.when)
	if o.timed {
		c.NotifySubkeys(command.EventHash, "hset", key, o.pairs, 2)
		hashes.AllowDeadlines(s.e)
	}
	if !passed {
		var room [16][]byte
		c.Propagate(append(append(room[:0], wordHSet, key), o.pairs...)...)
		s.changed = len(o.pairs) / 2
		c.NameEach(&c.Named, o.pairs, 2)
	}
	for i := 0; i < len(o.pairs); i += 2 {
		field := o.pairs[i]
		switch {
		case passed:
			s.remove(field)
			c.Propagate(wordHDel, key, field)
		case o.timed:
			hashes.Expire(s.e, field, max(o.when, 1), hashes.Always, false)
		case o.keepTTL:
			if _, deadline, _ := hashes.Get(s.e.Value(), field); deadline != 0 {
				propagateDeadline(c, key, field, deadline)
			}
		}
	}
	if !o.timed {
		s.end("hset")
		return
	}
	if !passed {
		s.propagateDeadlines(o)
	}
	s.end("hexpire")
}

// propagateDeadlines sends the deadline of all fields that were set.
func (s *several) propagateDeadlines(o *setExOptions) {
	c := s.c
	var room [16][]byte
	args := append(room[:0], wordHPExpireAt, s.key, c.Effects.Number(o.when),
		wordFields, c.Effects.Number(int64(len(o.pairs)/2)))
	for i := 0; i < len(o.pairs); i += 2 {
		args = append(args, o.pairs[i])
	}
	c.Propagate(args...)
}

// propagateDeadline sends the deadline of one field.
func propagateDeadline(c *command.Context, key, field []byte, when int64) {
	c.Propagate(wordHPExpireAt, key, c.Effects.Number(when), wordFields, c.Effects.Number(1), field)
}
