package server

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// TestLabelsOutliveARefusedProfile: pprof refuses a second CPU profile while one runs; the first keeps its labels to
// its end.
func TestLabelsOutliveARefusedProfile(t *testing.T) {
	var said []bool
	turn := make(chan struct{}, 1)
	a := &admin{profiling: func(on bool) { said = append(said, on) }}
	a.do = func(f func()) { turn <- struct{}{}; f(); <-turn }
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.profile(httptest.NewRecorder(), httptest.NewRequest("GET", "/debug/pprof/profile?seconds=1", nil))
	}()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		on := false
		a.do(func() { on = len(said) == 1 })
		if on {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("no labels")
		}
	}
	// Until the first one's profile runs: which of the two is refused does not matter here.
	time.Sleep(50 * time.Millisecond)
	a.profile(httptest.NewRecorder(), httptest.NewRequest("GET", "/debug/pprof/profile?seconds=1", nil))
	a.do(func() {
		if !slices.Equal(said, []bool{true}) {
			t.Errorf("labels: %v, while the first profile runs", said)
		}
	})
	<-done
	if !slices.Equal(said, []bool{true, false}) {
		t.Errorf("labels: %v", said)
	}
}
