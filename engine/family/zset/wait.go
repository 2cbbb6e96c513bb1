package zset

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
)

// bzPopMin is BZPOPMIN key [key …] timeout.
//
// Replies: the first key that holds a sorted set, its least member and the member's score. After the timeout it replies
// a null array.
// Errors: those of Timeout, ErrWrongType.
// Propagates: ZPOPMIN key.
func bzPopMin(c *command.Context) error { return popFirst(c, tryLeast) }

// bzPopMax is BZPOPMAX key [key …] timeout; see bzPopMin.
func bzPopMax(c *command.Context) error { return popFirst(c, tryGreatest) }

func popFirst(c *command.Context, try command.Attempt) error {
	last := len(c.Args) - 1
	deadline, err := c.Timeout(c.Args[last])
	if err != nil {
		return err
	}
	return c.Await(value.ZSet, deadline, 1, last, try, command.NoArray)
}

func tryLeast(c *command.Context) (done bool, err error)    { return tryOne(c, least) }
func tryGreatest(c *command.Context) (done bool, err error) { return tryOne(c, greatest) }

func tryOne(c *command.Context, d end) (done bool, err error) {
	for _, key := range c.Args[1 : len(c.Args)-1] {
		e, err := edit(c, key)
		if err != nil {
			return false, err
		}
		if e != nil {
			c.Reply.Array(3)
			c.Reply.Bulk(key)
			popFrom(c, e, key, d, 1, false)
			c.Propagate(d.word(), key)
			return true, nil
		}
	}
	return false, nil
}

// bzMPop is BZMPOP timeout numkeys key [key …] MIN|MAX [COUNT count]. It is ZMPOP, but waits. Further errors: those of
// Timeout.
func bzMPop(c *command.Context) error {
	m, err := parseMultiple(c.Args, 2)
	if err != nil {
		return err
	}
	deadline, err := c.Timeout(c.Args[1])
	if err != nil {
		return err
	}
	return c.Await(value.ZSet, deadline, 3, 3+len(m.keys), tryMultiple, command.NoArray)
}

func tryMultiple(c *command.Context) (done bool, err error) {
	m, err := parseMultiple(c.Args, 2)
	if err != nil {
		return false, err
	}
	return m.try(c)
}
