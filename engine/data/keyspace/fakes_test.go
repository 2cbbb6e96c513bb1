package keyspace

import (
	"encoding/binary"
	"sort"
	"strings"
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// Fakes replace the packages of the types: a set and a hash that are packed while they are small, and a list that
// always is. A packed fake has a listpack's header, and then a row of elements, each a length byte and its bytes. A
// hash has field and value in turn.
const (
	kindFakeSet  = value.KindModule + 2
	kindFakeHash = value.KindModule + 3
	fakePacked   = 12_000 // bytes: inline, then in a packed root, then a structure
)

type fakeRoot struct {
	value.Header
	members table.State
}

func fakeAt(ref memory.Ref) *fakeRoot { return (*fakeRoot)(memory.Pointer(ref)) }

func registerFakes(k *Keyspace) {
	k.store.CountMany = func([]byte) int { return 0 }
	for kind, layout := range map[memory.Kind]table.Layout{kindFakeSet: table.Member, kindFakeHash: table.Field} {
		open := func(root memory.Ref) table.Table {
			return table.Open(k.heap, layout, &fakeAt(root).members, value.HeaderAt(root).Moved())
		}
		k.store.Register(kind, value.Structure{
			Count:   func(root memory.Ref) int { return fakeAt(root).members.Len() },
			Measure: func(root memory.Ref) int64 { return int64(fakeAt(root).members.Len()) * 30 },
			Cost:    func(root memory.Ref, samples int) int { t := open(root); return t.Cost(samples) },
			Copy: func(s *value.Store, root memory.Ref) memory.Ref {
				t := open(root)
				dup := t.Copy()
				ref := s.NewRoot(kind, int(unsafe.Sizeof(fakeRoot{})))
				fakeAt(ref).members = dup.State()
				return ref
			},
			Destroy: func(r *memory.Returner, root memory.Ref, budget int) (memory.Ref, int) {
				done, spent := fakeAt(root).members.Destroy(r, budget)
				if !done {
					return root, spent
				}
				r.Free(root, memory.Values)
				return 0, spent + 1
			},
		})
	}
	k.ExpireFields = expireFakeFields
}

// packed returns a packed fake.
func packed(elements ...string) []byte {
	b := make([]byte, listpack.HeaderLen)
	for _, el := range elements {
		b = append(append(b, byte(len(el))), el...)
	}
	return sign(b, len(elements))
}

// sign writes the header of a packed fake of n elements.
func sign(b []byte, n int) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint16(b[4:], uint16(n))
	return b
}

// row returns the elements of a packed fake.
func row(b []byte) []byte { return b[listpack.HeaderLen:] }

// cut returns the first element of a row and the rest of the row.
func cut(b []byte) (element, rest []byte) { return b[1 : 1+b[0]], b[1+b[0]:] }

// find returns the offset of element in a row. It looks only at every n-th element.
func find(b []byte, element string, n int) int {
	for rest, i := b, 0; len(rest) > 0; i++ {
		var el []byte
		at := len(b) - len(rest)
		if el, rest = cut(rest); i%n == 0 && string(el) == element {
			return at
		}
	}
	return -1
}

// splice replaces del bytes of the row at off.
func splice(e *value.Edit, off, del int, elements ...string) {
	n, count := 0, listpack.Count(e.Packed())+len(elements)
	for _, el := range elements {
		n += 1 + len(el)
	}
	for rest := row(e.Packed())[off : off+del]; len(rest) > 0; count-- {
		_, rest = cut(rest)
	}
	b := row(sign(e.Splice(listpack.HeaderLen+off, del, n), count))
	for _, el := range elements {
		b[off] = byte(len(el))
		copy(b[off+1:], el)
		off += 1 + len(el)
	}
}

// toSet and toHash turn a packed fake into a structure.
func toSet(e *value.Edit) {
	t := table.New(e.Heap(), table.Member, e.Store().Base)
	for b := row(e.Packed()); len(b) > 0; {
		var el []byte
		el, b = cut(b)
		t.Insert(table.Hash(el), table.NewMember(e.Heap(), el), table.Never)
	}
	setFake(e, kindFakeSet, &t)
}

