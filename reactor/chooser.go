package reactor

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// A chooser chooses the number of loops that serve, once a second. It exists if Options.Most allows more than one.
//
//	busy of each loop, machine, the core's turns ─▶ choice ─▶ active ─▶ place: where new connections go
//	                                                                └▶ giveAway: connections move (move.go)
//
// The other loops sleep in their pollers. A loop whose connections cannot all move serves the rest.
//
// reactor.Q2. Batches are published (away.go) only while more than one loop is active. A loop alone takes the turn
// itself.
type chooser struct {
	reactor *Reactor
	choice  choice
	machine func(now time.Time) (idle, others float64, ok bool)
	beats   <-chan time.Time

	at      time.Time
	busy    []int64 // of each loop at that time
	turns   int64   // Mover.TurnTime at that time
	watches bool    // the machine and the turns were measured at that time

	reason atomic.Pointer[string]
}

// chooserBeat is how often a chooser looks.
const chooserBeat = time.Second

func newChooser(r *Reactor, o *Options) *chooser {
	h := &chooser{reactor: r, choice: choice{most: o.Most, active: 1}, machine: o.measure, beats: o.beats,
		busy: make([]int64, o.Most)}
	if h.machine == nil {
		h.machine = new(machine).measure
	}
	h.say()
	return h
}

// start runs the chooser until the reactor stops.
func (h *chooser) start() {
	if h == nil {
		return
	}
	if h.beats == nil {
		h.beats = time.Tick(chooserBeat)
		if invariant.Enabled {
			go h.disturb()
		}
	}
	h.at = time.Now()
	go func() { // nothing waits for its end, because a beat may wait for a turn
		for {
			select {
			case <-h.reactor.running.Done():
				return
			case now := <-h.beats:
				h.beat(now)
			}
		}
	}()
}

// disturb moves connections all the time, by chance, and changes whether batches are published. Checked builds do so,
// so that tests meet it.
func (h *chooser) disturb() {
	loops := h.reactor.loops
	for h.reactor.running.Err() == nil {
		time.Sleep(rand.N(4 * time.Millisecond))
		l := loops[rand.N(len(loops))]
		to := slices.DeleteFunc(slices.Clone(loops), func(other *loop) bool { return other == l })
		l.post(mail{kind: mailRun, run: func() {
			l.combines = l.combiner != nil && rand.N(2) == 0
			l.giveAway(1+rand.N(8), to)
		}})
	}
}

// beat looks at the time since the last beat, and may change the number of loops.
func (h *chooser) beat(now time.Time) {
	took := now.Sub(h.at)
	if took <= 0 {
		return
	}
	r, c := h.reactor, &h.choice
	var l load
	conns := make([]int, len(r.loops))
	for i, on := range r.loops {
		busy := on.busy.Load()
		l.busy += float64(busy-h.busy[i]) / float64(took)
		h.busy[i] = busy
		conns[i] = int(on.open.Load())
		l.conns += conns[i]
	}
	h.at = now
	if c.active > 1 || l.busy >= growBusy {
		h.watch(&l, now, took)
	} else {
		h.watches = false
	}
	from := c.active
	if c.next(l) {
		r.options.Logf(Notice, "The number of event loops %s", c.reason)
		r.activate(c.active, from)
	}
	h.say()
	h.balance(conns)
}

// watch measures the machine and the turns. After a while without measuring, the first time measures nothing: then the
// machine counts as fully used by this process.
func (h *chooser) watch(l *load, now time.Time, took time.Duration) {
	idle, others, ok := h.machine(now)
	turns := int64(0)
	if mover, is := h.reactor.handler.(protocol.Mover); is {
		turns = mover.TurnTime()
	}
	if h.watches && ok {
		l.idle, l.others = idle, others
		l.turn = max(0, float64(turns-h.turns)/float64(took))
	}
	h.turns, h.watches = turns, true
}

// say publishes the reason.
func (h *chooser) say() {
	reason := h.choice.reason
	if reason == "" {
		reason = "the load has not asked for more so far"
	}
	h.reason.Store(&reason)
}

// balance has loops with too many connections give them to others.
func (h *chooser) balance(conns []int) {
	spare, takers := spares(conns, h.choice.active)
	for i, n := range spare {
		if n == 0 {
			continue
		}
		var to []*loop
		for _, taker := range takers {
			if taker != i {
				to = append(to, h.reactor.loops[taker])
			}
		}
		l := h.reactor.loops[i]
		l.post(mail{kind: mailRun, run: func() { l.giveAway(n, to) }})
	}
}

// activate makes the first n loops serve, of which from served so far.
func (r *Reactor) activate(n, from int) {
	if n > from && r.options.Active != nil {
		r.options.Active(n) // their threads come first
	}
	r.active.Store(int32(n))
	for i, l := range r.loops {
		l.post(mail{kind: mailRun, run: func() { l.sleeps, l.combines = i >= n, l.combiner != nil && n > 1 }})
	}
	if n < from && r.options.Active != nil {
		r.options.Active(n)
	}
}

// LoopChoice describes the number of loops: how many serve, whether io-threads sets the number, and why it is what it
// is.
func (r *Reactor) LoopChoice() (n int, set bool, why string) {
	switch {
	case r.chooser != nil:
		return int(r.active.Load()), false, *r.chooser.reason.Load()
	case r.options.Most == 0:
		return r.options.Loops, true, "io-threads is set"
	case r.options.Backend == Netpoll:
		return 1, false, "netpoll has a goroutine for each connection that is ready"
	}
	return 1, false, "this process may use one CPU"
}
