package value

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/internal/invariant"
)

// Keys is the index of a database: it finds the entry of each key. An [Entry] writes the index's entries one by one,
// and Add adds complete ones.
type Keys struct {
	table.Table
	Steps uint64 // the sum of table.Steps of the volatile keys' ticks (value.E4)

	store *Store
	sizes *Sizes // nil if no key has been counted yet
}

// Init makes s an empty index. home is as for table.Table.Init.
func (s *Keys) Init(store *Store, home int) {
	s.Table.Init(store.Heap, table.Entry, home)
	s.SetBase(store.Base)
	s.store, s.Steps, s.sizes = store, 0, nil
}

// Detach is Table.Detach. The keys are no longer counted or found.
func (s *Keys) Detach() (root, due memory.Ref) {
	s.Steps, s.sizes = 0, nil
	return s.Table.Detach()
}

// Add adds an entry made by NewEntry or Compose, unless the index has its key already. It reports whether it added the
// entry. hash is the key's.
func (s *Keys) Add(hash uint64, ref memory.Ref, volatile bool) (added bool) {
	tick, added := s.Table.Add(hash, ref, volatile)
	if tick != table.Never {
		s.Steps += table.Steps(tick)
	}
	return added
}

// Discard frees an entry that Add refused.
func (s *Keys) Discard(hash uint64, ref memory.Ref) {
	e := Entry{keys: s, ref: ref}
	e.place.SetHash(hash)
	e.release(false)
}

// An Entry is one key of a database while it is written. It knows the key's place in the table, the key's block, and
// whether a view reads the block. Only Entry decides whether an entry is written in place or gets a new block, and
// whether the old block is freed or retired. Commands use it through package keyspace, which handles clocks, hooks and
// expiry. Commands on collections use an [Edit].
//
// value.E1. An entry that a view reads is not written, except for its clock (table.N1). A new block replaces it, and
// the old block is retired.
// value.E2. Any other entry is written in place if a new block for its new form would have the same size (belongs).
// Otherwise it gets a new block, and the old block is freed.
// value.E3. A key keeps its clock when its value changes, also in a new block. For a new key, the caller provides the
// clock.
// value.E4. The table's tick of the key, and its part of Keys.Steps, follow the deadline in the block.
// value.E5. The old block is freed after the table leads to the new one. The old root is freed after that, at the key's
// position.
// value.E6. A place is valid while Table.Moves is unchanged. Otherwise the Entry searches its block again, by the hash,
// before it needs the place.
// value.E7. Code that gives a key another value changes Table.Moves, so that other holders of the entry search again.
// value.E8. A key is counted in Keys.Sizes under its type and the size class in its entry. Entry updates that when keys
// are removed, replaced or get another block. Package keyspace sets the class when the size has changed.
//
// Lifetime: until the key is removed or gets another value by other means.
type Entry struct {
	keys  *Keys
	place table.Place // has only the hash if moves is 0
	ref   memory.Ref  // the block; 0 if the key does not exist
	moves uint64      // Table.Moves when place was valid (value.E6)
}

// NewEntry writes an entry to a new block. It returns the block and the address of the payload. No table lists it yet.
func (s *Store) NewEntry(f *Form, key []byte, deadline int64, clock uint32) (ref memory.Ref, payload unsafe.Pointer) {
	ref = s.Heap.Alloc(f.Size(), memory.Keys)
	return ref, Compose(ref, f, key, deadline, clock)
}

// Compose writes an entry of form f to the block at ref, which must be in no table. It returns the address of the
// payload. Any goroutine that owns the block may call it. key must not lie in the block.
func Compose(ref memory.Ref, f *Form, key []byte, deadline int64, clock uint32) (payload unsafe.Pointer) {
	p := memory.Pointer(ref)
	*(*uint32)(p) = clock
	at := unsafe.Add(p, f.header(p, deadline))
	copy(PayloadBytes(at, len(key)), key)
	return unsafe.Add(at, len(key))
}

// CopyEntry returns a new entry with the form, deadline and payload of v. The caller moves or copies v's root.
func (s *Store) CopyEntry(v Value, key []byte, clock uint32) memory.Ref {
	f := FormOf(v)
	f.KeyLen = len(key)
	ref, payload := s.NewEntry(&f, key, v.Deadline(), clock)
	v.copyPayload(payload, v.PayloadSize())
	return ref
}

