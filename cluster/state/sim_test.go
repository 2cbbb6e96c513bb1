package state

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/internal/invariant"
	"spindle/internal/slots"
)

// TestMain makes the garbage collector run rarely, because simulated nodes allocate much and keep little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}

// cluster makes a cluster of primaries with one replica each, by the commands that redis-cli would send.
func cluster(t testing.TB, seed uint64, primaries int) *simulation {
	w := newSimulation(seed, 2*primaries, nil)
	for i, h := range w.hosts[:primaries] {
		h.do(func() {
			if err := h.s.SetEpoch(int64(i + 1)); err != nil {
				t.Fatal(err)
			}
			var list []int
			for slot := i * slots.Count / primaries; slot < (i+1)*slots.Count/primaries; slot++ {
				list = append(list, slot)
			}
			h.s.Assign(list)
		})
	}
	for _, h := range w.hosts[1:] {
		h.do(func() {
			if err := h.s.Meet(ip(0), 7000, 17000); err != nil {
				t.Fatal(err)
			}
		})
	}
	w.run(6000)
	for i, h := range w.hosts[primaries:] {
		h.do(func() {
			if err := h.s.Replicate(w.hosts[i].s.Me().ID, true); err != nil {
				t.Fatal(err)
			}
		})
	}
	w.run(4000)
	if why := w.disagreement() + w.unwell(); why != "" {
		t.Fatalf("seed %d: after it was made: %s", seed, why)
	}
	return w
}

// TestClusterForms: thirty nodes, of which each knows one other node, become a cluster.
func TestClusterForms(t *testing.T) { cluster(t, 1, 15) }

// some picks random hosts, primaries more often than replicas.
func (w *simulation) some(most int) (list []*host) {
	for range 1 + w.rng.IntN(most) {
		h := w.hosts[w.rng.IntN(len(w.hosts))]
		for range 2 {
			if h.s.IsReplica() {
				h = w.hosts[w.rng.IntN(len(w.hosts))]
			}
		}
		list = append(list, h)
	}
	return list
}

// harm starts a random fault that lasts at most ms.
func (w *simulation) harm(ms int64) {
	lasts := 1 + w.rng.Int64N(ms)
	switch w.rng.IntN(8) {
	case 0, 1: // crashes and restarts
		for _, h := range w.some(3) {
			if h.Up() {
				h.crash()
				w.net.After(50+w.rng.Int64N(lasts), h.boot)
			}
		}
	case 2: // stopped processes
		for _, h := range w.some(3) {
			w.trace("%d host %d stops for %d", w.since(), h.at, lasts)
			h.Pause()
			w.net.After(lasts, h.Resume)
		}
	case 3: // a partition
		part := 2 + w.rng.IntN(4)
		group := make([]bool, len(w.hosts))
		for i := range group {
			group[i] = w.rng.IntN(part) == 0
		}
		w.trace("%d partition %v for %d", w.since(), group, lasts)
		w.cut(group, true)
		w.net.After(lasts, func() { w.cut(group, false) })
	case 4: // loss
		for _, h := range w.some(6) {
			h.lossy = 1 + w.rng.IntN(50)
			w.net.After(lasts, func() { h.lossy = 0 })
		}
	case 5: // delay
		for _, h := range w.some(4) {
			h.LagMs = 1 + w.rng.Int64N(simulationTimeout)
			w.net.After(lasts, func() { h.LagMs = 0 })
		}
	case 6: // clocks jump
		for _, h := range w.some(3) {
			h.skew += w.rng.Int64N(4*simulationTimeout) - 2*simulationTimeout
		}
	case 7: // operators
		for _, h := range w.some(3) {
			force := w.rng.IntN(2) == 0
			w.trace("%d host %d is told to fail over, force %t", w.since(), h.at, force)
			h.do(func() { // a primary refuses and lets a replica do it
				if !h.s.IsReplica() {
					return
				}
				_ = h.s.Failover(force, false)
			})
		}
	}
}

