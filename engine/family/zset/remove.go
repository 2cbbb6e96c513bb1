package zset

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
)

// rem is ZREM key member [member …]. Replies: the number of removed members. Errors: ErrWrongType. Propagates as
// written.
func rem(c *command.Context) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		c.Reply.Int(0)
		return nil
	}
	removed, left := 0, zset.Len(e.Value())
	for _, member := range c.Args[2:] {
		if left == 1 { // the last one: the key is removed as a whole
			if _, ok := zset.Score(e.Value(), member); ok {
				removed, left = removed+1, 0
				break
			}
		} else if zset.Remove(e, member) {
			removed, left = removed+1, left-1
		}
	}
	if removed > 0 {
		changed(c, e, key, "zrem", removed, left == 0)
	}
	c.Reply.Int(int64(removed))
	return nil
}

// changed publishes the removal of n members from the set at key. If emptied is true, it removes the key, and the
// members need not be removed.
func changed(c *command.Context, e *value.Edit, key []byte, event string, n int, emptied bool) {
	c.Changed(n)
	if emptied {
		c.DB.Remove(e)
	} else {
		c.DB.Touched(key)
	}
	c.Notify(command.EventZSet, event, key)
	if emptied {
		c.Notify(command.EventGeneric, "del", key)
	}
}

// removeByRank is ZREMRANGEBYRANK key start stop. The range includes both ends. A negative end counts from the end.
//
// Replies: the number of removed members. Errors: ErrNotInteger, ErrWrongType. Propagates as written.
func removeByRank(c *command.Context) error {
	r := span{by: byRank}
	if err := r.bounds(c.Args[2], c.Args[3]); err != nil {
		return err
	}
	return r.remove(c, "zremrangebyrank")
}

// removeByScore is ZREMRANGEBYSCORE key min max. It replies and propagates like removeByRank.
// Errors: errScoreRange, ErrWrongType.
func removeByScore(c *command.Context) error {
	r := span{by: byScore}
	if err := r.bounds(c.Args[2], c.Args[3]); err != nil {
		return err
	}
	return r.remove(c, "zremrangebyscore")
}

// removeByLex is ZREMRANGEBYLEX key min max. It replies and propagates like removeByRank. Errors: errLexRange,
// ErrWrongType.
func removeByLex(c *command.Context) error {
	r := span{by: byLex}
	if err := r.bounds(c.Args[2], c.Args[3]); err != nil {
		return err
	}
	return r.remove(c, "zremrangebylex")
}

func (r *span) remove(c *command.Context, event string) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		c.Reply.Int(0)
		return nil
	}
	s := r.of(e.Value(), false)
	if n := s.Len(); n > 0 {
		drop(c, e, key, event, s)
	}
	c.Reply.Int(int64(s.Len()))
	return nil
}

// drop removes the members of s, at least one, and publishes the removal.
func drop(c *command.Context, e *value.Edit, key []byte, event string, s zset.Span) {
	emptied := s.Len() == zset.Len(e.Value())
	if !emptied {
		zset.RemoveSpan(e, s)
	}
	changed(c, e, key, event, s.Len(), emptied)
}
