package replication

import (
	"spindle/engine"
	"spindle/internal/info"
)

// A throttle slows the clients that write when a replica cannot follow (repl-throttling-enabled). Ten times a second it
// looks at the replica that lacks most of the stream. If that is going to lack more than half of what it may, writes
// become a little slower, else a little faster. At half of its limit a replica stays, and needs no full copy.
//
//	0          a quarter            half of the limit          limit
//	│ as ever  │ slower, if the lag │ slower, unless the lag   │ closed
//	│          │ grows too fast     │ falls fast               │
//
// Source: the steps, the rates and the names are those of Valkey 9.2.
//
// Turn only.
type throttle struct {
	core     *engine.Core
	settings *Settings
	roster   *roster

	rate           float64 // of calls that may write, a second
	activations    uint64
	more, less     uint64 // steps
	guardedSinceMs int64  // since when the rate is below guardrail; 0: it is not
}

const (
	throttleSlower = 0.95
	throttleFaster = 1.05
	// throttleAhead is for how many seconds a lag is taken to grow on as it does.
	throttleAhead = 30
	// throttleTrustMs is how long a replica may be beyond its soft limit while writers are throttled.
	throttleTrustMs = 4 * throttleAhead * 1000
	// throttleGuardrail is a rate that is hardly better than none, throttleRestart the next one after it.
	throttleGuardrail, throttleRestart = 0.1, 100.0
	// littleLag counts as none.
	littleLag = 16 << 10
)

// target is what a replica may lack without harm: half of its limit. 0: there is no limit.
func (t *throttle) target() int64 {
	if t.roster.stream.spool.usable() {
		return t.settings.DiskSize.Get() / 2
	}
	limit := t.settings.Output()
	if limit.Soft != 0 {
		return limit.Soft / 2
	}
	return limit.Hard / 2
}

// tick looks at the replicas.
func (t *throttle) tick() {
	target := t.target()
	if !t.settings.Throttle.Get() || t.roster.stream.following || target == 0 || len(t.roster.replicas) == 0 {
		t.end()
		return
	}
	var worst *replica
	most := int64(-1)
	for _, r := range t.roster.replicas {
		if r.state != online {
			continue
		}
		lacks := t.roster.lacksOf(r)
		if r.lag.note(lacks); lacks > most {
			worst, most = r, lacks
		}
	}
	slower := false
	if worst != nil && most > littleLag && most >= target/2 {
		slower = most+worst.lag.perSecond()*throttleAhead > target
	}
	t.step(slower)
}

// step makes writes slower or faster. The first step only begins to measure how many writes there are.
func (t *throttle) step(slower bool) {
	now := t.core.Throttled()
	switch {
	case !now.On && !slower:
		return
	case !now.On:
		t.activations++
		t.rate = engine.ThrottleMost
		t.settings.Log.Warning("A replica lacks much of the replication stream: clients that write are slowed down.")
	case slower:
		t.more++
		t.rate *= throttleSlower
		if now.Inflow > 0 {
			t.rate = min(t.rate, now.Inflow)
		}
	default:
		t.less++
		if t.rate < throttleGuardrail/1000 {
			t.rate = throttleRestart
		} else {
			t.rate += max(1, t.rate*(throttleFaster-1))
		}
		if t.rate >= engine.ThrottleMost {
			t.end()
			return
		}
	}
	if t.rate < throttleGuardrail/1000 {
		t.rate = 0
	}
	switch {
	case t.rate > throttleGuardrail:
		t.guardedSinceMs = 0
	case t.guardedSinceMs == 0:
		t.guardedSinceMs = t.core.SteadyMs()
	}
	t.core.Throttle(t.rate)
}

// end lets all clients write.
func (t *throttle) end() {
	if t.core.Throttled().On {
		t.core.EndThrottle()
		t.guardedSinceMs = 0
		t.settings.Log.Notice("Clients that write are no longer slowed down for a replica.")
	}
}

// spares reports whether a replica beyond its soft limit stays. It does while writers are throttled, for a time, if
// there is memory.
func (t *throttle) spares(r *replica, lacks, nowMs int64) bool {
	return t.core.Throttled().On && lacks >= t.target() && !t.core.OverMemory() && nowMs-r.softSince <= throttleTrustMs
}

// lines are INFO throttling.
func (t *throttle) lines(w *info.Writer) {
	now := t.core.Throttled()
	rate, guarded := -1.0, int64(0)
	if now.On {
		rate = t.rate
	}
	if t.guardedSinceMs != 0 {
		guarded = (t.core.SteadyMs() - t.guardedSinceMs) / 1000
	}
	w.Int("total_throttled_commands", int64(now.Calls))
	w.Float("repl_throttle_rate", rate, 2)
	w.Int("repl_throttle_activation_events", int64(t.activations))
	w.Int("repl_throttle_below_guardrail_secs", guarded)
	w.Int("repl_throttle_total_commands", int64(now.Calls))
}

// debugLines are the throttle's share of INFO debug. There are none while the throttle is off.
func (t *throttle) debugLines(w *info.Writer) {
	if !t.settings.Throttle.Get() {
		return
	}
	w.Int("repl_throttle_more_events", int64(t.more))
	w.Int("repl_throttle_less_events", int64(t.less))
	w.Int("repl_throttle_current_clients", int64(t.core.Throttled().Clients))
}
