package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/cluster/bus"
)

// A taker notes whether a claim is decided.
type taker struct {
	*dropper
	decided int
}

func (o *taker) Ask(e Errand) {
	if e.Kind == Taken {
		e.Done()
	}
	o.dropper.Ask(e)
}

// TestClaim (state.T1, state.T2): this node claims slots 0 to 9 of B, and C has heard it. The claim stands when B does
// not claim them any more, and falls when another node claims them with at least the same epoch.
func TestClaim(t *testing.T) {
	const own, less = "0-5460", "10-5460" // B's slots before and after
	for _, c := range []struct {
		name    string
		event   func(s *State, b, c *Node)
		decided bool
		mine    bool
	}{
		{"nothing happens", func(*State, *Node, *Node) {}, false, true},
		{"B has not heard of it", func(s *State, b, _ *Node) { hears(s, b, 2, own) }, false, true},
		{"B accepts", func(s *State, b, _ *Node) { hears(s, b, 2, less) }, true, true},
		{"B has given up", func(s *State, b, _ *Node) { hears(s, b, 23, own) }, true, false},
		{"C claims with a lower epoch", func(s *State, _, c *Node) { hears(s, c, 6, "0-10 11000-16383") }, false, true},
		{"C claims with the same epoch", func(s *State, _, c *Node) { hears(s, c, 7, "0-10 11000-16383") }, true, false},
		{"B fails", func(s *State, b, _ *Node) { b.Flags, b.failedMs = b.Flags|bus.Failed, s.now }, false, true},
		{"B has failed long ago", func(s *State, b, _ *Node) {
			b.Flags, b.failedMs = b.Flags|bus.Failed, s.now-maxRejoinDelay
		}, true, true},
		{"B is forgotten", func(s *State, b, _ *Node) {
			if err := s.Forget(b.ID); err != nil {
				t.Error(err)
			}
		}, true, true},
		{"an operator takes a slot", func(s *State, b, _ *Node) {
			if err := s.Bind(3, b.ID); err != nil {
				t.Error(err)
			}
		}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
				idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 5461-10999\n" +
				idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected " + own + "\n" +
				idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 11000-16383\n")
			if err != nil {
				t.Fatal(err)
			}
			out := &taker{dropper: newDropper(nil)}
			s.out = out
			list := []uint16{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
			done := func() { out.decided++ }
			if s.Claim(list, idB, 3, s.now, done) || s.Claim(list, idC, 3, s.now, done) ||
				s.Claim(list, "none", 0, s.now, done) || s.Claim(list, idB, 2, s.now-1, done) {
				t.Fatal("slots of another owner, with another epoch, or too late were claimed")
			}
			s.byID[idC].Link = &Link{Node: s.byID[idC], ready: true}
			if !s.Claim(list, idB, 2, s.now, done) {
				t.Fatal("the claim was refused")
			}
			s.Finish()
			answers(s, s.byID[idC])
			c.event(s, s.byID[idB], s.byID[idC])
			s.Tick()
			s.Finish()
			if (out.decided == 1) != c.decided || out.decided > 1 {
				t.Errorf("the claim was decided %d times", out.decided)
			}
			if mine := s.owners[3] == s.me; mine != c.mine {
				t.Errorf("slot 3 is this node's: %t", mine)
			}
		})
	}
}

// TestNoClaimDuringAnElection (state.T4): a replica of this node asks for votes. Until its election is over, a claim
// would have a greater epoch than the replica, and this node would keep all slots. A replica of another node does not
// matter.
func TestNoClaimDuringAnElection(t *testing.T) {
	const idR = "aa2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
	for _, c := range []struct {
		name, primary string
		after         int64
		claims        bool
	}{
		{"at once", idA, 0, false},
		{"just before the end", idA, fresh().expiry() - 1, false},
		{"after the end", idA, fresh().expiry(), true},
		{"a replica of another node", idC, 0, true},
		{"the old primary, which has not said yet that it is a replica", "", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
				idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 5461-10999\n" +
				idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-5460\n" +
				idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 11000-16383\n" +
				idR + " 127.0.0.1:7003@17003 slave " + cmp.Or(c.primary, "-") + " 0 0 1 connected\n")
			if err != nil {
				t.Fatal(err)
			}
			if r := s.Lookup(idR); r.Primary == nil {
				r.Flags, r.ShardID = r.Flags&^bus.Replica|bus.Primary, s.me.ShardID
			}
			// The vote may be denied: others may have a different view.
			s.considerVote(s.Lookup(idR), &bus.Message{Type: bus.VoteRequest, CurrentEpoch: 5, Slots: &bus.Bitmap{}})
			s.At(s.now + c.after)
			if claims := s.Claim([]uint16{0}, idB, 2, s.now, func() {}); claims != c.claims {
				t.Errorf("the claim was made: %t", claims)
			}
		})
	}
}

