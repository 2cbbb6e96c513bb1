package clock

import (
	"math"
	"time"
)

// A Wall tells the monotonic and the wall clock. Both are read once a millisecond, so a jump of the wall clock is seen
// then; in between they move on with the processor's counter, or with the monotonic clock where the counter cannot be
// trusted. For one goroutine at a time.
//
// The counter's rate is measured against the monotonic clock all the time, over stretches of calibration and more, and
// is gone by once two stretches in a row agree: not after the first one, and not after a suspension, or when a virtual
// machine has moved.
type Wall struct {
	origin time.Time
	by     func() time.Time // the clock of WallBy; nil: the machine's clocks
	last   int64            // the last answer: none is less
	read   reading          // of the clocks

	span uint64 // how far the counter may be from read: a millisecond; 0: it is not gone by
	step uint64 // nanoseconds a tick, times 2^32

	stretch reading // where the present one began
	rate    float64 // nanoseconds a tick in the one before; 0: there is none
}

// A reading is what the clocks say at one instant, and the processor's counter right behind it.
type reading struct {
	nanos  int64 // monotonic, since the Wall's origin
	unixNs int64
	ticks  int64
}

const (
	calibration = int64(16 * time.Millisecond)
	maxDrift    = 1e-3    // of the rate between two stretches
	maxTook     = 1 << 12 // ticks, a microsecond or two: a reading that something came between is not gone by
)

// WallFrom is a Wall that counts its monotonic time from origin, a reading of time.Now.
func WallFrom(origin time.Time) Wall {
	return Wall{origin: origin, read: reading{nanos: -int64(time.Millisecond)}}
}

// WallBy is a Wall that goes by the caller's clock alone, and counts from its present time.
func WallBy(now func() time.Time) Wall {
	w := WallFrom(now())
	w.by = now
	return w
}

// Origin is the instant from which Nanos counts.
func (w *Wall) Origin() time.Time { return w.origin }

// Nanos is the nanoseconds since the origin, never going back.
func (w *Wall) Nanos() int64 {
	if w.span != 0 {
		if d := uint64(ticks() - w.read.ticks); d < w.span {
			return w.answer(w.read.nanos + int64(d*w.step>>32))
		}
	} else if w.by == nil {
		if nanos := int64(time.Since(w.origin)); nanos-w.read.nanos < int64(time.Millisecond) {
			return w.answer(nanos)
		}
	}
	return w.readClocks()
}

func (w *Wall) answer(nanos int64) int64 {
	w.last = max(w.last, nanos)
	return w.last
}

// Now is Nanos and Unix milliseconds.
func (w *Wall) Now() (nanos, unixMs int64) {
	nanos = w.Nanos()
	return nanos, (w.read.unixNs + nanos - w.read.nanos) / int64(time.Millisecond)
}

func (w *Wall) readClocks() int64 {
	if w.by != nil {
		now := w.by()
		w.read = reading{nanos: int64(now.Sub(w.origin)), unixNs: now.UnixNano()}
		return w.answer(w.read.nanos)
	}
	before := ticks()
	now := time.Now()
	r := reading{nanos: int64(now.Sub(w.origin)), unixNs: now.UnixNano(), ticks: ticks()}
	w.take(r, ticksGoOn && uint64(r.ticks-before) < maxTook)
	return w.answer(r.nanos)
}

// take goes on from r: exact says that its counter belongs to its clocks.
func (w *Wall) take(r reading, exact bool) {
	w.read, w.span = r, 0
	if !exact {
		return
	}
	if w.stretch.ticks == 0 {
		w.stretch = r
		return
	}
	if length := r.nanos - w.stretch.nanos; length >= calibration {
		rate := float64(length) / float64(r.ticks-w.stretch.ticks)
		w.step = 0
		if rate > 0 && math.Abs(rate/w.rate-1) <= maxDrift { // false of no rate
			w.step = uint64(rate * (1 << 32))
		}
		w.rate, w.stretch = rate, r
	}
	if w.step != 0 {
		w.span = uint64(float64(time.Millisecond) / w.rate)
	}
}
