package table

import (
	"math/bits"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// A Table is an index from keys to blocks.
//
// Its root is one word, an entry: a segment, or a node of 2^bits entries which the next bits of the hash choose
// between.
//
//	segment entry   63..58 zero | 47..6 segment | 5..0 buckets, 1..63
//	node entry      63..58 bits | 47..6 node    | 5..0 zero
//
// So a lookup reads entries from the root down and then one bucket, not the segment's header; and to freeze the table
// is to keep a copy of that one word.
type Table struct {
	root     uint64
	heap     *memory.Heap
	slots    *Slots // in cluster mode; else nil
	count    int
	volatile int
	layout   Layout
	home     int  // the number under which holds follow walks of this table
	nested   bool // in a collection: its owner sets positions (table.O3)
	moved    bool // nested, and retires wide
	due      dueIndex
	aim      aim    // of Reserve
	moves    uint64 // see Moves
}

const (
	entryBuckets = 63         // mask: 0 in a node's entry
	entryRef     = 1<<48 - 64 // mask
	entryBits    = 58         // shift
)

// A node is a header line and 2^bits entries. A segment of less depth than its node fills as many entries as it needs.
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

// nodeBytes is a multiple of 64, as the low bits of an entry want it.
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

// refOf is the segment or node of an entry.
func refOf(e uint64) memory.Ref { return memory.Ref(e & entryRef) }

// Init makes t an empty table of h. home is the number that walkers of a view of t report their progress under.
func (t *Table) Init(h *memory.Heap, layout Layout, home int) {
	*t = Table{heap: h, layout: layout, home: home, moves: t.moves + 1, slots: t.slots}
	t.due.init(h)
	t.root = t.newSegment(1, 0, 0)
}

// Len is the number of keys.
func (t *Table) Len() int { return t.count }

// Volatile is the number of keys with a deadline.
func (t *Table) Volatile() int { return t.volatile }

// Home is the number that Init was given.
func (t *Table) Home() int { return t.home }

// A Place is where a key stands in a table. It holds until Moves changes, except by the call that got it.
type Place struct {
	hash uint64
	seg  memory.Ref
	at   uint32 // bucket<<3 | slot
	nb   uint32
}

// Moves has another value when a Place that was found before may no longer hold.
func (t *Table) Moves() uint64 { return t.moves }

// Moved makes Moves another, for who keeps more by it than a Place.
func (t *Table) Moved() { t.moves++ }

// word is the place's slot.
func (p *Place) word() *uint64 {
	return (*uint64)(unsafe.Add(memory.Pointer(p.seg), 64+int(p.at>>3)*64+8+int(p.at&7)*8))
}

// Hash is the hash of the key that stands there.
func (p *Place) Hash() uint64 { return p.hash }

// SetHash makes the place's hash whole; it begins as it did.
func (p *Place) SetHash(hash uint64) { p.hash = hash }

// Ref is the block that stands there.
func (p *Place) Ref() memory.Ref { return memory.Ref(*p.word() & slotRef) }

// Volatile says that the key at p has a deadline.
func (p *Place) Volatile() bool { return *p.word()&slotVolatile != 0 }

// segmentFor is the entry of the segment that a hash leads to.
func segmentFor(root, hash uint64) uint64 {
	for root&entryBuckets == 0 {
		n := root >> entryBits
		root = *(*uint64)(unsafe.Add(memory.Pointer(memory.Ref(root&entryRef)), 64+hash>>((64-n)&63)*8))
		hash <<= n
	}
	return root
}

// Find is the block of key, whose Hash is hash, and its place; 0, and a place with nothing but the hash, when there is
// none.
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

// Locate is the place of ref, a block of a key of this hash that is in the table: Find without reading blocks.
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

// FindHash is the first block whose key has this hash, and its place; 0 when there is none.
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

// FindIn is Find in a frozen root, by any goroutine while the view lives, or in the live one by the turn.
func FindIn(root uint64, layout Layout, hash uint64, key []byte) memory.Ref {
	t := Table{root: root, layout: layout}
	_, ref := t.Find(hash, key)
	return ref
}

// Touch starts fetching the bucket where a key of this hash would stand.
func (t *Table) Touch(hash uint64) {
	e := segmentFor(t.root, hash)
	memory.Prefetch(unsafe.Add(memory.Pointer(refOf(e)), 64+(tagOf(hash)*(e&entryBuckets)>>16)*64))
}

// TouchInsert starts fetching what Insert of a key of this hash writes to: its bucket, and what its segment counts.
func (t *Table) TouchInsert(hash uint64) {
	e := segmentFor(t.root, hash)
	seg := memory.Pointer(refOf(e))
	memory.Prefetch(seg)
	memory.Prefetch(unsafe.Add(seg, 64+(tagOf(hash)*(e&entryBuckets)>>16)*64))
}

// TouchBlock starts fetching the block of a key of this hash, when its bucket is at hand: some time after Touch.
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

// Insert adds a block under a hash whose key is not in the table. tick is its deadline's (Never: none).
// Cost: one bucket, and now and then a segment built anew: at most some 400 keys rehashed and one node of 4 KB copied.
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
		}
		at, _ := s.put(word, fingerprintOf(hash))
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

// Edit makes p's segment writable and says whether its block may be edited in place; if not, it must be replaced.
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

// Replace puts ref in the place of p's block, or the same block after an edit that changed its deadline: tick is the
// deadline's (Never: none). It returns whether a live view may still reach the old block: retire it then, else free it.
func (t *Table) Replace(p *Place, ref memory.Ref, tick uint32) (shared bool) {
	shared = !t.Edit(p)
	t.moves++
	word := p.word()
	s := segmentAt(p.seg)
	was, is := *word&slotVolatile != 0, tick != Never
	if was != is {
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

// Remove takes the key at p out of the table. It returns whether a live view may still reach its block.
func (t *Table) Remove(p *Place) (shared bool) {
	shared = t.removeOnly(p)
	if segmentAt(p.seg).sparse() {
		t.shrink(p.hash)
	}
	return shared
}

// removeOnly is Remove without making the segment smaller, so that other places in it hold.
func (t *Table) removeOnly(p *Place) (shared bool) {
	shared = !t.Edit(p)
	t.moves++
	s := segmentAt(p.seg)
	volatile := *p.word()&slotVolatile != 0
	s.take(int(p.at>>3), int(p.at&7))
	t.count--
	if t.slots != nil {
		t.slots.add(p.hash, -1)
	}
	if volatile {
		t.volatile--
		if s.volatile == 0 {
			t.dropSidecar(s)
		}
	}
	return shared
}
