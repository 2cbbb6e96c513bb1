package keyspace

import (
	"slices"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// KeepTTL as a deadline leaves the key's own deadline as it is.
const KeepTTL int64 = -1

// A DB is one numbered database.
//
// Every method that takes a val or suffix wants bytes that do not lie in the databases themselves.
type DB struct {
	k     *Keyspace
	d     *data
	index int
}

// data is what SWAPDB exchanges.
type data struct {
	t      value.Keys
	at     value.Entry  // of DB.at
	big    [8]*bigOrder // by type (bigkeys.go)
	fields table.Table  // by key, the least deadline of the fields of each hash that has one; no view reads it (fields.go)
}

// Index is the database's number.
func (db *DB) Index() int { return db.index }

// Len is the number of keys, those past their deadline and not yet removed included.
func (db *DB) Len() int { db.k.assertHeld(); return db.d.t.Len() }

// Volatile is the number of keys with a deadline.
func (db *DB) Volatile() int { db.k.assertHeld(); return db.d.t.Volatile() }

// AvgTTL is the mean time to live of the volatile keys, in ms.
func (db *DB) AvgTTL() int64 {
	n := uint64(db.Volatile())
	if n == 0 {
		return 0
	}
	return max(db.d.t.TickTime(uint32(db.d.t.Ticks/n))-db.k.now, 0)
}

// Lookup finds key for reading: a key past its deadline is removed (hidden on a replica), the access is noted in the
// key's clock and in Stats as a hit or a miss.
func (db *DB) Lookup(key []byte) value.Value {
	v := db.LookupWrite(key)
	if v.Exists() {
		db.k.Stats.Hits++
	} else {
		db.k.Stats.Misses++
	}
	return v
}

// LookupWrite finds key for a command that writes: Lookup without counting a hit or a miss.
func (db *DB) LookupWrite(key []byte) value.Value {
	v := db.find(key)
	if !v.Exists() || v.Volatile() && v.Deadline() < db.k.now && db.pastDue(key) {
		return value.Value{}
	}
	db.k.touch(v)
	return v
}

// Peek finds key, changes nothing and counts nothing. A key past its deadline is hidden.
func (db *DB) Peek(key []byte) value.Value {
	v := db.find(key)
	if v.Exists() && v.Volatile() && v.Deadline() < db.k.now && !db.k.Trusting {
		return value.Value{}
	}
	return v
}

// Stored finds key, be it past its deadline: Peek without hiding.
func (db *DB) Stored(key []byte) value.Value { return db.find(key) }

// SetString makes val the string at key, whatever was there; an integer in canonical form is kept as one.
// deadline: 0 none, KeepTTL keeps the one there is, else Unix ms. Returns whether the key is new.
func (db *DB) SetString(key, val []byte, deadline int64) (created bool) {
	var f value.Form
	n := f.OfText(len(key), val, deadline != 0)
	return db.put(key, &f, memory.Ref(n), val, deadline)
}

// SetPlain is SetString of a value that is kept as bytes even if it reads as an integer: what INCRBYFLOAT leaves.
func (db *DB) SetPlain(key, val []byte, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), len(val), deadline != 0)
	return db.put(key, &f, 0, val, deadline)
}

// SetRaw is SetPlain of a value that is never shown as embstr: what SETRANGE and APPEND leave.
func (db *DB) SetRaw(key, val []byte, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), len(val), deadline != 0)
	f.Encoding = value.Raw
	return db.put(key, &f, 0, val, deadline)
}

// SetInt is SetString of n's decimal form.
func (db *DB) SetInt(key []byte, n int64, deadline int64) (created bool) {
	f := value.IntForm(len(key), deadline != 0)
	return db.put(key, &f, memory.Ref(n), nil, deadline)
}

// Counter is where the integer at key lies, to be changed there, which SetInt with KeepTTL would do at the price of
// another search; nil when there is no key, or it holds something else, or a view reads it. Clock as LookupWrite. Who
// has changed it calls Touched.
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

