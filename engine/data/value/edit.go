package value

import (
	"math/rand/v2"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/internal/invariant"
)

// An Edit is one key's collection while a command changes it. It moves the collection between entry, packed root and
// structure, and copies these for views. Its [Entry] decides in which block the value is stored. Package keyspace
// returns Edits to commands. DESIGN.md has the picture.
//
// value.K1. An Edit is valid until the key is removed or written by other means (for example, by another Edit of the
// key). It also ends when the keyspace has returned three more Edits. Writes to other keys, other Edits' writes and
// lookups do not disturb it.
// value.K2. Root, Splice, Replace, SetRoot and Reroot set the position for views (DESIGN.md: "Position"). A command
// that uses another Edit in between calls Root or Enter when it returns to this one. So work on one collection at a
// time.
// value.K3. The results of Packed, Splice, Replace and Root are valid until the next call of one of them.
// value.K4. An Edit calls no hooks: the command calls keyspace.DB.Touched once.
type Edit struct {
	// Edge is the way to the leaf that a kind with a tree last changed in place. It is forgotten when this Edit opens
	// the structure for another change (Root) or replaces the structure. By value.K1 nothing else does that while the
	// Edit is used.
	Edge tree.Edge

	entry Entry
}

// Find leads e to key in keys, and reports whether keys has key. For package keyspace.
func (e *Edit) Find(keys *Keys, key []byte) bool {
	e.Edge.Forget()
	return e.entry.Find(keys, key)
}

func (e *Edit) Holds(keys *Keys) bool { return e.entry.Holds(keys) }

// HandedOut makes other holders of the entry search again, because its value may be replaced (value.E7). For package
// keyspace.
func (e *Edit) HandedOut() { e.entry.changed() }

// Hash returns the key's hash in its index.
func (e *Edit) Hash() uint64 { return e.entry.Hash() }

// Entry returns the key's entry, for a caller that will give it another value. For package keyspace.
func (e *Edit) Entry() *Entry {
	e.Edge.Forget()
	return &e.entry
}

// Enter sets the position for views again, after work on another key (value.K2). Methods that change the value do so
// themselves.
func (e *Edit) Enter() { e.entry.Enter() }

// Value returns the present value.
func (e *Edit) Value() Value { return At(e.entry.ref) }

// Key returns the key, in place. It is valid until the next change through e.
func (e *Edit) Key() []byte { return At(e.entry.ref).Key() }

// Store returns the store in which structures allocate and free.
func (e *Edit) Store() *Store { return e.entry.keys.store }

func (e *Edit) Heap() *memory.Heap { return e.entry.keys.store.Heap }

// Rand returns the source of random choices.
func (e *Edit) Rand() *rand.PCG { return e.entry.keys.store.Rand }

// Encoding returns the collection's present encoding.
func (e *Edit) Encoding() Encoding { return e.Value().Encoding() }

// Packed returns the listpack or intset, in place, for reading only. It returns nil if the collection is a structure.
func (e *Edit) Packed() []byte { return e.Value().Packed() }

// Wide reports whether the structure's blocks are retired wide (value.B3).
func (e *Edit) Wide() bool {
	v := e.Value()
	return v.Rooted() && HeaderAt(v.Root()).Moved()
}

