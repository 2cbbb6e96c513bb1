// Package hll is HyperLogLog: PFADD, PFCOUNT and PFMERGE on sketches that are kept as strings.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, trusts a string to be a sketch, or knows another family.
// Start here: a row a command. sketch.go has the bytes of a sketch, sparse.go and dense.go its two forms, estimate.go
// what is read off it.
package hll

import (
	"spindle/engine/command"
	"spindle/internal/setting"
)

// Settings are the family's parameters.
type Settings struct {
	SparseMax setting.Int // hll-sparse-max-bytes, header included: a sparse sketch that would grow past it becomes dense
}

const defaultSparseMax = 3000

// Rows are the settings as CONFIG knows them.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{setting.NewMemory("hll-sparse-max-bytes", &s.SparseMax, defaultSparseMax,
		setting.Between(0, 1<<63-1))}
}

// commands is what the handlers share: the settings, and room to work in that is kept from call to call.
//
// Owner: the turn; a call uses the room and leaves nothing in it for the next.
type commands struct {
	settings *Settings
	room     []byte // a sparse sketch being changed
	dense    [denseSize]byte
	union    registers
}

// Family is every HyperLogLog command.
func Family(s *Settings) command.Family {
	h := &commands{settings: s}
	return command.Family{Name: "hyperloglog", ACL: command.ACLHyperLogLog, Rows: []command.Spec{
		{Name: "pfadd", Arity: -2, Flags: command.Write | command.DenyOOM | command.Fast,
			Keys: command.FirstArg(command.KeyRW | command.KeyInsert), Run: h.add},
		{Name: "pfcount", Arity: -2, Flags: command.ReadOnly | command.MayReplicate, Keys: counted, Run: h.count},
		{Name: "pfdebug", Arity: 3, Flags: command.Write | command.DenyOOM | command.Admin, Keys: debugged, Run: h.debug},
		{Name: "pfmerge", Arity: -2, Flags: command.Write | command.DenyOOM, Keys: merged, Run: h.merge},
		{Name: "pfselftest", Arity: 1, Flags: command.Admin, Run: selfTest},
	}}
}

const rewritten = command.KeyRW | command.KeyAccess

var (
	counted = []command.KeySpec{{
		Flags: rewritten, Index: 1, LastKey: -1, Step: 1,
		Notes: "RW because it may change the internal representation of the key, and propagate to replicas",
	}}
	debugged = []command.KeySpec{{Flags: rewritten, Index: 2, Step: 1}}
	merged   = []command.KeySpec{
		{Flags: rewritten | command.KeyInsert, Index: 1, Step: 1},
		{Flags: command.KeyRO | command.KeyAccess, Index: 2, LastKey: -1, Step: 1},
	}
)
