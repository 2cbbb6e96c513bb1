package table

import (
	"math/bits"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// A Table is an index from keys to blocks.
//
// Its root is one word, an entry. An entry leads to a segment, or to a node of 2^bits entries. The next bits of the
// hash select one of the node's entries.
//
//	segment entry   63..58 zero | 47..6 segment | 5..0 buckets, 1..63
//	node entry      63..58 bits | 47..6 node    | 5..0 zero
//
// So a lookup reads entries from the root down and then one bucket, never the segment's header. Freezing the table
// means keeping a copy of the root word.
type Table struct {
	root     uint64
	heap     *memory.Heap
	slots    *Slots // in cluster mode; else nil
	count    int
	volatile int
	layout   Layout
	home     int  // the database number in holds' positions
	nested   bool // in a collection: its owner sets positions (table.O3)
	moved    bool // nested, and retires wide
	due      dueIndex
	aim      aim    // set by Reserve
	moves    uint64 // see Moves
}

const (
	entryBuckets = 63         // mask: 0 in a node's entry
	entryRef     = 1<<48 - 64 // mask
	entryBits    = 58         // shift
)

// A node is a header line and 2^bits entries. If a segment is less deep than its node's entries, it fills as many of
// them as it needs.
type node struct {
	epoch uint64
	bits  uint8
	depth uint8 // bits of the hash that lead here
	mark  uint8 // destroying, or 0
	_     [53]byte
}

const (
	maxBits    = 9
	destroying = 1
	maxLevels  = maxDepth + 1
)

// nodeBytes returns the size of a node, a multiple of 64, because an entry uses the low bits.
func nodeBytes(bits uint8) int { return max(128, 64+8<<bits) }

func nodeAt(r memory.Ref) *node { return (*node)(memory.Pointer(r)) }

func (n *node) entry(i uint64) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(n), 64+i*8))
}

func segmentEntry(r memory.Ref, nb int) uint64 {
	invariant.That(r&^entryRef == 0, "segment at %x", r)
	return uint64(r) | uint64(nb)
}

func nodeEntry(r memory.Ref, bits uint8) uint64 {
	invariant.That(r&^entryRef == 0, "node at %x", r)
	return uint64(r) | uint64(bits)<<entryBits
}

// refOf returns the segment or node that e leads to.
func refOf(e uint64) memory.Ref { return memory.Ref(e & entryRef) }

// Init makes t an empty table in h. home is the database number under which walkers of a view report their progress.
func (t *Table) Init(h *memory.Heap, layout Layout, home int) {
	*t = Table{heap: h, layout: layout, home: home, moves: t.moves + 1, slots: t.slots}
	t.due.init(h)
	t.root = t.newSegment(1, 0, 0)
}

func (t *Table) Len() int { return t.count }

// Volatile returns the number of keys with a deadline.
func (t *Table) Volatile() int { return t.volatile }

func (t *Table) Home() int { return t.home }

// A Place is the slot of a key in a table. It is valid until Moves changes. A call that gets the Place, and changes
// Moves itself, keeps the Place valid.
type Place struct {
	hash uint64
	seg  memory.Ref
	at   uint32 // bucket<<3 | slot
	nb   uint32
}

// Moves returns a number that changes whenever a Place found earlier may no longer be valid.
func (t *Table) Moves() uint64 { return t.moves }

// Moved changes the number that Moves returns, for a caller that invalidates more than Places.
func (t *Table) Moved() { t.moves++ }

// word returns the address of the place's slot.
func (p *Place) word() *uint64 {
	return (*uint64)(unsafe.Add(memory.Pointer(p.seg), 64+int(p.at>>3)*64+8+int(p.at&7)*8))
}

func (p *Place) Hash() uint64 { return p.hash }

// SetHash sets the place's full hash. The leading bits that the place already has must be the same.
func (p *Place) SetHash(hash uint64) { p.hash = hash }

// Ref returns the block in the place's slot.
func (p *Place) Ref() memory.Ref { return memory.Ref(*p.word() & slotRef) }

// Volatile reports whether the key at p has a deadline.
func (p *Place) Volatile() bool { return *p.word()&slotVolatile != 0 }

