package clock

import (
	"math"
	"time"
)

// A Wall reads the monotonic and the wall clock. It reads both once a millisecond, and notices a jump of the wall clock
// then. In between it adds the processor's counter, or the monotonic clock if the counter is unreliable. One goroutine
// at a time may use it.
//
// The counter's rate is always measured against the monotonic clock, over stretches of at least calibration. The rate
// is used when two consecutive stretches agree. So it is not used after the first stretch, nor after a suspension or a
// move of the virtual machine.
type Wall struct {
	origin time.Time
	by     func() time.Time // the clock of WallBy; nil: the machine's clocks
	last   int64            // the last result; results never decrease
	read   reading          // of the clocks

	span uint64 // how far the counter may be from read: a millisecond; 0: do not use the counter
	step uint64 // nanoseconds a tick, times 2^32

	stretch reading // the beginning of the current stretch
	rate    float64 // nanoseconds a tick in the stretch before; 0: none
}

// A reading has the clocks at one instant, and the processor's counter directly after that instant.
type reading struct {
	nanos  int64 // monotonic, since the Wall's origin
	unixNs int64
	ticks  int64
}

const (
	calibration = int64(16 * time.Millisecond)
	maxDrift    = 1e-3    // of the rate between two stretches
	maxTook     = 1 << 12 // ticks, a microsecond or two; a slower reading was interrupted and is not used
)

// WallFrom returns a Wall whose monotonic time counts from origin, a result of time.Now.
func WallFrom(origin time.Time) Wall {
	return Wall{origin: origin, read: reading{nanos: -int64(time.Millisecond)}}
}

// WallBy returns a Wall that reads only the clock now. Its Nanos count from now's present time.
func WallBy(now func() time.Time) Wall {
	w := WallFrom(now())
	w.by = now
	return w
}

// Origin returns the instant from which Nanos counts.
func (w *Wall) Origin() time.Time { return w.origin }

// Nanos returns the nanoseconds since the origin. It never decreases.
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

// Now returns Nanos and Unix milliseconds.
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

// take continues from r. exact means that r's counter and clocks were read without an interruption.
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
		if rate > 0 && math.Abs(rate/w.rate-1) <= maxDrift { // false without a rate
			w.step = uint64(rate * (1 << 32))
		}
		w.rate, w.stretch = rate, r
	}
	if w.step != 0 {
		w.span = uint64(float64(time.Millisecond) / w.rate)
	}
}
