package topology

import (
	"sync"
	"time"
)

// rounds calls a function at intervals, and sooner on request.
type rounds struct {
	interval, soonest time.Duration
	chance            func(n int64) int64
	wake              chan struct{}
	end               chan struct{}
	endOnce           *sync.Once
}

// leastPause is the default for the least time between two refreshes.
const leastPause = 50 * time.Millisecond

func newRounds(interval, soonest time.Duration, chance func(n int64) int64) rounds {
	if soonest == 0 {
		soonest = leastPause
	}
	return rounds{interval: interval, soonest: soonest, chance: chance, wake: make(chan struct{}, 1),
		end: make(chan struct{}), endOnce: &sync.Once{}}
}

// Refresh requests a refresh soon. It does not block. Several requests before the next refresh become one.
func (r *rounds) Refresh() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop ends the goroutines. Each ends as soon as its server has replied or the reply has timed out.
func (r *rounds) stop() { r.endOnce.Do(func() { close(r.end) }) }

func (r *rounds) ended() bool {
	select {
	case <-r.end:
		return true
	default:
		return false
	}
}

// start runs round in a new goroutine after each pause.
func (r *rounds) start(round func()) {
	go func() {
		for r.pause() {
			round()
		}
	}()
}

// pause waits until the next round. It returns false when the Finder ends.
func (r *rounds) pause() bool {
	if !r.sleep(r.jittered(r.soonest)) {
		return false
	}
	timer := time.NewTimer(r.jittered(r.interval))
	defer timer.Stop()
	select {
	case <-r.end:
		return false
	case <-r.wake:
	case <-timer.C:
	}
	return true
}

// jittered adds up to half of d, so that many proxies do not ask at the same instant.
func (r *rounds) jittered(d time.Duration) time.Duration {
	return d + time.Duration(r.chance(int64(d)/2+1))
}

// sleep waits for d. It returns false when the Finder ends.
func (r *rounds) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.end:
		return false
	case <-timer.C:
		return true
	}
}

// trouble remembers each server's last error, so that each error is logged once.
type trouble map[string]string

// note reports whether err differs from the server's last error.
func (t *trouble) note(addr string, err error) bool {
	if err == nil {
		delete(*t, addr)
		return false
	}
	if *t == nil {
		*t = trouble{}
	}
	before := (*t)[addr]
	(*t)[addr] = err.Error()
	return before != err.Error()
}
