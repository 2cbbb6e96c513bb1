package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
)

// Latch holds back every command that names one of keys, until release is called, which is for the turn and may be
// called once. The keys are copied. Turn only.
func (c *Core) Latch(keys [][]byte) (release func()) {
	c.assertHeld()
	l := &c.latches
	if len(l.keys) == 0 {
		c.raised++ // admission must look
		l.keys = map[string]int{}
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
		l.keys[names[i]]++
	}
	return func() { c.unlatch(names) }
}

// unlatch undoes a Latch, and has the waiting clients ask again.
func (c *Core) unlatch(names []string) {
	c.assertHeld()
	l := &c.latches
	for _, name := range names {
		if l.keys[name]--; l.keys[name] == 0 {
			delete(l.keys, name)
		}
	}
	if len(l.keys) == 0 {
		c.raised--
	}
	c.pause.release()
	if l.passed {
		l.passed = false
		for db := range c.space.Len() {
			c.wholly(db)
		}
	}
}

// latched says whether a client's command has to wait for a key with a latch.
func (c *Core) latched(cl *client.Client, spec *command.Spec, args [][]byte) bool {
	if len(c.latches.keys) == 0 || cl.Flags&(client.Primary|client.Fake) != 0 {
		return false
	}
	if spec.Has(command.RunsQueue) && cl.Queue != nil {
		for i := range cl.Queue.Commands {
			q := &cl.Queue.Commands[i]
			if c.namesLatched(q.Spec.(*command.Spec), q.Args) {
				return true
			}
		}
		return false
	}
	return c.namesLatched(spec, args)
}

// namesLatched says whether a call names a key with a latch. SWAPDB, which moves all keys, counts as one that does.
func (c *Core) namesLatched(spec *command.Spec, args [][]byte) bool {
	l := &c.latches
	if spec.Has(command.AllKeys) {
		return true
	}
	if !spec.HasKeys(command.IncludeNotKeys) {
		return false
	}
	l.found, _ = spec.AppendKeys(l.found[:0], args, 0) // on an error those at fixed places
	for _, k := range l.found {
		if l.keys[string(args[k.Index])] > 0 {
			return true
		}
	}
	return false
}
