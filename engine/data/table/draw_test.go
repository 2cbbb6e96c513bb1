package table

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"spindle/engine/data/memory"
)

// deviations returns how unfair the draws in seen are. It returns how many standard deviations the cube root of their
// chi-square is above that of fair draws. n is the number of keys, some of which may not have been drawn.
func deviations(seen map[memory.Ref]int, n int) float64 {
	draws := 0
	for _, times := range seen {
		draws += times
	}
	each := float64(draws) / float64(n)
	chi := float64(n-len(seen)) * each
	for _, times := range seen {
		chi += (float64(times) - each) * (float64(times) - each) / each
	}
	// Its cube root is nearly normal even with few keys (Wilson and Hilferty). Chi-square itself is not: with 11 keys fair
	// draws are 6 deviations above the mean once in 20,000 cases.
	spread := 2 / (9 * float64(n-1))
	return (math.Cbrt(chi/float64(n-1)) - 1 + spread) / math.Sqrt(spread)
}

// unfair is a number of deviations that fair draws do not reach. A run has some eighty cases, each with one chance in
// 10^8.
const unfair = 6

// TestDrawsAreUniform: every function that draws keys draws each key equally often, whenever the key was added and
// wherever it lies.
func TestDrawsAreUniform(t *testing.T) {
	for _, c := range []struct {
		name     string
		add      int
		drop     func(i int) bool
		volatile func(i int) bool
	}{
		{"few", 10, nil, func(i int) bool { return i%2 == 0 }},
		{"all volatile", 6000, nil, func(int) bool { return true }},
		{"a third volatile", 6000, nil, func(i int) bool { return i%3 == 0 }},
		{"the newest volatile", 6000, nil, func(i int) bool { return i >= 5000 }},
		{"few volatile", 20_000, nil, func(i int) bool { return i%200 == 0 }},
		{"many dropped", 20_000, func(i int) bool { return i%10 != 0 }, func(i int) bool { return i%20 == 0 }},
		{"many ids released", 60_000, func(i int) bool { return i%3 == 0 && i > 30 }, func(i int) bool { return i%3 == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := open(t)
			for i := range c.add {
				deadline := int64(0)
				if c.volatile(i) {
					deadline = int64(1_000_000 + i)
				}
				k.add(strconv.Itoa(i), deadline)
			}
			for i := range c.add {
				if c.drop != nil && c.drop(i) {
					k.drop(strconv.Itoa(i))
				}
			}
			k.check()
			r := rand.NewPCG(k.rng.Uint64(), 2)
			for name, draw := range map[string]func(into []memory.Ref) ([]memory.Ref, int){
				"Random": func(into []memory.Ref) ([]memory.Ref, int) { return append(into, k.table.Random(r)), k.table.Len() },
				"RandomVolatile": func(into []memory.Ref) ([]memory.Ref, int) {
					return append(into, k.table.RandomVolatile(r)), k.table.Volatile()
				},
				"Sample": func(into []memory.Ref) ([]memory.Ref, int) { return k.table.Sample(r, 5, false, into), k.table.Len() },
				"Sample volatile": func(into []memory.Ref) ([]memory.Ref, int) {
					return k.table.Sample(r, 5, true, into), k.table.Volatile()
				},
			} {
				// The keys of one sample come from one segment, so only those at the same place in it are independent draws.
				refs, n := draw(nil)
				seen := make([]map[memory.Ref]int, len(refs))
				for i := range seen {
					seen[i] = map[memory.Ref]int{}
				}
				for drawn := 0; drawn < 100*n; drawn += len(refs) {
					refs, _ = draw(refs[:0])
					for i, ref := range refs {
						seen[i][ref]++
					}
				}
				for i := range seen {
					if d := deviations(seen[i], n); d > unfair {
						t.Errorf("%s of %d keys, place %d: %.1f deviations above chi-square's mean", name, n, i, d)
					}
				}
			}
		})
	}
}

// TestSampleSize: a sample has as many keys as requested, all of the requested kind.
func TestSampleSize(t *testing.T) {
	k := open(t)
	r := rand.NewPCG(1, 2)
	if refs := k.table.Sample(r, 5, false, nil); len(refs) != 0 {
		t.Errorf("%d keys of none", len(refs))
	}
	for i := range 5000 {
		k.add(strconv.Itoa(i), int64(i%100/99*5_000_000))
	}
	for _, n := range []int{1, 5, 10, 64, 1000} {
		for _, volatile := range []bool{false, true} {
			refs := k.table.Sample(r, n, volatile, nil)
			if len(refs) != min(n, sampleMost) || slices.Contains(refs, 0) {
				t.Errorf("asked for %d, volatile %t: %d", n, volatile, len(refs))
			}
			for _, ref := range refs {
				if volatile != (EntryDeadline(memory.Pointer(ref)) != 0) && volatile {
					t.Errorf("a key without a deadline")
				}
			}
		}
	}
}

// BenchmarkSample draws samples. Watch ns/op, compared with the same benchmark before a change.
func BenchmarkSample(b *testing.B) {
	for _, volatile := range []bool{false, true} {
		b.Run("volatile="+strconv.FormatBool(volatile), func(b *testing.B) {
			k := open(b)
			for i := range 2_000_000 {
				k.add(strconv.Itoa(i), int64(i%2*5_000_000))
			}
			r := rand.NewPCG(1, 2)
			var into [16]memory.Ref
			b.ReportAllocs()
			for b.Loop() {
				for _, ref := range k.table.Sample(r, 5, volatile, into[:0]) {
					_ = *memory.Word(ref)
				}
			}
		})
	}
}
