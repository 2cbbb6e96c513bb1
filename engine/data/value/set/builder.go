package set

import (
	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// A Builder makes a set that is not in the keyspace yet: the value of a new key, or the result of combining other sets.
// It uses the same encodings as a set to which the same members are added one by one.
//
// Owner: the core. The buffer of a packed set is reused for the next set. A hashtable's members lie where they will
// stay, and belong to the Builder until Root or Discard.
type Builder struct {
	store    *value.Store
	limits   Limits
	enc      value.Encoding
	packed   []byte
	expected int
	members  table.Table
	state    table.State // State of members, for Reader
}

// roomKept is the largest buffer for packed bytes that a Builder reuses.
const roomKept = 64 << 10

// Begin begins a set in the encoding enc. n is about how many members the set may get; 0 means unknown.
func (b *Builder) Begin(s *value.Store, l Limits, enc value.Encoding, n int) {
	b.store, b.limits, b.enc, b.expected = s, l, enc, n
	if cap(b.packed) > roomKept {
		b.packed = nil
	}
	switch b.packed = b.packed[:0]; enc {
	case value.IntSet:
		b.packed = intset.AppendEmpty(b.packed)
	case value.Listpack:
		b.packed = listpack.AppendEmpty(b.packed)
	default:
		b.begin(n)
	}
}

func (b *Builder) begin(n int) {
	b.enc = value.HashTable
	b.members = table.New(b.store.Heap, table.Member, b.store.Base)
	b.members.Reserve(n)
}

// Add adds a member. It returns false if the set has the member already.
func (b *Builder) Add(e Element) bool {
	var room [number.MaxIntLen]byte
	switch b.enc {
	case value.IntSet:
		if n, ok := e.Integer(); ok {
			var added bool
			b.packed, added = intset.Add(b.packed, n)
			b.checkIntegers()
			return added
		}
	case value.Listpack:
		if listpack.Find(b.packed, listpack.First(b.packed), e.Text(room[:]), 0) != 0 {
			return false
		}
	default:
		return add(b.store.Heap, &b.members, e.Text(room[:]))
	}
	b.Append(e)
	return true
}

// Append is Add for a member that the set does not have.
func (b *Builder) Append(e Element) {
	var room [number.MaxIntLen]byte
	switch b.enc {
	case value.IntSet:
		if n, ok := e.Integer(); ok {
			b.packed, _ = intset.Add(b.packed, n)
			b.checkIntegers()
			return
		}
		if b.limits.asText(b.packed, len(e.Bytes())) {
			set := append([]byte(nil), b.packed...)
			b.enc, b.packed = value.Listpack, appendText(b.packed[:0], set, e.Bytes())
			return
		}
		b.toTable(intset.Len(b.packed) + 1)
	case value.Listpack:
		if s := listpack.Append(b.packed, e.EncodedLen(), 1); b.limits.takes(b.packed, s, e.Len()) {
			b.packed = listpack.AppendElement(b.packed, e)
			return
		}
		b.toTable(listpack.Count(b.packed) + 1)
	}
	insert(b.store.Heap, &b.members, e.Text(room[:]))
}

// checkIntegers turns an intset that has become too long into a hashtable.
func (b *Builder) checkIntegers() {
	if n := intset.Len(b.packed); n > b.limits.integers() {
		b.toTable(n)
	}
}

func (b *Builder) toTable(n int) {
	r := Reader{enc: b.enc, packed: b.packed}
	b.begin(max(n, b.expected))
	b.fill(&r)
}

func (b *Builder) fill(r *Reader) {
	r.All(func(e Element) bool {
		b.Append(e)
		return true
	})
}

// Compact turns the set into an intset if all of its members are integers and not too many. If it is an intset, it
// stays one.
func (b *Builder) Compact() {
	if b.enc == value.IntSet || b.Len() > b.limits.integers() {
		return
	}
	r := b.Reader()
	if !r.All(func(e Element) bool {
		_, ok := e.Integer()
		return ok
	}) {
		return
	}
	set := intset.AppendEmpty(nil)
	r.All(func(e Element) bool {
		n, _ := e.Integer()
		set, _ = intset.Add(set, n)
		return true
	})
	b.Discard()
	b.enc, b.packed = value.IntSet, append(b.packed[:0], set...)
}

// Len returns the number of members so far.
func (b *Builder) Len() int {
	switch b.enc {
	case value.IntSet:
		return intset.Len(b.packed)
	case value.Listpack:
		return listpack.Count(b.packed)
	}
	return b.members.Len()
}

// Encoding returns the set's encoding so far.
func (b *Builder) Encoding() value.Encoding { return b.enc }

// Reader returns a Reader of the present set, valid until the next Add.
func (b *Builder) Reader() Reader {
	if b.enc == value.HashTable {
		b.state = b.members.State()
		return Reader{enc: b.enc, members: &b.state}
	}
	return Reader{enc: b.enc, packed: b.packed}
}

// Packed returns the set's intset or listpack, or nil if the set is a hashtable.
func (b *Builder) Packed() []byte {
	if b.enc == value.HashTable {
		return nil
	}
	return b.packed
}

// Root finishes a set that is a hashtable and returns its root block, which then belongs to the caller.
func (b *Builder) Root() memory.Ref {
	b.members.Reserve(0)
	root := newRoot(b.store, &b.members)
	b.members = table.Table{}
	return root
}

// Discard frees the set that the Builder has begun.
func (b *Builder) Discard() {
	if b.enc == value.HashTable {
		b.store.DropRoot(value.Set, b.Root())
	}
}

// Install makes the set the value of e, in place of the old value.
func (b *Builder) Install(e *value.Edit) {
	if b.enc == value.HashTable {
		e.SetRoot(value.HashTable, b.Root())
		return
	}
	copy(e.Replace(b.enc, len(b.packed)), b.packed)
}
