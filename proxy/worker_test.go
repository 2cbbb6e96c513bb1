package proxy

import (
	"io"
	"testing"
	"time"

	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol"
	"spindle/protocol/scan"
)

// A verdict is a taker that notes the error.
type verdict struct{ err *protocol.Error }

func (v *verdict) take(_ *upstream, _ *call, _ []byte, _ scan.Refusal, err *protocol.Error) {
	v.err = err
}

// TestSilence: a server that says nothing for the limit is given up. The time in which the proxy itself did not run
// counts only as one interval between two looks.
func TestSilence(t *testing.T) {
	p := &Proxy{settings: &Settings{}, started: time.Now(), log: logging.New(io.Discard)}
	p.cache = newHotCache(p.settings)
	if _, err := setting.NewRegistry(p.settings.Rows()); err != nil {
		t.Fatal(err)
	}
	w := newWorker(p, nil)
	pass := func(d time.Duration) {
		p.started = p.started.Add(-d)
		w.readClock()
		w.endSilent()
	}
	w.readClock()
	w.ticking, w.lookedAt = true, w.clock // no timer is started
	u, v := &upstream{w: w, access: &access{w: w}, at: "127.0.0.1:1", retiring: true}, &verdict{}
	w.ups[u] = struct{}{}
	u.push(call{to: v, slot: -1, fixed: true}, encode("PING"))
	for range 5 {
		if pass(time.Minute); v.err != nil {
			t.Fatalf("the proxy was stopped for a minute, and says of the server: %v", v.err)
		}
	}
	limit := time.Duration(p.settings.Timeout.Get()) * time.Millisecond
	looks := 0
	for ; v.err == nil; looks++ {
		pass(tick)
		if looks > 10*int(limit/tick) {
			t.Fatal("the server is never given up")
		}
	}
	if least := int(limit/tick) / 2; looks < least {
		t.Errorf("the server is given up after %d looks, want at least %d", looks, least)
	}
}
