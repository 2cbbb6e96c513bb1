package limits

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestResidentOfMixedSizes states what the process holds of the machine's memory beside what it uses: under writes of
// mixed sizes at maxmemory, and when nine of ten mixed values were deleted. Bounds are far above what is usual; the
// figures are in the log.
func TestResidentOfMixedSizes(t *testing.T) {
	if testkit.Checked {
		t.Skip("slabs come from the Go heap in this build, and blocks are poisoned: other figures")
	}
	seed := uint64(time.Now().UnixNano())
	text := strings.Repeat("v", 1<<20)
	for _, c := range []struct {
		name        string
		least, most int // bytes of a value; sizes are spread evenly over their logarithms
		bound       float64
	}{
		{"small", 16, 8 << 10, 1.7},
		{"large", 64 << 10, 1 << 20, 2.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := int64(64<<20) * int64(min(testkit.Scale(), 8))
			rng := rand.New(rand.NewPCG(seed, 0))
			s := testkit.Start(t, "--maxmemory", fmt.Sprint(limit), "--maxmemory-policy", "allkeys-random")
			s.Do("PING")
			empty := s.RSS()
			size := func() int {
				n := c.least << rng.IntN(bits.Len(uint(c.most/c.least))-1)
				return n + rng.IntN(n)
			}
			conn, most, sent := s.Dial(), int64(0), int64(0)
			for sent < 6*limit {
				testkit.Pipe(t, conn, 200, func(i int) []any {
					n := size()
					sent += int64(n)
					return []any{"SET", rng.IntN(1_000_000), text[:n]}
				})
				if sent > limit {
					most = max(most, s.RSS()-empty)
				}
			}
			share := float64(most) / float64(limit)
			t.Logf("seed %d: RSS up to %.2f × maxmemory", seed, share)
			if share > c.bound {
				t.Errorf("seed %d: RSS up to %.2f × maxmemory, bound %.2f", seed, share, c.bound)
			}
		})
	}
	t.Run("deleted", func(t *testing.T) {
		keys := 200_000 * min(testkit.Scale(), 8)
		rng := rand.New(rand.NewPCG(seed, 1))
		s := testkit.Start(t)
		s.Do("PING")
		empty, emptyUsed := s.RSS(), s.InfoInt("memory", "used_memory")
		conn := s.Dial()
		testkit.Pipe(t, conn, keys, func(i int) []any { return []any{"SET", i, text[:16+rng.IntN(1985)]} })
		testkit.Pipe(t, conn, keys, func(i int) []any {
			if i%10 == 0 {
				return []any{"PING"}
			}
			return []any{"DEL", i}
		})
		used := s.InfoInt("memory", "used_memory") - emptyUsed
		before := s.RSS() - empty
		s.Do("MEMORY", "PURGE")
		const bound = 5
		testkit.Until(t, 20*time.Second, "memory given back", func() error {
			if left := s.RSS() - empty; left > bound*used {
				return fmt.Errorf("%d MB resident for %d MB used", left>>20, used>>20)
			}
			return nil
		})
		time.Sleep(time.Second) // a purge goes on beside the turns; how far is not known outside
		t.Logf("RSS %.1f × of what is used, %.1f × before MEMORY PURGE", float64(s.RSS()-empty)/float64(used),
			float64(before)/float64(used))
	})
}
