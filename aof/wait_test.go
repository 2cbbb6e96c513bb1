package aof

import "testing"

// TestRewriteConfirms: with appendfsync no, the writes that a rewrite confirms to WAITAOF are on disk. A rewrite
// confirms the writes before its cut. The first rewrite after the log was switched on also confirms the writes until
// its end.
func TestRewriteConfirms(t *testing.T) {
	t.Run("switched on", func(t *testing.T) {
		s, d := begin(t, Never)
		s.Do(s.aof.TurnOff)
		s.waitFor("the log to be off", func() bool { return s.aof.state == off && s.resting() })
		s.step(1)
		s.Do(func() {
			if err := s.aof.TurnOn(); err != nil {
				t.Fatal(err)
			}
		})
		s.step(2)
		s.waitFor("the first rewrite", func() bool { return s.aof.state == on })
		promised := 1 // the rewrite may have ended before step 2
		s.Do(func() {
			if s.aof.Synced(s.cl) {
				promised = 2
			}
		})
		if n := again(t, d.Crash()); n < promised {
			t.Errorf("%d steps of %d after a power cut", n, promised)
		}
	})
	t.Run("log that is on", func(t *testing.T) {
		s, d := begin(t, Never)
		s.step(1)
		s.Do(func() {
			if s.aof.Synced(s.cl) {
				t.Error("a write without a sync is confirmed")
			}
			s.aof.startRewrite()
		})
		s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
		s.Do(func() {
			if !s.aof.Synced(s.cl) {
				t.Error("a write before the cut is not confirmed")
			}
		})
		s.step(2)
		s.Do(func() {
			if s.aof.Synced(s.cl) {
				t.Error("a write after the cut is confirmed")
			}
		})
		if n := again(t, d.Crash()); n < 1 {
			t.Errorf("%d steps after a power cut", n)
		}
	})
}
