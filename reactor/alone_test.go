//go:build invariants || race

package reactor

import "testing"

// TestAnotherGoroutine: only one goroutine may work on a loop, until it leaves the loop (reactor.T3).
func TestAnotherGoroutine(t *testing.T) {
	l := newLoop(&Reactor{}, 0)
	l.kit = newKit(1)
	for _, leaves := range []bool{false, true} {
		l.turn()
		if leaves {
			l.runner.leave()
		}
		refused := make(chan bool)
		go func() {
			defer func() { refused <- recover() != nil }()
			l.turn()
		}()
		if got := <-refused; got == leaves {
			t.Errorf("another goroutine is refused: %t, after the first has left: %t", got, leaves)
		}
	}
}
