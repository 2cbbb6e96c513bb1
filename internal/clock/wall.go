package clock

import (
	"math"
	"time"
)

// A Wall tells the monotonic and the wall clock. Both are read once a millisecond, so a jump of the wall clock is seen then; in between they move on
// with the processor's counter, or with the monotonic clock where the counter cannot be trusted. For one goroutine at a time.
//
// The counter's rate is measured against the monotonic clock all the time, over stretches of calibration and more. It is
// given up, until it has been measured anew, when two stretches differ: after a suspension, or when a virtual machine has moved.
type Wall struct {
	origin time.Time
	now    int64 // the last answer: none is less
	read   int64 // when the clocks were read last, and
	unixNs int64 // what the wall clock said

	at   int64   // the counter then
	span int64   // how far it may be from there: a millisecond; 0: not to be trusted
	rate float64 // nanoseconds a tick; 0: not known
	step uint64  // the same, times 2^32

	from, fromTicks int64 // where the present stretch began; fromTicks 0: nowhere
}

const (
	calibration = int64(16 * time.Millisecond)
	maxDrift    = 2e-3    // of the rate between two stretches
	maxTook     = 1 << 15 // ticks, some 10 us: readings that something came between are not gone by
)

// WallFrom is a Wall that counts its monotonic time from origin, a reading of time.Now.
func WallFrom(origin time.Time) Wall { return Wall{origin: origin, read: -int64(time.Millisecond)} }

// Nanos is the nanoseconds since the origin, never going back: within a few microseconds of the monotonic clock.
func (w *Wall) Nanos() int64 {
	if w.span != 0 {
		if d := uint64(ticks() - w.at); d < uint64(w.span) {
			w.now = max(w.now, w.read+int64(d*w.step>>32))
			return w.now
		}
	} else if nanos := int64(time.Since(w.origin)); nanos-w.read < int64(time.Millisecond) {
		w.now = max(w.now, nanos)
		return w.now
	}
	w.readClocks()
	return w.now
}

// Now is Nanos and Unix milliseconds.
func (w *Wall) Now() (nanos, unixMs int64) {
	nanos = w.Nanos()
	return nanos, (w.unixNs + nanos - w.read) / int64(time.Millisecond)
}

func (w *Wall) readClocks() {
	before := ticks()
	now := time.Now()
	w.at = ticks()
	w.read, w.unixNs = int64(now.Sub(w.origin)), now.UnixNano()
	w.now = max(w.now, w.read)
	w.calibrate(w.at - before)
}

// calibrate goes on with the present stretch, or ends it: took is how many ticks the reading took.
func (w *Wall) calibrate(took int64) {
	w.span = 0
	if !ticksGoOn || took > maxTook {
		return
	}
	length := w.read - w.from
	switch {
	case w.fromTicks == 0:
		w.from, w.fromTicks = w.read, w.at
	case length >= calibration:
		rate := float64(length) / float64(w.at-w.fromTicks)
		if rate <= 0 || w.rate != 0 && math.Abs(rate/w.rate-1) > maxDrift {
			rate = 0
		}
		w.rate, w.from, w.fromTicks = rate, w.read, w.at
	}
	if w.rate != 0 {
		w.span, w.step = int64(float64(time.Millisecond)/w.rate), uint64(w.rate*(1<<32))
	}
}
