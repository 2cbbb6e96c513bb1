package load

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Slices are how runs that are compared take turns: each server is loaded for a slice while the others wait, A B C, B C
// A, and so on.
//
// A machine that others share changes its speed within a second, by a third and more. What is to be compared must lie
// closer together than that, and must lie so often that neither server has the better moments.
type Slices struct {
	Count  int           // of each server; Spec.Duration and Spec.Requests are cut into as many
	Settle time.Duration // what Spec.Warmup is at the first slice, at each that follows
}

// Together executes closed-loop Specs in slices, each with connections of its own that stay open. It returns, for each
// Spec, a Result a slice: the i-th slices of all Specs followed each other. What a connection has sent when a slice
// ends is answered, uncounted, before the next begins.
//
// CPU per request is exact, however long a batch takes (Result.Whole): all that a server used from the end of its slice
// before, over all that it was asked in this one. So what it puts off until it is the others' turn is charged, too.
func Together(specs []Spec, slices Slices) ([][]Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	loops := make([]*loop, len(specs))
	for i := range specs {
		s := &specs[i]
		if err := s.complete(); err != nil {
			return nil, err
		}
		if s.Rate > 0 || slices.Count <= 0 || s.Requests > 0 && s.Requests < int64(slices.Count) {
			return nil, fmt.Errorf("%d slices of %d requests at %g a second", slices.Count, s.Requests, s.Rate)
		}
		l := newLoop(s)
		defer l.close()
		if err := l.open(); err != nil {
			return nil, err
		}
		loops[i] = l
	}
	results := make([][]Result, len(loops))
	for at := range slices.Count {
		for i := range loops {
			who := (i + at) % len(loops)
			r, err := loops[who].slice(at, slices)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", specs[who].Address, err)
			}
			results[who] = append(results[who], r)
		}
	}
	return results, nil
}

// slice is the at-th part of a run.
func (l *loop) slice(at int, slices Slices) (Result, error) {
	n := int64(slices.Count)
	whole := *l.spec
	defer func(s *Spec) { l.spec = s }(l.spec)
	part := whole
	part.Duration = whole.Duration / time.Duration(n)
	if at > 0 {
		part.Warmup = min(whole.Warmup, slices.Settle)
	}
	l.spec = &part
	l.result, l.counting, l.over, l.endAt = Result{}, false, false, 0
	l.left = whole.Requests*int64(at+1)/n - whole.Requests*int64(at)/n
	if at == 0 {
		var err error
		if l.busyUntil, _, err = l.clocks(); err != nil {
			return Result{}, err
		}
	}
	l.replies = 0
	l.begin = time.Now()
	if err := l.runClosed(); err != nil {
		return Result{}, err
	}
	if err := l.drain(); err != nil {
		return Result{}, err
	}
	l.sumReplies()
	now, _, err := l.clocks()
	l.result.Whole = Whole{Requests: l.replies, ServerCPU: now - l.busyUntil}
	l.busyUntil = now
	return l.result, err
}

var errUnanswered = errors.New("no answer to what was sent")

// drainLimit is how long a server may take to answer what it was sent in a slice.
const drainLimit = time.Minute

// drain takes the replies that are still on their way.
func (l *loop) drain() error {
	for from := l.now(); !l.allAnswered(); {
		if l.now()-from > drainLimit {
			return errUnanswered
		}
		n, err := epollWait(l.epoll, l.events, 100*time.Millisecond)
		if err != nil {
			return err
		}
		for i := range n {
			c, replies, err := l.serve(&l.events[i])
			if err != nil {
				return err
			}
			if c.listens {
				l.toHear -= replies
			} else {
				c.awaited -= replies
			}
			if c.awaited < 0 || l.toHear < 0 {
				return errUnasked
			}
		}
	}
	return nil
}
