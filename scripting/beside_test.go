package scripting

import "testing"

// TestLateKillBeside: a request to end a run that comes after the run's end does not end the next run.
func TestLateKillBeside(t *testing.T) {
	s := &Scripts{}
	b := &s.beside
	b.begin(true, false)
	first := b.state.Load()
	b.end()
	b.begin(true, false)
	b.asked.Store(first) // KillBeside has read the state before the first run's end
	if b.mustEnd() {
		t.Error("the second run ends")
	}
	if err := s.KillBeside(true); err != nil || !b.mustEnd() {
		t.Errorf("the second run does not end: %v", err)
	}
}
