package sentinel

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// simSeeds returns how many seeds are played: SPINDLE_SENTINEL_SEEDS, or 200.
func simSeeds() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SPINDLE_SENTINEL_SEEDS"), 10, 32); err == nil && n > 0 {
		return n
	}
	return 200
}

// play runs one seed: three or five Sentinels, over three or four servers.
func play(seed uint64, forgets bool) *sim {
	s := newSim(seed, 3+2*int(seed%2), 3+int(seed/2%2), forgets)
	s.run(90_000, 180_000)
	return s
}

// TestSimulation: hosts are cut off, crash, stop, or cannot write. Still no epoch has two leaders and no Sentinel votes
// twice. In the end all Sentinels agree on one primary, which all other servers follow. A failure prints the seed that
// replays it.
func TestSimulation(t *testing.T) {
	failovers, began := 0, time.Now()
	n := simSeeds()
	for seed := range n {
		s := play(seed, false)
		failovers += s.failovers
		if s.failed != "" {
			tail := s.history[max(0, len(s.history)-60):]
			t.Fatalf("seed %d: %s\n%s", seed, s.failed, strings.Join(tail, "\n"))
		}
	}
	if failovers < int(n)/2 {
		t.Errorf("only %d failovers in %d seeds", failovers, n)
	}
	t.Logf("%d failovers in %d seeds, %v", failovers, n, time.Since(began))
}

// TestSeedReplays: a seed gives the same events at the same times.
func TestSeedReplays(t *testing.T) {
	for seed := range uint64(5) {
		if a, b := play(seed, false), play(seed, false); a.hash != b.hash || len(a.history) != len(b.history) {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

// TestPlantedBugIsFound: Sentinels whose disks lose data vote twice, and the simulator detects it.
func TestPlantedBugIsFound(t *testing.T) {
	for seed := range uint64(1000) {
		if s := play(seed, true); strings.Contains(s.failed, "has voted for") || strings.Contains(s.failed, "two leaders") {
			t.Logf("seed %d: %s", seed, s.failed)
			return
		}
	}
	t.Error("1000 seeds have not found it")
}
