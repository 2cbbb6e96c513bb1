package scenarios

import (
	"spindle/bench/load"
	"spindle/bench/report"
)

// A point is what the runs of one contender at one pace have shown.
type point struct {
	p50, p90, p99, p999, max, late, cpu report.Sample
	overrun                             int // runs in which the server did not keep up
}

// points has a point for each contender, by name, and pace.
type points map[string]map[pace]*point

// paced adds runs of GET and SET 1:1 to points, without pipelining. Each server starts empty, is filled, and serves the
// paces one after another.
func (e *Env) paced(to points, contenders []Contender, paces ...pace) error {
	return e.alternate(contenders, func(c Contender, _ int) error {
		server, err := e.Begin(c, Start{})
		if err != nil {
			return err
		}
		defer server.End()
		if err := server.Fill(fill(e.Keys, 0, setWords...)); err != nil {
			return err
		}
		if to[c.Name] == nil {
			to[c.Name] = map[pace]*point{}
		}
		for _, at := range paces {
			r, err := server.Load(load.Spec{Connections: at.connections, Rate: at.perSecond, Warmup: e.Warmup,
				Duration: e.Duration, Keys: load.KeySpace{Count: e.Keys},
				Mix: []load.Command{load.Request("GET", "{key}"), load.Request(setWords...)}})
			if err != nil {
				return err
			}
			p := to[c.Name][at]
			if p == nil {
				p = &point{}
				to[c.Name][at] = p
			}
			if r.Overrun || r.Latency.Count() < int64(at.perSecond*r.Elapsed.Seconds()*0.9) {
				p.overrun++
			}
			p.p50 = append(p.p50, float64(r.Latency.Percentile(50)))
			p.p90 = append(p.p90, float64(r.Latency.Percentile(90)))
			p.p99 = append(p.p99, float64(r.Latency.Percentile(99)))
			p.p999 = append(p.p999, float64(r.Latency.Percentile(99.9)))
			p.max = append(p.max, float64(r.Latency.Max()))
			p.late = append(p.late, float64(r.SendDelay.Percentile(99.9)))
			p.cpu = append(p.cpu, r.NanosPerRequest())
		}
		return nil
	})
}
