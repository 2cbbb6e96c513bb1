package codec

import (
	"spindle/bgsave/rdb"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// Versions of the format: what is written at least, and what at most.
const (
	OldestVersion = 9  // strings, deadlines and clocks
	CommonVersion = 10 // of Redis 7.0, which every later one reads
	NewestVersion = rdb.MaxVersion
)

// Version is the lowest RDB version that can say what a keyspace with these encodings holds, written for readers of
// version newest. deadlines says that a hash has fields with deadlines now, in whatever encoding.
func Version(used value.Encodings, newest int, deadlines bool) int {
	version := OldestVersion
	need := func(v int, t value.Type, encodings ...value.Encoding) {
		for _, e := range encodings {
			if used.Has(t, e) {
				version = max(version, v)
			}
		}
	}
	need(10, value.Hash, value.Listpack)
	need(10, value.ZSet, value.Listpack)
	need(10, value.List, value.Listpack, value.Quicklist)
	need(min(11, newest), value.Set, value.Listpack) // an older reader gets it element by element
	need(max(10, min(11, newest)), value.Stream, value.StreamTree)
	if newest >= 12 { // else one without deadlines goes field by field
		need(12, value.Hash, value.ListpackEx)
	}
	if deadlines {
		version = max(version, 12)
	}
	return version
}

// Kind is how v is written for readers of RDB version newest.
func Kind(v value.Value, newest int) rdb.Kind {
	if v.Type() == value.String {
		return rdb.KindString
	}
	c := forValue(v)
	invariant.That(c != nil, "no codec writes a %s", v.Type())
	if c.Module != "" {
		return rdb.KindModule2
	}
	return c.Kind(v, newest)
}

// Write writes v's value as kind, which Kind gave.
func Write(w *rdb.Writer, kind rdb.Kind, v value.Value) {
	if v.Type() != value.String {
		forValue(v).Write(w, kind, v)
		return
	}
	if n, ok := v.Int(); ok {
		w.Int(n)
	} else if b, ok := v.Contiguous(); ok {
		w.Text(b)
	} else {
		w.Long(v.Len(), v.Chunks)
	}
}
