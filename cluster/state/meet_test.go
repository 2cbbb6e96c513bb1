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
