package value

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/internal/invariant"
)

// Keys is the index of a database: where the entry of each key lies. Its entries are written through an [Entry], or
// come ready-made (Add).
type Keys struct {
	table.Table
	Ticks uint64 // the sum of the volatile keys' ticks (value.E4)

	store *Store
}

// Init makes s an empty index. home as for table.Table.Init.
func (s *Keys) Init(store *Store, home int) {
	s.Table.Init(store.Heap, table.Entry, home)
	s.SetBase(store.Base)
	s.store, s.Ticks = store, 0
}

// Add adds an entry that NewEntry or Compose has made, unless its key is there, and says whether it did. hash is the
// key's.
func (s *Keys) Add(hash uint64, ref memory.Ref, volatile bool) (added bool) {
	tick, added := s.Table.Add(hash, ref, volatile)
	if tick != table.Never {
		s.Ticks += uint64(tick)
	}
	return added
}

// Discard lets go of an entry that Add refused.
func (s *Keys) Discard(hash uint64, ref memory.Ref) {
	e := Entry{keys: s, ref: ref}
	e.place.SetHash(hash)
	e.letGo(false)
}

// An Entry is one key of a database while it is written: it knows the key's place in the table, its block, and whether
// a view reads it. It alone decides whether an entry is written where it lies or gets a new block, and whether the old
// block is freed or retired. Commands come to it through package keyspace, which knows clocks, hooks and what is past
// its deadline; collections through an [Edit].
//
// value.E1. An entry that a view reads is not written, but for its clock (table.N1): a new block takes its place, and
// the old one is retired.
// value.E2. Any other entry is written where it lies if its new form belongs into its block (belongs). Else it gets a
// new block, and the old one is freed.
// value.E3. A key keeps its clock when its value changes, be it in a new block. The caller says the clock of a key that
// is made anew.
// value.E4. The table's tick of the key, and its share in Keys.Ticks, follow the deadline in the block.
// value.E5. The old block is let go of when the table leads to the new one, and what hung off it after that, at the
// key's position.
// value.E6. A place holds while Table.Moves is what it was. Else the Entry looks for its block again, by the hash,
// before it needs the place.
// value.E7. Whoever gives a key another value changes Table.Moves, so that everybody else who knows the entry looks
// again.
//
// Lifetime: until the key is removed or gets another value by other means.
type Entry struct {
	keys  *Keys
	place table.Place // nothing but the hash when moves is 0
	ref   memory.Ref  // the block; 0: there is no such key
	moves uint64      // what Table.Moves was when place held (value.E6)
}

// NewEntry writes an entry to a block of its own, and returns where its payload goes. No table knows it yet.
func (s *Store) NewEntry(f *Form, key []byte, deadline int64, clock uint32) (ref memory.Ref, payload unsafe.Pointer) {
	ref = s.Heap.Alloc(f.Size(), memory.Keys)
	return ref, Compose(ref, f, key, deadline, clock)
}

// Compose writes an entry of form f to the block at ref, which no table knows, and returns where its payload goes. Any
// goroutine that owns the block. key does not lie in it.
func Compose(ref memory.Ref, f *Form, key []byte, deadline int64, clock uint32) (payload unsafe.Pointer) {
	p := memory.Pointer(ref)
	*(*uint32)(p) = clock
	at := unsafe.Add(p, f.header(p, deadline))
	copy(PayloadBytes(at, len(key)), key)
	return unsafe.Add(at, len(key))
}

// CopyEntry is a new entry with the form, deadline and payload of v, whose root has become its own or is copied by the
// caller.
func (s *Store) CopyEntry(v Value, key []byte, clock uint32) memory.Ref {
	f := FormOf(v)
	f.KeyLen = len(key)
	ref, payload := s.NewEntry(&f, key, v.Deadline(), clock)
	v.copyPayload(payload, v.PayloadSize())
	return ref
}

// Find leads e to key in keys, and says whether it is there.
func (e *Entry) Find(keys *Keys, key []byte) bool {
	p, ref := keys.Find(keys.HashOf(key), key)
	e.keys, e.place, e.ref, e.moves = keys, p, ref, keys.Moves()
	return ref != 0
}

// Stand leads e to the entry at ref, which stands at p, now.
func (e *Entry) Stand(keys *Keys, p table.Place, ref memory.Ref) {
	e.keys, e.place, e.ref, e.moves = keys, p, ref, keys.Moves()
}

// Holds says that e is in keys, and stands where it was last seen: the key is not to be looked for again (value.E6,
// value.E7).
func (e *Entry) Holds(keys *Keys) bool {
	return e.keys == keys && e.ref != 0 && e.moves == keys.Moves()
}

// Exists says that there is such a key.
func (e *Entry) Exists() bool { return e.ref != 0 }

// Value is the value as it is now.
func (e *Entry) Value() Value { return At(e.ref) }

// Hash is the key's in its index.
func (e *Entry) Hash() uint64 { return e.place.Hash() }

