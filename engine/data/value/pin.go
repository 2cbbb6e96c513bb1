package value

import (
	"sync"
	"sync/atomic"

	"spindle/engine/data/memory"
)

// A pin keeps one long string unchanged for readers outside the turn: replies that are being sent from its memory.
//
//	p1 (root R1) ◀── origin ── R2, pinned by p2 ◀── origin ── R3, the live one
//	kept: what R3 replaced or dropped and R2 may still read is on p2's list while p2 lives, then on p1's
//
// value.P1. A block removed from a root that may share it with a pinned one is put on that pin's list.
// value.P2. A pin without readers is replaced by its origin while the origin has readers. Its list moves to the origin,
// and at last to the heap.
// value.P3. Any goroutine may release a pin. Releases are queued, and the turn processes them (Unpin).
// value.P4. A flushed database is freed only when all readers present at the flush are done, because its values are not
// looked at one by one.
// value.P5. A number is never used for two pins, and a pin's origin is older than the pin. So following origins ends.
// value.P6. Blocks on a list count as parked (memory.Heap.Park): they will be freed, and evicting more keys would not
// free them sooner.
type pin struct {
	root    memory.Ref
	origin  uint64 // number of a pin, or 0
	readers int
	came    int // readers so far
	kept    []keptBlock
}

// A keptBlock is a block, or with tree a root with its whole structure.
type keptBlock struct {
	ref  memory.Ref
	tree bool
}

type pins struct {
	all  map[uint64]*pin // by number
	last uint64          // last number given out

	parked []parked

	returned atomic.Int32 // len(done); read without the lock
	mu       sync.Mutex
	done     []*pin // releases not yet processed
}

// parked is a function that runs when some readers have finished.
type parked struct {
	run  func()
	pins []waited
}

// waited is a pin and how many of its readers must finish. Readers that came later do not matter.
type waited struct {
	p    *pin
	gone int
}

// holder returns the pin that keeps the blocks for the pin with this number, or nil if no pin reads them any more. It
// shortens the chain of pins on its way, so that a long chain is walked once.
func (p *pins) holder(number uint64) *pin {
	at := p.all[number]
	if at == nil || at.readers > 0 {
		return at
	}
	up, via := at.origin, at
	for at = p.all[up]; at != nil && at.readers == 0; at = p.all[up] {
		up = at.origin
	}
	via.origin = up
	return at
}

func (p *pins) alive(number uint64) bool { return number != 0 && p.holder(number) != nil }

// keep puts k on the list of the pin with this number, or of the pin that replaces it (value.P2).
func (s *Store) keep(number uint64, k keptBlock) {
	at := s.pins.holder(number)
	at.kept = append(at.kept, k)
	s.Heap.Park(k.bytes(), k.objects())
}

// objects returns how many values k adds to those that wait to be freed.
func (k keptBlock) objects() int {
	if k.tree {
		return 1
	}
	return 0
}

// bytes returns the size of k. For a string it is an estimate, made without reading the chunks.
func (k keptBlock) bytes() int64 {
	if k.tree {
		return longMeasure(k.ref)
	}
	return int64(memory.UsableSize(k.ref))
}

// Pin keeps the string at root unchanged until release, which must be called once, by any goroutine. The string's
// pieces may be read until then.
func (s *Store) Pin(root memory.Ref) (release func()) {
	l, ps := longAt(root), &s.pins
	if l.pin == 0 {
		if ps.all == nil {
			ps.all = map[uint64]*pin{}
		}
		ps.last++
		ps.all[ps.last] = &pin{root: root, origin: l.origin}
		l.pin = ps.last
	}
	p := ps.all[l.pin]
	p.readers++
	p.came++
	return func() {
		ps.mu.Lock()
		ps.done = append(ps.done, p)
		ps.returned.Store(int32(len(ps.done)))
		ps.mu.Unlock()
	}
}

// Unpin processes the releases so far. The core calls it once a turn. Without releases it costs one load.
func (s *Store) Unpin() {
	if s.pins.returned.Load() != 0 {
		s.unpin()
	}
}

// Pins returns the number of pinned strings.
func (s *Store) Pins() int { return len(s.pins.all) }

func (s *Store) unpin() {
	ps := &s.pins
	ps.mu.Lock()
	done := ps.done
	ps.done = nil
	ps.returned.Store(0)
	ps.mu.Unlock()
	for _, p := range done {
		if p.readers--; p.readers > 0 {
			continue
		}
		longAt(p.root).pin = 0 // the block still exists, because a dropped string is on this list
		if up := ps.holder(p.origin); up != nil {
			up.kept = append(up.kept, p.kept...)
		} else {
			s.release(p.kept)
		}
		p.kept = nil
	}
	for again := true; again; { // value.P2: pins without readers whose origin is gone
		again = false
		for number, p := range ps.all {
			if p.readers == 0 && ps.holder(p.origin) == nil {
				delete(ps.all, number)
				again = true
			}
		}
	}
	left := ps.parked[:0]
	for _, w := range ps.parked {
		if w.waits() {
			left = append(left, w)
		} else {
			w.run()
		}
	}
	clear(ps.parked[len(left):])
	ps.parked = left
}

func (w *parked) waits() bool {
	for _, at := range w.pins {
		if at.p.came-at.p.readers < at.gone {
			return true
		}
	}
	return false
}

// AfterPins runs f when all present readers of pinned strings have released them. It runs f at once if there are none.
func (s *Store) AfterPins(f func()) {
	w := parked{run: f}
	for _, p := range s.pins.all {
		if p.readers > 0 {
			w.pins = append(w.pins, waited{p, p.came})
		}
	}
	if len(w.pins) == 0 {
		f()
		return
	}
	s.pins.parked = append(s.pins.parked, w)
}

// release frees the blocks that the last pin kept. Views may still read them, under whatever key they had.
func (s *Store) release(list []keptBlock) {
	for _, k := range list {
		s.Heap.Unpark(k.bytes(), k.objects())
		switch {
		case k.tree:
			longAt(k.ref).moved = 1
			s.DropLong(k.ref)
		case s.Heap.Frozen() != 0:
			s.Heap.RetireWide(k.ref, memory.Values)
		default:
			s.Heap.Free(k.ref, memory.Values)
		}
	}
}
