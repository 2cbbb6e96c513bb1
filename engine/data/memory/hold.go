package memory

import (
	"sync/atomic"

	"spindle/internal/invariant"
)

// A Hold keeps the blocks that were reachable at the moment of its Freeze. A block retired later is freed when no live
// hold can still read it.
//
//	holds      oldest ─────────────▶ newest            Retire puts a block on the newest hold that has not passed it
//	shelves    [db][hash's top 8 bits], wide
//	           closed or passed: the shelf moves to the next older hold that has not passed it, else to a reclaimer
//
// memory.E1. A node stamped e is reachable by a hold only if e <= hold.epoch. The core writes to a node only if its
// stamp > Frozen().
// memory.E2. A retired block is freed only after every hold that was live at its retirement has closed or has passed
// its position.
// memory.E3. Passed is final: no reader of the hold reads that (db, prefix) again.
type Hold struct {
	h        *Heap
	epoch    uint64
	ended    bool // only for the turn: the value of finished at the start of this sweep
	closed   atomic.Bool
	finished atomic.Bool                 // set last by Close, which does not touch the heap after that
	passed   []atomic.Pointer[prefixSet] // by db; nil if nothing was passed

	// shelves and wide belong to the core. They hold the blocks retired while this was the newest hold that could read
	// them.
	shelves []*[256]shelf // by db; nil if nothing was retired
	wide    shelf
}

// A prefixSet has one bit for each value of a hash's top 8 bits.
type prefixSet [4]atomic.Uint64

// A position is the place in the keyspace that the core is writing to.
type position struct {
	db     int
	prefix uint8
}

// Epoch returns the stamp of nodes made now. It starts at 1 and grows by one with each Freeze.
func (h *Heap) Epoch() uint64 { return h.epoch }

// Frozen returns the newest epoch that a live hold reads, or 0 without a hold. A node is writable iff its epoch >
// Frozen().
func (h *Heap) Frozen() uint64 { return h.frozen }

// Holding reports whether a hold is live. Only then do positions matter.
func (h *Heap) Holding() bool { return len(h.holds) != 0 }

// Retained returns the bytes of retired blocks that are kept only because a hold may read them. A root whose kind has
// no Measure counts alone, without its tree. O(1).
func (h *Heap) Retained() int64 { return h.retained }

// Reclaiming returns the bytes that wait for reclaimers to free them. It counts trees by their Measure, until their
// list is freed. O(1). Any goroutine may call it.
func (h *Heap) Reclaiming() int64 { return h.reclaiming.Load() }

// Park counts n bytes of some objects as leaving before they are retired. The caller calls Unpark when it retires them.
func (h *Heap) Park(n int64, objects int) {
	h.parked += n
	h.pendingObj.Add(int64(objects))
}

// Unpark undoes a Park of the same n and objects.
func (h *Heap) Unpark(n int64, objects int) { h.Park(-n, -objects) }

// Leaving returns the bytes of the data that are about to be freed: retained by holds, waiting for reclaimers, or
// parked. Some of these are estimates and may be far too high, so the result is at most the data's size. O(1).
func (h *Heap) Leaving() int64 {
	data := h.UsedBy(Keys) + h.UsedBy(Values) + h.UsedBy(Index)
	return max(0, min(h.retained+h.reclaiming.Load()+h.parked, data))
}

// Freeze returns a hold that keeps everything reachable now until it is closed. The caller stores a copy of its root
// words. O(1).
func (h *Heap) Freeze() *Hold {
	d := &Hold{h: h, epoch: h.epoch, passed: make([]atomic.Pointer[prefixSet], h.options.Databases)}
	h.holds = append(h.holds, d)
	h.frozen = h.epoch
	h.epoch++
	h.touch.wanted = true
	return d
}

// Epoch returns the last epoch that this hold reads. Any goroutine may call it.
func (d *Hold) Epoch() uint64 { return d.epoch }

// Kept returns the bytes that are kept only because this hold, or an older one, may read them. Cost: some hundred loads
// for each database in which blocks were retired. Turn only.
func (d *Hold) Kept() (bytes int64) {
	for _, shelves := range d.shelves {
		if shelves != nil {
			for i := range shelves {
				bytes += shelves[i].bytes
			}
		}
	}
	return bytes + d.wide.bytes
}

