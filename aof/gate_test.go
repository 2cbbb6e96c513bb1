package aof

import (
	"testing"

	"spindle/engine/client"
	"spindle/tests/testkit/faulty"
)

// TestGateWhileATurnRuns: a turn's posts may not leave before all its effects are logged. Another loop may read this
// mail while the turn still runs.
func TestGateWhileATurnRuns(t *testing.T) {
	s, d := begin(t, Always)
	heard, held := uint64(0), false
	session, _ := s.Open(socket{told: func(turn uint64) { heard, held = turn, s.gate.Holds(turn) }})
	waiter := session.(*client.Client)
	s.doAs(waiter, "BLPOP", "l", "0")
	release := d.Stall(faulty.Sync)
	_, turn := s.do("RPUSH", "l", "x")
	if heard != turn || !held {
		t.Errorf("turn %d: the waiter's reply came in turn %d, held %t", turn, heard, held)
	}
	if !s.gate.Holds(turn) {
		t.Error("the turn may pass before the sync")
	}
	release()
	s.waitFor("the sync", func() bool { return !s.gate.Holds(turn) })
}

// TestGateAfterATurnWithoutEffects: the gate opens for a turn without effects when the turn is over. Loops that have
// looked too early are woken.
func TestGateAfterATurnWithoutEffects(t *testing.T) {
	s, _ := begin(t, Always)
	s.waitFor("the writer's sleep", s.resting)
	woken := 0
	s.gate.OnOpen(func() { woken++ })
	var turn uint64
	s.Do(func() {
		if turn = s.TurnNumber(); !s.gate.Holds(turn) {
			t.Error("the turn that runs may pass")
		}
	})
	if s.gate.Holds(turn) || woken == 0 {
		t.Errorf("the turn is held %t, loops were woken %d times", s.gate.Holds(turn), woken)
	}
}

// TestGateOpensWithThePolicy: after a change from always, or with the log off, nothing is held back.
func TestGateOpensWithThePolicy(t *testing.T) {
	for _, leave := range []func(s *server){
		func(s *server) { s.set.Fsync.Set(EverySecond) },
		func(s *server) { s.aof.TurnOff() },
	} {
		s, _ := begin(t, Always)
		s.step(1)
		s.Do(func() { leave(s) })
		s.waitFor("the gate", func() bool { return !s.gate.Holds(s.TurnNumber()) })
	}
}
