package simulate

import (
	"slices"
)

// Costs has the costs of a batch in nanoseconds. A batch is the requests that a client sends at once.
type Costs struct {
	Before, BeforeEach Nanos // before the turn: per batch, and per request
	After, AfterEach   Nanos // after the turn, until the reply is in the socket
	Turn, TurnEach     Nanos // inside the turn
	Several            Nanos // after the turn, per batch, if there are several loops: their threads share caches
	Moved              Nanos // inside the turn, if another loop had the turn before: the core's data is in its cache
	Foreign            Nanos // inside the turn, for a batch of another loop: its bytes are in the other cache
	Publish            Nanos // publishing a batch, because the turn is taken
	Ring               Nanos // waking a loop that sleeps
	Client, ClientEach Nanos // costs of the load generator
	Iteration          Nanos // asking the kernel once for all sockets that have requests
	Switch             Nanos // a thread that gets a core, after another thread or after its own sleep
}

// A Run is the setting of a simulation.
type Run struct {
	Costs
	Cores     int
	Loops     int
	Loads     int  // threads of the load generator
	Apart     bool // the load generator has its own cores
	Clients   int
	Pipeline  int
	Slice     Nanos // of the kernel's scheduler
	Wakeup    Nanos
	Balance   Nanos   // how long a core is idle before it takes a thread that waits for another core
	Share     float64 // the part of the time in which the machine runs its threads; 0: all of it
	Watch     Nanos   // how long a loop watches its published batch before it continues
	Alone     bool    // loops wait for the turn, and run no batches of others
	Time, Pre Nanos   // the simulated time, and the time before it that is left out
}

// A Result has the figures of a simulated Run.
type Result struct {
	PerSecond      float64 // requests
	Median, P99    Nanos   // of a batch, from its sending to its reply
	CPU            Nanos   // the CPU time of the loops per request
	Combined, Busy float64 // the share of batches that another loop ran; the share of time in which the turn was held
}

// Play simulates a run.
func (r Run) Play() Result {
	if r.Share == 0 {
		r.Share = 1
	}
	of := func(cores int) *machine {
		m := newMachine(cores)
		m.slice, m.wakeup, m.change, m.balance, m.share = r.Slice, r.Wakeup, r.Switch, r.Balance, r.Share
		return m
	}
	s := &server{Run: r, machine: of(r.Cores), load: of(r.Loads)}
	if !r.Apart {
		s.load = s.machine
	}
	for i := range r.Loops {
		l := &loop{s: s, id: i}
		s.loops = append(s.loops, l)
	}
	for i := range r.Loads {
		s.loads = append(s.loads, &generator{s: s, clients: r.Clients/r.Loads + btoi(i < r.Clients%r.Loads)})
	}
	next := 0
	for _, g := range s.loads {
		for range g.clients {
			g.replies = append(g.replies, &client{g: g, loop: s.loops[next%r.Loops], sent: -1})
			next++
		}
		g.thread = s.load.start(g.run)
	}
	for _, l := range s.loops {
		l.thread = s.machine.start(l.run)
	}
	s.play(r.Pre)
	before := s.cpu()
	s.counts = true
	s.held = 0
	s.play(r.Pre + r.Time)
	requests := Nanos(len(s.times) * r.Pipeline)
	result := Result{PerSecond: float64(requests) / float64(r.Time) * 1e9, Busy: float64(s.held) / float64(r.Time)}
	if requests > 0 {
		result.CPU = (s.cpu() - before) / requests
		result.Combined = float64(s.combined) / float64(len(s.times))
		slices.Sort(s.times)
		result.Median, result.P99 = s.times[len(s.times)/2], s.times[len(s.times)*99/100]
	}
	for _, l := range s.loops {
		l.thread.stop()
	}
	for _, g := range s.loads {
		g.thread.stop()
	}
	return result
}

func btoi(is bool) int {
	if is {
		return 1
	}
	return 0
}

// A server has the loops, their turn, and the load generator.
type server struct {
	Run
	machine, load *machine
	loops         []*loop
	loads         []*generator

	holder    *loop // nil if the turn is free
	last      *loop // the loop that held the turn last
	queue     []*loop
	published int

	counts   bool
	times    []Nanos
	combined int
	held     Nanos
	took     Nanos
}

// play runs both machines up to a time, in step.
func (s *server) play(until Nanos) {
	for s.load != s.machine {
		next := until
		for _, m := range []*machine{s.machine, s.load} {
			if len(m.events) > 0 {
				next = min(next, m.events[0].when)
			}
		}
		s.machine.run(next)
		s.load.run(next)
		if next == until {
			return
		}
	}
	s.machine.run(until)
}

func (s *server) cpu() (sum Nanos) {
	for _, l := range s.loops {
		sum += l.thread.cpu
	}
	return sum
}

// A client has one batch under way at a time.
type client struct {
	g    *generator
	loop *loop
	sent Nanos
}

// A generator is a thread of the load generator.
type generator struct {
	s       *server
	thread  *thread
	clients int
	replies []*client // clients that have a reply, or that begin
}

