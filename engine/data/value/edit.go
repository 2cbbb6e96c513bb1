package value

import (
	"math/rand/v2"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/internal/invariant"
)

// An Edit is one key's collection while a command changes it: all copying for views, all moving between entry, packed root and
// structure goes through it. package keyspace hands it out; DESIGN.md has the picture.
//
// K1. It holds until the key is written to by other means (another Edit of it too) or removed, or until the keyspace has handed
// out three more. Writes to other keys, other Edits', and lookups, do not disturb it. Being handed out again, it has held all the while.
// K2. Root, Splice, Replace, SetRoot and Reroot set the position for views (DATA: "position"). Who turns to another Edit in between
// begins with Root, or Enter, when coming back. So work on one collection at a time.
// K3. What Packed, Splice, Replace and Root return holds until the next call of one of them.
// K4. It tells nobody of the change: the command calls keyspace.DB.Touched once.
type Edit struct {
	// Edge is where a kind that is a tree keeps the way to the leaf that it last changed in place. It is forgotten when the structure is opened
	// to be changed otherwise (Root), or replaced, through this Edit; by K1 nothing else does that while the Edit is used.
	Edge tree.Edge

	store *Store
	table *table.Table
	hash  uint64
	ref   memory.Ref
}

// Begin makes e the Edit of the entry at ref, whose key has this hash, in t. For package keyspace.
func (e *Edit) Begin(s *Store, t *table.Table, hash uint64, ref memory.Ref) {
	e.store, e.table, e.hash, e.ref = s, t, hash, ref
	e.Edge.Forget()
	e.Enter()
}

// Enter sets the position for views again, after another key was worked on (K2). Root, Splice and the others that change do it themselves.
func (e *Edit) Enter() {
	if e.store.Heap.Holding() {
		e.store.Heap.SetPosition(e.table.Home(), e.hash)
	}
}

// Value is the value as it is now.
func (e *Edit) Value() Value { return At(e.ref) }

// Key is the key, in place: until the next change through e.
func (e *Edit) Key() []byte { return At(e.ref).Key() }

// Hash is the key's.
func (e *Edit) Hash() uint64 { return e.hash }

// Store is where structures allocate and let go.
func (e *Edit) Store() *Store { return e.store }

// Heap is Store().Heap.
func (e *Edit) Heap() *memory.Heap { return e.store.Heap }

// Rand is the source of choices at random.
func (e *Edit) Rand() *rand.PCG { return e.store.Rand }

// Encoding is how the collection is kept now.
func (e *Edit) Encoding() Encoding { return At(e.ref).Encoding() }

// Packed is the listpack or intset, in place, to be read; nil if there is a structure.
func (e *Edit) Packed() []byte { return At(e.ref).Packed() }

// Wide says that what the structure lets go of is retired wide (B3).
func (e *Edit) Wide() bool {
	v := At(e.ref)
	return v.Rooted() && HeaderAt(v.Root()).Moved()
}

// Splice cuts del bytes out of the packed bytes at off and makes room for ins there. It returns all of them, the ins ones undefined, to be
// written to until the next call. ins may be 0, and off, del and ins such that everything stays: then it makes what is there writable.
//
// Cost: what lies behind off moves; a new block when the size asks for it or a view reads the old one.
func (e *Edit) Splice(off, del, ins int) []byte {
	v := At(e.ref)
	old := v.Packed()
	n := len(old) - del + ins
	invariant.That(old != nil && off >= 0 && del >= 0 && ins >= 0 && off+del <= len(old), "splice %d-%d+%d of %d bytes", off, del, ins, len(old))
	e.Enter()
	if b := e.inPlace(v, v.Encoding(), n); b != nil {
		whole := unsafe.Slice(unsafe.SliceData(b), max(n, len(old))) // del and ins may differ: both lengths fit the block
		copy(whole[off+ins:n], whole[off+del:len(old)])
		return b
	}
	next := e.prepare(v.Encoding(), n, n > len(old))
	copy(next.bytes[:off], old)
	copy(next.bytes[off+ins:], old[off+del:])
	e.commit(next)
	return next.bytes
}

// Replace makes the collection a packed one of n undefined bytes, which it returns to be written; what was there, packed or a
// structure, is let go, so that the new bytes must not be read from it.
func (e *Edit) Replace(enc Encoding, n int) []byte {
	e.Enter()
	e.Edge.Forget()
	v := At(e.ref)
	e.store.Used.Note(v.Type(), enc)
	if v.Packed() != nil {
		if b := e.inPlace(v, enc, n); b != nil {
			return b
		}
	}
	next := e.prepare(enc, n, false)
	e.commit(next)
	return next.bytes
}

// Root is the root block of the structure, made writable: copied if a view holds it (B1). The kind's state behind the header may be
// written until the next call.
func (e *Edit) Root() memory.Ref {
	e.Enter()
	e.Edge.Forget()
	root := At(e.ref).Root()
	if HeaderAt(root).Epoch > e.store.Heap.Frozen() {
		return root
	}
	dup := e.store.dupRoot(root)
	e.pointTo(e.Encoding(), dup)
	e.store.dropBlock(root)
	return dup
}

// Reroot puts another root block in the place of the one there is, of which it has taken over what hangs off it: for states that grow.
func (e *Edit) Reroot(root memory.Ref) {
	e.Enter()
	e.Edge.Forget()
	old := At(e.ref).Root()
	HeaderAt(root).moved |= HeaderAt(old).moved
	e.pointTo(e.Encoding(), root)
	e.store.dropBlock(old)
}

