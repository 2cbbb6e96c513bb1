package set

import (
	"fmt"

	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// Check returns an error if a live set breaks a rule of its encoding.
func Check(h *memory.Heap, v value.Value) error {
	b := v.Packed()
	switch {
	case b == nil && v.Encoding() == value.HashTable:
		t := table.Open(h, table.Member, &rootAt(v.Root()).members, false)
		return t.Check()
	case b == nil:
		return fmt.Errorf("a %s in a structure", v.Encoding())
	case v.Encoding() == value.IntSet:
		return intset.Validate(b, true)
	}
	return listpack.Validate(b, true, nil)
}

// Room returns how many cells s has for the members that it has drawn.
func (s *Sampler) Room() int { return cap(s.seen) }
