package list

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// none replies null, for a command of one element that may not wait.
func none(c *command.Context) { c.Reply.Null() }

// blPop is BLPOP key [key …] timeout.
//
// Replies: the first key that holds a list, and the list's first element. After the timeout it replies a null array.
// Errors: those of Timeout, ErrWrongType.
// Propagates: LPOP key.
func blPop(c *command.Context) error { return popFirst(c, popHead) }

// brPop is BRPOP key [key …] timeout; see blPop.
func brPop(c *command.Context) error { return popFirst(c, popTail) }

func popFirst(c *command.Context, try command.Attempt) error {
	last := len(c.Args) - 1
	deadline, err := c.Timeout(c.Args[last])
	if err != nil {
		return err
	}
	return c.Await(value.List, deadline, 1, last, try, command.NoArray)
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

// blMPop is BLMPOP timeout numkeys key [key …] LEFT|RIGHT [COUNT count]. It is LMPOP, but waits. Further errors: those
// of Timeout.
func blMPop(c *command.Context) error {
	m, err := parseMultiple(c, 2)
	if err != nil {
		return err
	}
	deadline, err := c.Timeout(c.Args[1])
	if err != nil {
		return err
	}
	return c.Await(value.List, deadline, 3, 3+len(m.keys), popMultiple, command.NoArray)
}

func popMultiple(c *command.Context) (done bool, err error) {
	m, err := parseMultiple(c, 2)
	if err != nil {
		return false, err
	}
	return m.try(c)
}

// blMove is BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout. It is LMOVE, but waits.
//
// Replies: the element; a null array after the timeout.
// Errors: ErrSyntax, those of Timeout, ErrWrongType.
// Propagates: LMOVE.
func blMove(c *command.Context) error {
	if _, _, err := ends(c.Args[3:5]); err != nil {
		return err
	}
	deadline, err := c.Timeout(c.Args[5])
	if err != nil {
		return err
	}
	return c.Await(value.List, deadline, 1, 2, moveAnyway, none)
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
	return c.Await(value.List, deadline, 1, 2, moveLastFirst, none)
}

func moveLastFirst(c *command.Context) (done bool, err error) {
	return moveFirst(c, list.Tail, list.Head, [][]byte{wordRPopLPush, c.Args[1], c.Args[2]})
}

// moveFirst calls move if the source exists. effect is the call to propagate.
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
