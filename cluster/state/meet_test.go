package state

import (
	"testing"

	"spindle/cluster/bus"
)

// known counts the nodes that h knows by their own IDs, with itself.
func (h *host) known() (count int) {
	for _, n := range h.s.nodes {
		if !n.is(bus.Handshake) {
			count++
		}
	}
	return count
}

// TestHalfHandshake: one of two nodes gives a handshake up, and the other one completes it. The other one then meets
// it again, so that both know each other.
func TestHalfHandshake(t *testing.T) {
	for name, lost := range map[string]bus.Type{"the met node gives up": bus.Ping, "the other one gives up": bus.Pong} {
		w := newSimulation(1, 2, nil)
		met, meets := w.hosts[0], w.hosts[1]
		meets.do(func() {
			if err := meets.s.Meet(ip(0), 7000, 17000); err != nil {
				t.Fatal(err)
			}
			meets.s.DropType = int(lost)
		})
		w.run(2 * simulationTimeout)
		if met.known()+meets.known() != 3 {
			t.Errorf("%s: they know %d and %d nodes: no half handshake", name, met.known(), meets.known())
		}
		meets.s.DropType = -1
		w.run(2 * simulationTimeout)
		if met.known() != 2 || meets.known() != 2 {
			t.Errorf("%s: they know %d and %d nodes", name, met.known(), meets.known())
		}
		for _, h := range w.hosts {
			for _, n := range h.s.nodes {
				if n.stranger {
					t.Errorf("%s: %s is met again and again", name, n.ID)
				}
			}
		}
	}
}

// TestForgottenNodeStaysOut: a node is forgotten before it knows that the other one knows it. It meets the other one
// again by itself, and stays out for longer than the ban. An operator's CLUSTER MEET lets it in.
func TestForgottenNodeStaysOut(t *testing.T) {
	for _, forgetful := range []int{0, 1} {
		w := newSimulation(1, 2, nil)
		h, forgotten := w.hosts[forgetful], w.hosts[1-forgetful]
		meet := func(from *host, to int) {
			from.do(func() {
				if err := from.s.Meet(ip(to), 7000, 17000); err != nil {
					t.Fatal(err)
				}
			})
		}
		meet(w.hosts[1], 0)
		w.run(500)
		h.do(func() {
			if err := h.s.Forget(forgotten.s.me.ID); err != nil {
				t.Fatal(err)
			}
		})
		w.run(2 * 1000 * h.terms().ForgetSeconds)
		if h.known() != 1 || forgotten.known() != 2 {
			t.Errorf("host %d forgets: it knows %d nodes, and the other one %d", forgetful, h.known(), forgotten.known())
		}
		meet(forgotten, forgetful)
		w.run(simulationTimeout)
		if h.known() != 2 {
			t.Errorf("host %d forgets: it does not know a node that an operator has let in", forgetful)
		}
	}
}
