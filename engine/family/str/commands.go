// Package str implements the string commands: SET and GET, counters, pieces of strings, several keys at once.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: each row is a command. set.go and get.go are the two that matter most; expiry.go reads the options that
// they share.
package str

import "spindle/engine/command"

const (
	write = command.Write | command.DenyOOM
	// These are flags of a key argument that is read (access), changed or replaced.
	access   = command.KeyRO | command.KeyAccess
	rewrite  = command.KeyRW | command.KeyAccess | command.KeyUpdate
	replace  = command.KeyOW | command.KeyUpdate
	create   = command.KeyOW | command.KeyInsert
	takeAway = command.KeyRW | command.KeyAccess | command.KeyDelete
	remove   = command.KeyRM | command.KeyDelete
)

var (
	multiShard   = []string{"request_policy:multi_shard"}
	allSucceeded = []string{"request_policy:multi_shard", "response_policy:all_succeeded"}
)

var Family = command.Family{Name: "string", ACL: command.ACLString, Rows: []command.Spec{
	{Name: "append", Arity: 3, Flags: write | command.Fast,
		Keys: command.FirstArg(command.KeyRW | command.KeyInsert), Run: appendTo},
	{Name: "decr", Arity: 2, Flags: write | command.Fast, Keys: command.FirstArg(rewrite), Run: decr},
	{Name: "decrby", Arity: 3, Flags: write | command.Fast, Keys: command.FirstArg(rewrite), Run: decrBy},
	{Name: "delex", Arity: -2, Flags: command.Write | command.Fast,
		Keys: command.FirstArg(command.KeyRW | command.KeyDelete | command.KeyVariableFlags), Run: delEx, GetKeys: delExKeys},
	{Name: "delifeq", Arity: 3, Flags: command.Write | command.Fast, Keys: command.FirstArg(remove), Run: delIfEq},
	{Name: "digest", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.FirstArg(access), Run: digest},
	{Name: "get", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.FirstArg(access), Run: get},
	{Name: "getdel", Arity: 2, Flags: command.Write | command.Fast, Keys: command.FirstArg(takeAway), Run: getDel},
	{Name: "getex", Arity: -2, Flags: command.Write | command.Fast,
		Keys: noted(rewrite, "RW and UPDATE because it changes the TTL"), Run: getEx},
	{Name: "getrange", Arity: 4, Flags: command.ReadOnly, Keys: command.FirstArg(access), Run: getRange},
	{Name: "getset", Arity: 3, Flags: write | command.Fast, Keys: command.FirstArg(rewrite), Run: getSet},
	{Name: "incr", Arity: 2, Flags: write | command.Fast, Keys: command.FirstArg(rewrite), Run: incr},
	{Name: "incrby", Arity: 3, Flags: write | command.Fast, Keys: command.FirstArg(rewrite), Run: incrBy},
	{Name: "incrbyfloat", Arity: 3, Flags: write | command.Fast, Keys: command.FirstArg(rewrite), Run: incrByFloat},
	{Name: "increx", Arity: -2, Flags: write | command.Fast, Keys: command.FirstArg(rewrite), Run: incrEx},
	{Name: "lcs", Arity: -3, Flags: command.ReadOnly,
		Keys: []command.KeySpec{{Flags: access, Index: 1, LastKey: 1, Step: 1}}, Run: lcs},
	{Name: "mget", Arity: -2, Flags: command.ReadOnly | command.Fast, Keys: command.EachArg(1, access),
		Tips: multiShard, Run: mget},
	{Name: "mset", Arity: -3, Flags: write | command.Brief, Keys: command.EachArg(2, replace),
		Tips: allSucceeded, Run: mset},
	{Name: "msetex", Arity: -4, Flags: write | command.Brief,
		Keys: []command.KeySpec{{Flags: replace, Index: 1, KeyNum: true, FirstKey: 1, KeyStep: 2}},
		Tips: allSucceeded, Run: msetEx},
	{Name: "msetnx", Arity: -3, Flags: write | command.Brief, Keys: command.EachArg(2, create), Run: msetNX},
	{Name: "psetex", Arity: 4, Flags: write | command.Brief, Keys: command.FirstArg(replace), Run: psetEx},
	{Name: "set", Arity: -3, Flags: write | command.Brief,
		Keys: noted(rewrite|command.KeyVariableFlags, "RW and ACCESS due to the optional `GET` argument"), Run: set,
		GetKeys: setKeys},
	{Name: "setex", Arity: 4, Flags: write | command.Brief, Keys: command.FirstArg(replace), Run: setEx},
	{Name: "setnx", Arity: 3, Flags: write | command.Fast, Keys: command.FirstArg(create), Run: setNX},
	{Name: "setrange", Arity: 4, Flags: write, Keys: command.FirstArg(command.KeyRW | command.KeyUpdate), Run: setRange},
	{Name: "strlen", Arity: 2, Flags: command.ReadOnly | command.Fast, Keys: command.FirstArg(command.KeyRO), Run: strlen},
	{Name: "substr", Arity: 4, Flags: command.ReadOnly, Keys: command.FirstArg(access), Run: getRange},
}}

// noted returns the key spec of one key, the first argument, with a note for COMMAND INFO.
func noted(f command.KeyFlags, note string) []command.KeySpec {
	k := command.FirstArg(f)
	k[0].Notes = note
	return k
}

// setKeys reports that SET also reads its key if it has the option GET or a comparison (COMMAND GETKEYSANDFLAGS, ACL).
func setKeys(into []command.KeyPosition, args [][]byte) ([]command.KeyPosition, error) {
	flags := replace
	for _, a := range args[min(3, len(args)):] {
		if command.Is(a, "GET") || comparisonOf(a) != always {
			flags = rewrite
		}
	}
	return append(into, command.KeyPosition{Index: 1, Flags: flags}), nil
}

// delExKeys reports that DELEX also reads its key if it has a condition.
func delExKeys(into []command.KeyPosition, args [][]byte) ([]command.KeyPosition, error) {
	flags := remove
	if len(args) > 2 {
		flags = takeAway
	}
	return append(into, command.KeyPosition{Index: 1, Flags: flags}), nil
}
