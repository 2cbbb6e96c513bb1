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
	r := set.Read(v)
	c.Reply.Set(r.Len())
	answerAll(c, &r)
	return nil
}

// answerAll replies every member of r.
func answerAll(c *command.Context, r *set.Reader) {
	reply := c.Reply
	r.All(func(e set.Element) bool {
		answer(reply, e)
		return true
	})
}

// scan is SSCAN key cursor [MATCH pattern] [COUNT count].
//
// Replies: the next cursor, 0 at the end, and an array of members.
// Errors: "invalid cursor", ErrWrongType, and those of the options, which a missing key skips.
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
