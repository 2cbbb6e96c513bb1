package zset

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
)

// An attempt is a blocking command's work, tried when it comes in and again when one of its keys has become a sorted set. It reads all
// it needs from c: the arguments it was first called with are gone by then.
type attempt func(c *command.Context) (done bool, err error)

// await tries, and if there is nothing to be had blocks the client on the keys, which are arguments first to last-1.
func await(c *command.Context, deadlineMs int64, first, last int, try attempt) error {
	done, err := try(c)
	if done || err != nil {
		return err
	}
	if c.Client.Is(client.DenyBlocking | client.Multi) {
		c.Reply.NullArray()
		return nil
	}
	c.Core.Block(c, command.Wait{
		Keys: c.Args[first:last], DeadlineMs: deadlineMs,
		Timeout: func(c *command.Context) { c.Reply.NullArray() },
		Retry: func(c *command.Context) error {
			if !anySorted(c, c.Args[first:last]) {
				return nil // what came is of another type: that is no error for who waits
			}
			_, err := try(c)
			return err
		},
	})
	return nil
}

func anySorted(c *command.Context, keys [][]byte) bool {
	for _, key := range keys {
		if c.DB.Peek(key).Type() == value.ZSet {
			return true
		}
	}
	return false
}

// bzPopMin is BZPOPMIN key [key …] timeout.
//
// Replies: the first key that is a sorted set, its least member and that one's score; a nil array when time is up.
// Errors: those of Timeout, ErrWrongType. Propagates: ZPOPMIN key.
func bzPopMin(c *command.Context) error { return popFirst(c, tryLeast) }

// bzPopMax is BZPOPMAX key [key …] timeout; see bzPopMin.
func bzPopMax(c *command.Context) error { return popFirst(c, tryGreatest) }

func popFirst(c *command.Context, try attempt) error {
	last := len(c.Args) - 1
	deadline, err := c.Timeout(c.Args[last])
	if err != nil {
		return err
	}
	return await(c, deadline, 1, last, try)
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

// bzMPop is BZMPOP timeout numkeys key [key …] MIN|MAX [COUNT count]: ZMPOP that waits. Errors besides: those of Timeout.
func bzMPop(c *command.Context) error {
	m, err := parseMultiple(c.Args, 2)
	if err != nil {
		return err
	}
	deadline, err := c.Timeout(c.Args[1])
	if err != nil {
		return err
	}
	return await(c, deadline, 3, 3+len(m.keys), tryMultiple)
}

func tryMultiple(c *command.Context) (done bool, err error) {
	m, err := parseMultiple(c.Args, 2)
	if err != nil {
		return false, err
	}
	return m.try(c)
}
