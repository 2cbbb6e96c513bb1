// Package hash is the value of a hash: fields with their values, each with an optional deadline.
//
// Owner: the core changes it, through a value.Edit. Any goroutine may read live and frozen values (R4).
// Never: looks at the clock, removes a field because of a read, or knows a command, client or reply.
// Start here: the encodings. read.go and walk.go read a hash, set.go and expire.go change it. packed.go and fields.go
// implement the two forms of a hash.
package hash

import (
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A hash is stored in one of three encodings, which have the names that OBJECT ENCODING shows:
//
//	listpack    | field | value | field | value | …                  in order of arrival
//	listpackex  | field | value | deadline | …                       those with a deadline first, the earliest in front
//	hashtable   root: Header, table.State ─▶ blocks of layout Field
//
// hash.H1. In a listpackex a deadline of 0 means none. Deadlines ascend; fields without one come last.
// hash.H2. Fields are different from each other.
// hash.H3. A listpack becomes a listpackex when a field is to get a deadline. Both become a hashtable when they exceed
// the limits. No hash changes back. So two servers that get the same commands have the same encodings.
type root struct {
	value.Header
	fields table.State
}

var _ [value.HeaderBytes + table.StateBytes]byte = [unsafe.Sizeof(root{})]byte{}

func rootAt(ref memory.Ref) *root { return (*root)(memory.Pointer(ref)) }

// Limits are the limits up to which a hash stays a listpack.
type Limits struct {
	Entries int // fields: hash-max-listpack-entries
	Value   int // bytes of a field or value: hash-max-listpack-value
}

// Holds reports whether a hash may be a listpack if it has these pairs, fields and values in turn.
func (l Limits) Holds(pairs [][]byte) bool {
	if len(pairs)/2 > l.Entries {
		return false
	}
	sum := 0
	for _, p := range pairs {
		if len(p) > l.Value {
			return false
		}
		sum += len(p) + listpack.MaxOverhead
	}
	return sum <= listpack.MaxBytes
}

// per returns the number of listpack elements that a field takes in a packed hash.
func per(enc value.Encoding) int {
	if enc == value.ListpackEx {
		return 3
	}
	return 2
}

// Len returns the number of fields. It includes fields past their deadline and not yet removed.
func Len(v value.Value) int {
	if lp := v.Packed(); lp != nil {
		return listpack.Count(lp) / per(v.Encoding())
	}
	return rootAt(v.Root()).fields.Len()
}

// Volatile reports whether fields may have deadlines.
func Volatile(v value.Value) bool {
	if v.Packed() != nil {
		return v.Encoding() == value.ListpackEx
	}
	return rootAt(v.Root()).fields.Volatile() > 0
}

// perField is about how many bytes a field of a hashtable costs. Measure uses it.
const perField = 64

// Structure is the set of functions that the keyspace uses for the root of a hashtable.
var Structure = value.Structure{
	Count:   func(ref memory.Ref) int { return rootAt(ref).fields.Len() },
	LenAt:   int(unsafe.Offsetof(root{}.fields)) + table.StateLen,
	Destroy: destroy,
	Measure: func(ref memory.Ref) int64 { return int64(rootAt(ref).fields.Len()) * perField },
	Cost: func(ref memory.Ref, samples int) int {
		t := table.Open(nil, table.Field, &rootAt(ref).fields, false)
		return memory.UsableSize(ref) + t.Cost(samples)
	},
	Copy: func(s *value.Store, ref memory.Ref) memory.Ref {
		t := table.Open(s.Heap, table.Field, &rootAt(ref).fields, false)
		dup := t.Copy()
		return newRoot(s, &dup)
	},
	Relocate: func(s *value.Store, ref memory.Ref, at *table.Spot, stop func() bool) (done bool) {
		return rootAt(ref).fields.Relocate(s.Heap, table.Field, at, stop)
	},
}

func destroy(r *memory.Returner, ref memory.Ref, budget int) (rest memory.Ref, spent int) {
	done, spent := rootAt(ref).fields.Destroy(r, budget)
	if !done {
		return ref, spent
	}
	r.Free(ref, memory.Values)
	return 0, spent + 1
}

// newRoot returns a root block for t.
func newRoot(s *value.Store, t *table.Table) memory.Ref {
	ref := s.NewRoot(value.KindHash, int(unsafe.Sizeof(root{})))
	rootAt(ref).fields = t.State()
	return ref
}
