package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/slots"
	"spindle/protocol"
)

// Routing: in cluster mode a call runs on the node that serves the hash slot of its keys. Other nodes reply with a
// redirection. The present slots.Map decides. It is read once for each call.

// A redirect is the reason why a call does not run here.
type redirect uint8

const (
	served       redirect = iota
	crossSlot             // its keys have several slots
	unstable              // some of its keys are here, and others where the slot comes from or goes to
	down                  // the cluster is down
	downReadOnly          // the cluster is down, and only reads are allowed
	unbound               // no node serves the slot
	moved                 // another node serves the slot
	asked                 // the keys are on the node that the slot moves to
)

// A route is the result of routing a call.
type route struct {
	why  redirect
	slot int         // of its keys; -1 if it has none
	to   *slots.Node // of moved and asked
}

// RouteBy makes the core route calls by the Map of current. replicas returns the number of replicas that get the
// stream. Call RouteBy before the first Serve, in cluster mode only.
func (c *Core) RouteBy(current *slots.Current, replicas func() int) {
	c.slots, c.replicas = current, replicas
}

// admitSlots refuses a call whose keys this server does not serve. EXEC is judged by the queued commands. If an EXEC is
// refused, its transaction ends.
func (c *Core) admitSlots(cl *client.Client, spec *command.Spec, args [][]byte) error {
	if cl.Is(client.Primary) || !spec.HasKeys(command.IncludeNotKeys) && !spec.Has(command.RunsQueue) {
		return nil
	}
	m := c.slots.Load()
	if m == nil { // the node is not open yet
		return errDown
	}
	c.stack.slots = m
	if cl.Is(client.Importing) {
		cl.InputBytes += uint64(protocol.CommandSize(args))
		return c.admitImport(cl, callOf(cl, spec, args))
	}
	if at := spec.OneKey(); at > 0 && at < len(args) && m.OK && m.Mine(slots.Of(args[at])) && len(m.Migrating) == 0 &&
		len(m.Importing) == 0 {
		return nil // the usual case
	}
	r := c.routeOf(m, cl, cl.DB, callOf(cl, spec, args))
	if r.why == served {
		return nil
	}
	return redirection(m, cl, r)
}

// admitImport refuses a call from the source of slots that move here, if its keys are not in these slots.
func (c *Core) admitImport(cl *client.Client, call part.Call) (err error) {
	c.keysOf(cl, cl.DB, call, func(_ *command.Spec, k namedKey) bool {
		if !c.space.Hides(slots.Of(k.key)) {
			err = errNotImporting
		}
		return err == nil
	})
	return err
}

// redirection returns the error reply to a call that does not run here.
func redirection(m *slots.Map, cl *client.Client, r route) error {
	switch r.why {
	case crossSlot:
		return errCrossSlot
	case unstable:
		return errUnstable
	case down:
		return errDown
	case downReadOnly:
		return errDownReadOnly
	case unbound:
		return errUnbound
	}
	code := "MOVED"
	if r.why == asked {
		code = "ASK"
	}
	return errElsewhere(code, r.slot, m, r.to, protocol.IsSecure(cl.Conn))
}

// A namedKey is a key of a call, or a shard channel.
type namedKey struct {
	key     []byte
	db      int  // the database in which the call will look for it
	crosses bool // and it has to do with another database, too
}

// keysOf calls each with the keys of a call, including shard channels, until each returns false. In a transaction,
// SELECT applies to the commands after it. db is the client's database.
func (c *Core) keysOf(cl *client.Client, db int, call part.Call, each func(spec *command.Spec, k namedKey) (
	more bool)) {
	walk := func(spec *command.Spec, args [][]byte) bool {
		c.latches.dbs = spec.NamedDatabases(c.latches.dbs, args, c.space.Len())
		named := c.latches.dbs
		if !spec.HasKeys(command.IncludeNotKeys) {
			if spec.Has(command.Selects) && len(named) > 0 {
				db = named[0]
			}
			return true
		}
		found, _ := spec.AppendKeys(c.latches.found[:0], args, command.IncludeNotKeys) // on an error those at fixed places
		c.latches.found = found[:0]
		crosses := len(named) > 0 && named[len(named)-1] != db
		for _, k := range found {
			if !each(spec, namedKey{args[k.Index], db, crosses}) {
				return false
			}
		}
		return true
	}
	if !call.Spec.Has(command.RunsQueue) {
		walk(call.Spec, call.Args)
		return
	}
	if !cl.Is(client.Multi) || cl.Queue == nil {
		return
	}
	for i := range cl.Queue.Commands {
		q := &cl.Queue.Commands[i]
		if !walk(q.Spec.(*command.Spec), q.Args) {
			return
		}
	}
}

