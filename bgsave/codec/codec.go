// Package codec converts values of each type to RDB and back. Each type has its file.
//
// Owner: writing happens on savers, from frozen values, or on the core. Reading happens on expanders, outside the turn.
// Structures are built in turns.
// Never: knows a keyspace, a file or a client. Package rdb has the layout of the format.
// Start here: a [Codec] is one type's row, and codecs.go lists them. expander.go reads and checks packed values;
// write.go writes.
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

// A Codec reads and writes one type, or one module's type.
type Codec struct {
	Type   value.Type
	Module string      // for value.Module: the nine characters of the module's type
	Root   memory.Kind // for value.Module: the kind of the value's root
	Kinds  []rdb.Kind  // the kinds that Read reads

	// Kind returns the kind in which v is written for readers of this RDB version (10 to 12). If only a newer version
	// can hold the value, it returns the newer kind.
	Kind func(v value.Value, newest int) rdb.Kind
	// Write writes the value in the kind that Kind returned. Any goroutine, if v is frozen.
	Write func(w *rdb.Writer, kind rdb.Kind, v value.Value)
	// Read reads a value and checks the parts that Start does not check. Any goroutine.
	//
	// Errors: ErrEmpty; every other error means that the value is damaged.
	Read func(x *Expander, kind rdb.Kind, r *rdb.Reader) (Ready, error)
	// Start begins to build a value that Read did not pack. Turn only.
	Start func(s Source) Builder
}

// Ready is a value as Read returns it.
//
// Lifetime: until the Expander's Reset.
type Ready struct {
	Encoding value.Encoding // the encoding that the value will have
	// Packed is a checked listpack or intset. If Encoding is packed, it is the value. Otherwise Read has prepared it
	// for Start. If it is nil, Start reads the bytes of the file and checks them.
	Packed         []byte
	FieldsDeadline int64 // the earliest deadline of a field in Packed, Unix ms; 0: none
}

// A Source is the input of Start.
//
// Lifetime: until the value is built.
type Source struct {
	Kind     rdb.Kind
	Raw      []byte // the value's bytes; of a module's, those after the id
	Packed   []byte // from Ready, or nil
	Encoding value.Encoding
	Store    *value.Store
	Env      *Env

	ModuleVersion int // the module's version of its format
}

// A Builder builds a structure in slices. The structure belongs to no keyspace yet, so no view can read it. Its tables
// and trees are opened as moved, because they have no fixed position.
type Builder interface {
	// Step adds about n elements. done means that the value is complete and valid.
	// Errors: those of Read.
	Step(n int) (done bool, err error)
	// Root returns the structure so far, in a state that can be freed. It returns 0 before the first element.
	Root() memory.Ref
}

// Deadlines is implemented by builders of hashes and streams. When the value is done, PartsDeadline returns the first
// deadline of a hash field, or of a remembered message name. 0 means none.
type Deadlines interface{ PartsDeadline() int64 }

// Env is what reading depends on besides the bytes. Expired hash fields are read like others, because the keyspace
// handles expiry.
type Env struct {
	Limits    Limits
	MaxFilter uint64 // the most bytes of a Bloom filter that a client may restore; 0: no bound, for files
	Now       int64  // Unix ms, when Start is called
}

// Limits are the sizes up to which values are packed, as set by the settings of these names.
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

// ErrEmpty is the error for a value without elements. Files of old servers have keys with such values, which are
// skipped.
var ErrEmpty = errors.New("a value without elements")

// of has the codec of each kind, by number.
var of = index(codecs)

func index(list []*Codec) (rows [rdb.Kinds]*Codec) {
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

// forRaw returns the codec that reads a value, or nil. rest is the value without a module's id; version is the version
// of that module's format.
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

// Known reports whether some codec can read a value. If none can, what names the kind or module.
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

// TypeOf returns the type as which a kind is read, or None if no codec reads it.
func TypeOf(kind rdb.Kind, raw []byte) value.Type {
	if c, _, _ := forRaw(kind, raw); c != nil {
		return c.Type
	}
	if kind == rdb.KindString {
		return value.String
	}
	return value.None
}

// forValue returns the codec that writes v.
func forValue(v value.Value) *Codec {
	for _, c := range codecs {
		if c.Type == v.Type() && (c.Module == "" || v.Rooted() && value.HeaderAt(v.Root()).Kind() == c.Root) {
			return c
		}
	}
	return nil
}
