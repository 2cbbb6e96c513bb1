package hash

import (
	"fmt"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// Check returns an error if a live hash breaks hash.H1, hash.H2 or a rule of its encoding.
func Check(h *memory.Heap, v value.Value) error {
	lp := v.Packed()
	if lp == nil {
		t := table.Open(h, table.Field, &rootAt(v.Root()).fields, false)
		return t.Check()
	}
	if listpack.Bytes(lp) != len(lp) {
		return fmt.Errorf("a listpack of %d bytes in %d", listpack.Bytes(lp), len(lp))
	}
	if err := listpack.Validate(lp, true, nil); err != nil {
		return err
	}
	if n := listpack.Count(lp); n%per(v.Encoding()) != 0 {
		return fmt.Errorf("%d elements in a %s", n, v.Encoding())
	}
	last, none := int64(0), false
	fields := map[string]bool{}
	var err error
	All(v, func(field, _ listpack.Element, deadline int64) bool {
		f := string(field.Append(nil))
		switch {
		case fields[f]:
			err = fmt.Errorf("hash.H2: field %q twice", f)
		case deadline != 0 && (none || deadline < last):
			err = fmt.Errorf("hash.H1: deadline %d of %q after %d", deadline, f, last)
		}
		none, last = none || deadline == 0, max(last, deadline)
		fields[f] = true
		return true
	})
	return err
}
