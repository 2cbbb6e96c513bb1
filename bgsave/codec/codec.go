// Package codec is how values of each type become RDB and values again: a file a type.
//
// Owner: what writes runs on savers, from frozen values, or on the core; what reads runs on expanders, beside the turn;
// what builds structures runs in turns.
// Never: knows a keyspace, a file or a client. What stands where in the format is rdb's.
// Start here: a [Codec] is one type's row, codecs.go has them all. expander.go reads and proves packed values, write.go
// writes.
//
//	frozen value ──Codec.Write──▶ rdb.Writer                                        saver
//	record ──Codec.Read──▶ listpack or intset, proven ──────────────▶ PutPacked     expander, turn
//	                   └─▶ not packed ──Codec.Start──▶ Builder.Step… ──▶ PutRoot    turns, a slice each
package codec

import (
	"errors"
	"fmt"

	"spindle/bgsave/rdb"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// A Codec is one type, or one type of a module, in RDB.
type Codec struct {
	Type   value.Type
	Module string      // of value.Module: the nine characters of its name
	Root   memory.Kind // of value.Module: what hangs off its entries
	Kinds  []rdb.Kind  // what Read knows

	// Kind is how v is written so that readers of this RDB version (10 to 12) know it; what only a newer one can say is
	// said in that.
	Kind func(v value.Value, newest int) rdb.Kind
	// Write writes the value, as Kind said. Any goroutine, when v is frozen.
	Write func(w *rdb.Writer, kind rdb.Kind, v value.Value)
	// Read reads a value from its beginning, and proves it, as far as it is not left to Start. Any goroutine.
	//
	// Errors: ErrEmpty; any other is a value that is damaged.
	Read func(x *Expander, kind rdb.Kind, r *rdb.Reader) (Ready, error)
	// Start begins the structure of a value that Read has not found fit to be packed. Turn.
	Start func(s Source) Builder
}

// Ready is what Read makes of a value.
//
// Lifetime: the Expander's round.
type Ready struct {
	Encoding value.Encoding // what it is going to be
	// Packed is a listpack or an intset, proven. It goes in as it is, if that is the encoding; otherwise it is what
	// Read has prepared for Start, or nil: then Start has the value as it stood in the file, and proves it.
	Packed         []byte
	FieldsDeadline int64 // the least deadline of a field in Packed, Unix ms; 0 for none
}

// A Source is what Start begins with.
//
// Lifetime: until the value is built.
type Source struct {
	Kind     rdb.Kind
	Raw      []byte // the value from its first byte; a module's, from behind the id
	Packed   []byte // Ready's, or nil
	Encoding value.Encoding
	Store    *value.Store
	Env      *Env

	ModuleVersion int // of a module's: of its own format
}

// A Builder builds a structure in slices. It belongs to no keyspace meanwhile, so that no view can read it: it opens
// tables and trees as moved, because no position is its own.
type Builder interface {
	// Step puts about n more elements in. done says that it was all, and right. Errors: those of Read.
	Step(n int) (done bool, err error)
	// Root is what there is so far, whole in itself, so that it can be let go; 0 before there is anything.
	Root() memory.Ref
}

// Deadlines is what a Builder of hashes knows besides: the least deadline of a field, once it is done; 0 for none.
type Deadlines interface{ FieldsDeadline() int64 }

// Env is what reading goes by beside the bytes. Fields of hashes are read whether or not their deadline has passed:
// expiry is the keyspace's.
type Env struct {
	Limits    Limits
	MaxFilter uint64 // the most bytes of a Bloom filter that a client restores; 0: no bound, for files
}

// Limits say up to where a value is packed: the settings of these names.
type Limits struct {
	HashEntries, HashValue          int
	SetIntset, SetEntries, SetValue int
	ZSetEntries, ZSetValue          int
	ListSize, ListDepth             int
	StreamBytes, StreamEntries      int
}

// DefaultLimits are the settings' defaults.
var DefaultLimits = Limits{
	HashEntries: 512, HashValue: 64, SetIntset: 512, SetEntries: 128, SetValue: 64, ZSetEntries: 128, ZSetValue: 64,
	ListSize: -2, StreamBytes: 4096, StreamEntries: 100,
}

// ErrEmpty is a value without elements, which a key cannot have. Files of old servers hold such keys: they are passed
// over.
var ErrEmpty = errors.New("a value without elements")

// of is the row of a kind, by number.
var of = index(codecs)

func index(list []*Codec) (rows [256]*Codec) {
	for _, c := range list {
		if c.Module != "" {
			continue
		}
		for _, k := range c.Kinds {
			if rows[k] != nil {
				panic(fmt.Sprintf("two codecs read %s", k))
			}
			rows[k] = c
		}
	}
	return rows
}

// forRaw is the row that reads a value, and the value without what only finds the row, and of a module's its version of
// the format; nil if nobody reads it.
func forRaw(kind rdb.Kind, raw []byte) (c *Codec, rest []byte, version int) {
	if kind != rdb.KindModule2 {
		return of[kind], raw, 0
	}
	r := rdb.NewReader(raw)
	id, err := r.Length()
	if err != nil {
		return nil, nil, 0
	}
	name, version := rdb.ModuleName(id)
	for _, c := range codecs {
		if c.Module == name {
			return c, r.Rest(), version
		}
	}
	return nil, nil, 0
}

// Known says whether a value can be read, and, if not, what it is.
func Known(kind rdb.Kind, raw []byte) (known bool, what string) {
	if c, _, _ := forRaw(kind, raw); c != nil || kind == rdb.KindString {
		return true, ""
	}
	if kind == rdb.KindModule2 {
		r := rdb.NewReader(raw)
		if id, err := r.Length(); err == nil {
			name, version := rdb.ModuleName(id)
			return false, fmt.Sprintf("a value of module type %q (version %d)", name, version)
		}
	}
	return false, "a value of type " + kind.String()
}

// TypeOf is the type of what a kind is read as; None if nobody reads it.
func TypeOf(kind rdb.Kind, raw []byte) value.Type {
	if c, _, _ := forRaw(kind, raw); c != nil {
		return c.Type
	}
	if kind == rdb.KindString {
		return value.String
	}
	return value.None
}

// forValue is the row that writes v.
func forValue(v value.Value) *Codec {
	for _, c := range codecs {
		if c.Type == v.Type() && (c.Module == "" || v.Rooted() && value.HeaderAt(v.Root()).Kind() == c.Root) {
			return c
		}
	}
	return nil
}
