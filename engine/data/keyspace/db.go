package keyspace

import (
	"slices"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// KeepTTL, given as a deadline, keeps the key's present deadline.
const KeepTTL int64 = -1

// A DB is one numbered database.
//
// The bytes passed as val or suffix must not lie in the databases themselves.
type DB struct {
	k     *Keyspace
	d     *data
	index int
}

// data is the part of a DB that SWAPDB exchanges.
type data struct {
	t      value.Keys
	at     value.Entry  // the entry that DB.at returned last
	big    [8]*bigOrder // by type (bigkeys.go)
	fields table.Table  // the least deadline of each hash with volatile fields, by key; no view reads it (fields.go)
	sent   table.Table  // the same for each stream that remembers message names of producers
}

func (db *DB) Index() int { return db.index }

// Len returns the number of keys. It includes keys that are past their deadline and not yet removed.
func (db *DB) Len() int { db.k.assertHeld(); return db.d.t.Shown() }

// Volatile returns the number of keys with a deadline.
func (db *DB) Volatile() int { db.k.assertHeld(); return db.d.t.ShownVolatile() }

// AvgTTL returns the mean time to live of the volatile keys, in ms.
func (db *DB) AvgTTL() int64 {
	db.k.assertHeld()
	n := uint64(db.d.t.Volatile())
	if n == 0 {
		return 0
	}
	return max(db.d.t.StepTime(db.d.t.Steps/n)-db.k.now, 0)
}

// Lookup finds key for reading. It removes a key past its deadline, or hides it on a replica. It records the access in
// the key's clock, and counts a hit or a miss in Stats.
func (db *DB) Lookup(key []byte) value.Value {
	v := db.LookupWrite(key)
	if v.Exists() {
		db.k.Stats.Hits++
	} else {
		db.k.Stats.Misses++
	}
	return v
}

// LookupWrite finds key for a command that writes. It is Lookup without counting a hit or a miss.
func (db *DB) LookupWrite(key []byte) value.Value {
	v := db.find(key)
	if !v.Exists() || v.Volatile() && v.Deadline() < db.k.now && db.pastDue(key) {
		return value.Value{}
	}
	db.k.touch(v)
	return v
}

// Peek finds key without changing or counting anything. It hides a key past its deadline.
func (db *DB) Peek(key []byte) value.Value {
	v := db.find(key)
	if v.Exists() && v.Volatile() && v.Deadline() < db.k.now && !db.k.Trusting {
		return value.Value{}
	}
	return v
}

// Stored is Peek, but does not hide keys past their deadline.
func (db *DB) Stored(key []byte) value.Value { return db.find(key) }

// SetString makes val the string at key, and replaces any previous value. An integer in canonical form is stored as an
// integer. deadline is in Unix ms; 0 means none, and KeepTTL keeps the present one. It returns whether the key is new.
func (db *DB) SetString(key, val []byte, deadline int64) (created bool) {
	var f value.Form
	n := f.OfText(len(key), val, deadline != 0)
	return db.setValue(key, &f, memory.Ref(n), val, deadline)
}

// SetPlain is SetString, but stores bytes even if val is an integer (INCRBYFLOAT).
func (db *DB) SetPlain(key, val []byte, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), len(val), deadline != 0)
	return db.setValue(key, &f, 0, val, deadline)
}

// SetRaw is SetPlain, but the encoding is always raw, never embstr (SETRANGE and APPEND).
func (db *DB) SetRaw(key, val []byte, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), len(val), deadline != 0)
	f.Encoding = value.Raw
	return db.setValue(key, &f, 0, val, deadline)
}

// SetInt is SetString with the decimal form of n.
func (db *DB) SetInt(key []byte, n int64, deadline int64) (created bool) {
	f := value.IntForm(len(key), deadline != 0)
	return db.setValue(key, &f, memory.Ref(n), nil, deadline)
}

// Counter returns the address of the integer at key, to be changed in place. SetInt with KeepTTL would do the same with
// a second search. It returns nil if key is missing, the value is no integer, or a view may read it. It updates the
// clock as LookupWrite does. A caller that changes the integer calls Touched.
//
// Lifetime: until the next write to the databases.
func (db *DB) Counter(key []byte) *int64 {
	e := db.at(key)
	if !e.Exists() {
		return nil
	}
	v := e.Value()
	at := v.Integer()
	if at == nil || v.Volatile() && v.Deadline() < db.k.now || e.Shared() {
		return nil
	}
	db.k.touch(v)
	return at
}

// SetBulk is SetString of a bulk argument (protocol.Bulk), which lies in a block of n bytes at ref, allocated as
// memory.Values. The block becomes the value's chunks without a copy. Afterwards it belongs to the keyspace.
func (db *DB) SetBulk(key []byte, ref uint64, n int, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), n, deadline != 0)
	if !f.Rooted {
		created = db.SetString(key, memory.Bytes(memory.Ref(ref), n), deadline)
		db.k.heap.Free(memory.Ref(ref), memory.Values)
		return created
	}
	return db.setValue(key, &f, db.k.store.Adopt(memory.Ref(ref), n), nil, deadline)
}

