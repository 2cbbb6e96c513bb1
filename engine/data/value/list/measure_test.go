package list_test

import (
	"bytes"
	"testing"

	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// TestMeasure: the reported size of a freed list is its real size, also if some elements at its ends differ from the
// others.
func TestMeasure(t *testing.T) {
	large, small := bytes.Repeat([]byte("l"), 1<<20), []byte("x")
	for _, c := range []struct {
		name        string
		first, last []byte
		ends, n     int
	}{{"alike", small, small, 1, 200_000}, {"a large head", large, small, 1, 200_000},
		{"both ends", large, large, 1, 200_000}, {"some at both ends", large, large, 5, 200_000},
		{"large ones", large, large, 1, 0}} {
		k, h := open(t)
		empty := h.Used()
		b := list.NewBuilder(k.Store(), list.Limits{Fill: -2})
		for range c.ends {
			b.Push(listpack.Of(c.first))
		}
		for range c.n {
			b.Push(listpack.Of(small))
		}
		for range c.ends {
			b.Push(listpack.Of(c.last))
		}
		k.DB(0).PutRoot([]byte("l"), value.List, value.Quicklist, b.Root(), 0)
		took := h.Used() - empty
		hold := h.Freeze()
		k.DB(0).Delete([]byte("l"))
		if kept := h.Retained(); kept < took*98/100 || kept > took*102/100 {
			t.Errorf("%s: %d bytes are reported as retained, %d are", c.name, kept, took)
		}
		hold.Close()
	}
}
