package keyspace

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// Edit finds key for a command that changes it in place; nil when there is none. Expiry and clock as LookupWrite. The command looks at
// the type first, and calls Touched when it has changed something.
//
// Lifetime: value.Edit, K1: until the third Edit, Create or Put after it.
func (db *DB) Edit(key []byte) *value.Edit {
	k, at := db.k, unsafe.SliceData(key)
	if k.again == at && at != nil {
		if e := db.editAgain(key); e != nil {
			return e
		}
	}
	p, ref := db.find(key)
	if ref == 0 {
		return nil
	}
	v := value.At(ref)
	if v.Volatile() && v.Deadline() < k.now && db.pastDue(&p, v) {
		return nil
	}
	k.touch(v)
	e := db.edit(p.Hash(), ref)
	if k.again == at && at != nil { // find has filled last
		k.last.edit, k.last.editAt = e, k.editAt
	}
	return e
}

// editAgain is the Edit of key that was the last one handed out; nil if another one was, the entry may have moved, the value was replaced
// (K1), or the key has a deadline.
func (db *DB) editAgain(key []byte) *value.Edit {
	k := db.k
	l := &k.last
	if l.edit == nil || l.editAt != k.editAt || !l.holds(&db.d.t, key) {
		return nil
	}
	v := value.At(l.ref)
	if v.Volatile() {
		return nil
	}
	k.touch(v)
	l.edit.Enter()
	return l.edit
}

func (db *DB) edit(hash uint64, ref memory.Ref) *value.Edit {
	k := db.k
	e := &k.edits[k.editAt%uint(len(k.edits))]
	k.editAt++
	e.Begin(&k.store, &db.d.t, hash, ref)
	return e
}

// Create makes key, for which Edit gave nil, a collection whose listpack or intset has n bytes; e.Packed is to be written before anything
// else is done with the databases.
func (db *DB) Create(key []byte, t value.Type, enc value.Encoding, n int) *value.Edit {
	f := value.PackedForm(t, enc, len(key), n, false)
	db.k.store.Used.Note(t, enc)
	hash := db.vacate(key)
	ref, payload := db.insert(hash, key, &f, 0)
	if f.Rooted {
		*(*memory.Ref)(payload), _ = db.k.store.NewPacked(n)
	}
	return db.edit(hash, ref)
}

// CreateRoot makes key, for which Edit gave nil, a collection that hangs off root (Store.NewRoot), which belongs to the keyspace then.
func (db *DB) CreateRoot(key []byte, t value.Type, enc value.Encoding, root memory.Ref) *value.Edit {
	f := value.RootForm(t, enc, len(key), false)
	db.k.store.Used.Note(t, enc)
	hash := db.vacate(key)
	ref, payload := db.insert(hash, key, &f, 0)
	*(*memory.Ref)(payload) = root
	return db.edit(hash, ref)
}

// vacate removes a hidden key that is in the way and returns key's hash.
func (db *DB) vacate(key []byte) uint64 {
	p, ref := db.find(key)
	if ref != 0 {
		db.remove(&p, ref)
	}
	return p.Hash()
}

// PutPacked makes key a collection whose listpack or intset is b, whatever was there. deadline as for SetString. Returns whether the key is
// new.
func (db *DB) PutPacked(key []byte, t value.Type, enc value.Encoding, b []byte, deadline int64) (created bool) {
	f := value.PackedForm(t, enc, len(key), len(b), deadline != 0)
	db.k.store.Used.Note(t, enc)
	if f.Rooted {
		root, to := db.k.store.NewPacked(len(b))
		copy(to, b)
		return db.setRoot(key, root, &f, deadline)
	}
	payload, created := db.place(key, &f, deadline)
	copy(value.PayloadBytes(payload, len(b)), b)
	db.touched(key)
	return created
}

// PutRoot makes key a collection that hangs off root (Store.NewRoot), which belongs to the keyspace then; otherwise as PutPacked.
func (db *DB) PutRoot(key []byte, t value.Type, enc value.Encoding, root memory.Ref, deadline int64) (created bool) {
	f := value.RootForm(t, enc, len(key), deadline != 0)
	db.k.store.Used.Note(t, enc)
	return db.setRoot(key, root, &f, deadline)
}

// Remove removes the key of e, whose collection has become empty. e must not be used afterwards.
func (db *DB) Remove(e *value.Edit) {
	key := e.Key()
	db.touched(key)
	p, ref := db.d.t.Find(e.Hash(), key)
	db.remove(&p, ref)
}

// Touched tells who watches key that it has changed: once for each command that changed a collection through Edit or Create.
func (db *DB) Touched(key []byte) { db.touched(key) }

// Signal offers key to the clients that are blocked on it (XADD: the stream was there before).
func (db *DB) Signal(key []byte) {
	if db.k.Blocking > 0 && db.k.Hooks.Ready != nil {
		db.k.Hooks.Ready(db.index, key)
	}
}

// MemoryUsage is what the entry of v costs in bytes with its share of the index; samples bounds how many elements of a
// collection are looked at (0: all).
func (k *Keyspace) MemoryUsage(v value.Value, samples int) int {
	return k.store.MemoryUsage(v, samples)
}

// arrived says that key has a value of type t that it did not have before.
func (db *DB) arrived(key []byte, t value.Type) {
	if t == value.List || t == value.ZSet || t == value.Stream {
		db.Signal(key)
	}
}

// leaving says that the collection at key is about to be removed or to go elsewhere.
func (db *DB) leaving(key []byte, t value.Type) {
	switch {
	case t == value.Hash && db.d.fields.Len() > 0:
		db.SetFieldsDeadline(key, 0)
	case t == value.Stream && db.k.Blocking > 0 && db.k.Hooks.Gone != nil:
		db.k.Hooks.Gone(db.index, key)
	}
}

// whole says that nothing of what was in the database is there any more.
func (db *DB) whole() {
	if db.k.Blocking > 0 && db.k.Hooks.Whole != nil {
		db.k.Hooks.Whole(db.index)
	}
}
