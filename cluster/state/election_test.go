package state

import (
	"testing"

	"spindle/cluster/bus"
)

// TestLateVotesDoNotCount: a vote from the last election that comes before the next election does not count in it.
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
