package clock

import (
	"testing"
	"time"
)

// TestWall: a Wall agrees with both clocks, never decreases, and its wall time stays fresh.
func TestWall(t *testing.T) {
	origin := time.Now()
	w := WallFrom(origin)
	for i := range 3000 {
		before, since := time.Now().UnixMilli(), time.Since(origin)
		nanos, ms := w.Now()
		if after := time.Now().UnixMilli(); ms < before-1 || ms > after+1 {
			t.Fatalf("reading %d: %d, not within %d and %d", i, ms, before, after)
		}
		const off = 10 * time.Microsecond // the allowed difference
		if until := time.Since(origin); nanos < int64(since-off) || nanos > int64(until+off) {
			t.Fatalf("reading %d: %d ns, not within %d and %d", i, nanos, since, until)
		}
		if again := w.Nanos(); again < nanos {
			t.Fatalf("reading %d: %d after %d", i, again, nanos)
		}
		if i%100 == 0 {
			w.read.unixNs += 5 * int64(time.Second) // the clock is set back
			time.Sleep(1100 * time.Microsecond)
		}
	}
	if ticksGoOn && w.rate == 0 {
		t.Error("the counter's rate is not known")
	}
}

// A fakeClocks is a set of clocks that the test advances. They are read once a millisecond or less often.
type fakeClocks struct {
	t    *testing.T
	w    Wall
	at   reading
	rate float64 // ticks a nanosecond
}

// run advances by ms milliseconds. Whenever the Wall uses the counter, its time must be right.
func (f *fakeClocks) run(ms int) {
	f.t.Helper()
	for range ms {
		f.at.nanos += int64(time.Millisecond)
		f.at.ticks += int64(f.rate * float64(time.Millisecond))
		f.w.take(f.at, true)
		if f.w.span == 0 {
			continue
		}
		if span := float64(f.w.span) / f.rate; span < 0.998e6 || span > 1.002e6 {
			f.t.Fatalf("the clocks are not read for %.0f ns", span)
		}
		if half := int64((f.w.span / 2) * f.w.step >> 32); half < 499_000 || half > 501_000 {
			f.t.Fatalf("after half a millisecond it says %d ns", half)
		}
	}
}

// TestWallTrustsAnEvenCounter: the counter is used only after two stretches, and not after a disturbance of the counter
// or of the clock.
func TestWallTrustsAnEvenCounter(t *testing.T) {
	const hour = int64(time.Hour)
	for name, upset := range map[string]func(f *fakeClocks){
		"the counter jumped ahead": func(f *fakeClocks) { f.at.ticks += 1 << 40 },
		"the counter jumped back":  func(f *fakeClocks) { f.at.ticks -= 1 << 40 },
		"a suspension":             func(f *fakeClocks) { f.at.ticks += int64(f.rate * float64(hour)) },
		"the clock slept":          func(f *fakeClocks) { f.at.nanos += hour },
		// Until the stretch ends, the time is off by half a millisecond.
		"another rate":             func(f *fakeClocks) { f.rate *= 2; f.w.step = 0 },
		"a counter that runs back": func(f *fakeClocks) { f.rate = -f.rate; f.w.step = 0; f.run(100); f.rate = -f.rate },
		"jumps in a stretch and next": func(f *fakeClocks) {
			f.at.ticks += 1 << 40
			f.run(8)
			f.at.ticks += 1 << 41
			f.run(8)
			f.at.ticks -= 1 << 39
		},
	} {
		for _, early := range []int{0, 5, 20, 40, 100} { // ms after the beginning
			f := &fakeClocks{t: t, w: WallFrom(time.Now()), at: reading{ticks: 1 << 50}, rate: 2.9}
			f.run(early)
			if trusted := f.w.span != 0; trusted != (early >= 40) {
				t.Errorf("trusted after %d ms: %t", early, trusted)
			}
			upset(f)
			f.run(80)
			if f.w.span == 0 {
				t.Errorf("%s after %d ms: still not trusted", name, early)
			}
		}
	}
}

// TestWallBy: a Wall with a caller's clock returns that clock's time, and never decreases.
func TestWallBy(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	w := WallBy(func() time.Time { return now })
	for _, step := range []time.Duration{0, 1, time.Second, -time.Hour, 2 * time.Hour} {
		last := w.Nanos()
		now = now.Add(step)
		nanos, ms := w.Now()
		if want := max(last, int64(now.Sub(w.Origin()))); nanos != want || step >= 0 && ms != now.UnixMilli() {
			t.Errorf("after a step of %v: %d ns and %d ms, want %d and %d", step, nanos, ms, want, now.UnixMilli())
		}
	}
}

// TestWallDropsInexactReadings: an interruption between clocks and counter does not change the rate. The counter is not
// used until the next reading.
func TestWallDropsInexactReadings(t *testing.T) {
	f := &fakeClocks{t: t, w: WallFrom(time.Now()), at: reading{ticks: 1 << 50}, rate: 2.9}
	f.run(50)
	late := f.at
	late.nanos += int64(time.Millisecond)
	late.ticks += int64(3 * f.rate * float64(time.Millisecond))
	if f.w.take(late, false); f.w.span != 0 {
		t.Error("gone by")
	}
	f.run(50)
	if f.w.span == 0 {
		t.Error("not gone by afterwards")
	}
}

// BenchmarkNanos compares the counter with the clock that it replaces. Watch ns/op of counter: half of clock's.
func BenchmarkNanos(b *testing.B) {
	w := WallFrom(time.Now())
	b.Run("counter", func(b *testing.B) {
		for range b.N {
			w.Nanos()
		}
	})
	b.Run("clock", func(b *testing.B) {
		for range b.N {
			_ = time.Since(w.origin)
		}
	})
}
