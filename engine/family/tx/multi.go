package tx

import (
	"errors"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

var (
	errNested         = &protocol.Error{Code: "ERR", Text: "MULTI calls can not be nested"}
	errExecAlone      = &protocol.Error{Code: "ERR", Text: "EXEC without MULTI"}
	errDiscardAlone   = &protocol.Error{Code: "ERR", Text: "DISCARD without MULTI"}
	errPreviousErrors = &protocol.Error{Code: "EXECABORT", Text: "Transaction discarded because of previous errors."}
)

// multi is MULTI. Replies: OK. Errors: "MULTI calls can not be nested", which does not spoil the transaction.
func multi(c *command.Context) error {
	if c.Client.Is(client.Multi) {
		return errNested
	}
	c.Client.Flags |= client.Multi
	c.Reply.OK()
	return nil
}

// discard is DISCARD. Replies: OK. Errors: "DISCARD without MULTI".
func (w *Watches) discard(c *command.Context) error {
	if !c.Client.Is(client.Multi) {
		return errDiscardAlone
	}
	w.Discard(c.Client)
	c.Reply.OK()
	return nil
}

// exec is EXEC. Replies: an array of the queued commands' replies, errors among them; a null array if a watched key
// changed or expired. Errors: "EXEC without MULTI"; EXECABORT if a command was refused when it was queued. Propagates
// what the commands propagate, in one unit.
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
	w.Forget(cl) // what the commands change from here on is none of the watches' business
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

// execRest runs what is left of a transaction. It is not done when one of the commands has lent the turn.
func (w *Watches) execRest(c *command.Context) (done bool, err error) {
	cl, q := c.Client, c.Client.Queue
	for q.Next < len(q.Commands) {
		queued := &q.Commands[q.Next]
		q.Next++
		mark, silent := c.Reply.Mark(), cl.Is(client.CloseAfter)
		// An error is that command's reply, and the rest still runs.
		lent, _ := c.Core.Call(c, queued.Spec.(*command.Spec), queued.Args)
		if lent {
			return false, nil
		}
		if silent {
			c.Reply.Rollback(mark) // who has killed itself hears no more
		}
	}
	if q.MayBlock {
		cl.Flags &^= client.DenyBlocking
	}
	w.Discard(cl)
	return true, nil
}

// Discard ends cl's transaction without running it, and its watches.
func (w *Watches) Discard(cl *client.Client) {
	cl.Queue = nil
	cl.Flags &^= client.Multi | client.DirtyCAS | client.DirtyExec
	w.Forget(cl)
}

// Abort is Discard for an EXEC that was refused before it ran, inside MULTI or not; it returns what to answer instead
// of why.
func (w *Watches) Abort(cl *client.Client, why error) error {
	w.Discard(cl)
	text := why.Error()
	if e := (*protocol.Error)(nil); errors.As(why, &e) && e.Code == "ERR" {
		text = e.Text
	}
	return protocol.Errorf("EXECABORT", "Transaction discarded because of: %s", text)
}
