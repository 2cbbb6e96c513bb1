package set

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
	"spindle/internal/glob"
	"spindle/internal/number"
)

// members is SMEMBERS key. Replies: a set. Errors: ErrWrongType.
func members(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	if s := set.Read(v); c.IsLong(s.Len()) {
		return c.ReadBeside(func(r *command.Reading) error {
			answerSet(r, v)
			return nil
		})
	}
	answerSet(c.Inline(), v)
	return nil
}

// answerSet replies the members of v, which is a set or the zero Value.
func answerSet(r *command.Reading, v value.Value) {
	s := set.Read(v)
	r.Reply.Set(s.Len())
	answerAll(r, &s)
}

// answerAll replies every member of s.
func answerAll(r *command.Reading, s *set.Reader) {
	s.All(func(e set.Element) bool {
		r.Step()
		answer(r.Reply, e)
		return true
	})
}

// scan is SSCAN key cursor [MATCH pattern] [COUNT count].
//
// Replies: the next cursor, 0 at the end, and an array of members.
// Errors: "invalid cursor", ErrWrongType, and those of the options. For a missing key the options are not read.
func (s *commands) scan(c *command.Context) error {
	v, cursor, o, err := c.OpenScan(value.Set, false)
	if err != nil || !v.Exists() {
		return err
	}
	return s.answerScan(c, v, cursor, o)
}

func (s *commands) answerScan(c *command.Context, v value.Value, cursor uint64, o command.Scan) error {
	if size := set.Read(v); c.IsLong(min(o.Count, size.Len())) {
		own := o.Own()
		return c.ReadBeside(func(r *command.Reading) error {
			replyScan(r, v, cursor, own, nil)
			return nil
		})
	}
	s.found = command.Release(replyScan(c.Inline(), v, cursor, o, s.found))
	return nil
}

// replyScan replies members, starting at cursor. It collects them in found, and returns it.
func replyScan(r *command.Reading, v value.Value, cursor uint64, o command.Scan, found []set.Element) []set.Element {
	var room [number.MaxIntLen]byte
	s := set.Read(v)
	next := s.Scan(cursor, o.Count, func(e set.Element) {
		if r.Step(); o.Pattern == nil || glob.Match(o.Pattern, e.Text(room[:])) {
			found = command.Collect(r, found, e)
		}
	})
	r.AnswerScan(next, len(found))
	for _, e := range found {
		answer(r.Reply, e)
	}
	return found
}
