package stream_test

import (
	"fmt"
	"testing"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/stream"
)

// TestMeasure: the reported size of a freed stream is close to its real size, and is computed from a few of its nodes
// and groups.
func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		entries, groups int
		first           int // bytes of the first entry's value
		messages        int // of producers
	}{{1, 0, 0, 0}, {0, 6, 0, 0}, {20_000, 0, 0, 0}, {20_000, 40, 0, 0}, {20_000, 0, 1 << 20, 0}, {1, 0, 0, 5000}} {
		m := newModel(t, 1)
		heap := m.k.Heap()
		reclaim(m.k, 1000)
		empty := heap.Used()
		e := m.db.CreateRoot([]byte("s"), value.Stream, value.StreamTree, stream.New(m.k.Store()))
		for i := range c.entries {
			w := stream.Edit(e)
			text := []byte("a value of some bytes")
			if i == 0 && c.first > 0 {
				text = make([]byte, c.first)
			}
			w.Append(ids{uint64(i + 1), 0}, [][]byte{[]byte("field"), text}, stream.Limits{NodeBytes: 4096, NodeEntries: 100})
		}
		for i := range c.groups {
			w := stream.Edit(e)
			w.CreateGroup(fmt.Appendf(nil, "group %02d", i), ids{}, 0)
		}
		for i := range c.messages {
			w := stream.Edit(e)
			w.Remember(fmt.Appendf(nil, "producer %d", i%50), fmt.Appendf(nil, "%d", i), ids{1, 1}, 1000,
				stream.Recall{Seconds: 9, Most: 99})
		}
		took := heap.Used() - empty
		hold := heap.Freeze()
		m.db.Delete([]byte("s"))
		if kept := heap.Retained(); kept < took*7/10 || kept > took*13/10+512 {
			t.Errorf("%d entries, %d groups and %d messages: %d bytes are reported as retained, %d are", c.entries, c.groups,
				c.messages, kept, took)
		}
		hold.Close()
		reclaim(m.k, 1000)
		var s memory.Stats
		if heap.Stats(&s); heap.Retained() != 0 || s.Retired != 0 {
			t.Errorf("%d bytes are reported as retained without a view", heap.Retained())
		}
	}
}
