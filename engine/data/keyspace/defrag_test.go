package keyspace

import (
	"fmt"
	"testing"
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/hash"
)

// TestDefragmentLarge: all fields of a hash that moves in several steps move, with and without hash slots.
func TestDefragmentLarge(t *testing.T) {
	for _, slots := range []bool{false, true} {
		h, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		k := New(h, Options{StartMs: 1_000_000, Seed: 1, Slots: slots})
		db := k.DB(0)
		for i := range 20_000 { // so that the table has many segments
			db.SetInt(fmt.Appendf(nil, "key:%d", i), int64(i), 0)
		}
		b := hash.NewBuilder(k.Store(), 0)
		for i := range 3000 {
			b.Add(fmt.Appendf(nil, "field:%d", i), []byte("some value"), 0)
		}
		db.PutRoot([]byte("large"), value.Hash, value.HashTable, b.Root(), 0)
		places := func() map[unsafe.Pointer]bool {
			at := map[unsafe.Pointer]bool{}
			hash.All(db.Peek([]byte("large")), func(_, val listpack.Element, _ int64) bool {
				at[unsafe.Pointer(unsafe.SliceData(val.Bytes()))] = true
				return true
			})
			return at
		}
		before := places()
		for h.Evacuate(0); h.Evacuation() != memory.EvacuationMoves; {
			h.StepEvacuation()
		}
		var d Defrag
		for !k.Defragment(&d, func() bool { return true }) {
		}
		h.EndEvacuation()
		stayed := 0
		for at := range places() {
			if before[at] {
				stayed++
			}
		}
		if stayed > 0 {
			t.Errorf("slots %t: %d of %d fields have not moved", slots, stayed, len(before))
		}
	}
}
