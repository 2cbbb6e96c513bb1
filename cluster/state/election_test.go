package state

import (
	"math/rand/v2"
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
	marked  map[int]bool
	dropped []uint16
}

func newDropper(keys map[int]int) *dropper { return &dropper{keys: keys, marked: map[int]bool{}} }

func (d *dropper) Keys(slot int) int    { return d.keys[slot] }
func (d *dropper) Mark(slot int)        { d.marked[slot] = d.keys[slot] > 0 }
func (d *dropper) Marked(slot int) bool { return d.marked[slot] }
func (d *dropper) Ask(e Errand) {
	if e.Kind == Drop {
		d.dropped = append(d.dropped, e.Slots...)
	}
}

// TestPromotedReplicaDropsLostSlots: another node takes slots from this replica's primary, which fails. The replica
// takes over before the primary has removed all keys of them, and removes the rest. Keys that came after the removal
// stay: they may be of a slot that comes back key by key.
func TestPromotedReplicaDropsLostSlots(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 1 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-9 16383\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 10-16382\n")
	if err != nil {
		t.Fatal(err)
	}
	out := newDropper(map[int]int{3: 1, 4: 1, 6: 1, 12: 1})
	s.out = out
	c := s.byID[idC]
	claimed := c.slots
	claimed.Add(3)
	claimed.Add(4)
	claimed.Add(5)
	claimed.Add(6)
	c.Epoch = 4
	s.claims(c, 4, &claimed)
	s.Finish()
	out.keys[4], out.marked[4] = 0, false
	s.Tick()
	s.Finish()
	out.keys[4], out.keys[5] = 1, 1
	if len(out.dropped) != 0 {
		t.Fatalf("a replica drops %v", out.dropped)
	}
	s.byID[idB].Flags |= bus.Failed // otherwise the removal waits until it knows the loss
	if err := s.Failover(true, true); err != nil {
		t.Fatal(err)
	}
	s.Finish()
	out.marked[6] = false // its keys go, and others come, with the rest of the stream
	s.Promoted()
	s.Finish()
	if !slices.Equal(out.dropped, []uint16{3}) {
		t.Errorf("the new primary drops %v, want 3", out.dropped)
	}
}

// offsets is an outside with an offset and an age of the data.
type offsets struct {
	recorder
	mine, age  int64
	loaded     int64
	log, whole bool

	withheld, same bool  // the core was told so
	to             int64 // the offset of Lead
}

func (o *offsets) Loaded() (int64, bool, bool) { return o.loaded, o.log, o.whole }

