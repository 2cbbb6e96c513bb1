// Package simnet is a clock and a network in one goroutine. All events depend only on a seed and on the calls, so that
// a failure can be replayed exactly.
//
// Owner: one test at a time.
// Never: reads a real clock, starts a goroutine, or uses other random numbers.
// Start at Net; conn.go has the connections.
package simnet

import (
	"container/heap"
	"math/rand/v2"
)

// A Net holds hosts, their connections, and pending events.
//
// simnet.N1. Events happen in the order of their times; events with equal times happen in the order of their requests.
// simnet.N2. Messages from one end of a connection arrive in order, or not at all.
// simnet.N3. On a host that is down nothing happens, and its events are lost. Events of a paused host happen when it
// resumes.
type Net struct {
	Rand *rand.Rand

	now    int64
	events queue
	asked  uint64
	hosts  []*Host
	cut    map[[2]*Host]bool
}

// New returns a network without hosts, at the time startMs.
func New(seed uint64, startMs int64) *Net {
	return &Net{Rand: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)), now: startMs, cut: map[[2]*Host]bool{}}
}

// Now returns the time in Unix ms.
func (n *Net) Now() int64 { return n.now }

// A Host is one machine.
type Host struct {
	Name  string
	LagMs int64 // additional delay of messages to and from the host

	net       *Net
	down      bool
	paused    bool
	life      int // how often it has booted
	waiting   []func()
	listeners map[int]func(*Conn)
	conns     []*Conn
}

// Host adds a host and returns it. The host is up.
func (n *Net) Host(name string) *Host {
	h := &Host{Name: name, net: n, listeners: map[int]func(*Conn){}}
	n.hosts = append(n.hosts, h)
	return h
}

// Hosts returns all hosts, in the order in which they were added.
func (n *Net) Hosts() []*Host { return n.hosts }

// find returns the host with a name.
func (n *Net) find(name string) *Host {
	for _, h := range n.hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// Up reports whether the host runs, paused or not.
func (h *Host) Up() bool { return !h.down }

// Paused reports whether the host is paused.
func (h *Host) Paused() bool { return h.paused }

// After runs f on the host after ms milliseconds, unless the host has crashed by then.
func (h *Host) After(ms int64, f func()) {
	life := h.life
	h.net.After(ms, func() { h.do(life, f) })
}

// do runs f on the host, now or when it resumes.
func (h *Host) do(life int, f func()) {
	switch {
	case h.down || h.life != life:
	case h.paused:
		h.waiting = append(h.waiting, func() { h.do(life, f) })
	default:
		f()
	}
}

// Crash takes the host down. Reachable peers see their connections close.
func (h *Host) Crash() {
	if h.down {
		return
	}
	h.down, h.paused, h.waiting = true, false, nil
	h.listeners = map[int]func(*Conn){}
	for _, c := range h.conns {
		c.abandon()
	}
	h.conns = nil
}

// Boot starts a host that is down. It then has no listeners and no timers.
func (h *Host) Boot() {
	if h.down {
		h.down = false
		h.life++
	}
}

// Pause suspends the host. Its connections stay open.
func (h *Host) Pause() {
	if !h.down {
		h.paused = true
	}
}

// Resume continues the host and runs the events of the pause.
func (h *Host) Resume() {
	if !h.paused {
		return
	}
	h.paused = false
	waiting := h.waiting
	h.waiting = nil
	for _, f := range waiting {
		f()
	}
}

// Listen makes the host accept connections on a port.
func (h *Host) Listen(port int, accept func(*Conn)) { h.listeners[port] = accept }

// After runs f after ms milliseconds.
func (n *Net) After(ms int64, f func()) {
	n.asked++
	heap.Push(&n.events, &event{n.now + max(ms, 0), n.asked, f})
}

// Cut separates two hosts if on is true, and otherwise ends the separation. Messages sent meanwhile arrive when it
// ends.
func (n *Net) Cut(a, b *Host, on bool) {
	if on {
		n.cut[[2]*Host{a, b}], n.cut[[2]*Host{b, a}] = true, true
		return
	}
	delete(n.cut, [2]*Host{a, b})
	delete(n.cut, [2]*Host{b, a})
	for _, h := range []*Host{a, b} {
		for _, c := range h.conns {
			c.flush()
		}
	}
}

// Heal ends all cuts.
func (n *Net) Heal() {
	clear(n.cut)
	for _, h := range n.hosts {
		for _, c := range h.conns {
			c.flush()
		}
	}
}

// Reaches reports whether a's messages reach b.
func (n *Net) Reaches(a, b *Host) bool { return !n.cut[[2]*Host{a, b}] }

// Run runs all events up to the time untilMs.
func (n *Net) Run(untilMs int64) {
	for len(n.events) > 0 && n.events[0].at <= untilMs {
		e := heap.Pop(&n.events).(*event)
		n.now = e.at
		e.do()
	}
	n.now = max(n.now, untilMs)
}

// latency returns the delay of one message.
func (n *Net) latency() int64 {
	if n.Rand.IntN(50) == 0 {
		return 1 + n.Rand.Int64N(200)
	}
	return 1 + n.Rand.Int64N(5)
}

type event struct {
	at  int64
	seq uint64
	do  func()
}

type queue []*event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
