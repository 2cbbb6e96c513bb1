package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// Edit finds key for a command that changes the value in place. It returns nil if there is no such key. Expiry and
// clock are as in LookupWrite. The command checks the type first, and calls Touched if it has changed something.
//
// Lifetime: value.Edit, keyspace.K1: until the third Edit, Create or Put after it.
func (db *DB) Edit(key []byte) *value.Edit {
	e := db.edit(key)
	v := e.Value()
	if !v.Exists() || v.Volatile() && v.Deadline() < db.k.now && db.pastDue(key) {
		return nil
	}
	db.k.touch(v)
	return db.hand(e)
}

// edit returns an Edit of key, which may be missing. The caller must pass it to hand next.
func (db *DB) edit(key []byte) *value.Edit {
	db.k.assertHeld()
	db.seek(key)
	k := db.k
	if k.last.named(key) {
		return db.keptEdit(key)
	}
	e := &k.edits[k.editAt%uint(len(k.edits))]
	e.Find(&db.d.t, key)
	return e
}

// hand returns e to a command and notes that it has done so.
func (db *DB) hand(e *value.Edit) *value.Edit {
	k := db.k
	if e != &k.last.edit {
		k.editAt++
		e.HandedOut() // another Edit of the same key may be kept (value.Entry, value.E7)
	}
	k.handed = e
	e.Enter()
	return e
}

// Create makes key, for which Edit returned nil, a collection with a listpack or intset of n bytes. The caller fills
// e.Packed before it does anything else with the databases.
func (db *DB) Create(key []byte, t value.Type, enc value.Encoding, n int) *value.Edit {
	db.k.assertHeld()
	f := value.PackedForm(t, enc, len(key), n, false)
	root := memory.Ref(0)
	if f.Rooted {
		root, _ = db.k.store.NewPacked(n)
	}
	return db.create(key, &f, root)
}

// CreateRoot makes key, for which Edit returned nil, a collection with this root (Store.NewRoot). Afterwards the root
// belongs to the keyspace.
func (db *DB) CreateRoot(key []byte, t value.Type, enc value.Encoding, root memory.Ref) *value.Edit {
	f := value.RootForm(t, enc, len(key), false)
	return db.create(key, &f, root)
}

// PutLong makes key the string of n bytes at root (Store.NewApart), and replaces any previous value. Afterwards the
// root belongs to the keyspace. deadline is as for SetString.
func (db *DB) PutLong(key []byte, root memory.Ref, n int, deadline int64) {
	db.k.assertHeld()
	var f value.Form
	f.OfString(len(key), n, deadline != 0)
	db.setValue(key, &f, root, nil, deadline)
}

func (db *DB) create(key []byte, f *value.Form, root memory.Ref) *value.Edit {
	db.k.assertHeld()
	db.k.store.Used.Note(f.Type, f.Encoding)
	e := db.edit(key)
	payload, _ := db.writeEntry(e.Entry(), key, f, 0)
	f.Fill(payload, root, nil)
	return db.hand(e)
}

// PutPacked makes key a collection whose listpack or intset is b, and replaces any previous value. deadline is as for
// SetString. It returns whether the key is new.
func (db *DB) PutPacked(key []byte, t value.Type, enc value.Encoding, b []byte, deadline int64) (created bool) {
	db.k.assertHeld()
	f := value.PackedForm(t, enc, len(key), len(b), deadline != 0)
	db.k.store.Used.Note(t, enc)
	root := memory.Ref(0)
	if f.Rooted {
		root = db.k.store.PackedOf(b)
	}
	return db.setValue(key, &f, root, b, deadline)
}

// PutRoot makes key a collection with this root (Store.NewRoot). Afterwards the root belongs to the keyspace. The rest
// is as in PutPacked.
func (db *DB) PutRoot(key []byte, t value.Type, enc value.Encoding, root memory.Ref, deadline int64) (created bool) {
	db.k.assertHeld()
	f := value.RootForm(t, enc, len(key), deadline != 0)
	db.k.store.Used.Note(t, enc)
	return db.setValue(key, &f, root, nil, deadline)
}

// Remove removes the key of e, whose collection has become empty. e must not be used afterwards.
func (db *DB) Remove(e *value.Edit) {
	db.k.assertHeld()
	db.touched(e.Key())
	db.drop(e.Entry())
}

// MemoryUsage returns the cost of v's entry in bytes, with its share of the index. It looks at no more than samples
// elements of a collection; 0 means all.
func (k *Keyspace) MemoryUsage(v value.Value, samples int) int {
	k.assertHeld()
	return k.store.MemoryUsage(v, samples)
}