func (g *generator) run(work func(Nanos), sleep func()) {
	s := g.s
	for {
		for len(g.replies) > 0 {
			c := g.replies[0]
			g.replies = g.replies[1:]
			work(s.Client + s.ClientEach*Nanos(s.Pipeline))
			c.sent = s.load.now
			c.loop.ready = append(c.loop.ready, c)
			s.machine.wake(c.loop.thread)
		}
		sleep()
	}
}

// A loop is one event loop of the simulated server.
type loop struct {
	s      *server
	id     int
	thread *thread
	ready  []*client // clients with requests in the socket
	events int       // the number of ready that the kernel has reported and the loop has not served
	out    []*client // clients whose batches are published
	back   []*client // clients whose batches have come back
	away   int       // the number of published batches that were not taken from back
	rests  bool
}

func (l *loop) run(work func(Nanos), sleep func()) {
	s := l.s
	for {
		switch {
		case len(l.back) > 0:
			c := l.back[0]
			l.back = l.back[1:]
			l.away--
			l.reply(c, work)
		case len(l.ready) > 0:
			if l.events == 0 {
				work(s.Iteration)
				l.events = len(l.ready)
			}
			c := l.ready[0]
			l.ready = l.ready[1:]
			l.events--
			work(s.Before + s.BeforeEach*Nanos(s.Pipeline))
			l.offer(c, work, sleep)
		default:
			if l.rests = true; l.away > 0 {
				l.help(work)
				if len(l.back) > 0 {
					l.rests = false
					continue
				}
			}
			sleep()
			l.rests = false
		}
	}
}

// offer runs a client's batch, or publishes it if the turn is taken.
func (l *loop) offer(c *client, work func(Nanos), sleep func()) {
	s := l.s
	if s.holder == nil {
		s.take(l, work)
		s.batch(work, 0)
		s.combine(l, work)
		l.reply(c, work)
		return
	}
	if s.Alone {
		for s.queue = append(s.queue, l); s.holder != l; {
			sleep()
		}
		s.moved(l, work)
		s.batch(work, 0)
		s.release(l, work)
		l.reply(c, work)
		return
	}
	work(s.Publish)
	l.out = append(l.out, c)
	l.away++
	s.published++
	l.help(work)
	if len(l.back) == 0 {
		work(s.Watch)
	}
}

func (l *loop) help(work func(Nanos)) {
	if s := l.s; s.published > 0 && s.holder == nil {
		s.take(l, work)
		s.combine(l, work)
	}
}

func (l *loop) reply(c *client, work func(Nanos)) {
	s := l.s
	after := s.After + s.AfterEach*Nanos(s.Pipeline)
	if len(s.loops) > 1 {
		after += s.Several
	}
	work(after)
	if s.counts {
		s.times = append(s.times, s.machine.now-c.sent)
	}
	c.g.replies = append(c.g.replies, c)
	s.load.wake(c.g.thread)
}

func (s *server) take(l *loop, work func(Nanos)) {
	s.holder, s.took = l, s.machine.now
	s.moved(l, work)
}

// moved adds the cost of the core's data if another loop has used it last.
func (s *server) moved(l *loop, work func(Nanos)) {
	if s.last != l {
		s.last = l
		work(s.Moved)
	}
}

// batch runs one batch during the turn.
func (s *server) batch(work func(Nanos), foreign Nanos) {
	work(s.Turn + s.TurnEach*Nanos(s.Pipeline) + foreign)
}

// mostCombining is how long a loop runs batches of others before it serves its own sockets: turnTime of the core.
const mostCombining = Nanos(2e6)

// combine runs the published batches, and releases the turn.
func (s *server) combine(l *loop, work func(Nanos)) {
	ends := s.machine.now + mostCombining
	for first := 0; s.published > 0 && s.machine.now < ends; first++ {
		for i := range s.loops {
			other := s.loops[(first+i)%len(s.loops)]
			out := other.out
			other.out = nil
			for _, c := range out {
				s.published--
				foreign := Nanos(0)
				if other != l {
					foreign = s.Foreign
					if s.counts {
						s.combined++
					}
				}
				s.batch(work, foreign)
				other.back = append(other.back, c)
			}
			if len(out) > 0 {
				s.ring(other, work)
			}
		}
	}
	s.release(l, work)
	for _, other := range s.loops {
		if len(other.out) > 0 {
			s.ring(other, work)
		}
	}
}

// ring wakes a sleeping loop.
func (s *server) ring(l *loop, work func(Nanos)) {
	if l.rests {
		l.rests = false
		work(s.Ring)
		s.machine.wake(l.thread)
	}
}

// release releases the turn. Loops that wait for the turn get it in the order of their arrival.
func (s *server) release(l *loop, work func(Nanos)) {
	s.held += s.machine.now - s.took
	if s.holder = nil; len(s.queue) == 0 {
		return
	}
	next := s.queue[0]
	s.queue = s.queue[1:]
	s.holder, s.took = next, s.machine.now
	work(s.Ring)
	s.machine.wake(next.thread)
}