// Untouched reports whether no block that d can read was retired since its Freeze, and no newer hold exists. Then the
// databases that were not empty at the Freeze are unchanged. It costs as much as Kept. Turn only.
func (d *Hold) Untouched() bool {
	if n := len(d.h.holds); n == 0 || d.h.holds[n-1] != d || d.closed.Load() || d.wide.entries != 0 {
		return false
	}
	for _, shelves := range d.shelves {
		if shelves != nil {
			for i := range shelves {
				if shelves[i].entries != 0 {
					return false
				}
			}
		}
	}
	return true
}

// Passed tells the heap that this hold's readers are done with the blocks of db whose hash begins with prefix
// (memory.E3). Such blocks on the shelf are freed soon, and those retired later at once. db is the number that
// SetPosition uses. With several readers of one hold, the last one calls Passed. Any goroutine may do so.
func (d *Hold) Passed(db int, prefix uint8) {
	set := d.passedOf(db)
	if set != nil {
		set[prefix>>6].Or(1 << (prefix & 63))
		d.h.news.Store(1)
	}
}

// passedDB calls Passed for every prefix of db.
//
// Proof: only tests call it. TestHoldsAgainstModel passes whole databases with it.
func (d *Hold) passedDB(db int) {
	if set := d.passedOf(db); set != nil {
		for i := range set {
			set[i].Store(^uint64(0))
		}
		d.h.news.Store(1)
	}
}

func (d *Hold) passedOf(db int) *prefixSet {
	if uint(db) >= uint(len(d.passed)) {
		return nil
	}
	set := d.passed[db].Load()
	if set == nil {
		set = new(prefixSet)
		if !d.passed[db].CompareAndSwap(nil, set) {
			set = d.passed[db].Load()
		}
	}
	return set
}

func (d *Hold) hasPassed(db int, prefix uint8) bool {
	if uint(db) >= uint(len(d.passed)) {
		return false
	}
	set := d.passed[db].Load()
	return set != nil && set[prefix>>6].Load()>>(prefix&63)&1 != 0
}

// Close ends the hold. It takes effect at the next Drain in a turn. A second call is harmless. Any goroutine may call
// it.
func (d *Hold) Close() {
	if !d.closed.Swap(true) {
		d.h.news.Store(1)
		d.finished.Store(true)
	}
}

// SetPosition sets the position that the core is about to write to. db is the number by which readers of holds know the
// database; SWAPDB does not change it. hash is that of the key. Only holds use the position. A few ns.
//
// A block may be retired at a position only if readers reach it under that prefix alone. So it is an entry, a value, or
// a node whose prefix is at least 8 bits long. Everything else is retired with RetireWide.
func (h *Heap) SetPosition(db int, hash uint64) { h.position = position{db, uint8(hash >> 56)} }

// A Kind selects the Destroy of a root. Kind 0 means a plain block.
type Kind uint8

const maxKinds = 32 // a power of two

// A Destroy frees root and everything that belongs to it, through t. No view reaches the tree any more, so it may be
// changed in place. It stops when it has spent budget, about one for each block freed. It returns the root for the next
// call; rest 0 means done. It runs on a reclaimer or on the turn.
type Destroy func(t *Returner, root Ref, budget int) (rest Ref, spent int)

// Register sets the Destroy of roots of kind k, 0 < k < maxKinds. Each kind is registered once, before the first
// RetireTree.
func (h *Heap) Register(k Kind, f Destroy) {
	invariant.That(k > 0 && k < maxKinds && h.destroy[k] == nil, "kind %d registered twice or out of range", k)
	h.destroy[k] = f
}

// Measure sets the function that returns the bytes of a root of kind k with its whole tree. f must be quick. For a kind
// without such a function, only the root is counted.
func (h *Heap) Measure(k Kind, f func(root Ref) int64) { h.measure[k] = f }

const (
	refMask      = 1<<48 - 1
	purposeShift = 48
	kindShift    = 56
)

// Retire frees the block at r as soon as no hold can read it. Without any hold it is [Heap.Free].
func (h *Heap) Retire(r Ref, p Purpose) {
	if len(h.holds) == 0 {
		h.Free(r, p)
		return
	}
	if !h.shelve(uint64(r)|uint64(p)<<purposeShift, 0, false) {
		h.Free(r, p)
	}
}

// RetireWide is Retire for a block that readers reach under more than one prefix. Every hold that is live now keeps the
// block until the hold closes.
func (h *Heap) RetireWide(r Ref, p Purpose) {
	if !h.shelve(uint64(r)|uint64(p)<<purposeShift, 0, true) {
		h.Free(r, p)
	}
}

