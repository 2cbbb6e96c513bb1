package geo

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// TestSelectFirst: the first n items are those of a full sort, and no item is lost, for inputs of all shapes.
func TestSelectFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	shapes := map[string]func(i, n int) float64{
		"random":     func(int, int) float64 { return rng.Float64() },
		"few values": func(int, int) float64 { return float64(rng.IntN(4)) },
		"equal":      func(int, int) float64 { return 1 },
		"ascending":  func(i, _ int) float64 { return float64(i) },
		"descending": func(i, _ int) float64 { return float64(-i) },
		"pipe organ": func(i, n int) float64 { return float64(min(i, n-i)) },
		"saw":        func(i, _ int) float64 { return float64(i % 13) },
	}
	for name, shape := range shapes {
		for range 300 {
			n := rng.IntN(300)
			items := make([]found, n)
			for i := range items {
				items[i] = found{text: strconv.Itoa(i), meters: shape(i, n)}
			}
			want := slices.Clone(items)
			slices.SortFunc(want, func(a, b found) int { return byDistance(a.meters, b.meters) })
			k, luck := rng.IntN(n+1), rng.IntN(40)
			selectLucky(items, k, byDistance, luck)
			for i := range k {
				if items[i].meters != want[i].meters {
					t.Fatalf("%s, %d of %d: %v at %d, want %v", name, k, n, items[i].meters, i, want[i].meters)
				}
			}
			seen := map[string]bool{}
			for _, it := range items {
				seen[it.text] = true
			}
			if len(seen) != n {
				t.Fatalf("%s: %d of %d are left", name, len(seen), n)
			}
		}
	}
}

// TestSelectIsNotSquare: an input built against the pivots costs no more than a sort.
func TestSelectIsNotSquare(t *testing.T) {
	const n = 1 << 14
	// An adversary fixes the values only when they are compared (M. D. McIlroy, "A Killer Adversary for Quicksort",
	// 1999).
	values, solid, candidate := make([]int, n), 0, 0
	for i := range values {
		values[i] = n
	}
	items := make([]found, n)
	for i := range items {
		items[i].meters = float64(i)
	}
	comparisons := 0
	selectFirst(items, n-1, func(a, b float64) int {
		comparisons++
		x, y := int(a), int(b)
		if values[x] == n && values[y] == n {
			if x == candidate {
				values[x] = solid
			} else {
				values[y] = solid
			}
			solid++
		}
		if values[x] == n {
			candidate = x
		} else if values[y] == n {
			candidate = y
		}
		return values[x] - values[y]
	})
	if comparisons > 100*n {
		t.Errorf("%d items cost %d comparisons", n, comparisons)
	}
}