// TestNoClaimDuringAManualFailover (state.T4): this node holds its writes, because a replica takes over. The replica
// may have asked for votes already. A claim now could have the same epoch.
func TestNoClaimDuringAManualFailover(t *testing.T) {
	s, r := withReplica(t)
	s.startHolding(r.Link, r)
	if s.Claim([]uint16{0}, idB, 2, s.now, func() {}) {
		t.Error("the claim was made while a replica takes over")
	}
	s.At(s.manualEnd + 1)
	s.Tick()
	if !s.Claim([]uint16{0}, idB, 2, s.now, func() {}) {
		t.Error("the claim was refused after the end of the failover")
	}
}

// TestCollisionWaitsForAnElection (state.T4): this node has the epoch of another primary, while its replica takes over
// or has asked for votes. A greater epoch would beat the replica. So it comes afterwards.
func TestCollisionWaitsForAnElection(t *testing.T) {
	for name, begin := range map[string]func(s *State, r *Node){
		"takes over": func(s *State, r *Node) { s.startHolding(r.Link, r) },
		"asks for votes": func(s *State, r *Node) {
			s.considerVote(r, &bus.Message{Type: bus.VoteRequest, CurrentEpoch: 5, Slots: &bus.Bitmap{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := withReplica(t)
			s.me.Epoch = 3
			begin(s, r)
			collides := func() { hears(s, s.byID[idC], 3, "11000-16383") }
			if collides(); s.me.Epoch != 3 {
				t.Fatalf("the epoch is %d during the election", s.me.Epoch)
			}
			s.At(max(s.manualEnd, s.rivalMs) + 1)
			s.Tick()
			if collides(); s.me.Epoch == 3 {
				t.Error("the epochs are equal after the election")
			}
		})
	}
}

// withReplica returns node A, the target of a move from B, with a replica D.
func withReplica(t *testing.T) (s *State, r *Node) {
	t.Helper()
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 5461-10999\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 11000-16383\n" +
		idD + " 127.0.0.1:7003@17003 slave " + idA + " 0 0 1 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Terms.ManualTimeout = 5000
	return s, s.byID[idD]
}

// TestElectionWithTheEpochOfAClaim (state.T6): this node has claimed slot 0 with epoch 7. Its replica D was elected
// with epoch 7, and gets all slots that it claims, also after the claim stands. A lower epoch or another node gets
// none.
func TestElectionWithTheEpochOfAClaim(t *testing.T) {
	const own = "5461-10999"
	for _, c := range []struct {
		name, id, ranges string
		epoch            uint64
		stands           bool   // the claim does
		old              bool   // D is the old primary, and has not said yet that it is a replica
		own, moved       string // the owners of slots 5461 and 0 afterwards
	}{
		{"the replica", idD, own, 7, false, false, idD, idA},
		{"the claim stands", idD, own, 7, true, false, idD, idA},
		{"the old primary", idD, own, 7, false, true, idD, idA},
		{"the replica knows the claim", idD, "0 " + own, 7, true, false, idD, idD},
		{"an election with a lower epoch", idD, own, 6, false, false, idA, idA},
		{"another primary", idC, own + " 11000-16383", 7, false, false, idA, idA},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r := withReplica(t)
			if c.old {
				s.me.removeReplica(r)
				r.Flags, r.Primary, r.ShardID = r.Flags&^bus.Replica|bus.Primary, nil, s.me.ShardID
			}
			if !s.Claim([]uint16{0}, idB, 2, s.now, func() {}) {
				t.Fatal("the claim was refused")
			}
			if s.Finish(); c.stands {
				s.byID[idC].claimPing, s.byID[idC].ponged = 1, 1
				if hears(s, s.byID[idB], 2, "1-5460"); s.unsure(0) {
					t.Fatal("the claim does not stand")
				}
			}
			hears(s, s.byID[c.id], c.epoch, c.ranges)
			if got := s.owners[5461].ID; got != c.own {
				t.Errorf("slot 5461 belongs to %s", got)
			}
			if got := s.owners[0].ID; got != c.moved {
				t.Errorf("slot 0 belongs to %s", got)
			}
		})
	}
}