// SetBulk is SetString of a bulk argument that lies in a block of n bytes at ref, allocated as memory.Values
// (protocol.Bulk): it becomes the value's chunks without a copy. The block belongs to the keyspace afterwards.
func (db *DB) SetBulk(key []byte, ref uint64, n int, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), n, deadline != 0)
	if !f.Rooted {
		created = db.SetString(key, memory.Bytes(memory.Ref(ref), n), deadline)
		db.k.heap.Free(memory.Ref(ref), memory.Values)
		return created
	}
	return db.put(key, &f, db.k.store.Adopt(memory.Ref(ref), n), nil, deadline)
}

// put makes key's value one of form f and tells who watches. Its payload is val where f keeps it inline, else word, an
// integer or a root; a long string's root is made here if word is 0.
func (db *DB) put(key []byte, f *value.Form, word memory.Ref, val []byte, deadline int64) (created bool) {
	db.k.assertHeld()
	if f.Rooted && word == 0 {
		word = db.k.store.NewLong(val)
	}
	e := db.at(key)
	payload, created := db.place(e, key, f, deadline)
	f.Fill(payload, word, val)
	if f.Rooted || f.Inline >= bigLeast {
		db.k.written(db.d, e.Hash(), e.Value())
	}
	db.touched(key)
	return created
}

// place makes e, which is key's, an entry of form f, in place of what is there, and returns where its payload goes.
func (db *DB) place(e *value.Entry, key []byte, f *value.Form, deadline int64) (payload unsafe.Pointer, created bool) {
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

// vacate readies e for another value: a key past its deadline goes, any other is used, and the neighbours of a
// collection hear that it goes.
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
	default: // a hidden key gives way to a write without a word
		db.drop(e)
	}
}

// Delete removes key and says whether it was there. The value is let go in O(1), whatever its size.
// A key past its deadline is removed as expired and counts as not there, where expired keys may be removed at all.
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

// Append appends suffix to the string at key, creating it; the deadline stays. Returns the new length.
// The value is a string or absent: the caller has checked.
func (db *DB) Append(key, suffix []byte) int {
	v := db.LookupWrite(key)
	if !v.Exists() {
		db.SetString(key, suffix, 0)
		return len(suffix)
	}
	n, e := v.Len(), db.at(key)
	e.Patch(n, suffix)
	db.k.written(db.d, e.Hash(), e.Value())
	db.touched(key)
	return n + len(suffix)
}

// SetRange writes data at byte off of the string at key, filling with zeros up to it, creating it; the deadline stays.
// Returns the new length. The value is a string or absent: the caller has checked.
func (db *DB) SetRange(key []byte, off int, data []byte) int {
	v := db.LookupWrite(key)
	if !v.Exists() {
		v = db.setZeros(key, off+len(data))
	}
	n, e := max(v.Len(), off+len(data)), db.at(key)
	e.Patch(off, data)
	db.k.written(db.d, e.Hash(), e.Value())
	db.touched(key)
	return n
}

// setZeros makes key a string of n zeros.
func (db *DB) setZeros(key []byte, n int) value.Value {
	var f value.Form
	f.OfString(len(key), n, false)
	f.Encoding = value.Raw
	root := memory.Ref(0)
	if f.Rooted {
		root = db.k.store.NewZeros(n)
	}
	e := db.at(key)
	payload, _ := db.place(e, key, &f, 0)
	f.Fill(payload, root, nil)
	clear(value.PayloadBytes(payload, f.Inline))
	return e.Value()
}

// SetDeadline gives key the deadline ms (Unix ms, may be past); false when there is no such key.
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

// Persist takes the deadline from key; false when there is no such key or it has none.
func (db *DB) Persist(key []byte) bool {
	v := db.find(key)
	return v.Exists() && v.Volatile() && db.SetDeadline(key, 0)
}

// Rename moves the value at from to the key to, deadline included, replacing what was there; false when from does not
// exist. As MoveTo and CopyTo it makes a key anew: its clock is that of a key that was not there before.
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

// MoveTo moves key to dst; false when key does not exist or dst has it.
func (db *DB) MoveTo(key []byte, dst *DB) bool {
	db.k.assertHeld()
	if db == dst || !db.LookupWrite(key).Exists() || dst.LookupWrite(key).Exists() {
		return false
	}
	db.transfer(key, dst, key)
	return true
}