func toHash(e *value.Edit) {
	t := table.New(e.Heap(), table.Field, e.Store().Base)
	for b := row(e.Packed()); len(b) > 0; {
		var field, val []byte
		field, b = cut(b)
		val, b = cut(b)
		t.Insert(table.Hash(field), table.NewField(e.Heap(), field, val, 0), table.Never)
	}
	setFake(e, kindFakeHash, &t)
}

func setFake(e *value.Edit, kind memory.Kind, t *table.Table) {
	ref := e.Store().NewRoot(kind, int(unsafe.Sizeof(fakeRoot{})))
	fakeAt(ref).members = t.State()
	e.SetRoot(value.HashTable, ref)
}

func openFake(e *value.Edit, layout table.Layout) (*fakeRoot, table.Table) {
	root := fakeAt(e.Root())
	return root, table.Open(e.Heap(), layout, &root.members, e.Wide())
}

func edit(db *DB, key []byte, t value.Type) *value.Edit {
	e := db.Edit(key)
	if e == nil {
		e = db.Create(key, t, value.Listpack, listpack.HeaderLen)
		sign(e.Packed(), 0)
	}
	return e
}

func fakeAdd(db *DB, key []byte, member string) {
	e := edit(db, key, value.Set)
	if b := e.Packed(); b != nil {
		if find(row(b), member, 1) >= 0 {
			return
		}
		if len(b) < fakePacked {
			splice(e, len(row(b)), 0, member)
			return
		}
		toSet(e)
	}
	root, t := openFake(e, table.Member)
	hash := table.Hash([]byte(member))
	if _, ref := t.Find(hash, []byte(member)); ref == 0 {
		t.Insert(hash, table.NewMember(e.Heap(), []byte(member)), table.Never)
	}
	root.members = t.State()
}

func fakeRemove(db *DB, key []byte, member string) {
	e := db.Edit(key)
	if b := e.Packed(); b != nil {
		if at := find(row(b), member, 1); at >= 0 {
			splice(e, at, 1+len(member))
		}
		if len(row(e.Packed())) == 0 {
			db.Remove(e)
		}
		return
	}
	root, t := openFake(e, table.Member)
	if p, ref := t.Find(table.Hash([]byte(member)), []byte(member)); ref != 0 {
		t.Release(ref, t.Remove(&p))
	}
	root.members = t.State()
	if t.Len() == 0 {
		db.Remove(e)
	}
}

// fakeMany adds n members "m0" … to the set at key.
func fakeMany(db *DB, key []byte, n int) {
	t := table.New(db.k.heap, table.Member, db.k.store.Base)
	for i := range n {
		m := fakeMember(i)
		t.Insert(table.Hash(m), table.NewMember(db.k.heap, m), table.Never)
	}
	root := db.k.store.NewRoot(kindFakeSet, int(unsafe.Sizeof(fakeRoot{})))
	fakeAt(root).members = t.State()
	db.CreateRoot(key, value.Set, value.HashTable, root)
}

func fakeSetField(db *DB, key []byte, field, val string, deadline int64) {
	e := edit(db, key, value.Hash)
	if b := e.Packed(); b != nil {
		if deadline == 0 && len(b) < fakePacked {
			if at := find(row(b), field, 2); at >= 0 {
				old, _ := cut(row(b)[at+1+len(field):])
				splice(e, at, 2+len(field)+len(old), field, val)
			} else {
				splice(e, 0, 0, field, val)
			}
			return
		}
		toHash(e)
	}
	root, t := openFake(e, table.Field)
	hash := table.Hash([]byte(field))
	p, ref := t.Find(hash, []byte(field))
	switch {
	case ref == 0:
		t.Insert(hash, table.NewField(e.Heap(), []byte(field), []byte(val), deadline), t.Tick(deadline))
	case deadline == 0 && t.Edit(&p) && table.FieldDeadline(ref) == 0 && table.OverwriteValue(ref, []byte(val)):
	default:
		t.Release(ref, t.Replace(&p, table.NewField(e.Heap(), []byte(field), []byte(val), deadline), t.Tick(deadline)))
	}
	root.members = t.State()
	if least := t.LeastDeadline(); least != 0 {
		db.SetFieldsDeadline(key, least)
	}
}

