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

	"spindle/engine/command"
)

// TestSortRange: a window is the same as in the sorted whole, and no item is lost, for all kinds of data.
func TestSortRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	compare := func(a, b keyed) int { return cmp.Compare(a.key, b.key) }
	for step := range 3000 {
		n := rng.IntN(400)
		items := make([]keyed, n)
		kinds := 1 + rng.IntN(max(1, n))
		for i := range items {
			switch step % 4 {
			case 0:
				items[i].key = uint64(rng.IntN(kinds))
			case 1:
				items[i].key = uint64(i)
			case 2:
				items[i].key = uint64(n - i)
			case 3:
				items[i].key = uint64(min(i, n-i)) // pipe organ
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

// TestPrefixOrder: comparing prefixes and then texts gives the same order as comparing whole texts.
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

// TestSortRangeWithoutLuck: data built against the pivots costs no more comparisons than a full sort. An adversary
// chooses the values: an element gets the least free value when it is first compared with another undecided one.
func TestSortRangeWithoutLuck(t *testing.T) {
	const n = 4000
	for _, window := range [][2]int{{0, n - 1}, {1, n}, {1, n - 1}, {n / 2, n/2 + 10}} {
		values, items := make([]int, n), make([]keyed, n)
		for i := range items {
			values[i], items[i].key = n, uint64(i)
		}
		next, candidate, comparisons := 0, 0, 0
		settle := func(i int) { values[i], next = next, next+1 }
		sortRange(items, window[0], window[1], func(a, b keyed) int {
			comparisons++
			x, y := int(a.key), int(b.key)
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

// TestRadixSort: keys of any spread are sorted, and equal keys keep their order.
func TestRadixSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for step := range 600 {
		n := rng.IntN(500)
		if step%100 == 0 {
			n = radixMany + rng.IntN(1000)
		}
		all, spread, offset := make([]keyed, n), rng.IntN(65), rng.Uint64()
		for i := range all {
			all[i] = keyed{rng.Uint64()>>spread<<rng.IntN(8) + offset, uint32(i)}
		}
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
		if got := radixSort(&command.Reading{}, all); !slices.Equal(got, want) {
			t.Fatalf("step %d: %d keys", step, n)
		}
	}
}

// TestKeyOrder: keys compare as their numbers do.
func TestKeyOrder(t *testing.T) {
	doubles := []float64{math.Inf(-1), -math.MaxFloat64, -2, -1.5, -1, -0x1p-1022, 0, 0x1p-1022, 0.5, 1, 1 << 53,
		math.MaxFloat64, math.Inf(1)}
	for i, a := range doubles {
		for j, b := range doubles {
			if cmp.Compare(keyOfDouble(a), keyOfDouble(b)) != cmp.Compare(i, j) {
				t.Errorf("%v and %v", a, b)
			}
			if x, y := int64(max(-exactInt, min(exactInt, a))), int64(max(-exactInt, min(exactInt, b))); cmp.Compare(keyOfInt(x),
				keyOfInt(y)) != cmp.Compare(x, y) {
				t.Errorf("%d and %d", x, y)
			}
		}
	}
	if keyOfDouble(math.Copysign(0, -1)) != keyOfDouble(0) {
		t.Error("-0 is not 0")
	}
}

// TestWeight: numbers are read as strtod reads them, except for those that strtod reports as out of range.
func TestWeight(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"", 0, true}, {"3", 3, true}, {" \t1.5", 1.5, true}, {"1 ", 0, false}, {"+3", 3, true}, {"0x10", 16, true},
		{".5", 0.5, true}, {"1e1", 10, true},
		{"007", 7, true}, {"inf", math.Inf(1), true}, {"-Infinity", math.Inf(-1), true}, {"nan", 0, false}, {"abc", 0, false},
		{"1\x00abc", 1, true}, {"\x00", 0, true},
		{"1e309", 0, false}, {"5e-324", 0, false}, {"0e999", 0, true}, {"2.2250738585072014e-308", 0x1p-1022, true},
		{" ", 0, false},
	} {
		if got, ok := weight(c.text); ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %v, %t", c.text, got, ok)
		}
	}
}

// BenchmarkSortRange sorts a window of ten elements out of many. Watch ns/op: a small window costs a few comparisons an
// element.
func BenchmarkSortRange(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, window := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) {
			items, work := make([]keyed, 100_000), make([]keyed, 100_000)
			for i := range items {
				items[i].key = rng.Uint64()
			}
			for b.Loop() {
				copy(work, items)
				sortRange(work, 0, window, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
			}
		})
	}
}