// TestClaimHasNewEpoch (state.T3): the epoch of this node is the greatest already. A replica that has not heard
// of the claim knows that epoch. So the claim needs a greater one: otherwise voters would not deny the replica.
func TestClaimHasNewEpoch(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 6 connected 5461-10999\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 11000-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	if !s.Claim([]uint16{0}, idB, 2, s.now, func() {}) {
		t.Fatal("the claim was refused")
	}
	if s.me.Epoch != 7 || s.current != 7 {
		t.Errorf("the claim has epoch %d of %d", s.me.Epoch, s.current)
	}
}

// TestReclaimBeatsLaterClaims: a former owner that has not heard of a claim raises its epoch, and serves clients again.
// It wins, though the new owner has claimed other slots meanwhile, each time with a new epoch.
func TestReclaimBeatsLaterClaims(t *testing.T) {
	const file = "vars currentEpoch 3 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 %smaster - 0 0 1 connected 5461-10999\n" +
		idB + " 127.0.0.1:7001@17001 %smaster - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 11000-16383\n"
	s, err := loaded(fmt.Sprintf(file, "myself,", ""))
	if err != nil {
		t.Fatal(err)
	}
	former, err := loaded(fmt.Sprintf(file, "", "myself,"))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Claim([]uint16{0}, idB, 2, s.now, func() {}) {
		t.Fatal("the claim was refused")
	}
	for slot := range uint16(1000) {
		if !s.Claim([]uint16{11000 + slot}, idC, 3, s.now, func() {}) {
			t.Fatal("a later claim was refused")
		}
	}
	former.out = &taker{dropper: newDropper(nil)}
	c := former.byID[idC]
	c.Link = &Link{Node: c, ready: true}
	former.Reclaim([]uint16{0}, func() {})
	former.Terms.NodeTimeout = 1_000_000 // no link is given up
	for range 3 {
		for c.ponged < c.pinged {
			answers(former, c)
		}
		waits(former, int(former.voting()/TickMs)+2)
	}
	b := s.byID[idB]
	if hears(s, b, former.me.Epoch, "0-5460"); s.owners[0] != b {
		t.Errorf("epoch %d has not won against %d", former.me.Epoch, s.me.Epoch)
	}
}

// answers has a node answer a ping.
func answers(s *State, n *Node) {
	m := &bus.Message{Type: bus.Pong, Sender: n.ID, CurrentEpoch: n.Epoch, ConfigEpoch: n.Epoch, Flags: bus.Primary,
		Slots: &n.slots, Port: n.Port, BusPort: n.BusPort, IP: n.IP}
	s.Receive(n.Link, m)
	s.Finish()
}

// fiveFile is of a node A, the target of a move from B. The others are primaries too.
func fiveFile(mine string) string {
	ids := []string{idA, idB, idC, "aa2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f", "bb2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"}
	var b strings.Builder
	for i, words := range []string{"master - 0 0 1 connected " + mine, "master - 0 0 2 connected 0-5460",
		"master - 0 0 3 connected 11000-12000", "master - 0 0 4 connected 12001-13000",
		"master - 0 0 5 connected 13001-16383"} {
		myself := ""
		if i == 0 {
			myself = "myself,"
		}
		fmt.Fprintf(&b, "%s 127.0.0.1:700%d@1700%d %s%s\n", ids[i], i, i, myself, words)
	}
	return b.String() + "vars currentEpoch 6 lastVoteEpoch 0\n"
}