// Enter sets the position for views: what is retired next belongs to this key.
func (e *Entry) Enter() {
	if h := e.keys.store.Heap; h.Holding() {
		h.SetPosition(e.keys.Home(), e.place.Hash())
	}
}

// Shared says that a view reads the entry (value.E1).
// Cost: a compare with no live view; one segment of the table copied on the first write after a freeze.
func (e *Entry) Shared() bool {
	if e.keys.store.Heap.Frozen() == 0 {
		return false
	}
	e.locate()
	shared := !e.keys.Edit(&e.place)
	e.moves = e.keys.Moves()
	return shared
}

// locate makes place hold (value.E6).
func (e *Entry) locate() {
	if e.moves != e.keys.Moves() {
		e.place, e.moves = e.keys.Locate(e.place.Hash(), e.ref), e.keys.Moves()
	}
}

// Write gives key a value of form f, whatever was there, which is let go of. clock is for a key that is new. The
// payload is to be written before anything else is done with the databases.
func (e *Entry) Write(f *Form, key []byte, deadline int64, clock uint32) (payload unsafe.Pointer) {
	f.Volatile = deadline != 0
	if e.ref == 0 {
		ref, payload := e.keys.store.NewEntry(f, key, deadline, clock)
		e.insert(ref, deadline)
		return payload
	}
	v := At(e.ref)
	const more = table.ShapeWide | table.ShapeRooted | table.ShapeVolatile
	if shape := f.shape(); shape == v.shape() && shape&more == 0 && !e.Shared() {
		e.changed() // value.E2 in the usual case: the header stays as it is, and nothing hangs off the entry
		return unsafe.Add(v.p, 8+f.KeyLen)
	}
	t, root := v.Type(), v.Root()
	payload = e.reform(f, deadline, 0)
	e.changed()
	if root != 0 {
		e.dropRoot(t, root)
	}
	return payload
}

// changed tells who else knows the entry that it has another value, perhaps in the same block (value.E7).
func (e *Entry) changed() {
	held := e.moves == e.keys.Moves()
	if e.keys.Moved(); held {
		e.moves = e.keys.Moves()
	}
}

// Put gives key the entry at ref, which NewEntry or CopyEntry has made for it, clock included; what was there is let go
// of.
func (e *Entry) Put(ref memory.Ref) {
	if e.ref == 0 {
		e.insert(ref, At(ref).Deadline())
		return
	}
	v := At(e.ref)
	t, root := v.Type(), v.Root()
	e.replace(ref)
	if root != 0 {
		e.dropRoot(t, root)
	}
}

// SetDeadline gives the key another deadline, in Unix ms; 0: none.
func (e *Entry) SetDeadline(ms int64) {
	v := At(e.ref)
	f := FormOf(v)
	f.Volatile = ms != 0
	e.reform(&f, ms, v.PayloadSize())
}

// Patch writes data at byte off of the string, which becomes raw, and as long as it must, with zeros up to off. data
// lies elsewhere.
func (e *Entry) Patch(off int, data []byte) {
	v, s := At(e.ref), e.keys.store
	e.Enter()
	if root := v.Root(); root != 0 {
		if next := s.WriteLong(root, off, data); next != root {
			e.setRoot(v.Encoding(), next)
		}
		return
	}
	length, end := v.Len(), off+len(data)
	var f Form
	f.OfString(len(v.Key()), max(length, end), v.Volatile())
	f.Encoding = Raw
	var text [20]byte
	old := v.Bytes(text[:]) // in text if it is an integer
	if f.Rooted {
		root := s.WriteLong(s.NewLong(old), off, data)
		*(*memory.Ref)(e.reform(&f, v.Deadline(), 0)) = root
		return
	}
	var b []byte
	if v.Encoding() == Int {
		b = PayloadBytes(e.reform(&f, v.Deadline(), 0), f.Inline)
		copy(b, old)
	} else {
		b = PayloadBytes(e.reform(&f, v.Deadline(), length), f.Inline)
	}
	if off > length {
		clear(b[length:off])
	}
	copy(b[off:], data)
}

// Remove takes the key out of the database and lets go of its value.
func (e *Entry) Remove() {
	e.locate()
	e.unlink(e.keys.Remove(&e.place), true)
}

// Take takes the key out of the database. What hangs off the entry stays: it goes on under another key.
func (e *Entry) Take() {
	e.locate()
	e.unlink(e.keys.Remove(&e.place), false)
}

// Drop is Remove of the i-th key of d, which leaves the places of the others.
func (e *Entry) Drop(d *table.Due, i int) { e.unlink(e.keys.Drop(d, i), true) }

// unlink lets go of an entry that the table does not lead to any more. root: of what hangs off it too.
func (e *Entry) unlink(shared, root bool) {
	v := At(e.ref)
	if v.Volatile() {
		e.keys.Ticks -= uint64(e.keys.Tick(v.Deadline()))
	}
	if root {
		e.letGo(shared)
	} else {
		e.letGoBlock(e.ref, shared)
	}
	e.ref, e.moves = 0, 0
}