// cut separates a group of hosts from the others, or reconnects the group.
func (w *simulation) cut(group []bool, on bool) {
	for i := range group {
		for j := range i {
			if group[i] != group[j] {
				w.net.Cut(w.hosts[i].Host, w.hosts[j].Host, on)
			}
		}
	}
}

// heal ends all faults.
func (w *simulation) heal() {
	w.trace("%d all is well", w.since())
	w.net.Heal()
	for _, h := range w.hosts {
		h.lossy, h.LagMs = 0, 0
		h.Resume()
		h.boot()
	}
}

// until runs the simulation until wrong returns "". It returns how many ms passed, or -1 if they exceed patience.
func (w *simulation) until(patience int64, wrong func() string) int64 {
	for took := int64(0); took <= patience; took += TickMs {
		if w.wrong != "" || wrong() == "" {
			return took
		}
		w.run(TickMs)
	}
	return -1
}

// Bounds of the time after healing, in ms. All nodes know the owners of slots after three timeouts. It takes longer
// until no node is marked failed and the cluster serves, because a failed election is retried only after four timeouts.
const (
	agreedMs = 3 * simulationTimeout
	wellMs   = 12 * simulationTimeout
)

// An outcome is the result of one seed.
type outcome struct {
	w            *simulation
	agreed, well int64 // ms after healing; -1: not in time
	why          string
}

// play runs one seed: thirty nodes, of which ten, fifteen or seven are primaries.
func play(t testing.TB, seed uint64, bug bug, trace bool) outcome {
	const hosts = 30
	primaries := []int{10, 15, 7}[seed%3]
	w := newSimulation(seed, hosts, func(i int) string { return nodesConf(i, hosts, primaries) })
	w.bug = bug
	if trace {
		w.trace = t.Logf
	}
	w.run(1000)
	for range 8 {
		w.harm(4 * simulationTimeout)
		w.run(w.rng.Int64N(simulationTimeout))
	}
	w.heal()
	o := outcome{w: w}
	if o.agreed = w.until(agreedMs, w.disagreement); o.agreed < 0 {
		o.why = w.disagreement()
		return o
	}
	if o.well = w.until(wellMs, func() string { return cmp.Or(w.unwell(), w.disagreement()) }); o.well < 0 {
		o.why = w.disagreement() + w.unwell()
	}
	return o
}

// simSeeds returns the seeds to play. There are 200 by default. SPINDLE_CLUSTER_SEEDS sets their number, or a range
// such as 7-9. With the race detector, which takes ten times as long, there are 20.
func simSeeds() (from, to uint64) {
	text := os.Getenv("SPINDLE_CLUSTER_SEEDS")
	first, last, is := strings.Cut(text, "-")
	if from, err := strconv.ParseUint(first, 10, 32); is && err == nil {
		if to, err := strconv.ParseUint(last, 10, 32); err == nil && to >= from {
			return from, to + 1
		}
	}
	if n, err := strconv.ParseUint(text, 10, 32); err == nil && n > 0 {
		return 0, n
	}
	if invariant.Enabled {
		return 0, 20
	}
	return 0, 100
}

// tally collects the results of all seeds.
type tally struct {
	mu                  sync.Mutex
	requests, elections int
	agreed, well        []int64
}

func (c *tally) add(o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agreed, c.well = append(c.agreed, o.agreed), append(c.well, o.agreed+o.well)
	c.requests, c.elections = c.requests+o.w.requests, c.elections+o.w.elections
}

// spread describes the distribution of times.
func spread(ms []int64) string {
	slices.Sort(ms)
	n := len(ms)
	return fmt.Sprintf("median %d, 99th of 100 %d, at most %d", ms[n/2], ms[n*99/100], ms[n-1])
}

