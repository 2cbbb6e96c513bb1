package engine

import (
	"slices"

	"spindle/engine/client"
	"spindle/engine/command"
)

// Blocking parks a client until a key is ready, its timeout passes, another client unblocks it, or it leaves. The loop
// still reads from a parked client's connection, but only to notice a hang-up. The client's next requests wait, because
// client.Blocked stops run.

// Block implements command.Core: the client of ctx waits. The handler returns right after the call, without a reply.
func (c *Core) Block(ctx *command.Context, w command.Wait) {
	c.assertHeld()
	cl := ctx.Client
	p := &parked{cl: cl, wait: w, spec: ctx.Spec, db: cl.DB, index: -1}
	for _, a := range ctx.Args {
		p.args = append(p.args, append([]byte{}, a...)) // not nil, even if it is empty
	}
	if w.Again != nil {
		p.againMs = w.Again(ctx)
	}
	if before := c.waiting.byClient[cl]; before != nil { // its Retry waits once more
		p.unbooked, p.took = before.unbooked, before.took
		c.waiting.leave(before)
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

// parkBusy makes cl wait for its own command, which runs in slices (Lend).
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

// worksOn reports whether cl's command works outside the turn, and will surely reply. A command that looks Again may
// wait for ever.
func worksOn(cl *client.Client) bool {
	if !cl.Is(client.Busy) {
		return false
	}
	p, is := cl.Wait.(*parked)
	return is && p.wait.Again == nil
}

// Ready reports that key may now serve a client that waits for it. The waiting clients are tried when the unit is
// complete. A value of a type that no client waits for makes no key ready, even if a client waits there for another
// type.
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

// gone is Ready for a stream that has left its key. It serves only the clients whose wait has Gone.
func (c *Core) gone(db int, key []byte) {
	c.assertHeld()
	name := keyName{db, string(key)}
	if l := c.waiting.byKey[name]; l != nil && l.gone > 0 {
		c.waiting.offer(name)
	}
}

// wholly is Ready for all keys of a database that was emptied or swapped, in the order of their names. For a missing
// key, it serves the clients whose wait has Gone.
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

// offerAll is Ready for all keys that clients wait for.
func (c *Core) offerAll() {
	for db := range c.space.Len() {
		c.wholly(db)
	}
}

// unpark ends a client's wait, if it is waiting.
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
