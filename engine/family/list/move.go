package list

import (
	"bytes"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// lMove is LMOVE source destination LEFT|RIGHT LEFT|RIGHT.
//
// Replies: the element, or null if there is no source. Errors: ErrSyntax, ErrWrongType. Propagates as written.
func lMove(c *command.Context) error {
	from, to, err := ends(c.Args[3:5])
	if err != nil {
		return err
	}
	return moveOrNil(c, from, to)
}

// rPopLPush is RPOPLPUSH source destination: LMOVE source destination RIGHT LEFT.
func rPopLPush(c *command.Context) error { return moveOrNil(c, list.Tail, list.Head) }

func ends(args [][]byte) (from, to list.End, err error) {
	if from, err = endOf(args[0]); err == nil {
		to, err = endOf(args[1])
	}
	return from, to, err
}

func moveOrNil(c *command.Context, from, to list.End) error {
	src, err := edit(c, c.Args[1])
	if err != nil {
		return err
	}
	if src == nil {
		c.Reply.Null()
		return nil
	}
	return move(c, src, from, to)
}

// move takes the element at an end of src, the list at the first argument, and pushes it to the list at the second one.
//
// Errors: ErrWrongType for the destination. Then nothing has changed.
func move(c *command.Context, src *value.Edit, from, to list.End) error {
	l := c.Settings.Lists.Limits()
	source, key := c.Args[1], c.Args[2]
	if bytes.Equal(source, key) {
		rotate(c, src, from, to)
		return nil
	}
	dst, err := edit(c, key)
	if err != nil {
		return err
	}
	el := list.First(src.Value(), from)
	if dst == nil {
		var text [24]byte
		dst = push(c, nil, key, to, [][]byte{el.Text(text[:])})
	} else {
		list.Grow(dst, l, weight(src, el), 1)
		list.PushElement(dst, l, to, el)
		c.DB.Signal(key)
	}
	reply(c.Reply, el)
	c.DB.Touched(key)
	c.Notify(command.EventList, pushed(to), key)
	list.Pop(src, l, from, 1)
	removed(c, src, source, popped(from), 1)
	return nil
}

// weight returns the size of el that decides whether a listpack has room for it. It is the element's length, or 0 for
// an integer from a quicklist. Redis moves such an element as a number.
func weight(src *value.Edit, el listpack.Element) int {
	if el.IsInt && src.Packed() == nil {
		return 0
	}
	return el.Len()
}

// rotate is move within one list.
func rotate(c *command.Context, e *value.Edit, from, to list.End) {
	l := c.Settings.Lists.Limits()
	el := list.First(e.Value(), from)
	bytes := weight(e, el)
	if el.IsInt {
		c.Reply.BulkInt(el.Int)
	} else { // the text is in the reply, because the element is moved
		text := c.Reply.BulkRoom(el.Len())
		copy(text, el.Bytes())
		el = listpack.OfText(text)
	}
	list.Pop(e, l, from, 1)
	list.Grow(e, l, bytes, 1)
	list.PushElement(e, l, to, el)
	c.DB.Touched(c.Args[2])
	c.Notify(command.EventList, pushed(to), c.Args[2])
	removed(c, e, c.Args[1], popped(from), 1)
}
