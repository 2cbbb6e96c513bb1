package gnet

import "testing"

// A loop whose iterations have few events serves each event at once, except probes. After a probe that found many
// events it gathers, until a probe finds few (gnet.G3).
func TestGather(t *testing.T) {
	var g Gather
	iteration := func(events int) (atOnce int) {
		rung := false
		for range events {
			switch {
			case rung:
				g.Wait()
			case g.TurnNow(false):
				atOnce++
			default:
				rung = true
			}
		}
		if rung {
			g.Heard()
		}
		return atOnce
	}
	for _, step := range []struct{ iterations, events, atOnce int }{
		{probeEvery - 1, 1, probeEvery - 1}, // few events: each at once
		{1, gatherFrom - 1, 0},              // a probe that meets too few
		{1, gatherFrom, gatherFrom},         // as before
		{(probeEvery - 1 - gatherFrom) / 3, 3, (probeEvery - 1 - gatherFrom) / 3 * 3},
	} {
		got := 0
		for range step.iterations {
			got += iteration(step.events)
		}
		if got != step.atOnce {
			t.Fatalf("%d iterations of %d events: %d turns at once, want %d", step.iterations, step.events, got, step.atOnce)
		}
	}
	const many = 8 * gatherFrom
	for iteration(many) > many-gatherFrom { // until enough events follow a probe
	}
	for range 1000 {
		if n := iteration(gatherFrom); n != 0 {
			t.Fatalf("%d events at once while the loop gathers", n)
		}
	}
	iteration(gatherFrom - 1)
	if n := iteration(2); n != 2 {
		t.Errorf("%d of 2 events at once after an iteration of few", n)
	}
	alone := Gather{}
	for i := range 10 * probeEvery {
		if !alone.TurnNow(true) {
			t.Fatalf("event %d of a lone connection waits", i)
		}
	}
}
