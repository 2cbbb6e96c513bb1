// Package diagnose shows why a server is slow or large: COMMANDLOG and SLOWLOG, LATENCY, HOTKEYS, BIGKEYS, STALLS, and
// the records that they show.
//
// Owner: the core; recorders and handlers run in a turn.
// Never: decides what is measured (the core does), or grows with the data set (the keyspace keeps track of the big
// keys).
// Start here; each command has a file. metrics.go is for /metrics.
package diagnose

import (
	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/part"
	"spindle/internal/histogram"
	"spindle/internal/info"
	"spindle/internal/number"
	"spindle/internal/spikes"
	"spindle/protocol"
)

// Name is the name of the family, and its group in COMMAND DOCS. Redis has none of these commands.
const Name = "insight"

// Deps are the records that the feature shows, and how it gets them. HotKeys, Stalls and LatencyThreshold are called in
// a turn, the other functions by any goroutine.
type Deps struct {
	Logs             *CommandLogs
	Events           *spikes.Events
	LatencyThreshold func() int64 // latency-monitor-threshold in ms; 0 means off

	Do        func(f func()) // runs f in a turn
	Space     *keyspace.Keyspace
	HotKeys   func() *HotKeys
	Stalls    func() *Stalls
	Catalogue func() *command.Catalogue
	Replies   func(yield func(row int, h *histogram.H) bool) // how long replies took, by the IDs of rows

	Sampling  func() bool  // the setting hot-keys
	Clustered func() bool  // cluster mode
	Nanos     func() int64 // the turn's time, by the same clock as for HotKeys.Fade; called in a turn

	HotKeysChanged, StallsChanged func() // apply the settings hot-keys and stall-threshold
}

// Join adds the feature's commands, INFO section and listeners to p.
func Join(p *part.Part, d Deps) {
	p.Families = []command.Family{Family(d)}
	p.Sections = []info.Section{d.replySection()}
	p.Follows = []part.Follow{part.On(d.HotKeysChanged, "hot-keys"), part.On(d.StallsChanged, "stall-threshold")}
	p.Metrics = []prometheus.Collector{figures{&d}}
	p.Named = []prometheus.Collector{keyFigures{&d}}
}

type family struct{ Deps }

// ServerRows returns COMMANDLOG, LATENCY and SLOWLOG, which Redis and Valkey list among the server's commands.
func ServerRows(d Deps) []command.Spec {
	f := &family{d}
	const (
		plain = command.Loading | command.Stale
		admin = plain | command.Admin
		quiet = admin | command.NoScript
	)
	varying := []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"}
	shown := []string{"request_policy:all_nodes", "nondeterministic_output"}
	summed := []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"}
	succeeded := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	return []command.Spec{
		{Name: "commandlog", Arity: -2, Subs: []command.Spec{
			{Name: "get", Arity: 4, Flags: admin, Tips: shown, Run: f.commandlogGet},
			{Name: "help", Arity: 2, Flags: plain, Run: commandlogHelp},
			{Name: "len", Arity: 3, Flags: admin, Tips: summed, Run: f.commandlogLen},
			{Name: "reset", Arity: 3, Flags: admin, Tips: succeeded, Run: f.commandlogReset},
		}},
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
		{Name: "slowlog", Arity: -2, Subs: []command.Spec{
			{Name: "get", Arity: -2, Flags: admin, Tips: shown, Run: f.slowlogGet},
			{Name: "help", Arity: 2, Flags: plain, Run: slowlogHelp},
			{Name: "len", Arity: 2, Flags: admin, Tips: summed, Run: f.slowlogLen},
			{Name: "reset", Arity: 2, Flags: admin, Tips: succeeded, Run: f.slowlogReset},
		}},
	}
}

// Family returns BIGKEYS, HOTKEYS and STALLS, which Redis does not have.
func Family(d Deps) command.Family {
	f := &family{d}
	const (
		plain = command.Loading | command.Stale
		admin = plain | command.Admin
	)
	varying := []string{"request_policy:all_nodes", "response_policy:special", "nondeterministic_output"}
	succeeded := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	summed := []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"}
	return command.Family{Name: Name, Rows: []command.Spec{
		{Name: "bigkeys", Arity: -2, Subs: []command.Spec{
			{Name: "get", Arity: -2, Flags: admin, Tips: varying, Run: f.bigKeysGet},
			{Name: "help", Arity: 2, Flags: plain, Run: bigKeysHelp},
		}},
		{Name: "hotkeys", Arity: -2, Subs: []command.Spec{
			{Name: "get", Arity: -2, Flags: admin, Tips: varying, Run: f.sessionOrTop},
			{Name: "help", Arity: 2, Flags: plain, Run: hotKeysHelp},
			{Name: "reset", Arity: 2, Flags: admin, Tips: succeeded, Run: f.resetSession},
			{Name: "start", Arity: -2, Flags: admin, Run: f.startSession},
			{Name: "stop", Arity: 2, Flags: admin, Run: f.stopSession},
		}},
		{Name: "spindle", Arity: -2, Subs: []command.Spec{
			{Name: "hotkeys", Arity: -3, Flags: admin, Tips: varying, Run: f.spindleHotKeys},
		}},
		{Name: "stalls", Arity: -2, Subs: []command.Spec{
			{Name: "get", Arity: -2, Flags: admin, Tips: varying, Run: f.stallsGet},
			{Name: "help", Arity: 2, Flags: plain, Run: stallsHelp},
			{Name: "len", Arity: 2, Flags: admin, Tips: summed, Run: f.stallsLen},
			{Name: "reset", Arity: 2, Flags: admin, Tips: succeeded, Run: f.stallsReset},
		}},
	}}
}

// countOf reads [COUNT n] after the subcommand. Without COUNT it returns unsaid.
func countOf(c *command.Context, unsaid, most int64) (int, error) {
	switch {
	case len(c.Args) == 2:
		return int(unsaid), nil
	case len(c.Args) != 4 || !command.Is(c.Args[2], "COUNT"):
		return 0, protocol.ErrSyntax
	}
	n, ok := number.ParseInt(c.Args[3])
	if !ok {
		return 0, protocol.ErrNotInteger
	}
	if n <= 0 {
		return 0, errCount
	}
	return int(min(n, most)), nil
}
