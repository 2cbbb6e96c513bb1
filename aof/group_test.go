package aof

import (
	"testing"
	"time"
)

// TestGroup: a sync waits for the clients that the last sync has released, while they return sooner than a sync takes.
// It does not wait after a pause. A pause is forgotten after a few syncs.
func TestGroup(t *testing.T) {
	const took, bytes = time.Hour, 100 // longer than any clock is off
	w, ready := &syncer{}, int64(0)
	waits := func() bool {
		w.group = 0
		w.letGo(ready, bytes, took)
		return w.group == ready+bytes && w.until.After(time.Now().Add(-took))
	}
	if !waits() {
		t.Fatal("the first sync is not waited for")
	}
	w.left = w.left.Add(-1000 * took) // the clients pause
	if waits() {
		t.Fatal("a sync waits for clients that took a pause")
	}
	for n := 1; ; n++ {
		ready = w.back
		w.came()
		if waits() {
			return
		}
		if n == 8 {
			t.Fatalf("after %d syncs whose clients came back at once the pause is still remembered", n)
		}
	}
}