// TestSimulation: nodes crash, stop or are cut off; messages are late or lost. Still no two nodes claim a slot with the
// same epoch, and no node votes twice. Soon after healing all nodes agree.
func TestSimulation(t *testing.T) {
	from, to := simSeeds()
	var all tally
	var players sync.WaitGroup
	next, began := atomic.Uint64{}, time.Now()
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for seed := from + next.Add(1) - 1; seed < to; seed = from + next.Add(1) - 1 {
				o := play(t, seed, noBug, to == from+1)
				all.add(o)
				switch {
				case o.w.wrong != "":
					t.Errorf("seed %d: %s", seed, o.w.wrong)
				case o.agreed < 0:
					t.Errorf("seed %d: %d ms after healing they differ:\n%s", seed, agreedMs, o.why)
				case o.well < 0:
					t.Errorf("seed %d: %d ms after healing:\n%s", seed, agreedMs+wellMs, o.why)
				}
			}
		})
	}
	players.Wait()
	t.Logf("%d seeds in %v: %d requests for votes, %d failovers", to-from, time.Since(began), all.requests, all.elections)
	t.Logf("agreed, ms after healing: %s", spread(all.agreed))
	t.Logf("well, ms after healing: %s", spread(all.well))
	if to-from >= 20 && all.elections < int(to-from) {
		t.Errorf("only %d failovers", all.elections)
	}
}

// TestSeedsThatFailed: seeds that have found bugs, which are fixed now.
func TestSeedsThatFailed(t *testing.T) {
	for _, seed := range []uint64{
		3026, // a late message made a primary with its slots a replica
	} {
		if o := play(t, seed, noBug, false); o.w.wrong != "" || o.agreed < 0 || o.well < 0 {
			t.Errorf("seed %d: %s%s", seed, o.w.wrong, o.why)
		}
	}
}

