package sentinel

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// agreement is the time limit for agreement after all harm has ended. Sentinels must agree on the primary, and servers
// on their roles.
const agreement = 20 * time.Second

// A harm is something that is done to a site while a given server is its primary.
type harm struct {
	name string
	does func(s *site, primary *testkit.Server) (stopped []*testkit.Server)
	// If switches is true, another primary must be chosen before the harm ends. Otherwise moves means that another
	// primary may be chosen during the harm.
	switches, moves bool
	lasts           time.Duration
}

func pause(who *testkit.Server)  { who.Signal(syscall.SIGSTOP) }
func resume(who *testkit.Server) { who.Signal(syscall.SIGCONT) }

var kill = harm{name: "primary killed", switches: true, does: func(s *site, p *testkit.Server) []*testkit.Server {
	p.Kill()
	return nil
}}

var harms = []harm{
	kill,
	{name: "primary stopped", switches: true, does: func(s *site, p *testkit.Server) []*testkit.Server {
		pause(p)
		return []*testkit.Server{p}
	}},
	{name: "primary cut off", switches: true, does: func(s *site, p *testkit.Server) []*testkit.Server {
		s.network.Split(s.hosts[p])
		return nil
	}},
	{name: "primary and a minority of Sentinels killed", switches: true,
		does: func(s *site, p *testkit.Server) []*testkit.Server {
			for _, w := range s.some(len(s.sentinels) - s.majority()) {
				w.Kill()
			}
			p.Kill()
			return nil
		}},
	{name: "primary and a minority of Sentinels cut off", switches: true,
		does: func(s *site, p *testkit.Server) []*testkit.Server {
			s.network.Split(s.places(s.some(len(s.sentinels)-s.majority()), p)...)
			return nil
		}},
	{name: "primary killed, all Sentinels restarted", switches: true,
		does: func(s *site, p *testkit.Server) []*testkit.Server {
			p.Kill()
			testkit.Moment(s.rng, 3*time.Second)
			for _, w := range s.sentinels {
				w.Kill()
			}
			for _, w := range s.sentinels {
				w.Again()
			}
			return nil
		}},
	{name: "primary killed, a majority of Sentinels cut off", lasts: 8 * time.Second,
		does: func(s *site, p *testkit.Server) []*testkit.Server {
			s.network.Split(s.places(s.some(s.majority()))...)
			p.Kill()
			return nil
		}},
	{name: "primary killed, a majority of Sentinels stopped for a moment", lasts: 1500 * time.Millisecond, moves: true,
		does: func(s *site, p *testkit.Server) (stopped []*testkit.Server) {
			for _, w := range s.some(s.majority()) {
				pause(w.Server)
				stopped = append(stopped, w.Server)
			}
			p.Kill()
			return stopped
		}},
	{name: "primary restarted at once", moves: true, does: func(s *site, p *testkit.Server) []*testkit.Server {
		p.Kill()
		return nil
	}},
	{name: "all hosts in two halves by the dice", lasts: 6 * time.Second, moves: true,
		does: func(s *site, p *testkit.Server) []*testkit.Server {
			hosts := s.network.Hosts()
			var side []*testkit.NetworkHost
			for _, i := range s.rng.Perm(len(hosts))[:1+s.rng.IntN(len(hosts)-1)] {
				side = append(side, hosts[i])
			}
			s.network.Split(side...)
			return nil
		}},
}

// A record has the results of rounds on a site.
type record struct {
	toSwitch []time.Duration // from a kill to the first +switch-master
	toAgree  []time.Duration // from the end of the harm to agreement
	done     map[string]int
	count    count
}

