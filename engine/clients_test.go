package engine

import "testing"

// TestIdleClientsAreClosed: the timeout setting goes by the last command and by the last bytes either way.
func TestIdleClientsAreClosed(t *testing.T) {
	h := newHouse(t)
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

// TestResetForgetsRates: a rate that went by a counter which began anew would be some 1e19 a second.
func TestResetForgetsRates(t *testing.T) {
	h := newHouse(t)
	cl, _ := h.arrive()
	h.do(cl, "SET a b", "GET a", "nosuch")
	second := int64(1e9)
	h.Do(func() {
		h.tick(second)
		h.tick(2 * second)
		h.ResetFigures()
		h.tick(3 * second)
		h.tick(4 * second)
		if f := h.Figures(); f.OpsPerSecond > 1000 || f.TurnsPerSecond > 1000 || f.Unexpected != 0 || f.Commands != 0 {
			t.Errorf("%+v", f)
		}
	})
}
