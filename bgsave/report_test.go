package bgsave

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/internal/logging"
)

// TestProgressIsShown: during a load the log gets a line every ten seconds, the supervisor a text every second. The
// text says whether there was progress. An empty text ends it.
func TestProgressIsShown(t *testing.T) {
	var log bytes.Buffer
	loading, saved := &Loading{}, &Progress{}
	var saving *Progress
	var shown []string
	r := &Reporter{Log: logging.New(&log), Loading: loading, Saving: func() *Progress { return saving },
		Underway: func(text string, moves bool) {
			if moves {
				text += " +"
			}
			shown = append(shown, text)
		}}
	shows := func(want ...string) {
		t.Helper()
		if !slices.Equal(shown, want) {
			t.Errorf("shown: %q, want %q", shown, want)
		}
		shown = nil
	}
	now := time.Unix(1_000_000, 0)
	tick := func() { r.tick(now); now = now.Add(time.Second) }
	tick()
	shows() // nothing is running
	loading.Begin(1000)
	tick()
	shows("Loading: 0.0% +")
	loading.Read.Store(100)
	loading.LastKeysLoaded.Store(7)
	tick()
	shows("Loading: 10.0%, about 10 seconds to go, 7 keys so far +")
	tick() // the load makes no progress
	shows("Loading: 10.0%, about 19 seconds to go, 7 keys so far")
	for range 7 {
		tick()
		shows(lastStatus(r, now))
	}
	if log.Len() != 0 {
		t.Errorf("the log has it within ten seconds: %s", log.String())
	}
	loading.Read.Store(500)
	tick()
	shows("Loading: 50.0%, about 11 seconds to go, 7 keys so far +")
	if !strings.HasSuffix(log.String(), " * Loading: 50.0%, about 11 seconds to go, 7 keys so far\n") ||
		strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log after ten seconds: %q", log.String())
	}
	loading.Active.Store(false)
	tick()
	shows("") // the load is over
	tick()
	shows()
	saved.Total.Store(10)
	saved.Keys.Store(5)
	saved.Bytes.Store(3 << 20)
	saving = saved
	tick()
	shows("Saving: 50.0%, 5 of 10 keys, 3.0 MB written +")
	saving = nil
	tick()
	shows("")
}

// lastStatus returns the text of a load without progress, as at the tick before now.
func lastStatus(r *Reporter, now time.Time) string {
	again := r.load
	text, _ := again.at(now.Add(-time.Second), again.what, again.done, 1000, again.work)
	return "Loading: " + text + ", 7 keys so far"
}
