package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/engine/insight"
	"spindle/internal/clock"
)

// spin keeps a processor busy for d, and for a third of the time that takes: else the stall would be the machine's.
func spin(d time.Duration) {
	began, cpu := time.Now(), clock.ProcessCPU()
	for {
		used := time.Duration(clock.ProcessCPU() - cpu)
		if used >= d && used >= time.Since(began)/3 {
			return
		}
	}
}

// TestStallsOfDuties: a duty that takes long is named, and so are what was left for a turn's end and whoever had a turn
// of its own. Each is noted once.
func TestStallsOfDuties(t *testing.T) {
	h := newHouse(t)
	h.Do(func() {
		h.settings.StallThreshold.Set(20)
		h.ApplyStallThreshold()
	})
	slow := false
	h.OnTick(func(int64) {
		if slow {
			slow = false
			spin(60 * time.Millisecond)
		}
	})
	noted := func() (list []insight.Stall) {
		h.Do(func() {
			list = slices.DeleteFunc(h.Stalls().List(-1), func(e insight.Stall) bool { return e.Kind == insight.Machine })
			h.Stalls().Reset()
		})
		return list
	}
	h.Do(func() { h.duties.lastTick = 0 })
	h.dutyTurn()
	noted()

	slow = true
	h.Do(func() { h.duties.lastTick = -int64(time.Hour); h.stalls.noted = int64(time.Hour) })
	h.dutyTurn()
	if got := noted(); len(got) != 1 || got[0].Kind != insight.Duty || !strings.Contains(got[0].What, "TestStallsOfDuties") || got[0].Took < 55*time.Millisecond {
		t.Errorf("a slow duty: %+v", got)
	}
	h.Do(func() { spin(60 * time.Millisecond) })
	if got := noted(); len(got) != 1 || got[0].Kind != insight.Other || !strings.Contains(got[0].What, "TestStallsOfDuties") {
		t.Errorf("a slow turn: %+v", got)
	}
	h.Do(func() { h.Later(func() { spin(60 * time.Millisecond) }) })
	if got := noted(); len(got) != 1 || got[0].Kind != insight.Other {
		t.Errorf("slow work at a turn's end: %+v", got)
	}
	cl, _ := h.arrive()
	h.do(cl, "SET k v", "GET k")
	if got := noted(); len(got) != 0 {
		t.Errorf("quick commands: %+v", got)
	}
	totals := [insight.Kinds]insight.Total{}
	h.Do(func() { totals = h.Stalls().Totals() })
	if !slices.Equal([]uint64{totals[insight.Duty].Count, totals[insight.Other].Count, totals[insight.Command].Count}, []uint64{1, 2, 0}) {
		t.Errorf("totals: %+v", totals)
	}
}