// transfer takes the value at from out of db and puts it into dst under the key to.
func (db *DB) transfer(from []byte, dst *DB, to []byte) {
	e := db.at(from)
	v, fields := e.Value(), db.FieldsDeadline(from)
	if v.Type() != value.String {
		db.leaving(from, v.Type())
	}
	ref := db.k.store.CopyEntry(v, to, db.k.newClock())
	if v.Rooted() {
		db.k.store.MoveRoot(v.Type(), v.Root())
	}
	e.Take()
	db.touched(from)
	dst.adopt(to, ref, fields)
}

// CopyTo copies the value at key, deadline included, to dstKey of dst, replacing what was there; false when key does
// not exist.
func (db *DB) CopyTo(key []byte, dst *DB, dstKey []byte) bool {
	v := db.Peek(key) // COPY has looked it up, and that is one use
	if !v.Exists() {
		return false
	}
	ref := db.k.store.CopyEntry(v, dstKey, db.k.newClock())
	if v.Rooted() {
		value.At(ref).SetRoot(db.k.store.CopyRoot(v))
	}
	dst.adopt(dstKey, ref, db.FieldsDeadline(key))
	return true
}

// adopt makes the entry at ref, which no table knows, that of its key, replacing what was there. fields as for
// SetFieldsDeadline.
func (db *DB) adopt(key []byte, ref memory.Ref, fields int64) {
	e := db.at(key)
	db.vacate(e)
	e.Put(ref)
	db.k.written(db.d, e.Hash(), e.Value())
	if db.k.Replica && e.Value().Volatile() {
		db.noteOwn(key)
	}
	if db.k.Blocking > 0 {
		db.arrived(key, e.Value().Type())
	}
	if fields != 0 {
		db.SetFieldsDeadline(key, fields)
	}
	db.touched(key)
}

// Flush empties the database in O(1) and returns how many keys it had; what they held goes to reclaimers.
func (db *DB) Flush() (removed int) {
	db.k.assertHeld()
	removed = db.Len()
	db.flushFields()
	if removed == 0 && !db.d.t.Indexed() {
		return 0
	}
	h, bytes := db.k.heap, db.share()
	root, due := db.d.t.Detach()
	db.d.t.Ticks = 0
	db.d.big = [8]*bigOrder{}
	db.k.noteSlots()
	db.whole() // now: what is gone makes nobody ready
	if due != 0 {
		h.RetireTreeWide(due, value.KindDue, 0)
	}
	h.Park(bytes, removed)
	db.k.store.AfterPins(func() {
		db.k.emptied = bytes
		h.RetireTreeWide(root, value.KindDatabase, removed)
		h.Unpark(bytes, removed) // afterwards: at no instant is nothing pending
	})
	if !slices.ContainsFunc(db.k.all, func(d DB) bool { return d.d != nil && d.Len() > 0 }) {
		db.k.store.Used = value.Encodings{}
	}
	return removed
}

// share is about how many bytes the database takes: as large a part of the data as it has of the keys. O(databases).
func (db *DB) share() int64 {
	keys := 0
	for i := range db.k.all {
		if d := &db.k.all[i]; d.d != nil {
			keys += d.Len()
		}
	}
	h := db.k.heap
	data := h.UsedBy(memory.Keys) + h.UsedBy(memory.Values) + h.UsedBy(memory.Index) - h.Leaving()
	return int64(float64(data) / float64(max(keys, 1)) * float64(db.Len()))
}

// Shape is how the index lies in memory (DEBUG HTSTATS). O(n).
func (db *DB) Shape() table.Shape { db.k.assertHeld(); return db.d.t.Shape() }

// Pin keeps the bytes of a Long value as they are, readable by any goroutine, until release, which any goroutine may
// call once. Writing or deleting the key meanwhile works on copies of the chunks it touches.
func (db *DB) Pin(v value.Value) (release func()) { db.k.assertHeld(); return db.k.store.Pin(v.Root()) }
