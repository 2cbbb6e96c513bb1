package reactor

import (
	"sync"

	"spindle/reactor/gnet"
)

// The gnet backend lets gnet's poller wait and report which sockets are ready. This package accepts, reads and writes
// itself, as with epoll.
//
// reactor/gnet/DESIGN.md describes which parts of gnet are used, and how a loop learns that an iteration is over.
type gnetBackend struct {
	reactor *Reactor
	hosts   []*gnetHost
	running sync.WaitGroup
}

// A gnetHost is one loop.
type gnetHost struct {
	sockets
	events *gnet.Loop
	gather gnet.Gather
	door   door
}

func (b *gnetBackend) start(r *Reactor) error {
	b.reactor = r
	gnet.LogTo(func(format string, args ...any) { r.options.Logf(Verbose, format, args...) })
	r.makeLoops(r.threads())
	for _, l := range r.loops {
		events, err := gnet.New()
		if err != nil {
			return err
		}
		h := &gnetHost{events: events, sockets: newSockets(l, events)}
		l.host = h
		b.hosts = append(b.hosts, h)
	}
	for _, h := range b.hosts {
		b.running.Go(func() { h.events.Run(h.ready, h.heard) })
	}
	return nil
}

// accept makes the first loop accept. It gives connections to all loops.
func (b *gnetBackend) accept(a *acceptor) error {
	h := b.hosts[0]
	h.door.leads.Store(a)
	return h.events.Watch(a.poll)
}

func (b *gnetBackend) adopt(c *conn) { admitted(c) }

func (b *gnetBackend) each(f func(*loop)) { b.reactor.eachShared(f) }

func (b *gnetBackend) stop() {
	for _, h := range b.hosts {
		h.loop.end()
		h.events.Stop()
	}
	b.running.Wait()
}

// ready handles one event. The loop's turn follows at once, or after the other events of the iteration.
func (h *gnetHost) ready(fd int, events uint32) {
	l := h.loop
	if h.door.knocked(fd) {
		l.notify() // heard accepts
	} else {
		h.event(fd, events)
	}
	now := l.nowMs
	l.relieve()
	switch {
	case !l.pendingTurn():
		l.endIteration()
	case l.armed.Load():
		h.gather.Wait()
		_, now = l.wall.Now() // nowMs is from the iteration's beginning
	case len(l.ready) == 0 && h.gather.TurnNow(len(l.conns) == 1): // others have one place in an iteration
		l.turn()
	}
	h.ends(now)
}

// ends must come at the end of each call from the poller, which may sleep afterwards.
func (h *gnetHost) ends(now int64) {
	l := h.loop
	for len(l.away) > 0 && !l.rest() { // reactor.Y3
		l.turn()
	}
	if l.pendingTurn() {
		l.notify()
	}
	h.events.Yield(now)
}

// heard handles the bell: the end of an iteration that gathered, or mail.
func (h *gnetHost) heard() {
	l, now := h.loop, h.loop.nowMs
	l.armed.Store(false)
	h.gather.Heard()
	l.turn()
	h.door.answer(l)
	h.ends(now)
}

func (h *gnetHost) wake() { h.events.Ring() }
