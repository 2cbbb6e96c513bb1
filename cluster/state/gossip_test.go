package state

import (
	"strconv"
	"strings"
	"testing"

	"spindle/cluster/bus"
)

// TestGossipCarriesUnixTime: gossip uses Unix time, even on a node whose wall clock was set after its start.
func TestGossipCarriesUnixTime(t *testing.T) {
	s := fresh()
	s.WallAhead = 3_600_000
	n := &Node{ID: "n", PongReceived: s.now - 5000}
	if g := s.gossipOf(n); int64(g.PongReceived) != (s.now-5000+3_600_000)/1000 || g.PingSent != 0 {
		t.Errorf("sent: pong %d, ping %d", g.PongReceived, g.PingSent)
	}
	s.takeGossipOf(n, nil, &bus.Gossip{PongReceived: uint32((s.now - 1000 + 3_600_000) / 1000)})
	if want := (s.now - 1000) / 1000 * 1000; n.PongReceived != want {
		t.Errorf("taken: %d, want %d", n.PongReceived, want)
	}
	want := " 0 " + strconv.FormatInt(n.PongReceived+3_600_000, 10) + " "
	if line := s.Line(n, false); !strings.Contains(line, want) {
		t.Errorf("CLUSTER NODES says %q, and not %q", line, want)
	}
}
