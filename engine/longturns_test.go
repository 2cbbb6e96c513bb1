package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLongTurns: of any number of turns, the sixteen longest are kept, in order.
func TestLongTurns(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 1000} {
		var l longTurns
		started := time.Now().Add(-time.Hour)
		var all []int64
		for range n {
			cpu := rand.Int64N(100)
			all = append(all, cpu)
			began := int64(59*time.Minute) + cpu*1000
			l.note(started, began, began+int64(time.Second), cpu)
		}
		slices.SortFunc(all, func(a, b int64) int { return int(b - a) })
		list := l.list()
		if len(list) != min(n, 16) {
			t.Fatalf("%d of %d turns", len(list), n)
		}
		for i, x := range list {
			if int64(x.CPU) != all[i] || x.Began != started.UnixMicro()+int64(59*time.Minute/time.Microsecond)+all[i] ||
				x.Wall != time.Second {
				t.Errorf("of %d, turn %d is %+v, want %d", n, i, x, all[i])
			}
		}
	}
}
