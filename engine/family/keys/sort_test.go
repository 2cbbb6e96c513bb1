package keys

import (
	"testing"

	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
)

// TestSortReads: a window of an unsorted set costs a walk to its end, and one of an unsorted list does not.
func TestSortReads(t *testing.T) {
	db := newCore(t).Space.DB(0)
	integers, list := intset.AppendEmpty(nil), listpack.AppendEmpty(nil)
	for i := range int64(100) {
		integers, _ = intset.Add(integers, i)
		list = listpack.Close(listpack.AppendEntry(list[:len(list)-1], listpack.OfInt(i)), 0, int(i)+1)
	}
	db.PutPacked([]byte("set"), value.Set, value.IntSet, integers, 0)
	db.PutPacked([]byte("list"), value.List, value.Listpack, list, 0)
	o := sortOptions{unsorted: true, offset: 90, count: 5}
	for key, want := range map[string]int{"set": 95, "list": 5} {
		if n := o.reads(db.Peek([]byte(key))); n != want {
			t.Errorf("the window of the %s costs %d elements, want %d", key, n, want)
		}
	}
}
