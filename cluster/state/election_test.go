package state

import (
	"slices"
	"testing"

	"spindle/cluster/bus"
)

// TestManualFailoverOfANewReplica: a primary accepts the request for a manual failover that comes right after
// REPLICATE, before any heartbeat of the new replica. A request made before the link is connected is sent once it is.
func TestManualFailoverOfANewReplica(t *testing.T) {
	nodes := func(mine, other string) string {
		return "vars currentEpoch 2 lastVoteEpoch 0\n" +
			idA + " 127.0.0.1:7000@17000 " + mine + "master - 0 0 1 connected 0-16383\n" +
			idB + " 127.0.0.1:7001@17001 " + other + "master - 0 0 2 connected\n"
	}
	for _, connected := range []bool{true, false} {
		primary, err := loaded(nodes("myself,", ""))
		if err != nil {
			t.Fatal(err)
		}
		replica, err := loaded(nodes("", "myself,"))
		if err != nil {
			t.Fatal(err)
		}
		out := &recorder{}
		replica.out = out
		link := &Link{Node: replica.byID[idA], ready: connected}
		replica.byID[idA].Link = link
		if err := replica.Replicate(idA, true); err != nil {
			t.Fatal(err)
		}
		if err := replica.Failover(false, false); err != nil {
			t.Fatal(err)
		}
		if !connected {
			if len(out.sent) != 0 {
				t.Fatalf("%d messages on a link that is not connected", len(out.sent))
			}
			replica.Connected(link)
		}
		from := primary.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 })
		for _, p := range out.sent {
			m, err := bus.Parse(p)
			if err != nil {
				t.Fatal(err)
			}
			primary.Receive(from, m)
		}
		if primary.manualNode != primary.byID[idB] || primary.ManualEnd() == 0 {
			t.Errorf("connected %t: the primary has not heard the request in %d messages", connected, len(out.sent))
		}
		replica.Connected(link)
		last, err := bus.Parse(out.sent[len(out.sent)-1])
		if err != nil || last.Type == bus.ManualStart {
			t.Errorf("connected %t: the request is sent again: %v", connected, err)
		}
	}
}

// TestLateVotesDoNotCount: a vote of one election that arrives before the next election does not count in the next.
// Otherwise two replicas could win the same epoch.
func TestLateVotesDoNotCount(t *testing.T) {
	const idD = "aa2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 1 connected\n" +
		idB + " 127.0.0.1:7001@17001 master,fail - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 5461-10922\n" +
		idD + " 127.0.0.1:7003@17003 master - 0 0 4 connected 10923-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	vote := func(by string, epoch uint64) {
		n := s.byID[by]
		s.Receive(&Link{Node: n, Inbound: true, ready: true},
			&bus.Message{Type: bus.Vote, Sender: by, CurrentEpoch: epoch, Flags: bus.Primary})
		s.Finish()
	}
	begin := func() {
		for now := s.now; !s.asked; now += 100 {
			s.At(now)
			s.tryFailover()
			s.Finish()
		}
	}
	s.updateState()
	begin()
	first := s.electionEpoch
	for s.asked { // no node votes in time
		s.At(s.now + 100)
		s.tryFailover()
		s.Finish()
	}
	vote(idC, first)
	begin()
	if s.electionEpoch == first {
		t.Fatalf("the second election is of epoch %d again", first)
	}
	vote(idD, s.electionEpoch)
	if s.me.isPrimary() {
		t.Fatalf("one vote of epoch %d and one of epoch %d won an election that needs %d", first, s.electionEpoch, s.quorum())
	}
	vote(idC, s.electionEpoch)
	s.tryFailover()
	if !s.me.isPrimary() {
		t.Error("two votes of the same epoch did not win")
	}
}

// A dropper has keys in some slots, and keeps the slots whose keys it is to drop.
type dropper struct {
	quiet
	keys    map[int]int
	dropped []uint16
}

func (d *dropper) Keys(slot int) int { return d.keys[slot] }
func (d *dropper) Ask(e Errand) {
	if e.Kind == Drop {
		d.dropped = append(d.dropped, e.Slots...)
	}
}

// TestPromotedReplicaDropsLostSlots: another node takes slots from this replica's primary. The replica takes over
// before the primary has removed all keys of them, and removes the rest. Keys that came after the removal stay: they
// may be of a slot that comes back key by key.
func TestPromotedReplicaDropsLostSlots(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 1 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-9 16383\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 10-16382\n")
	if err != nil {
		t.Fatal(err)
	}
	out := &dropper{keys: map[int]int{3: 1, 4: 1, 12: 1}}
	s.out = out
	c := s.byID[idC]
	claimed := c.slots
	claimed.Add(3)
	claimed.Add(4)
	claimed.Add(5)
	c.Epoch = 4
	s.claims(c, 4, &claimed)
	s.Finish()
	out.keys[4] = 0
	s.Tick()
	s.Finish()
	out.keys[4], out.keys[5] = 1, 1
	if len(out.dropped) != 0 {
		t.Fatalf("a replica drops %v", out.dropped)
	}
	if err := s.Failover(false, true); err != nil {
		t.Fatal(err)
	}
	s.Finish()
	if !slices.Equal(out.dropped, []uint16{3}) {
		t.Errorf("the new primary drops %v, want 3", out.dropped)
	}
}