// TestClaimIsHeardByAMajority (state.T3): B has accepted a claim. It stands when three of the five primaries know of
// it: this node, B, and one that has answered the ping which told it. Answers to earlier pings do not count. After a
// link has broken, the next one tells it again.
func TestClaimIsHeardByAMajority(t *testing.T) {
	s, err := loaded(fiveFile("5461-10999"))
	if err != nil {
		t.Fatal(err)
	}
	out := &taker{dropper: newDropper(nil)}
	s.out = out
	c := s.byID[idC]
	c.Link = &Link{Node: c, ready: true}
	s.ping(c.Link, bus.Ping)
	if !s.Claim([]uint16{0, 1, 2}, idB, 2, s.now, func() { out.decided++ }) {
		t.Fatal("the claim was refused")
	}
	s.Finish()
	decided := func(when string, want int) {
		t.Helper()
		s.Tick()
		if s.Finish(); out.decided != want {
			t.Fatalf("%s: the claim was decided %d times", when, out.decided)
		}
	}
	hears(s, s.byID[idB], 2, "3-5460")
	decided("B has accepted", 0)
	answers(s, c)
	decided("C has answered the ping of before", 0)
	s.hangUp(c.Link)
	c.Link = &Link{Node: c}
	s.Connected(c.Link)
	decided("the link is new", 0)
	answers(s, c)
	decided("C has answered the first ping of the link", 0)
	answers(s, c)
	decided("C has answered the ping that told it", 1)
}

// TestReplicaHearsOfAClaim: a primary without slots has taken some, and died before its replica heard of it. A node
// that knows tells the replica, which can then be elected.
func TestReplicaHearsOfAClaim(t *testing.T) {
	const others = idB + " 127.0.0.1:7001@17001 %smaster%s - 0 0 %d connected %s\n" +
		idC + " 127.0.0.1:7002@17002 %sslave " + idB + " 0 0 %d connected\n"
	knows, err := loaded("vars currentEpoch 7 lastVoteEpoch 0\n" + idA +
		" 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 10-16383\n" + fmt.Sprintf(others, "", "", 7, "0-9", "", 7))
	if err != nil {
		t.Fatal(err)
	}
	replica, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" + idA +
		" 127.0.0.1:7000@17000 master - 0 0 1 connected 0-16383\n" + fmt.Sprintf(others, "", ",fail", 2, "", "myself,", 2))
	if err != nil {
		t.Fatal(err)
	}
	out := &recorder{}
	knows.out = out
	r := knows.byID[idC]
	r.Link = &Link{Node: r, ready: true}
	beat := replica.message(bus.Ping)
	beat.Port, beat.BusPort = r.Port, r.BusPort // its settings have others
	knows.Receive(knows.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }), beat)
	knows.Finish()
	from := replica.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 })
	for _, p := range out.sent {
		m, err := bus.Parse(p)
		if err != nil {
			t.Fatal(err)
		}
		replica.Receive(from, m)
		replica.Finish()
	}
	if b := replica.byID[idB]; replica.owners[3] != b || b.Epoch != 7 {
		t.Errorf("after %d messages slot 3 belongs to %s, and the primary's epoch is %d", len(out.sent),
			replica.owners[3].ID, b.Epoch)
	}
	replica.Tick()
	if replica.Finish(); replica.electionMs == 0 {
		t.Error("the replica plans no election")
	}
}

// hears has this node receive a heartbeat of a primary.
func hears(s *State, n *Node, epoch uint64, ranges string) {
	m := &bus.Message{Type: bus.Ping, Sender: n.ID, CurrentEpoch: epoch, ConfigEpoch: epoch, Flags: bus.Primary,
		Slots: slotsOf(ranges), Port: n.Port, BusPort: n.BusPort, IP: n.IP}
	s.Receive(s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }), m)
	s.Finish()
}

// slotsOf returns the slots of ranges.
func slotsOf(ranges string) *bus.Bitmap {
	b := &bus.Bitmap{}
	for word := range strings.FieldsSeq(ranges) {
		first, last, _ := loadRange(word)
		for slot := first; slot <= last; slot++ {
			b.Add(slot)
		}
	}
	return b
}

