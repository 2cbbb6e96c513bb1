package server

import (
	"math"
	"testing"
	"time"
)

// TestConsoleWaitsForTheDisk: while the gate holds back a turn, it also holds back the console's reply of that turn.
func TestConsoleWaitsForTheDisk(t *testing.T) {
	in := assembled(t)
	in.gate.Shut(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := in.page.Consult("default", "", 0, [][]byte{[]byte("GET"), []byte("k")}); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-done:
		t.Error("the reply has left")
	case <-time.After(50 * time.Millisecond):
	}
	in.gate.Open(math.MaxUint64)
	<-done
}
