package bloom

import (
	"errors"
	"math"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// Params are the parameters of the chain that New makes.
type Params struct {
	Error    float64 // the rate of false positives of the whole chain; above 0 and below 1
	Capacity uint64  // the capacity of the first link
	Growth   uint32
	Fixed    bool
}

// The errors of plan: why a link cannot be made.
var (
	ErrTooBig  = errors.New("a filter of so many items and so few errors is too large")
	ErrInvalid = errors.New("a filter of no items, or without errors")
)

// tightening is the ratio of each link's error rate to that of the link before. So the sum of the rates stays below the
// rate of the chain.
const tightening = 0.5

// The constants are typed, and have as many digits as those with which RedisBloom computes the size of its filters.
// With a longer ln 2, a number of hashes close to an integer would be off by one.
const (
	ln2        float64 = 0.693147180559945
	ln2Squared float64 = 0.480453013918201
)

// plan computes the size of a link. Source of the formulas: B. H. Bloom, Space/Time Trade-offs in Hash Coding with
// Allowable Errors. Bits are allocated in words of 64.
//
// Errors: ErrTooBig, ErrInvalid.
func plan(capacity uint64, rate float64, o Options) (l link, err error) {
	if capacity == 0 || !(rate > 0 && rate < 1) {
		return l, ErrInvalid
	}
	l.capacity, l.error = capacity, rate
	l.perItem = math.Abs(naturalLog(rate) / ln2Squared)
	l.hashes = uint32(math.Ceil(ln2 * l.perItem))
	if o&Exact != 0 {
		bits := float64(capacity) * l.perItem
		if bits > MaxBytes*8 {
			return l, ErrTooBig
		}
		l.bits = max(1, uint64(bits))
	} else if err = l.roundUp(o); err != nil {
		return l, err
	}
	l.bytes = (l.bits + 63) / 64 * 8
	l.bits = l.bytes * 8
	if l.bytes > MaxBytes {
		return l, ErrTooBig
	}
	l.levels = levelsFor(l.bytes)
	return l, nil
}

// naturalLog is math.Log, but is also right for numbers below the smallest normal one. On amd64 math.Log returns too
// much for them (Go 1.26). A chain of a thousand links has such rates.
func naturalLog(x float64) float64 {
	if x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// roundUp gives a link the size that RedisBloom 1.0 gave it. The number of bits is a power of two, and the rounding
// increases the capacity.
func (l *link) roundUp(o Options) error {
	if o&CapacityIsLog != 0 {
		if l.capacity > 63 {
			return ErrInvalid
		}
		l.power = uint8(l.capacity)
		l.bits = 1 << l.power
		l.capacity = uint64(float64(l.bits) / l.perItem)
		return nil
	}
	need := float64(l.capacity) * l.perItem
	log := math.Logb(need)
	if log > 62 {
		return ErrTooBig
	}
	l.power = uint8(max(0, log+1))
	l.bits = 1 << l.power
	l.capacity += uint64(float64(uint64(float64(l.bits)-need)) / l.perItem)
	return nil
}

// New returns the root of a chain with one empty link.
//
// Errors: ErrTooBig, ErrInvalid, ErrBound.
func New(s *value.Store, p Params, b *Bound) (memory.Ref, error) {
	options, rate := Exact|Wide, p.Error
	if p.Fixed {
		options |= Fixed
	} else {
		rate *= tightening
	}
	l, err := plan(p.Capacity, rate, options)
	if err != nil {
		return 0, err
	}
	if !b.allows(l.bytes) {
		return 0, ErrBound
	}
	ref := newRoot(s, 1)
	r := rootAt(ref)
	r.growth, r.options, r.links = p.Growth, options, 1
	*r.link(0) = l
	return ref, nil
}
