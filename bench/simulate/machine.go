// Package simulate predicts how several loops of a server would perform on a machine with other cores.
//
// It simulates the combining turn of engine/combine.go with given costs on given cores, together with closed-loop
// clients. bench/results/simulate.md compares it with runs, and says what it cannot know.
// Owner: the caller; one goroutine runs everything.
// Never: measures anything.
// Start at loops.go, which has the server; machine.go has the cores and the threads.
package simulate

import (
	"container/heap"
	"iter"
)

// Nanos is a time or a duration of the simulation, in nanoseconds.
type Nanos int64

// A machine is a set of cores. Each core has a queue, and runs one thread at a time. A thread that has used up its
// slice is queued after the waiting threads, as with a fair scheduler and equal weights.
//
// A woken thread gets an idle core, or else waits for the core that it had last. A core takes a thread out of another
// core's queue only after it has been idle for a while (balance). So a core may be idle while a thread waits, as under
// Linux.
type machine struct {
	now     Nanos
	slice   Nanos   // how long a thread keeps its core while others wait
	wakeup  Nanos   // from a wake to the first instruction, on a free core
	change  Nanos   // the cost of a core's change of threads
	balance Nanos   // how long a core is idle before it takes a thread from another core
	share   float64 // the part of the time in which the cores run
	cores   []*core
	events  events
	order   uint64
}

// A core runs one thread at a time.
type core struct {
	busy    bool
	idle    int // counts the beginnings of idle times
	waiting []*thread
}

func newMachine(cores int) *machine {
	m := &machine{share: 1}
	for range cores {
		m.cores = append(m.cores, &core{})
	}
	return m
}

// A thread is a coroutine of the simulation. Its program yields the duration of its next work. 0 means that it sleeps.
type thread struct {
	next  func() (Nanos, bool)
	stop  func()
	left  Nanos // the rest of the current work
	since Nanos // when it got its core
	core  *core // its core, or the last one
	cpu   Nanos
	state threadState
	woken bool // the thread was woken during work, so it does not sleep next
}

type threadState int8

const (
	asleep threadState = iota
	queued
	running
)

// start adds a thread. program calls work for each piece of work, and sleep to wait until it is woken.
func (m *machine) start(program func(work func(Nanos), sleep func())) *thread {
	t := &thread{}
	t.next, t.stop = iter.Pull(func(yield func(Nanos) bool) {
		type over struct{}
		defer func() {
			if r := recover(); r != nil {
				if _, is := r.(over); !is {
					panic(r)
				}
			}
		}()
		give := func(n Nanos) {
			if !yield(n) {
				panic(over{})
			}
		}
		program(func(n Nanos) {
			if n > 0 {
				give(n)
			}
		}, func() { give(0) })
	})
	m.wake(t)
	return t
}

// wake ends the sleep of a thread. If the thread is not asleep, its next sleep ends at once.
func (m *machine) wake(t *thread) {
	if t.state != asleep {
		t.woken = true
		return
	}
	t.state = queued
	if t.core == nil {
		t.core = m.cores[0]
	}
	if c := m.idleCore(t.core); c != nil {
		c.busy, t.core = true, c
		m.at(m.now+m.wakeup, func() { m.begin(t) })
		return
	}
	t.core.waiting = append(t.core.waiting, t)
}

// idleCore returns an idle core, preferably last, or nil.
func (m *machine) idleCore(last *core) *core {
	if !last.busy {
		return last
	}
	for _, c := range m.cores {
		if !c.busy {
			return c
		}
	}
	return nil
}

// begin makes t run on a core.
func (m *machine) begin(t *thread) {
	t.state, t.since = running, m.now
	t.left += m.change
	m.work(t)
}

// work runs t until its work or its slice ends.
func (m *machine) work(t *thread) {
	for t.left == 0 {
		n, more := t.next()
		if more && n > 0 {
			t.left = n
			break
		}
		if more && t.woken {
			t.woken = false
			continue
		}
		t.state = asleep
		m.leave(t.core)
		return
	}
	n := t.left
	if left := t.since + m.slice - m.now; left < n {
		n = max(left, 0)
	}
	m.at(m.now+Nanos(float64(n)/m.share), func() {
		t.left -= n
		t.cpu += n
		if m.now-t.since >= m.slice {
			if c := t.core; len(c.waiting) > 0 {
				t.state = queued
				c.waiting = append(c.waiting, t)
				m.leave(c)
				return
			}
			t.since = m.now
		}
		m.work(t)
	})
}

// leave gives the core to the thread that has waited for it longest. Without one the core is idle.
func (m *machine) leave(c *core) {
	if t := c.first(); t != nil {
		m.begin(t)
		return
	}
	c.busy = false
	c.idle++
	began := c.idle
	m.at(m.now+m.balance, func() {
		if c.busy || c.idle != began {
			return
		}
		for _, other := range m.cores {
			if t := other.first(); t != nil {
				c.busy, t.core = true, c
				m.begin(t)
				return
			}
		}
	})
}

// first takes the first thread out of the core's queue. It returns nil if none waits.
func (c *core) first() *thread {
	if len(c.waiting) == 0 {
		return nil
	}
	t := c.waiting[0]
	c.waiting = c.waiting[1:]
	return t
}

// at schedules f for a time.
func (m *machine) at(when Nanos, f func()) {
	m.order++
	heap.Push(&m.events, event{when, m.order, f})
}

// run runs all events up to a time.
func (m *machine) run(until Nanos) {
	for len(m.events) > 0 && m.events[0].when <= until {
		e := heap.Pop(&m.events).(event)
		m.now = e.when
		e.f()
	}
	m.now = until
}

type event struct {
	when  Nanos
	order uint64 // events of the same time happen in the order of their creation
	f     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].when != e[j].when {
		return e[i].when < e[j].when
	}
	return e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}
