package bitmap

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// A verb is GET, SET or INCRBY.
type verb uint8

const (
	get verb = iota
	set
	incrBy
)

// A step is one operation of a BITFIELD call.
type step struct {
	field
	verb     verb
	overflow policy
	at       int64 // the field's first bit
	operand  int64 // SET's value, INCRBY's increment
}

// policyOf reads WRAP, SAT or FAIL.
//
// Errors: errOverflow.
func policyOf(arg []byte) (policy, error) {
	switch {
	case command.Is(arg, "WRAP"):
		return wrap, nil
	case command.Is(arg, "SAT"):
		return saturate, nil
	case command.Is(arg, "FAIL"):
		return fail, nil
	}
	return 0, errOverflow
}

// verbOf returns the operation with which args begins. n is its number of arguments, including the verb. n is 0 if args
// does not begin with a complete operation.
func verbOf(args [][]byte) (v verb, n int) {
	switch {
	case command.Is(args[0], "GET") && len(args) > 2:
		return get, 3
	case command.Is(args[0], "SET") && len(args) > 3:
		return set, 4
	case command.Is(args[0], "INCRBY") && len(args) > 3:
		return incrBy, 4
	}
	return 0, 0
}

// steps reads the operations of BITFIELD and appends them to dst.
//
// Errors: ErrSyntax, errOverflow, errFieldType, errOffset, ErrNotInteger.
func steps(c *command.Context, dst []step) ([]step, error) {
	overflow := wrap
	for args := c.Args[2:]; len(args) > 0; {
		if command.Is(args[0], "OVERFLOW") && len(args) > 1 {
			p, err := policyOf(args[1])
			if err != nil {
				return dst, err
			}
			overflow, args = p, args[2:]
			continue
		}
		v, n := verbOf(args)
		if n == 0 {
			return dst, protocol.ErrSyntax
		}
		s := step{verb: v, overflow: overflow}
		var err error
		if s.field, err = fieldOf(args[1]); err != nil {
			return dst, err
		}
		if s.at, err = offset(c, args[2], s.width); err != nil {
			return dst, err
		}
		if v != get {
			if s.operand, err = command.Int(args[3]); err != nil {
				return dst, err
			}
		}
		dst, args = append(dst, s), args[n:]
	}
	return dst, nil
}

// bitField is
//
//	BITFIELD key [GET type offset | [OVERFLOW WRAP|SAT|FAIL] SET type offset value | INCRBY type offset increment …]
//
// Replies: an array. For GET it has the value read, for SET the old value, for INCRBY the new value. It has null where
// OVERFLOW FAIL refuses.
// Errors: ErrSyntax, errOverflow, errFieldType, errOffset, ErrNotInteger, ErrWrongType.
// Propagates as written if a field or the length has changed. If FAIL refused all writes, the string may grow, but
// nothing is propagated, as in Redis.
func bitField(c *command.Context) error { return runSteps(c, true) }

// bitFieldRO is BITFIELD_RO key [GET type offset …]; see bitField. Further error: errOnlyGet.
func bitFieldRO(c *command.Context) error { return runSteps(c, false) }

func runSteps(c *command.Context, mayWrite bool) error {
	var few [16]step
	list, err := steps(c, few[:0])
	if err != nil {
		return err
	}
	key, need := c.Args[1], 0 // need is the length in bytes that the writes require
	for i := range list {
		if s := &list[i]; s.verb != get {
			need = max(need, int((s.at+int64(s.width)+7)>>3))
		}
	}
	if need == 0 {
		v, err := readString(c, key)
		if err != nil {
			return err
		}
		c.Reply.Array(len(list))
		for i := range list {
			b, shift := around(v, list[i].at)
			c.Reply.Int(list[i].read(&b, shift))
		}
		return nil
	}
	if !mayWrite {
		return errOnlyGet
	}
	v, err := writeString(c, key)
	if err != nil {
		return err
	}
	created, grown := !v.Exists(), length(v) < need
	if grown && !c.Space.Heap().Affords(need-length(v)) {
		return protocol.ErrNoMemory
	}
	v = c.DB.Reach(key, v, need)
	if created {
		c.Notify(command.EventNew, "new", key)
	}
	changes := 0
	c.Reply.Array(len(list))
	for i := range list {
		wrote, changed := list[i].run(c, v)
		if changed {
			v = c.DB.Peek(key)
		}
		if changed || wrote && grown {
			changes++
		}
	}
	if changes > 0 {
		c.DB.Touch(key)
		c.Changed(changes)
		c.Notify(command.EventString, "setbit", key)
	}
	return nil
}

// around returns the nine bytes of v from the byte that holds bit at, with zeros past the end. shift is the bit's place
// in the first byte.
func around(v value.Value, at int64) (b [9]byte, shift int) {
	if from, n := at>>3, int64(length(v)); from < n {
		var text [number.MaxIntLen]byte
		copy(b[:], v.Range(int(from), int(min(from+9, n)), text[:0]))
	}
	return b, int(at & 7)
}

// run executes the step on v, the string at the call's key, and replies. wrote is true if it stored a value. changed is
// true if that value differs from the old one.
func (s *step) run(c *command.Context, v value.Value) (wrote, changed bool) {
	b, shift := around(v, s.at)
	old := s.read(&b, shift)
	var next int64
	var ok bool
	switch s.verb {
	case get:
		c.Reply.Int(old)
		return false, false
	case set:
		next, ok = s.set(s.operand, s.overflow)
	case incrBy:
		next, ok = s.add(old, s.operand, s.overflow)
	}
	switch {
	case !ok:
		c.Reply.Null()
		return false, false
	case s.verb == set:
		c.Reply.Int(old)
	default:
		c.Reply.Int(next)
	}
	if next == old {
		return true, false
	}
	s.write(&b, shift, next)
	c.DB.Patch(c.Args[1], int(s.at>>3), b[:(shift+s.width+7)>>3])
	return true, true
}

// fieldKeys reports that a BITFIELD with only GETs just reads its key (COMMAND GETKEYSANDFLAGS, ACL).
func fieldKeys(into []command.KeyPosition, args [][]byte) ([]command.KeyPosition, error) {
	flags := access
	for rest := args[2:]; len(rest) > 0; {
		if command.Is(rest[0], "OVERFLOW") && len(rest) > 1 {
			rest = rest[2:]
			continue
		}
		v, n := verbOf(rest)
		if v != get || n == 0 { // an unknown operation counts as a write
			flags = rewrite
			break
		}
		rest = rest[n:]
	}
	return append(into, command.KeyPosition{Index: 1, Flags: flags}), nil
}