// Find leads e to key in keys, and reports whether keys has key.
func (e *Entry) Find(keys *Keys, key []byte) bool {
	p, ref := keys.Find(keys.HashOf(key), key)
	e.keys, e.place, e.ref, e.moves = keys, p, ref, keys.Moves()
	return ref != 0
}

// Stand leads e to the entry at ref, whose present place is p.
func (e *Entry) Stand(keys *Keys, p table.Place, ref memory.Ref) {
	e.keys, e.place, e.ref, e.moves = keys, p, ref, keys.Moves()
}

// Holds reports whether e is in keys and still where it was found. Then the key need not be searched again (value.E6,
// value.E7).
func (e *Entry) Holds(keys *Keys) bool {
	return e.keys == keys && e.ref != 0 && e.moves == keys.Moves()
}

// Exists reports whether the key exists.
func (e *Entry) Exists() bool { return e.ref != 0 }

// Value returns the present value.
func (e *Entry) Value() Value { return At(e.ref) }

// Hash returns the key's hash in its index.
func (e *Entry) Hash() uint64 { return e.place.Hash() }

// Enter sets the position for views to this key, because the blocks retired next belong to it.
func (e *Entry) Enter() {
	if h := e.keys.store.Heap; h.Holding() {
		h.SetPosition(e.keys.Home(), e.place.Hash())
	}
}

// Shared reports whether a view reads the entry (value.E1).
// Cost: a compare if no view is open. After a freeze, the first write copies one segment of the table.
func (e *Entry) Shared() bool {
	if e.keys.store.Heap.Frozen() == 0 {
		return false
	}
	e.locate()
	shared := !e.keys.Edit(&e.place)
	e.moves = e.keys.Moves()
	return shared
}

// locate makes the field place valid (value.E6).
func (e *Entry) locate() {
	if e.moves != e.keys.Moves() {
		e.place, e.moves = e.keys.Locate(e.place.Hash(), e.ref), e.keys.Moves()
	}
}

// Write gives key a value of form f and frees any old value. clock is for a new key. The caller writes the payload
// before it does anything else with the databases.
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
		e.changed() // value.E2 in the usual case: the header stays unchanged, and the entry has no root
		return unsafe.Add(v.p, 8+f.KeyLen)
	}
	t, root := v.Type(), v.Root()
	if t != f.Type {
		e.keys.Resize(v, 0)
	}
	payload = e.reform(f, deadline, 0)
	e.changed()
	if root != 0 {
		e.dropRoot(t, root)
	}
	return payload
}

// changed makes other holders of the entry search again, because it has another value, perhaps in the same block
// (value.E7).
func (e *Entry) changed() {
	held := e.moves == e.keys.Moves()
	if e.keys.Moved(); held {
		e.moves = e.keys.Moves()
	}
}

// Put gives key the entry at ref, clock included. NewEntry or CopyEntry must have made that entry for key. Put frees
// any old value.
func (e *Entry) Put(ref memory.Ref) {
	if e.ref == 0 {
		e.insert(ref, At(ref).Deadline())
		return
	}
	v, next := At(e.ref), At(ref)
	t, root := v.Type(), v.Root()
	if c := v.SizeClass(); t != next.Type() || c != next.SizeClass() {
		e.keys.add(t, c, -1)
		e.keys.add(next.Type(), next.SizeClass(), 1)
	}
	e.replace(ref)
	if root != 0 {
		e.dropRoot(t, root)
	}
}

// SetDeadline gives the key another deadline, in Unix ms. 0 means none.
func (e *Entry) SetDeadline(ms int64) {
	v := At(e.ref)
	f := FormOf(v)
	f.Volatile = ms != 0
	e.reform(&f, ms, v.PayloadSize())
}

// Patch writes data at byte off of the string. The string becomes raw and as long as needed, with zeros up to off. data
// must not lie in the database.
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

// Remove removes the key from the database and frees its value.
func (e *Entry) Remove() {
	e.locate()
	e.unlink(e.keys.Remove(&e.place), true)
}

