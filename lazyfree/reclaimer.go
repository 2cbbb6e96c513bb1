package lazyfree

import (
	"context"
	"runtime/pprof"
	"time"
)

// reclaim is one reclaimer: it takes the oldest job and runs it slice by slice until it is done or others wait.
func (q *Queue) reclaim() {
	defer q.ended.Done()
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("role", "reclaimer")))
	owed := time.Duration(0)
	for it, ok := q.next(); ok; {
		done := false
		for range Stint {
			begin := time.Now()
			done = it.job(q.options.Slice)
			spent := time.Since(begin)
			q.figures.slices.Add(1)
			q.figures.busyNs.Add(int64(spent))
			if done {
				q.finish()
			}
			owed = q.pace.rest(owed+spent, q.crowded())
			if done {
				break
			}
			if !q.mayGoOn() {
				return
			}
		}
		if done {
			it, ok = q.next()
		} else {
			it = q.rotate(it)
		}
	}
}

// rotate puts a job after the waiting jobs and returns the first of them. It returns the same job if none waits.
func (q *Queue) rotate(it item) item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		return it
	}
	next := q.waiting[q.first]
	q.waiting[q.first] = item{}
	q.waiting[(q.first+q.n)%len(q.waiting)] = it // when the ring is full, the place just left
	q.first = (q.first + 1) % len(q.waiting)
	return next
}

// next waits for a job. It returns false if the queue is closed.
func (q *Queue) next() (item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && (q.n == 0 || q.paused) {
		q.ready.Wait()
	}
	if q.closed {
		return item{}, false
	}
	it := q.waiting[q.first]
	q.waiting[q.first] = item{}
	q.first = (q.first + 1) % len(q.waiting)
	q.n--
	q.running++
	return it, true
}

func (q *Queue) finish() {
	q.figures.jobs.Add(1)
	q.mu.Lock()
	q.running--
	q.mu.Unlock()
}

// mayGoOn waits until a pause is over. It returns false if the queue is closed.
func (q *Queue) mayGoOn() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.paused && !q.closed {
		q.ready.Wait()
	}
	return !q.closed
}

// crowded reports whether the queue is more than half full.
func (q *Queue) crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n > len(q.waiting)/2
}
