package command

import (
	"spindle/engine/client"
	"spindle/engine/data/value"
)

// An Attempt is the work of a command that waits for a key. It is tried when the command arrives, and again when one of
// the keys may serve it. It reads all it needs from c, because the arguments of the first call do not live that long.
type Attempt func(c *Context) (done bool, err error)

// Await calls try. If try does not succeed, Await blocks the client on the keys, which are the arguments first to
// last-1. The wait ends when one of them holds a value of type t and try succeeds, or at deadlineMs with a null array.
// For a client that may not block, in MULTI or in a script, refuse replies.
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

// NoArray replies with a null array, for a missing value or a timeout.
func NoArray(c *Context) { c.Reply.NullArray() }
