package proxy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"spindle/proxy/topology"
)

// TestScanCursor: a cursor has all its parts, and none on the way is 0.
func TestScanCursor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		now := rng.Int64N(1 << 40)
		c := scanCursor{inner: rng.Uint64N(1 << innerBits), place: rng.IntN(1 << placeBits), stamp: stampOf(now),
			pass: rng.IntN(passMost + 1)}
		n := c.number()
		if n == 0 || n>>63 != 0 || readCursor(n) != c {
			t.Fatalf("%+v becomes %x, and %+v", c, n, readCursor(n))
		}
		age := rng.Int64N((stampMod - 1) * stampUnit)
		if at := began(c.stamp, now+age); at > now || at <= now-stampUnit {
			t.Fatalf("a scan of %d began at %d, %d s later", now, at, age)
		}
	}
}

// TestScanOrder: no two shards have the same place.
func TestScanOrder(t *testing.T) {
	for _, n := range []int{1, 3, 100, 1000, 1 << placeBits} {
		var shards []*topology.Shard
		for i := range n {
			shards = append(shards, &topology.Shard{ID: fmt.Sprintf("%x", i*7919), Primary: fmt.Sprint("127.0.0.1:", i)})
		}
		s := topology.NewStatic(16384)
		if err := s.Set(shards, topology.EqualRanges(16384, n)); err != nil {
			t.Fatal(err)
		}
		w := &worker{topology: s.Current()}
		o := w.scanOrder()
		if len(o.places) != n || !slices.IsSorted(o.places) || len(slices.Compact(slices.Clone(o.places))) != n ||
			o.places[n-1] >= 1<<placeBits {
			t.Errorf("%d shards have the places %v", n, o.places)
		}
		for i, place := range o.places {
			if at, exact := o.at(place); at != i || !exact {
				t.Errorf("the place %d is that of shard %d", place, at)
			}
		}
	}
}
