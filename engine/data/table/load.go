package table

import (
	"math/bits"

	"spindle/engine/data/memory"
)

// Add is Insert for a key that may already be in the table. If it is, Add changes nothing and returns added = false.
// volatile means that the key has a deadline. Add reads the block at ref only if volatile is set, or if another key has
// the same tag. It returns the tick of the key's deadline.
func (t *Table) Add(hash uint64, ref memory.Ref, volatile bool) (tick uint32, added bool) {
	e := segmentFor(t.root, hash)
	s := segmentAt(refOf(e))
	b := s.bucket(home(tagOf(hash), int(e&entryBuckets)))
	x := b.meta ^ fingerprintOf(hash)*metaOnes
	free := ^b.meta & metaKeys
	if (x-metaOnes)&^x&metaKeys == 0 && b.meta>>56 == 0 && free != 0 && !volatile && !s.full() &&
		s.epoch > t.heap.Frozen() {
		i := bits.TrailingZeros64(free) >> 3 & 7
		b.meta |= fingerprintOf(hash) << (8 * i)
		b.slot[i] = uint64(ref) | tagOf(hash)<<48
		s.count++
		t.count++
		if t.slots != nil {
			t.slots.add(hash, 1)
		}
		return Never, true
	}
	if t.twin(hash, ref) {
		return Never, false
	}
	tick = Never
	if volatile {
		tick = t.Tick(t.deadline(ref))
	}
	t.Insert(hash, ref, tick)
	return tick, true
}

// twin reports whether the table has a block with the key of the block at ref.
func (t *Table) twin(hash uint64, ref memory.Ref) bool {
	e := segmentFor(t.root, hash)
	s, nb := segmentAt(refOf(e)), int(e&entryBuckets)
	at := home(tagOf(hash), nb)
	for range nb {
		b := s.bucket(at)
		x := b.meta ^ fingerprintOf(hash)*metaOnes
		for m := (x - metaOnes) &^ x & metaKeys; m != 0; m &= m - 1 {
			word := b.slot[bits.TrailingZeros64(m)>>3&7%slots]
			if word>>48 == tagOf(hash) && t.holds(memory.Ref(word&slotRef), t.key(ref)) {
				return true
			}
		}
		if b.meta>>56 == 0 {
			break
		}
		if at++; at == nb {
			at = 0
		}
	}
	return false
}
