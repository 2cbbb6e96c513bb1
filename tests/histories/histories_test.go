package histories

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// live lets clients call while f acts on the site, and returns their history.
func (s *site) live(f func()) *history {
	s.t.Helper()
	h := &history{began: time.Now()}
	var stop atomic.Bool
	all := s.run(h, 6, &stop)
	f()
	stop.Store(true)
	all.Wait()
	h.finish(s)
	return h
}

// TestCheckersFind: the models find lost writes; otherwise the other test would prove nothing. redis-server with
// Sentinels loses acknowledged writes when its primary is cut off together with clients, and the models report it.
func TestCheckersFind(t *testing.T) {
	t.Parallel()
	s := newSite(t, rand.New(rand.NewPCG(1, 2)), true)
	h := s.live(func() {
		cut := s.named("the primary is cut off")
		end := cut.begin(s, s.primary())
		old := s.primary()
		testkit.Until(t, testkit.Slowly(60*time.Second), "another primary", func() error {
			if s.primary() == old {
				return errSame
			}
			return nil
		})
		testkit.Moment(s.rng, time.Second)
		end()
		s.awaitWell()
	})
	found := h.check(false)
	kinds := map[byte]bool{}
	for _, f := range found {
		kinds[f.key[0]] = true
	}
	if !kinds['r'] || !kinds['c'] || !kinds['l'] {
		t.Errorf("of %d calls only this is found: %v", len(h.events), found)
	}
}

var errSame = errors.New("the primary is the same")

// TestConfirmedWritesStay: with min-replicas-to-ack 2, no acknowledged write of a primary with two replicas is lost,
// whichever server is killed, suspended or cut off.
func TestConfirmedWritesStay(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := newSite(t, rand.New(rand.NewPCG(seed, 0)), false, "--min-replicas-to-ack", "2", "--ack-timeout", "500")
	for range testkit.Scale() {
		h := s.live(func() {
			for range 2 {
				s.suffer(faults[s.rng.IntN(len(faults))], 3*time.Second)
			}
		})
		acknowledged := 0
		for _, e := range h.events {
			if !e.unknown {
				acknowledged++
			}
		}
		t.Logf("%d calls, %d acknowledged", len(h.events), acknowledged)
		for _, f := range h.check(false) {
			t.Errorf("%s: %s", f.key, f.what)
		}
	}
}