func (o *offsets) Ask(e Errand) {
	switch e.Kind {
	case Withhold:
		o.withheld = true
	case Lead:
		o.to = e.Offset
	case Follow:
		o.same = e.Same
	}
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

// startedPrimary returns a primary with two replicas that has started with what o says.
func startedPrimary(t *testing.T, acks int64, o *offsets) *State {
	t.Helper()
	s := New(o, Terms{MinAcks: acks, NodeTimeout: 1000}, 1_700_000_000_000, rand.New(rand.NewPCG(1, 2)))
	err := s.Load("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 2 connected 0-16383\n" +
		idB + " 127.0.0.1:7001@17001 slave " + idA + " 0 0 2 connected\n" +
		idC + " 127.0.0.1:7002@17002 slave " + idA + " 0 0 2 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPrimaryIsProven (state.Q4 to state.Q6): when a primary that has started serves, by what it has loaded and what
// its replicas say. An offset of -1 means that the replica was not heard.
func TestPrimaryIsProven(t *testing.T) {
	const never = 1 << 40
	for _, c := range []struct {
		name         string
		acks         int64
		loaded       int64
		log, whole   bool
		first, other int64
		noFailover   bool
		after        int64 // ms until it leads; never: it does not within ten minutes
		to           int64 // offset at which its stream continues; 0: where it is
		resigns      bool
	}{
		{"all have no more", 1, 700, false, false, 700, 500, false, 0, 0, false},
		{"all have no more than a log", 1, 700, true, true, 700, 500, false, writableDelay, 700 + leap, false},
		{"one was not heard, one need be", 2, 700, false, false, 700, -1, false, writableDelay, 700 + leap, false},
		{"one was not heard, both must be", 1, 700, false, false, 700, -1, false, never, 0, false},
		{"one has more", 2, 700, false, false, 700, 701, false, never, 0, true},
		{"one has more, after a good end", 1, 700, true, true, -1, 701, false, never, 0, true},
		{"good end", 1, 700, true, true, -1, -1, false, writableDelay, 700 + leap, false},
		{"no data", 2, 0, false, false, 700, 700, false, never, 0, true},
		{"no data, and none is heard", 1, 0, false, false, -1, -1, false, never, 0, false},
		{"a log without its end", 2, 0, true, false, 700, 700, false, 30_000, 700 + leap, true},
		{"all have started", 1, 700, false, false, 0, 0, false, writableDelay, 700 + leap, false},
		{"one has started", 1, 700, false, false, 0, 500, false, 30_000, 700 + leap, false},
		{"none that has more may take over", 2, 0, false, false, 700, 700, true, 30_000, 700 + leap, false},
		{"min-replicas-to-ack 0", 0, 0, false, false, 700, 700, false, 0, 0, false},
		{"nothing could be confirmed", 3, 0, false, false, -1, -1, false, writableDelay, leap, false},
	} {
		o := &offsets{loaded: c.loaded, log: c.log, whole: c.whole}
		s := startedPrimary(t, c.acks, o)
		for id, offset := range map[string]int64{idB: c.first, idC: c.other} {
			if n := s.Lookup(id); offset >= 0 {
				n.Offset, n.dataReceived = offset, s.now
				if c.noFailover {
					n.Flags |= bus.NoFailover
				}
			}
		}
		began, after := s.now, int64(never)
		for after == never && s.now-began < 600_000 {
			s.Tick()
			s.Finish()
			if s.leading || c.acks == 0 {
				after = s.now - began
			}
			s.At(s.now + TickMs)
		}
		if after != c.after || o.to != c.to || s.resignedMs != 0 != c.resigns {
			t.Errorf("%s: it leads after %d ms at %d, and resigns: %t; not after %d at %d, %t", c.name, after, o.to,
				s.resignedMs != 0, c.after, c.to, c.resigns)
		}
		if withheld := c.acks > 0; o.withheld != withheld {
			t.Errorf("%s: replicas get no data: %t", c.name, o.withheld)
		}
		if s.Led(); s.restarted {
			t.Errorf("%s: it does not lead after the errand", c.name)
		}
	}
}

// TestResignedPrimary (state.Q5): nodes believe a primary that says that it has failed, as long as it repeats it. It
// votes for its replica itself.
func TestResignedPrimary(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-5460\n")
	if err != nil {
		t.Fatal(err)
	}
	p := s.Lookup(idB)
	for range 100 {
		s.hearFailed(p, &bus.Message{Type: bus.Fail, Sender: idB, About: idB})
		s.undoFailed(p) // it answers
		if !p.is(bus.Failed) {
			t.Fatal("the node no longer believes it")
		}
		s.At(s.now + resignEvery)
	}
	o := &offsets{loaded: 700}
	s = startedPrimary(t, 2, o)
	replica := s.Lookup(idB)
	replica.Offset, replica.dataReceived = 900, s.now
	m := &bus.Message{Type: bus.VoteRequest, CurrentEpoch: s.current, ConfigEpoch: 2, Slots: &s.me.slots}
	if s.considerVote(replica, m); s.voted != s.current {
		t.Error("a primary that may lack data does not vote for its replica")
	}
	s = startedPrimary(t, 2, o)
	s.Led()
	if s.considerVote(s.Lookup(idB), m); s.voted == s.current {
		t.Error("a primary that serves votes for its replica")
	}
}

// TestFollowAtAnotherAddress: when the primary has another address, the core learns that it is the same server.
func TestFollowAtAnotherAddress(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-5460\n")
	if err != nil {
		t.Fatal(err)
	}
	o := &offsets{}
	s.out = o
	s.Followed()
	if !s.updateAddress(s.Lookup(idB), &Link{}, &bus.Message{IP: "127.0.0.9", Port: 7001, BusPort: 17001}) || !o.same {
		t.Errorf("the core is told to follow another server: %+v", o)
	}
}

// TestMigrationSparesWhatOthersLack: a replica does not move to an orphaned primary while others lack what it has.
func TestMigrationSparesWhatOthersLack(t *testing.T) {
	const idD = "aa2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
	for _, c := range []struct {
		acks, other int64
		moves       bool
	}{{0, 0, true}, {1, 699, false}, {1, 700, true}, {2, 700, false}} {
		s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
			idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
			idC + " 127.0.0.1:7002@17002 slave " + idB + " 0 0 2 connected\n" +
			idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-5460\n" +
			idD + " 127.0.0.1:7003@17003 master - 0 0 3 connected 5461-16383\n")
		if err != nil {
			t.Fatal(err)
		}
		s.out = &offsets{mine: 700}
		s.Terms.MinAcks, s.Terms.MigrationBarrier, s.ok = c.acks, 1, true
		s.Lookup(idC).Offset = c.other
		orphan := s.Lookup(idD)
		orphan.Flags |= bus.MigrateTo
		for range 2 {
			s.migrate(2)
			s.At(s.now + 2*migrationDelay)
		}
		if moves := s.me.Primary == orphan; moves != c.moves {
			t.Errorf("%+v: it moves: %t", c, moves)
		}
	}
}

// TestVoteOutlivesAStart: a node that has voted in an epoch does not vote in it again after a start.
func TestVoteOutlivesAStart(t *testing.T) {
	const idD = "aa2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460\n" +
		idB + " 127.0.0.1:7001@17001 master,fail - 0 0 2 connected 5461-16383\n" +
		idC + " 127.0.0.1:7002@17002 slave " + idB + " 0 0 2 connected\n" +
		idD + " 127.0.0.1:7003@17003 slave " + idB + " 0 0 2 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	votes := func(s *State, id string) bool {
		before := s.Critical()
		s.considerVote(s.Lookup(id), &bus.Message{Type: bus.VoteRequest, CurrentEpoch: s.current, ConfigEpoch: 2,
			Slots: &s.Lookup(idB).slots})
		return s.Critical() > before
	}
	if !votes(s, idC) {
		t.Fatal("it does not vote")
	}
	again, err := loaded(string(s.Describe()))
	if err != nil {
		t.Fatal(err)
	}
	if votes(again, idD) {
		t.Error("it votes twice in an epoch")
	}
	if again.voted = 0; !votes(again, idD) {
		t.Error("without the note of its vote it does not vote either")
	}
}

// TestPrimaryFollowsAnother: a replica hears that its primary follows the new primary, before it hears the new
// primary's claim. It follows the new primary too.
func TestPrimaryFollowsAnother(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\n" +
		idC + " 127.0.0.1:7002@17002 slave " + idB + " 0 0 2 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	b, c := s.byID[idB], s.byID[idC]
	all := b.slots
	for _, m := range []*bus.Message{
		{Type: bus.Ping, Sender: idB, Flags: bus.Replica, Primary: idC, CurrentEpoch: 7, ConfigEpoch: 7, Slots: &all},
		{Type: bus.Ping, Sender: idC, Flags: bus.Primary, CurrentEpoch: 7, ConfigEpoch: 7, Slots: &all},
	} {
		s.Receive(&Link{Node: s.byID[m.Sender], Inbound: true, ready: true}, m)
		s.Finish()
	}
	if s.me.Primary != c || c.NumSlots != 16384 {
		t.Errorf("the primary is %s, and the new primary has %d slots", s.me.Primary.ID, c.NumSlots)
	}
}

// TestFailoverAfterALostElection: an election has expired without enough votes. The next one would begin only later. An
// operator's failover does not wait for it: it would time out before.
func TestFailoverAfterALostElection(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master,fail - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 5461-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Terms.NodeTimeout = 15_000
	s.electionMs, s.electionEpoch, s.asked = s.now-40_000, 6, true
	if err := s.Failover(true, false); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		s.At(s.now + TickMs)
		s.Tick()
		s.Finish()
	}
	if s.current != 7 || s.electionEpoch != 7 || !s.asked {
		t.Errorf("the election of epoch %d was asked for votes: %t; the epoch is %d", s.electionEpoch, s.asked, s.current)
	}
}

// TestLateAsk: a replica has planned an election, and stands still before it asks for votes. The votes count from then.
func TestLateAsk(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master,fail - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 5461-10999\n" +
		idD + " 127.0.0.1:7003@17003 master - 0 0 4 connected 11000-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Terms.NodeTimeout, s.Terms.ValidityFactor = 15_000, 0
	b := s.byID[idB]
	b.Flags |= bus.Failed
	s.updateState()
	s.tryFailover() // plans
	s.At(s.electionMs + 6000)
	s.tryFailover()
	if !s.asked {
		t.Fatal("it has not asked")
	}
	for _, id := range []string{idC, idD} {
		n := s.byID[id]
		s.Receive(s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }),
			&bus.Message{Type: bus.Vote, Sender: id, CurrentEpoch: s.electionEpoch, ConfigEpoch: n.Epoch, Flags: bus.Primary,
				Slots: &n.slots, Port: n.Port, BusPort: n.BusPort, IP: n.IP})
	}
	s.Finish()
	if !s.me.isPrimary() {
		t.Errorf("it has %d of %d votes, and is not elected", s.votes, s.quorum())
	}
}
