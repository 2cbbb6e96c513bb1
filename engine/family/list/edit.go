package list

import (
	"spindle/engine/command"
	"spindle/engine/data/value/list"
	"spindle/protocol"
)

// lSet is LSET key index element. Only the lower 32 bits of index count, as in Redis.
//
// Replies: OK. Propagates as written.
// Errors: ErrNoSuchKey, ErrWrongType, ErrNotInteger, "index out of range".
func lSet(c *command.Context) error {
	key, text := c.Args[1], c.Args[3]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		return protocol.ErrNoSuchKey
	}
	index, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	l := c.Settings.Lists.Limits()
	list.Grow(e, l, len(text), 1)
	if !list.Set(e, l, int64(int32(index)), text) {
		return errIndex
	}
	list.Shrink(e, l)
	c.Reply.OK()
	c.DB.Touched(key)
	c.Notify(command.EventList, "lset", key)
	c.Changed(1)
	return nil
}

// lInsert is LINSERT key BEFORE|AFTER pivot element.
//
// Replies: the new length; -1 if there is no such pivot; 0 if there is no list.
// Errors: ErrSyntax, ErrWrongType.
// Propagates as written.
func lInsert(c *command.Context) error {
	key, side := c.Args[1], list.Head
	switch {
	case command.Is(c.Args[2], "AFTER"):
		side = list.Tail
	case !command.Is(c.Args[2], "BEFORE"):
		return protocol.ErrSyntax
	}
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		c.Reply.Int(0)
		return nil
	}
	l := c.Settings.Lists.Limits()
	list.Grow(e, l, len(c.Args[4]), 1)
	if !list.Insert(e, l, c.Args[3], c.Args[4], side) {
		c.Reply.Int(-1)
		return nil
	}
	c.DB.Signal(key) // BLMOVEM may wait for more elements
	c.DB.Touched(key)
	c.Notify(command.EventList, "linsert", key)
	c.Changed(1)
	c.Reply.Int(int64(list.Len(e.Value())))
	return nil
}

// lRem is LREM key count element. It removes the first count matches, or the last ones if count is negative. With 0 it
// removes all matches.
//
// Replies: the number of removed elements. Propagates as written.
// Errors: ErrNotInteger, "value is out of range, …", ErrWrongType.
func lRem(c *command.Context) error {
	key := c.Args[1]
	count, err := symmetric(c.Args[2])
	if err != nil {
		return err
	}
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	n := 0
	if e != nil {
		from := list.Head
		if count < 0 {
			from, count = list.Tail, -count
		}
		n = list.Remove(e, c.Settings.Lists.Limits(), c.Args[3], from, int(count))
	}
	if n > 0 {
		removed(c, e, key, "lrem", n)
	}
	c.Reply.Int(int64(n))
	return nil
}

// lTrim is LTRIM key start stop. It removes the elements outside the range.
//
// Replies: OK. Errors: ErrNotInteger, ErrWrongType.
// Propagates as written.
func lTrim(c *command.Context) error {
	key := c.Args[1]
	start, stop, err := bounds(c)
	if err != nil {
		return err
	}
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		c.Reply.OK()
		return nil
	}
	all := list.Len(e.Value())
	from, n := clip(start, stop, all)
	if n > 0 {
		list.Trim(e, c.Settings.Lists.Limits(), from, n)
		removed(c, e, key, "ltrim", all-n)
	} else { // nothing is left: remove the key
		c.Notify(command.EventList, "ltrim", key)
		c.DB.Remove(e)
		c.Notify(command.EventGeneric, "del", key)
		c.Changed(all)
	}
	c.Reply.OK()
	return nil
}
