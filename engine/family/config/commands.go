// Package config implements CONFIG. It shows, changes and writes back the settings of every package, and depends on
// none of them.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, or decides what a value means (its row does).
// Start here: the rows, then their handlers.
package config

import (
	"errors"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/glob"
	"spindle/internal/setting"
	"spindle/protocol"
)

type Parts struct {
	Registry *setting.Registry
	// MayProtect reports whether enable-protected-configs lets a client change protected settings. local means that the
	// client is on this machine.
	MayProtect func(local bool) bool
	Loading    func() bool  // the data set is being loaded
	Rewrite    func() error // its error's text is the reply
	ResetStat  func()       // clears the counters of INFO
	// Await starts work that must be done before pairs can be set, such as a name lookup. It returns false if there is
	// nothing to wait for. Otherwise cl is parked, and its command is retried when the work is done. If Await is nil,
	// no command waits.
	Await func(cl *client.Client, pairs []setting.Pair) bool
}

// Family returns CONFIG for the parts p.
func Family(p Parts) command.Family {
	const flags = command.Admin | command.NoScript | command.Loading | command.Stale
	everywhere := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "config", Arity: -2, Subs: []command.Spec{
			{Name: "get", Arity: -3, Flags: flags, Run: p.get},
			{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: help},
			{Name: "resetstat", Arity: 2, Flags: flags, Tips: everywhere, Run: p.resetStat},
			{Name: "rewrite", Arity: 2, Flags: flags, Tips: everywhere, Run: p.rewrite},
			{Name: "set", Arity: -4, Flags: flags, Tips: everywhere, Run: p.set},
		}},
	}}
}

// get is CONFIG GET pattern [pattern …]. Replies: a map of names and values.
func (p Parts) get(c *command.Context) error {
	patterns := make([]string, 0, len(c.Args)-2)
	for _, arg := range c.Args[2:] {
		patterns = append(patterns, string(arg))
	}
	found := p.Registry.Get(patterns, func(pattern, name string) bool {
		return glob.MatchFold([]byte(pattern), []byte(name))
	})
	c.Reply.Map(len(found))
	for _, pair := range found {
		c.Reply.BulkString(pair.Name)
		c.Reply.BulkString(pair.Value)
	}
	return nil
}

// set is CONFIG SET name value [name value …]. Replies: OK, or the reason why no setting was changed. It always removes
// secrets from the arguments, so that no log shows them.
func (p Parts) set(c *command.Context) error {
	if len(c.Args)%2 != 0 {
		return protocol.ErrSyntax
	}
	pairs := make([]setting.Pair, 0, len(c.Args)/2-1)
	for at := 2; at < len(c.Args); at += 2 {
		pair := setting.Pair{Name: string(c.Args[at]), Value: string(c.Args[at+1])}
		pairs = append(pairs, pair)
		if row := p.Registry.Lookup(pair.Name); row != nil && row.Flags&setting.Sensitive != 0 {
			c.Args[at+1] = []byte("(redacted)") // a new slice: test builds overwrite the old one when it is given back
		}
	}
	if p.Await != nil && !c.Client.Is(client.DenyBlocking) && p.Await(c.Client, pairs) {
		c.Core.Block(c, command.Wait{Busy: true, Retry: func(c *command.Context) error { return p.apply(c, pairs) }})
		return nil
	}
	return p.apply(c, pairs)
}

// apply sets pairs, after any wait of Await.
func (p Parts) apply(c *command.Context, pairs []setting.Pair) error {
	local := protocol.IsLocal(c.Client.Conn)
	err := p.Registry.SetMany(pairs, setting.Conditions{Loading: p.Loading(), Protected: p.MayProtect(local)})
	switch {
	case errors.Is(err, setting.ErrLoading):
		return protocol.ErrLoading
	case err != nil:
		return errWhy(err)
	}
	c.Reply.OK()
	return nil
}

// rewrite is CONFIG REWRITE. Replies: OK, or the reason why the file was not changed.
func (p Parts) rewrite(c *command.Context) error {
	if err := p.Rewrite(); err != nil {
		return errWhy(err)
	}
	c.Reply.OK()
	return nil
}

func (p Parts) resetStat(c *command.Context) error {
	p.ResetStat()
	c.Reply.OK()
	return nil
}

func help(c *command.Context) error {
	c.Reply.Array(len(helpLines))
	for _, line := range helpLines {
		c.Reply.Simple(line)
	}
	return nil
}

var helpLines = []string{
	"CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"GET <pattern>",
	"    Return parameters matching the glob-like <pattern> and their values.",
	"SET <directive> <value>",
	"    Set the configuration <directive> to <value>.",
	"RESETSTAT",
	"    Reset statistics reported by the INFO command.",
	"REWRITE",
	"    Rewrite the configuration file.",
	"HELP",
	"    Print this help.",
}
