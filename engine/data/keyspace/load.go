package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// Loading is many keys that are not there yet, one after the other: Expect a key some way ahead, then add it under the hash Expect gave.

// Reserve says that about n keys are going to be there when a load has ended; 0 says that it has.
func (db *DB) Reserve(n int) { db.d.t.Reserve(n) }

// Expect starts the cache misses of adding key and returns its hash.
func (db *DB) Expect(key []byte) (hash uint64) {
	hash = table.Hash(key)
	db.d.t.TouchInsert(hash)
	return hash
}

// AddString is SetString of a key that is not there; false, and nothing done, if it is.
func (db *DB) AddString(hash uint64, key, val []byte, deadline int64) bool {
	if len(val) <= number.MaxIntLen {
		if n, ok := number.ParseInt(val); ok {
			return db.AddInt(hash, key, n, deadline)
		}
	}
	if _, ref := db.d.t.Find(hash, key); ref != 0 {
		return false
	}
	f := value.StringForm(len(key), len(val), deadline != 0)
	if f.Rooted {
		db.setRoot(key, db.k.store.NewLong(val), &f, deadline)
		return true
	}
	_, payload := db.insert(hash, key, &f, deadline)
	copy(value.PayloadBytes(payload, len(val)), val)
	db.touched(key)
	return true
}

// AddInt is AddString of n's decimal form.
func (db *DB) AddInt(hash uint64, key []byte, n, deadline int64) bool {
	if _, ref := db.d.t.Find(hash, key); ref != 0 {
		return false
	}
	f := value.Form{Type: value.String, Encoding: value.Int, KeyLen: len(key)}
	_, payload := db.insert(hash, key, &f, deadline)
	*(*int64)(payload) = n
	db.touched(key)
	return true
}

// AddPacked is PutPacked of a key that is not there; false, and nothing done, if it is.
func (db *DB) AddPacked(hash uint64, key []byte, t value.Type, enc value.Encoding, b []byte, deadline int64) bool {
	if _, ref := db.d.t.Find(hash, key); ref != 0 {
		return false
	}
	db.k.store.Used.Note(t, enc)
	f := value.PackedForm(t, enc, len(key), len(b), deadline != 0)
	root, to := memory.Ref(0), b
	if f.Rooted {
		root, to = db.k.store.NewPacked(len(b))
		copy(to, b)
	}
	_, payload := db.insert(hash, key, &f, deadline)
	if f.Rooted {
		*(*memory.Ref)(payload) = root
	} else {
		copy(value.PayloadBytes(payload, len(b)), b)
	}
	db.touched(key)
	return true
}
