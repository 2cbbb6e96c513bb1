package part

import (
	"slices"
	"testing"

	"spindle/engine/client"
)

// TestOrder: listeners of one event are called by their order. Those with equal order are called as they subscribed.
func TestOrder(t *testing.T) {
	var e Events
	var called []string
	gone := func(name string) func(*client.Client) {
		return func(*client.Client) { called = append(called, name) }
	}
	e.Add(Listeners{Order: Later, Gone: gone("later")})
	e.Add(Listeners{Order: Streams, Gone: gone("feed")})
	e.Add(Listeners{Order: ForgetKeys, Gone: gone("watches")})
	e.Add(Listeners{Order: Streams, Gone: gone("follower"), Tick: func(int64) {}})
	e.Gone(nil)
	if want := []string{"watches", "feed", "follower", "later"}; !slices.Equal(called, want) {
		t.Errorf("called %q, want %q", called, want)
	}
	if e.Wrote != nil || len(e.Ticks) != 1 {
		t.Errorf("an event without listeners has one, or there are %d ticks", len(e.Ticks))
	}
}

// TestOtherMemory: the results of all features are added up.
func TestOtherMemory(t *testing.T) {
	var e Events
	e.Add(Listeners{OtherMemory: func() (int64, int64) { return 3, 1 }})
	e.Add(Listeners{OtherMemory: func() (int64, int64) { return 40, 20 }})
	if used, spared := e.OtherMemory(); used != 43 || spared != 21 {
		t.Errorf("used %d, spared %d", used, spared)
	}
}