// Splice replaces del of the packed bytes at off by ins undefined ones. It returns all bytes; the caller may write to
// them until the next call. If del equals ins, or both are 0, it only makes the bytes writable.
//
// Cost: the bytes after off move. The bytes get a new block if the size requires it or a view reads the old block.
func (e *Edit) Splice(off, del, ins int) []byte {
	v := e.Value()
	old := v.Packed()
	n := len(old) - del + ins
	invariant.That(old != nil && off >= 0 && del >= 0 && ins >= 0 && off+del <= len(old),
		"splice %d-%d+%d of %d bytes", off, del, ins, len(old))
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

// Replace makes the collection a packed one of n undefined bytes, and returns them for the caller to write. It frees
// the old content, packed or a structure, so the new bytes must not be read from the old ones.
func (e *Edit) Replace(enc Encoding, n int) []byte {
	v := e.begin(enc)
	if v.Packed() != nil {
		if b := e.inPlace(v, enc, n); b != nil {
			return b
		}
	}
	next := e.prepare(enc, n, false)
	e.commit(next)
	return next.bytes
}

// begin prepares a change of the structure or its encoding.
func (e *Edit) begin(enc Encoding) Value {
	e.Enter()
	e.Edge.Forget()
	v := e.Value()
	e.Store().Used.Note(v.Type(), enc)
	return v
}

// Root returns the root block of the structure, writable. It is a copy if a view holds the old one (value.B1). The
// caller may write the kind's state after the header until the next call.
func (e *Edit) Root() memory.Ref {
	e.Enter()
	e.Edge.Forget()
	root := e.Value().Root()
	if HeaderAt(root).Epoch > e.Heap().Frozen() {
		return root
	}
	dup := e.Store().dupRoot(root)
	e.entry.setRoot(e.Encoding(), dup)
	e.Store().dropBlock(root)
	return dup
}

// Reroot replaces the root block by root, a new one that has taken over the structure's blocks. It is for states that
// grow.
func (e *Edit) Reroot(root memory.Ref) {
	v := e.begin(e.Encoding())
	old := v.Root()
	HeaderAt(root).moved |= HeaderAt(old).moved
	e.entry.setRoot(v.Encoding(), root)
	e.Store().dropBlock(old)
}

// SetRoot makes the collection the structure at root, which must be new (Store.NewRoot). It frees the old content,
// packed or another structure, so the caller must have finished reading that.
func (e *Edit) SetRoot(enc Encoding, root memory.Ref) {
	e.begin(enc)
	e.replaceRoot(enc, root)
}

// SetEncoding gives the present content the encoding enc (listpack becomes listpackex). The caller changes the bytes of
// the content.
func (e *Edit) SetEncoding(enc Encoding) {
	v := e.Value()
	if v.Encoding() == enc {
		return
	}
	e.Enter()
	f := FormOf(v)
	f.Encoding = enc
	e.entry.reform(&f, v.Deadline(), v.PayloadSize())
	e.Store().Used.Note(f.Type, enc)
}

// replaceRoot makes root the entry's root, and frees the old root with its content.
func (e *Edit) replaceRoot(enc Encoding, root memory.Ref) {
	v := e.Value()
	t, old := v.Type(), v.Root()
	if old != 0 {
		e.entry.setRoot(enc, root)
		e.Store().DropRoot(t, old)
		return
	}
	f := RootForm(t, enc, len(v.Key()), v.Volatile())
	*(*memory.Ref)(e.entry.reform(&f, v.Deadline(), 0)) = root
}

// inPlace gives the packed bytes the length n in their present block, or returns nil if that is not possible. The old
// bytes keep their content. A block is kept until half of it would be unused.
func (e *Edit) inPlace(v Value, enc Encoding, n int) []byte {
	f := FormOf(v)
	if !f.Rooted {
		f.Inline, f.Encoding = n, enc
		if !fitsInline(f.KeyLen, n) || !e.entry.belongs(&f) || e.entry.Shared() {
			return nil
		}
		return PayloadBytes(v.reshape(&f, v.Deadline(), 0), n)
	}
	p := packedAt(v.Root())
	if p.Epoch <= e.Heap().Frozen() || n > int(p.room) || n < int(p.room)/2 || !staysRooted(f.KeyLen, n) {
		return nil
	}
	if enc != f.Encoding {
		e.SetEncoding(enc)
	}
	p.length = uint32(n)
	return p.bytes()
}

// staysRooted reports whether n bytes stay in a root instead of moving back into the entry. They move back when at most
// half of what fits in an entry is left.
func staysRooted(klen, n int) bool { return !fitsInline(klen, 2*n) }

// A successor is the new place of a collection's bytes.
type successor struct {
	entry memory.Ref // 0 if the bytes lie in root
	root  memory.Ref // a packed root; 0 if the bytes lie in entry
	enc   Encoding
	bytes []byte
}

// prepare makes room for n bytes in a new block.
func (e *Edit) prepare(enc Encoding, n int, growing bool) (next successor) {
	v := e.Value()
	klen := len(v.Key())
	f := PackedForm(v.Type(), enc, klen, n, v.Volatile())
	next.enc = enc
	if !f.Rooted && !(v.Rooted() && v.Packed() != nil && staysRooted(klen, n)) {
		var payload unsafe.Pointer
		next.entry, payload = e.entry.fresh(&f, v.Deadline())
		next.bytes = PayloadBytes(payload, n)
		return next
	}
	room := n
	if growing {
		room += n / 4
	}
	next.root = e.Store().newPacked(n, room)
	next.bytes = packedAt(next.root).bytes()
	if v.Rooted() {
		HeaderAt(next.root).moved = HeaderAt(v.Root()).moved
	}
	return next
}

// commit replaces the present content by next and frees the old content.
func (e *Edit) commit(next successor) {
	if next.entry != 0 {
		e.entry.Put(next.entry)
	} else {
		e.replaceRoot(next.enc, next.root)
	}
}
