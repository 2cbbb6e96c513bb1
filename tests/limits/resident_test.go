package limits

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestResidentOfMixedSizes logs the process's resident memory and its used memory, under writes of mixed sizes at
// maxmemory. The test's limits are far above the usual values.
func TestResidentOfMixedSizes(t *testing.T) {
	if testkit.Checked {
		t.Skip("this build poisons blocks or has slabs on the Go heap: run it without -race and -tags invariants")
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
			for sent < 3*limit*int64(min(testkit.Scale(), 2)) {
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
}

// mixed returns a request that makes a value of some type, with up to 200 elements.
func mixed(rng *rand.Rand, i int, text string) []any {
	if i%3 == 0 {
		return []any{"SET", i, text[:16+rng.IntN(1985)]}
	}
	name := []string{"HSET", "RPUSH", "SADD", "ZADD", "XADD"}[i%5]
	args := []any{name, i}
	if name == "XADD" {
		args = append(args, "*")
	}
	for j := range 1 << rng.IntN(8) {
		switch name {
		case "HSET", "XADD":
			args = append(args, fmt.Sprint("field", j), text[:rng.IntN(50)])
		case "ZADD":
			args = append(args, j, fmt.Sprint("member", j))
		default:
			args = append(args, fmt.Sprint("element", j))
		}
	}
	return args
}

// TestResidentAfterDeletes: nine of ten values of mixed types are deleted. The remaining values are scattered over all
// memory. Within ten seconds on a quiet machine, most of this memory goes back to the system by itself. The remaining
// values are unchanged, and can be changed.
func TestResidentAfterDeletes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	keys := 60_000 * min(testkit.Scale(), 8)
	rng := rand.New(rand.NewPCG(seed, 1))
	text := strings.Repeat("v", 2000)
	s := testkit.Start(t, "--measure-turn-cpu", "yes", "--active-defrag-ignore-bytes", "1mb")
	s.Do("PING")
	empty, emptyUsed := s.RSS(), s.InfoInt("memory", "used_memory")
	conn := s.Dial()
	testkit.Pipe(t, conn, keys, func(i int) []any { return mixed(rng, i, text) })
	full := s.RSS() - empty
	testkit.Pipe(t, conn, keys, func(i int) []any {
		if i%10 == 3 {
			return []any{"PING"}
		}
		return []any{"DEL", i}
	})
	digest := s.Do("DEBUG", "DIGEST").Text
	s.Do("CONFIG", "RESETSTAT")
	used := s.InfoInt("memory", "used_memory") - emptyUsed
	first, began := s.RSS()-empty, time.Now()
	limit := used*3/2 + 40<<20 // the process itself grows, on a busy host by up to 30 MB
	testkit.Until(t, testkit.Slowly(time.Minute), "memory given back", func() error {
		if left := s.RSS() - empty; left > limit && !testkit.Checked {
			return fmt.Errorf("seed %d: %d MB resident for %d MB used, %d MB when full", seed, left>>20, used>>20, full>>20)
		}
		if s.InfoInt("stats", "active_defrag_hits") == 0 {
			return fmt.Errorf("seed %d: nothing was moved", seed)
		}
		return testkit.Equal(s.InfoInt("memory", "active_defrag_running"), 0)
	})
	t.Logf("seed %d: RSS %.2f × of what is used after %v, %.2f × at first; the longest turn took %d µs of its thread",
		seed,
		float64(s.RSS()-empty)/float64(used), time.Since(began), float64(first)/float64(used),
		s.InfoInt("stats", "longest_turn_cpu_usec"))
	if got := s.Do("DEBUG", "DIGEST").Text; got != digest {
		t.Errorf("seed %d: what was moved has changed", seed)
	}
	testkit.Pipe(t, conn, keys, func(i int) []any { return []any{"DEL", i} })
	if n := s.Do("DBSIZE").Int; n != 0 {
		t.Errorf("seed %d: %d keys are left", seed, n)
	}
	usedAgain(t, s, emptyUsed+1<<20)
}

// TestResidentInStorm: RSS stays near maxmemory during writes at the limit. The writes are SET, APPEND and HSET, with
// values of 16 bytes to 1 MB. SPINDLE_STORM sets the duration of a longer run, in which the limit is 512 MB and RSS may
// exceed it by 15 %.
func TestResidentInStorm(t *testing.T) {
	if testkit.Checked {
		t.Skip("this build poisons blocks or has slabs on the Go heap: run it without -race and -tags invariants")
	}
	span, err := time.ParseDuration(os.Getenv("SPINDLE_STORM"))
	limit, bound := int64(512<<20), 1.15
	if err != nil {
		span, limit, bound = 2*time.Second, 64<<20, 2.2 // the process itself is a large part of the limit
	}
	args := []string{"--maxmemory", fmt.Sprint(limit), "--maxmemory-policy", "allkeys-random"}
	spec := testkit.Spec{Args: args}
	if program := os.Getenv("SPINDLE_STORM_REFERENCE"); program != "" {
		spec.Redis, spec.Program, bound = true, program, math.Inf(1)
	}
	s := testkit.Launch(t, spec)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	text := strings.Repeat("v", 1<<20)
	conn, most, sent, last := s.Dial(), int64(0), int64(0), int64(0)
	for end := time.Now().Add(span); time.Now().Before(end); {
		testkit.Pipe(t, conn, 100, func(i int) []any {
			n := 16 << rng.IntN(16)
			n += rng.IntN(n)
			sent += int64(n)
			switch rng.IntN(3) {
			case 0:
				return []any{"SET", fmt.Sprint("s", rng.IntN(20_000)), text[:n]}
			case 1:
				return []any{"APPEND", fmt.Sprint("s", rng.IntN(20_000)), text[:n]}
			}
			return []any{"HSET", fmt.Sprint("h", rng.IntN(2000)), fmt.Sprint("f", rng.IntN(100)), text[:n]}
		})
		last = s.RSS()
		most = max(most, last)
	}
	t.Logf("RSS up to %.3f × maxmemory, %.3f × in the end, %d MB sent, evicted_keys:%d", float64(most)/float64(limit),
		float64(last)/float64(limit), sent>>20, s.InfoInt("stats", "evicted_keys"))
	m := s.Info("memory")
	for _, name := range []string{"used_memory", "allocator_allocated", "allocator_active", "allocator_resident",
		"allocator_muzzy", "used_memory_rss"} {
		t.Logf("%s:%s", name, m[name])
	}
	if float64(most) > bound*float64(limit) {
		t.Errorf("RSS up to %.2f × maxmemory, bound %.2f", float64(most)/float64(limit), bound)
	}
}

// TestResidentAfterABurst: some seconds after a load, the process keeps little memory beyond its data. That also holds
// after a script that made much garbage. mem_fragmentation_ratio is about the data alone, so it is near 1.
func TestResidentAfterABurst(t *testing.T) {
	t.Parallel()
	if testkit.Checked {
		t.Skip("this build poisons blocks or has slabs on the Go heap: run it without -race and -tags invariants")
	}
	s := testkit.Start(t)
	s.Do("PING")
	calm := func(what string) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(40*time.Second), what, func() error {
			m := s.Info("memory")
			number := func(name string) int64 {
				n, err := strconv.ParseInt(m[name], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			ratio, err := strconv.ParseFloat(m["mem_fragmentation_ratio"], 64)
			if err != nil {
				t.Fatal(err)
			}
			empty, goHeap := number("allocator_muzzy"), number("memory_purpose_go_heap")+number("memory_purpose_go_free")
			if ratio < 0.95 || ratio > 1.4 || empty > 2<<20 || goHeap > 16<<20 {
				return fmt.Errorf("ratio %v, %d bytes of empty pages, Go heap %d", ratio, empty, goHeap)
			}
			return nil
		})
	}
	testkit.Pipe(t, s.Dial(), 1_000_000, func(i int) []any { return []any{"SET", i, "value"} })
	calm("rest after the load")
	s.Do("EVAL", "local t = {} for i = 1, 1000000 do t[i] = tostring(i) end return #t", 0)
	calm("rest after the script")
}
