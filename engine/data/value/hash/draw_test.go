package hash_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/hash"
	"spindle/internal/invariant"
)

// numbered makes a hash of n fields named 0 to n-1. Fields with a number below volatile have a deadline.
func numbered(k *keyspace.Keyspace, key string, n, volatile int, l hash.Limits) value.Value {
	var pairs [][]byte
	for i := range n {
		name := strconv.AppendInt(nil, int64(i), 10)
		pairs = append(pairs, name, name)
	}
	e := k.DB(0).Create([]byte(key), value.Hash, value.Listpack, hash.FillBytes(pairs[:2]))
	hash.Fill(e, pairs[:2], l)
	for i := 2; i < len(pairs); i += 2 {
		hash.Set(e, pairs[i], pairs[i+1], false, l)
	}
	if volatile > 0 {
		hash.AllowDeadlines(e)
	}
	for i := range volatile {
		hash.Expire(e, pairs[2*i], 2_000_000+int64(i), hash.Always, false)
	}
	return e.Value()
}

// TestFair: each field is drawn about equally often, in every encoding and by every function that draws. Chi-square of
// 49 degrees of freedom is above 100 once in 40 000 times; the seed is fixed.
func TestFair(t *testing.T) {
	const n = 50
	rounds := 4000
	if invariant.Enabled {
		rounds = 800
	}
	for _, c := range []struct {
		want     value.Encoding
		volatile int
		limits   hash.Limits
	}{{value.Listpack, 0, usual}, {value.ListpackEx, 20, usual}, {value.HashTable, 0, hash.Limits{}},
		{value.HashTable, 20, hash.Limits{}}, {value.HashTable, 45, hash.Limits{}}} {
		_, k := newSpace(t)
		v := numbered(k, "h", n, c.volatile, c.limits)
		if v.Encoding() != c.want {
			t.Fatalf("%s, want %s", v.Encoding(), c.want)
		}
		fair := func(what string, of, draws int, draw func(hit func(field, _ listpack.Element))) {
			hits := map[string]int{}
			draw(func(field, _ listpack.Element) { hits[string(field.Append(nil))]++ })
			want, chi := float64(draws)/float64(of), 0.0
			for i := range of {
				d := float64(hits[strconv.Itoa(n-of+i)]) - want
				chi += d * d / want
			}
			if chi > max(2*float64(of), 30) || len(hits) != of { // 30: of 4 degrees of freedom
				t.Errorf("%s, %s: chi-square %.1f, %d different", c.want, what, chi, len(hits))
			}
		}
		fair("Random", n, rounds, func(hit func(_, _ listpack.Element)) {
			for range rounds {
				field, val, _ := hash.Random(v, k.Rand())
				hit(field, val)
			}
		})
		for _, few := range []int{1, 3, 25, 49} {
			fair(fmt.Sprint("Sample of ", few), n, rounds*few, func(hit func(_, _ listpack.Element)) {
				for range rounds {
					hash.Sample(v, k.Rand(), few, nil, hit)
				}
			})
			if few < n-c.volatile {
				fair(fmt.Sprint("Sample of ", few, " that live"), n-c.volatile, rounds*few, func(hit func(_, _ listpack.Element)) {
					for range rounds {
						hash.Sample(v, k.Rand(), few, func(deadline int64) bool { return deadline == 0 }, hit)
					}
				})
			}
		}
	}
}

// TestSampleWithFewLive: if nearly all fields are past their deadline, Sample looks at no more fields than a few walks
// would.
func TestSampleWithFewLive(t *testing.T) {
	const n, living = 3000, 4
	_, k := newSpace(t)
	v := numbered(k, "h", n, n-living, hash.Limits{})
	for want := range living + 3 {
		looks, found := 0, map[string]bool{}
		hash.Sample(v, k.Rand(), want, func(deadline int64) bool { looks++; return deadline == 0 },
			func(field, _ listpack.Element) { found[string(field.Append(nil))] = true })
		if len(found) != min(want, living) || looks > 3*n {
			t.Errorf("%d of %d: %d found, %d looked at", want, living, len(found), looks)
		}
	}
}

