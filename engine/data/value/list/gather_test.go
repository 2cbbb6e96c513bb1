package list_test

import (
	"bytes"
	"slices"
	"strconv"
	"testing"

	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// TestGatherer: a gathered list has the same pieces as one made by pushes of single elements. It is a listpack exactly
// if that one is.
func TestGatherer(t *testing.T) {
	rng := random(t)
	for round := range 300 {
		k, _ := open(t)
		db := k.DB(0)
		limits := list.Limits{Fill: []int{-2, -1, -5, 0, 1, 3, 128, 100_000}[rng.IntN(8)],
			Plain: []int{0, 0, 50, 1 << 20}[rng.IntN(4)]}
		g := list.Gather(limits)
		pushed := list.NewBuilder(k.Store(), limits)
		for i := range 1 + rng.IntN([]int{1, 5, 300, 3000}[rng.IntN(4)]) {
			text := strconv.AppendInt(nil, rng.Int64()>>rng.IntN(64), 10)
			if rng.IntN(3) == 0 {
				n := rng.IntN([]int{10, 80, 9000}[rng.IntN(3)])
				if rng.IntN(4) == 0 { // just below and above what fits a leaf
					n = []int{4096, 8192}[rng.IntN(2)] - 20 + rng.IntN(25)
				}
				text = bytes.Repeat([]byte{byte('a' + i%26)}, n)
			}
			g.Push(k.Store(), text)
			pushed.Push(listpack.Of(text))
		}
		db.PutRoot([]byte("pushed"), value.List, value.Quicklist, pushed.Root(), 0)
		want := db.Lookup([]byte("pushed"))
		if g.Len() != list.Len(want) {
			t.Fatalf("round %d, %+v: %d elements, want %d", round, limits, g.Len(), list.Len(want))
		}
		encoding := value.Quicklist
		if lp := g.Packed(); lp != nil {
			encoding = value.Listpack
			db.PutPacked([]byte("gathered"), value.List, encoding, lp, 0)
		} else {
			db.PutRoot([]byte("gathered"), value.List, encoding, g.Root(k.Store()), 0)
		}
		got := db.Lookup([]byte("gathered"))
		whole := pieces(want)
		if one := len(whole) == 1 && whole[0][0] == 'l' &&
			limits.Whole(len(whole[0])-1, g.Len()); one != (encoding == value.Listpack) {
			t.Fatalf("round %d, %+v: %v of %d pieces", round, limits, encoding, len(whole))
		}
		if got, want := pieces(got), pieces(want); !slices.Equal(got, want) {
			t.Fatalf("round %d, %+v: %d pieces, want %d, or others", round, limits, len(got), len(want))
		}
	}
}

// pieces returns the pieces of a list as text: "l" and a listpack, or "p" and an element.
func pieces(v value.Value) (all []string) {
	list.Leaves(v, func(p list.Piece) bool {
		kind := "l"
		if p.Plain {
			kind = "p"
		}
		all = append(all, kind+string(p.Bytes))
		return true
	})
	return all
}
