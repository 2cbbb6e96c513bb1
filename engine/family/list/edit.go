package list

import (
	"spindle/engine/command"
	"spindle/engine/data/value/list"
	"spindle/protocol"
)

var errIndex = &protocol.Error{Code: "ERR", Text: "index out of range"}

// lSet is LSET key index element. Of an index only the lower 32 bits count, as in the reference, whose replicas read it
// so.
//
// Replies: OK. Errors: ErrNoSuchKey, ErrWrongType, ErrNotInteger, "index out of range". Propagates as written.
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
// Replies: the length after it, -1 if there is no such pivot, 0 if there is no list. Errors: ErrSyntax, ErrWrongType.
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
	c.DB.Touched(key)
	c.Notify(command.EventList, "linsert", key)
	c.Changed(1)
	c.Reply.Int(int64(list.Len(e.Value())))
	return nil
}

// lRem is LREM key count element: the first count of them, from the end if negative, all of them if 0.
//
// Replies: how many were removed. Errors: ErrNotInteger, "value is out of range, …", ErrWrongType. Propagates as
// written.
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

// lTrim is LTRIM key start stop: what is not between them goes. Replies: OK. Errors: ErrNotInteger, ErrWrongType.
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
	} else { // let go of as a whole
		c.Notify(command.EventList, "ltrim", key)
		c.DB.Remove(e)
		c.Notify(command.EventGeneric, "del", key)
		c.Changed(all)
	}
	c.Reply.OK()
	return nil
}