// play runs this many rounds. choose returns the harm of each round.
func (s *site) play(rounds int, choose func(round int) harm) *record {
	s.t.Helper()
	bound := patience
	if testkit.Scale() > 1 {
		bound = testkit.Slowly(agreement)
	}
	r := &record{done: map[string]int{}}
	for round := range rounds {
		testkit.Until(s.t, patience, "all to be well", s.whyNotReady)
		old := s.primary()
		h := choose(round)
		began := time.Now()
		s.downAfter(alertMs)
		stopped := h.does(s, old)
		if h.switches {
			testkit.Until(s.t, patience, h.name+": another primary", func() error {
				at, ok := s.switched(began)
				if !ok {
					return fmt.Errorf("none after %v", time.Since(began))
				}
				if h.name == kill.name {
					r.toSwitch = append(r.toSwitch, at.Sub(began))
				}
				return nil
			})
		}
		time.Sleep(h.lasts)
		if at, moved := s.switched(began); moved && !h.switches && !h.moves {
			s.t.Errorf("round %d, %s: another primary after %v", round, h.name, at.Sub(began))
		}
		s.revive(stopped...)
		healed := time.Now()
		testkit.Until(s.t, bound, fmt.Sprintf("round %d, %s: all to agree", round, h.name), s.whyNotAgreed)
		took := time.Since(healed)
		s.downAfter(calmMs)
		r.toAgree = append(r.toAgree, took)
		r.count = s.check()
		if s.t.Failed() {
			s.t.FailNow()
		}
		s.t.Logf("round %d, %s: agreed %s after its end", round, h.name, seconds(took))
		r.done[h.name]++
	}
	return r
}

func (r *record) log(t *testing.T) {
	slices.Sort(r.toAgree)
	for _, name := range slices.Sorted(maps.Keys(r.done)) {
		t.Logf("%d times: %s", r.done[name], name)
	}
	t.Logf("%d rounds, %d votes, %d elected, %d promoted; agreed after %s (median), %s (longest)", len(r.toAgree),
		r.count.votes, r.count.leaders, r.count.promotions, seconds(median(r.toAgree)), seconds(r.toAgree[len(r.toAgree)-1]))
	if len(r.toSwitch) > 0 {
		slices.Sort(r.toSwitch)
		t.Logf("%d kills; from a kill to +switch-master %s (median), %s to %s", len(r.toSwitch), seconds(median(r.toSwitch)),
			seconds(r.toSwitch[0]), seconds(r.toSwitch[len(r.toSwitch)-1]))
	}
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

// rounds returns the number of rounds of a test: 2, and 50 at a scale of 25.
func rounds() int { return min(50, 2*testkit.Scale()) }

// TestHarm: Sentinels of both kinds watch servers of both kinds, each on its own host. Primaries and Sentinels are
// killed, suspended, cut off and restarted. No epoch has two leaders or two promotions, and no minority elects a
// leader. When the harm is over, all soon agree.
func TestHarm(t *testing.T) {
	t.Parallel()
	sites := map[string]string{"mixed": "srs"}
	if testkit.Scale() > 1 {
		sites = map[string]string{
			"3 of ours": "sss", "3 of Redis's": "rrr", "3 mixed": "srs", "5 of ours": "sssss", "5 of Redis's": "rrrrr",
			"5 mixed": "rsrss",
		}
	}
	for name, sentinels := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			s := newSite(t, rng, kinds("srs"), kinds(sentinels))
			order := rng.Perm(len(harms))
			s.play(rounds(), func(round int) harm {
				if testkit.Scale() == 1 { // one of each kind: the short form of the test
					return harms[[]int{0, 4}[round%2]]
				}
				return harms[order[round%len(harms)]]
			}).log(t)
		})
	}
}

// TestKillToSwitch measures the time from the kill of a primary to the switch. It does so for spindle's and for Redis's
// Sentinels, with the same steps at the same time.
func TestKillToSwitch(t *testing.T) {
	t.Parallel()
	if testkit.Scale() == 1 {
		t.Skip("a measurement of minutes: SPINDLE_TEST_SCALE=25 has fifty kills")
	}
	for name, sentinels := range map[string]string{"ours": "sss", "Redis's": "rrr"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, rand.New(rand.NewPCG(1, 2)), kinds("rrr"), kinds(sentinels))
			s.play(rounds(), func(int) harm { return kill }).log(t)
		})
	}
}
