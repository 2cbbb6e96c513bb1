package state

import (
	"encoding/binary"
	"testing"

	"spindle/cluster/bus"
)

// TestOwnID: a message with this node's own ID does not change this node's role, slots or address.
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
		s.Finish()
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
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" + idA +
		" 127.0.0.1:7000@17000 myself,master - 0 0 1 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	n := s.newNode("", bus.Handshake)
	n.IP, n.Port, n.BusPort = "127.0.0.1", 7000, 17000
	s.add(n)
	l := &Link{Node: n, ready: true}
	n.Link = l
	s.Receive(l, &bus.Message{Type: bus.Pong, Sender: idA, Flags: bus.Primary})
	s.Finish()
	if len(s.nodes) != 1 {
		t.Errorf("%d nodes", len(s.nodes))
	}
}

// A recorder is an Outside that keeps the messages of a node.
type recorder struct {
	quiet
	sent [][]byte
}

func (r *recorder) Send(_ *Link, message []byte, _ uint64) {
	r.sent = append(r.sent, append([]byte(nil), message...))
}

// TestFlagBitsOfOthers: Valkey's messages have flag bits that only Valkey knows. This node never sends such bits,
// neither about itself nor about others, and does not write them. Valkey would reply to them with shorter headers.
func TestFlagBitsOfOthers(t *testing.T) {
	const ours = 1<<10 - 1
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 5461-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	out := &recorder{}
	s.out = out
	s.updateState()
	idC := idB[:len(idB)-1] + "c"
	for _, typ := range []bus.Type{bus.Meet, bus.Ping, bus.Pong} {
		for _, role := range []bus.Flags{bus.Primary, bus.Replica} {
			m := &bus.Message{Type: typ, Sender: idB, Flags: role | 0xfc00, CurrentEpoch: 6, ConfigEpoch: 2,
				Slots: &bus.Bitmap{}, IP: "127.0.0.1", Port: 7001, BusPort: 17001,
				Gossip: []bus.Gossip{{ID: idC, IP: "127.0.0.1", Port: 7002, BusPort: 17002, Flags: bus.Primary | 0xfc00},
					{ID: idA, IP: "127.0.0.1", Port: 7000, BusPort: 17000, Flags: bus.Primary | 0xfc00}}}
			if role == bus.Replica {
				m.Primary = idC
			}
			s.Receive(s.Accept("127.0.0.1", "127.0.0.9", nil, func() int64 { return 0 }), m)
			s.Finish()
		}
	}
	for _, n := range s.nodes {
		if n.Flags&^ours != 0 {
			t.Errorf("node %s has flags %x", n.ID, n.Flags)
		}
		if n != s.me {
			s.ping(&Link{Node: n, ready: true}, bus.Ping)
		}
	}
	if len(s.nodes) != 3 || len(out.sent) < 3 {
		t.Fatalf("%d nodes, %d messages: too little was tried", len(s.nodes), len(out.sent))
	}
	for _, raw := range out.sent {
		if flags := binary.BigEndian.Uint16(raw[2250:]); flags&^ours != 0 {
			t.Errorf("the header has flags %x", flags)
		}
		m, err := bus.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range m.Gossip {
			if g.Flags&^ours != 0 {
				t.Errorf("gossip about %s has flags %x", g.ID, g.Flags)
			}
		}
	}
}