// routeOf routes a call of cl, or of a script that cl has called, in database db.
func (c *Core) routeOf(m *slots.Map, cl *client.Client, db int, call part.Call) (r route) {
	r.slot = -1
	var owner *slots.Node
	var first []byte
	migrating, importing, several, shard, data := false, false, false, false, false
	missing, existing := 0, 0
	// With several databases, only EXEC knows in which one a queued command will look for its keys.
	later := cl.Is(client.Multi) && c.stack.depth == 0 && !call.Spec.Has(command.RunsQueue) && c.space.Len() > 1
	c.keysOf(cl, db, call, func(spec *command.Spec, k namedKey) bool {
		key, slot := k.key, slots.Of(k.key)
		shard, data = shard || spec.Channels != 0, data || spec.Channels == 0
		switch {
		case r.slot < 0:
			first, r.slot, owner = key, int(slot), m.Owner(slot)
			if owner == nil {
				r.why = unbound
				return false
			}
			_, migrating = m.Migrating[slot]
			migrating = migrating && owner == m.Me
			_, importing = m.Importing[slot]
			importing = importing && !migrating
		case r.slot != int(slot):
			r.why = crossSlot
			return false
		case importing && string(first) != string(key):
			several = true
		}
		if (migrating || importing) && k.crosses {
			r.why = unstable
			return false
		}
		if (migrating || importing) && !shard && !later {
			if c.space.DB(k.db).Peek(key).Exists() {
				existing++
			} else {
				missing++
			}
		}
		return true
	})
	if r.why != served || owner == nil {
		return r
	}
	writes := call.Flags&command.Write != 0
	switch {
	case m.OK:
	case shard:
		if !m.AllowShardWhenDown {
			r.why = down
		}
	case !m.AllowReadsWhenDown:
		r.why = down
	case writes:
		r.why = downReadOnly
	}
	switch {
	case r.why != served:
	case (migrating || importing) && call.Spec.Has(command.MovesKeys):
	case migrating && missing > 0 && existing > 0:
		r.why = unstable
	case migrating && missing > 0:
		r.why, r.to = asked, m.Migrating[uint16(r.slot)]
	case importing && (cl.Is(client.Asking) || call.Flags&command.Asking != 0):
		if several && missing > 0 {
			r.why = unstable
		}
	case (cl.Is(client.ReadOnly) || shard) && !writes && m.Replica && owner == m.Primary &&
		(!data || !c.space.Hides(uint16(r.slot))): // of a hidden slot, the primary's stream has not brought all keys
	case owner != m.Me:
		r.why, r.to = moved, owner
	}
	return r
}

// sendAway replies to a call that does not run here. If it is EXEC, the transaction ends, and the reply is just the
// redirection.
func (c *Core) sendAway(cl *client.Client, spec *command.Spec, err error) {
	switch {
	case spec.Has(command.RunsQueue) && c.hooks.ExecRefused != nil:
		_ = c.hooks.ExecRefused(cl, err) // which would be its reply
	case cl.Is(client.Multi):
		cl.Flags |= client.DirtyExec
	}
	c.meter.rejected(spec, err)
	cl.Out.Error(err)
}

// Scripts: keys that a script uses without having declared them are checked call by call.

// admitSlotsOfScript is admitSlots for a command of a script. It uses the flags of the client that has called the
// script.
func (c *Core) admitSlotsOfScript(cl *client.Client, call part.Call) error {
	script := cl.Script
	outer := c.stack.frames[0].Client
	if outer.Is(client.Primary|client.Fake) || !call.Spec.HasKeys(command.IncludeNotKeys) {
		return nil
	}
	m := c.stack.slots // the map that admitted the outermost command, so that half a unit is not refused
	if m == nil {
		m = c.slots.Load()
	}
	r := c.routeOf(m, outer, cl.DB, call)
	switch r.why {
	case served:
	case crossSlot:
		return errScriptCrossSlot(call.Spec)
	case unstable:
		return errScriptUnstable(call.Spec)
	case down:
		return errScriptDown
	case downReadOnly:
		return errScriptDownReadOnly
	case unbound:
		return errScriptUnbound
	default:
		return errScriptElsewhere
	}
	if r.slot < 0 || script.AnySlot {
		return nil
	}
	if script.Slot == client.NoSlot {
		script.Slot = c.declaredSlot(r.slot)
	}
	if script.Slot != r.slot {
		return errScriptOtherSlot
	}
	return nil
}

// declaredSlot returns the slot of the keys that the call of the running script has declared. It returns otherwise if
// the call has declared none.
func (c *Core) declaredSlot(otherwise int) (slot int) {
	slot = otherwise
	caller := &c.stack.frames[c.stack.depth-1]
	c.keysOf(caller.Client, 0, part.Call{Spec: caller.Spec, Args: caller.Args}, func(_ *command.Spec, k namedKey) bool {
		slot = int(slots.Of(k.key))
		return false
	})
	return slot
}

// routeParked returns the error with which p's command cannot continue here, or nil if it can. All of its keys are in
// key's slot.
func (c *Core) routeParked(m *slots.Map, p *parked, key []byte) error {
	if !m.OK {
		return errDown
	}
	slot := slots.Of(key)
	owner := m.Owner(slot)
	switch _, importing := m.Importing[slot]; {
	case owner == m.Me || importing:
	case p.cl.Is(client.ReadOnly) && p.spec.Flags&command.Write == 0 && m.Replica && owner != nil && owner == m.Primary &&
		!c.space.Hides(slot):
	case owner == nil:
		return errUnbound
	default:
		return redirection(m, p.cl, route{moved, int(slot), owner})
	}
	return nil
}
