package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"spindle/protocol"
)

// newTurn makes a turn without a core. run is called for each published batch.
func newTurn(run func(*protocol.Batch)) *turn {
	t := &turn{}
	nanos := int64(0) // read and written by the holder
	t.clockNanos = func() int64 { return nanos }
	t.runOther = func(b *protocol.Batch) int64 {
		run(b)
		nanos += turnTime / 40
		return nanos
	}
	return t
}

// TestCombining: many loops offer batches at the same time, while other goroutines hold the turn, too. Each batch runs
// once, one at a time. Each loop that sleeps is woken for its batches.
func TestCombining(t *testing.T) {
	for _, loops := range []int{1, 2, 3, 16} {
		t.Run(fmt.Sprintf("%d loops", loops), func(t *testing.T) {
			const batches = 3000
			ran, order, ended := 0, []int{}, false // of the holder
			u := newTurn(func(b *protocol.Batch) {
				b.Done++
				for range 1000 { // so that others find the turn taken
					ran++
				}
			})
			var group, others sync.WaitGroup
			var combined, slept atomic.Int64
			for range loops {
				group.Go(func() {
					bell := make(chan struct{}, 1)
					o := u.Join(func() {
						select {
						case bell <- struct{}{}:
						default:
						}
					})
					all := make([]protocol.Batch, batches)
					var away []*protocol.Batch
					collect := func() {
						kept := away[:0]
						for _, b := range away {
							if !b.Back() {
								kept = append(kept, b)
							}
						}
						away = kept
					}
					for i := 0; i < batches || len(away) > 0; {
						if i < batches && len(away) < 4 {
							b := &all[i]
							i++
							if u.tryTake() {
								u.runOther(b)
								u.combine()
							} else if !u.publish(b, o) {
								combined.Add(1)
								away = append(away, b)
							}
							collect()
							continue
						}
						o.Rest()
						u.Help()
						if collect(); len(away) < 4 && (i < batches || len(away) == 0) {
							o.Wake()
							continue
						}
						slept.Add(1)
						<-bell
						o.Wake()
						collect()
					}
					for i := range all {
						if all[i].Done != 1 {
							t.Errorf("batch %d was run %d times", i, all[i].Done)
						}
					}
				})
			}
			for range 2 {
				others.Go(func() {
					for {
						u.take()
						order = append(order[:0], int(u.number))
						over := ended
						u.release()
						if over {
							return
						}
					}
				})
			}
			group.Wait()
			u.take()
			ended = true
			u.release()
			others.Wait()
			if ran /= 1000; ran != loops*batches || u.published.Load() != 0 {
				t.Errorf("%d batches were run of %d; %d are published", ran, loops*batches, u.published.Load())
			}
			t.Logf("%d batches were published, loops slept %d times", combined.Load(), slept.Load())
		})
	}
}

// TestCombiningInEveryOrder explores a model of combine.go: all orders of the atomic steps of 2 and 3 loops and of a
// holder that is no loop. In no order is a batch lost or run twice, and no loop sleeps for ever (engine.H1, protocol.S1
// to protocol.S3). Planted faults show that the model would find such an order.
func TestCombiningInEveryOrder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		model
		found bool
	}{
		{model: model{loops: 2, batches: 2, others: 1}},
		{model: model{loops: 3, batches: 1, others: 1}},
		{model: model{loops: 2, batches: 1, others: 2}},
		{model: model{loops: 2, batches: 1, fault: noSecondLook}, found: true},
		{model: model{loops: 2, batches: 1, fault: restAfterLook}, found: true},
		{model: model{loops: 2, batches: 1, others: 1, fault: othersDoNotRing}, found: true},
		{model: model{loops: 2, batches: 1, fault: ringBeforeReturn}, found: true},
	} {
		m := test.model
		m.seen = map[state]bool{}
		m.explore(m.start())
		if (m.problem != "") != test.found {
			t.Errorf("%d loops, %d batches, %d others, fault %d: %q in %d states", m.loops, m.batches, m.others, m.fault,
				m.problem, len(m.seen))
		} else {
			t.Logf("%d loops, %d batches, %d others, fault %d: %d states %s", m.loops, m.batches, m.others, m.fault,
				len(m.seen), m.problem)
		}
	}
}

