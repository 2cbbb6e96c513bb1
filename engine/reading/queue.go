package reading

import (
	"runtime"
	"slices"

	"spindle/engine/data/keyspace"
)

// A Queue has all Jobs. Up to mostStarted Jobs have a goroutine; later ones wait in order. At most half as many Jobs as
// there are processors compute at a time. The started Jobs alternate.
type Queue struct {
	places  chan struct{} // its capacity is the number of Jobs that may compute at once
	alone   bool          // there is one processor
	started []*Job
	waiting []*Job
	views   views
	total   int64
	stopped int64
}

// mostStarted limits the number of replies that grow at the same time.
const mostStarted = 16

// leastRoom is the memory that the views of Jobs may keep in any case.
const leastRoom = 64 << 20

// Init prepares an empty Queue.
func (q *Queue) Init() {
	n := runtime.NumCPU()
	q.places, q.alone = make(chan struct{}, max(1, n/2)), n == 1
}

// HasRoom reports whether the views of Jobs keep little enough memory to start another Job: at most a quarter of the
// used bytes, or leastRoom.
func (q *Queue) HasRoom(used int64) bool {
	return len(q.views.live) == 0 || q.views.kept() <= max(leastRoom, used/4)
}

// Begin starts j, or queues it. changes is the server's count of changes. freeze returns a view of this moment. Begin
// calls it only if there is no such view yet.
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

// Leave stops j, whose client does not wait any more. j may be over already.
func (q *Queue) Leave(j *Job) {
	j.Stop()
	if at := slices.Index(q.waiting, j); at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.stopped++
		q.views.leave(j.view)
	}
}

// End removes j, whose Read is over, from the Queue.
func (q *Queue) End(j *Job) {
	q.started = slices.Delete(q.started, slices.Index(q.started, j), slices.Index(q.started, j)+1)
	if j.stop.Load() {
		q.stopped++
	}
	q.views.leave(j.view)
	q.startNext()
}

// StopAll stops all Jobs, when the server ends.
func (q *Queue) StopAll() {
	for _, j := range slices.Concat(q.started, q.waiting) {
		j.Stop()
	}
}

// Figures are the figures of a Queue that INFO shows.
type Figures struct {
	Total, Stopped   int64 // since the last Reset
	Started, Waiting int
	Views            int
	Kept             int64 // bytes that are kept only because of the views
}

// Figures returns the present figures.
func (q *Queue) Figures() Figures {
	return Figures{Total: q.total, Stopped: q.stopped, Started: len(q.started), Waiting: len(q.waiting),
		Views: len(q.views.live), Kept: q.views.kept()}
}

// Reset sets the counts to 0.
func (q *Queue) Reset() { q.total, q.stopped = 0, 0 }
