package engine

import (
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/slots"
	"spindle/protocol"
)

// The gates are all conditions that a call must pass before it runs, in Redis's order. Each call has an origin. For
// each origin, a gate has the function that decides. Without a function, calls of that origin pass.
//
// A new condition is a row here. A new origin is a column.

// An origin says where a call comes from.
type origin uint8

const (
	byClient  origin = iota // a request of a client
	byPrimary               // a command of our primary's stream
	inExec                  // a queued command that EXEC runs
	inScript                // a command that a script runs
	fromLog                 // a command of a log
	byGuest                 // a command of the page or the console
	unblocked               // a blocked client's command, when a key is ready
	returning               // a command that worked outside the turn and now wants to write
	origins
)

// A gate is one condition. It concerns only calls of certain rows and clients; other calls pass. Zero means all.
type gate struct {
	name    string
	rows    command.Flags
	clients client.Flags
	asks    by
}

// by has a gate's function for each origin. With nil, calls pass.
type by [origins]ask

// An ask decides about one call of cl. It returns an error only with the verdicts refuse and elsewhere. Turn only.
type ask func(c *Core, cl *client.Client, call part.Call) (verdict, error)

var gates = []gate{
	{name: "a log holds data only", asks: by{fromLog: (*Core).gateLog}},
	{name: "a guest reads only", asks: by{byGuest: (*Core).gateReads}},
	{name: "not for scripts", rows: command.NoScript, asks: by{inScript: (*Core).gateNoScript}},
	{name: "enable-debug-command", rows: command.Protected, asks: by{byClient: (*Core).gateProtected,
		byPrimary: (*Core).gateProtected, byGuest: (*Core).gateProtected}},
	{name: "a password", asks: by{byClient: (*Core).gatePassword}},
	{name: "not in MULTI", rows: command.NoMulti, clients: client.Multi, asks: by{byClient: (*Core).gateNoMulti,
		byPrimary: (*Core).gateNoMulti}},
	{name: "the user's rights", asks: by{byClient: (*Core).gateRights, inExec: (*Core).gateRightsInExec,
		inScript: (*Core).gateRightsInScript, byGuest: (*Core).gateRights, unblocked: (*Core).gateRights,
		returning: (*Core).gateRights}},
	{name: "the slots", asks: by{byClient: (*Core).gateSlots, byGuest: (*Core).gateSlots, returning: (*Core).gateSlot}},
	{name: "a read-only script", asks: by{inScript: (*Core).gateReadOnlyScript}},
	{name: "run before", asks: by{inScript: (*Core).gateReplaying}},
	{name: "the barriers", asks: by{byClient: (*Core).gateBarriers, byPrimary: (*Core).gateBarriers,
		inScript: (*Core).gateBarriersInScript, byGuest: (*Core).gateBarriers, unblocked: (*Core).gateBarriersServed,
		returning: (*Core).gateBarriersButMemory}},
	{name: "memory of a script", asks: by{inScript: (*Core).gateMemoryOfScript}},
	{name: "the slots of a script", asks: by{inScript: (*Core).gateSlotsOfScript}},
	{name: "subscribed", clients: client.PubSub, asks: by{byClient: (*Core).gateSubscribed,
		byPrimary: (*Core).gateSubscribed}},
	{name: "busy", asks: by{byClient: (*Core).gateBusy, byPrimary: (*Core).gateBusyHolds,
		byGuest: (*Core).gateBusyRefuses}},
	{name: "a fed stream", clients: fedStream, asks: by{byClient: (*Core).gateFedStream,
		byPrimary: (*Core).gateFedStream}},
	{name: "a pause", asks: by{byClient: (*Core).gatePause, byPrimary: (*Core).gatePause,
		unblocked: (*Core).gatePauseServed}},
	{name: "the throttle", asks: by{byClient: (*Core).gateThrottle}},
	{name: "MULTI queues", clients: client.Multi, asks: by{byClient: (*Core).gateQueue, byPrimary: (*Core).gateQueue}},
	{name: "a latch", asks: by{byClient: (*Core).gateLatch, inScript: (*Core).gateLatchInScript,
		unblocked: (*Core).gateLatchServed, returning: (*Core).gateLatchReturning}},
	{name: "a guest reads little", asks: by{byGuest: (*Core).gateReadsLittle}},
}

