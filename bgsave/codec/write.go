package codec

import (
	"spindle/bgsave/rdb"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// RDB versions that this package writes.
const (
	OldestVersion = 9  // strings, deadlines and clocks
	CommonVersion = 10 // of Redis 7.0; all later servers read it
	NewestVersion = 12 // of Redis 7.4
	MemoryVersion = 13 // of Redis 8.6: streams keep their memory of producers' messages
	ValkeyVersion = rdb.ValkeyVersion
)

// Version returns the lowest RDB version that can hold values with these encodings, for readers of version newest.
// deadlines means that some hash has fields with deadlines, in any encoding. Only such hashes need Valkey's own
// version.
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
	need(min(11, newest), value.Set, value.Listpack) // an older reader gets single members
	need(max(10, min(11, newest)), value.Stream, value.StreamTree)
	if redis := rdb.DialectOf(newest) == rdb.Redis; redis && newest >= NewestVersion {
		need(12, value.Hash, value.ListpackEx) // without deadlines, other readers get single fields
		if newest >= MemoryVersion {
			need(MemoryVersion, value.Stream, value.StreamProducers)
		}
	}
	switch {
	case deadlines && newest == ValkeyVersion:
		version = ValkeyVersion
	case deadlines:
		version = max(version, 12)
	}
	return version
}

// Kind returns the kind in which v is written for readers of RDB version newest.
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

// Write writes v's value in the kind that Kind returned.
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
