// Package hll implements HyperLogLog: PFADD, PFCOUNT and PFMERGE on sketches that are stored as strings.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, trusts a string to be a sketch, or knows another family.
// Start here: each row is a command. sketch.go has the layout of a sketch, sparse.go and dense.go its two forms.
// estimate.go computes the estimate.
package hll

import (
	"spindle/engine/command"
	"spindle/internal/setting"
)

type Settings struct {
	SparseMax setting.Int // hll-sparse-max-bytes, with the header: a sparse sketch that grows past it becomes dense
}

const defaultSparseMax = 3000

func (s *Settings) Rows() []setting.Row {
	return []setting.Row{setting.NewMemory("hll-sparse-max-bytes", &s.SparseMax, defaultSparseMax,
		setting.Between(0, 1<<63-1))}
}

// commands holds the settings and buffers that all handlers share.
//
// Owner: the turn; each call empties the buffers.
type commands struct {
	settings *Settings
	room     []byte // a sparse sketch under construction
	dense    [denseSize]byte
	union    registers
}

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