// writes are the flags of rows that change data, or that replicas must know of.
const writes = command.Write | command.MayReplicate

// gatesOf lists, by origin, the gates that have a function for it.
var gatesOf = func() (of [origins][]gate) {
	for _, g := range gates {
		for from, f := range g.asks {
			if f != nil {
				of[from] = append(of[from], g)
			}
		}
	}
	return of
}()

// admit asks the gates about a call of cl, in order. Turn only.
func (c *Core) admit(from origin, cl *client.Client, call part.Call) (verdict, error) {
	c.assertHeld()
	list := gatesOf[from]
	for i := range list {
		g := &list[i]
		if g.rows != 0 && call.Spec.Flags&g.rows == 0 || g.clients != 0 && cl.Flags&g.clients == 0 {
			continue
		}
		if v, err := g.asks[from](c, cl, call); v != pass {
			return v, err
		}
	}
	return run, nil
}

// refusal returns a gate's verdict: refuse if err is not nil, else pass.
func refusal(err error) (verdict, error) {
	if err != nil {
		return refuse, err
	}
	return pass, nil
}

// gateLog skips commands that change neither data nor scripts, and do not choose the database. Servers before Redis 7
// logged SCRIPT LOAD and SCRIPT FLUSH. A log is data, so its commands must not configure a server.
func (c *Core) gateLog(_ *client.Client, call part.Call) (verdict, error) {
	if call.Flags&(writes|command.ReadOnly) == 0 && !call.Spec.Has(command.InLogs) {
		return skip, nil
	}
	return pass, nil
}

func (c *Core) gateReads(_ *client.Client, call part.Call) (verdict, error) {
	if !forGuests(call.Flags) {
		return refuse, errGuestWrites
	}
	return pass, nil
}

func (c *Core) gateReadsLittle(cl *client.Client, call part.Call) (verdict, error) {
	return refusal(c.admitWhole(cl, call))
}

func (c *Core) gateNoScript(*client.Client, part.Call) (verdict, error) {
	if !c.anyInScripts {
		return refuse, errNotInScript
	}
	return pass, nil
}

// gateProtected refuses DEBUG and MODULE unless the settings allow them to this client.
func (c *Core) gateProtected(cl *client.Client, call part.Call) (verdict, error) {
	name, mode := "DEBUG", c.settings.EnableDebugCommand.Get()
	option := "enable-debug-command"
	if call.Spec.Has(command.OfModules) {
		name, mode, option = "MODULE", c.settings.EnableModuleCommand.Get(), "enable-module-command"
	}
	if mode.Allows(protocol.IsLocal(cl.Conn)) {
		return pass, nil
	}
	return refuse, errProtected(name, option)
}

func (c *Core) gatePassword(cl *client.Client, call part.Call) (verdict, error) {
	if !cl.Authenticated && call.Spec.Flags&command.NoAuth == 0 && !c.users.DefaultIsOpen() {
		return refuse, protocol.ErrNoAuth
	}
	return pass, nil
}

func (c *Core) gateNoMulti(*client.Client, part.Call) (verdict, error) { return refuse, errNotInMulti }

func (c *Core) gateRights(cl *client.Client, call part.Call) (verdict, error) {
	d := c.checkRights(cl, nextDB(cl), call)
	if !d.Refused() {
		return pass, nil
	}
	c.lap() // the next command is the first of a run, and names itself
	cl.LastCommand = call.Spec.Full
	c.deny(cl, d, originOf(cl), call)
	return refuse, d.Error(rightsOf(cl), call.Spec)
}

func (c *Core) gateRightsInExec(cl *client.Client, call part.Call) (verdict, error) {
	d := c.checkRights(cl, cl.DB, call)
	if !d.Refused() {
		return pass, nil
	}
	c.deny(cl, d, acl.InMulti, call)
	return refuse, d.ExecError()
}

func (c *Core) gateRightsInScript(cl *client.Client, call part.Call) (verdict, error) {
	d := c.checkRights(cl, cl.DB, call)
	if !d.Refused() {
		return pass, nil
	}
	c.deny(cl, d, acl.InLua, call)
	return refuse, d.ScriptError(rightsOf(cl), call.Spec)
}

