package cluster

import (
	"sync"
	"sync/atomic"

	"spindle/cluster/bus"
	"spindle/cluster/state"
)

// errands are requests to the core, in order: a change of role, a pause, a slot map. A goroutine runs them in turns, so
// that the bus does not wait. A CLUSTER command runs them in its own turn. All errands wait for the end of an open unit
// (R6), because they read the offset, or change where the unit's effects go.
type errands struct {
	mu     sync.Mutex
	more   sync.Cond
	list   []errand
	maps   int // slot maps in list
	closed bool
}

type errand struct {
	run   func() // called in a turn
	isMap bool   // it publishes a slot map
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

// hasMaps reports whether a slot map waits for its turn.
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

// run runs all waiting errands. Between only.
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

// wait waits for an errand. It returns false if no more will come.
func (e *errands) wait() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.list) == 0 && !e.closed {
		e.more.Wait()
	}
	return !e.closed
}

// runErrands is the goroutine that runs errands in turns.
func (c *Cluster) runErrands() {
	defer c.stopped.Done()
	for c.errands.wait() && c.parts.DoBetween(c.errands.run) {
	}
}

func (c *Cluster) ask(what errand) { c.asked = append(c.asked, what) }

func (o outside) Ask(e state.Errand) {
	c, role := o.Cluster, o.parts.Role
	switch e.Kind {
	case state.Follow:
		c.ask(errand{run: func() { role.Follow(e.Host, e.Port, e.Same) }})
	case state.Promote:
		c.ask(errand{run: func() {
			role.Promote()
			c.with(func(s *state.State) { s.Promoted() })
		}})
	case state.Withhold:
		c.ask(errand{run: role.Withhold})
	case state.Lead:
		c.ask(errand{run: func() {
			role.Lead(e.Offset)
			c.with(func(s *state.State) { s.Led() })
		}})
	case state.Empty:
		c.ask(errand{run: role.Empty})
	case state.Unpause:
		c.ask(errand{run: role.Unpause})
	case state.Pause:
		c.ask(errand{run: func() {
			if role.Pause(e.UntilMs) {
				c.with(func(s *state.State) { s.Paused() })
			} else {
				c.log.Notice("The manual failover does not begin: slots are being handed over.")
				c.with(func(s *state.State) { s.NotPaused() })
			}
		}})
	case state.Drop:
		drop := errand{run: func() { c.parts.Keys.Drop(e.Slots, c.isLeftover) }} // after a change of role, and its map
		c.after = append(c.after, func() { c.errands.add(drop) })
	case state.Taken:
		done := errand{run: e.Done} // after the map
		c.after = append(c.after, func() { c.errands.add(done) })
	case state.Deliver:
		c.parts.Messages.Deliver(e.Channel, e.Payload, e.Shard)
	}
}

// isLeftover reports whether a slot's keys are still to be removed. An operator may bring the slot back meanwhile.
func (c *Cluster) isLeftover(slot uint16) (is bool) {
	c.look(func(s *state.State) { is = s.Leftover(int(slot)) })
	return is
}

// publications are this node's published messages for other nodes.
//
// A message is sent when the turn or unit that published it has ended and the gate has opened for that turn. So the
// memory of publications, which INFO shows, only grows within a turn.
type publications struct {
	turn []publication // of the current turn or unit; only the turn uses it

	mu   sync.Mutex
	list []publication // for run, in the order of their turns
	held atomic.Bool   // the gate delays some of list; when it opens, it wakes run
}

type publication struct {
	channel, payload []byte
	shard            bool
	turn             uint64 // for the gate
}

// bytes returns the memory of a publication while it waits to be queued on links.
func (p *publication) bytes() int64 {
	return int64(bus.HeaderBytes + messageBytes + len(p.channel) + len(p.payload))
}

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

// handOver passes this turn's publications to run. Turn only.
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

// sendPublished sends the publications for whose turns the gate is open.
func (c *Cluster) sendPublished(s *state.State) {
	p := &c.published
	p.mu.Lock()
	p.held.Store(true) // set before asking the gate, which may open in between
	n := 0
	for n < len(p.list) && !c.parts.Gate.HoldsAt(p.list[n].turn, c.parts.Gate.CommonLevel()) {
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
