// Package lazyfree runs the reclaimers: goroutines that free memory for the core.
//
// Owner: its own goroutines run jobs. The core offers them, once per turn, and never waits (R5).
// Elsewhere: any goroutine may read the figures and call Pause.
// Never: knows what a job frees. A job is a function with a budget; memory and keyspace make them.
// Start here. reclaimer.go runs the jobs, pace.go sets how fast.
package lazyfree

import (
	"sync"
	"sync/atomic"
)

// A Job frees about budget blocks and reports whether all are freed. It is called again until done. Only one goroutine
// calls it at a time, not always the same one.
type Job = func(budget int) (done bool)

// Options shape a queue. The zero value is valid.
type Options struct {
	Reclaimers int // goroutines; default 1
	Length     int // jobs that may wait; default 64
	Slice      int // budget of one call of a job; default 2048, some 100 µs
}

// A Queue is a bounded queue of jobs for the reclaimers.
//
//	turn ──Turn(take)──▶ [ job | job | … ] ──▶ reclaimer: slice, rest, slice, …
//	          └ full: kept as spill, freed by the turn itself, Overflow blocks at a time, until there is room
//
// lazyfree.Q1. Jobs start in the order in which they were offered. A job runs on one goroutine at a time. A long job
// lets the waiting jobs run first every Stint slices, so that a small job need not wait for its end.
// lazyfree.Q2. At most Length jobs wait, and one spills. While one spills no other is taken, so that the producer slows
// by small steps.
// lazyfree.Q3. After Close no job runs. Waiting jobs are dropped.
type Queue struct {
	options Options
	pace    pace
	figures counters
	spill   item // the turn's: a job that did not fit

	mu      sync.Mutex
	ready   sync.Cond // a job waits, the queue was closed, or a pause has ended
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

// Overflow is the budget that a turn spends on a job for which the queue had no room: some 10 µs.
const Overflow = 128

// Stint is how many slices of a job run before the next job.
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

// Offer adds a job to the queue. False means that the queue is full or closed, and the caller keeps the job. Any
// goroutine.
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

// Full reports whether a job offered now would spill, so that the turn would have to run it. Only turns offer jobs. So
// if Full is false, it stays false for the rest of the turn.
func (q *Queue) Full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed || q.n == len(q.waiting)
}

// Turn moves jobs from the core to the reclaimers: it calls take until that returns nil, a few times at most. If the
// queue is full it frees a small slice itself instead. The core calls it among its duties, about once a millisecond.
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

// unspill adds the spilled job to the queue, or frees a slice of it. It returns false if the job is still spilled.
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
	BusyNs     int64 // time spent in them
	Spilled    int64 // jobs that found the queue full
	TurnSlices int64 // slices that turns freed themselves
}

// Stats returns the figures. Any goroutine.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	waiting, running := q.n, q.running
	q.mu.Unlock()
	f := &q.figures
	return Stats{f.jobs.Load(), waiting, running,
		f.slices.Load(), f.busyNs.Load(), f.spilled.Load(), f.turnSlices.Load()}
}

// Idle reports whether no job waits or runs. Any goroutine.
func (q *Queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == 0 && q.running == 0
}

// Pause stops reclaimers after their present slice. Jobs are still queued. For tests and DEBUG.
func (q *Queue) Pause() { q.setPaused(true) }

func (q *Queue) Resume() { q.setPaused(false) }

func (q *Queue) setPaused(on bool) {
	q.mu.Lock()
	q.paused = on
	q.mu.Unlock()
	q.ready.Broadcast()
}

// Close stops the reclaimers after their present slice and waits for that. It drops waiting jobs, because the process
// or the heap ends.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ready.Broadcast()
	q.ended.Wait()
}
