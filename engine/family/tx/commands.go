// Package tx is transactions: MULTI queues, EXEC runs what was queued in one piece, WATCH makes EXEC conditional.
//
// Owner: the core; handlers and the registry of watches are used inside turns only.
// Never: runs a command itself (the core's Call does), keeps lent bytes, or knows another family.
// Start here; multi.go is the queue's life, watch.go who watches which key.
package tx

import "spindle/engine/command"

// anywhen are the rows that stand outside data and state: allowed while loading, on a stale replica, beside a busy
// script.
const anywhen = command.NoScript | command.Loading | command.Stale | command.Fast | command.AllowBusy

// Family is every transaction command, over these watches.
func (w *Watches) Family() command.Family {
	return command.Family{Name: "transactions", ACL: command.ACLTransaction, Rows: []command.Spec{
		{Name: "discard", Arity: 1, Traits: command.InMulti | command.LeavesMulti, Flags: anywhen, Run: w.discard},
		{Name: "exec", Arity: 1, Traits: command.RunsQueue | command.InMulti | command.LeavesMulti, Flags: command.NoScript | command.Loading | command.Stale | command.SkipSlowlog,
			Run: w.exec},
		{Name: "multi", Arity: 1, Traits: command.InMulti, Flags: anywhen, Run: multi},
		{Name: "unwatch", Arity: 1, Flags: anywhen, Run: w.unwatch},
		{Name: "watch", Arity: -2, Traits: command.InMulti, Flags: anywhen, Keys: command.EachArg(1, command.KeyRO), Run: w.watch},
	}}
}