// SetRoot makes the collection the structure at root, which is new (Store.NewRoot); what was there, packed or another structure, is let
// go: it must have been read by now.
func (e *Edit) SetRoot(enc Encoding, root memory.Ref) {
	e.Enter()
	e.Edge.Forget()
	v := At(e.ref)
	e.store.Used.Note(v.Type(), enc)
	if v.Rooted() {
		old := v.Root()
		e.pointTo(enc, root)
		e.store.DropRoot(v.Type(), old)
		return
	}
	f := RootForm(v.Type(), enc, len(v.Key()), v.Volatile())
	ref, payload := e.entry(&f)
	*(*memory.Ref)(payload) = root
	e.put(ref)
}

// SetEncoding says that what is there is now called enc (listpack becomes listpackex); its bytes are the caller's.
func (e *Edit) SetEncoding(enc Encoding) {
	if At(e.ref).Encoding() == enc {
		return
	}
	e.Enter()
	e.ownEntry()
	v := At(e.ref)
	f := FormOf(v)
	f.Encoding = enc
	v.Reshape(&f)
	e.store.Used.Note(f.Type, enc)
}

// editable says that no view reads the entry.
func (e *Edit) editable() bool {
	if e.store.Heap.Frozen() == 0 {
		return true
	}
	p := e.table.Locate(e.hash, e.ref)
	return e.table.Edit(&p)
}

// ownEntry replaces the entry by a copy if a view reads it.
func (e *Edit) ownEntry() {
	if e.editable() {
		return
	}
	v := At(e.ref)
	n := v.Size()
	ref := e.store.Heap.Alloc(n, memory.Keys)
	CopyEntry(memory.Pointer(ref), v, n)
	e.put(ref)
}

// pointTo makes a rooted entry's root another one.
func (e *Edit) pointTo(enc Encoding, root memory.Ref) {
	e.ownEntry()
	v := At(e.ref)
	if enc != v.Encoding() {
		f := FormOf(v)
		f.Encoding = enc
		v.Reshape(&f)
	}
	v.SetRoot(root)
}

// entry is a new entry of form f for the same key, with its clock and deadline. Its payload is to be written.
func (e *Edit) entry(f *Form) (ref memory.Ref, payload unsafe.Pointer) {
	v := At(e.ref)
	ref = e.store.Heap.Alloc(f.Size(), memory.Keys)
	p := memory.Pointer(ref)
	payload = f.Write(p, v.Key(), v.Deadline())
	*(*uint32)(p) = v.Clock()
	return ref, payload
}

// put makes ref the key's entry and lets go of the old one's block.
func (e *Edit) put(ref memory.Ref) {
	p := e.table.Locate(e.hash, e.ref)
	if e.table.Replace(&p, ref, e.table.Tick(At(ref).Deadline())) {
		e.store.Heap.Retire(e.ref, memory.Keys)
	} else {
		e.store.Heap.Free(e.ref, memory.Keys)
	}
	e.ref = ref
}

// inPlace makes the packed bytes n long in the block they lie in, nil if that cannot be. What they were is still there, as far as it
// reached. A block is kept until half of it would be unused.
func (e *Edit) inPlace(v Value, enc Encoding, n int) []byte {
	f := FormOf(v)
	if !f.Rooted {
		f.Inline, f.Encoding = n, enc
		block := memory.UsableSize(e.ref)
		if size := f.Size(); !fitsInline(f.KeyLen, n) || size > block || memory.GoodSize(2*size) < block || !e.editable() {
			return nil
		}
		v.Reshape(&f)
		return v.Packed()
	}
	p := packedAt(v.Root())
	if p.Epoch <= e.store.Heap.Frozen() || n > int(p.room) || n < int(p.room)/2 || !e.staysRooted(f.KeyLen, n) {
		return nil
	}
	if enc != f.Encoding {
		e.SetEncoding(enc)
	}
	p.length = uint32(n)
	return p.bytes()
}

// staysRooted says that n bytes do not go back into the entry: they do so when half of what would fit is left.
func (e *Edit) staysRooted(klen, n int) bool { return !fitsInline(klen, 2*n) }

// A successor is what is to stand in the place of a collection's bytes.
type successor struct {
	entry memory.Ref // 0: the old one stays, with another root
	root  memory.Ref // a packed one; 0: bytes lie in entry
	enc   Encoding
	bytes []byte
}

// prepare makes room for n bytes in new blocks.
func (e *Edit) prepare(enc Encoding, n int, growing bool) (next successor) {
	v := At(e.ref)
	klen, rooted := len(v.Key()), v.Rooted()
	f := PackedForm(v.Type(), enc, klen, n, v.Volatile())
	next.enc = enc
	if !f.Rooted && rooted && v.Packed() != nil && e.staysRooted(klen, n) {
		f.Rooted, f.Inline = true, 0
	}
	if f.Rooted {
		room := n
		if growing {
			room += n / 4
		}
		next.root = e.store.newPacked(n, room)
		next.bytes = packedAt(next.root).bytes()
		if rooted {
			HeaderAt(next.root).moved = HeaderAt(v.Root()).moved
			return next
		}
		var payload unsafe.Pointer
		next.entry, payload = e.entry(&f)
		*(*memory.Ref)(payload) = next.root
		return next
	}
	var payload unsafe.Pointer
	next.entry, payload = e.entry(&f)
	next.bytes = PayloadBytes(payload, n)
	return next
}

// commit puts next in the place of what there is and lets that go.
func (e *Edit) commit(next successor) {
	v := At(e.ref)
	old, t := v.Root(), v.Type()
	if next.entry != 0 {
		e.put(next.entry)
	} else {
		e.pointTo(next.enc, next.root)
	}
	if old != 0 {
		e.store.DropRoot(t, old)
	}
}
