// Package introspect shows a running server: INFO, MEMORY, MONITOR, TIME, LOLWUT, COMMAND, and DEBUG for test suites.
//
// Owner: the core; handlers run in a turn.
// Never: counts events of other packages (these export info.Sections), or carries out a reload or a crash (Deps does).
// Start here. report.go orders INFO, and layout.go is that order; memory.go is MEMORY. command.go implements COMMAND,
// docs.go its DOCS, debug.go DEBUG. debug_value.go describes one value, digest.go is DEBUG DIGEST.
package introspect

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/info"
)

// Deps is what the family needs of the rest of the server. Functions are called in a turn. If a function is nil, its
// subcommand replies that it is not available.
type Deps struct {
	Catalogue func() *command.Catalogue

	Sections     func() []info.Section // of all packages; called once, at the first INFO
	Only         []string              // the sections of INFO; empty is all
	Memory       func() MemoryFigures
	StartMonitor func(cl *client.Client)

	Reload          func(c *command.Context, o ReloadOptions) error // DEBUG RELOAD
	LoadAOF         func(c *command.Context) error                  // DEBUG LOADAOF; it replies at once or later
	FlushSleep      func(rest time.Duration)                        // DEBUG AOF-FLUSH-SLEEP
	SetActiveExpire func(on bool)
	PauseCron       func(on bool)
	SkipChecksums   func(on bool) // of RDB files and RESTORE payloads
	ChangeReplID    func()

	AllowAnyInScripts func(on bool) // lets scripts run commands that are refused in scripts
	RewriteConfig     func() error  // CONFIG REWRITE with every row
	Log               func(text string)
	Crash             func(how string)                   // "segfault", "panic", "assert", "oom": does not return
	Restart           func(gracefully bool, delay int64) // ms; does not return if it succeeds
	// ClientCosts returns the classes for DEBUG CLIENT-EVICTION. It is nil if clients are not evicted.
	ClientCosts func() iter.Seq[client.CostClass]
	// SerializedLength returns a function that returns the bytes of a value in an RDB file. The function may be called
	// outside the turn.
	SerializedLength func() func(r *command.Reading, v value.Value) int

	// These functions belong to the cluster. They are nil outside cluster mode.
	Still       func(f func()) // runs f while the bus does nothing
	DropPackets func(kind int) // messages of a kind are dropped; -1 means none
	KillLinks   func(c *command.Context, direction, id []byte) error
}

type ReloadOptions struct{ NoSave, NoFlush, Merge bool }

type family struct {
	Deps
	docs   docs
	report *Report
}

// Family returns every row of the package. more are rows of other packages in the same group.
func Family(d Deps, more ...command.Spec) command.Family {
	f := &family{Deps: d, docs: readDocs()}
	rows := append(f.serverRows(), more...)
	slices.SortFunc(rows, func(a, b command.Spec) int { return strings.Compare(a.Name, b.Name) })
	return command.Family{Name: "server", Rows: append(rows, f.commandRows()...)}
}

// serverRows returns the rows about the server.
func (f *family) serverRows() []command.Spec {
	const (
		plain = command.Loading | command.Stale
		quiet = plain | command.Admin | command.NoScript
	)
	var (
		shards    = []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"}
		succeeded = "response_policy:all_succeeded"
	)
	return []command.Spec{
		{Name: "info", Arity: -1, Flags: plain | command.Sentinel, ACL: command.ACLDangerous, Tips: shards, Run: f.showInfo},
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
		{Name: "time", Arity: 1, Flags: plain | command.Fast, Tips: []string{"nondeterministic_output"}, Run: now},
	}
}

// commandRows returns the rows of COMMAND and DEBUG.
func (f *family) commandRows() []command.Spec {
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
	return rows
}

// now is TIME: Unix seconds, and the microseconds of the second. In a script the time stands still until other clients
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