func (c *Core) gateSlots(cl *client.Client, call part.Call) (verdict, error) {
	if c.slots == nil {
		return pass, nil
	}
	if err := c.admitSlots(cl, call.Spec, call.Args); err != nil {
		return elsewhere, err
	}
	return pass, nil
}

// gateSlot checks the slot of the one key that a command wants to write.
func (c *Core) gateSlot(cl *client.Client, _ part.Call) (verdict, error) {
	if c.slots == nil {
		return pass, nil
	}
	p := c.waiting.byClient[cl]
	return refusal(c.routeParked(c.slots.Load(), p, p.key))
}

// gateSlotsOfScript comes after the barriers, because a read-only replica must give that error first.
func (c *Core) gateSlotsOfScript(cl *client.Client, call part.Call) (verdict, error) {
	if c.slots == nil {
		return pass, nil
	}
	return refusal(c.admitSlotsOfScript(cl, call))
}

func (c *Core) gateReadOnlyScript(cl *client.Client, call part.Call) (verdict, error) {
	if cl.Script.ReadOnly && call.Flags&writes != 0 {
		return refuse, errReadOnlyScript
	}
	return pass, nil
}

// gateReplaying lets a script of a log run the commands that it ran before.
func (c *Core) gateReplaying(*client.Client, part.Call) (verdict, error) {
	if c.replaying {
		return run, nil
	}
	return pass, nil
}

func (c *Core) gateBarriers(cl *client.Client, call part.Call) (verdict, error) {
	for _, b := range c.barriers {
		if b.Up {
			switch err := b.Refuse(cl, call); {
			case err == command.ErrHold && cl.Is(client.CloseASAP):
				return hold, nil
			case err == command.ErrHold && c.pause.on:
				c.pause.hold(cl)
				return hold, nil
			case err != nil && b.Redirects && err != command.ErrHold:
				return elsewhere, err
			case err != nil:
				return refuse, err
			}
		}
	}
	return pass, nil
}

// gateBarriersServed asks about the command of a blocked client as if it came now. A client that would be held stays
// blocked, and the end of the pause offers all keys again.
func (c *Core) gateBarriersServed(cl *client.Client, call part.Call) (verdict, error) {
	for _, b := range c.barriers {
		if b.Up {
			switch err := b.Refuse(cl, call); {
			case err == command.ErrHold && (c.pause.on || cl.Is(client.CloseASAP)):
				c.pause.passed = true
				return hold, nil
			case err != nil:
				return refuse, err
			}
		}
	}
	return pass, nil
}

// gateBarriersButMemory leaves out the memory barrier. The new value has been built, so its memory is already used.
func (c *Core) gateBarriersButMemory(cl *client.Client, call part.Call) (verdict, error) {
	for _, b := range c.barriers {
		if !b.Up || b == c.eviction.barrier {
			continue
		}
		if err := b.Refuse(cl, call); err != nil {
			return refuse, err
		}
	}
	return pass, nil
}

// gateBarriersInScript leaves the memory barrier to gateMemoryOfScript. A script that has written passes the shortage
// barrier, too, because half of its work would be worse. The other barriers cannot change their answer within a unit.
func (c *Core) gateBarriersInScript(cl *client.Client, call part.Call) (verdict, error) {
	for _, b := range c.barriers {
		if !b.Up || b == c.eviction.barrier || b == c.shortage && cl.Script.Wrote {
			continue
		}
		if err := b.Refuse(cl, call); err != nil {
			return refuse, err
		}
	}
	return pass, nil
}

// gateMemoryOfScript refuses a script's command for lack of memory only if the script has not written yet.
func (c *Core) gateMemoryOfScript(cl *client.Client, call part.Call) (verdict, error) {
	if call.Flags&command.DenyOOM != 0 && c.OutOfMemory() && !cl.Script.Wrote && !cl.Script.AllowOOM {
		return refuse, protocol.ErrOutOfMemory
	}
	return pass, nil
}

func (c *Core) gateSubscribed(cl *client.Client, call part.Call) (verdict, error) {
	if cl.Protocol == 2 && !call.Spec.Has(command.WhileSubscribed) {
		return refuse, errSubscribed(call.Spec)
	}
	return pass, nil
}

