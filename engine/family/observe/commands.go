// Package observe is the commands that show a running server: INFO, SLOWLOG, LATENCY, MEMORY, MONITOR, TIME, LOLWUT.
//
// Owner: the core; handlers and recorders run in a turn.
// Never: counts what another package knows; packages export info.Sections, and this one puts them in order.
// Start here; report.go orders INFO, layout.go is that order. slowlog.go and latency.go record slow commands and
// events.
package observe

import (
	"strconv"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/info"
)

// Deps is what the family asks of the rest of the server. Functions are called in a turn.
type Deps struct {
	Catalogue    func() *command.Catalogue
	Sections     func() []info.Section // of all packages; called once, at the first INFO
	Slowlog      *Slowlog
	Events       *Events
	StartMonitor func(cl *client.Client)

	LatencyThreshold func() int64 // latency-monitor-threshold, ms; 0 is off
	Memory           func() MemoryFigures
	Only             []string // the sections of INFO; empty is all
}

type family struct {
	Deps
	report *Report
}

func Family(d Deps) command.Family {
	f := &family{Deps: d}
	const (
		plain = command.Loading | command.Stale
		admin = plain | command.Admin
		quiet = admin | command.NoScript
	)
	var (
		varying   = []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"}
		shards    = []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}
		succeeded = "response_policy:all_succeeded"
	)
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "info", Arity: -1, Flags: plain | command.Sentinel, ACL: command.ACLDangerous, Tips: shards, Run: f.info},
		{Name: "latency", Arity: -2, Subs: []command.Spec{
			{Name: "doctor", Arity: 2, Flags: quiet, Tips: varying, Run: f.latencyDoctor},
			{Name: "graph", Arity: 3, Flags: quiet, Tips: varying, Run: f.latencyGraph},
			{Name: "help", Arity: 2, Flags: plain, Run: latencyHelp},
			{Name: "histogram", Arity: -2, Flags: quiet, Tips: varying, Run: f.latencyHistogram},
			{Name: "history", Arity: 3, Flags: quiet, Tips: varying, Run: f.latencyHistory},
			{Name: "latest", Arity: 2, Flags: quiet, Tips: varying, Run: f.latencyLatest},
			{Name: "reset", Arity: -2, Flags: quiet, Tips: []string{"request_policy:all_nodes", "response_policy:agg_sum"},
				Run: f.latencyReset},
		}},
		{Name: "lolwut", Arity: -1, Flags: command.ReadOnly | command.Fast, Run: lolwut},
		{Name: "memory", Arity: -2, Subs: []command.Spec{
			{Name: "doctor", Arity: 2, Tips: shards, Run: f.memoryDoctor},
			{Name: "help", Arity: 2, Flags: plain, Run: memoryHelp},
			{Name: "malloc-stats", Arity: 2, Tips: shards, Run: mallocStats},
			{Name: "purge", Arity: 2, Tips: []string{"request_policy:all_shards", succeeded}, Run: purge},
			{Name: "stats", Arity: 2, Tips: shards, Run: f.memoryStats},
			{Name: "usage", Arity: -3, Flags: command.ReadOnly,
				Keys:  []command.KeySpec{{Flags: command.KeyRO, Index: 2, Step: 1}},
				Reads: command.ReadsNext("SAMPLES", 3, 5, "few SAMPLES"), Run: memoryUsage},
		}},
		{Name: "monitor", Arity: 1, Flags: quiet, Run: f.monitor},
		{Name: "slowlog", Arity: -2, Subs: []command.Spec{
			{Name: "get", Arity: -2, Flags: admin, Tips: []string{"request_policy:all_nodes", "nondeterministic_output"},
				Run: f.slowlogGet},
			{Name: "help", Arity: 2, Flags: plain, Run: slowlogHelp},
			{Name: "len", Arity: 2, Flags: admin, Tips: []string{"request_policy:all_nodes",
				"response_policy:agg_sum", "nondeterministic_output"}, Run: f.slowlogLen},
			{Name: "reset", Arity: 2, Flags: admin, Tips: []string{"request_policy:all_nodes", succeeded}, Run: f.slowlogReset},
		}},
		{Name: "time", Arity: 1, Flags: plain | command.Fast, Tips: []string{"nondeterministic_output"}, Run: now},
	}}
}

// now is TIME: Unix seconds, and the microseconds of the second. In a script the time stands still, until other clients
// get BUSY.
func now(c *command.Context) error {
	micros := time.Now().UnixMicro()
	if c.Client.Is(client.InScript) && !c.Core.Tardy() {
		micros = c.Now * 1000
	}
	c.Reply.Array(2)
	c.Reply.BulkString(strconv.FormatInt(micros/1e6, 10))
	c.Reply.BulkString(strconv.FormatInt(micros%1e6, 10))
	return nil
}

// monitor is MONITOR. The connection then receives every command.
func (f *family) monitor(c *command.Context) error {
	if c.Client.Is(client.DenyBlocking | client.Multi | client.InScript) {
		return errMonitorHere
	}
	if !c.Client.Is(client.Monitor) {
		f.StartMonitor(c.Client)
	}
	c.Reply.OK()
	return nil
}
