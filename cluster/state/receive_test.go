package state

import (
	"testing"

	"spindle/cluster/bus"
)

// TestOwnID: a message with this node's own ID changes neither its role, its slots nor its address.
func TestOwnID(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 5461-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	s.updateState()
	before := string(s.Describe())
	for typ := range bus.Types {
		l := s.Accept("127.0.0.1", "127.0.0.9", nil, func() int64 { return 0 })
		s.Receive(l, &bus.Message{Type: typ, Sender: idA, Primary: idB, Flags: bus.Replica, CurrentEpoch: 100,
			ConfigEpoch: 100, IP: "127.0.0.7", Port: 1, BusPort: 2})
		s.Settle()
		if l.Node != nil {
			t.Errorf("type %d: the link is %s's", typ, l.Node.ID)
		}
		if got := string(s.Describe()); got != before {
			t.Fatalf("type %d:\n%s\nwas\n%s", typ, got, before)
		}
	}
}

// TestMeetsItself: a node that meets its own address forgets the handshake at the first reply.
func TestMeetsItself(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" + idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	n := s.newNode("", bus.Handshake)
	n.IP, n.Port, n.BusPort = "127.0.0.1", 7000, 17000
	s.add(n)
	l := &Link{Node: n, ready: true}
	n.Link = l
	s.Receive(l, &bus.Message{Type: bus.Pong, Sender: idA, Flags: bus.Primary})
	s.Settle()
	if len(s.nodes) != 1 {
		t.Errorf("%d nodes", len(s.nodes))
	}
}
