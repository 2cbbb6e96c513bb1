// Package set implements the commands on sets.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: each row is a command. member.go handles single members, read.go whole sets, random.go random members,
// combine.go several sets.
package set

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
	"spindle/protocol"
)

const (
	write = command.Write | command.DenyOOM
	read  = command.ReadOnly
	fast  = command.Fast

	access = command.KeyRO | command.KeyAccess
	take   = command.KeyRW | command.KeyAccess | command.KeyDelete
	insert = command.KeyRW | command.KeyInsert
)

// commands holds buffers that all handlers share.
//
// Owner: the turn; each call empties them.
type commands struct {
	building  set.Builder // a result
	excluding set.Builder // the members that SDIFF removes
	minuend   set.Builder // a copy of SDIFF's first set
	sampler   set.Sampler
	sources   []source
	at        *command.Reading // where the sources are read, and the result is replied
	limits    set.Limits
	limit     int64 // of SINTERCARD and its kin
	found     []set.Element
	others    []set.Reader
	text      []byte
	batch     [][]byte
}

func Family() command.Family { return (&commands{}).family() }

func (s *commands) family() command.Family {
	unordered := []string{"nondeterministic_output_order"}
	random := []string{"nondeterministic_output"}
	return command.Family{Name: "set", ACL: command.ACLSet, Rows: []command.Spec{
		{Name: "sadd", Arity: -3, Flags: write | fast, Keys: command.FirstArg(insert), Run: s.add},
		{Name: "scard", Arity: 2, Flags: read | fast, Keys: command.FirstArg(command.KeyRO), Run: card},
		{Name: "sdiff", Arity: -2, Flags: read, Keys: command.EachArg(1, access), Tips: unordered,
			Reads: command.ReadsAll("SSCAN"), Run: s.diff},
		{Name: "sdiffcard", Arity: -3, Flags: read | command.MovableKeys, Keys: counted,
			Reads: command.ReadsAll("SSCAN"), Run: s.diffCard},
		{Name: "sdiffstore", Arity: -3, Flags: write, Keys: stored, Run: s.diffStore},
		{Name: "sinter", Arity: -2, Flags: read, Keys: command.EachArg(1, access), Tips: unordered,
			Reads: command.ReadsAll("SSCAN"), Run: s.inter},
		{Name: "sintercard", Arity: -3, Flags: read | command.MovableKeys, Keys: counted,
			Reads: command.ReadsAll("SSCAN"), Run: s.interCard},
		{Name: "sinterstore", Arity: -3, Flags: write, Keys: stored, Run: s.interStore},
		{Name: "sismember", Arity: 3, Flags: read | fast, Keys: command.FirstArg(command.KeyRO), Run: isMember},
		{Name: "smembers", Arity: 2, Flags: read, Keys: command.FirstArg(access), Tips: unordered,
			Reads: command.ReadsAll("SSCAN"), Run: members},
		{Name: "smismember", Arity: -3, Flags: read | fast, Keys: command.FirstArg(access), Run: areMembers},
		{Name: "smove", Arity: 4, Flags: command.Write | fast, Keys: moved, Run: s.move},
		{Name: "spop", Arity: -2, Flags: command.Write | fast, Keys: command.FirstArg(take), Tips: random, Run: s.pop},
		{Name: "srandmember", Arity: -2, Flags: read, Keys: command.FirstArg(access), Tips: random,
			Reads: command.ReadsPicked, Run: s.randMember},
		{Name: "srem", Arity: -3, Flags: command.Write | fast,
			Keys: command.FirstArg(command.KeyRW | command.KeyDelete), Run: rem},
		{Name: "sscan", Arity: -3, Flags: read, Keys: command.FirstArg(access), Tips: random,
			Reads: command.ReadsScan(3), Run: s.scan},
		{Name: "sunion", Arity: -2, Flags: read, Keys: command.EachArg(1, access), Tips: unordered,
			Reads: command.ReadsAll("SSCAN"), Run: s.union},
		{Name: "sunioncard", Arity: -3, Flags: read | command.MovableKeys, Keys: counted,
			Reads: command.ReadsAll("SSCAN"), Run: s.unionCard},
		{Name: "sunionstore", Arity: -3, Flags: write, Keys: stored, Run: s.unionStore},
	}}
}

var (
	stored = []command.KeySpec{
		{Flags: command.KeyOW | command.KeyUpdate, Index: 1, Step: 1},
		{Flags: access, Index: 2, LastKey: -1, Step: 1},
	}
	counted = []command.KeySpec{{Flags: access, Index: 1, KeyNum: true, FirstKey: 1, KeyStep: 1}}
	moved   = []command.KeySpec{
		{Flags: take, Index: 1, Step: 1},
		{Flags: insert, Index: 2, Step: 1},
	}
)

// lookup finds the set at key for reading. If there is none, it publishes a miss, and returns the zero Value and no
// error.
//
// Errors: ErrWrongType.
func lookup(c *command.Context, key []byte) (value.Value, error) { return c.Find(key, value.Set) }

// edit finds the set at key for changing it. It returns nil and no error for a missing key.
//
// Errors: ErrWrongType.
func edit(c *command.Context, key []byte) (*value.Edit, error) { return c.FindEdit(key, value.Set) }

func mustBeSet(v value.Value) error {
	if v.Type() != value.Set {
		return protocol.ErrWrongType
	}
	return nil
}

func answerBool(c *command.Context, b bool) {
	if b {
		c.Reply.Int(1)
	} else {
		c.Reply.Int(0)
	}
}

func answer(r *protocol.Reply, e set.Element) {
	if e.IsInt {
		r.BulkInt(e.Int)
	} else {
		r.Bulk(e.Bytes())
	}
}
