package state

import (
	"testing"

	"spindle/cluster/bus"
)

// reclaiming returns a node A that reclaims slot 5461 in a cluster of five primaries. C and D are connected, and an
// answer to an earlier ping is on its way from each. ended counts the calls of done.
func reclaiming(t *testing.T) (s *State, c, d *Node, ended *int) {
	t.Helper()
	s, err := loaded(fiveFile("5461-10999"))
	if err != nil {
		t.Fatal(err)
	}
	out := &taker{dropper: newDropper(nil)}
	s.out = out
	s.Terms.NodeTimeout = 1_000_000 // no link is given up
	s.Tick()                        // it counts the primaries
	s.Finish()
	c, d = s.byID[idC], s.byID["aa2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"]
	for _, n := range []*Node{c, d} {
		n.Link = &Link{Node: n, ready: true}
		s.ping(n.Link, bus.Ping)
	}
	s.Reclaim([]uint16{5461}, func() { out.decided++ })
	s.Finish()
	return s, c, d, &out.decided
}

// waits lets ticks pass.
func waits(s *State, ticks int) {
	for range ticks {
		tick(s, TickMs)
	}
}

// TestReclaimAsksTwice (state.T5): a node takes its greater epoch after a majority has answered two pings. The second
// ping comes some time after the answers to the first one. Answers to earlier pings do not count.
func TestReclaimAsksTwice(t *testing.T) {
	s, c, d, ended := reclaiming(t)
	const epoch = 6 + reclaimBy
	step := func(when string, end bool) {
		t.Helper()
		if s.Finish(); (*ended == 1) != end || (s.me.Epoch == epoch) != end {
			t.Fatalf("%s: it has ended %d times, and the epoch is %d", when, *ended, s.me.Epoch)
		}
	}
	both := func() {
		answers(s, c)
		answers(s, d)
	}
	if s.current != epoch || s.message(bus.Ping).CurrentEpoch != epoch {
		t.Fatalf("the pings tell epoch %d", s.current)
	}
	wait := int(s.voting()/TickMs) + 2
	waits(s, wait)
	both()
	step("the answers to earlier pings", false)
	both()
	step("the first answers", false)
	waits(s, wait-1)
	second := c.pinged
	step("the time before the second pings", false)
	if s.Claim([]uint16{0}, idB, 2, s.now, func() {}) {
		t.Error("the node claims other slots meanwhile")
	}
	if waits(s, 1); c.pinged == second {
		t.Fatal("the second ping has not been sent")
	}
	step("the second pings", false)
	for c.ponged < c.claimPing {
		answers(s, c)
	}
	step("one more answer", false)
	for d.ponged < d.claimPing {
		answers(s, d)
	}
	step("a majority has answered again", false)
	if s.owners[5461] != s.me {
		t.Error("the slot is lost")
	}
	waits(s, 2)
	step("two ticks later", true)
}

// TestReclaimReadsTheNews (state.T5): a node stands still while it waits, or hears of a new owner after the second
// answers. It loses the slots.
func TestReclaimReadsTheNews(t *testing.T) {
	for name, wait := range map[string]func(s *State){
		"it stands still":                  func(s *State) { tick(s, 60_000) },
		"the news come after both answers": func(s *State) { waits(s, int(s.voting()/TickMs)+2) },
	} {
		s, c, d, ended := reclaiming(t)
		for range 2 {
			answers(s, c)
			answers(s, d)
		}
		wait(s)
		for _, n := range []*Node{c, d} {
			for n.ponged < n.pinged {
				answers(s, n)
			}
		}
		if *ended != 0 {
			t.Errorf("%s: it has ended before the news", name)
		}
		if hears(s, s.byID[idB], 7, "0-10999"); *ended != 1 || s.owners[5461] == s.me {
			t.Errorf("%s: it has ended %d times, and the slot is its own: %t", name, *ended, s.owners[5461] == s.me)
		}
	}
}