// TestSeedReplays: the same seed gives the same messages and log lines in the same order.
func TestSeedReplays(t *testing.T) {
	for seed := range uint64(3) {
		if a, b := play(t, seed, noBug, false), play(t, seed, noBug, false); a.w.events != b.w.events ||
			a.agreed != b.agreed {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

// rivalry makes replicas of a small cluster ask for votes in quick succession, while voters crash.
func rivalry(seed uint64, bug bug) *simulation {
	const hosts, primaries = 9, 3
	w := newSimulation(seed, hosts, func(i int) string { return nodesConf(i, hosts, primaries) })
	w.bug = bug
	w.run(2500)
	for range 20 {
		for _, h := range w.hosts {
			if h.s.IsReplica() && w.rng.IntN(2) == 0 {
				h.do(func() { _ = h.s.Failover(true, false) })
			}
		}
		w.run(w.rng.Int64N(40))
		for _, h := range w.hosts {
			if h.Up() && !h.s.IsReplica() && w.rng.IntN(2) == 0 {
				h.crash()
				w.net.After(10, h.boot)
			}
		}
		w.run(w.rng.Int64N(600))
	}
	return w
}

// confirming plays a cluster of three shards with two or three replicas each, in which primaries wait for replicas. The
// nodes of one shard crash, stop or are cut off, together and one after the other.
func confirming(seed uint64, bug bug) *simulation {
	replicas := 2 + int(seed%2)
	hosts := 3 * (1 + replicas)
	w := newSimulation(seed, hosts, func(i int) string { return nodesConf(i, hosts, 3) })
	w.bug, w.acks, w.kept = bug, 1+int64(seed/2)%int64(replicas), map[int]*write{}
	for _, h := range w.hosts {
		h.do(func() { h.s.Apply(h.terms()) })
	}
	w.run(2500)
	for range 10 {
		shard := w.rng.IntN(3)
		for _, h := range w.hosts {
			lasts := 1 + w.rng.Int64N(6*simulationTimeout)
			switch what := w.rng.IntN(6); {
			case h.at%3 != shard || !h.Up():
			case what == 0:
				h.crash()
				w.net.After(lasts, h.boot)
			case what == 1:
				h.Pause()
				w.net.After(lasts, h.Resume)
			case what == 2:
				group := make([]bool, len(w.hosts))
				group[h.at] = true
				w.cut(group, true)
				w.net.After(lasts, func() { w.cut(group, false) })
			case what == 3:
				h.LagMs = 1 + w.rng.Int64N(simulationTimeout)
				w.net.After(lasts, func() { h.LagMs = 0 })
			}
		}
		w.run(w.rng.Int64N(3 * simulationTimeout))
	}
	w.heal()
	return w
}

// flapping is a game like confirming. One replica is away for long. The primary stops for so long that it is marked
// failed, comes back, and may crash a little later. Another replica is cut off then.
func flapping(seed uint64, bug bug) *simulation {
	const replicas = 3
	hosts := 3 * (1 + replicas)
	w := newSimulation(seed, hosts, func(i int) string { return nodesConf(i, hosts, 3) })
	w.bug, w.acks, w.kept = bug, 1+int64(seed%2), map[int]*write{}
	for _, h := range w.hosts {
		h.do(func() { h.s.Apply(h.terms()) })
	}
	alone := func(h *host, ms int64) {
		group := make([]bool, len(w.hosts))
		group[h.at] = true
		w.cut(group, true)
		w.net.After(ms, func() { w.cut(group, false) })
	}
	w.run(2500)
	for range 12 {
		shard := w.rng.IntN(3)
		var primary *host
		var others []*host
		for _, h := range w.hosts {
			switch {
			case h.at%3 != shard:
			case h.follows < 0:
				primary = h
			default:
				others = append(others, h)
			}
		}
		if primary == nil || len(others) < 2 {
			w.run(1000)
			continue
		}
		i := w.rng.IntN(len(others))
		alone(others[i], 2*simulationTimeout+w.rng.Int64N(6*simulationTimeout))
		if primary.Up() && !primary.Paused() {
			primary.Pause()
			w.net.After(2*simulationTimeout+w.rng.Int64N(3*simulationTimeout), func() {
				primary.Resume()
				w.net.After(w.rng.Int64N(simulationTimeout), func() {
					if primary.Up() {
						primary.crash()
						w.net.After(4*simulationTimeout, primary.boot)
					}
					alone(others[(i+1)%len(others)], 5*simulationTimeout)
				})
			})
		}
		w.run(w.rng.Int64N(8 * simulationTimeout))
	}
	w.heal()
	return w
}

// losing is a game like confirming. One primary after the other crashes, and starts again with older data, soon or
// late. Its offset grows meanwhile. One of its replicas may be cut off.
func losing(seed uint64, bug bug) *simulation {
	replicas := 1 + int(seed%3)
	hosts := 3 * (1 + replicas)
	w := newSimulation(seed, hosts, func(i int) string { return nodesConf(i, hosts, 3) })
	w.bug, w.acks, w.kept, w.older = bug, 1+int64(seed/3)%int64(replicas), map[int]*write{}, true
	for _, h := range w.hosts {
		h.do(func() { h.s.Apply(h.terms()) })
	}
	for range 6 {
		w.run(2500)
		w.until(wellMs, w.unwell)
		shard := w.rng.IntN(3)
		group := make([]bool, len(w.hosts))
		for _, h := range w.hosts {
			switch {
			case h.at%3 != shard:
			case h.follows < 0 && h.Up():
				w.net.After(1+w.rng.Int64N(1000), func() {
					if h.forgets = -1; w.rng.IntN(3) > 0 {
						h.forgets = w.rng.IntN(10)
					}
					h.crash()
					w.net.After(1+w.rng.Int64N(2*simulationTimeout), h.boot)
				})
			case w.rng.IntN(3) == 0:
				clear(group)
				group[h.at] = true
			}
		}
		w.cut(group, true)
		w.net.After(1+w.rng.Int64N(4*simulationTimeout), func() { w.cut(group, false) })
		w.run(w.rng.Int64N(8 * simulationTimeout))
	}
	w.heal()
	return w
}

// TestConfirmedWritesSurvive (state.Q1 to state.Q6): a replica that wins an election has every write that its primary
// has confirmed. So has a primary that serves again. Soon after healing the cluster is well.
func TestConfirmedWritesSurvive(t *testing.T) {
	for name, play := range map[string]func(uint64, bug) *simulation{"any faults": confirming, "flapping": flapping,
		"primaries start with older data": losing} {
		t.Run(name, func(t *testing.T) { confirmedSurvive(t, play) })
	}
}

func confirmedSurvive(t *testing.T, play func(seed uint64, b bug) *simulation) {
	seeds := uint64(50)
	if invariant.Enabled {
		seeds = 10
	}
	if n, err := strconv.ParseUint(os.Getenv("SPINDLE_CLUSTER_SEEDS"), 10, 32); err == nil && n > 0 {
		seeds = n
	}
	var mu sync.Mutex
	var players sync.WaitGroup
	var next atomic.Uint64
	elections, writes := 0, int64(0)
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for seed := next.Add(1) - 1; seed < seeds; seed = next.Add(1) - 1 {
				w := play(seed, noBug)
				patience := agreedMs + wellMs + w.hosts[0].s.unownedFor()
				if took := w.until(patience, func() string { return cmp.Or(w.unwell(), w.disagreement()) }); took < 0 {
					t.Errorf("seed %d: %d ms after healing: %s", seed, patience, cmp.Or(w.unwell(), w.disagreement()))
				}
				if w.wrong != "" {
					t.Errorf("seed %d: %s", seed, w.wrong)
				}
				mu.Lock()
				elections += w.elections
				for _, last := range w.kept {
					writes += last.at()
				}
				mu.Unlock()
			}
		})
	}
	players.Wait()
	t.Logf("%d seeds: %d failovers, confirmed up to offset %d on average", seeds, elections, writes/int64(3*seeds))
	if elections < int(seeds)/2 || writes == 0 {
		t.Errorf("only %d failovers, %d bytes confirmed", elections, writes)
	}
}