// gateBusy holds calls back while a command has lent the turn. After busy-reply-threshold it refuses them.
func (c *Core) gateBusy(cl *client.Client, call part.Call) (verdict, error) {
	if c.lent != nil && c.lent.tardy && call.Flags&command.AllowBusy == 0 {
		return refuse, c.lent.refusal()
	}
	return c.gateBusyHolds(cl, call)
}

func (c *Core) gateBusyHolds(cl *client.Client, call part.Call) (verdict, error) {
	if c.lent == nil || call.Flags&command.AllowBusy != 0 {
		return pass, nil
	}
	c.pause.hold(cl)
	return hold, nil
}

func (c *Core) gateBusyRefuses(_ *client.Client, call part.Call) (verdict, error) {
	if c.lent == nil || call.Flags&command.AllowBusy != 0 {
		return pass, nil
	}
	return refuse, c.lent.refusal()
}

func (c *Core) gateFedStream(_ *client.Client, call part.Call) (verdict, error) {
	if call.Flags&(writes|command.ReadOnly) != 0 {
		return refuse, errFedStream
	}
	return pass, nil
}

func (c *Core) gatePause(cl *client.Client, call part.Call) (verdict, error) {
	if !c.pause.holds(cl, call.Flags) {
		return pass, nil
	}
	c.pause.hold(cl)
	return hold, nil
}

// gatePauseServed leaves a client blocked. The end of the pause offers all keys again.
func (c *Core) gatePauseServed(cl *client.Client, call part.Call) (verdict, error) {
	if !c.pause.holds(cl, call.Flags) {
		return pass, nil
	}
	c.pause.passed = true
	return hold, nil
}

// gateThrottle holds back a client that writes faster than the throttle allows all of them. A queued command is no
// write. EXEC is one if its queue has one, and a script is one unless it declares that it only reads.
func (c *Core) gateThrottle(cl *client.Client, call part.Call) (verdict, error) {
	t := &c.throttle
	if call.Flags&writes == 0 || cl.Is(client.Multi) && !call.Spec.Has(command.InMulti) {
		return pass, nil
	}
	if !t.on || cl.Flags&(fedStream|client.Fake|client.Primary|client.Importing) != 0 {
		return pass, nil
	}
	if t.paid[cl] {
		delete(t.paid, cl)
		return pass, nil
	}
	t.asked++
	if t.held.Len() == 0 && t.consume(c.nanos) {
		return pass, nil
	}
	t.hold(cl)
	return hold, nil
}

// gateQueue lets a transaction queue a command. It refuses a primary's SELECT of a database that is not here: the rest
// of the transaction would run in another database.
func (c *Core) gateQueue(cl *client.Client, call part.Call) (verdict, error) {
	if call.Spec.Has(command.InMulti) {
		return pass, nil
	}
	if cl.Is(client.Primary) && call.Spec.Has(command.Selects) && command.Database(call.Args[1], c.space.Len()) < 0 {
		return refuse, protocol.ErrDBIndex
	}
	return queue, nil
}

// gateLatch lets calls that name a key with a latch pass during a pause. The key then does not change, so it may be
// read. Keys of a held slot may change at the slot's next owner.
func (c *Core) gateLatch(cl *client.Client, call part.Call) (verdict, error) {
	if !c.latched(cl, call.Spec, call.Args, c.pause.on) {
		return pass, nil
	}
	c.pause.hold(cl)
	return hold, nil
}

// gateLatchServed leaves a client blocked if its command names a key with a latch (engine.K3).
func (c *Core) gateLatchServed(cl *client.Client, call part.Call) (verdict, error) {
	if !c.latched(cl, call.Spec, call.Args, false) {
		return pass, nil
	}
	c.latches.passed = true
	return hold, nil
}

// gateLatchReturning checks only latches of slots, because the call itself holds the latch of its key.
func (c *Core) gateLatchReturning(cl *client.Client, _ part.Call) (verdict, error) {
	if l := &c.latches; l.slots != nil && l.slots[slots.Of(c.waiting.byClient[cl].key)] > 0 {
		return refuse, errOnItsWay
	}
	return pass, nil
}

func (c *Core) gateLatchInScript(_ *client.Client, call part.Call) (verdict, error) {
	if call.Flags&writes != 0 && c.latches.held != 0 && c.namesLatched(call.Spec, call.Args, false) {
		return refuse, errOnItsWay
	}
	return pass, nil
}
