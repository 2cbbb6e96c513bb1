package engine

import (
	"math"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/diagnose"
	"spindle/engine/part"
	"spindle/internal/clock"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// New builds a Core from its parts. The catalogue may come later (SetCatalogue), because some of its rows need the
// core.
func New(p Parts) *Core {
	c := &Core{
		space: p.Space, catalogue: p.Catalogue, clients: p.Clients, settings: p.Settings,
		common: p.Common, lazy: p.Lazy, whole: p.Whole, gate: p.Gate,
	}
	c.clock, c.wall = time.Now, clock.WallFrom(time.Now())
	if p.Clock != nil {
		c.clock, c.wall = p.Clock, clock.WallBy(p.Clock)
	}
	c.turn.runOther, c.turn.clockNanos = c.runBatch, c.wall.Nanos
	c.started = c.wall.Origin()
	c.steady = clock.SteadyAt(c.started)
	c.common.MaxMemory = &c.settings.MaxMemory
	c.nudge, c.halted = make(chan struct{}, 1), make(chan struct{})
	c.clients.Costs.OnPressure(c.pressClients)
	if invariant.Enabled {
		c.space.HeldBy(c.assertHeld)
		c.clients.HeldBy(c.assertHeld)
	}
	c.stack = &c.stacks[0]
	c.waiting.init()
	c.reads.Init()
	c.meter.init()
	c.sampler.init(uint64(c.started.UnixNano()))
	c.stalls.log = diagnose.NewStalls(c.settings.StallsKept.Get)
	c.stalls.limit, c.stalls.processCPU = math.MaxInt64, clock.ProcessCPU
	c.large = largeness{request: math.MaxInt, reply: math.MaxInt, noted: math.MaxInt}
	c.takeJob = c.nextJob
	c.eviction.barrier, c.loading, c.shortage = c.memoryBarrier(), c.loadingBarrier(), c.shortageBarrier()
	c.installKeyspaceHooks()
	c.users.OnChange(c.rightsChanged)
	if p.Catalogue != nil {
		c.users.Begin(p.Catalogue)
	}
	return c
}

// SetCatalogue gives the core its commands, before the first Serve. It also makes the default user, which may run all
// of them.
func (c *Core) SetCatalogue(k *command.Catalogue) {
	c.catalogue = k
	c.users.Begin(k)
}

// AddOwnBarriers adds the core's barriers after those added so far. The order is memory, then between, then loading.
func (c *Core) AddOwnBarriers(between ...*part.Barrier) {
	c.addBarrier(c.eviction.barrier)
	c.addBarrier(c.shortage)
	for _, b := range between {
		c.addBarrier(b)
	}
	c.addBarrier(c.loading)
}

// installKeyspaceHooks makes the keyspace report the keys that it removes by itself.
func (c *Core) installKeyspaceHooks() {
	c.prepareFrames()
	h := &c.space.Hooks
	h.Expired, h.Evicted = c.expired, c.evicted
	h.FieldExpired, h.FieldsExpired = c.fieldExpired, c.fieldsExpired
	h.Ready, h.Gone, h.Whole = c.Ready, c.gone, c.wholly
}

// prepareFrames sets the fields that all contexts of this core have in common.
func (c *Core) prepareFrames() {
	for i := range c.stacks {
		for j := range c.stacks[i].frames {
			ctx := &c.stacks[i].frames[j]
			ctx.Space, ctx.Core, ctx.Settings, ctx.Whole = c.space, c, c.common, c.whole
		}
	}
}

// memoryBarrier makes room before a command runs. If there is no room to make, it refuses commands that may need
// memory.
func (c *Core) memoryBarrier() *part.Barrier {
	return &part.Barrier{Name: "maxmemory", Refuse: func(cl *client.Client, call part.Call) error {
		if c.lent != nil {
			return nil // nothing is evicted, and the lent command's answer stays
		}
		if cl.Is(client.Primary) {
			c.eviction.short = false // its commands are obeyed, even those of its scripts
			return nil
		}
		if c.eviction.short = !c.evict(); !c.eviction.short {
			return nil
		}
		if call.Flags&command.DenyOOM != 0 {
			return protocol.ErrOutOfMemory
		}
		return nil
	}}
}

// shortageBarrier refuses commands that may need memory while the system provides no more. The commands that already
// run need the rest.
func (c *Core) shortageBarrier() *part.Barrier {
	return &part.Barrier{Name: "shortage", Refuse: func(cl *client.Client, call part.Call) error {
		if c.Idle() && !c.space.Heap().Short() {
			c.Raise(c.shortage, false)
			return nil
		}
		if call.Flags&command.DenyOOM != 0 || cl.Is(client.Multi) && !call.Spec.Has(command.LeavesMulti) {
			return protocol.ErrNoMemory
		}
		return nil
	}}
}

func (c *Core) loadingBarrier() *part.Barrier {
	return &part.Barrier{Name: "loading", Refuse: func(cl *client.Client, call part.Call) error {
		if call.Flags&command.Loading != 0 {
			return nil
		}
		invariant.That(!cl.Is(client.Primary), "engine.B1: our primary's stream runs while the data set is loaded")
		return protocol.ErrLoading
	}}
}

// Subscribe adds a feature's listeners to the events of the core. Call it before the first Serve.
func (c *Core) Subscribe(l part.Listeners) {
	e := &c.hooks
	e.Add(l)
	c.meter.manyCodes = e.ManyCodes
	c.space.Hooks.Touched = e.Touched
	c.whole.Emptying, c.whole.Swapping = e.Emptying, e.Swapping
	c.whole.Renewing, c.whole.Emptied = e.Renewing, e.Emptied
}
