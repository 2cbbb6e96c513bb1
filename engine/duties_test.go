package engine

import (
	"fmt"
	"math"
	"testing"
	"time"

	"spindle/engine/command"
	"spindle/lazyfree"
)

// TestLadenIsCalled: Laden is called once when reclaimers have more than ladenFrom to free, and again when they are
// nearly done. The test stops the ticks: they would return empty memory to the system, which also calls Laden.
func TestLadenIsCalled(t *testing.T) {
	h := newTestCore(t)
	h.Do(func() { h.PauseCron(true) })
	h.lazy = lazyfree.New(lazyfree.Options{})
	defer h.lazy.Close()
	var told []bool
	h.hooks.Laden = func() { told = append(told, h.Laden()) }
	heap := h.space.Heap()
	duties := func() { h.take(); h.runDuties(); h.release() }
	pagesDone := func() { // touched as they are used
		for duties(); heap.Paging() || h.duties.laden; {
			duties()
		}
		h.lazy.Pause()
		told = nil
	}
	flushed := func(keys int) {
		h.Do(func() {
			for i := range keys {
				h.space.DB(0).SetString(fmt.Appendf(nil, "key:%09d", i), make([]byte, 1000), 0)
			}
		})
		pagesDone()
		h.Do(func() { h.space.DB(0).Flush() })
		duties()
		duties()
	}
	if flushed(1000); len(told) != 0 {
		t.Errorf("told of %d bytes: %v", heap.Reclaiming(), told)
	}
	h.lazy.Resume()
	if flushed(ladenFrom / 1000); fmt.Sprint(told) != "[true]" {
		t.Errorf("%d bytes to free: told %v", heap.Reclaiming(), told)
	}
	h.lazy.Resume()
	for until := time.Now().Add(time.Minute); heap.Reclaiming() > 0 && time.Now().Before(until); {
		duties()
	}
	if duties(); fmt.Sprint(told) != "[true false]" {
		t.Errorf("all freed: told %v", told)
	}
}

// TestIdleServerRests: a server without work takes one turn for each tick.
func TestIdleServerRests(t *testing.T) {
	h := newTestCore(t)
	h.Do(func() { h.space.Heap().Age() }) // memory that the start left goes back now
	for range 5 {
		h.pass(100 * time.Millisecond)
		if wait := h.dutySlice(); wait != 100*time.Millisecond {
			t.Errorf("the next turn is due in %v", wait)
		}
	}
}

// TestLateExpiry: late expiry gets as much time as clients, and twice as much when it is very late.
func TestLateExpiry(t *testing.T) {
	for late, want := range map[int64]time.Duration{0: expirySlice, 10 * farBehindMs: expirySlice / 2} {
		h := newTestCore(t)
		due := h.testClock.Now().UnixMilli() + 1
		h.take()
		for i := range 100_000 {
			h.space.DB(0).SetString(fmt.Appendf(nil, "key:%09d", i), nil, due)
		}
		h.begin(dutyTurn)
		h.nowMs = due + 17 + late // ticks are of 16 ms
		h.space.SetNow(h.nowMs)
		h.runDuties()
		most := int64(h.Uptime() + want)
		if !h.duties.behind {
			t.Fatalf("%d keys are left of 100,000, and expiry is not late", h.space.DB(0).Len())
		}
		if got := h.clientsShare(); got != want || h.duties.at > most {
			t.Errorf("%d ms late: clients have %v, %v of them, want %v", late, time.Duration(h.duties.at-most)+want, got, want)
		}
		h.release()
	}
}

// TestIdleBesideLongWaits: a pause or a wait that ends in millions of years leaves an idle server idle.
func TestIdleBesideLongWaits(t *testing.T) {
	h := newTestCore(t, command.Spec{Name: "waits", Arity: 1, Run: func(c *command.Context) error {
		c.Core.Block(c, command.Wait{DeadlineMs: math.MaxInt64, Timeout: command.NoArray})
		return nil
	}})
	cl, _ := h.arrive()
	idle := func(beside string) {
		t.Helper()
		longest := time.Duration(0)
		for range 20 { // on a busy host a slice may begin when another duty is due soon
			longest = max(longest, h.dutySlice())
		}
		if longest < 50*time.Millisecond {
			t.Errorf("beside %s the next slice comes in %v", beside, longest)
		}
	}
	idle("nothing")
	h.Do(func() { h.PauseFor(PauseByClient, false, math.MaxInt64) })
	idle("a pause")
	h.Do(func() { h.Unpause(PauseByClient) })
	h.do(cl, "WAITS")
	idle("a wait")
}
