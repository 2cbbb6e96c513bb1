package topology

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestLinkCuts: the link to a server of Redis 8 or Valkey 9 is cut repeatedly under load of all types, in both roles.
// The replica continues each time without a full copy, and in the end both servers have equal data. A long run has 100
// cuts for each pair.
func TestLinkCuts(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct {
		primary, replica string
		persists         bool // see chains
	}{
		{testkit.Ours, testkit.Redis8, false},
		{testkit.Redis8, testkit.Ours, true},
		{testkit.Ours, testkit.Valkey9, true},
		{testkit.Valkey9, testkit.Ours, true},
	} {
		t.Run(pair.primary+" to "+pair.replica, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			c := newChain(t, rng, testkit.Kind(t, pair.primary), testkit.Kind(t, pair.replica))
			primary, replica, link := c.nodes[0], c.nodes[1], c.cables[0]
			w := newLoad(t, seed, true, pair.persists)
			w.start(primary, 2)
			cuts := map[string]int{}
			for range min(4*testkit.Scale(), 100) {
				w.await(int64(100 + rng.IntN(500)))
				before := primary.InfoInt("stats", "sync_partial_ok")
				how := []string{"kill above", "kill below", "close", "reset", "cut in a command"}[rng.IntN(5)]
				switch how {
				case "kill above":
					primary.Do("CLIENT", "KILL", "TYPE", "replica")
				case "kill below":
					replica.Do("CLIENT", "KILL", "TYPE", "master")
				case "close":
					link.cut(false)
				case "reset":
					link.cut(true)
				case "cut in a command":
					link.cutAfter(rng.Int64N(2000))
				}
				cuts[how]++
				testkit.Until(t, testkit.Slowly(60*time.Second), "the replica continues after "+how, func() error {
					if n := primary.InfoInt("stats", "sync_partial_ok"); n == before {
						return fmt.Errorf("sync_partial_ok:%d", n)
					}
					return nil
				})
				up(t, replica)
			}
			w.stop()
			equal(t, primary, replica)
			c.spared()
			t.Logf("cuts %v, %d writes", cuts, w.writes.Load())
		})
	}
}
