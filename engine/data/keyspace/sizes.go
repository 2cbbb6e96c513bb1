package keyspace

import (
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// The sizes of keys, as INFO keysizes shows them: for each type and power of two, the number of keys of that size. The
// size of a string is its length; the size of a collection is its number of elements. Streams and module types are not
// counted.
//
// keyspace.Z1. Between commands each key is counted under its present size. Code that gives a key a value, and Touched,
// call resize.
// keyspace.Z2. A key that a Writer or Loader has written is counted when it enters the table (keyspace.L1).

// resize counts the key of v under the present size of v (keyspace.Z1).
func (db *DB) resize(v value.Value) {
	if c := db.k.store.SizeOf(v); c != v.SizeClass() {
		db.d.t.Resize(v, c)
	}
}

// Sizes yields the bins of type t that have keys. A bin holds sizes from least to below twice least. least is 0 for
// empty strings.
func (db *DB) Sizes(t value.Type) func(yield func(least uint64, keys int64) bool) {
	db.k.assertHeld()
	return func(yield func(least uint64, keys int64) bool) {
		sizes := db.d.t.Sizes()
		if sizes == nil || db.Len() == 0 {
			return
		}
		for c, n := range sizes[t] {
			if n != 0 && !yield(value.SizeClass(c).Least(), n) {
				return
			}
		}
	}
}

// CheckSizes panics if a key is counted under a wrong size (keyspace.Z1). It counts all keys, but only if there are at
// most most keys. It does nothing in builds that do not check.
func (k *Keyspace) CheckSizes(most int) {
	k.assertHeld()
	if !invariant.Enabled {
		return
	}
	for i := range k.dbs {
		if most -= k.dbs[i].d.t.Len(); most < 0 {
			return
		}
	}
	for i := range k.dbs {
		db := &k.dbs[i]
		var counted value.Sizes
		for ref := range db.d.t.All {
			v := value.At(ref)
			c := k.store.SizeOf(v)
			if c != v.SizeClass() {
				invariant.That(false, "keyspace.Z1: %q, a %s of size class %d, is counted under %d", v.Key(), v.TypeName(), c,
					v.SizeClass())
			}
			if c != 0 {
				counted[v.Type()][c]++
			}
		}
		if sizes := db.d.t.Sizes(); sizes != nil {
			invariant.That(*sizes == counted, "keyspace.Z1: database %d has %v, and counts %v", i, counted, *sizes)
		} else {
			invariant.That(counted == value.Sizes{}, "keyspace.Z1: database %d has %v, and counts nothing", i, counted)
		}
	}
}
