// Package introspect is COMMAND, which describes the command set, and DEBUG, which test suites use.
//
// Owner: the core; handlers run in a turn.
// Never: knows how a reload or a crash is carried out (Deps does).
// Start here; command.go answers COMMAND, docs.go its DOCS, debug.go DEBUG. debug_value.go describes one value,
// digest.go is DEBUG DIGEST.
package introspect

import (
	"iter"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
)

// Deps is what the family asks of the rest of the server. Functions are called in a turn. If one is nil, its subcommand
// replies that it is not available.
type Deps struct {
	Catalogue func() *command.Catalogue

	Reload          func(c *command.Context, o ReloadOptions) error // DEBUG RELOAD
	LoadAOF         func(c *command.Context) error                  // DEBUG LOADAOF; it replies at once or later
	FlushSleep      func(rest time.Duration)                        // DEBUG AOF-FLUSH-SLEEP
	SetActiveExpire func(on bool)
	PauseCron       func(on bool)
	SkipChecksums   func(on bool) // of RDB files and RESTORE payloads
	ChangeReplID    func()

	AllowAnyInScripts func(on bool) // lets scripts run commands that forbid it
	RewriteConfig     func() error  // CONFIG REWRITE with every row
	Log               func(text string)
	Crash             func(how string)                   // "segfault", "panic", "assert", "oom": does not return
	Restart           func(gracefully bool, delay int64) // ms; does not return if it succeeds
	// ClientCosts are the classes of DEBUG CLIENT-EVICTION; nil if clients are not evicted.
	ClientCosts      func() iter.Seq[client.CostClass]
	SerializedLength func(v value.Value) int // bytes of the value in an RDB file

	// The cluster's functions; nil outside cluster mode.
	Still       func(f func()) // runs f while the bus does nothing
	DropPackets func(kind int) // messages of a kind are dropped; -1: none
	KillLinks   func(c *command.Context, direction, id []byte) error
}

type ReloadOptions struct{ NoSave, NoFlush, Merge bool }

type family struct {
	Deps
	docs docs
}

// Family is every row of the package.
func Family(d Deps) command.Family {
	f := &family{Deps: d, docs: readDocs()}
	const plain = command.Loading | command.Stale | command.Sentinel
	varying := []string{"nondeterministic_output_order"}
	rows := []command.Spec{
		{Name: "command", Arity: -1, Flags: plain, ACL: command.ACLConnection, Tips: varying, Run: f.all,
			Subs: []command.Spec{
				{Name: "count", Arity: 2, Flags: plain, Run: f.count},
				{Name: "docs", Arity: -2, Flags: plain, Tips: varying, Run: f.commandDocs},
				{Name: "getkeys", Arity: -3, Flags: plain, Run: f.getKeys},
				{Name: "getkeysandflags", Arity: -3, Flags: plain, Run: f.getKeysAndFlags},
				{Name: "help", Arity: 2, Flags: plain, Run: commandHelp},
				{Name: "info", Arity: -2, Flags: plain, Tips: varying, Run: f.info},
				{Name: "list", Arity: -2, Flags: plain, Tips: varying, Run: f.list},
			}},
		{Name: "debug", Arity: -2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale |
			command.Protected, Run: f.debug},
	}
	for i := range rows[0].Subs {
		rows[0].Subs[i].ACL = command.ACLConnection
	}
	return command.Family{Name: "server", Rows: rows}
}
