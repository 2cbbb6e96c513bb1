package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/engine/diagnose"
	"spindle/engine/part"
)

// TestStallsOfDuties: a duty that takes long is logged with its name, and so is a function of Later or Do. If a tick
// comes late without a reason in the process, the log shows a gap of the machine.
func TestStallsOfDuties(t *testing.T) {
	h := newTestCore(t)
	h.Do(func() {
		h.settings.StallThreshold.Set(20)
		h.ApplyStallThreshold()
		h.stalls.processCPU = func() int64 { return int64(h.Uptime()) } // as if it never slept
	})
	slow := false
	h.Subscribe(part.Listeners{Tick: func(int64) {
		if slow {
			slow = false
			h.pass(60 * time.Millisecond)
		}
	}})
	noted := func() (list []diagnose.Stall) {
		h.Do(func() {
			list = h.Stalls().List(-1)
			h.Stalls().Reset()
		})
		return list
	}
	slowly := func() { h.pass(60 * time.Millisecond) }
	for _, c := range []struct {
		what  string
		plant func()
		kind  diagnose.Kind
		name  string
	}{
		{"a slow duty", func() {
			slow = true
			h.Do(func() { h.duties.lastTick, h.stalls.noted = -int64(time.Hour), int64(2*time.Hour) })
			h.dutySlice()
		}, diagnose.Duty, "TestStallsOfDuties"},
		{"a slow turn", func() { h.Do(slowly) }, diagnose.Other, "engine.TestStallsOfDuties"},
		{"a slow turn that is waited for", func() { h.DoWithin(time.Minute, slowly) }, diagnose.Other,
			"engine.TestStallsOfDuties"},
		{"a slow turn between units", func() { h.DoBetween(slowly) }, diagnose.Other, "engine.TestStallsOfDuties"},
		{"slow work at a turn's end", func() { h.Do(func() { h.Later(slowly) }) },
			diagnose.Other, "TestStallsOfDuties"},
	} {
		noted()
		c.plant()
		got := noted()
		if !slices.ContainsFunc(got, func(s diagnose.Stall) bool {
			return s.Kind == c.kind && strings.Contains(s.What, c.name) && s.Took >= 55*time.Millisecond
		}) {
			t.Errorf("%s: %+v", c.what, got)
		}
		totals := [diagnose.Kinds]diagnose.Total{}
		h.Do(func() { totals = h.Stalls().Totals() })
		if totals[c.kind].Count == 0 {
			t.Errorf("%s: totals are %+v", c.what, totals)
		}
	}
	noted()
	h.Do(func() { h.stalls.processCPU = func() int64 { return 0 } })
	h.Do(func() { h.duties.lastTick, h.stalls.noted, h.stalls.cpu = h.nanos-int64(time.Hour), 0, 0 })
	h.dutySlice()
	got := noted()
	if !slices.ContainsFunc(got, func(s diagnose.Stall) bool {
		return s.Kind == diagnose.Machine &&
			s.Took > time.Hour/2
	}) {
		t.Errorf("an hour without a tick: %+v", got)
	}
}
