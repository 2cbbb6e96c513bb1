package value

import (
	"unsafe"

	"spindle/engine/data/memory"
)

// A packed root holds a listpack or an intset that does not fit in its entry.
//
//	0        8       12      16       20      24                24+length   24+room
//	+--------+-------+-------+--------+-------+-----------------+-- ~ ------+
//	| epoch  | moved | kind  | length | room  | the bytes       | unused    |
//	+--------+-------+-------+--------+-------+-----------------+-- ~ ------+
type packed struct {
	Header
	length uint32
	room   uint32
}

const packedHeader = 24

var _ [packedHeader]byte = [unsafe.Sizeof(packed{})]byte{}

func packedAt(ref memory.Ref) *packed { return (*packed)(memory.Pointer(ref)) }

func (p *packed) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p), packedHeader)), int(p.length))
}

// newPacked returns a packed root of n undefined bytes. Its block has room for at least room bytes.
func (s *Store) newPacked(n, room int) memory.Ref {
	ref := s.Heap.Alloc(packedHeader+room, memory.Values)
	*packedAt(ref) = packed{
		Header: Header{Epoch: s.Heap.Epoch(), kind: uint32(KindPacked)}, length: uint32(n),
		room: uint32(memory.UsableSize(ref) - packedHeader),
	}
	return ref
}

// Packed returns the bytes of a collection's listpack or intset, in place, in its entry or its root. It returns nil for
// a structure.
//
// Lifetime: that of the Value. Any goroutine may read the bytes of a frozen value.
func (v Value) Packed() []byte {
	if !v.Rooted() {
		key, klen, vlen := v.lengths()
		return unsafe.Slice((*byte)(unsafe.Add(v.p, key+klen)), vlen)
	}
	root := v.Root()
	if HeaderAt(root).Kind() != KindPacked {
		return nil
	}
	return packedAt(root).bytes()
}

// PackedForm returns the form of a collection whose listpack or intset has n bytes.
func PackedForm(t Type, enc Encoding, klen, n int, volatile bool) Form {
	f := Form{Type: t, Encoding: enc, Volatile: volatile, KeyLen: klen, Inline: n}
	if !fitsInline(klen, n) {
		f.Rooted, f.Inline = true, 0
	}
	return f
}

// RootForm returns the form of a value with a root.
func RootForm(t Type, enc Encoding, klen int, volatile bool) Form {
	return Form{Type: t, Encoding: enc, Volatile: volatile, KeyLen: klen, Rooted: true}
}

// PackedOf returns a packed root with the bytes b.
func (s *Store) PackedOf(b []byte) memory.Ref {
	ref, to := s.NewPacked(len(b))
	copy(to, b)
	return ref
}

// NewPacked returns a packed root of n undefined bytes, for an entry of PackedForm. It also returns these bytes.
func (s *Store) NewPacked(n int) (memory.Ref, []byte) {
	ref := s.newPacked(n, n)
	return ref, packedAt(ref).bytes()
}
