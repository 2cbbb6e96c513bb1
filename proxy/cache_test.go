package proxy

import (
	"io"
	"testing"
	"time"

	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol/scan"
)

// TestCacheOfAKeyThatHasEnded: if a key expires between GET and PTTL, its value is not cached. The absence of a key is
// cached.
func TestCacheOfAKeyThatHasEnded(t *testing.T) {
	p := &Proxy{settings: &Settings{}, started: time.Now(), log: logging.New(io.Discard)}
	p.cache = newHotCache(p.settings)
	registry, err := setting.NewRegistry(p.settings.Rows())
	if err == nil {
		err = registry.SetMany([]setting.Pair{{Name: "proxy-cache-size", Value: "1mb"}}, setting.Conditions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(p, nil)
	w.readClock()
	u, h := &upstream{w: w}, p.cache
	for value, kept := range map[string]bool{"$5\r\nvalue\r\n": false, "_\r\n": true} {
		e := &hotEntry{hotKey: hotKey{key: "k"}, from: u, asked: w.clock}
		h.entries[e.hotKey] = e
		h.bytes += e.size()
		(*hotValue)(e).take(u, nil, []byte(value), scan.NotRefused, nil)
		(*hotTime)(e).take(u, nil, []byte(":-2\r\n"), scan.NotRefused, nil)
		if found := h.find(w, identity{}, []byte("k"), 0); (found != nil) != kept {
			t.Errorf("GET said %q and PTTL -2: the cache has %q", value, found)
		}
	}
}
