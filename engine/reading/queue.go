package reading

import (
	"runtime"
	"slices"

	"spindle/engine/data/keyspace"
)

// A Queue is all Jobs. Up to mostStarted have a goroutine; later ones wait in order. Half of the processors compute at
// once, and the Jobs that are started take turns at that.
type Queue struct {
	places  chan struct{} // as many as Jobs may compute at once
	alone   bool          // there is one processor
	started []*Job
	waiting []*Job
	views   views
	total   int64
	stopped int64
}

// mostStarted bounds the replies that grow at the same time.
const mostStarted = 16

// leastRoom is how much memory views may keep at least.
const leastRoom = 64 << 20

// Init prepares an empty Queue.
func (q *Queue) Init() {
	n := runtime.NumCPU()
	q.places, q.alone = make(chan struct{}, max(1, n/2)), n == 1
}

// HasRoom reports whether the views of Jobs keep little enough memory for another one: at most a quarter of the used
// bytes, or leastRoom.
func (q *Queue) HasRoom(used int64) bool {
	return len(q.views.live) == 0 || q.views.kept() <= max(leastRoom, used/4)
}

// Begin starts j, or has it wait for others. changes is the server's count of changes. freeze takes a view of this
// moment, if no view of it is there.
func (q *Queue) Begin(j *Job, changes int64, freeze func() *keyspace.View) {
	j.queue, j.view = q, q.views.join(changes, freeze)
	q.total++
	q.waiting = append(q.waiting, j)
	q.startNext()
}

func (q *Queue) startNext() {
	for len(q.waiting) > 0 && len(q.started) < mostStarted {
		j := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		q.started = append(q.started, j)
		j.started = true
		go j.run()
	}
}

// Leave stops j, whose client waits no more. It may be over already.
func (q *Queue) Leave(j *Job) {
	j.Stop()
	if at := slices.Index(q.waiting, j); at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.stopped++
		q.views.leave(j.view)
	}
}

// End takes j, whose Read is over, out of the Queue.
func (q *Queue) End(j *Job) {
	q.started = slices.Delete(q.started, slices.Index(q.started, j), slices.Index(q.started, j)+1)
	if j.stop.Load() {
		q.stopped++
	}
	q.views.leave(j.view)
	q.startNext()
}

// StopAll stops all Jobs: the server ends.
func (q *Queue) StopAll() {
	for _, j := range slices.Concat(q.started, q.waiting) {
		j.Stop()
	}
}

// Figures are what a Queue tells INFO.
type Figures struct {
	Total, Stopped   int64 // since the last Reset
	Started, Waiting int
	Views            int
	Kept             int64 // bytes that live only because of the views
}

// Figures returns the present ones.
func (q *Queue) Figures() Figures {
	return Figures{Total: q.total, Stopped: q.stopped, Started: len(q.started), Waiting: len(q.waiting),
		Views: len(q.views.live), Kept: q.views.kept()}
}

// Reset forgets what was counted.
func (q *Queue) Reset() { q.total, q.stopped = 0, 0 }
