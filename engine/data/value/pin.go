package value

import (
	"sync"
	"sync/atomic"

	"spindle/engine/data/memory"
)

// A pin keeps one long string as it is for readers outside the turn: replies that are being sent from it.
//
//	p1 (root R1) ◀── origin ── R2, pinned by p2 ◀── origin ── R3, the live one
//	kept: what R3 replaced or dropped and R2 may still read is on p2's list while p2 lives, then on p1's
//
// value.P1. What is taken out of a root that may share it with a pinned one goes on that pin's list.
// value.P2. A pin without readers stands in for its origin while that lives; its list goes there, and at last to the
// heap.
// value.P3. Releases come from any goroutine and are queued; the turn takes them (Unpin).
// value.P4. A flushed database, whose values nobody goes through one by one, is taken apart only when the readers of
// its time have gone.
// value.P5. A number is never given out twice, and a pin's origin is older than the pin: following origins comes to an
// end.
// value.P6. What is on a list counts as parked (memory.Heap.Park): it is on its way out, and evicting more keys would
// not bring it back sooner.
type pin struct {
	root    memory.Ref
	origin  uint64 // number of a pin, or 0
	readers int
	came    int // readers so far
	kept    []kept
}

// kept is a block, or a root with all that hangs off it.
type kept struct {
	ref  memory.Ref
	tree bool
}

type pins struct {
	all  map[uint64]*pin // by number
	last uint64          // number given out

	parked []parked

	returned atomic.Int32 // len(done); read without the lock
	mu       sync.Mutex
	done     []*pin // releases not yet taken
}

// parked is what waits for readers.
type parked struct {
	run  func()
	pins []waited
}

// waited is a pin and how many readers must have come and gone: those that came later do not matter.
type waited struct {
	p    *pin
	gone int
}

// holder is the pin that things of root's origin number are kept for; nil if none reads them any more. Pins on the way
// are shortened, so that a long line of them is walked once.
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

// keep puts k on the list of the pin of that number, or of whom it stands in for.
func (s *Store) keep(number uint64, k kept) {
	at := s.pins.holder(number)
	at.kept = append(at.kept, k)
	s.Heap.Park(k.bytes(), k.objects())
}

// objects is what k counts for among values let go.
func (k kept) objects() int {
	if k.tree {
		return 1
	}
	return 0
}

// bytes is what k holds; of a string, as much as is known without going through its chunks.
func (k kept) bytes() int64 {
	if k.tree {
		return longMeasure(k.ref)
	}
	return int64(memory.UsableSize(k.ref))
}

// Pin keeps the string at root as it is until release, which any goroutine calls once. Its pieces may be read until
// then.
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

// Unpin takes the releases that have come in. The core calls it once a turn; a load when there are none.
func (s *Store) Unpin() {
	if s.pins.returned.Load() != 0 {
		s.unpin()
	}
}

// Pins is how many strings are pinned.
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
		longAt(p.root).pin = 0 // its block is there: whatever let it go put it on this list
		if up := ps.holder(p.origin); up != nil {
			up.kept = append(up.kept, p.kept...)
		} else {
			s.release(p.kept)
		}
		p.kept = nil
	}
	for again := true; again; { // value.P2: pins that nobody reads and that stand in for nothing
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

// AfterPins runs f when all who read pinned strings now have released them: at once if nobody does.
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

// release lets go of what the last pin kept. Views may read it still, under whatever key it had.
func (s *Store) release(list []kept) {
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
