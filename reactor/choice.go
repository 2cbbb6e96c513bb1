package reactor

import "fmt"

// This file decides how many loops serve, from loads alone. chooser.go measures the loads and carries out the
// decisions.
//
//	        3 seconds: loops busy ≥ 85 %, half a CPU is idle, commands take < 70 %, 4 connections for each loop
//	n loops ──────────────────────────────────────────────────────────────────────────────────────────▶ n + 1
//	        ◀──────────────────────────────────────────────────────────────────────────────────────────
//	        10 seconds: n loops would be busy ≤ 60 %; or other programs leave no CPU idle
//
// reactor.Q1. A number that was reached because of the load is not left at the same load: the two limits are apart.
// After loops were given up for other programs, the next growth waits. That time doubles each time, up to maxPause.
type choice struct {
	most   int // at least 1
	active int // loops that serve; from 1 to most

	hot, cool, crowded int // for how many seconds in a row there was reason to grow, or to shrink
	pause, nextPause   int // seconds until growth may be considered, and the pause after the next crowd
	calm               int // seconds with several loops and without a crowd

	changed string // why the number changed last; "": it has not
	reason  string // one sentence for the operator
}

// The limits of a choice. Those of time are in seconds.
const (
	growBusy  = 0.85
	growAfter = 3
	growIdle  = 0.5 // CPUs
	growTurn  = 0.7 // the share of time in which commands run; the rest is what another loop can share
	growConns = 4   // a loop

	shrinkBusy  = 0.6
	shrinkAfter = 10

	crowdedIdle   = 0.1 // CPUs: fewer are idle
	crowdedOthers = 0.5 // CPUs that other programs use
	minPause      = 60
	maxPause      = 3600
	calmAfter     = 600 // without a crowd the next pause is minPause again
)

// A load is what one second has shown.
type load struct {
	busy   float64 // of all loops together: 1.7 means that two loops were busy 85 % each
	idle   float64 // CPUs that this process could have used and did not
	others float64 // CPUs that other programs used
	turn   float64 // the share of the second in which commands ran
	conns  int
}

// next takes the load of the last second and decides for the next one. It reports whether the number of loops changes.
func (c *choice) next(l load) (changes bool) {
	mean := l.busy / float64(c.active)
	c.hot = inARow(c.hot, mean >= growBusy)
	c.cool = inARow(c.cool, c.active > 1 && l.busy <= shrinkBusy*float64(c.active-1))
	c.crowded = inARow(c.crowded, c.active > 1 && l.idle < crowdedIdle && l.others >= crowdedOthers)
	if c.active > 1 {
		c.calm = inARow(c.calm, c.crowded == 0)
	}
	if c.calm >= calmAfter || c.nextPause == 0 {
		c.nextPause = minPause
	}
	c.pause = max(0, c.pause-1)
	now := fmt.Sprintf("%s busy %.0f %%", loops(c.active, "is", "are"), 100*min(mean, 1))
	was := fmt.Sprintf("%s busy %.0f %%", loops(c.active, "was", "were"), 100*min(mean, 1))
	switch {
	case c.cool >= shrinkAfter:
		c.become(c.active-1, fmt.Sprintf("shrank to %d: %s", c.active-1, was))
		return true
	case c.crowded >= shrinkAfter:
		c.become(c.active-1, fmt.Sprintf("shrank to %d: other programs used %.1f CPUs, and none was idle", c.active-1,
			l.others))
		c.pause, c.nextPause = c.nextPause, min(2*c.nextPause, maxPause)
		return true
	case c.hot >= growAfter:
		against := c.against(l)
		if against == "" {
			c.become(c.active+1, fmt.Sprintf("grew to %d: %s, and %.1f CPUs were idle", c.active+1, was, l.idle))
			return true
		}
		c.reason = now + ": " + against
	case c.changed != "":
		c.reason = c.changed
	default:
		c.reason = now
	}
	return false
}

// against returns why there is no further loop, or "".
func (c *choice) against(l load) string {
	switch {
	case c.active == c.most:
		return "this machine has no CPU for another"
	case c.pause > 0:
		return fmt.Sprintf("other programs needed the CPUs, so the next one waits %d seconds more", c.pause)
	case l.idle < growIdle:
		return fmt.Sprintf("only %.1f CPUs are idle", l.idle)
	case l.turn >= growTurn:
		return fmt.Sprintf("commands take %.0f %% of the time, and another loop cannot share that", 100*l.turn)
	case l.conns < growConns*(c.active+1):
		return fmt.Sprintf("another one would need %d connections", growConns*(c.active+1))
	}
	return ""
}

// become changes the number of loops.
func (c *choice) become(active int, reason string) {
	c.active, c.changed, c.reason = active, reason, reason
	c.hot, c.cool, c.crowded = 0, 0, 0
}

// inARow returns count + 1 if it holds, else 0.
func inARow(count int, holds bool) int {
	if !holds {
		return 0
	}
	return count + 1
}

// loops returns "1 loop is" or "2 loops are".
func loops(n int, one, more string) string {
	if n == 1 {
		return "1 loop " + one
	}
	return fmt.Sprintf("%d loops %s", n, more)
}

// spares returns how many connections each loop shall give away, so that the active ones, which are the first, have
// about equally many. takers are the loops that get them.
func spares(conns []int, active int) (spare, takers []int) {
	total := 0
	for _, n := range conns {
		total += n
	}
	share := total / active
	spare = make([]int, len(conns))
	gives := false
	for i, n := range conns {
		switch {
		case i >= active:
			spare[i] = n
		case n > share+share/4+1:
			spare[i] = n - share
		}
		gives = gives || spare[i] > 0
	}
	if !gives {
		return nil, nil
	}
	for i, n := range conns[:active] {
		if n <= share {
			takers = append(takers, i)
		}
	}
	return spare, takers
}
