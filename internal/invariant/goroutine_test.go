//go:build invariants || race

package invariant

import (
	"sync"
	"testing"
)

// TestGoroutine: both ways to identify a goroutine distinguish live goroutines. The number stays the same, also when
// the stack has moved.
func TestGoroutine(t *testing.T) {
	for name, of := range map[string]func() uintptr{"Goroutine": Goroutine, "numbered": numbered} {
		const n = 100
		var mu sync.Mutex
		seen := map[uintptr]bool{of(): true}
		var all sync.WaitGroup
		named, over := make(chan bool, n), make(chan bool)
		for range n {
			all.Go(func() {
				before := of()
				if after := deep(50, of); before != after || before == 0 {
					t.Errorf("%s: %x, then %x", name, before, after)
				}
				mu.Lock()
				if seen[before] {
					t.Errorf("%s: two are called %x", name, before)
				}
				seen[before] = true
				mu.Unlock()
				named <- true
				<-over // so that no new goroutine gets its name
			})
		}
		for range n {
			<-named
		}
		close(over)
		all.Wait()
	}
}

// deep calls of below several large frames, for which the stack has to grow.
func deep(frames int, of func() uintptr) uintptr {
	var room [1 << 10]byte
	if frames == 0 {
		return of()
	}
	room[frames] = byte(frames)
	name := deep(frames-1, of)
	if room[frames] != byte(frames) {
		return 0
	}
	return name
}