// fakeRepack packs the set or hash at key again, whatever its size, into one block. The deadlines of its fields are
// lost.
func fakeRepack(db *DB, key []byte) {
	e := db.Edit(key)
	text := fakeText(e.Value())
	text = text[strings.Index(text, ":")+1:]
	b := packed(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '=' })...)
	enc := value.Listpack
	if e.Encoding() == enc {
		enc = value.ListpackEx
	}
	copy(e.Replace(enc, len(b)), b)
	if e.SetEncoding(value.Listpack); e.Encoding() != value.Listpack {
		panic("SetEncoding")
	}
	if db.FieldsDeadline(key) != 0 {
		db.SetFieldsDeadline(key, 0)
	}
}

// fakeReroot moves the structure at key to another root block.
func fakeReroot(db *DB, key []byte) {
	e := db.Edit(key)
	if e.Packed() != nil {
		return
	}
	old := e.Root()
	ref := e.Store().NewRoot(value.HeaderAt(old).Kind(), 200)
	fakeAt(ref).members = fakeAt(old).members
	e.Reroot(ref)
}

// fakeMove moves members from one set to another with two Edits, element by element. So each set is changed while the
// Edit of the other is open.
func fakeMove(db *DB, from []byte, dst *DB, to []byte, members []string) {
	a, b := db.Edit(from), edit(dst, to, value.Set)
	for _, m := range members {
		if a.Packed() != nil {
			at := find(row(a.Packed()), m, 1)
			splice(a, at, 1+len(m))
		} else {
			root, t := openFake(a, table.Member)
			p, ref := t.Find(table.Hash([]byte(m)), []byte(m))
			t.Release(ref, t.Remove(&p))
			root.members = t.State()
		}
		if packed := b.Packed(); packed != nil {
			if find(row(packed), m, 1) < 0 {
				splice(b, 0, 0, m)
			}
			continue
		}
		root, t := openFake(b, table.Member)
		if _, ref := t.Find(table.Hash([]byte(m)), []byte(m)); ref == 0 {
			t.Insert(table.Hash([]byte(m)), table.NewMember(b.Heap(), []byte(m)), table.Never)
		}
		root.members = t.State()
	}
	if b := a.Packed(); b != nil && len(row(b)) == 0 || b == nil && fakeAt(a.Value().Root()).members.Len() == 0 {
		db.Remove(a)
	}
}

// expireFakeFields is Keyspace.ExpireFields for fakes.
func expireFakeFields(e *value.Edit, now int64, budget int, gone func([]byte)) (next int64, n int) {
	root, t := openFake(e, table.Field)
	var d table.Due
	for n < budget && t.NextDue(t.TickNow(now), &d) {
		for i, ref := range d.Refs[:d.N] {
			if deadline := table.FieldDeadline(ref); deadline >= now {
				d.Stays(i, t.Tick(deadline))
				continue
			}
			gone(table.FieldKey(ref))
			t.Release(ref, t.Drop(&d, i))
			n++
		}
		t.EndDue(&d)
	}
	root.members = t.State()
	if t.Len() == 0 {
		return Emptied, n
	}
	return t.LeastDeadline(), n
}

// fakeText returns a collection as text that does not depend on the encoding. A list's elements are in order, others
// are sorted.
func fakeText(v value.Value) string {
	var elements []string
	if b := v.Packed(); b != nil {
		for b = row(b); len(b) > 0; {
			var el, val []byte
			if el, b = cut(b); v.Type() == value.Hash {
				val, b = cut(b)
				elements = append(elements, string(el)+"="+string(val))
			} else {
				elements = append(elements, string(el))
			}
		}
	} else {
		table.Walk(fakeAt(v.Root()).members.Root(), 0, ^uint64(0), nil, func(ref memory.Ref) bool {
			if v.Type() == value.Hash {
				elements = append(elements, string(table.FieldKey(ref))+"="+string(table.FieldValue(ref)))
			} else {
				elements = append(elements, string(table.MemberKey(ref)))
			}
			return true
		})
	}
	if v.Type() != value.List {
		sort.Strings(elements)
	}
	return v.Type().String() + ":" + strings.Join(elements, ",")
}
