// Package conn implements the commands on connections: AUTH, HELLO, SELECT, CLIENT and their kin.
//
// Owner: the core; handlers run in a turn.
// Never: touches a socket, or carries out a pause or a kill (Deps does).
// Start here; auth.go authenticates clients, list.go shows them, kill.go closes them, control.go is the rest of CLIENT.
package conn

import (
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// Deps is what the family needs of the rest of the server. Every function is called in a turn.
type Deps struct {
	Clients *client.Registry

	Users      *acl.Users
	SetUser    func(c *client.Client, user *acl.User) // gives c the rights of user
	AuthFailed func(c *command.Context, user []byte)  // a wrong name or password
	Kill       func(c *client.Client, isCaller bool)  // closes c: at once, or after its reply
	Pause      func(all bool, ms int64)               // CLIENT PAUSE
	Unpause    func()                                 // CLIENT UNPAUSE
	SetAcks    func(c *client.Client, level int)      // CLIENT ACK: -1 is the default
	// Unblock ends c's wait, with an UNBLOCKED error or with the reply of a timeout. It returns false if c does not
	// wait.
	Unblock func(c *client.Client, withErr bool) bool
	Reset   func(c *client.Client) // RESET: drops MULTI, WATCH, subscriptions, MONITOR, tracking

	Databases     func() int
	Mode          func() string // "standalone", "cluster", "sentinel"; nil is standalone
	Role          func() string // "master", "replica"; nil is master
	Zone          func() string // availability-zone; nil is ""
	Subscriptions func(c *client.Client) (channels, patterns, shards int)
	Speaks        func(c *client.Client)  // called after c has changed its protocol; may be nil
	Modules       func(r *protocol.Reply) // writes HELLO's list of modules; nil means none
}

// plain has the flags that all rows here have: the commands work during loading and on a stale replica.
const (
	plain  = command.Loading | command.Stale
	quiet  = plain | command.NoScript
	admin  = quiet | command.Admin
	letsIn = quiet | command.Fast | command.NoAuth | command.AllowBusy
	ends   = command.WhileSubscribed | command.InMulti | command.LeavesMulti
)

// Family returns every connection command, in the order of COMMAND. more are CLIENT subcommands of other families.
func Family(d Deps, more ...command.Spec) command.Family {
	f := &family{d}
	everywhere := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	varying := []string{"nondeterministic_output"}
	subs := []command.Spec{
		{Name: "ack", Arity: -2, Flags: quiet, Run: f.ack},
		{Name: "capa", Arity: -3, Flags: quiet | command.AllowBusy, Run: f.capa},
		{Name: "getname", Arity: 2, Flags: quiet | command.Sentinel, Run: f.getName},
		{Name: "help", Arity: 2, Flags: plain | command.Sentinel, Run: f.help},
		{Name: "id", Arity: 2, Flags: quiet | command.Sentinel, Run: f.id},
		{Name: "info", Arity: 2, Flags: quiet | command.Sentinel, Tips: varying, Run: f.info},
		{Name: "kill", Arity: -3, Flags: admin | command.Sentinel, Run: f.kill},
		{Name: "list", Arity: -2, Flags: admin | command.Sentinel, Tips: varying, Run: f.list},
		{Name: "no-evict", Arity: 3, Flags: admin | command.Sentinel, Run: f.noEvict},
		{Name: "no-touch", Arity: 3, Flags: quiet, Run: f.noTouch},
		{Name: "pause", Arity: -3, Flags: admin | command.Sentinel, Run: f.pause},
		{Name: "reply", Arity: 3, Flags: quiet | command.Sentinel, Run: f.reply},
		{Name: "setinfo", Arity: 4, Flags: quiet | command.Sentinel, Tips: everywhere, Run: f.setInfo},
		{Name: "setname", Arity: 3, Flags: quiet | command.Sentinel, Tips: everywhere, Run: f.setName},
		{Name: "unblock", Arity: -3, Flags: admin | command.Sentinel, Run: f.unblock},
		{Name: "unpause", Arity: 2, Flags: admin | command.Sentinel, Run: f.unpause},
	}
	return command.Family{Name: "connection", ACL: command.ACLConnection, Rows: []command.Spec{
		{Name: "asking", Arity: 1, Traits: command.KeepsAsking, Flags: command.Fast, Run: asking},
		{Name: "auth", Arity: -2, Flags: letsIn | command.Sentinel, Run: f.auth},
		{Name: "client", Arity: -2, Flags: command.Sentinel, Subs: command.Mark(append(subs, more...), command.KeepsCaching)},
		{Name: "echo", Arity: 2, Flags: plain | command.Fast, Run: echo},
		{Name: "hello", Arity: -1, Flags: letsIn | command.Sentinel, Run: f.hello},
		{Name: "ping", Arity: -1, Traits: command.Probes | command.WhileSubscribed, Flags: command.Fast | command.Sentinel,
			Tips: []string{"request_policy:all_shards", "response_policy:all_succeeded"}, Run: ping},
		{Name: "quit", Arity: -1, Traits: ends, Flags: letsIn, Run: f.quit},
		{Name: "readonly", Arity: 1, Flags: plain | command.Fast, Run: readOnly},
		{Name: "readwrite", Arity: 1, Flags: plain | command.Fast, Run: readWrite},
		{Name: "reset", Arity: 1, Traits: ends | command.ResetsDB, Flags: letsIn, Run: f.reset},
		{Name: "select", Arity: 2, Traits: command.InLogs | command.Selects, Flags: plain | command.Fast,
			Databases: command.DatabaseAt(1), Run: selectDB},
	}}
}

type family struct{ Deps }
