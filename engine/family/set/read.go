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
	r := set.Read(v)
	var room [number.MaxIntLen]byte
	next := r.Scan(cursor, o.Count, func(e set.Element) {
		if o.Pattern == nil || glob.Match(o.Pattern, e.Text(room[:])) {
			s.found = append(s.found, e)
		}
	})
	c.AnswerScan(next, len(s.found))
	for _, e := range s.found {
		answer(c.Reply, e)
	}
	s.found = command.Release(s.found)
	return nil
}
