package cluster

import (
	"sync/atomic"
	"testing"

	"spindle/internal/slots"
)

// TestOwnerReadsOneMap: a thousand slots change their owner together, again and again. At each moment one node owns
// them all.
func TestOwnerReadsOneMap(t *testing.T) {
	list := make([]uint16, 1000)
	var maps []*slots.Map
	for _, id := range []string{"a", "b"} {
		n := &slots.Node{ID: id}
		d := slots.NewDraft(n)
		for i := range list {
			list[i] = uint16(i)
			d.Assign(list[i], n)
		}
		maps = append(maps, d.Done())
	}
	current := &slots.Current{}
	current.Store(maps[0])
	c := &Cluster{parts: Parts{Current: current}}
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		for i := 0; !stop.Load(); i++ {
			current.Store(maps[i%2])
		}
		close(ended)
	}()
	seen := map[string]bool{}
	for calls := 0; calls < 300 || len(seen) < 2; calls++ {
		seen[c.Owner(list...)] = true
	}
	stop.Store(true)
	<-ended
	if seen[""] {
		t.Error("at some moment no node owned all slots")
	}
	d := slots.NewDraft(&slots.Node{ID: "a"})
	d.Assign(0, &slots.Node{ID: "a"})
	d.Assign(1, &slots.Node{ID: "b"})
	current.Store(d.Done())
	for want, list := range map[string][]uint16{"a": {0}, "b": {1}, "": {0, 1}} {
		if owner := c.Owner(list...); owner != want {
			t.Errorf("Owner(%v) is %q, want %q", list, owner, want)
		}
	}
}
