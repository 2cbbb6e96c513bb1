package tree

import (
	"cmp"
	"math/rand/v2"
	"testing"
	"time"

	"spindle/internal/invariant"
)

// TestBytesPerRecord inserts at random. A record of 16 bytes may cost 19 bytes at most, including its share of nodes
// and free room.
func TestBytesPerRecord(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	h := newHeap(t)
	tree := OpenRecords(h, testKind, State{}, 16, false)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		tree.Insert([]uint64{rng.Uint64(), uint64(i)}, nil)
	}
	if err := tree.Check(nil); err != nil {
		t.Fatal(err)
	}
	each := float64(h.Used()) / float64(n)
	t.Logf("%d records: %.2f bytes each, leaves %.2f full, height %d",
		n, each, float64(n)/float64(tree.Leaves()*mostRecords(16)), tree.height)
	if each > 19 {
		t.Errorf("a record costs %.2f bytes", each)
	}
}

// TestAllocs changes and reads trees without a Go allocation, with a tie that captures a variable.
func TestAllocs(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	h := newHeap(t)
	state := State{}
	rng := rand.New(rand.NewPCG(1, 1))
	grow := OpenRecords(h, testKind, state, 16, false)
	for i := range uint64(20_000) {
		grow.Insert([]uint64{i % 100, i * 2}, nil)
	}
	state = grow.State
	n := testing.AllocsPerRun(2000, func() {
		tree := OpenRecords(h, testKind, state, 16, false)
		score, member := rng.Uint64N(100), rng.Uint64N(1<<40)|1
		tie := func(word1 uint64) int { return cmp.Compare(member, word1) }
		tree.Insert([]uint64{score, member}, tie)
		var c Cursor
		tree.Find(&c, Probe{Word0: score, Word1: member, Tie: tie})
		rank := c.Rank()
		tree.Replace(&c, []uint64{score, member})
		tree.SeekGE(&c, Probe{Word0: score})
		c.Next()
		c.Prev()
		tree.At(&c, rank)
		sum := uint64(0)
		tree.DeleteRange(&c, 1, func(record []uint64) { sum += record[0] })
		state = tree.State
	})
	if n != 0 {
		t.Errorf("%v allocations by records", n)
	}
	list := State{}
	n = testing.AllocsPerRun(2000, func() {
		tree := OpenBlocks(h, testKind, list, false)
		var p Path
		tree.LastLeaf(&p)
		tree.InsertAfter(&p, tree.NewLeaf(40), 3, Key{})
		tree.LeafAt(&p, rng.Uint64N(tree.Len()))
		tree.Writable(&p, 16, 64)
		tree.SetCount(&p, 2)
		if tree.Len() > 1000 {
			tree.LeafAt(&p, 100)
			tree.Remove(&p)
		}
		list = tree.State
	})
	if n != 0 {
		t.Errorf("%v allocations by blocks", n)
	}
}

// TestCutIsShort cuts some millions of elements off each end of a list of ten million. Each cut takes well under 100
// µs.
func TestCutIsShort(t *testing.T) {
	const n, limit = 80_000, 500 * time.Microsecond // n: leaves
	for _, view := range []bool{false, true} {
		best := time.Hour
		for try := 0; try < 3 || try < 20 && best > limit; try++ { // other work on the host lengthens some of them
			h := newHeap(t)
			tree := OpenBlocks(h, testKind, State{}, false)
			var p Path
			for range n {
				tree.InsertAfter(&p, tree.NewLeaf(64), 128, Key{})
			}
			if view {
				defer h.Freeze().Close()
			}
			start := time.Now()
			tree.LeafAt(&p, 2*tree.Len()/3)
			tree.CutFront(&p)
			tree.LeafAt(&p, tree.Len()/2)
			tree.CutBack(&p)
			best = min(best, time.Since(start))
			if err := tree.Check(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("view=%t: %v for two cuts", view, best)
		if best > limit {
			t.Errorf("view=%t: two cuts took %v", view, best)
		}
	}
}