// TestScanWhileChanging: a scan yields every field that is present all the time, however the hash grows, shrinks and
// changes its encoding meanwhile.
func TestScanWhileChanging(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	rounds := 60
	if invariant.Enabled {
		rounds = 10
	}
	for round := range rounds {
		_, k := newSpace(t)
		key := []byte("h")
		stay := 1 + rng.IntN(2000)
		numbered(k, "h", stay, 0, usual)
		others := rng.IntN(5000)
		word := func(i int) []byte { return fmt.Appendf(nil, "other%d", i) }
		if round%2 == 1 { // begins large and shrinks
			for i := range others {
				hash.Set(k.DB(0).Edit(key), word(i), word(i), false, usual)
			}
		}
		seen := map[string]bool{}
		for cursor, first, i := uint64(0), true, 0; first || cursor != 0; first = false {
			cursor = hash.Scan(k.DB(0).Peek(key), cursor, 1+rng.IntN(30),
				func(field, _ listpack.Element, _ int64) { seen[string(field.Append(nil))] = true })
			for range rng.IntN(400) {
				switch i++; { // it must end: the hash could grow faster than it is scanned
				case i >= others:
				case round%2 == 1:
					hash.Delete(k.DB(0).Edit(key), word(i))
				default:
					hash.Set(k.DB(0).Edit(key), word(i), word(i), false, usual)
				}
			}
			if round%3 == 0 {
				hash.AllowDeadlines(k.DB(0).Edit(key))
			}
		}
		for i := range stay {
			if !seen[strconv.Itoa(i)] {
				t.Fatalf("round %d: field %d of %d was never passed", round, i, stay)
			}
		}
	}
}

// TestExpirePast: ExpirePast removes every field past its deadline, to the millisecond, and no other.
func TestExpirePast(t *testing.T) {
	for _, l := range []hash.Limits{usual, {}} {
		for now := int64(2_000_000); now <= 2_000_060; now++ {
			_, k := newSpace(t)
			numbered(k, "h", 60, 50, l)
			e := k.DB(0).Edit([]byte("h"))
			gone := map[string]bool{}
			next, n := hash.ExpirePast(e, now, func(field []byte) { gone[string(field)] = true })
			want := map[string]bool{}
			for i := range min(now-2_000_000, 50) {
				want[strconv.Itoa(int(i))] = true
			}
			if !maps.Equal(gone, want) || n != len(want) || hash.Len(e.Value()) != 60-n {
				t.Fatalf("at %d: %d fields went, %d told, %d are left", now, n, len(gone), hash.Len(e.Value()))
			}
			if n == 50 && next != 0 || n < 50 && (next == 0 || next > 2_000_000+int64(n)) {
				t.Fatalf("at %d, when %d went, the next is due at %d", now, n, next)
			}
			if err := hash.Check(k.Heap(), e.Value()); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, k := newSpace(t)
	numbered(k, "h", 50, 50, hash.Limits{})
	e := k.DB(0).Edit([]byte("h"))
	if next, n := hash.ExpirePast(e, 2_000_050, func([]byte) {}); next != hash.Emptied || n != 50 {
		t.Errorf("%d went of all, and then %d", n, next)
	}
}

// TestExpireDueOfPostponedFields: ExpireDue looks at a limited number of fields, even if all of them got later
// deadlines.
func TestExpireDueOfPostponedFields(t *testing.T) {
	const n, budget = 5000, 16
	_, k := newSpace(t)
	numbered(k, "h", n, n, hash.Limits{})
	e := k.DB(0).Edit([]byte("h"))
	for i := range n {
		if o := hash.Expire(e, []byte(strconv.Itoa(i)), 9_000_000, hash.Always, false); o != hash.Done {
			t.Fatal(o)
		}
	}
	const now = 3_000_000
	calls := 0
	for next := int64(now); next <= now; calls++ {
		var gone int
		if next, gone = hash.ExpireDue(e, now, budget, func([]byte) {}); gone != 0 {
			t.Fatalf("%d fields went", gone)
		}
	}
	if least := n / (16 * budget); calls < least {
		t.Errorf("%d fields were looked at in %d calls with a budget of %d", n, calls, budget)
	}
}