// A fault is a step that the model leaves out, or takes in the wrong order.
type fault int

const (
	noSecondLook     fault = iota + 1 // a holder does not look again after it has released the turn
	restAfterLook                     // a loop announces its sleep only after its last look
	othersDoNotRing                   // a holder that is no loop does not ring
	ringBeforeReturn                  // a holder rings before it returns the batches
)

// A model has a number of loops, each with some batches to offer, and of other goroutines, which hold the turn once.
type model struct {
	loops, batches, others int
	fault                  fault
	seen                   map[state]bool
	problem                string
}

const mostLoops, mostBatches, mostOthers = 3, 2, 2

// A state is the state of the whole model. It is comparable.
type state struct {
	held      bool
	published int8
	actors    [mostLoops + mostOthers]actor
	batches   [mostLoops][mostBatches]where
	rests     [mostLoops]bool
	bell      [mostLoops]bool
}

// A where says where a batch is.
type where int8

const (
	unsent  where = iota
	outside       // in the outbox
	taken         // by a holder
	done          // has run
	back          // has come back
)

// An actor is a goroutine: its next step, and what it remembers.
type actor struct {
	at     step
	batch  int8 // the loop's next batch
	look   int8 // the loop whose outbox the holder looks at, or rings
	rings  int8 // the loops to ring, as bits
	taken  int8 // the batches of that outbox that were taken, as bits
	resume step // after combining
}

type step int8

const (
	offer   step = iota // take the turn for the next batch, or find it taken
	pushIt              // the batch is in the outbox
	count               // published grows
	help                // published is not 0: continue with retake
	retake              // take the turn, or not
	scan                // combine: is anything published?
	lookAt              // take what is in one outbox
	runIt               // run one batch of it
	giveIt              // return it
	unlock              // release the turn
	ring                // ring the loops of returned batches
	again               // is anything published? Then take the turn again
	rest                // the loop announces that it will sleep
	lastRun             // Help, before it sleeps
	lastSee             // is a batch back?
	sleep               // until the bell
	ended
	takeIt   // another holder takes the turn
	letGo    // and releases it
	ringRest // and rings loops with published batches
)

func (m *model) start() (s state) {
	for i := range mostOthers {
		if a := &s.actors[mostLoops+i]; i < m.others {
			a.at = takeIt
		} else {
			a.at = ended
		}
	}
	for i := m.loops; i < mostLoops; i++ {
		s.actors[i].at = ended
	}
	return s
}

// explore takes every step that is possible in s, and explores the states after it.
func (m *model) explore(s state) {
	if m.problem != "" || m.seen[s] {
		return
	}
	m.seen[s] = true
	moved := false
	for i := range s.actors {
		next := s
		if m.step(&next, i) {
			moved = true
			m.explore(next)
		}
		if a := s.actors[i]; a.at == again && s.published != 0 { // its time may be over (engine.H3)
			next = s
			m.ringForWork(&next)
			m.goOn(&next, i)
			m.explore(next)
		}
	}
	if moved || m.problem != "" {
		return
	}
	for i := range m.loops {
		if s.actors[i].at != ended {
			m.problem = fmt.Sprintf("loop %d sleeps for ever: %+v", i, s)
		}
		for b := range m.batches {
			if s.batches[i][b] != back {
				m.problem = fmt.Sprintf("batch %d of loop %d is at %d: %+v", b, i, s.batches[i][b], s)
			}
		}
	}
}

// away reports whether the loop has a batch that it has offered and that has not come back.
func (s *state) away(loop int) bool {
	for _, at := range s.batches[loop] {
		if at != unsent && at != back {
			return true
		}
	}
	return false
}

// after returns the loop's step after an offer, or after a batch has come back.
func (m *model) after(s *state, i int) step {
	switch {
	case int(s.actors[i].batch) < m.batches:
		return offer
	case s.away(i):
		if m.fault == restAfterLook {
			return lastRun
		}
		return rest
	}
	return ended
}

