package process

import (
	"sync/atomic"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestCollector: a heap that stays large is collected once, and again only when it has doubled. A short burst is
// left to Go's own collector. With maxmemory, a smaller heap counts as large.
func TestCollector(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name  string
		limit int64
		sizes []int64 // one per second
		left  int64   // the size after a collection
		want  int64   // the number of collections
	}{
		{"small", 0, []int64{20 * mb, 30 * mb, 31 * mb, 20 * mb}, 3 * mb, 0},
		{"one look", 0, []int64{20 * mb, 300 * mb, 20 * mb, 300 * mb, 20 * mb}, 3 * mb, 0},
		{"a burst", 0, []int64{300 * mb, 300 * mb, 3 * mb, 3 * mb, 3 * mb}, 3 * mb, 1},
		{"much that lives", 0, []int64{300 * mb, 300 * mb, 300 * mb, 350 * mb, 400 * mb, 410 * mb}, 290 * mb, 1},
		{"it doubles", 0, []int64{300 * mb, 300 * mb, 300 * mb, 700 * mb, 700 * mb}, 290 * mb, 2},
		{"a small maxmemory", 100 * mb, []int64{20 * mb, 20 * mb, 3 * mb}, 3 * mb, 1},
		{"a tiny maxmemory", mb, []int64{7 * mb, 7 * mb, 7 * mb}, 3 * mb, 0},
		{"a large maxmemory", 100 << 30, []int64{31 * mb, 31 * mb, 31 * mb}, 3 * mb, 0},
	} {
		var size, collections atomic.Int64
		g := &Collector{size: size.Load}
		g.collect = func() { collections.Add(1); size.Store(c.left) }
		for _, n := range c.sizes {
			size.Store(n)
			for range collectLook {
				g.Tick(c.limit)
			}
			testkit.Await(t, 10*time.Second, "the collection ends", func() bool { return !g.underway.Load() })
		}
		if got := collections.Load(); got != c.want {
			t.Errorf("%s: %d collections, want %d", c.name, got, c.want)
		}
	}
	if n := goHeapSize(); n < 1<<16 || n > 8<<30 {
		t.Errorf("the heap of this process: %d bytes", n)
	}
}
