package table

import (
	"sync/atomic"

	"spindle/engine/data/memory"
	hashslots "spindle/internal/slots"
)

// Hidden is a set of hash slots whose move to this node is not finished. Walks, counts and draws leave out the keys of
// these slots; Find does not. All tables of a keyspace share one set. Any goroutine may call Has; the other methods are
// for the turn.
//
// table.T3. Slots.groups counts the keys of slots that are not hidden. Slots.concealed counts the keys of hidden slots
// and, by slot, those of them with a deadline.
type Hidden struct {
	n    int
	bits [hashslots.Count / 64]atomic.Uint64
}

// Has reports whether the slot is hidden.
func (h *Hidden) Has(slot uint16) bool { return h.bits[slot/64].Load()>>(slot%64)&1 != 0 }

// Any reports whether a slot is hidden.
func (h *Hidden) Any() bool { return h.n > 0 }

// Len returns the number of hidden slots.
func (h *Hidden) Len() int { return h.n }

// Set adds the slot to the set, or removes it. The caller then calls Table.Shift for each table.
func (h *Hidden) Set(slot uint16, hidden bool) {
	word, bit := &h.bits[slot/64], uint64(1)<<(slot%64)
	switch was := word.Load(); {
	case hidden && was&bit == 0:
		word.Store(was | bit)
		h.n++
	case !hidden && was&bit != 0:
		word.Store(was &^ bit)
		h.n--
	}
}

// Copy returns a copy of the present set, which does not change any more. It returns nil if no slot is hidden.
func (h *Hidden) Copy() *Hidden {
	if h.n == 0 {
		return nil
	}
	c := &Hidden{n: h.n}
	for i := range h.bits {
		c.bits[i].Store(h.bits[i].Load())
	}
	return c
}

// concealed counts a table's keys in hidden slots.
type concealed struct {
	keys     int
	volatile map[uint16]int // of slots that have some
	deadline int            // the sum of volatile
}

// Shift counts a slot's keys as hidden, or as shown. The caller has already changed the set.
// Cost: the slot's keys when they become hidden. As a rule it has none then.
func (t *Table) Shift(slot uint16, hidden bool) {
	s := t.slots
	n := int32(s.Count(slot))
	if hidden {
		t.EachOf(slot, int(n), func(ref memory.Ref) {
			if t.deadline(ref) != 0 {
				s.noteVolatile(prefixOf(slot), 1)
			}
		})
	} else {
		s.concealed.deadline -= s.concealed.volatile[slot]
		delete(s.concealed.volatile, slot)
		n = -n
	}
	s.concealed.keys += int(n)
	s.groups[slot/groupSize] -= n
}

// noteVolatile adds n to the number of keys with a deadline in the slot of hash, if that slot is hidden.
func (s *Slots) noteVolatile(hash uint64, n int) {
	if !s.hidden.Any() {
		return
	}
	slot := slotOf(hash)
	if !s.hidden.Has(slot) {
		return
	}
	if s.concealed.volatile == nil {
		s.concealed.volatile = map[uint16]int{}
	}
	s.concealed.volatile[slot] += n
	s.concealed.deadline += n
}

// Conceals reports whether the key of a block lies in a hidden slot.
func (t *Table) Conceals(ref memory.Ref) bool {
	return t.slots != nil && t.slots.hidden.Any() && t.slots.hidden.Has(hashslots.Of(t.key(ref)))
}

// ConcealsHash is Conceals for the key with this hash.
func (t *Table) ConcealsHash(hash uint64) bool {
	return t.slots != nil && t.slots.hidden.Any() && t.slots.hidden.Has(slotOf(hash))
}

// Shown returns the number of keys, without those of hidden slots.
func (t *Table) Shown() int {
	if t.slots == nil {
		return t.count
	}
	return t.count - t.slots.concealed.keys
}

// ShownVolatile returns the number of keys with a deadline, without those of hidden slots.
func (t *Table) ShownVolatile() int {
	if t.slots == nil {
		return t.volatile
	}
	return t.volatile - t.slots.concealed.deadline
}

// noteDeadline counts that the key at p, whose block is ref, gets or loses its deadline. p may have only a part of the
// hash.
func (t *Table) noteDeadline(p *Place, ref memory.Ref, gets bool) {
	if !t.slots.hidden.Any() {
		return
	}
	n := -1
	if gets {
		n = 1
	}
	t.slots.noteVolatile(t.HashOf(t.key(ref)), n)
}