// step makes actor i take its next step. It returns false if the actor cannot take it.
func (m *model) step(s *state, i int) bool {
	a := &s.actors[i]
	switch a.at {
	case offer:
		if s.held {
			a.at = pushIt
			return true
		}
		s.held, s.batches[i][a.batch] = true, back // run in place
		a.batch++
		a.resume, a.at = offer, scan
	case pushIt:
		s.batches[i][a.batch] = outside
		a.batch++
		a.at = count
	case count:
		s.published++
		a.resume, a.at = offer, help
	case help, lastRun:
		if a.at == lastRun {
			a.resume = lastSee
		}
		if s.published == 0 {
			m.goOn(s, i)
		} else {
			a.at = retake
		}
	case retake:
		if s.held {
			m.goOn(s, i)
		} else {
			s.held, a.at = true, scan
		}
	case scan:
		a.rings = 0
		if a.look = 0; s.published != 0 {
			a.at = lookAt
		} else {
			a.at = unlock
		}
	case lookAt:
		if int(a.look) == m.loops {
			a.at = unlock
			break
		}
		a.taken = 0
		for b := range m.batches {
			if s.batches[a.look][b] == outside {
				s.batches[a.look][b] = taken
				a.taken |= 1 << b
			}
		}
		if a.taken == 0 {
			a.look++
			break
		}
		if a.at = runIt; m.fault == ringBeforeReturn {
			m.ring(s, int(a.look))
		}
		a.rings |= 1 << a.look
	case runIt:
		b := first(a.taken)
		if s.batches[a.look][b] != taken {
			m.problem = fmt.Sprintf("batch %d of loop %d is run twice: %+v", b, a.look, s)
		}
		s.published--
		s.batches[a.look][b], a.at = done, giveIt
	case giveIt:
		b := first(a.taken)
		s.batches[a.look][b] = back
		if a.taken &^= 1 << b; a.taken == 0 {
			a.look++
			a.at = lookAt
		} else {
			a.at = runIt
		}
	case unlock:
		s.held, a.at = false, ring
	case ring:
		if a.rings == 0 || m.fault == ringBeforeReturn {
			if a.at = again; m.fault == noSecondLook {
				m.goOn(s, i)
			}
			break
		}
		loop := first(a.rings)
		a.rings &^= 1 << loop
		m.ring(s, loop)
	case again:
		if s.published == 0 {
			m.goOn(s, i)
		} else {
			a.at = retake
		}
	case rest:
		s.rests[i] = true
		if a.at = lastRun; m.fault == restAfterLook {
			a.at = sleep
		}
	case lastSee:
		for b := range m.batches {
			if s.batches[i][b] != back {
				if a.at = sleep; m.fault == restAfterLook {
					a.at = rest
				}
				return true
			}
		}
		s.rests[i] = false
		a.at = ended
	case sleep:
		if !s.bell[i] {
			return false
		}
		s.bell[i], s.rests[i] = false, false
		if a.at = ended; s.away(i) {
			a.at = m.after(s, i)
		}
	case takeIt:
		if s.held {
			return false
		}
		s.held, a.at = true, letGo
	case letGo:
		s.held, a.at = false, ringRest
	case ringRest:
		if s.published != 0 && m.fault != othersDoNotRing {
			m.ringForWork(s)
		}
		a.at = ended
	default:
		return false
	}
	return true
}

// goOn sets the step that follows Help or Offer.
func (m *model) goOn(s *state, i int) {
	a := &s.actors[i]
	if a.at = a.resume; a.at == offer {
		a.at = m.after(s, i)
	}
}

// ringForWork rings the loops whose outbox holds batches.
func (m *model) ringForWork(s *state) {
	for loop := range m.loops {
		if slices.Contains(s.batches[loop][:m.batches], outside) {
			m.ring(s, loop)
		}
	}
}

// ring wakes a loop that sleeps.
func (m *model) ring(s *state, loop int) {
	if s.rests[loop] {
		s.rests[loop], s.bell[loop] = false, true
	}
}

// first returns the index of the lowest bit that is set.
func first(bits int8) int {
	for i := 0; ; i++ {
		if bits&(1<<i) != 0 {
			return i
		}
	}
}
