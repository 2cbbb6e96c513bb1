package state

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"spindle/cluster/bus"
)

// roles names a node whose core and state have different roles.
func (w *simulation) roles() string {
	for _, h := range w.hosts {
		if h.Up() && h.follows != h.find(h.s.Me().Primary) {
			return fmt.Sprintf("host %d follows host %d, and is %s", h.at, h.follows, h.line(h.s.Me()))
		}
	}
	return ""
}

// TestOldFile: a node starts with a nodes.conf of before a failover. Soon all nodes agree again, and each core has the
// role that its node has.
func TestOldFile(t *testing.T) {
	for try := range 8 {
		old := []int{0, 1, 3, 4}[try/2] // the old primary, another one, the new primary, another replica
		t.Run(fmt.Sprintf("host %d, acks %d", old, try%2), func(t *testing.T) {
			w := newSimulation(uint64(old), 6, func(i int) string { return nodesConf(i, 6, 3) })
			if w.acks = int64(try % 2); w.acks > 0 {
				w.kept = map[int]*write{}
				for _, h := range w.hosts {
					h.do(func() { h.s.Apply(h.terms()) })
				}
			}
			all := func() string { return cmp.Or(w.unwell(), w.disagreement(), w.roles()) }
			w.run(2500)
			h, disk := w.hosts[old], w.hosts[old].disk
			w.hosts[3].do(func() { _ = w.hosts[3].s.Failover(true, false) })
			w.run(1000)
			if w.until(wellMs, all) < 0 || w.hosts[3].s.IsReplica() {
				t.Fatalf("no failover: %s", all())
			}
			h.crash()
			h.disk = disk
			h.boot()
			w.run(1000)
			if patience := wellMs + h.s.unownedFor(); w.until(patience, all) < 0 || w.wrong != "" {
				t.Errorf("%d ms after the start: %s%s", patience, all(), w.wrong)
			}
		})
	}
}

// TestPrimaryAgainServesLater: a primary that has started as a replica does not serve at once, because another node may
// have taken over. A node that has not heard of that takeover does not make a replica of the new primary a primary.
func TestPrimaryAgainServesLater(t *testing.T) {
	const b = idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected"
	for file, again := range map[string]bool{
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" + b + " 0-16383\n": true,
		idA + " 127.0.0.1:7000@17000,,shard-id=" + idC + " myself,slave " + idC + " 0 0 7 connected\n" +
			idC + " 127.0.0.1:7002@17002,,shard-id=" + idC + " master - 0 0 7 connected 0-16383\n" +
			idB + " 127.0.0.1:7001@17001,,shard-id=" + idC + " master,fail - 0 0 2 connected\n": false,
	} {
		s, err := loaded("vars currentEpoch 7 lastVoteEpoch 0\n" + file)
		if err != nil {
			t.Fatal(err)
		}
		s.updateState()
		s.At(s.now + writableDelay)
		s.updateState()
		primary := s.me.Primary
		s.Receive(s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }), &bus.Message{Type: bus.Pong,
			Sender: idB, CurrentEpoch: 7, ConfigEpoch: 6, Flags: bus.Replica, Primary: idA, Slots: slotsOf("0-16383"),
			Port: 7001, BusPort: 17001, IP: "127.0.0.1"})
		s.Finish()
		if again == s.IsReplica() || again == s.OK() || !again && s.me.Primary != primary {
			t.Errorf("ok is %t: %s", s.OK(), s.Line(s.me, false))
		}
		s.At(s.now + writableDelay)
		s.updateState()
		if !s.OK() {
			t.Errorf("it does not serve later: %s", s.Line(s.me, false))
		}
	}
}

// TestOldNotesOfLostSlots: a primary starts with a nodes.conf of the time when it was a replica. Its shard had lost
// slots 3 to 5 then. Slot 4 has come back since, and slot 5 was coming back, key by key. The old notes do not tell such
// keys from leftovers. So all keys stay, and an operator sees the slots.
func TestOldNotesOfLostSlots(t *testing.T) {
	s, err := loaded(idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-2\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 3-16383\n" +
		"vars currentEpoch 7 lastVoteEpoch 0 lost-slots 3-5\n")
	if err != nil {
		t.Fatal(err)
	}
	out := newDropper(map[int]int{1: 1, 4: 1, 5: 1})
	s.out = out
	s.Adopt()
	s.Receive(s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }), &bus.Message{Type: bus.Pong,
		Sender: idB, CurrentEpoch: 7, ConfigEpoch: 6, Flags: bus.Replica, Primary: idA, Slots: slotsOf("0-2 4"),
		Port: 7001, BusPort: 17001, IP: "127.0.0.1"})
	s.Finish()
	if s.IsReplica() {
		t.Fatal("the node is still a replica")
	}
	if again, err := loaded(string(s.Describe())); err != nil || !slices.Equal(again.Open(), []int{4, 5}) {
		t.Errorf("an operator sees the slots %v: %v", again.Open(), err)
	}
	tick(s, 3*s.Terms.NodeTimeout)
	if err := s.Bind(4, idA); err != nil || s.Owner(4) != s.me {
		t.Errorf("SETSLOT NODE of the slot that has come back: %v", err)
	}
	s.Adopt() // as at the next start
	tick(s, 3*s.Terms.NodeTimeout)
	if len(out.dropped) > 0 {
		t.Errorf("the keys of slots %v are removed", out.dropped)
	}
}
