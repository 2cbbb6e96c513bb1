package keys

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestSortRange: a window of the elements is as if all had been put in order, and nothing is lost; whatever the data, and however often
// elements come twice.
func TestSortRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	compare := func(a, b item) int { return cmp.Compare(a.score, b.score) }
	for step := range 3000 {
		n := rng.IntN(400)
		items := make([]item, n)
		kinds := 1 + rng.IntN(max(1, n))
		for i := range items {
			switch step % 4 {
			case 0:
				items[i].score = float64(rng.IntN(kinds))
			case 1:
				items[i].score = float64(i)
			case 2:
				items[i].score = float64(-i)
			case 3:
				items[i].score = float64(min(i, n-i)) // an organ pipe
			}
		}
		want := slices.Clone(items)
		slices.SortFunc(want, compare)
		from := rng.IntN(n + 1)
		to := from + rng.IntN(n-from+1)
		sortRange(items, from, to, compare)
		if !slices.Equal(items[from:to], want[from:to]) {
			t.Fatalf("step %d: elements %d to %d of %d", step, from, to, n)
		}
		slices.SortFunc(items, compare)
		if !slices.Equal(items, want) {
			t.Fatalf("step %d: elements were lost", step)
		}
	}
}

// TestPrefixOrder: the first bytes behind what texts have in common, and then the texts, order them as the texts alone do.
func TestPrefixOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		head := strings.Repeat("p", rng.IntN(12))
		texts := make([]string, 1+rng.IntN(20))
		for i := range texts {
			tail := make([]byte, rng.IntN(14))
			for j := range tail {
				tail[j] = []byte{0, 0, 'a', 'b', 0xFF}[rng.IntN(5)]
			}
			texts[i] = head + string(tail)
		}
		common := texts[0]
		for _, x := range texts {
			common = commonPrefix(common, x)
		}
		for _, a := range texts {
			if !strings.HasPrefix(a, common) {
				t.Fatalf("%q does not begin with %q", a, common)
			}
			for _, b := range texts {
				n := cmp.Compare(firstEight(a[len(common):]), firstEight(b[len(common):]))
				if want := strings.Compare(a, b); n != 0 && n != want {
					t.Fatalf("%q and %q: %d, want %d", a, b, n, want)
				}
			}
		}
	}
}

// TestSortRangeWithoutLuck: elements that are made to spoil every parting cost no more comparisons than a sort of all. What makes them up
// goes by what is compared: an element gets its value, the least that is left, when it has been compared with another that has none.
func TestSortRangeWithoutLuck(t *testing.T) {
	const n = 4000
	for _, window := range [][2]int{{0, n - 1}, {1, n}, {1, n - 1}, {n / 2, n/2 + 10}} {
		values, items := make([]int, n), make([]item, n)
		for i := range items {
			values[i], items[i].score = n, float64(i)
		}
		next, candidate, comparisons := 0, 0, 0
		settle := func(i int) { values[i], next = next, next+1 }
		sortRange(items, window[0], window[1], func(a, b item) int {
			comparisons++
			x, y := int(a.score), int(b.score)
			if x != y && values[x] == n && values[y] == n {
				if x == candidate {
					settle(x)
				} else {
					settle(y)
				}
			}
			if values[x] == n {
				candidate = x
			} else if values[y] == n {
				candidate = y
			}
			return cmp.Compare(values[x], values[y])
		})
		if most := 6 * n * bits.Len(n); comparisons > most {
			t.Errorf("elements %d to %d of %d: %d comparisons, more than %d", window[0], window[1], n, comparisons, most)
		}
	}
}

// TestWeight: numbers as strtod reads them, but for what it calls out of range.
func TestWeight(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"", 0, true}, {"3", 3, true}, {" \t1.5", 1.5, true}, {"1 ", 0, false}, {"+3", 3, true}, {"0x10", 16, true}, {".5", 0.5, true}, {"1e1", 10, true},
		{"007", 7, true}, {"inf", math.Inf(1), true}, {"-Infinity", math.Inf(-1), true}, {"nan", 0, false}, {"abc", 0, false}, {"1\x00abc", 1, true}, {"\x00", 0, true},
		{"1e309", 0, false}, {"5e-324", 0, false}, {"0e999", 0, true}, {"2.2250738585072014e-308", 0x1p-1022, true}, {" ", 0, false},
	} {
		if got, ok := weight(c.text); ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %v, %t", c.text, got, ok)
		}
	}
}

// BenchmarkSortRange puts ten elements of many in order. Watch ns/op: a small window costs a few comparisons an element.
func BenchmarkSortRange(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, window := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) {
			items, work := make([]item, 100_000), make([]item, 100_000)
			for i := range items {
				items[i].score = rng.Float64()
			}
			o := ordering{}
			for b.Loop() {
				copy(work, items)
				sortRange(work, 0, window, o.compare)
			}
		})
	}
}
