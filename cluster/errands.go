package cluster

import (
	"sync"
	"sync/atomic"

	"spindle/cluster/bus"
	"spindle/cluster/state"
)

// errands are what the core is asked for, in order: a change of role, a pause, a slot map. A goroutine carries them out
// in turns, so that the bus waits for none. A CLUSTER command carries them out in its own turn. All of them wait for
// the end of an open unit (R6): they announce an offset, or change what the unit's effects go to.
type errands struct {
	mu     sync.Mutex
	more   sync.Cond
	list   []errand
	maps   int // of list
	closed bool
}

type errand struct {
	run   func() // in a turn
	isMap bool   // it puts a slot map in force
}

func (e *errands) init() { e.more.L = &e.mu }

func (e *errands) add(all ...errand) {
	if len(all) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, what := range all {
		if what.isMap {
			e.maps++
		}
	}
	e.list = append(e.list, all...)
	e.more.Signal()
}

// hasMaps says that a slot map waits for its turn.
func (e *errands) hasMaps() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.maps > 0
}

func (e *errands) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.more.Broadcast()
}

// run carries out what there is. Between only.
func (e *errands) run() {
	for {
		e.mu.Lock()
		if len(e.list) == 0 {
			e.list = nil
			e.mu.Unlock()
			return
		}
		what := e.list[0]
		e.list = e.list[1:]
		e.mu.Unlock()
		what.run()
		if what.isMap {
			e.mu.Lock()
			e.maps--
			e.mu.Unlock()
		}
	}
}

// wait waits for an errand; false: no more come.
func (e *errands) wait() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.list) == 0 && !e.closed {
		e.more.Wait()
	}
	return !e.closed
}

// runErrands is the goroutine that carries errands to the core.
func (c *Cluster) runErrands() {
	defer c.stopped.Done()
	for c.errands.wait() && c.parts.DoBetween(c.errands.run) {
	}
}

func (c *Cluster) ask(what errand) { c.asked = append(c.asked, what) }

// Ask implements state.Outside.
func (o outside) Ask(e state.Errand) {
	c, role := o.Cluster, o.parts.Role
	switch e.Kind {
	case state.Follow:
		c.ask(errand{run: func() { role.Follow(e.Host, e.Port) }})
	case state.Promote:
		c.ask(errand{run: role.Promote})
	case state.Empty:
		c.ask(errand{run: role.Empty})
	case state.Unpause:
		c.ask(errand{run: role.Unpause})
	case state.Pause:
		c.ask(errand{run: func() {
			role.Pause(e.UntilMs)
			c.with(func(s *state.State) { s.Paused() })
		}})
	case state.Drop:
		c.after = append(c.after, func() { c.parts.Keys.Drop(e.Slots) })
	case state.Deliver:
		c.parts.Messages.Deliver(e.Channel, e.Payload, e.Shard)
	}
}

// publications are messages of this node's clients on their way to other nodes.
//
// They leave when the turn or unit that published them is over, and when the gate lets that turn pass. So within a turn
// their memory only grows: clients read it in INFO.
type publications struct {
	turn []publication // of this turn or unit: its holder's

	mu   sync.Mutex
	list []publication // for run, in the order of their turns
	held atomic.Bool   // the gate holds some of list back: its opening wakes run
}

type publication struct {
	channel, payload []byte
	shard            bool
	turn             uint64 // for the gate
}

// bytes is what a publication costs until it is queued for its links.
func (p *publication) bytes() int64 {
	return int64(bus.HeaderBytes + messageBytes + len(p.channel) + len(p.payload))
}

// Publish implements slots.Bus.
func (c *Cluster) Publish(channel, message []byte, shard bool) {
	if c.peers.Load() == 0 {
		return
	}
	both := append(append(make([]byte, 0, len(channel)+len(message)), channel...), message...)
	one := publication{channel: both[:len(channel):len(channel)], payload: both[len(channel):], shard: shard}
	c.memory.Add(one.bytes())
	p := &c.published
	if p.turn = append(p.turn, one); len(p.turn) == 1 {
		c.parts.AtUnitEnd(c.handOver)
	}
}

// handOver leaves what this turn published to run. Turn only.
func (c *Cluster) handOver() {
	p := &c.published
	for i := range p.turn {
		p.turn[i].turn = c.parts.Turn()
	}
	p.mu.Lock()
	p.list = append(p.list, p.turn...)
	p.mu.Unlock()
	clear(p.turn)
	p.turn = p.turn[:0]
	c.poke()
}

// sendPublished sends what clients have published, as far as the gate lets it pass.
func (c *Cluster) sendPublished(s *state.State) {
	p := &c.published
	p.mu.Lock()
	p.held.Store(true) // before the gate is asked: it may open in between
	n := 0
	for n < len(p.list) && !c.parts.Gate.Holds(p.list[n].turn) {
		n++
	}
	p.held.Store(n < len(p.list))
	list := p.list[:n:n]
	if p.list = p.list[n:]; len(p.list) == 0 {
		p.list = nil
	}
	p.mu.Unlock()
	for i := range list {
		one := &list[i]
		s.Publish(one.channel, one.payload, one.shard)
		c.memory.Add(-one.bytes())
	}
}
