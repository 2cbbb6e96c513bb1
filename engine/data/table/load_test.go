package table

import (
	"fmt"
	"maps"
	"testing"

	"spindle/engine/data/memory"
)

// TestAdd: a key is added once, with its tick, while others are removed, the table grows and views open and close. No
// view shows the added key.
func TestAdd(t *testing.T) {
	for _, announced := range []int{0, 20_000, 2_000_000} {
		k := open(t)
		k.table.Reserve(announced)
		there := map[string]bool{}
		var hold *memory.Hold
		var root uint64
		var then map[string]bool
		look := func() {
			n := 0
			Walk(root, 0, ^uint64(0), nil, func(ref memory.Ref) bool {
				if !then[string(k.table.key(ref))] {
					t.Fatalf("%s is in the frozen root", k.table.key(ref))
				}
				n++
				return true
			})
			if n != len(then) {
				t.Fatalf("%d keys are in the frozen root, should be %d", n, len(then))
			}
			hold.Close()
			k.settle()
			hold = nil
		}
		for step := range 41_000 { // the last view is open at the end
			if step%7000 == 5000 {
				hold, root, then = k.h.Freeze(), k.table.Root(), maps.Clone(there)
			} else if step%7000 == 0 && hold != nil {
				look()
			}
			i := k.rng.IntN(20_000)
			key, deadline := fmt.Sprint("key:", i), int64(0)
			if i%3 == 0 {
				deadline = k.table.TickTime(uint32(i + 1))
			}
			if step%4 == 3 {
				if k.drop(key) != there[key] {
					t.Fatalf("%s is there: %t", key, there[key])
				}
				delete(there, key)
				continue
			}
			ref := k.block(key, deadline)
			tick, added := k.table.Add(Hash([]byte(key)), ref, deadline != 0)
			if added == there[key] || added && tick != k.table.Tick(deadline) {
				t.Fatalf("%s: added %t at %d; there before: %t", key, added, tick, there[key])
			}
			if there[key] = true; !added {
				k.h.Free(ref, memory.Keys)
			}
			if step%1000 == 0 {
				k.check()
			}
		}
		k.check()
		look()
		if k.table.Len() != len(there) {
			t.Fatalf("%d keys, should be %d", k.table.Len(), len(there))
		}
		for key := range there {
			if !k.drop(key) {
				t.Fatalf("%s is missing", key)
			}
		}
	}
}
