package clock

import (
	"testing"
	"time"
)

// off is how far a Wall may be from the clocks: the counter's rate is known to a thousandth, for a millisecond.
const off = 3 * time.Microsecond

// TestWall: it says what the two clocks say, and its reading of the wall clock does not grow old.
func TestWall(t *testing.T) {
	origin := time.Now()
	w := WallFrom(origin)
	for i := range 3000 {
		before, since := Unix(), time.Since(origin)
		nanos, ms := w.Now()
		if after := Unix(); ms < before-1 || ms > after+1 {
			t.Fatalf("reading %d: %d, not within %d and %d", i, ms, before, after)
		}
		if until := time.Since(origin); nanos < int64(since-off) || nanos > int64(until+off) {
			t.Fatalf("reading %d: %d ns, not within %d and %d", i, nanos, since, until)
		}
		if i%100 == 0 {
			w.unixNs += 5 * int64(time.Second) // the clock is put back
			time.Sleep(1100 * time.Microsecond)
		}
	}
}

// TestWallGoesOn: between two readings of the clocks it goes by the counter, never goes back, and is hardly ever farther off than that.
func TestWallGoesOn(t *testing.T) {
	if !ticksGoOn {
		t.Skip("the kernel does not go by the processor's counter")
	}
	origin := time.Now()
	w := WallFrom(origin)
	var last int64
	counted, far, n := 0, 0, 0
	for ; time.Since(origin) < 200*time.Millisecond; n++ {
		since := time.Since(origin)
		read := w.read
		nanos := w.Nanos()
		if nanos < last {
			t.Fatalf("%d after %d", nanos, last)
		}
		last = nanos
		if w.span != 0 && w.read == read {
			counted++
		}
		if until := time.Since(origin); nanos < int64(since-off) || nanos > int64(until+off) {
			far++
		}
	}
	if counted < n/2 {
		t.Errorf("%d of %d by the counter", counted, n)
	}
	if far > n/1000 {
		t.Errorf("%d of %d are farther off than %v", far, n, off)
	}
}

// TestWallGivesTheCounterUp: a counter that jumps, stands still, goes back or at another rate is noticed within two stretches, and answers stay within a
// millisecond of the clock until then.
func TestWallGivesTheCounterUp(t *testing.T) {
	if !ticksGoOn {
		t.Skip("the kernel does not go by the processor's counter")
	}
	const far = int64(1 << 40)
	for name, spoil := range map[string]func(*Wall){
		"another rate": func(w *Wall) { w.rate *= 1.01; w.span = 0 },
		"jumped ahead": func(w *Wall) { w.at -= far; w.fromTicks -= far },
		"jumped back":  func(w *Wall) { w.at += far; w.fromTicks += far },
		"was suspended": func(w *Wall) {
			w.origin = w.origin.Add(time.Second)
			w.now -= int64(time.Second)
			w.read -= int64(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := WallFrom(time.Now())
			run := func(length time.Duration) {
				for began := time.Now(); time.Since(began) < length; {
					before := int64(time.Since(w.origin))
					if nanos := w.Nanos(); nanos < before-int64(time.Millisecond) || nanos > int64(time.Since(w.origin))+int64(time.Millisecond) {
						t.Fatalf("%d, %d off", nanos, nanos-before)
					}
				}
			}
			run(60 * time.Millisecond)
			rate := w.rate
			if rate == 0 {
				t.Fatal("the rate is not known after 60 ms")
			}
			spoil(&w)
			run(200 * time.Millisecond)
			if w.rate < rate*(1-2*maxDrift) || w.rate > rate*(1+2*maxDrift) {
				t.Errorf("rate %g, before %g", w.rate, rate)
			}
		})
	}
}

func BenchmarkWall(b *testing.B) {
	w := WallFrom(time.Now())
	for range b.N {
		w.Nanos()
	}
}
