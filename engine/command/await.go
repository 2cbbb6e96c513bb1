package command

import (
	"spindle/engine/client"
	"spindle/engine/data/value"
)

// An Attempt is the work of a command that waits for a key. It is tried when the command arrives, and again when one of
// its keys may serve it. It reads all it needs from c: the arguments it was first called with are gone by then.
type Attempt func(c *Context) (done bool, err error)

// Await tries. Without success it blocks the client on the keys, which are arguments first to last-1. The wait ends
// when one of them holds a value of type t and try succeeds, or at deadlineMs with a null array. refuse answers for a
// client that may not block: in MULTI, or in a script.
func (c *Context) Await(t value.Type, deadlineMs int64, first, last int, try Attempt, refuse func(c *Context)) error {
	done, err := try(c)
	if done || err != nil {
		return err
	}
	if c.Client.Is(client.DenyBlocking | client.Multi) {
		refuse(c)
		return nil
	}
	c.Core.Block(c, Wait{
		Keys: c.Args[first:last], Type: t, DeadlineMs: deadlineMs, Timeout: NoArray,
		Retry: func(c *Context) error {
			_, err := try(c)
			return err
		},
	})
	return nil
}

// NoArray answers that there is nothing where an array would be, or that the time for it is up.
func NoArray(c *Context) { c.Reply.NullArray() }
