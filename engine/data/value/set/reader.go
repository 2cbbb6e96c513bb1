package set

import (
	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// A Reader reads a set in any of its encodings, live or frozen. The zero Reader is an empty set.
//
// Lifetime: that of the Value it reads.
type Reader struct {
	enc     value.Encoding
	packed  []byte
	members *table.State // hashtable
}

// Read returns a Reader of v, a set or the zero Value. The zero Value reads as an empty set.
func Read(v value.Value) Reader {
	if !v.Exists() {
		return Reader{}
	}
	if b := v.Packed(); b != nil {
		return Reader{enc: v.Encoding(), packed: b}
	}
	return Reader{enc: value.HashTable, members: &rootAt(v.Root()).members}
}

// Encoding returns the set's encoding.
func (r *Reader) Encoding() value.Encoding { return r.enc }

// Len returns the number of members.
func (r *Reader) Len() int {
	switch {
	case r.members != nil:
		return r.members.Len()
	case r.packed == nil:
		return 0
	case r.enc == value.IntSet:
		return intset.Len(r.packed)
	}
	return listpack.Count(r.packed)
}

// Contains reports whether member is in the set.
func (r *Reader) Contains(member []byte) bool {
	switch {
	case r.members != nil:
		return table.FindIn(r.members.Root(), table.Member, table.Hash(member), member) != 0
	case r.packed == nil:
		return false
	case r.enc == value.IntSet:
		n, ok := number.ParseInt(member)
		return ok && intset.Contains(r.packed, n)
	}
	return listpack.Find(r.packed, listpack.First(r.packed), member, 0) != 0
}

// All yields every member. If yield returns false, All stops and returns false. An intset's members ascend. A
// listpack's members come in the order in which they were added, a hashtable's in no fixed order. yield must not write
// to the set.
func (r *Reader) All(yield func(Element) bool) bool {
	switch {
	case r.members != nil:
		return table.Walk(r.members.Root(), 0, ^uint64(0), nil, func(ref memory.Ref) bool {
			return yield(listpack.OfText(table.MemberKey(ref)))
		})
	case r.packed == nil:
	case r.enc == value.IntSet:
		for _, n := range intset.All(r.packed) {
			if !yield(listpack.OfInt(n)) {
				return false
			}
		}
	default:
		for _, e := range listpack.All(r.packed) {
			if !yield(e) {
				return false
			}
		}
	}
	return true
}

// Scan yields about count members, starting at cursor, and returns the next cursor. Cursor 0 begins a scan, and 0
// returned ends it. It yields a set that is not a hashtable as a whole, whatever the cursor, because a hashtable's
// cursor has no meaning for it.
func (r *Reader) Scan(cursor uint64, count int, yield func(Element)) (next uint64) {
	if r.members == nil {
		r.All(func(e Element) bool {
			yield(e)
			return true
		})
		return 0
	}
	t := table.Open(nil, table.Member, r.members, false)
	return t.Scan(cursor, count, func(ref memory.Ref) { yield(listpack.OfText(table.MemberKey(ref))) })
}
