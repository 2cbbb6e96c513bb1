package state

import (
	"strings"
	"testing"

	"spindle/cluster/bus"
)

const idD = "aa2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"

// lateFile is of a node A. B has taken slots 0 to 9 from C in a move, and C's replica has been elected meanwhile.
const lateFile = "vars currentEpoch 7 lastVoteEpoch 0\n" +
	idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 11000-16383\n" +
	idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 5461-10999\n" +
	idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 0-5460\n"

// TestLateClaim (state.C3): B has claimed slots of C with epoch 8. An heir of C was elected with the same epoch, so B
// gives the slots back, and takes epoch 9. Its earlier message comes late, on its other link. The heir keeps the slots,
// and is not told that B has them with epoch 9.
func TestLateClaim(t *testing.T) {
	const less, more = "5461-10999", "0-9 5461-10999"
	for _, c := range []struct {
		name  string
		event func(s *State, b *Node)
	}{
		{"a heartbeat comes late", func(s *State, b *Node) {
			hears(s, b, 9, less)
			hears(s, b, 8, more)
		}},
		{"another message comes first", func(s *State, b *Node) {
			hears(s, b, 8, more)
			s.Receive(s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }), &bus.Message{Type: bus.Fail,
				Sender: b.ID, CurrentEpoch: 9, ConfigEpoch: 9, Flags: bus.Primary, Slots: &bus.Bitmap{}, About: "unknown"})
			s.Finish()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := loaded(lateFile)
			if err != nil {
				t.Fatal(err)
			}
			out := &recorder{}
			s.out = out
			b, heir := s.byID[idB], s.byID[idC]
			heir.Link = &Link{Node: heir, ready: true}
			c.event(s, b)
			hears(s, heir, 8, "0-5460")
			for _, p := range out.sent {
				m, err := bus.Parse(p)
				if err != nil {
					t.Fatal(err)
				}
				if m.Type == bus.Update && m.UpdateSlots.Has(3) {
					t.Errorf("the heir is told that slot 3 is of %s with epoch %d", m.About, m.UpdateEpoch)
				}
			}
			hears(s, b, 9, less)
			hears(s, heir, 8, "0-5460")
			if s.owners[3] != heir || s.unclaimed(3) {
				t.Errorf("slot 3 belongs to %s, unclaimed %t", s.owners[3].ID, s.unclaimed(3))
			}
		})
	}
}

// TestMovedSlotsAtAFailover (state.C3): C has given slots 0 to 9 to B. Then its replica D took over the rest, with a
// greater epoch. This node hears of the failover from C before it hears of B's claim. B gets the slots, and is not told
// that they are D's. Otherwise no node would claim them: D knows that they are B's.
func TestMovedSlotsAtAFailover(t *testing.T) {
	s, err := loaded(strings.Replace(lateFile, "vars", idD+" 127.0.0.1:7003@17003 slave "+idC+" 0 0 3 connected\nvars", 1))
	if err != nil {
		t.Fatal(err)
	}
	out := &recorder{}
	s.out = out
	b, c, d := s.byID[idB], s.byID[idC], s.byID[idD]
	d.ShardID = c.ShardID
	b.Link = &Link{Node: b, ready: true}
	from := s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 })
	s.Receive(from, &bus.Message{Type: bus.Ping, Sender: idC, CurrentEpoch: 9, ConfigEpoch: 9, Flags: bus.Replica,
		Primary: idD, Slots: slotsOf("10-5460"), Port: c.Port, BusPort: c.BusPort, IP: c.IP})
	s.Finish()
	if s.owners[3] != d || s.owners[100] != d || s.unclaimed(100) {
		t.Fatalf("slot 3 belongs to %s, slot 100 to %s, unclaimed %t", s.owners[3].ID, s.owners[100].ID, s.unclaimed(100))
	}
	hears(s, b, 8, "0-9 5461-10999")
	for _, p := range out.sent {
		m, err := bus.Parse(p)
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == bus.Update {
			t.Errorf("B is told that %s has slots %v with epoch %d", m.About, m.UpdateSlots.Ranges(), m.UpdateEpoch)
		}
	}
	hears(s, d, 9, "10-5460")
	hears(s, b, 8, "0-9 5461-10999")
	if s.owners[3] != b || s.unclaimed(3) || s.owners[100] != d || s.unclaimed(100) {
		t.Errorf("slot 3 belongs to %s, slot 100 to %s", s.owners[3].ID, s.owners[100].ID)
	}
}

// TestClaimAgain: a heartbeat of B comes late, and has fewer slots. The next one has all of them. B claims them again,
// so a claim with a lower epoch does not win.
func TestClaimAgain(t *testing.T) {
	s, err := loaded(lateFile)
	if err != nil {
		t.Fatal(err)
	}
	b, c := s.byID[idB], s.byID[idC]
	hears(s, b, 8, "0-9 5461-10999")
	hears(s, b, 2, "5461-10999")
	hears(s, b, 8, "0-9 5461-10999")
	if s.unclaimed(3) {
		t.Error("slot 3 is unclaimed")
	}
	hears(s, c, 3, "0-5460")
	if s.owners[3] != b {
		t.Errorf("slot 3 belongs to %s", s.owners[3].ID)
	}
}

// TestClaimAfterAnOldFile: B has started with an older nodes.conf, so its epoch is lower than is known of it. Slots
// without an owner are B's when B claims them. Until B claims them again, they are open, because the message may be a
// late one.
func TestClaimAfterAnOldFile(t *testing.T) {
	s, err := loaded(strings.Replace(lateFile, "5461-10999", "5461-10899", 1))
	if err != nil {
		t.Fatal(err)
	}
	b := s.byID[idB]
	hears(s, b, 9, "5461-10899")
	for try, open := range []bool{true, false} {
		hears(s, b, 2, "5461-10999")
		if s.owners[10900] != b || s.unclaimed(10900) != open {
			t.Errorf("claim %d: slot 10900 belongs to %v, unclaimed %t", try, s.owners[10900], s.unclaimed(10900))
		}
	}
	hears(s, b, 2, "0-9 5461-10999")
	if s.owners[3] == b {
		t.Error("B has a slot of C by an old epoch")
	}
}

// TestReplicaBecomesAPrimary: a replica has told its primary's epoch. It is reset, and claims slots with its own epoch,
// which is lower.
func TestReplicaBecomesAPrimary(t *testing.T) {
	s, err := loaded("vars currentEpoch 7 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 10-16383\n" +
		idB + " 127.0.0.1:7001@17001 slave " + idA + " 0 0 7 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	b := s.byID[idB]
	b.Epoch = 7
	hears(s, b, 3, "0-9")
	if s.owners[3] != b || b.Epoch != 3 {
		t.Errorf("slot 3 belongs to %v, the epoch is %d", s.owners[3], b.Epoch)
	}
}
