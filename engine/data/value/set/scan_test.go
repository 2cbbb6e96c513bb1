package set_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
	"spindle/internal/invariant"
)

// TestScanWhileChanging: a scan yields every member that is present all the time, however the set grows, shrinks and
// changes its encoding meanwhile.
func TestScanWhileChanging(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	l := set.Limits{IntSet: 512, Entries: 128, Value: 64}
	rounds := 60
	if invariant.Enabled {
		rounds = 10
	}
	for round := range rounds {
		_, k := open(t)
		db, key := k.DB(0), []byte("s")
		stay, others := 1+rng.IntN(2000), rng.IntN(5000)
		var b set.Builder
		b.Begin(k.Store(), l, value.IntSet, 0)
		for i := range stay {
			b.Add(set.ElementOf(strconv.AppendInt(nil, int64(i), 10)))
		}
		word := func(i int) [][]byte { return [][]byte{fmt.Appendf(nil, "%[2]*[1]d", -i-1, round%8)} } // integers, then texts
		shrinks := round%2 == 1
		if shrinks {
			for i := range others {
				b.Add(set.ElementOf(word(i)[0]))
			}
		}
		if packed := b.Packed(); packed != nil {
			db.PutPacked(key, value.Set, b.Encoding(), packed, 0)
		} else {
			db.PutRoot(key, value.Set, b.Encoding(), b.Root(), 0)
		}
		seen := map[string]bool{}
		for cursor, first, i := uint64(0), true, 0; first || cursor != 0; first = false {
			r := set.Read(db.Peek(key))
			cursor = r.Scan(cursor, 1+rng.IntN(30), func(e set.Element) { seen[string(e.Append(nil))] = true })
			for range rng.IntN(400) {
				switch i++; { // it must end: the set could grow faster than it is scanned
				case i >= others:
				case shrinks:
					set.Remove(db.Edit(key), word(i))
				default:
					set.Add(db.Edit(key), word(i), l)
				}
			}
		}
		for i := range stay {
			if !seen[strconv.Itoa(i)] {
				t.Fatalf("round %d: member %d of %d was never passed", round, i, stay)
			}
		}
	}
}