// letGo lets go of the block and of what hangs off it (value.E5).
func (e *Entry) letGo(shared bool) {
	v := At(e.ref)
	t, root := v.Type(), v.Root()
	e.letGoBlock(e.ref, shared)
	if root != 0 {
		e.dropRoot(t, root)
	}
}

// letGoBlock frees a block of the key's, or retires it if a view reads it (value.E1, value.E2).
func (e *Entry) letGoBlock(ref memory.Ref, shared bool) {
	h := e.keys.store.Heap
	if !shared {
		h.Free(ref, memory.Keys)
		return
	}
	e.Enter()
	h.Retire(ref, memory.Keys)
}

// dropRoot lets go of what hung off the entry.
func (e *Entry) dropRoot(t Type, root memory.Ref) {
	e.Enter()
	e.keys.store.DropRoot(t, root)
}

// insert adds an entry, of that deadline, for a key that is not there.
func (e *Entry) insert(ref memory.Ref, deadline int64) {
	s := e.keys
	tick := s.Tick(deadline)
	if tick != table.Never {
		s.Ticks += uint64(tick)
	}
	s.Insert(e.place.Hash(), ref, tick)
	e.ref, e.moves = ref, 0
}

// reform makes the entry one of form f, of the same key, with that deadline. The first carry bytes of its payload stay,
// in the new block too if it gets one. What hangs off it is the caller's.
func (e *Entry) reform(f *Form, deadline int64, carry int) (payload unsafe.Pointer) {
	v := At(e.ref)
	if !e.belongs(f) || e.Shared() {
		ref, payload := e.fresh(f, deadline)
		v.copyPayload(payload, carry)
		e.replace(ref)
		return payload
	}
	was := v.Deadline()
	payload = v.reshape(f, deadline, carry)
	if was != deadline {
		e.settle(e.ref, was, deadline)
	}
	return payload
}

// belongs says that an entry of form f belongs into the block there is: if one of the same size would be asked for. A
// packed collection grows and shrinks often, so that its block is kept until half of it would be unused.
func (e *Entry) belongs(f *Form) bool {
	v := At(e.ref)
	if shape := f.shape(); shape == v.shape() && shape&table.ShapeWide == 0 {
		return true
	}
	size := f.Size()
	if f.Type != String && !f.Rooted {
		block := memory.UsableSize(e.ref)
		return size <= block && memory.GoodSize(2*size) >= block
	}
	return memory.GoodSize(size) == memory.GoodSize(v.Size())
}

// fresh is a new entry of form f for the same key, with its clock (value.E3), to be made the key's by replace when its
// payload is written.
func (e *Entry) fresh(f *Form, deadline int64) (ref memory.Ref, payload unsafe.Pointer) {
	v := At(e.ref)
	return e.keys.store.NewEntry(f, v.Key(), deadline, v.Clock())
}

// replace makes the block at ref the key's entry, and lets the old one go.
func (e *Entry) replace(ref memory.Ref) {
	old := e.ref
	e.letGoBlock(old, e.settle(ref, At(old).Deadline(), At(ref).Deadline()))
	if invariant.Enabled {
		e.check()
	}
}

// settle has the table lead to ref, whose deadline may be another than before (value.E4). shared: a view may still
// reach the old block.
func (e *Entry) settle(ref memory.Ref, was, is int64) (shared bool) {
	s := e.keys
	e.locate()
	tick := s.Tick(is)
	if was != is {
		if was != 0 {
			s.Ticks -= uint64(s.Tick(was))
		}
		if is != 0 {
			s.Ticks += uint64(tick)
		}
	}
	shared = s.Replace(&e.place, ref, tick)
	e.ref, e.moves = ref, s.Moves()
	return shared
}

// setRoot makes a rooted entry's root another one.
func (e *Entry) setRoot(enc Encoding, root memory.Ref) {
	v := At(e.ref)
	if enc != v.Encoding() || e.Shared() {
		f := FormOf(v)
		f.Encoding = enc
		*(*memory.Ref)(e.reform(&f, v.Deadline(), 0)) = root
		return
	}
	v.SetRoot(root)
}

// check proves what can be seen of the rules in one entry. In builds that check.
func (e *Entry) check() {
	v, again := At(e.ref), *e
	p, ref := e.keys.Find(e.place.Hash(), v.Key())
	broken := ""
	switch {
	case ref != e.ref || e.moves == e.keys.Moves() && p != e.place:
		broken = "E6: it does not stand where it should"
	case p.Volatile() != v.Volatile():
		broken = "E4: block and table do not agree on whether it has a deadline"
	case v.Size() > memory.UsableSize(ref):
		broken = "E2: it is longer than its block"
	case again.Shared():
		broken = "E1: a view reads what was just written"
	}
	if broken != "" { // That would allocate its arguments each time
		invariant.That(false, "entry.%s: %q at %x, found at %x", broken, v.Key(), e.ref, ref)
	}
}
