package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// quiet is an Outside that does nothing.
type quiet struct{}

func (quiet) Dial(l *Link)                      {}
func (quiet) Send(*Link, []byte, uint64)        {}
func (quiet) HangUp(*Link)                      {}
func (quiet) Ask(Errand)                        {}
func (quiet) Keys(int) int                      { return 0 }
func (quiet) Offset() int64                     { return 0 }
func (quiet) DataAge() int64                    { return 0 }
func (quiet) Log(logging.Level, string, ...any) {}
func fresh() *State {
	return New(quiet{}, Terms{NodeTimeout: 2000, Port: 7000, BusPort: 17000}, 1_700_000_000_000, rand.New(rand.NewPCG(1, 2)))
}

// cluster makes a cluster of so many primaries, each with a replica, by the orders that redis-cli gives.
func cluster(t testing.TB, seed uint64, primaries int) *world {
	w := newWorld(t, seed, 2*primaries)
	for i, h := range w.hosts[:primaries] {
		h.do(func() {
			if err := h.s.SetEpoch(int64(i + 1)); err != nil {
				t.Fatal(err)
			}
			var list []int
			for slot := i * slots.Count / primaries; slot < (i+1)*slots.Count/primaries; slot++ {
				list = append(list, slot)
			}
			h.s.Take(list)
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
	if why := w.disagreement(); why != "" {
		t.Fatalf("seed %d: after it was made: %s", seed, why)
	}
	return w
}

// disagreement says how the nodes differ in what they take for the cluster; "" if they do not.
func (w *world) disagreement() string {
	first := ""
	for i, h := range w.hosts {
		if !h.up {
			continue
		}
		if !h.s.OK() {
			return fmt.Sprintf("host %d calls the cluster failed", i)
		}
		var b strings.Builder
		for j := range w.hosts {
			for _, n := range h.s.Nodes() {
				if n.IP != ip(j) {
					continue
				}
				primary := "-"
				if n.Primary != nil {
					primary = n.Primary.IP
				}
				fmt.Fprintln(&b, n.ID, n.IP, n.Flags&(bus.Primary|bus.Replica|bus.Failed|bus.Handshake), primary, n.Ranges())
			}
		}
		if first == "" {
			first = b.String()
		} else if first != b.String() {
			return fmt.Sprintf("host %d:\n%sothers:\n%s", i, b.String(), first)
		}
	}
	return ""
}

// harm does something bad to the cluster.
func (w *world) harm() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	switch w.rng.IntN(6) {
	case 0: // a crash, and a new start
		if !h.up {
			return
		}
		w.trace("%d crash of host %d", w.now%1_000_000, h.at)
		h.crash()
		w.after(100+w.rng.Int64N(12_000), func() {
			if !h.up {
				h.start()
			}
		})
	case 1: // a stopped process
		pause := w.rng.Int64N(6000)
		w.trace("%d host %d stops for %d", w.now%1_000_000, h.at, pause)
		h.frozen = max(h.frozen, w.now+pause)
		w.after(h.frozen-w.now, func() {
			late := h.late
			h.late = nil
			for _, f := range late {
				h.do(f)
			}
		})
	case 2: // a partition
		group := make([]bool, len(w.hosts))
		for i := range group {
			group[i] = w.rng.IntN(3) == 0
		}
		w.trace("%d partition %v", w.now%1_000_000, group)
		var pairs [][2]int
		for i := range group {
			for j := i + 1; j < len(group); j++ {
				if group[i] != group[j] {
					pairs = append(pairs, [2]int{i, j})
					w.cut[[2]int{i, j}] = true
				}
			}
		}
		w.after(w.rng.Int64N(10_000), func() {
			for _, p := range pairs {
				delete(w.cut, p)
			}
		})
	case 3: // a clock jumps
		h.skew += w.rng.Int64N(4000) - 2000
	case 4, 5: // an operator
		force := w.rng.IntN(3) == 0
		h.do(func() {
			if h.s.IsReplica() {
				w.trace("%d host %d fails over, force %t", w.now%1_000_000, h.at, force)
				_ = h.s.Failover(force, false)
			}
		})
	}
}

// heal ends all that is bad, and waits until the nodes agree. It says how long that took, in ms; -1: they did not.
func (w *world) heal(patience int64) int64 {
	clear(w.cut)
	for _, h := range w.hosts {
		h.frozen = 0
		late := h.late
		h.late = nil
		for _, f := range late {
			h.do(f)
		}
		if !h.up {
			h.start()
		}
	}
	for took := int64(0); took <= patience; took += 100 {
		if w.wrong != "" || w.disagreement() == "" {
			return took
		}
		w.run(100)
	}
	return -1
}

// scale is how many times the usual number of seeds are tried.
func scale() int {
	n, err := strconv.Atoi(os.Getenv("SPINDLE_TEST_SCALE"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// patienceMs is how long after healing the nodes may differ: an election that has gone wrong is tried again after four
// timeouts at the latest, and a failure is taken back after two.
const patienceMs = 12 * worldTimeout

// TestClustersSurvive: whatever crashes, stops or is cut off, nobody claims a slot with an epoch that another has
// claimed it with, nobody votes twice, and the nodes agree when all is well again.
func TestClustersSurvive(t *testing.T) {
	from, count := uint64(1), uint64(5*scale())
	if one, err := strconv.ParseUint(os.Getenv("SPINDLE_SEED"), 10, 64); err == nil {
		from, count = one, 1
	}
	for seed := from; seed < from+count; seed++ {
		w := cluster(t, seed, 3)
		if count == 1 {
			w.trace = t.Logf
		}
		for range 12 {
			w.harm()
			w.run(w.rng.Int64N(3000))
		}
		took := w.heal(patienceMs)
		if w.wrong != "" {
			t.Fatalf("seed %d: %s", seed, w.wrong)
		}
		if took < 0 {
			t.Fatalf("seed %d: %d ms after healing: %s", seed, patienceMs, w.disagreement())
		}
		t.Logf("seed %d: agreed after %d ms", seed, took)
	}
}

// rivalry has replicas ask for votes in short order, while the voters crash. It gives the rule that was broken.
func rivalry(t *testing.T, seed uint64, ungated bool) string {
	w := cluster(t, seed, 3)
	w.ungated = ungated
	for range 40 {
		for _, h := range w.hosts {
			if h.up && h.s.IsReplica() && w.rng.IntN(2) == 0 {
				h.do(func() { _ = h.s.Failover(true, false) })
			}
		}
		w.run(w.rng.Int64N(40))
		for _, h := range w.hosts {
			if h.up && !h.s.IsReplica() && w.rng.IntN(2) == 0 {
				h.crash()
				w.after(10, h.start)
			}
		}
		w.run(w.rng.Int64N(600))
	}
	return w.wrong
}

// shows is the first seed that shows it: the search begins a little before.
const shows = 99 - 2

// TestVotesAreOnDisk: crashes among rivals break nothing. If messages did not wait for the disk, some seed would show
// it.
func TestVotesAreOnDisk(t *testing.T) {
	found := false
	for seed := uint64(1); seed <= uint64(2*scale()); seed++ {
		if wrong := rivalry(t, seed, false); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
	for seed := uint64(shows); seed <= 1000 && !found; seed++ {
		wrong := rivalry(t, seed, true)
		if found = wrong != ""; found {
			t.Logf("seed %d, without the disk: %s", seed, wrong)
		}
	}
	if !found {
		t.Error("no seed has found a node that does not wait for its disk")
	}
}
