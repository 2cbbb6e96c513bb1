package zset

import (
	"fmt"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Check returns an error if a live sorted set breaks zset.Z1 to zset.Z3 or a rule of its encoding.
func Check(h *memory.Heap, v value.Value) error {
	if lp := v.Packed(); lp != nil {
		if v.Encoding() != value.Listpack {
			return fmt.Errorf("a listpack is called %s", v.Encoding())
		}
		if err := listpack.Validate(lp, true, nil); err != nil {
			return err
		}
		return checkOrder(v)
	}
	if v.Encoding() != value.SkipList {
		return fmt.Errorf("a skiplist is called %s", v.Encoding())
	}
	r := rootAt(v.Root())
	t := table.Open(h, table.Scored, &r.members, false)
	if err := t.Check(); err != nil {
		return err
	}
	o := tree.OpenRecords(h, value.KindTree, r.order, recordBytes, false)
	if err := o.Check(func(a, b uint64) int { return compare(table.ScoredKey(memory.Ref(a)), b) }); err != nil {
		return err
	}
	if t.Len() != int(o.Len()) {
		return fmt.Errorf("zset.Z3: %d members, %d records", t.Len(), o.Len())
	}
	var c tree.Cursor
	for ok := o.First(&c); ok; ok = c.Next() {
		ref := memory.Ref(c.Record()[1])
		if word(table.Score(ref)) != c.Record()[0] {
			return fmt.Errorf("zset.Z3: %q has score %v and word %x", table.ScoredKey(ref), table.Score(ref), c.Record()[0])
		}
		if _, found := t.Find(table.Hash(table.ScoredKey(ref)), table.ScoredKey(ref)); found != ref {
			return fmt.Errorf("zset.Z3: %q is in block %x, its record leads to %x", table.ScoredKey(ref), found, ref)
		}
	}
	return checkOrder(v)
}

func checkOrder(v value.Value) (err error) {
	var last []byte
	var score float64
	n := 0
	Each(v, 0, Len(v), false, func(m listpack.Element, x float64) bool {
		text := m.Append(nil)
		if n > 0 && (x < score || x == score && string(text) <= string(last)) {
			err = fmt.Errorf("zset.Z1: %q %v comes after %q %v", text, x, last, score)
		}
		last, score = text, x
		n++
		return err == nil
	})
	if err == nil && n != Len(v) {
		err = fmt.Errorf("%d members, %d passed", Len(v), n)
	}
	return err
}