// TestPlantedBugsAreFound: each planted bug breaks a rule within a thousand seeds. Without a planted bug, no rule
// breaks.
func TestPlantedBugsAreFound(t *testing.T) {
	for seed := range uint64(3) {
		if w := rivalry(seed, noBug); w.wrong != "" {
			t.Errorf("seed %d: %s", seed, w.wrong)
		}
	}
	for name, planted := range map[string]struct {
		bug  bug
		from uint64 // the first seed to try; one that shows the bug is near
		play func(seed uint64, b bug) *simulation
	}{
		"messages do not wait for the disk": {ungated, 10, func(seed uint64, b bug) *simulation { return rivalry(seed, b) }},
		"a node votes twice": {generous, 0,
			func(seed uint64, b bug) *simulation { return play(t, seed, b, false).w }},
		"a replica stands whatever the others have": {hasty, 0, confirming},
		"a replica confirms to a failed primary":    {talkative, 90, flapping},
		"an offset of another history counts":       {assured, 490, flapping},
		"a primary gives older data at once":        {trusting, 0, losing},
		"a source reclaims without asking":          {rash, 0, cutOff},
		"a failover with the old epoch": {sameEpoch, 0,
			func(seed uint64, b bug) *simulation { return play(t, seed, b, false).w }},
	} {
		found := false
		for seed := planted.from; seed < 1000 && !found; seed++ {
			w := planted.play(seed, planted.bug)
			if found = w.wrong != ""; found {
				t.Logf("%s: seed %d: %s", name, seed, w.wrong)
			}
		}
		if !found {
			t.Errorf("%s: a thousand seeds have not found it", name)
		}
	}
}
