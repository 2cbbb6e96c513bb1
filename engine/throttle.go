package engine

import (
	"container/list"
	"time"

	"spindle/engine/client"
)

// A throttle has clients write no faster than a rate, while it is on. It is a bucket of tokens, and a call that may
// write takes one. If there is none, the client is held back. Held clients get the next tokens, in the order of their
// arrival.
//
// engine.V1. A client is in held exactly while it has client.Throttled; its Wait is then its place there.
// engine.V2. A client in paid has a token for the call that it offers next.
type throttle struct {
	on       bool
	rate     float64 // tokens a second
	tokens   float64
	filledAt int64     // by the core's nanos
	held     list.List // of *client.Client, in order of arrival
	paid     map[*client.Client]bool

	asked  uint64 // calls since the last sample, held or not
	sample int64  // when that was, by the core's nanos
	inflow float64
	first  bool // no sample has been taken
	total  uint64
}

const (
	// ThrottleMost is the rate at which a throttle holds no client back.
	ThrottleMost = 10_000_000
	// throttleBurst is how long tokens are kept that no call has taken.
	throttleBurst = 100 * time.Millisecond
	// inflowWindow is how far back inflow looks, in seconds.
	inflowWindow = 5.0
)

// consume takes a token if there is one.
func (t *throttle) consume(nanos int64) bool {
	since := float64(nanos-t.filledAt) / float64(time.Second)
	t.filledAt = nanos
	t.tokens = min(t.tokens+since*t.rate, max(1, t.rate*throttleBurst.Seconds()))
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}

// wait is how long it takes until the next held client may continue; 0: none is held.
func (t *throttle) wait() time.Duration {
	if t.held.Len() == 0 {
		return 0
	}
	if t.rate <= 0 {
		return throttleBurst
	}
	return min(throttleBurst, time.Duration((1-t.tokens)/t.rate*float64(time.Second)))
}

// hold keeps cl back.
func (t *throttle) hold(cl *client.Client) {
	t.total++
	cl.Flags |= client.Throttled | client.Blocked
	cl.Wait = t.held.PushBack(cl)
}

// forget takes out a client that leaves.
func (t *throttle) forget(cl *client.Client) {
	delete(t.paid, cl)
	if cl.Is(client.Throttled) {
		t.held.Remove(cl.Wait.(*list.Element))
		t.free(cl)
	}
}

func (t *throttle) free(cl *client.Client) {
	cl.Flags &^= client.Throttled | client.Blocked
	cl.Wait = nil
}

// release lets as many held clients continue as there are tokens; all: every one.
func (t *throttle) release(nanos int64, all bool) {
	for e := t.held.Front(); e != nil && (all || t.consume(nanos)); e = t.held.Front() {
		cl := t.held.Remove(e).(*client.Client)
		t.free(cl)
		if !all {
			t.paid[cl] = true
		}
		cl.Conn.Resume()
	}
}

// measure updates inflow, at most some times a second.
func (t *throttle) measure(nanos int64) {
	seconds := float64(nanos-t.sample) / float64(time.Second)
	if seconds < inflowWindow/20 {
		return
	}
	now := float64(t.asked) / seconds
	if t.first || seconds >= inflowWindow {
		t.inflow = now
	} else {
		t.inflow += (now - t.inflow) * seconds / inflowWindow
	}
	t.asked, t.sample, t.first = 0, nanos, false
}
