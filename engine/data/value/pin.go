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
// P1. What is taken out of a root that may share it with a pinned one goes on that pin's list.
// P2. A pin without readers stands in for its origin while that lives; its list goes there, and at last to the heap.
// P3. Releases come from any goroutine and are queued; the turn takes them (Unpin).
// P4. A number may be given out again while some root still names it as its origin: things are then kept longer than needed, never shorter.
type pin struct {
	root    memory.Ref
	origin  uint32 // number of a pin, or 0
	readers int
	kept    []kept
}

// kept is a block, or a root with all that hangs off it.
type kept struct {
	ref  memory.Ref
	tree bool
}

type pins struct {
	all  []*pin // by number - 1; nil: free
	live int

	returned atomic.Int32 // len(done); read without the lock
	mu       sync.Mutex
	done     []*pin // releases not yet taken
}

// holder is the pin that things of root's origin number are kept for; nil if none reads them any more.
func (p *pins) holder(number uint32) *pin {
	for number != 0 {
		at := p.all[number-1]
		if at == nil || at.readers > 0 {
			return at
		}
		number = at.origin
	}
	return nil
}

func (p *pins) alive(number uint32) bool { return number != 0 && p.holder(number) != nil }

func (p *pins) keep(number uint32, k kept) {
	at := p.holder(number)
	at.kept = append(at.kept, k)
}

// Pin keeps the string at root as it is until release, which any goroutine calls once. Its pieces may be read until then.
func (s *Store) Pin(root memory.Ref) (release func()) {
	l, ps := longAt(root), &s.pins
	if l.pin == 0 {
		i := 0
		for i < len(ps.all) && ps.all[i] != nil {
			i++
		}
		if i == len(ps.all) {
			ps.all = append(ps.all, nil)
		}
		ps.all[i] = &pin{root: root, origin: l.origin}
		ps.live++
		l.pin = uint32(i + 1)
	}
	p := ps.all[l.pin-1]
	p.readers++
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
func (s *Store) Pins() int { return s.pins.live }

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
	for again := true; again; { // P2: pins that nobody reads and that stand in for nothing
		again = false
		for i, p := range ps.all {
			if p != nil && p.readers == 0 && ps.holder(p.origin) == nil {
				ps.all[i] = nil
				ps.live--
				again = true
			}
		}
	}
}

// release lets go of what the last pin kept. Views may read it still, under whatever key it had.
func (s *Store) release(list []kept) {
	for _, k := range list {
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
