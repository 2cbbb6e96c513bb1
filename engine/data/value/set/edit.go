package set

import (
	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// Expect turns the set of e into a hashtable early, if n members are about to be added and its encoding cannot hold
// that many.
func Expect(e *value.Edit, n int, l Limits) {
	switch e.Encoding() {
	case value.IntSet:
		if n > l.IntSet {
			toTable(e, n)
		}
	case value.Listpack:
		if n > l.Entries {
			toTable(e, n)
		}
	}
}

// Add adds members to the set of e and returns how many were new. They must not lie in the memory of the set.
func Add(e *value.Edit, members [][]byte, l Limits) (added int) {
	for i := 0; i < len(members); i++ {
		if e.Packed() == nil {
			return added + addHashed(e, members[i:])
		}
		if addPacked(e, members[i], l) {
			added++
		}
	}
	return added
}

// addPacked is Add for one member of a packed set, which may become a hashtable.
func addPacked(e *value.Edit, member []byte, l Limits) bool {
	b := e.Packed()
	if e.Encoding() == value.Listpack {
		el := listpack.Of(member)
		if listpack.Find(b, listpack.First(b), member, 0) != 0 {
			return false
		}
		s := listpack.Append(b, el.EncodedLen(), 1)
		if !l.takes(b, s, len(member)) {
			toTable(e, listpack.Count(b)+1)
			return addHashed(e, [][]byte{member}) == 1
		}
		b = e.Splice(s.Off, s.Del, s.Ins)
		el.Put(s.Gap(b))
		s.Finish(b)
		return true
	}
	if n, ok := number.ParseInt(member); ok {
		if !addInteger(e, b, n) {
			return false
		}
		if now := intset.Len(e.Packed()); now > l.integers() {
			toTable(e, now)
		}
		return true
	}
	if !l.asText(b, len(member)) {
		toTable(e, intset.Len(b)+1)
		return addHashed(e, [][]byte{member}) == 1
	}
	var room [1 << 10]byte
	lp := appendText(room[:0], b, member)
	copy(e.Replace(value.Listpack, len(lp)), lp)
	return true
}

// addInteger adds n to the intset of e. b is that intset.
func addInteger(e *value.Edit, b []byte, n int64) bool {
	s, ok := intset.Insert(b, n)
	if !ok {
		return false
	}
	if s.Widen {
		b = e.Splice(len(b), 0, s.Grow())
		s.Upgrade(b, b, n)
		return true
	}
	b = e.Splice(s.Off, s.Del, s.Ins)
	s.Put(b, n)
	s.Finish(b)
	return true
}

// appendText appends a listpack that has the members of the intset set, and then member.
func appendText(dst, set, member []byte) []byte {
	from := len(dst)
	dst = listpack.Begin(dst)
	for _, n := range intset.All(set) {
		dst = listpack.AppendEntry(dst, listpack.OfInt(n))
	}
	dst = listpack.AppendEntry(dst, listpack.Of(member))
	return listpack.Close(dst, from, intset.Len(set)+1)
}

// toTable turns the packed set of e into a hashtable, which will hold about n members.
func toTable(e *value.Edit, n int) {
	t := table.New(e.Heap(), table.Member, e.Store().Base)
	t.Reserve(n)
	fill(e.Heap(), &t, e.Value())
	t.Reserve(0)
	e.SetRoot(value.HashTable, newRoot(e.Store(), &t))
}

// fill adds the members of v to t, which has none of them.
func fill(h *memory.Heap, t *table.Table, v value.Value) {
	var room [number.MaxIntLen]byte
	r := Read(v)
	r.All(func(el Element) bool {
		insert(h, t, el.Text(room[:]))
		return true
	})
}

// membersAhead is the number of members whose buckets are fetched ahead while several members are processed.
const membersAhead = 8

// addHashed is Add for a hashtable.
func addHashed(e *value.Edit, members [][]byte) (added int) {
	r := rootAt(e.Root())
	t := table.Open(e.Heap(), table.Member, &r.members, e.Wide())
	for i, member := range members {
		if i%membersAhead == 0 {
			touch(&t, members[i:])
		}
		if add(e.Heap(), &t, member) {
			added++
		}
	}
	r.members = t.State()
	return added
}

// touch starts fetching the memory that the next few members need. It does nothing for a single member.
func touch(t *table.Table, members [][]byte) {
	if len(members) > 1 {
		for _, member := range members[:min(membersAhead, len(members))] {
			t.TouchInsert(table.Hash(member))
		}
	}
}

// add adds member to t, unless t has it already. h is the heap of t.
func add(h *memory.Heap, t *table.Table, member []byte) bool {
	hash := table.Hash(member)
	if _, ref := t.Find(hash, member); ref != 0 {
		return false
	}
	t.Insert(hash, table.NewMember(h, member), table.Never)
	return true
}

// insert adds member, which t does not have.
func insert(h *memory.Heap, t *table.Table, member []byte) {
	t.Insert(table.Hash(member), table.NewMember(h, member), table.Never)
}

// Remove removes members from the set of e, until the set is empty. It returns how many of them the set had. The caller
// removes an empty set.
func Remove(e *value.Edit, members [][]byte) (removed int) {
	if e.Packed() == nil {
		return removeHashed(e, members)
	}
	for _, member := range members {
		if removePacked(e, member) {
			removed++
			if Len(e) == 0 {
				break
			}
		}
	}
	return removed
}

func Len(e *value.Edit) int {
	r := Read(e.Value())
	return r.Len()
}

func removePacked(e *value.Edit, member []byte) bool {
	b := e.Packed()
	if e.Encoding() == value.IntSet {
		n, ok := number.ParseInt(member)
		if !ok {
			return false
		}
		index, found := intset.Find(b, n)
		if found {
			dropInteger(e, b, index)
		}
		return found
	}
	at := listpack.Find(b, listpack.First(b), member, 0)
	if at != 0 {
		dropText(e, b, at)
	}
	return at != 0
}

// dropInteger removes the integer at index from the intset of e. b is that intset.
func dropInteger(e *value.Edit, b []byte, index int) {
	s := intset.RemoveAt(b, index, 1)
	s.Finish(e.Splice(s.Off, s.Del, s.Ins))
}

// dropText removes the member at at from the listpack of e. b is that listpack.
func dropText(e *value.Edit, b []byte, at int) {
	s := listpack.Delete(b, at, 1)
	s.Finish(e.Splice(s.Off, s.Del, s.Ins))
}

func removeHashed(e *value.Edit, members [][]byte) (removed int) {
	r := rootAt(e.Root())
	t := table.Open(e.Heap(), table.Member, &r.members, e.Wide())
	for i, member := range members {
		if i%membersAhead == 0 {
			touch(&t, members[i:])
		}
		if p, ref := t.Find(table.Hash(member), member); ref != 0 {
			t.Release(ref, t.Remove(&p))
			if removed++; t.Len() == 0 {
				break
			}
		}
	}
	r.members = t.State()
	return removed
}
