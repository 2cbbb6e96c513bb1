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

// TestVotesEndWithTheElection: a node that won an election becomes a replica again. Its next failover, however soon,
// needs new votes in a new epoch.
func TestVotesEndWithTheElection(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 1 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	b := s.byID[idB]
	takeOver := func() (epoch uint64) {
		t.Helper()
		if err := s.Failover(true, false); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.tryFailover()
			s.Finish()
		}
		if s.me.isPrimary() || !s.asked {
			t.Fatalf("before any vote: primary %t, asked %t", s.me.isPrimary(), s.asked)
		}
		s.Receive(&Link{Node: b, Inbound: true, ready: true},
			&bus.Message{Type: bus.Vote, Sender: idB, CurrentEpoch: s.electionEpoch, Flags: bus.Primary})
		s.Finish()
		if !s.me.isPrimary() {
			t.Fatal("the vote did not win")
		}
		return s.me.Epoch
	}
	first := takeOver()
	s.becomePrimary(b)
	s.setPrimary(b)
	s.moveAll(s.me, b)
	s.Finish()
	if second := takeOver(); second <= first {
		t.Errorf("the second failover has epoch %d, the first had %d", second, first)
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

// offsets is an outside with an offset and an age of the data.
type offsets struct {
	recorder
	mine, age int64
}

func (o *offsets) Offset() int64  { return o.mine }
func (o *offsets) DataAge() int64 { return o.age }

// TestReplicaMayStand (state.Q1 to state.Q3): the answers that a replica needs before it asks for votes.
func TestReplicaMayStand(t *testing.T) {
	const idD = "aa2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
	const shard, other = ",,tls-port=0,shard-id=" + idA, ",,tls-port=0,shard-id=" + idB
	for _, c := range []struct {
		name       string
		acks, mine int64
		peer       int64  // what the other node of the shard answers; -1: it does not
		role       string // of the other node
		afterMs    int64  // the answer's age
		may        bool
	}{
		{"nothing is confirmed", 0, 700, -1, "slave " + idB, 0, true},
		{"no answer", 1, 700, -1, "slave " + idB, 0, false},
		{"the other has less", 1, 700, 600, "slave " + idB, 0, true},
		{"the other has as much", 1, 700, 700, "slave " + idB, 0, true},
		{"the other has more", 1, 700, 701, "slave " + idB, 0, false},
		{"the other does not know", 1, 700, 0, "slave " + idB, 0, false},
		{"the other was primary, and is not back", 1, 700, -1, "master,fail -", 0, false},
		{"the other was primary, and has more", 1, 700, 701, "master -", 0, false},
		{"the answer is old", 1, 700, 600, "slave " + idB, heardFor + 1, false},
		{"each has all confirmed writes", 2, 700, -1, "slave " + idB, 0, true},
		{"this one does not know", 1, 0, 600, "slave " + idB, 0, false},
		{"neither knows", 1, 0, 0, "slave " + idB, 0, false},
		{"each has all, and this one does not know", 2, 0, 600, "slave " + idB, 0, false},
		{"each has all, and neither knows", 2, 0, 0, "slave " + idB, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
				idA + " 127.0.0.1:7000@17000" + shard + " myself,slave " + idB + " 0 0 2 connected\n" +
				idB + " 127.0.0.1:7001@17001" + shard + " master,fail - 0 0 2 connected 0-5460\n" +
				idC + " 127.0.0.1:7002@17002" + other + " master - 0 0 3 connected 5461-16383\n" +
				idD + " 127.0.0.1:7003@17003" + shard + " " + c.role + " 0 0 2 connected\n")
			if err != nil {
				t.Fatal(err)
			}
			s.out, s.Terms.MinAcks = &offsets{mine: c.mine}, c.acks
			peer := s.byID[idD]
			s.Finish()
			if c.peer >= 0 {
				peer.Link = &Link{Node: peer, ready: true}
				peer.PingSent = 0
				s.askOffset(peer)
				s.Receive(peer.Link, &bus.Message{Type: bus.Pong, Sender: idD, Flags: peer.Flags, Offset: c.peer,
					Slots: &bus.Bitmap{}, Primary: idB, ConfigEpoch: 2, CurrentEpoch: 6, Port: 7003, BusPort: 17003})
			}
			s.At(s.now + c.afterMs)
			if s.mayStand() != c.may {
				t.Errorf("it may stand: %t", !c.may)
			}
		})
	}
}

// TestAgeDoesNotCount: a replica that has all confirmed writes asks for votes, although it has heard of no primary for
// longer than cluster-replica-validity-factor allows. With min-replicas-to-ack 0 it does not, nor does one that does
// not know its offset.
func TestAgeDoesNotCount(t *testing.T) {
	for _, c := range []struct {
		acks, mine int64
		asks       bool
	}{{0, 700, false}, {1, 700, true}, {1, 0, false}} {
		s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
			idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
			idB + " 127.0.0.1:7001@17001 master,fail - 0 0 2 connected 0-5460\n" +
			idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 5461-16383\n")
		if err != nil {
			t.Fatal(err)
		}
		s.out = &offsets{mine: c.mine, age: 1 << 40}
		s.Terms.MinAcks, s.Terms.NodeTimeout, s.Terms.ValidityFactor = c.acks, 1000, 10
		for i := 0; i < 100 && !s.asked; i++ {
			s.At(s.now + 100)
			s.tryFailover()
		}
		if s.asked != c.asks {
			t.Errorf("min-replicas-to-ack %d, offset %d: it asks for votes: %t", c.acks, c.mine, s.asked)
		}
	}
}

// TestSilence (state.Q2): a replica is told of its primary's failure. It confirms nothing until the election of the
// replica that has told it is over, although it finds the primary well. Answers of before do not count.
func TestSilence(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 slave " + idB + " 0 0 2 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Terms.MinAcks, s.Terms.NodeTimeout = 1, 1000
	attempt := s.attempt
	s.Receive(&Link{Node: s.byID[idC], Inbound: true, ready: true},
		&bus.Message{Type: bus.Fail, Sender: idC, About: idB, Flags: bus.Replica})
	s.Finish()
	if !s.hushed || s.attempt == attempt {
		t.Fatalf("hushed %t, attempt %d", s.hushed, s.attempt)
	}
	s.byID[idB].Flags &^= bus.Failed
	attempt = s.attempt
	s.At(s.now + s.silence() - 1)
	if s.Finish(); !s.hushed || s.attempt != attempt {
		t.Error("it confirms before the silence is over")
	}
	s.At(s.now + 1)
	if s.Finish(); s.hushed || s.attempt == attempt {
		t.Errorf("after the silence: hushed %t, attempt %d", s.hushed, s.attempt)
	}
}

// TestManualNeedsTheSameOffset: a replica takes over by hand when it has the offset of its paused primary. A greater
// offset is of a history before the primary has started again.
func TestManualNeedsTheSameOffset(t *testing.T) {
	for mine, ready := range map[int64]bool{699: false, 700: true, 245303: false} {
		s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
			idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 1 connected\n" +
			idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\n")
		if err != nil {
			t.Fatal(err)
		}
		s.out = &offsets{mine: mine}
		s.manualEnd, s.manualOffset = s.now+5000, 700
		s.tryManual()
		if s.manualReady != ready {
			t.Errorf("offset %d of 700: ready %t", mine, s.manualReady)
		}
	}
}
