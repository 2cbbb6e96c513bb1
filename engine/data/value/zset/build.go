package zset

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// A Builder makes a skiplist that does not yet belong to a key, member by member. It is for conversions, loaders and
// stored ranges. Members in ascending or descending order leave full leaves. It may continue in a later turn, even if
// views were opened in between.
type Builder struct {
	store   *value.Store
	h       handle
	ref     memory.Ref // of the root
	longest int
}

// NewBuilder begins a skiplist of about n members. 0 means that the number is unknown.
func NewBuilder(s *value.Store, n int) *Builder {
	ref := s.NewRoot(value.KindZSet, rootBytes)
	first := table.New(s.Heap, table.Scored, s.Base)
	members := first.State()
	// No view knows the skiplist under any key. But views of other keys may make it copy blocks; those are retired
	// wide.
	h := handle{rootAt(ref), table.Open(s.Heap, table.Scored, &members, true),
		tree.OpenRecords(s.Heap, value.KindTree, tree.State{}, recordBytes, true), s.Heap}
	if n > 0 {
		h.members.Reserve(n)
	}
	return &Builder{store: s, h: h, ref: ref}
}

// Add adds a member. If the skiplist has it already, Add does nothing and returns false. score must not be NaN.
func (b *Builder) Add(member []byte, score float64) bool {
	return b.AddHashed(table.Hash(member), member, score)
}

// Touch starts fetching the memory for a new member, and returns the member's hash for AddHashed. A caller with several
// members touches all of them first, so that their cache misses overlap.
func (b *Builder) Touch(member []byte) (hash uint64) {
	hash = table.Hash(member)
	b.h.members.TouchInsert(hash)
	return hash
}

// AddHashed is Add for a member whose hash is known.
func (b *Builder) AddHashed(hash uint64, member []byte, score float64) bool {
	if _, ref := b.h.members.Find(hash, member); ref != 0 {
		return false
	}
	b.h.insert(hash, member, score)
	b.longest = max(b.longest, len(member))
	return true
}

// AddPacked adds the members of a listpack in any order. It returns false if a member occurs twice.
func (b *Builder) AddPacked(lp []byte) bool {
	different := true
	var room [number.MaxIntLen]byte
	for at := listpack.First(lp); at != 0; {
		member, next := listpack.GetNext(lp, at)
		x, behind := listpack.GetNext(lp, next)
		different = b.Add(member.Text(room[:]), scoreOf(x)) && different
		at = behind
	}
	return different
}

// Len returns the number of members so far.
func (b *Builder) Len() int { return b.h.members.Len() }

// Longest returns the length of the longest member so far, for Limits.Holds.
func (b *Builder) Longest() int { return b.longest }

// Root returns the root of the skiplist built so far. keyspace.DB's CreateRoot and PutRoot take it.
func (b *Builder) Root() memory.Ref {
	b.h.save()
	return b.ref
}

// Discard frees the skiplist built so far.
func (b *Builder) Discard() { b.store.DropRoot(value.ZSet, b.Root()) }

// AppendPacked appends the members as a listpack. The caller must have checked Limits.Holds.
func (b *Builder) AppendPacked(dst []byte) []byte {
	lp := listpack.AppendEmpty(dst)
	from := len(dst)
	var c tree.Cursor
	for ok := b.h.order.First(&c); ok; ok = c.Next() {
		ref := memory.Ref(c.Record()[1])
		lp = AppendPair(lp, from, table.ScoredKey(ref), table.Score(ref))
	}
	return lp
}

// AppendPair appends a member and its score to the listpack that begins at dst[from] and ends with dst. The caller must
// append in the right order.
func AppendPair(dst []byte, from int, member []byte, score float64) []byte {
	var room [32]byte
	m, x := listpack.Of(member), scoreElement(score, room[:])
	s := listpack.Append(dst[from:], m.EncodedLen()+x.EncodedLen(), 2)
	for range s.Ins {
		dst = append(dst, 0)
	}
	lp := dst[from:]
	s.Open(lp)
	gap := s.Gap(lp)
	x.Put(gap[m.Put(gap):])
	return dst
}
