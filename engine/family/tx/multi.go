package tx

import (
	"errors"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// multi is MULTI. Replies: OK. Errors: "MULTI calls can not be nested", which does not abort the transaction.
func multi(c *command.Context) error {
	if c.Client.Is(client.Multi) {
		return errNested
	}
	c.Client.Flags |= client.Multi
	c.Reply.OK()
	return nil
}

func (w *Watches) discard(c *command.Context) error {
	if !c.Client.Is(client.Multi) {
		return errDiscardAlone
	}
	w.Discard(c.Client)
	c.Reply.OK()
	return nil
}

// exec is EXEC. Replies: an array of the queued commands' replies, errors included, or a null array if a watched key
// has changed or expired. Errors: "EXEC without MULTI"; EXECABORT if a command was refused when it was queued.
// Propagates the commands' effects as one unit.
func (w *Watches) exec(c *command.Context) error {
	cl := c.Client
	switch {
	case !cl.Is(client.Multi):
		return errExecAlone
	case cl.Is(client.DirtyExec):
		w.Discard(cl)
		return errPreviousErrors
	case cl.Is(client.DirtyCAS) || expiredSince(cl, c.Now):
		w.Discard(cl)
		c.Reply.NullArray()
		return nil
	}
	w.Forget(cl) // the transaction's own changes must not make it dirty
	if cl.Queue == nil {
		cl.Queue = &client.Queue{}
	}
	cl.Queue.MayBlock = !cl.Is(client.DenyBlocking)
	cl.Flags |= client.DenyBlocking
	c.Reply.Array(len(cl.Queue.Commands))
	if done, _ := w.execRest(c); !done {
		c.Core.Lend(c, w.execRest)
	}
	return nil
}

// execRest runs the rest of a transaction. done is false if a command has lent the turn.
func (w *Watches) execRest(c *command.Context) (done bool, err error) {
	cl, q := c.Client, c.Client.Queue
	for q.Next < len(q.Commands) {
		queued := &q.Commands[q.Next]
		q.Next++
		mark, silent := c.Reply.Mark(), cl.Is(client.CloseAfter)
		// An error is the reply of that command. The rest still runs.
		lent, _ := c.Core.Call(c, queued.Spec.(*command.Spec), queued.Args)
		if lent {
			return false, nil
		}
		if silent {
			c.Reply.Rollback(mark) // a client that killed itself gets no further replies
		}
	}
	if q.MayBlock {
		cl.Flags &^= client.DenyBlocking
	}
	w.Discard(cl)
	return true, nil
}

// Discard ends cl's transaction without running it, and ends its watches.
func (w *Watches) Discard(cl *client.Client) {
	cl.Queue = nil
	cl.Flags &^= client.Multi | client.DirtyCAS | client.DirtyExec
	w.Forget(cl)
}

// Abort is Discard for an EXEC that was refused before it ran, even outside MULTI. It returns the EXECABORT reply for
// why.
func (w *Watches) Abort(cl *client.Client, why error) error {
	w.Discard(cl)
	text := why.Error()
	if e := (*protocol.Error)(nil); errors.As(why, &e) && e.Code == "ERR" {
		text = e.Text
	}
	return errAborted(text)
}
