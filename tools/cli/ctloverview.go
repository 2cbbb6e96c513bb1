package cli

import (
	"encoding/json"
	"fmt"
	"time"
)

// A trafficReply has the figures of a proxy's or a server's calls. Times are in µs.
type trafficReply struct {
	Calls, Errors float64
	Queue         int64
	MeanUs        float64 `json:"mean_us"`
	P50Us         float64 `json:"p50_us"`
	P99Us         float64 `json:"p99_us"`
}

// cells returns the cells of a row. t is nil for a proxy without figures.
func (t *trafficReply) cells() []any {
	if t == nil {
		return []any{"-", "-", "-", "-", "-", "-"}
	}
	took := func(us float64) time.Duration { return time.Duration(us * 1e3).Round(time.Microsecond) }
	return []any{fmt.Sprintf("%.0f", t.Calls), fmt.Sprintf("%.1f", t.Errors), t.Queue, took(t.MeanUs), took(t.P50Us),
		took(t.P99Us)}
}

func (c *ctl) showOverview(reply json.RawMessage) error {
	return show(reply, func(v struct {
		Proxies []struct {
			ID, Problem string
			Clients     int64
			Traffic     *trafficReply
		}
		Servers []struct {
			Address string
			trafficReply
		}
		Problem string
	}) {
		const figures = " CALLS/S ERRORS/S QUEUE MEAN P50 P99"
		c.rows("PROXY CLIENTS"+figures+" PROBLEM", func(row func(cells ...any)) {
			for _, p := range v.Proxies {
				row(append(append([]any{p.ID, p.Clients}, p.Traffic.cells()...), p.Problem)...)
			}
		})
		c.rows("SERVER"+figures, func(row func(cells ...any)) {
			for _, s := range v.Servers {
				row(append([]any{s.Address}, s.cells()...)...)
			}
		})
		if v.Problem != "" {
			fmt.Fprintf(c.out, "problem  %s\n", clean(v.Problem))
		}
	})
}