// setValue makes key's value one of form f and calls the hooks. The payload is val if f stores it inline. Otherwise it
// is word, an integer or a root. If the form has a root and word is 0, setValue makes the root of a long string.
func (db *DB) setValue(key []byte, f *value.Form, word memory.Ref, val []byte, deadline int64) (created bool) {
	db.k.assertHeld()
	if f.Rooted && word == 0 {
		word = db.k.store.NewLong(val)
	}
	e := db.at(key)
	payload, created := db.writeEntry(e, key, f, deadline)
	f.Fill(payload, word, val)
	v := e.Value()
	if f.Type != value.String || f.Rooted || f.Encoding == value.Int {
		db.resize(v)
	} else if c := value.ClassOf(uint64(f.Inline)); c != v.SizeClass() {
		db.d.t.Resize(v, c)
	}
	if f.Rooted || f.Inline >= bigLeast {
		db.k.written(db.d, e.Hash(), v)
	}
	db.touched(key)
	return created
}

// writeEntry gives e, the entry of key, the form f and replaces its value. It returns the address of the payload.
func (db *DB) writeEntry(e *value.Entry, key []byte, f *value.Form, deadline int64) (payload unsafe.Pointer,
	created bool) {
	db.vacate(e)
	clock, kept := uint32(0), int64(0)
	if created = !e.Exists(); created {
		clock = db.k.newClock()
	} else if deadline == KeepTTL {
		kept = e.Value().Deadline()
	}
	if deadline == KeepTTL {
		deadline = kept
	}
	payload = e.Write(f, key, deadline, clock)
	if db.k.Replica && deadline != 0 {
		db.noteOwn(key)
	}
	if db.k.Blocking > 0 {
		db.arrived(key, f.Type)
	}
	return payload, created
}

// vacate prepares e for another value. It removes a key past its deadline, and counts a use of any other key. It calls
// leaving if a collection is replaced.
func (db *DB) vacate(e *value.Entry) {
	k := db.k
	if !e.Exists() {
		return
	}
	v := e.Value()
	switch {
	case !v.Volatile() || v.Deadline() >= k.now || k.Trusting:
		k.touch(v)
		if t := v.Type(); t != value.String {
			db.leaving(v.Key(), t)
		}
	case db.expires():
		db.expire(e)
	default: // a hidden key is replaced without an event
		db.drop(e)
	}
}

// Delete removes key and reports whether the key existed. It frees the value in O(1), whatever its size. If this server
// may remove expired keys, a key past its deadline is removed as expired and counts as missing.
func (db *DB) Delete(key []byte) bool {
	e := db.at(key)
	if !e.Exists() {
		return false
	}
	if v := e.Value(); v.Volatile() && v.Deadline() < db.k.now && db.expires() {
		db.expire(e)
		return false
	}
	db.drop(e)
	db.touched(key)
	return true
}

// Append appends suffix to the string at key and returns the new length. It creates the string if there is none. The
// deadline stays. The caller must have checked that the value is a string or absent.
func (db *DB) Append(key, suffix []byte) int {
	v := db.LookupWrite(key)
	if !v.Exists() {
		db.SetString(key, suffix, 0)
		return len(suffix)
	}
	n, e := v.Len(), db.at(key)
	e.Patch(n, suffix)
	db.resize(e.Value())
	db.k.written(db.d, e.Hash(), e.Value())
	db.touched(key)
	return n + len(suffix)
}

// SetRange writes data at byte off of the string at key and returns the new length. It creates the string if there is
// none. Missing bytes before off become zeros. The deadline stays. The caller must have checked that the value is a
// string or absent.
func (db *DB) SetRange(key []byte, off int, data []byte) int {
	v := db.LookupWrite(key)
	if !v.Exists() {
		v = db.setZeros(key, off+len(data))
	}
	n, e := max(v.Len(), off+len(data)), db.at(key)
	e.Patch(off, data)
	db.resize(e.Value())
	db.k.written(db.d, e.Hash(), e.Value())
	db.touched(key)
	return n
}

// setZeros makes the value at key a raw string of n zeros.
func (db *DB) setZeros(key []byte, n int) value.Value {
	var f value.Form
	f.OfString(len(key), n, false)
	f.Encoding = value.Raw
	root := memory.Ref(0)
	if f.Rooted {
		root = db.k.store.NewZeros(n)
	}
	e := db.at(key)
	payload, _ := db.writeEntry(e, key, &f, 0)
	f.Fill(payload, root, nil)
	clear(value.PayloadBytes(payload, f.Inline))
	db.resize(e.Value())
	return e.Value()
}

// SetDeadline gives key the deadline ms (Unix ms, may be past). It returns false if there is no such key.
func (db *DB) SetDeadline(key []byte, ms int64) bool {
	e := db.at(key)
	if !e.Exists() {
		return false
	}
	e.SetDeadline(ms)
	if db.k.Replica && ms != 0 {
		db.noteOwn(key)
	}
	db.touched(key)
	return true
}

