//go:build invariants || race

package reactor

import "testing"

// TestAnotherGoroutine: what is for a loop's goroutine is refused to another one (reactor.T3); netpoll's loops, of one
// connection each, go from hand to hand.
func TestAnotherGoroutine(t *testing.T) {
	for single, want := range map[bool]bool{false: true, true: false} {
		l := newLoop(&Reactor{}, 0)
		l.kit = newKit(1)
		l.single = single
		l.turn()
		refused := make(chan bool)
		go func() {
			defer func() { refused <- recover() != nil }()
			l.turn()
		}()
		if got := <-refused; got != want {
			t.Errorf("single %t: another goroutine is refused: %t", single, got)
		}
	}
}