// RetireTree frees root and its whole tree, whatever its size, in O(1). A reclaimer destroys it when no hold can read
// it. root is a Ref with up to 6 tag bits below and none above. objects is the number that INFO counts as lazily freed.
func (h *Heap) RetireTree(root Ref, k Kind, objects int) { h.retireTree(root, k, objects, false) }

// RetireTreeWide is RetireTree for a tree that readers reach under more than one prefix, such as a table or a database.
func (h *Heap) RetireTreeWide(root Ref, k Kind, objects int) { h.retireTree(root, k, objects, true) }

func (h *Heap) retireTree(root Ref, k Kind, objects int, wide bool) {
	invariant.That(root != 0 && root&^refMask == 0 && k > 0 && h.destroy[k] != nil, "root %#x retired as kind %d", root, k)
	entry := uint64(root) | uint64(k)<<kindShift
	h.pendingObj.Add(int64(objects))
	if !h.shelve(entry, objects, wide) {
		h.reclaiming.Add(h.put(&h.ready, entry, objects))
	}
}

// shelve puts entry on the newest live hold that may read it. It returns false if no hold may.
func (h *Heap) shelve(entry uint64, objects int, wide bool) bool {
	for i := len(h.holds) - 1; i >= 0; i-- {
		d := h.holds[i]
		if d.closed.Load() {
			continue
		}
		if wide || uint(h.position.db) >= uint(len(d.passed)) {
			h.retained += h.put(&d.wide, entry, objects)
			return true
		}
		if !d.hasPassed(h.position.db, h.position.prefix) {
			h.retained += h.put(d.shelf(h.position.db, h.position.prefix), entry, objects)
			return true
		}
	}
	return false
}

func (d *Hold) shelf(db int, prefix uint8) *shelf {
	if d.shelves == nil {
		d.shelves = make([]*[256]shelf, len(d.passed))
	}
	if d.shelves[db] == nil {
		d.shelves[db] = new([256]shelf)
	}
	return &d.shelves[db][prefix]
}

// sweepHolds moves the shelves of holds that closed or passed something. It starts at the newest, so that it visits the
// older hold to which a shelf moves later. O(shelves).
func (h *Heap) sweepHolds() {
	h.news.Store(0)
	for _, d := range h.holds {
		d.ended = d.finished.Load() // read once: a hold that closes during this sweep is left to the next
		if !d.ended && d.closed.Load() {
			h.news.Store(1) // Close may have set it before this sweep cleared it
		}
	}
	for i := len(h.holds) - 1; i >= 0; i-- {
		d := h.holds[i]
		for db, shelves := range d.shelves {
			if shelves == nil {
				continue
			}
			set := d.passed[db].Load()
			for prefix := range shelves {
				if shelves[prefix].head != 0 && (d.ended || set != nil && set[prefix>>6].Load()>>(prefix&63)&1 != 0) {
					to := h.below(i, db, uint8(prefix))
					if to == &h.ready {
						h.release(&shelves[prefix])
					}
					to.move(&shelves[prefix])
				}
			}
		}
		if d.ended {
			if o := h.liveBelow(i); o != nil {
				o.wide.move(&d.wide)
			} else {
				h.release(&d.wide)
				h.ready.move(&d.wide)
			}
		}
	}
	live := h.holds[:0]
	h.frozen = 0
	for _, d := range h.holds {
		if !d.ended {
			live = append(live, d)
			h.frozen = d.epoch
		}
	}
	clear(h.holds[len(live):])
	h.holds = live
}

// release counts the bytes of s as reclaiming. The caller gives its blocks to a reclaimer.
func (h *Heap) release(s *shelf) {
	h.retained -= s.bytes
	h.reclaiming.Add(s.bytes)
}

// below returns the shelf to which the shelf (db, prefix) of hold i moves. It is on the next older live hold that has
// not passed the prefix. Without such a hold it is h.ready.
func (h *Heap) below(i, db int, prefix uint8) *shelf {
	for i--; i >= 0; i-- {
		if d := h.holds[i]; !d.ended && !d.hasPassed(db, prefix) {
			return d.shelf(db, prefix)
		}
	}
	return &h.ready
}

func (h *Heap) liveBelow(i int) *Hold {
	for i--; i >= 0; i-- {
		if !h.holds[i].ended {
			return h.holds[i]
		}
	}
	return nil
}
