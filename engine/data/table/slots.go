package table

import (
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"

	"spindle/engine/data/memory"
	hashslots "spindle/internal/slots"
)

// In cluster mode a table uses hashes that begin with the key's hash slot, its bits reversed:
//
//	63          50 49                           0
//	+-------------+-----------------------------+
//	| slot 0..13  | the lower bits of Hash(key) |
//	+-------------+-----------------------------+
//
// So a slot's keys lie together under one prefix, while freezing, walking and SCAN work as before. A cluster node
// usually owns a range of slots. Because the bits are reversed, the node's keys differ in the hash's top bits, by which
// savers and loaders divide their work.
//
// table.T1. Every hash that is given to this table comes from HashOf.
// table.T2. Slots.counts holds how many keys of each slot the table has. The sign bit of a count is the slot's mark.
// Slots.groups holds the sums of groupSize counts each.

// slotBits is how many bits of a hash are its slot.
const (
	slotBits  = 14
	groupSize = 128
)

// marked is the sign bit of a count.
const marked = math.MinInt32

// Slots counts a table's keys by slot. Any goroutine may call Count, Mark and Marked; the other methods are for the
// turn.
type Slots struct {
	counts [hashslots.Count]atomic.Int32
	groups [hashslots.Count / groupSize]int32

	hidden    *Hidden
	concealed concealed
}

// Count returns the number of keys in the slot.
func (s *Slots) Count(slot uint16) int { return int(s.counts[slot].Load() &^ marked) }

// Mark marks the slot if it has keys. The mark goes when the slot's last key goes.
func (s *Slots) Mark(slot uint16) {
	for {
		if n := s.counts[slot].Load(); n <= 0 || s.counts[slot].CompareAndSwap(n, n|marked) {
			return
		}
	}
}

// Marked reports whether the slot has had keys ever since it was marked.
func (s *Slots) Marked(slot uint16) bool { return s.counts[slot].Load() < 0 }

func (s *Slots) add(hash uint64, n int32) {
	slot := slotOf(hash)
	if s.counts[slot].Add(n) == marked {
		s.counts[slot].Store(0) // nothing comes between: only the turn adds, and Mark leaves slots without keys alone
	}
	if s.hidden.Any() && s.hidden.Has(slot) {
		s.concealed.keys += int(n)
		return
	}
	s.groups[slot/groupSize] += n
}

// draw returns a random slot that is not hidden, with a probability in proportion to its keys. n is the number of keys
// in all such slots.
func (s *Slots) draw(r *rand.PCG, n int) (slot uint16) {
	k := int32(below(r, uint64(n)))
	group := 0
	for ; k >= s.groups[group]; group++ {
		k -= s.groups[group]
	}
	for slot = uint16(group * groupSize); ; slot++ {
		if s.hidden.Has(slot) {
			continue
		}
		if k -= int32(s.Count(slot)); k < 0 {
			return slot
		}
	}
}

// prefixOf returns the leading bits of the hashes of a slot's keys.
func prefixOf(slot uint16) uint64 { return uint64(bits.Reverse16(slot)) << 48 }

func slotOf(hash uint64) uint16 { return bits.Reverse16(uint16(hash>>48) &^ 3) }

// slotHash is HashOf in cluster mode.
func slotHash(key []byte) uint64 {
	return prefixOf(hashslots.Of(key)) | maphash.Bytes(seed, key)&(1<<(64-slotBits)-1)
}

// CountSlots puts the table into cluster mode. The table must be empty, and no hash computed for it may still be in
// use.
func (t *Table) CountSlots(hidden *Hidden) { t.slots = &Slots{hidden: hidden} }

// Slots returns the table's slot counts, or nil outside cluster mode. When the table is emptied, it gets new counts.
func (t *Table) Slots() *Slots { return t.slots }

// HashOf returns the hash of a key for this table.
func (t *Table) HashOf(key []byte) uint64 {
	if t.slots != nil {
		return slotHash(key)
	}
	return Hash(key)
}

// HashOf returns the hash of a key, for a table in cluster mode if bySlot is set.
func HashOf(key []byte, bySlot bool) uint64 {
	if bySlot {
		return slotHash(key)
	}
	return Hash(key)
}

// EachOf yields up to limit blocks of a slot's keys. yield must not write to the table.
// Cost: the keys yielded. If a segment holds several slots, up to one full segment's keys are hashed.
func (t *Table) EachOf(slot uint16, limit int, yield func(memory.Ref)) {
	if limit = min(limit, t.slots.Count(slot)); limit <= 0 {
		return
	}
	WalkSlot(t.root, t.layout, slot, func(ref memory.Ref) bool {
		yield(ref)
		limit--
		return limit > 0
	})
}

// WalkSlot yields the blocks of a slot's keys until yield returns false. Any goroutine may walk a frozen root. It costs
// as much as EachOf.
func WalkSlot(root uint64, layout Layout, slot uint16, yield func(memory.Ref) bool) {
	t := Table{root: root, layout: layout}
	first := prefixOf(slot)
	last := first | (1<<(64-slotBits) - 1)
	for prefix := first; ; {
		s := segmentAt(refOf(segmentFor(root, prefix)))
		nb := int(s.nb)
		for i := range nb + walkAhead {
			if i < nb {
				s.bucket(i).prefetch()
			}
			if i < walkAhead {
				continue
			}
			b := s.bucket(i - walkAhead)
			for m := b.meta & metaKeys; m != 0; m &= m - 1 {
				ref := memory.Ref(b.slot[bits.TrailingZeros64(m)>>3] & slotRef)
				if s.depth < slotBits && hashslots.Of(t.key(ref)) != slot {
					continue
				}
				if !yield(ref) {
					return
				}
			}
		}
		end := s.prefix | ^uint64(0)>>s.depth
		if end >= last {
			return
		}
		prefix = end + 1
	}
}

// ScanOf is Scan for one slot: it begins with the slot and ends after it. It may yield keys of other slots, too.
func (t *Table) ScanOf(slot uint16, cursor uint64, count int, yield func(memory.Ref)) uint64 {
	return ScanOfIn(t.root, slot, cursor, count, yield)
}

// ScanOfIn is ScanOf of the table with this root. Any goroutine may scan a frozen root.
func ScanOfIn(root uint64, slot uint16, cursor uint64, count int, yield func(memory.Ref)) uint64 {
	first := prefixOf(slot)
	if cursor == 0 {
		cursor = cursorOf(first, 0, slotBits)
	}
	cursor = ScanIn(root, cursor, count, yield)
	depth := cursor & 63 // 0 means that the table is one segment
	if depth > 0 && cursor>>22<<(64-depth) > first|(1<<(64-slotBits)-1) {
		return 0
	}
	return cursor
}

// drawInSlots is drawSegment for cluster mode, where slots may hold very different numbers of keys. It draws a slot,
// then one of the slot's segments.
func (t *Table) drawInSlots(r *rand.PCG) *segment {
	slot := t.slots.draw(r, t.Shown())
	count := t.slots.Count(slot)
	for range 256 {
		hash := prefixOf(slot) | r.Uint64()&(1<<(64-slotBits)-1)
		s := segmentAt(refOf(segmentFor(t.root, hash)))
		if s.depth <= slotBits || fraction(r)*float64(3*count) < float64(uint64(s.count)<<(s.depth-slotBits)) {
			return s
		}
	}
	return segmentAt(refOf(segmentFor(t.root, t.HashOf(t.key(t.some(prefixOf(slot))))))) // does not happen in practice
}