// TestReclaimWaitsForAClaim (state.T5): a node has claimed another slot, and the claim is not decided. It does not get
// a greater epoch, which would beat a former owner that has kept the slot.
func TestReclaimWaitsForAClaim(t *testing.T) {
	s, c, d, ended := reclaiming(t)
	s.reclaims = nil
	if !s.Claim([]uint16{0}, idB, 2, s.now, func() {}) {
		t.Fatal("no claim")
	}
	was := s.me.Epoch
	s.Reclaim([]uint16{5461}, func() {})
	for range 3 {
		for _, n := range []*Node{c, d} {
			for n.ponged < n.pinged {
				answers(s, n)
			}
		}
		waits(s, int(s.voting()/TickMs)+2)
	}
	if !s.unsure(0) || s.me.Epoch != was || *ended != 0 {
		t.Errorf("the claim is undecided: %t; its epoch was %d, and is %d", s.unsure(0), was, s.me.Epoch)
	}
}

// TestPromiseIsOnDisk (state.T5): a voter that starts again votes for no lower epoch than before.
func TestPromiseIsOnDisk(t *testing.T) {
	s, err := loaded(fiveFile("5461-10999"))
	if err != nil {
		t.Fatal(err)
	}
	s.Finish()
	before := s.critical
	s.learn(s.byID[idB], &bus.Message{Type: bus.Ping, CurrentEpoch: 6 + reclaimBy, ConfigEpoch: 2})
	save := s.Finish()
	if save == nil || !save.Sync || s.critical == before {
		t.Fatalf("the greater epoch is not on disk before the answer: %+v", save)
	}
	if again, err := loaded(string(save.Text)); err != nil || again.current != 6+reclaimBy {
		t.Errorf("after a start the voter knows epoch %d, %v", again.current, err)
	}
}

// TestReclaimEndsWithTheSlots (state.T5): while a node waits, it hears of a new owner of its slots.
func TestReclaimEndsWithTheSlots(t *testing.T) {
	for name, ranges := range map[string]string{"all slots": "0-10999", "a slot of the move": "0-5461"} {
		s, c, d, ended := reclaiming(t)
		for range 2 {
			answers(s, c)
			answers(s, d)
		}
		if hears(s, s.byID[idB], 7, ranges); *ended != 1 || len(s.reclaims) != 0 || s.me.Epoch != 1 {
			t.Errorf("%s: it has ended %d times, and the epoch is %d", name, *ended, s.me.Epoch)
		}
	}
}

// TestReclaimWaitsForAnElection (state.T5): a replica of this node has asked for votes. Until its election is over, the
// epoch stays.
func TestReclaimWaitsForAnElection(t *testing.T) {
	s, c, d, ended := reclaiming(t)
	s.rivalMs = s.now + 4*s.voting()
	for range 8 {
		if *ended != 0 && s.now < s.rivalMs {
			t.Fatal("the epoch is raised during the election")
		}
		for _, n := range []*Node{c, d} {
			for n.ponged < n.pinged {
				answers(s, n)
			}
		}
		waits(s, int(s.voting()/TickMs)+2)
	}
	if *ended != 1 {
		t.Error("the epoch is not raised after the election")
	}
}

// TestNoVoteBelowAReclaim (state.T5): a voter has answered the ping of a reclaim. It gives no vote to a replica that
// asks with a lower epoch.
func TestNoVoteBelowAReclaim(t *testing.T) {
	const idR = "cc2f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
	for _, hasHeard := range []bool{false, true} {
		s, err := loaded(fiveFile("5461-10999") + idR + " 127.0.0.1:7006@17006 slave " + idB + " 0 0 2 connected\n")
		if err != nil {
			t.Fatal(err)
		}
		b := s.byID[idB]
		b.Flags |= bus.Failed
		epoch := uint64(7)
		if hasHeard {
			s.learn(b, &bus.Message{Type: bus.Ping, CurrentEpoch: 6 + reclaimBy, ConfigEpoch: 2})
		}
		s.current = max(s.current, epoch)
		s.considerVote(s.Lookup(idR), &bus.Message{Type: bus.VoteRequest, CurrentEpoch: epoch, ConfigEpoch: 2,
			Slots: slotsOf("0-5460")})
		if (s.voted == epoch) == hasHeard {
			t.Errorf("heard %t: it has voted in epoch %d", hasHeard, s.voted)
		}
	}
}
