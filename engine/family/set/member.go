package set

import (
	"bytes"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
)

// add is SADD key member [member …]. Replies: the number of new members. Errors: ErrWrongType. Propagates as written.
func (s *commands) add(c *command.Context) error {
	key, members := c.Args[1], c.Args[2:]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	added := 0
	if e == nil {
		added = s.create(c, key, members, len(members))
	} else {
		limits := c.Settings.Sets.Limits()
		set.Expect(e, len(members), limits)
		if added = set.Add(e, members, limits); added > 0 {
			c.DB.Touched(key)
		}
	}
	if added > 0 {
		c.Changed(added)
		c.Notify(command.EventSet, "sadd", key)
	}
	c.Reply.Int(int64(added))
	return nil
}

// create makes a set of members at key, which does not exist, and returns its size.
func (s *commands) create(c *command.Context, key []byte, members [][]byte, n int) int {
	limits := c.Settings.Sets.Limits()
	b := &s.building
	b.Begin(c.Space.Store(), limits, limits.First(members[0], n), n)
	for _, member := range members {
		b.Add(set.ElementOf(member))
	}
	n = b.Len()
	put(c, key, b)
	c.Notify(command.EventNew, "new", key)
	return n
}

// put stores b, which is not empty, at key and replaces any old value. created reports whether key is new.
func put(c *command.Context, key []byte, b *set.Builder) (created bool) {
	if packed := b.Packed(); packed != nil {
		return c.DB.PutPacked(key, value.Set, b.Encoding(), packed, 0)
	}
	return c.DB.PutRoot(key, value.Set, value.HashTable, b.Root(), 0)
}

// rem is SREM key member [member …]. Replies: the number of removed members. Errors: ErrWrongType. Propagates as
// written.
func rem(c *command.Context) error {
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	removed := 0
	if e != nil {
		removed = set.Remove(e, c.Args[2:])
	}
	if removed > 0 {
		c.Changed(removed)
		c.Notify(command.EventSet, "srem", key)
		afterRemoval(c, key, e)
	}
	c.Reply.Int(int64(removed))
	return nil
}

// afterRemoval completes a removal of members from e. If no member is left, it removes the key.
func afterRemoval(c *command.Context, key []byte, e *value.Edit) {
	if set.Len(e) == 0 {
		c.DB.Remove(e)
		c.Notify(command.EventGeneric, "del", key)
	} else {
		c.DB.Touched(key)
	}
}

// move is SMOVE source destination member. Replies: 1, or 0 if the source lacks the member. Errors: ErrWrongType,
// unless there is no source. Propagates as written.
func (s *commands) move(c *command.Context) error {
	from, to, member := c.Args[1], c.Args[2], c.Args[3:4]
	src := c.DB.Edit(from)
	dst := c.DB.Edit(to)
	if src == nil {
		c.Reply.Int(0)
		return nil
	}
	if err := mustBeSet(src.Value()); err != nil {
		return err
	}
	if dst != nil {
		if err := mustBeSet(dst.Value()); err != nil {
			return err
		}
	}
	if bytes.Equal(from, to) {
		r := set.Read(src.Value())
		answerBool(c, r.Contains(member[0]))
		return nil
	}
	if set.Remove(src, member) == 0 {
		c.Reply.Int(0)
		return nil
	}
	c.Notify(command.EventSet, "srem", from)
	afterRemoval(c, from, src)
	c.Changed(1)
	added := 1
	if dst == nil {
		s.create(c, to, member, 1)
	} else if added = set.Add(dst, member, c.Settings.Sets.Limits()); added > 0 {
		c.DB.Touched(to)
	}
	if added > 0 {
		c.Changed(1)
		c.Notify(command.EventSet, "sadd", to)
	}
	c.Reply.Int(1)
	return nil
}

// isMember is SISMEMBER key member. Replies: 1 or 0. Errors: ErrWrongType.
func isMember(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	r := set.Read(v)
	answerBool(c, r.Contains(c.Args[2]))
	return nil
}

// areMembers is SMISMEMBER key member [member …]. Replies: an array of 1 and 0. Errors: ErrWrongType.
func areMembers(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	r := set.Read(v)
	c.Reply.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		answerBool(c, r.Contains(member))
	}
	return nil
}

// card is SCARD key. Replies: the number of members. Errors: ErrWrongType.
func card(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	r := set.Read(v)
	c.Reply.Int(int64(r.Len()))
	return nil
}
