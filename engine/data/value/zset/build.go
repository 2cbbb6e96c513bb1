package zset

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// A Builder makes a skiplist that belongs to no key yet, member by member: for conversions, loaders and stored ranges.
// Members that come in ascending or descending order leave full leaves. It may go on in a later turn, with views taken
// in between.
type Builder struct {
	store   *value.Store
	h       handle
	ref     memory.Ref // of the root
	longest int
}

// NewBuilder begins a skiplist of about n members, 0: unknown.
func NewBuilder(s *value.Store, n int) *Builder {
	ref := s.NewRoot(value.KindZSet, rootBytes)
	first := table.New(s.Heap, table.Scored, s.Base)
	members := first.State()
	// No view knows it, under whatever key: what a view of other keys makes it copy is retired wide.
	h := handle{rootAt(ref), table.Open(s.Heap, table.Scored, &members, true),
		tree.OpenRecords(s.Heap, value.KindTree, tree.State{}, recordBytes, true), s.Heap}
	if n > 0 {
		h.members.Reserve(n)
	}
	return &Builder{store: s, h: h, ref: ref}
}

// Add adds a member; false, and nothing done, if it is there already. score is no NaN.
func (b *Builder) Add(member []byte, score float64) bool {
	return b.AddHashed(table.Hash(member), member, score)
}

// Touch starts fetching the place where a member is going to be put, and returns its hash for AddHashed: who has
// several members at hand touches them all first, so that their cache misses overlap.
func (b *Builder) Touch(member []byte) (hash uint64) {
	hash = table.Hash(member)
	b.h.members.TouchInsert(hash)
	return hash
}

// AddHashed is Add of a member whose hash is known.
func (b *Builder) AddHashed(hash uint64, member []byte, score float64) bool {
	if _, ref := b.h.members.Find(hash, member); ref != 0 {
		return false
	}
	b.h.insert(hash, member, score)
	b.longest = max(b.longest, len(member))
	return true
}

// AddPacked adds what a listpack holds, of which the order is not relied on; false if a member comes twice.
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

// Len is the number of members so far.
func (b *Builder) Len() int { return b.h.members.Len() }

// Longest is the length of the longest member so far: with Len, what Limits.Holds asks.
func (b *Builder) Longest() int { return b.longest }

// Root is the root of what there is so far: what keyspace.DB's CreateRoot and PutRoot take.
func (b *Builder) Root() memory.Ref {
	b.h.save()
	return b.ref
}

// Discard lets go of what was built, instead.
func (b *Builder) Discard() { b.store.DropRoot(value.ZSet, b.Root()) }

// AppendPacked appends the members as a listpack; Limits.Holds has been asked.
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

// AppendPair appends a member and its score behind the listpack that begins at dst[from] and reaches to dst's end. The
// caller keeps the order.
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
