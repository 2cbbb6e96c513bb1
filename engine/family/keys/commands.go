// Package keys implements the commands that work on keys of any type, and on whole databases.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, looks inside a value, or knows another family.
// Start here: each row is a command. expire.go is deadlines, scan.go the walks, rename.go moves keys, flush.go handles
// whole databases. sort.go is SORT.
package keys

import "spindle/engine/command"

const (
	readFast  = command.ReadOnly | command.Fast
	writeFast = command.Write | command.Fast

	access = command.KeyRO | command.KeyAccess
	update = command.KeyRW | command.KeyUpdate
)

var (
	sumOfShards     = []string{"request_policy:multi_shard", "response_policy:agg_sum"}
	sumOfAll        = []string{"request_policy:all_shards", "response_policy:agg_sum"}
	allSucceeded    = []string{"request_policy:all_shards", "response_policy:all_succeeded"}
	changesByItself = []string{"nondeterministic_output"}
)

var Family = command.Family{Name: "generic", ACL: command.ACLKeyspace, Rows: []command.Spec{
	{Name: "copy", Arity: -3, Flags: command.Write | command.DenyOOM,
		Keys: fromTo(access, command.KeyOW|command.KeyUpdate), Databases: copyDatabases, Run: copyKey},
	{Name: "del", Arity: -2, Flags: command.Write, Keys: command.EachArg(1, command.KeyRM|command.KeyDelete),
		Tips: sumOfShards, Run: del},
	{Name: "exists", Arity: -2, Flags: readFast, Keys: command.EachArg(1, command.KeyRO), Tips: sumOfShards, Run: exists},
	{Name: "expire", Arity: -3, Flags: writeFast, Keys: command.FirstArg(update), Run: expire},
	{Name: "expireat", Arity: -3, Flags: writeFast, Keys: command.FirstArg(update), Run: expireAt},
	{Name: "expiretime", Arity: 2, Flags: readFast, Keys: command.FirstArg(access), Run: expireTime},
	{Name: "keys", Arity: 2, Flags: command.ReadOnly, ACL: command.ACLDangerous,
		Tips:  []string{"request_policy:all_shards", "nondeterministic_output_order"},
		Reads: command.ReadsAll("SCAN"), Run: keys},
	{Name: "move", Arity: 3, Flags: writeFast,
		Keys:      command.FirstArg(command.KeyRW | command.KeyAccess | command.KeyUpdate),
		Databases: command.DatabaseAt(2), Run: move},
	{Name: "object", Arity: -2, Subs: []command.Spec{
		{Name: "encoding", Arity: 3, Flags: command.ReadOnly, Keys: secondArg, Tips: changesByItself, Run: objectEncoding},
		{Name: "freq", Arity: 3, Flags: command.ReadOnly, Keys: secondArg, Tips: changesByItself, Run: objectFreq},
		{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: objectHelp},
		{Name: "idletime", Arity: 3, Flags: command.ReadOnly, Keys: secondArg, Tips: changesByItself, Run: objectIdleTime},
		{Name: "refcount", Arity: 3, Flags: command.ReadOnly, Keys: secondArg, Tips: changesByItself, Run: objectRefCount},
	}},
	{Name: "persist", Arity: 2, Flags: writeFast, Keys: command.FirstArg(update), Run: persist},
	{Name: "pexpire", Arity: -3, Flags: writeFast, Keys: command.FirstArg(update), Run: pexpire},
	{Name: "pexpireat", Arity: -3, Flags: writeFast, Keys: command.FirstArg(update), Run: pexpireAt},
	{Name: "pexpiretime", Arity: 2, Flags: readFast, Keys: command.FirstArg(access), Run: pexpireTime},
	{Name: "pttl", Arity: 2, Flags: readFast, Keys: command.FirstArg(access), Tips: changesByItself, Run: pttl},
	{Name: "randomkey", Arity: 1, Flags: command.ReadOnly | command.TouchesArbitraryKeys,
		Tips: []string{"request_policy:all_shards", "response_policy:special", "nondeterministic_output"}, Run: randomKey},
	{Name: "rename", Arity: 3, Flags: command.Write,
		Keys: fromTo(command.KeyRW|command.KeyAccess|command.KeyDelete, command.KeyOW|command.KeyUpdate), Run: rename},
	{Name: "renamenx", Arity: 3, Flags: writeFast,
		Keys: fromTo(command.KeyRW|command.KeyAccess|command.KeyDelete, command.KeyOW|command.KeyInsert), Run: renameNX},
	{Name: "scan", Arity: -2, Flags: command.ReadOnly | command.TouchesArbitraryKeys,
		Tips:  []string{"nondeterministic_output", "request_policy:special", "response_policy:special"},
		Reads: command.ReadsScan(2), Run: scan},
	{Name: "touch", Arity: -2, Flags: readFast, Keys: command.EachArg(1, command.KeyRO), Tips: sumOfShards, Run: touch},
	{Name: "ttl", Arity: 2, Flags: readFast, Keys: command.FirstArg(access), Tips: changesByItself, Run: ttl},
	{Name: "type", Arity: 2, Flags: readFast, Keys: command.FirstArg(command.KeyRO), Run: typeOf},
	{Name: "unlink", Arity: -2, Flags: writeFast, Keys: command.EachArg(1, command.KeyRM|command.KeyDelete),
		Tips: sumOfShards, Run: del},
}}

// Databases is every command on whole databases. COMMAND DOCS lists them in the group "server".
var Databases = command.Family{Name: "server", ACL: command.ACLKeyspace, Rows: []command.Spec{
	{Name: "dbsize", Arity: 1, Flags: readFast, Tips: sumOfAll, Run: dbSize},
	{Name: "flushall", Arity: -1, Traits: command.AllDatabases | command.Empties, Flags: command.Write,
		ACL: command.ACLDangerous, Tips: allSucceeded, Run: flushAll},
	{Name: "flushdb", Arity: -1, Traits: command.Empties, Flags: command.Write, ACL: command.ACLDangerous,
		Tips: allSucceeded, Run: flushDB},
	{Name: "swapdb", Arity: 3, Traits: command.AllKeys, Flags: writeFast, ACL: command.ACLDangerous,
		Databases: command.DatabaseAt(1, 2), Run: swapDB},
}}

var secondArg = []command.KeySpec{{Flags: command.KeyRO, Index: 2, LastKey: 0, Step: 1}}

// fromTo returns the specs of two keys with different flags.
func fromTo(from, to command.KeyFlags) []command.KeySpec {
	return []command.KeySpec{{Flags: from, Index: 1, LastKey: 0, Step: 1}, {Flags: to, Index: 2, LastKey: 0, Step: 1}}
}