// TestLostSlotsAtStart: another node takes slots from this node, which ends before it has removed their keys. At the
// next start it removes them. Keys of a slot that an operator brings back stay. Keys of other slots become importing.
func TestLostSlotsAtStart(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-10999\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 11000-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	hears(s, s.byID[idB], 7, "0-9 11000-16383")
	if err := s.Importing(5, idB); err != nil {
		t.Fatal(err)
	}
	text := string(s.Describe())
	if !strings.Contains(text, " lost-slots 0-4,6-9\n") {
		t.Fatalf("nodes.conf has no lost slots:\n%s", text)
	}
	if s, err = loaded(text); err != nil {
		t.Fatal(err)
	}
	out := newDropper(map[int]int{3: 1, 5: 1, 9: 1, 100: 1, 11001: 1})
	s.out = out
	s.Adopt()
	s.Finish()
	if !slices.Equal(out.dropped, []uint16{3, 9}) {
		t.Errorf("the keys of %v are removed", out.dropped)
	}
	if len(s.coming) != 2 || s.coming[5] == nil || s.coming[11001] == nil {
		t.Errorf("%d slots are importing", len(s.coming))
	}
	delete(out.keys, 3)
	if err := s.Bind(3, idA); err != nil {
		t.Fatal(err)
	}
	if text = string(s.Describe()); !strings.Contains(text, " lost-slots 0-2,4-4,6-9\n") {
		t.Errorf("slot 3 is back:\n%s", text)
	}
}

// TestOnlyVoterClaims: a node claims all slots of the only primary that had any. No other node has a vote then. So the
// claim does not stand before the former owner accepts it, or is forgotten.
func TestOnlyVoterClaims(t *testing.T) {
	s, err := loaded(idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\nvars currentEpoch 6 lastVoteEpoch 0\n")
	if err != nil {
		t.Fatal(err)
	}
	out := &taker{dropper: newDropper(nil)}
	s.out = out
	tick(s, TickMs)
	b := s.byID[idB]
	b.Link = &Link{Node: b, ready: true}
	s.ping(b.Link, bus.Ping)
	answers(s, b)
	list := make([]uint16, len(s.owners))
	for slot := range list {
		list[slot] = uint16(slot)
	}
	if !s.Claim(list, idB, 2, s.now, func() { out.decided++ }) {
		t.Fatal("no claim")
	}
	if waits(s, 600); out.decided != 0 {
		t.Errorf("the claim stands without an answer of any other node; size %d", s.size)
	}
	if err := s.Forget(idB); err != nil {
		t.Fatal(err)
	}
	if tick(s, TickMs); out.decided != 1 {
		t.Error("the claim does not stand though the former owner is forgotten")
	}
}

// TestRumourOfAnElection (state.T4): another node has told a greater epoch than that of any node. A replica of this
// node may be elected with it. This node claims nothing until a node has the epoch, or votes for it count no more.
func TestRumourOfAnElection(t *testing.T) {
	for name, ends := range map[string]func(s *State, c *Node){
		"another node has won": func(s *State, c *Node) { hears(s, c, 7, "11000-16383") },
		"a lost election":      func(s *State, _ *Node) { s.At(s.now + s.voting()) },
	} {
		s, _ := withReplica(t)
		c := s.byID[idC]
		s.learn(c, &bus.Message{Type: bus.Ping, CurrentEpoch: 7, ConfigEpoch: c.Epoch}) // C has voted in epoch 7
		claims := func() bool { return s.Claim([]uint16{0}, idB, 2, s.now, func() {}) }
		if claims() {
			t.Fatalf("%s: it claims a slot meanwhile", name)
		}
		if ends(s, c); !claims() {
			t.Errorf("%s: it claims nothing afterwards", name)
		}
	}
}

// TestRefusedFailoverIsOver: the core cannot hold writes for a failover now. The failover is over for the primary, so
// that it does not stop claims and reclaims.
func TestRefusedFailoverIsOver(t *testing.T) {
	s, r := withReplica(t)
	s.manualEnd, s.manualNode = s.now+60_000, r
	if s.NotPaused(); s.Contested() || s.ManualEnd() != 0 {
		t.Errorf("contested %t, until %d", s.Contested(), s.ManualEnd())
	}
}
