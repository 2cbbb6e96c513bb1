package tree

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

const benchRecords = 1 << 20

// spread turns 0, 1, 2 … into keys in random order, without storing them.
func spread(i uint64) uint64 { return i * 0x9E3779B97F4A7C15 }

func benchTree(b *testing.B) Records {
	tree := OpenRecords(newHeap(b), testKind, State{}, 16, false)
	for i := range uint64(benchRecords) {
		tree.Insert([]uint64{spread(i), i}, nil)
	}
	b.ResetTimer()
	return tree
}

// BenchmarkInsert fills trees of 1 M records. Watch allocs/op: 0, and B/record.
// Compare two commits: go test -run=- -bench=Insert -count=10 ./engine/data/tree | benchstat -
func BenchmarkInsert(b *testing.B) {
	for _, order := range []string{"random", "ascending"} {
		b.Run(order, func(b *testing.B) {
			tree := OpenRecords(newHeap(b), testKind, State{}, 16, false)
			b.ReportAllocs()
			for i := range b.N {
				k := uint64(i) % benchRecords
				if k == 0 {
					b.StopTimer()
					tree.Clear()
					reclaim(tree.heap)
					b.StartTimer()
				}
				if order == "random" {
					k = spread(k)
				}
				tree.Insert([]uint64{k, 0}, nil)
			}
			b.ReportMetric(float64(tree.heap.Used())/float64(tree.Len()), "B/record")
		})
	}
}

// BenchmarkUpdate moves a random record of 1 M to another place, as ZADD does to a member: a Find, a Delete and an
// Insert. With view, one freeze is in effect from the beginning, so that leaves are copied when first written.
func BenchmarkUpdate(b *testing.B) {
	for _, view := range []bool{false, true} {
		b.Run(fmt.Sprintf("view=%t", view), func(b *testing.B) {
			tree := benchTree(b)
			if view {
				defer tree.heap.Freeze().Close()
			}
			b.ReportAllocs()
			var c Cursor
			for i := range b.N {
				k := uint64(i)
				if !tree.Find(&c, Probe{Word0: spread(k), Word1: k}) {
					b.Fatal("lost")
				}
				tree.Delete(&c)
				tree.Insert([]uint64{spread(k + benchRecords), k + benchRecords}, nil)
			}
		})
	}
}

// BenchmarkRead finds random records of 1 M by key, with their ranks, and by rank. It also walks.
func BenchmarkRead(b *testing.B) {
	tree := benchTree(b)
	rng := rand.New(rand.NewPCG(1, 1))
	var c Cursor
	b.Run("find", func(b *testing.B) {
		for range b.N {
			k := rng.Uint64N(benchRecords)
			if !tree.Find(&c, Probe{Word0: spread(k), Word1: k}) {
				b.Fatal("lost")
			}
		}
	})
	b.Run("find+rank", func(b *testing.B) {
		sum := uint64(0)
		for range b.N {
			k := rng.Uint64N(benchRecords)
			tree.Find(&c, Probe{Word0: spread(k), Word1: k})
			sum += c.Rank()
		}
	})
	b.Run("at", func(b *testing.B) {
		for range b.N {
			tree.At(&c, rng.Uint64N(benchRecords))
		}
	})
	b.Run("walk", func(b *testing.B) {
		sum := uint64(0)
		for range b.N {
			if !c.Next() {
				tree.First(&c)
			}
			sum += c.Record()[0]
		}
	})
}

// BenchmarkPop removes the least of a million records, as ZPOPMIN does, and inserts a new greatest record.
func BenchmarkPop(b *testing.B) {
	tree := OpenRecords(newHeap(b), testKind, State{}, 16, false)
	for i := range uint64(benchRecords) {
		tree.Insert([]uint64{i, 0}, nil)
	}
	b.ResetTimer()
	b.ReportAllocs()
	var c Cursor
	for i := range b.N {
		tree.First(&c)
		tree.Delete(&c)
		tree.Insert([]uint64{benchRecords + uint64(i), 0}, nil)
	}
}
