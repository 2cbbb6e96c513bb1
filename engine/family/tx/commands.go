// Package tx implements transactions: MULTI queues commands, EXEC runs them as one unit, WATCH makes EXEC conditional.
//
// Owner: the core; handlers and the registry of watches are used inside turns only.
// Never: runs a command itself (the core's Call does), keeps lent bytes, or knows another family.
// Start here; multi.go is the queue, watch.go the watched keys.
package tx

import "spindle/engine/command"

// anywhen has the flags of rows without data. They run while loading, on a stale replica, and during a busy script.
const anywhen = command.NoScript | command.Loading | command.Stale | command.Fast | command.AllowBusy

func (w *Watches) Family() command.Family {
	return command.Family{Name: "transactions", ACL: command.ACLTransaction, Rows: []command.Spec{
		{Name: "discard", Arity: 1, Traits: command.InMulti | command.LeavesMulti, Flags: anywhen, Run: w.discard},
		{Name: "exec", Arity: 1, Traits: command.RunsQueue | command.InMulti | command.LeavesMulti,
			Flags: command.NoScript | command.Loading | command.Stale | command.SkipSlowlog, Run: w.exec},
		{Name: "multi", Arity: 1, Traits: command.InMulti, Flags: anywhen, Run: multi},
		{Name: "unwatch", Arity: 1, Flags: anywhen, Run: w.unwatch},
		{Name: "watch", Arity: -2, Traits: command.InMulti, Flags: anywhen, Keys: command.EachArg(1, command.KeyRO),
			Run: w.watch},
	}}
}
