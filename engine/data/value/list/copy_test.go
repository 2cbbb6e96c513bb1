package list_test

import (
	"fmt"
	"testing"

	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// TestCopiesAreAsLarge: full leaves that are written to while a view is open take no more room afterwards, with the
// usual limit of 8 KB. They stay small blocks, which are warm while a view is open.
func TestCopiesAreAsLarge(t *testing.T) {
	const n = 100_000
	k, h := open(t)
	db, limits := k.DB(0), list.Limits{Fill: -2}
	e := db.CreateRoot([]byte("l"), value.List, value.Quicklist, list.New(k.Store(), limits))
	for i := range n {
		list.Push(e, limits, list.Tail, [][]byte{fmt.Appendf(nil, "element%07d", i)})
	}
	m := &model{h: h}
	m.drain()
	before := h.Used()
	view := k.Freeze()
	for i := 0; i < n; i += 100 {
		list.Set(db.Edit([]byte("l")), limits, int64(i), fmt.Appendf(nil, "another%07d", i))
	}
	if during := h.Used(); during < before*3/2 {
		t.Fatalf("%d bytes before, %d under the view: not all leaves were copied", before, during)
	}
	view.Close()
	m.drain()
	if after := h.Used(); after > before+before/100 {
		t.Errorf("%d bytes before, %d after", before, after)
	}
}
