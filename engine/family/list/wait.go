package list

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// An attempt is a blocking command's work, tried when it comes in and again when one of its keys has become a list. It reads all it
// needs from c: the arguments it was first called with are gone by then.
type attempt func(c *command.Context) (done bool, err error)

// await tries, and if there is nothing to be had blocks the client on the keys, which are arguments first to last-1.
// refuse answers for a client that may not block: in MULTI, or in a script.
func await(c *command.Context, deadlineMs int64, first, last int, try attempt, refuse func(c *command.Context)) error {
	done, err := try(c)
	if done || err != nil {
		return err
	}
	if c.Client.Is(client.DenyBlocking | client.Multi) {
		refuse(c)
		return nil
	}
	c.Core.Block(c, command.Wait{
		Keys: c.Args[first:last], DeadlineMs: deadlineMs, Timeout: nothing,
		Retry: func(c *command.Context) error {
			if !anyList(c, c.Args[first:last]) {
				return nil // what came is of another type: that is no error for who waits
			}
			_, err := try(c)
			return err
		},
	})
	return nil
}

// nothing is the reply of a wait that ran out.
func nothing(c *command.Context) { c.Reply.NullArray() }

// none is the reply of a command for one element that may not wait.
func none(c *command.Context) { c.Reply.Null() }

func anyList(c *command.Context, keys [][]byte) bool {
	for _, key := range keys {
		if c.DB.Peek(key).Type() == value.List {
			return true
		}
	}
	return false
}

// blPop is BLPOP key [key …] timeout.
//
// Replies: the first key that is a list and its first element; a nil array when time is up. Errors: those of Timeout, ErrWrongType.
// Propagates: LPOP key.
func blPop(c *command.Context) error { return popFirst(c, popHead) }

// brPop is BRPOP key [key …] timeout; see blPop.
func brPop(c *command.Context) error { return popFirst(c, popTail) }

func popFirst(c *command.Context, try attempt) error {
	last := len(c.Args) - 1
	deadline, err := c.Timeout(c.Args[last])
	if err != nil {
		return err
	}
	return await(c, deadline, 1, last, try, nothing)
}

func popHead(c *command.Context) (done bool, err error) { return popAny(c, list.Head) }
func popTail(c *command.Context) (done bool, err error) { return popAny(c, list.Tail) }

func popAny(c *command.Context, end list.End) (done bool, err error) {
	for _, key := range c.Args[1 : len(c.Args)-1] {
		e, err := edit(c, key)
		if err != nil {
			return false, err
		}
		if e != nil {
			c.Reply.Array(2)
			c.Reply.Bulk(key)
			popOne(c, e, key, end)
			c.Propagate(wordPop(end), key)
			return true, nil
		}
	}
	return false, nil
}

// blMPop is BLMPOP timeout numkeys key [key …] LEFT|RIGHT [COUNT count]: LMPOP that waits. Errors besides: those of Timeout.
func blMPop(c *command.Context) error {
	m, err := parseMultiple(c, 2)
	if err != nil {
		return err
	}
	deadline, err := c.Timeout(c.Args[1])
	if err != nil {
		return err
	}
	return await(c, deadline, 3, 3+len(m.keys), popMultiple, nothing)
}

func popMultiple(c *command.Context) (done bool, err error) {
	m, err := parseMultiple(c, 2)
	if err != nil {
		return false, err
	}
	return m.try(c)
}

// blMove is BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout: LMOVE that waits.
//
// Replies: the element; a nil array when time is up. Errors: ErrSyntax, those of Timeout, ErrWrongType. Propagates: LMOVE.
func blMove(c *command.Context) error {
	if _, _, err := ends(c.Args[3:5]); err != nil {
		return err
	}
	deadline, err := c.Timeout(c.Args[5])
	if err != nil {
		return err
	}
	return await(c, deadline, 1, 2, moveAnyway, none)
}

func moveAnyway(c *command.Context) (done bool, err error) {
	from, to, _ := ends(c.Args[3:5])
	return moveFirst(c, from, to, append([][]byte{wordLMove}, c.Args[1:5]...))
}

// brPopLPush is BRPOPLPUSH source destination timeout: BLMOVE source destination RIGHT LEFT. Propagates: RPOPLPUSH.
func brPopLPush(c *command.Context) error {
	deadline, err := c.Timeout(c.Args[3])
	if err != nil {
		return err
	}
	return await(c, deadline, 1, 2, moveLastFirst, none)
}

func moveLastFirst(c *command.Context) (done bool, err error) {
	return moveFirst(c, list.Tail, list.Head, [][]byte{wordRPopLPush, c.Args[1], c.Args[2]})
}

// moveFirst is move if there is a source; effect is what it propagates.
func moveFirst(c *command.Context, from, to list.End, effect [][]byte) (done bool, err error) {
	src, err := edit(c, c.Args[1])
	if src == nil || err != nil {
		return false, err
	}
	if err := move(c, src, from, to); err != nil {
		return false, err
	}
	c.Propagate(effect...)
	return true, nil
}
