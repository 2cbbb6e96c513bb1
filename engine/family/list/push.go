package list

import (
	"spindle/engine/command"
	"spindle/engine/data/value/list"
)

// lPush is LPUSH key element [element …]. It pushes in order, so the last element becomes the first of the list.
//
// Replies: the new length. Errors: ErrWrongType. Propagates as written.
func lPush(c *command.Context) error { return pushAll(c, list.Head, false) }

// rPush is RPUSH key element [element …]; see lPush.
func rPush(c *command.Context) error { return pushAll(c, list.Tail, false) }

// lPushX is LPUSHX key element [element …]: LPUSH to an existing list. Replies: the new length, 0 for a missing key.
func lPushX(c *command.Context) error { return pushAll(c, list.Head, true) }

// rPushX is RPUSHX key element [element …]; see lPushX.
func rPushX(c *command.Context) error { return pushAll(c, list.Tail, true) }

func pushAll(c *command.Context, end list.End, ifThere bool) error {
	key, elements := c.Args[1], c.Args[2:]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil && ifThere {
		c.Reply.Int(0)
		return nil
	}
	length := 0
	if e != nil && len(elements) == 1 {
		length = list.PushOne(e, c.Settings.Lists.Limits(), end, elements[0])
	}
	if length == 0 {
		length = list.Len(push(c, e, key, end, elements).Value())
	}
	if e != nil {
		c.DB.Signal(key) // BLMOVEM may wait for more elements
	}
	c.Reply.Int(int64(length))
	c.DB.Touched(key)
	c.Changed(len(elements))
	c.Notify(command.EventList, pushed(end), key)
	return nil
}
