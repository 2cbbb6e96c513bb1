package bloom

import (
	"errors"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// The errors of Add: why an item was refused.
var (
	ErrFull   = errors.New("a filter that does not grow has all the items it was made for")
	ErrNoRoom = errors.New("the next filter of the chain would be without errors, or the chain too large for any file")
	ErrBound  = errors.New("the chain would become larger than the caller allows")
	ErrWork   = errors.New("so many bits were looked for that the caller wants no more")
)

// A Bound limits what one call may demand of chains. A nil Bound allows everything.
type Bound struct {
	Bytes  uint64 // the most bytes that a chain may have
	Probes int    // bits that may still be tested; the current item may exceed it
}

// spend subtracts probes from the bound.
func (b *Bound) spend(probes int) {
	if b != nil {
		b.Probes -= probes
	}
}

// spent reports whether no further item may be looked up.
func (b *Bound) spent() bool { return b != nil && b.Probes < 0 }

// allows reports whether a chain may have this many bytes.
func (b *Bound) allows(bytes uint64) bool { return b == nil || bytes <= b.Bytes }

// in reports whether all bits of p are set in l. probes is the number of bits tested.
func (p itemBits) in(l *link) (in bool, probes int) {
	mod := l.modulus()
	for i := range uint64(l.hashes) {
		bit := (p.a + i*p.b) % mod
		leaf := l.leaf(bit >> (leafShift + 3))
		if leaf == 0 || *(*byte)(unsafe.Add(memory.Pointer(leaf), bit>>3&(leafBytes-1)))&(1<<(bit&7)) == 0 {
			return false, int(i) + 1
		}
	}
	return true, int(l.hashes)
}

// modulus returns the number of bits in l that items may use.
func (l *link) modulus() uint64 { return modulus(l.bits, l.power) }

func modulus(bits uint64, power uint8) uint64 {
	if power != 0 {
		return 1 << power
	}
	return bits
}

// has reports whether the item with the bits p is in the chain. It begins with the newest link, which holds the most
// items. It subtracts the tested bits from b.
func (r *root) has(p itemBits, b *Bound) bool {
	for i := int(r.links) - 1; i >= 0; i-- {
		in, probes := p.in(r.link(i))
		if b.spend(probes); in {
			return true
		}
	}
	return false
}

// IsFilter reports whether v is a Bloom filter.
func IsFilter(v value.Value) bool {
	return v.Type() == value.Module && value.HeaderAt(v.Root()).Kind() == value.KindBloom
}

// Add adds item and reports whether it is new, as far as a Bloom filter can tell.
//
// Errors: ErrFull, ErrNoRoom, ErrBound, ErrWork; then nothing has changed.
// Cost: nothing is written for an existing item. If a view is open, as many leaves may be copied as an item has bits.
func Add(e *value.Edit, item []byte, b *Bound) (added bool, err error) {
	if b.spent() {
		return false, ErrWork
	}
	r := rootAt(e.Value().Root())
	p := bitsOf(item, r.options)
	if r.has(p, b) {
		return false, nil
	}
	if l := r.last(); l.items >= l.capacity {
		if r.options&Fixed != 0 {
			return false, ErrFull
		}
		if err := grow(e, b); err != nil {
			return false, err
		}
	}
	w := write(e)
	l := w.root.last()
	mod := l.modulus()
	for i := range uint64(l.hashes) {
		bit := (p.a + i*p.b) % mod
		w.leaf(l, bit>>(leafShift+3))[bit>>3&(leafBytes-1)] |= 1 << (bit & 7)
	}
	l.items++
	w.root.items++
	return true, nil
}

// grow adds another filter to the chain.
func grow(e *value.Edit, b *Bound) error {
	r := rootAt(e.Value().Root())
	full := r.last()
	next, err := plan(full.capacity*uint64(r.growth), full.error*tightening, r.options)
	if err != nil || r.links == MaxLinks || r.bytes()+next.bytes > MaxBytes {
		return ErrNoRoom
	}
	if !b.allows(r.bytes() + next.bytes) {
		return ErrBound
	}
	w := write(e)
	if ref, n := e.Value().Root(), int(w.root.links); n == roomFor(ref) {
		longer := newRoot(e.Store(), n+n/2+1)
		to := rootAt(longer)
		header := to.Header
		copy(memory.Bytes(longer, rootBytes+n*linkBytes), memory.Bytes(ref, rootBytes+n*linkBytes))
		to.Header = header
		e.Reroot(longer)
		w.root = to
	}
	*w.root.link(int(w.root.links)) = next
	w.root.links++
	return nil
}
