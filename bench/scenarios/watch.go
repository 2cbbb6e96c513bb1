package scenarios

import (
	"fmt"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

// A watched is a time in which stalls are observed in four ways. These are the server's own longest turn, a client that
// sends 500 requests a second, the core, and memory.
type watched struct {
	server  *Server
	probe   *load.Runner
	stalls  *process.StallWatch
	began   time.Time
	steal   time.Duration
	delay   time.Duration
	closing bool
}

// A Sight has the figures of a watched time.
type Sight struct {
	Took   time.Duration
	Turns  Turns
	Probe  *load.Result
	Stalls process.Stalls
	Steal  time.Duration
	Delay  time.Duration // the server's threads waited for a core, also for each other
}

const probeRate = 500

// watch begins a watched time. The probe reads keys.
func (s *Server) watch(keys load.KeySpace) (*watched, error) {
	w := &watched{server: s}
	var err error
	if w.probe, err = s.StartLoad(load.Spec{Connections: 1, Rate: probeRate, Duration: time.Hour,
		Interval: 100 * time.Millisecond, RealTime: true,
		Mix: []load.Command{load.Request("GET", "{key}")}, Keys: keys}); err != nil {
		return nil, err
	}
	if w.stalls, err = process.WatchStalls(s.cpus); err != nil {
		w.probe.Abandon()
		return nil, err
	}
	time.Sleep(200 * time.Millisecond) // until both run
	w.steal, w.delay, w.began = process.Steal(), process.RunDelay(s.PID), time.Now()
	return w, s.ResetTurns()
}

// end stops watching.
func (w *watched) end() (sight Sight, err error) {
	w.closing = true
	sight.Took, sight.Steal, sight.Delay = time.Since(w.began), process.Steal()-w.steal,
		process.RunDelay(w.server.PID)-w.delay
	sight.Stalls, err = w.stalls.Stop()
	var probeErr error
	sight.Probe, probeErr = w.probe.Finish()
	if err == nil {
		err = probeErr
	}
	if err != nil {
		return sight, err
	}
	if sight.Probe.Errors > 0 {
		return sight, fmt.Errorf("%s answered the probe with %s", w.server.Name, sight.Probe.FirstErr)
	}
	sight.Turns, err = w.server.Turns()
	return sight, err
}

// abandon ends everything when a scenario fails before end.
func (w *watched) abandon() {
	if w.closing {
		return
	}
	w.closing = true
	w.probe.Abandon()
	_, _ = w.stalls.Stop() // the scenario's error is the one to report
}

// sightColumns are the headings of sights.cells.
var sightColumns = []string{"longest turn, CPU", "longest turn, wall", "without gaps", "probe p99", "probe max",
	"machine stall, core", "machine stall, memory"}

// sights has the figures of several runs.
type sights struct{ cpu, wall, own, p99, max, stall, memory report.Sample }

func (x *sights) add(s Sight) {
	if s.Turns.Known {
		x.wall = append(x.wall, float64(s.Turns.Wall))
	}
	if s.Turns.HasCPU {
		x.cpu = append(x.cpu, float64(s.Turns.CPU))
	}
	if s.Turns.HasCPU && s.Stalls.RealTime {
		x.own = append(x.own, float64(s.Turns.without(s.Stalls.Gaps)))
	}
	x.p99 = append(x.p99, float64(s.Probe.Latency.Percentile(99)))
	x.max = append(x.max, float64(s.Probe.Latency.Max()))
	if s.Stalls.RealTime { // without real-time priority it waited for the server itself
		x.stall = append(x.stall, float64(s.Stalls.Longest))
	}
	x.memory = append(x.memory, float64(s.Stalls.Memory))
}

// turn returns the figure to compare with targets. It is the turn's own time (Turns.without), if that is known for
// every run.
func (x *sights) turn() report.Sample {
	switch {
	case len(x.own) > 0 && len(x.own) == len(x.cpu):
		return x.own
	case len(x.cpu) > 0:
		return x.cpu
	}
	return x.wall
}

func (x *sights) cells() []string {
	return []string{x.cpu.Text(report.Duration), x.wall.Text(report.Duration), x.own.Text(report.Duration),
		x.p99.Short(report.Duration), x.max.Text(report.Duration), x.stall.Text(report.Duration),
		x.memory.Text(report.Duration)}
}

// join adds the runs of y to x.
func (x *sights) join(y *sights) {
	x.cpu, x.wall, x.own = append(x.cpu, y.cpu...), append(x.wall, y.wall...), append(x.own, y.own...)
	x.p99, x.max = append(x.p99, y.p99...), append(x.max, y.max...)
	x.stall, x.memory = append(x.stall, y.stall...), append(x.memory, y.memory...)
}

// turnTarget judges the worst run, not the median, because "no turn over 1 ms" is a claim about all turns.
func turnTarget(what string, limit time.Duration, ours *sights) report.Figure {
	turn := ours.turn()
	verdict := report.Judge(turn.Max(), float64(limit), nan)
	text := turn.Text(report.Duration)
	if len(ours.cpu) > 0 && len(ours.wall) > 0 {
		text = fmt.Sprintf("%s CPU, %s wall, %s without gaps; stalls: core %s, memory %s",
			ours.cpu.Text(report.Duration), ours.wall.Text(report.Duration),
			ours.own.Text(report.Duration), ours.stall.Text(report.Duration), ours.memory.Text(report.Duration))
	}
	return report.Figure{What: what, Target: "no turn over " + report.Took(limit), Reference: "–", Ours: text,
		Verdict: verdict}
}

// turnTargetOfWays is for a limit that this machine sometimes breaks whatever the server does. rest has the turns of
// the same server without such work, watched as often and as long. The median of each way must be within the limit.
// Only few more turns may exceed it than in rest, and none by far the longest turn of rest.
func turnTargetOfWays(what string, limit time.Duration, ways []*sights, rest *sights) report.Figure {
	all, worst := &sights{}, report.Sample(nil)
	for _, way := range ways {
		all.join(way)
		worst = append(worst, way.turn().Median())
	}
	turns, still := all.turn(), rest.turn()
	over, overAtRest := turns.Above(float64(limit)), still.Above(float64(limit))
	f := report.Figure{What: what, Target: "the median of each way ≤ " + report.Took(limit),
		Verdict: report.Judge(worst.Max(), float64(limit), nan),
		Ours: fmt.Sprintf("%s; of all %s, %d of %d over; with nothing to let go %s, %d of %d over",
			report.Duration(worst.Max()),
			turns.Text(report.Duration), over, len(turns), still.Text(report.Duration), overAtRest, len(still))}
	if over > 2*overAtRest+2 || turns.Max() > 3*max(still.Max(), float64(limit)) {
		f.Verdict = report.Missed
	}
	return f
}
