package load

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Slices describes how compared runs alternate. Each server is loaded for a slice while the others wait: A B C, B C A,
// and so on.
//
// A shared machine changes its speed by a third and more within a second. So slices to compare must be closer together
// than that. There must be many, so that no server has the better moments by chance.
type Slices struct {
	Count  int           // of each server; Spec.Duration and Spec.Requests are divided by it
	Settle time.Duration // the warm-up of each slice after the first, which has Spec.Warmup
}

// Together runs closed-loop Specs in slices. Each Spec has its own connections, which stay open. It returns a Result
// for each slice of each Spec. The i-th slices of all Specs ran one after another. Replies to requests in flight at a
// slice's end are read before the next slice, without being measured.
//
// CPU per request is exact, however long a batch takes (Result.Whole). It is the server's CPU time since the end of its
// last slice, divided by the requests of this slice. So work that a server postpones into the others' slices is
// included, too.
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

// slice runs slice number at of a run.
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

// drainLimit is the time limit for a server's replies to the last requests of a slice.
const drainLimit = time.Minute

// drain reads the missing replies.
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