// Persist removes key's deadline. It returns false if there is no such key or the key has no deadline.
func (db *DB) Persist(key []byte) bool {
	v := db.find(key)
	return v.Exists() && v.Volatile() && db.SetDeadline(key, 0)
}

// Rename moves the value of the key from, with its deadline, to the key to. It replaces any value there. It returns
// false if from does not exist. As with MoveTo and CopyTo, the moved key gets the clock of a new key.
func (db *DB) Rename(from, to []byte) bool {
	db.k.assertHeld()
	if string(from) == string(to) {
		return db.Peek(from).Exists()
	}
	v := db.LookupWrite(from)
	if !v.Exists() {
		return false
	}
	db.transfer(from, db, to)
	return true
}

// MoveTo moves key to dst. It returns false if key does not exist or dst has it.
func (db *DB) MoveTo(key []byte, dst *DB) bool {
	db.k.assertHeld()
	if db == dst || !db.LookupWrite(key).Exists() || dst.LookupWrite(key).Exists() {
		return false
	}
	db.transfer(key, dst, key)
	return true
}

// transfer removes the value at from from this database and puts it into dst under the key to.
func (db *DB) transfer(from []byte, dst *DB, to []byte) {
	e := db.at(from)
	v := e.Value()
	parts := db.partsDeadline(v.Type(), from)
	if v.Type() != value.String {
		db.leaving(from, v.Type())
	}
	ref := db.k.store.CopyEntry(v, to, db.k.newClock())
	if v.Rooted() {
		db.k.store.MoveRoot(v.Type(), v.Root())
	}
	e.Detach()
	db.touched(from)
	dst.adopt(to, ref, parts)
}

// CopyTo copies the value at key, with its deadline, to dstKey of dst, and replaces any value there. It returns false
// if key does not exist.
func (db *DB) CopyTo(key []byte, dst *DB, dstKey []byte) bool {
	v := db.Peek(key) // COPY has looked it up, which counted as one use
	if !v.Exists() {
		return false
	}
	ref := db.k.store.CopyEntry(v, dstKey, db.k.newClock())
	if v.Rooted() {
		value.At(ref).SetRoot(db.k.store.CopyRoot(v))
	}
	dst.adopt(dstKey, ref, db.partsDeadline(v.Type(), key))
	return true
}

// adopt makes the entry at ref, which is in no table, the entry of key, and replaces any value there. parts is the
// deadline of the value's parts.
func (db *DB) adopt(key []byte, ref memory.Ref, parts int64) {
	e := db.at(key)
	db.vacate(e)
	e.Put(ref)
	db.resize(e.Value())
	db.k.written(db.d, e.Hash(), e.Value())
	if db.k.Replica && e.Value().Volatile() {
		db.noteOwn(key)
	}
	if db.k.Blocking > 0 {
		db.arrived(key, e.Value().Type())
	}
	if parts != 0 {
		db.setDeadlineIn(db.d.partsOf(e.Value().Type()), key, parts)
	}
	db.touched(key)
}

// Flush empties the database in O(1) and returns how many keys it had. Reclaimers free its memory.
func (db *DB) Flush() (removed int) {
	db.k.assertHeld()
	removed = db.d.t.Len()
	db.flushParts(&db.d.fields)
	db.flushParts(&db.d.sent)
	if removed == 0 && !db.d.t.Indexed() {
		return 0
	}
	h, bytes := db.k.heap, db.share()
	root, due := db.d.t.Detach()
	db.d.big = [8]*bigOrder{}
	db.k.noteSlots(db.index)
	db.whole() // called before the removal, so that removed keys make no client ready
	if due != 0 {
		h.RetireTreeWide(due, value.KindDue, 0)
	}
	h.Park(bytes, removed)
	db.k.store.AfterPins(func() {
		db.k.emptied = bytes
		h.RetireTreeWide(root, value.KindDatabase, removed)
		h.Unpark(bytes, removed) // after RetireTreeWide, so that the bytes count as leaving all the time
	})
	if !slices.ContainsFunc(db.k.all, func(d DB) bool { return d.d != nil && d.d.t.Len() > 0 }) {
		db.k.store.Used = value.Encodings{}
	}
	return removed
}

// share estimates the bytes of the database: it supposes that each key takes the same share of the data. O(databases).
func (db *DB) share() int64 {
	keys := 0
	for i := range db.k.all {
		if d := &db.k.all[i]; d.d != nil {
			keys += d.d.t.Len()
		}
	}
	h := db.k.heap
	data := h.UsedBy(memory.Keys) + h.UsedBy(memory.Values) + h.UsedBy(memory.Index) - h.Leaving()
	return int64(float64(data) / float64(max(keys, 1)) * float64(db.d.t.Len()))
}

// Shape describes the hash table in memory (DEBUG HTSTATS). O(n).
func (db *DB) Shape() table.Shape { db.k.assertHeld(); return db.d.t.Shape() }

// Pin keeps the bytes of a Long value unchanged, and readable by any goroutine, until release. Any goroutine may call
// release, once. Until then, a write or a deletion of the key copies the chunks that it changes.
func (db *DB) Pin(v value.Value) (release func()) { db.k.assertHeld(); return db.k.store.Pin(v.Root()) }
