package engine

import (
	"strings"
	"testing"

	"spindle/engine/client"
)

// TestIdleClientsAreClosed: the timeout setting counts from the last command, and from the last bytes in either
// direction.
func TestIdleClientsAreClosed(t *testing.T) {
	h := newTestCore(t)
	h.settings.Timeout.Set(10)
	_, idle := h.arrive()
	_, taking := h.arrive()
	replica, silent := h.arrive()
	replica.Flags |= fedStream
	h.Do(func() {
		h.nowMs += 10_001
		taking.active = h.nowMs - 10_000 // some of a long reply left then
		h.timeOutClients()
	})
	h.expect("who is idle", idle.take(), "close")
	h.expect("who is being sent something", taking.take(), "")
	h.expect("who takes the stream", silent.take(), "")
}

// TestKilledIsGone: the command after CLIENT KILL does not see the killed client, even if its connection is still open.
// The client is not in CLIENT LIST. It neither waits, watches nor monitors, and no pause holds it. Its loop finds no
// work for it.
func TestKilledIsGone(t *testing.T) {
	h := newTestCore(t)
	boss, _ := h.arrive()
	waits, waiting := h.arrive()
	monitors, monitoring := h.arrive()
	watches, _ := h.arrive()
	held, _ := h.arrive()
	h.do(waits, "PARK k")
	h.do(monitors, "MONITOR")
	h.do(watches, "WATCH w")
	h.Do(func() { h.PauseFor(PauseByClient, false, 60_000) })
	if done, _ := h.batch(held, "SET k v"); done != 0 {
		t.Fatal("the pause held no client back")
	}
	monitoring.take()
	if answer := h.do(boss, "CLIENT KILL TYPE normal", "CLIENT LIST"); !strings.HasPrefix(answer, ":4\r\n") ||
		strings.Count(answer, "id=") != 1 {
		t.Errorf("%q", answer)
	}
	if h.BlockedClients() != 0 || h.BlockingKeys() != 0 || h.monitors.Len() != 0 || h.watches.Clients() != 0 ||
		h.connected() != 1 {
		t.Errorf("%d blocked, %d keys, %d monitors, %d watch, %d clients",
			h.BlockedClients(), h.BlockingKeys(), h.monitors.Len(), h.watches.Clients(), h.connected())
	}
	h.Do(func() { h.Unpause(PauseByClient) })
	h.expect("who makes the key ready", h.do(boss, "SIGNAL k"), "+OK\r\n")
	h.expect("who waited", waiting.take(), "close")
	h.expect("the monitor", monitoring.take(), "close")
	for _, cl := range []*client.Client{waits, monitors, watches, held} {
		if done, answer := h.batch(cl, "SET late x"); done != 0 || answer != "" {
			t.Errorf("%d done, %q", done, answer)
		}
		h.Closed(cl)
	}
	if h.connected() != 1 {
		t.Errorf("%d clients", h.connected())
	}
}

// TestResetForgetsRates: without that, a counter's reset would give a rate of some 1e19 a second.
func TestResetForgetsRates(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.do(cl, "SET a b", "GET a", "nosuch")
	second := int64(1e9)
	h.Do(func() {
		h.tick(second)
		h.tick(2 * second)
		h.Core.ResetFigures()
		h.tick(3 * second)
		h.tick(4 * second)
		if f := h.Core.Figures(); f.OpsPerSecond > 1000 || f.TurnsPerSecond > 1000 || f.Unexpected != 0 || f.Commands != 0 {
			t.Errorf("%+v", f)
		}
	})
}