// Detach removes the key from the database without freeing its root, because the root moves to another key.
func (e *Entry) Detach() {
	e.locate()
	e.unlink(e.keys.Remove(&e.place), false)
}

// Drop is Remove of the i-th key of d. It keeps the places of the others valid.
func (e *Entry) Drop(d *table.Due, i int) { e.unlink(e.keys.Drop(d, i), true) }

// unlink frees an entry that the table no longer leads to. With root it also frees the entry's root.
func (e *Entry) unlink(shared, root bool) {
	v := At(e.ref)
	if v.Volatile() {
		e.keys.Steps -= table.Steps(e.keys.Tick(v.Deadline()))
	}
	e.keys.add(v.Type(), v.SizeClass(), -1)
	if root {
		e.release(shared)
	} else {
		e.releaseBlock(e.ref, shared)
	}
	e.ref, e.moves = 0, 0
}

// release frees the block and its root (value.E5).
func (e *Entry) release(shared bool) {
	v := At(e.ref)
	t, root := v.Type(), v.Root()
	e.releaseBlock(e.ref, shared)
	if root != 0 {
		e.dropRoot(t, root)
	}
}

// releaseBlock frees one of the key's blocks, or retires it if a view reads it (value.E1, value.E2).
func (e *Entry) releaseBlock(ref memory.Ref, shared bool) {
	h := e.keys.store.Heap
	if !shared {
		h.Free(ref, memory.Keys)
		return
	}
	e.Enter()
	h.Retire(ref, memory.Keys)
}

// dropRoot frees root, which the entry no longer has.
func (e *Entry) dropRoot(t Type, root memory.Ref) {
	e.Enter()
	e.keys.store.DropRoot(t, root)
}

// insert adds the entry at ref with this deadline, for a missing key.
func (e *Entry) insert(ref memory.Ref, deadline int64) {
	s := e.keys
	tick := s.Tick(deadline)
	if tick != table.Never {
		s.Steps += table.Steps(tick)
	}
	s.Insert(e.place.Hash(), ref, tick)
	v := At(ref)
	s.add(v.Type(), v.SizeClass(), 1)
	e.ref, e.moves = ref, 0
}

// reform gives the entry the form f and this deadline, with the same key. The first carry bytes of its payload stay,
// also in a new block. The caller handles the root.
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
		e.relink(e.ref, was, deadline)
	}
	return payload
}

// belongs reports whether an entry of form f stays in the present block, because a new block would have the same size.
// A packed collection grows and shrinks often, so its block is kept until half of it would be unused.
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

// fresh returns a new entry of form f for the same key, with its clock (value.E3) and size class. After the caller has
// written the payload, replace puts the entry into the table.
func (e *Entry) fresh(f *Form, deadline int64) (ref memory.Ref, payload unsafe.Pointer) {
	v := At(e.ref)
	return e.keys.store.NewEntry(f, v.Key(), deadline, v.word())
}

// replace makes the block at ref the key's entry, and frees the old one.
func (e *Entry) replace(ref memory.Ref) {
	old := e.ref
	e.releaseBlock(old, e.relink(ref, At(old).Deadline(), At(ref).Deadline()))
	if invariant.Enabled {
		e.check()
	}
}

// relink makes the table lead to ref. It updates the ticks from the deadline was to the deadline is (value.E4). shared
// means that a view may still reach the old block.
func (e *Entry) relink(ref memory.Ref, was, is int64) (shared bool) {
	s := e.keys
	e.locate()
	tick := s.Tick(is)
	if was != is {
		if was != 0 {
			s.Steps -= table.Steps(s.Tick(was))
		}
		if is != 0 {
			s.Steps += table.Steps(tick)
		}
	}
	shared = s.Replace(&e.place, ref, tick)
	e.ref, e.moves = ref, s.Moves()
	return shared
}

// setRoot replaces a rooted entry's root.
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

// check panics if the entry breaks one of the rules value.E1 to value.E8, as far as a single entry shows it. It runs
// only in builds that check.
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
	if broken != "" { // invariant.That in the condition would allocate its arguments each time
		invariant.That(false, "value.%s: %q at %x, found at %x", broken, v.Key(), e.ref, ref)
	}
}
