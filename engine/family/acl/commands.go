// Package acl implements ACL and its subcommands: users, their rules and the log of refusals.
//
// Owner: the core; handlers run in a turn.
// Never: decides what a user may do (engine/acl does), or closes a client (Deps does).
// Start here; users.go makes and shows users, look.go has the other subcommands.
package acl

import (
	"spindle/engine/acl"
	"spindle/engine/command"
)

// Deps is what the family needs of the rest of the server. Every function is called in a turn, and none is nil.
type Deps struct {
	Users     *acl.Users
	Log       func() *acl.Log
	Catalogue func() *command.Catalogue // commands under the names that rename-command gave them
	File      func() string             // aclfile; "" for none

	// Kill closes all clients of a deleted user. If the caller is one of them, it gets its reply first.
	Kill func(c *command.Context, deleted *acl.User)
	// KillSubscribers closes each client of the user that has a subscription which the new rights forbid
	// (CheckChannel).
	KillSubscribers func(c *command.Context, changed *acl.User)
	Warn            func(text string) // logs a line
}

// Family returns ACL, with its subcommands in the order of COMMAND.
func Family(d Deps) command.Family {
	f := &family{d}
	const (
		help  = command.Loading | command.Stale | command.Sentinel
		plain = help | command.NoScript
		admin = plain | command.Admin
	)
	everywhere := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "acl", Arity: -2, Flags: command.Sentinel, Subs: []command.Spec{
			{Name: "cat", Arity: -2, Flags: plain, Run: f.cat},
			{Name: "deluser", Arity: -3, Flags: admin, Tips: everywhere, Run: f.delUser},
			{Name: "dryrun", Arity: -4, Flags: admin, Run: f.dryRun},
			{Name: "genpass", Arity: -2, Flags: plain, Run: genPass},
			{Name: "getuser", Arity: 3, Flags: admin, Run: f.getUser},
			{Name: "help", Arity: 2, Flags: help, Run: showHelp},
			{Name: "list", Arity: 2, Flags: admin, Run: f.list},
			{Name: "load", Arity: 2, Flags: admin, Run: f.load},
			{Name: "log", Arity: -2, Flags: admin, Run: f.log},
			{Name: "save", Arity: 2, Flags: admin, Tips: everywhere, Run: f.save},
			{Name: "setuser", Arity: -3, Flags: admin, Tips: everywhere, Run: f.setUser},
			{Name: "users", Arity: 2, Flags: admin, Run: f.users},
			{Name: "whoami", Arity: 2, Flags: plain, Run: whoAmI},
		}},
	}}
}

type family struct{ Deps }

func showHelp(c *command.Context) error {
	command.Help(c,
		"CAT [<category>]",
		"    Categories, or the commands of one.",
		"DELUSER <username> [<username> ...]",
		"    Remove users, and close their connections.",
		"DRYRUN <username> <command> [<arg> ...]",
		"    Say whether the user may make a call, without making it.",
		"GENPASS [<bits>]",
		"    A random password of 256 bits, or of as many as are asked for.",
		"GETUSER <username>",
		"    Flags, password hashes and rules of a user.",
		"LIST",
		"    All users, in the form of the ACL file.",
		"LOAD",
		"    Read the users from the ACL file again.",
		"LOG [<count> | RESET]",
		"    The newest refusals (10 by default), or forget them all.",
		"SAVE",
		"    Write the users to the ACL file.",
		"SETUSER <username> <attribute> [<attribute> ...]",
		"    Change a user by rules, or make one.",
		"USERS",
		"    The names of all users.",
		"WHOAMI",
		"    The user of this connection.",
	)
	return nil
}