// segmentFor returns the entry of the segment that hash leads to.
func segmentFor(root, hash uint64) uint64 {
	for root&entryBuckets == 0 {
		n := root >> entryBits
		root = *(*uint64)(unsafe.Add(memory.Pointer(memory.Ref(root&entryRef)), 64+hash>>((64-n)&63)*8))
		hash <<= n
	}
	return root
}

// Find returns the place and the block of key, whose Hash is hash. If the key is missing, the block is 0 and the place
// holds only the hash.
func (t *Table) Find(hash uint64, key []byte) (Place, memory.Ref) {
	e := segmentFor(t.root, hash)
	seg, nb := memory.Pointer(refOf(e)), e&entryBuckets
	tag := hash >> 8 & 0xFFFF
	pattern := fingerprintOf(hash) * metaOnes
	at := tag * nb >> 16
	for probes := nb; probes > 0; probes-- {
		b := (*bucket)(unsafe.Add(seg, 64+at*64))
		x := b.meta ^ pattern
		for m := (x - metaOnes) &^ x & metaKeys; m != 0; m &= m - 1 {
			i := uint64(bits.TrailingZeros64(m)) >> 3
			word := *(*uint64)(unsafe.Add(unsafe.Pointer(b), 8+i*8))
			if word>>48 == tag && t.holds(memory.Ref(word&slotRef), key) {
				return Place{hash, refOf(e), uint32(at<<3 | i), uint32(nb)}, memory.Ref(word & slotRef)
			}
		}
		if b.meta>>56 == 0 {
			break
		}
		if at++; at == nb {
			at = 0
		}
	}
	return Place{hash: hash}, 0
}

// Locate returns the place of ref, a block in the table whose key has this hash. It is like Find, but reads no blocks.
func (t *Table) Locate(hash uint64, ref memory.Ref) Place {
	e := segmentFor(t.root, hash)
	s, nb := segmentAt(refOf(e)), int(e&entryBuckets)
	at := home(tagOf(hash), nb)
	for range nb {
		b := s.bucket(at)
		for m := b.meta & metaKeys; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m) >> 3
			if b.slot[i]&slotRef == uint64(ref) {
				return Place{hash, refOf(e), uint32(at<<3 | i), uint32(nb)}
			}
		}
		if at++; at == nb {
			at = 0
		}
	}
	invariant.That(false, "table: block %x of hash %x does not stand in its segment", ref, hash)
	return Place{}
}

// FindHash returns the place and the block of the first key with this hash. The block is 0 if there is none.
func (t *Table) FindHash(hash uint64) (Place, memory.Ref) {
	e := segmentFor(t.root, hash)
	s, nb := segmentAt(refOf(e)), int(e&entryBuckets)
	at := home(tagOf(hash), nb)
	for range nb {
		b := s.bucket(at)
		for m := b.meta & metaKeys; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m) >> 3
			if word := b.slot[i]; word>>48 == tagOf(hash) && t.HashOf(t.key(memory.Ref(word&slotRef))) == hash {
				return Place{hash, refOf(e), uint32(at<<3 | i), uint32(nb)}, memory.Ref(word & slotRef)
			}
		}
		if b.meta>>56 == 0 {
			break
		}
		if at++; at == nb {
			at = 0
		}
	}
	return Place{}, 0
}

// FindIn is Find in a frozen root, by any goroutine while the view is open, or in the present root by the turn.
func FindIn(root uint64, layout Layout, hash uint64, key []byte) memory.Ref {
	t := Table{root: root, layout: layout}
	_, ref := t.Find(hash, key)
	return ref
}

// Touch starts fetching the home bucket of this hash into the CPU's cache.
func (t *Table) Touch(hash uint64) {
	e := segmentFor(t.root, hash)
	memory.Prefetch(unsafe.Add(memory.Pointer(refOf(e)), 64+(tagOf(hash)*(e&entryBuckets)>>16)*64))
}

// TouchInsert starts fetching the memory that Insert writes for this hash: the bucket and the segment's header.
func (t *Table) TouchInsert(hash uint64) {
	e := segmentFor(t.root, hash)
	seg := memory.Pointer(refOf(e))
	memory.Prefetch(seg)
	memory.Prefetch(unsafe.Add(seg, 64+(tagOf(hash)*(e&entryBuckets)>>16)*64))
}

