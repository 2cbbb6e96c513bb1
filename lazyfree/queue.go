// Package lazyfree runs the reclaimers: goroutines that free, beside the core, what the core has let go.
//
// Owner: its own goroutines run jobs; the core offers them, once per turn, and never waits (R5).
// Elsewhere: figures and Pause may be asked by any goroutine.
// Never: knows what a job frees. A job is a function and a budget; memory and keyspace make them.
// Start here; reclaimer.go runs the jobs, pace.go says how fast.
package lazyfree

import (
	"sync"
	"sync/atomic"
)

// A Job frees about budget blocks and says whether all is freed. It is called again until it is, by one goroutine
// at a time, not always the same one.
type Job = func(budget int) (done bool)

// Options shape a queue; the zero value is good.
type Options struct {
	Reclaimers int // goroutines; default 1
	Length     int // jobs that may wait; default 64
	Slice      int // budget of one call of a job; default 2048, some 100 µs
}

// A Queue is a bounded line of jobs before the reclaimers.
//
//	turn ──Turn(take)──▶ [ job | job | … ] ──▶ reclaimer: slice, rest, slice, …
//	          └ full: kept as spill, freed by the turn itself, Overflow blocks at a time, until there is room
//
// lazyfree.Q1. Jobs start in the order they were offered; a job runs on one goroutine at a time. A long one lets those
// that wait go ahead every Stint slices, so that a small job does not wait for a large one to end.
// lazyfree.Q2. At most Length jobs wait, and one spills. While one spills no other is taken, so that the producer slows
// by small steps.
// lazyfree.Q3. After Close no job runs; those that wait are dropped.
type Queue struct {
	options Options
	pace    pace
	figures counters
	spill   item // the turn's: did not fit

	mu      sync.Mutex
	ready   sync.Cond // a job waits, or closed, or a pause has ended
	waiting []item    // a ring of Options.Length
	first   int
	n       int
	running int
	paused  bool
	closed  bool
	ended   sync.WaitGroup
}

type item struct{ job Job }

type counters struct {
	jobs, slices, spilled, turnSlices atomic.Int64
	busyNs                            atomic.Int64
}

// Overflow is the budget a turn spends on a job that found the queue full: some 10 µs.
const Overflow = 128

// Stint is how many slices of a job run before the next one has its turn.
const Stint = 8

// New starts the reclaimers.
func New(o Options) *Queue {
	if o.Reclaimers <= 0 {
		o.Reclaimers = 1
	}
	if o.Length <= 0 {
		o.Length = 64
	}
	if o.Slice <= 0 {
		o.Slice = 2048
	}
	q := &Queue{options: o, waiting: make([]item, o.Length)}
	q.ready.L = &q.mu
	q.ended.Add(o.Reclaimers)
	for range o.Reclaimers {
		go q.reclaim()
	}
	return q
}

// Offer hands over a job. False: the queue is full or closed, and the job stays the caller's. Any goroutine.
func (q *Queue) Offer(job Job) bool {
	q.mu.Lock()
	if q.closed || q.n == len(q.waiting) {
		q.mu.Unlock()
		return false
	}
	q.waiting[(q.first+q.n)%len(q.waiting)] = item{job}
	q.n++
	q.mu.Unlock()
	q.ready.Signal()
	return true
}

// Full says that a job offered now would spill, and be done by the turn. Only turns offer, so that what is not full for
// a turn stays so.
func (q *Queue) Full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed || q.n == len(q.waiting)
}

// Turn moves work from the core to the reclaimers: it calls take until that gives nil, a few times at most. When the
// queue is full it frees a small slice itself instead. The core calls it with its duties, about once a millisecond.
func (q *Queue) Turn(take func() Job) {
	q.pace.turn()
	if q.spill.job != nil && !q.unspill() {
		return
	}
	for range 4 {
		job := take()
		if job == nil {
			return
		}
		if !q.Offer(job) {
			q.spill = item{job}
			q.figures.spilled.Add(1)
			return
		}
	}
}

// unspill gets rid of the job that did not fit, or frees a slice of it; false says that it is still there.
func (q *Queue) unspill() bool {
	if q.Offer(q.spill.job) {
		q.spill = item{}
		return true
	}
	q.figures.turnSlices.Add(1)
	if q.spill.job(Overflow) {
		q.figures.jobs.Add(1)
		q.spill = item{}
		return true
	}
	return false
}

// Stats are a queue's figures.
type Stats struct {
	Jobs       int64 // done
	Waiting    int   // jobs in the queue
	Running    int
	Slices     int64 // calls of jobs by reclaimers
	BusyNs     int64 // time in them
	Spilled    int64 // jobs that found the queue full
	TurnSlices int64 // slices that turns freed themselves for it
}

// Stats may be called by any goroutine.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	waiting, running := q.n, q.running
	q.mu.Unlock()
	f := &q.figures
	return Stats{f.jobs.Load(), waiting, running,
		f.slices.Load(), f.busyNs.Load(), f.spilled.Load(), f.turnSlices.Load()}
}

// Idle says that no job waits or runs. Any goroutine.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == 0 && q.running == 0
}

// Pause stops reclaimers after the slice they are in; Resume lets them go on. Jobs are still queued. For tests and
// DEBUG.
func (q *Queue) Pause() { q.setPaused(true) }

// Resume ends a Pause.
func (q *Queue) Resume() { q.setPaused(false) }

func (q *Queue) setPaused(on bool) {
	q.mu.Lock()
	q.paused = on
	q.mu.Unlock()
	q.ready.Broadcast()
}

// Close ends the reclaimers after the slice they are in and waits for that. What waits is dropped: the process ends, or
// the heap does.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ready.Broadcast()
	q.ended.Wait()
}
