// Package sight is the commands on always-on insight: BIGKEYS, HOTKEYS, STALLS.
//
// Owner: the core; handlers run in a turn.
// Never: measures anything; package insight and the keyspace hold the figures.
// Start here; bigkeys.go, hotkeys.go and stalls.go are the answers.
package sight

import (
	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/insight"
	"spindle/engine/part"
	"spindle/internal/histogram"
	"spindle/internal/info"
	"spindle/internal/number"
	"spindle/protocol"
)

// Name is the name of the family, and its group in COMMAND DOCS. Redis has none of these commands.
const Name = "insight"

// Deps is what the feature shows. HotKeys and Stalls are called in a turn, the others by any goroutine.
type Deps struct {
	Do        func(f func()) // runs f in a turn
	Space     *keyspace.Keyspace
	HotKeys   func() *insight.HotKeys
	Stalls    func() *insight.Stalls
	Catalogue func() *command.Catalogue
	Replies   func(yield func(row int, h *histogram.H) bool) // how long replies took, by the IDs of rows

	HotKeysChanged, StallsChanged func() // apply the settings hot-keys and stall-threshold
}

// Join fills in the part of the feature.
func Join(p *part.Part, d Deps) {
	p.Families = []command.Family{Family(d)}
	p.Sections = []info.Section{d.replySection()}
	p.Follows = []part.Follow{part.On(d.HotKeysChanged, "hot-keys"), part.On(d.StallsChanged, "stall-threshold")}
	p.Metrics = []prometheus.Collector{figures{&d}}
	p.Named = []prometheus.Collector{keyFigures{&d}}
}

type family struct{ Deps }

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
			{Name: "get", Arity: -2, Flags: admin, Tips: varying, Run: f.hotKeysGet},
			{Name: "help", Arity: 2, Flags: plain, Run: hotKeysHelp},
			{Name: "reset", Arity: 2, Flags: admin, Tips: succeeded, Run: f.hotKeysReset},
		}},
		{Name: "stalls", Arity: -2, Subs: []command.Spec{
			{Name: "get", Arity: -2, Flags: admin, Tips: varying, Run: f.stallsGet},
			{Name: "help", Arity: 2, Flags: plain, Run: stallsHelp},
			{Name: "len", Arity: 2, Flags: admin, Tips: summed, Run: f.stallsLen},
			{Name: "reset", Arity: 2, Flags: admin, Tips: succeeded, Run: f.stallsReset},
		}},
	}}
}

// countOf reads [COUNT n] after the subcommand. Without it the result is unsaid.
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