// TouchBlock starts fetching the block of a key with this hash. The key's bucket should be cached, so call Touch some
// time before.
func (t *Table) TouchBlock(hash uint64) {
	e := segmentFor(t.root, hash)
	tag := tagOf(hash)
	b := (*bucket)(unsafe.Add(memory.Pointer(refOf(e)), 64+(tag*(e&entryBuckets)>>16)*64))
	x := b.meta ^ fingerprintOf(hash)*metaOnes
	for m := (x - metaOnes) &^ x & metaKeys; m != 0; m &= m - 1 {
		if word := b.slot[bits.TrailingZeros64(m)>>3&7%slots]; word>>48 == tag {
			memory.PrefetchRef(memory.Ref(word & slotRef))
			return
		}
	}
}

// Insert adds a block under hash. Its key must not be in the table. tick is that of the key's deadline, or Never.
// Cost: one bucket. Now and then a segment is rebuilt: at most some 400 keys rehashed and one node of 4 KB copied.
func (t *Table) Insert(hash uint64, ref memory.Ref, tick uint32) {
	for {
		e := segmentFor(t.root, hash)
		s := segmentAt(refOf(e))
		if s.full() {
			t.grow(hash)
			continue
		}
		if s.epoch <= t.heap.Frozen() {
			e = t.own(hash)
			s = segmentAt(refOf(e))
		}
		word := uint64(ref) | tagOf(hash)<<48
		if tick != Never {
			word |= slotVolatile
			t.volatile++
			if t.slots != nil {
				t.slots.noteVolatile(hash, 1)
			}
		}
		at, _ := s.insert(word, fingerprintOf(hash))
		t.count++
		if t.slots != nil {
			t.slots.add(hash, 1)
		}
		if tick != Never {
			t.noteDue(s, at, tick)
		}
		return
	}
}

// Edit makes p's segment writable. It reports whether p's block may be edited in place; if not, the caller must replace
// the block.
func (t *Table) Edit(p *Place) bool {
	frozen := t.heap.Frozen()
	if frozen == 0 {
		return true
	}
	return t.editSlow(p, frozen)
}

func (t *Table) editSlow(p *Place, frozen uint64) bool {
	if segmentAt(p.seg).epoch <= frozen {
		p.seg = refOf(t.own(p.hash))
	}
	return *p.word()&slotShared == 0
}

// Replace puts ref into p's slot. ref may be the old block after an edit that changed its deadline. tick is that of the
// deadline, or Never. shared means that an open view may still reach the old block. Then the caller must retire the old
// block, otherwise free it.
func (t *Table) Replace(p *Place, ref memory.Ref, tick uint32) (shared bool) {
	shared = !t.Edit(p)
	t.moves++
	word := p.word()
	s := segmentAt(p.seg)
	was, is := *word&slotVolatile != 0, tick != Never
	if was != is {
		if t.slots != nil {
			t.noteDeadline(p, ref, is)
		}
		if is {
			s.volatile++
			t.volatile++
		} else {
			s.volatile--
			t.volatile--
		}
	}
	next := uint64(ref) | *word&^(1<<48-1)
	if is {
		next |= slotVolatile
	}
	*word = next
	if is {
		t.noteDue(s, int(p.at>>3), tick)
	} else if was && s.volatile == 0 {
		t.dropSidecar(s)
	}
	return shared
}

// Remove removes the key at p from the table. shared means that an open view may still reach its block.
func (t *Table) Remove(p *Place) (shared bool) {
	shared = t.removeOnly(p)
	if segmentAt(p.seg).sparse() {
		t.shrink(p.hash)
	}
	return shared
}

// removeOnly is Remove without shrinking the segment. So other places in the segment stay valid.
func (t *Table) removeOnly(p *Place) (shared bool) {
	shared = !t.Edit(p)
	t.moves++
	s := segmentAt(p.seg)
	volatile := *p.word()&slotVolatile != 0
	s.remove(int(p.at>>3), int(p.at&7))
	t.count--
	if t.slots != nil {
		t.slots.add(p.hash, -1)
	}
	if volatile {
		t.volatile--
		if t.slots != nil {
			t.slots.noteVolatile(p.hash, -1)
		}
		if s.volatile == 0 {
			t.dropSidecar(s)
		}
	}
	return shared
}
