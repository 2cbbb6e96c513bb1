package keyspace

import (
	"fmt"
	"os"
	"testing"
)

// TestBytesPerKey measures the full cost of a key of 16 bytes. SPINDLE_KEYS sets the number of keys, for example
// 10000000.
func TestBytesPerKey(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	if s := os.Getenv("SPINDLE_KEYS"); s != "" {
		fmt.Sscan(s, &n)
	}
	for _, c := range []struct {
		name     string
		limit    float64
		volatile bool
		integer  bool
	}{{"32-byte value", 78, false, false}, {"with TTL", 86, true, false}, {"integer", 50, false, true}} {
		t.Run(c.name, func(t *testing.T) {
			k := open(t)
			db := k.DB(0)
			empty := k.heap.Used()
			val := []byte("0123456789abcdef0123456789abcdef")
			var key []byte
			for i := range n {
				key = fmt.Appendf(key[:0], "key:%012d", i)
				deadline := int64(0)
				if c.volatile {
					deadline = k.Now() + 100_000 + int64(i)
				}
				if c.integer {
					db.SetInt(key, int64(i)*1_000_003, deadline)
				} else {
					db.SetString(key, val, deadline)
				}
			}
			each := float64(k.heap.Used()-empty) / float64(n)
			sh := db.d.t.Shape()
			t.Logf("%d keys: %.2f bytes a key, %.2f of them the table's; %.3f of the slots used, %.3f displaced", n, each,
				float64(sh.Bytes)/float64(n), float64(sh.Keys)/float64(sh.Buckets*7), float64(sh.Displaced)/float64(sh.Keys))
			if each > c.limit {
				t.Errorf("%.2f bytes a key, %.0f is the goal", each, c.limit)
			}
		})
	}
}

// TestFlushUnderPin: keys flushed while a string is being read count as leaving at once (Heap.Leaving), and only once.
func TestFlushUnderPin(t *testing.T) {
	k := open(t)
	db := k.DB(0)
	fill := func(db *DB) {
		for i := range 1000 {
			db.SetString(fmt.Appendf(nil, "key:%d", i), []byte("0123456789abcdef0123456789abcdef"), 0)
		}
	}
	empty := k.heap.Used()
	fill(db)
	db.SetString([]byte("long"), make([]byte, 1<<20), 0)
	release := db.Pin(db.Lookup([]byte("long")))
	near := func(what string, got, want int64) {
		t.Helper()
		if got < want*9/10 || got > want*11/10 {
			t.Errorf("%s: %d bytes are leaving, want about %d", what, got, want)
		}
	}
	all := k.heap.Used() - empty
	db.Flush()
	near("flushed", k.heap.Leaving(), all)
	fill(db)
	more := k.heap.Used() - empty - all
	near("filled again", k.heap.Leaving(), all)
	db.Flush()
	near("flushed again", k.heap.Leaving(), all+more)
	release()
	k.SetNow(k.Now())
	near("released", k.heap.Leaving(), all+more)
	near("released", k.heap.Reclaiming(), all+more)
	reclaim(k)
	if n := k.heap.Leaving(); n != 0 || k.heap.Used() != empty {
		t.Errorf("%d bytes are leaving, %d used, %d before", n, k.heap.Used(), empty)
	}
}
