// Package bitmap implements the commands on strings as arrays of bits. They read and write single bits, and integers of
// any width. They count, search and combine bits.
//
// Owner: the core; every handler runs inside a turn.
// Never: keeps lent bytes, blocks, or knows another family.
// Start here: each row is a command. bit.go reads the offsets for all of them; count.go, op.go and field.go use it.
//
// Bit 0 is the most significant bit of the first byte. Bits past the end of a string read as 0.
package bitmap

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/protocol"
)

const (
	write   = command.Write | command.DenyOOM
	access  = command.KeyRO | command.KeyAccess
	rewrite = command.KeyRW | command.KeyAccess | command.KeyUpdate
)

// Family is every command on bits.
var Family = command.Family{Name: "bitmap", ACL: command.ACLBitmap, Rows: []command.Spec{
	{Name: "bitcount", Arity: -2, Flags: command.ReadOnly, Keys: command.FirstArg(access), Run: bitCount},
	{Name: "bitfield", Arity: -2, Flags: write | command.Brief, Keys: fieldKey, Run: bitField, GetKeys: fieldKeys},
	{Name: "bitfield_ro", Arity: -2, Flags: command.ReadOnly | command.Fast, Keys: command.FirstArg(access),
		Run: bitFieldRO},
	{Name: "bitop", Arity: -4, Flags: write, Keys: opKeys, Run: bitOp},
	{Name: "bitpos", Arity: -3, Flags: command.ReadOnly, Keys: command.FirstArg(access), Run: bitPos},
	{Name: "getbit", Arity: 3, Flags: command.ReadOnly | command.Fast, Keys: command.FirstArg(access), Run: getBit},
	{Name: "setbit", Arity: 4, Flags: write | command.Brief, Keys: command.FirstArg(rewrite), Run: setBit},
}}

var fieldKey = []command.KeySpec{{
	Flags: rewrite | command.KeyVariableFlags, Index: 1, LastKey: 0, Step: 1,
	Notes: "This command allows both access and modification of the key",
}}

var opKeys = []command.KeySpec{
	{Flags: command.KeyOW | command.KeyUpdate, Index: 2, LastKey: 0, Step: 1},
	{Flags: access, Index: 3, LastKey: -1, Step: 1},
}

func readString(c *command.Context, key []byte) (value.Value, error) {
	return c.Find(key, value.String)
}

// writeString looks key up for changing it. A missing key gives the zero Value and no error.
//
// Errors: ErrWrongType.
func writeString(c *command.Context, key []byte) (value.Value, error) {
	v := c.DB.LookupWrite(key)
	if !v.Exists() {
		return v, nil
	}
	return v, mustBeString(v)
}

func mustBeString(v value.Value) error {
	if v.Type() != value.String {
		return protocol.ErrWrongType
	}
	return nil
}

// length is v's length in bytes, 0 for a missing key.
func length(v value.Value) int {
	if !v.Exists() {
		return 0
	}
	return v.Len()
}
