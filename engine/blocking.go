package engine

import (
	"slices"

	"spindle/engine/client"
	"spindle/engine/command"
)

// Blocking parks a client until a key is ready, time runs out, another client unblocks it, or it leaves. A parked
// client's connection reads on only to notice a hang-up; its next requests stay unread (client.Blocked stops run).

// Block implements command.Core: the client of ctx waits. The handler returns right after, without a reply.
func (c *Core) Block(ctx *command.Context, w command.Wait) {
	c.assertHeld()
	cl := ctx.Client
	p := &parked{cl: cl, wait: w, spec: ctx.Spec, db: cl.DB, index: -1}
	for _, a := range ctx.Args {
		p.args = append(p.args, append([]byte{}, a...)) // an empty one too is there
	}
	if w.Again != nil {
		p.againMs = w.Again(ctx)
	}
	c.waiting.enter(p)
	c.space.Blocking = len(c.waiting.byKey)
	p.wait.Keys = nil // lent
	cl.Flags |= client.Blocked
	if w.Busy {
		cl.Flags |= client.Busy
	}
	cl.Wait = p
}

// parkBusy has cl wait for its own command, which runs in slices (Lend).
func (c *Core) parkBusy(cl *client.Client, args [][]byte, spec *command.Spec) *parked {
	c.assertHeld()
	p := &parked{cl: cl, wait: command.Wait{Busy: true}, spec: spec, db: cl.DB, index: -1}
	for _, a := range args {
		p.args = append(p.args, append([]byte{}, a...))
	}
	c.waiting.enter(p)
	cl.Flags |= client.Blocked | client.Busy
	cl.Wait = p
	return p
}

// Ready says that key may now serve a client that waits for it; they are tried when the unit is complete. A value of a
// type that no client waits for makes no key ready, even if a client waits there for another type.
func (c *Core) Ready(db int, key []byte) {
	c.assertHeld()
	if len(c.waiting.byKey) == 0 {
		return
	}
	name := keyName{db, string(key)}
	if c.waiting.byKey[name] != nil && c.waiting.anybodyFor(c.space.DB(db).Peek(key).Type()) {
		c.waiting.offer(name)
	}
}

// gone is Ready when a stream has left its key, for the clients that asked to hear of that.
func (c *Core) gone(db int, key []byte) {
	c.assertHeld()
	name := keyName{db, string(key)}
	if l := c.waiting.byKey[name]; l != nil && l.gone > 0 {
		c.waiting.offer(name)
	}
}

// wholly is Ready for the keys of a database that was emptied or swapped, in the order of their names. Keys that are
// gone count if a client asked to hear of that.
func (c *Core) wholly(db int) {
	c.assertHeld()
	var keys []string
	for name := range c.waiting.byKey {
		if name.db == db {
			keys = append(keys, name.key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		c.gone(db, []byte(key))
		c.Ready(db, []byte(key))
	}
}

// unpark ends a client's wait, if it waits.
func (c *Core) unpark(cl *client.Client) {
	c.assertHeld()
	p := c.waiting.byClient[cl]
	if p == nil {
		return
	}
	c.waiting.leave(p)
	c.space.Blocking = len(c.waiting.byKey)
	cl.Flags &^= client.Blocked | client.Busy
	cl.Wait = nil
	if p.wait.Left != nil {
		p.wait.Left()
	}
}
