package keyspace

import (
	"slices"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/number"
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
	t      table.Table
	ticks  uint64      // the sum of the volatile keys' ticks, for AvgTTL
	fields table.Table // by key, the least deadline of the fields of each hash that has one; no view reads it (fields.go)
}

// Index is the database's number.
func (db *DB) Index() int { return db.index }

// Len is the number of keys, those past their deadline and not yet removed included.
func (db *DB) Len() int { return db.d.t.Len() }

// Volatile is the number of keys with a deadline.
func (db *DB) Volatile() int { return db.d.t.Volatile() }

// AvgTTL is the mean time to live of the volatile keys, in ms.
func (db *DB) AvgTTL() int64 {
	n := uint64(db.Volatile())
	if n == 0 {
		return 0
	}
	return max(db.d.t.TickTime(uint32(db.d.ticks/n))-db.k.now, 0)
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
	p, ref := db.find(key)
	if ref == 0 {
		return value.Value{}
	}
	v := value.At(ref)
	if v.Volatile() && v.Deadline() < db.k.now && db.pastDue(&p, v) {
		return value.Value{}
	}
	db.k.touch(v)
	return v
}

// Peek finds key, changes nothing and counts nothing. A key past its deadline is hidden.
func (db *DB) Peek(key []byte) value.Value {
	_, ref := db.find(key)
	if ref == 0 {
		return value.Value{}
	}
	v := value.At(ref)
	if v.Volatile() && v.Deadline() < db.k.now && !db.k.Trusting {
		return value.Value{}
	}
	return v
}

// Stored says that key is there, be it past its deadline: Peek without hiding.
func (db *DB) Stored(key []byte) bool {
	_, ref := db.find(key)
	return ref != 0
}

// SetString makes val the string at key, whatever was there; an integer in canonical form is kept as one.
// deadline: 0 none, KeepTTL keeps the one there is, else Unix ms. Returns whether the key is new.
func (db *DB) SetString(key, val []byte, deadline int64) (created bool) {
	if len(val) <= number.MaxIntLen {
		if n, ok := number.ParseInt(val); ok {
			return db.SetInt(key, n, deadline)
		}
	}
	var f value.Form
	f.OfString(len(key), len(val), deadline != 0)
	return db.setText(key, val, &f, deadline)
}

// SetPlain is SetString of a value that is kept as bytes even if it reads as an integer: what INCRBYFLOAT leaves.
func (db *DB) SetPlain(key, val []byte, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), len(val), deadline != 0)
	return db.setText(key, val, &f, deadline)
}

// SetRaw is SetPlain of a value that is never shown as embstr: what SETRANGE and APPEND leave.
func (db *DB) SetRaw(key, val []byte, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), len(val), deadline != 0)
	f.Encoding = value.Raw
	return db.setText(key, val, &f, deadline)
}

func (db *DB) setText(key, val []byte, f *value.Form, deadline int64) (created bool) {
	if f.Rooted {
		return db.setRoot(key, db.k.store.NewLong(val), f, deadline)
	}
	payload, created := db.place(key, f, deadline)
	copy(value.PayloadBytes(payload, len(val)), val)
	db.touched(key)
	return created
}

// setRoot makes a long string, whose root is new, the value at key.
func (db *DB) setRoot(key []byte, root memory.Ref, f *value.Form, deadline int64) (created bool) {
	payload, created := db.place(key, f, deadline)
	*(*memory.Ref)(payload) = root
	db.touched(key)
	return created
}

// SetInt is SetString of n's decimal form.
func (db *DB) SetInt(key []byte, n int64, deadline int64) (created bool) {
	f := value.Form{Type: value.String, Encoding: value.Int, Volatile: deadline != 0, KeyLen: len(key)}
	payload, created := db.place(key, &f, deadline)
	*(*int64)(payload) = n
	db.touched(key)
	return created
}

// Counter is where the integer at key lies, to be changed there, which SetInt with KeepTTL would do at the price of another search; nil when
// there is no key, or it holds something else, or a view reads it. Clock as LookupWrite. Who has changed it calls Touched.
//
// Lifetime: until the next write to the databases.
func (db *DB) Counter(key []byte) *int64 {
	p, ref := db.find(key)
	if ref == 0 {
		return nil
	}
	v := value.At(ref)
	at := v.Integer()
	if at == nil || v.Volatile() && v.Deadline() < db.k.now || !db.d.t.Edit(&p) {
		return nil
	}
	db.k.touch(v)
	return at
}

// SetBulk is SetString of a bulk argument that lies in a block of n bytes at ref, allocated as memory.Values (protocol.Bulk): it becomes
// the value's chunks without a copy. The block belongs to the keyspace afterwards.
func (db *DB) SetBulk(key []byte, ref uint64, n int, deadline int64) (created bool) {
	var f value.Form
	f.OfString(len(key), n, deadline != 0)
	if !f.Rooted {
		created = db.SetString(key, memory.Bytes(memory.Ref(ref), n), deadline)
		db.k.heap.Free(memory.Ref(ref), memory.Values)
		return created
	}
	return db.setRoot(key, db.k.store.Adopt(memory.Ref(ref), n), &f, deadline)
}

// place makes room for an entry of form f at key, in place of what is there, and returns where its payload goes. f.Volatile is put right
// for KeepTTL. In place when the old entry's block is as large as the new one's and no view reads it.
func (db *DB) place(key []byte, f *value.Form, deadline int64) (payload unsafe.Pointer, created bool) {
	k := db.k
	p, old := db.find(key)
	if old != 0 {
		v := value.At(old)
		switch {
		case !v.Volatile() || v.Deadline() >= k.now || k.Trusting:
			return db.replace(&p, old, key, f, deadline), false
		case db.expires():
			db.expire(&p, v)
		default: // a hidden key gives way to a write without a word
			db.remove(&p, old)
		}
	}
	_, payload = db.insert(p.Hash(), key, f, deadline)
	return payload, true
}

// insert adds an entry of form f under key, which is not there.
func (db *DB) insert(hash uint64, key []byte, f *value.Form, deadline int64) (ref memory.Ref, payload unsafe.Pointer) {
	d, k := db.d, db.k
	if deadline == KeepTTL {
		deadline = 0
	}
	f.Volatile = deadline != 0
	ref = k.heap.Alloc(f.Size(), memory.Keys)
	at := memory.Pointer(ref)
	payload = f.Write(at, key, deadline)
	*(*uint32)(at) = k.newClock()
	tick := d.t.Tick(deadline)
	if tick != table.Never {
		d.ticks += uint64(tick)
	}
	d.t.Insert(hash, ref, tick)
	if k.Blocking > 0 {
		db.arrived(key, f.Type)
	}
	return ref, payload
}

// replace makes the entry old at p one of form f.
func (db *DB) replace(p *table.Place, old memory.Ref, key []byte, f *value.Form, deadline int64) (payload unsafe.Pointer) {
	d, k := db.d, db.k
	v := value.At(old)
	k.touch(v)
	k.last.edit = nil // K1: it is another value from here on, though perhaps in the same block and with no move in the table
	was := int64(0)
	if v.Volatile() {
		was = v.Deadline()
		if deadline == KeepTTL {
			deadline = was
		}
	} else if deadline == KeepTTL {
		deadline = 0
	}
	f.Volatile = deadline != 0
	root, typ := v.Root(), v.Type()
	if typ != value.String {
		db.leaving(key, typ)
	}
	editable := d.t.Edit(p)
	if editable && memory.GoodSize(f.Size()) == memory.GoodSize(v.Size()) {
		payload = f.Write(memory.Pointer(old), key, deadline)
		if was != deadline {
			db.reschedule(p, old, was, deadline)
		}
	} else {
		ref := k.heap.Alloc(f.Size(), memory.Keys)
		at := memory.Pointer(ref)
		payload = f.Write(at, key, deadline)
		*(*uint32)(at) = v.Clock()
		db.reschedule(p, ref, was, deadline)
		db.letGo(p, old, !editable)
	}
	if root != 0 {
		db.dropRoot(p, typ, root)
	}
	if k.Blocking > 0 {
		db.arrived(key, f.Type)
	}
	return payload
}

// reschedule puts ref in the place p, with another deadline than before perhaps.
func (db *DB) reschedule(p *table.Place, ref memory.Ref, was, is int64) {
	d := db.d
	if was != 0 {
		d.ticks -= uint64(d.t.Tick(was))
	}
	tick := d.t.Tick(is)
	if is != 0 {
		d.ticks += uint64(tick)
	}
	d.t.Replace(p, ref, tick)
}

// letGo frees an entry's block, or retires it when a view may read it. What hangs off it goes on.
func (db *DB) letGo(p *table.Place, ref memory.Ref, shared bool) {
	h := db.k.heap
	if !shared {
		h.Free(ref, memory.Keys)
		return
	}
	h.SetPosition(db.d.t.Home(), p.Hash())
	h.Retire(ref, memory.Keys)
}

// dropRoot lets go of what hung off an entry.
func (db *DB) dropRoot(p *table.Place, t value.Type, root memory.Ref) {
	db.position(p)
	db.k.store.DropRoot(t, root)
}

// position says where the core is about to write, for what views still read.
func (db *DB) position(p *table.Place) {
	if h := db.k.heap; h.Holding() {
		h.SetPosition(db.d.t.Home(), p.Hash())
	}
}

// remove takes the entry at p out of the database and lets go of it.
func (db *DB) remove(p *table.Place, ref memory.Ref) {
	v := value.At(ref)
	if t := v.Type(); t != value.String {
		db.leaving(v.Key(), t)
	}
	db.take(p, ref)
}

// take is remove of what leaving has been told of.
func (db *DB) take(p *table.Place, ref memory.Ref) {
	v := value.At(ref)
	root, typ := v.Root(), v.Type()
	if v.Volatile() {
		db.d.ticks -= uint64(db.d.t.Tick(v.Deadline()))
	}
	db.letGo(p, ref, db.d.t.Remove(p))
	if root != 0 {
		db.dropRoot(p, typ, root)
	}
}

// touched tells who watches keys.
func (db *DB) touched(key []byte) {
	if db.k.Watching > 0 && db.k.Hooks.Touched != nil {
		db.k.Hooks.Touched(db.index, key)
	}
}

// Delete removes key and says whether it was there. The value is let go in O(1), whatever its size.
// A key past its deadline is removed as expired and counts as not there, where expired keys may be removed at all.
func (db *DB) Delete(key []byte) bool {
	p, ref := db.find(key)
	if ref == 0 {
		return false
	}
	v := value.At(ref)
	if v.Volatile() && v.Deadline() < db.k.now && db.expires() {
		db.pastDue(&p, v)
		return false
	}
	db.remove(&p, ref)
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
	n := v.Len()
	db.write(key, v, n, suffix)
	db.touched(key)
	return n + len(suffix)
}

// SetRange writes data at byte off of the string at key, filling with zeros up to it, creating it; the deadline stays. Returns the
// new length. The value is a string or absent: the caller has checked.
func (db *DB) SetRange(key []byte, off int, data []byte) int {
	v := db.LookupWrite(key)
	if !v.Exists() {
		v = db.setZeros(key, off+len(data))
	}
	n := max(v.Len(), off+len(data))
	db.write(key, v, off, data)
	db.touched(key)
	return n
}

// setZeros makes key a string of n zeros.
func (db *DB) setZeros(key []byte, n int) value.Value {
	var f value.Form
	f.OfString(len(key), n, false)
	f.Encoding = value.Raw
	if f.Rooted {
		payload, _ := db.place(key, &f, 0)
		*(*memory.Ref)(payload) = db.k.store.NewZeros(n)
	} else {
		payload, _ := db.place(key, &f, 0)
		clear(value.PayloadBytes(payload, n))
	}
	_, ref := db.d.t.Find(table.Hash(key), key)
	return value.At(ref)
}

// write writes data at byte off of the string v at key, which becomes raw and as long as it must. Telling who watches is the caller's.
func (db *DB) write(key []byte, v value.Value, off int, data []byte) {
	d, k := db.d, db.k
	p, ref := d.t.Find(table.Hash(key), key)
	editable := d.t.Edit(&p)
	if root := v.Root(); root != 0 {
		db.position(&p)
		next := k.store.WriteLong(root, off, data)
		if !editable {
			next, ref = db.again(&p, ref), next
			value.At(next).SetRoot(ref)
		} else if next != root {
			v.SetRoot(next)
		}
		return
	}
	end := off + len(data)
	n, isInt := v.Int()
	length := v.Len()
	var f value.Form
	f.OfString(len(key), max(length, end), v.Volatile())
	f.Encoding = value.Raw
	var text [number.MaxIntLen]byte
	old, _ := v.Contiguous()
	if isInt {
		old = number.AppendInt(text[:0], n)
	}
	switch {
	case f.Rooted:
		root := k.store.WriteLong(k.store.NewLong(old), off, data)
		*(*memory.Ref)(db.another(&p, ref, key, &f, editable)) = root
	case editable && !isInt && memory.GoodSize(f.Size()) == memory.GoodSize(v.Size()):
		v.Reshape(&f) // the payload stays where it is
		b, _ := v.Contiguous()
		if off > length {
			clear(b[length:off])
		}
		copy(b[off:], data)
	default:
		b := value.PayloadBytes(db.fresh(&p, ref, key, &f), f.Inline)
		copy(b, old)
		if off > length {
			clear(b[length:off])
		}
		copy(b[off:], data)
		db.letGo(&p, ref, !editable)
	}
}

// fresh puts a new entry of form f in the place of the one at ref, with its clock and deadline. The old block is the caller's.
func (db *DB) fresh(p *table.Place, ref memory.Ref, key []byte, f *value.Form) (payload unsafe.Pointer) {
	v := value.At(ref)
	deadline := v.Deadline()
	f.Volatile = deadline != 0
	r := db.k.heap.Alloc(f.Size(), memory.Keys)
	at := memory.Pointer(r)
	payload = f.Write(at, key, deadline)
	*(*uint32)(at) = v.Clock()
	db.reschedule(p, r, deadline, deadline)
	return payload
}

// another is fresh, and lets the old block go.
func (db *DB) another(p *table.Place, ref memory.Ref, key []byte, f *value.Form, editable bool) (payload unsafe.Pointer) {
	payload = db.fresh(p, ref, key, f)
	db.letGo(p, ref, !editable)
	return payload
}

// again puts a copy of the entry at ref in its place, because a view reads it, and retires it.
func (db *DB) again(p *table.Place, ref memory.Ref) memory.Ref {
	v := value.At(ref)
	n := v.Size()
	r := db.k.heap.Alloc(n, memory.Keys)
	value.CopyEntry(memory.Pointer(r), v, n)
	deadline := v.Deadline()
	db.reschedule(p, r, deadline, deadline)
	db.letGo(p, ref, true)
	return r
}

// SetDeadline gives key the deadline ms (Unix ms, may be past); false when there is no such key.
func (db *DB) SetDeadline(key []byte, ms int64) bool {
	p, ref := db.d.t.Find(table.Hash(key), key)
	if ref == 0 {
		return false
	}
	v := value.At(ref)
	if was := v.Deadline(); was != 0 && ms != 0 && db.d.t.Edit(&p) {
		v.OverwriteDeadline(ms)
		db.reschedule(&p, ref, was, ms)
	} else {
		db.reform(&p, ref, key, ms)
	}
	db.touched(key)
	return true
}

// Persist takes the deadline from key; false when there is no such key or it has none.
func (db *DB) Persist(key []byte) bool {
	p, ref := db.d.t.Find(table.Hash(key), key)
	if ref == 0 || !value.At(ref).Volatile() {
		return false
	}
	db.reform(&p, ref, key, 0)
	db.touched(key)
	return true
}

// reform gives the entry at ref another deadline, in another block or moved within its own.
func (db *DB) reform(p *table.Place, ref memory.Ref, key []byte, deadline int64) {
	v := value.At(ref)
	was := v.Deadline()
	f := value.FormOf(v)
	f.Volatile = deadline != 0
	editable := db.d.t.Edit(p)
	if editable && memory.GoodSize(f.Size()) == memory.GoodSize(v.Size()) {
		v.Reform(&f, deadline)
		db.reschedule(p, ref, was, deadline)
		return
	}
	r := db.k.heap.Alloc(f.Size(), memory.Keys)
	at := memory.Pointer(r)
	payload := f.Write(at, key, deadline)
	v.CopyPayload(payload)
	*(*uint32)(at) = v.Clock()
	db.reschedule(p, r, was, deadline)
	db.letGo(p, ref, !editable)
}

// Rename moves the value at from to the key to, deadline included, replacing what was there; false when from does not exist. As
// MoveTo and CopyTo it makes a key anew: its clock is that of a key that was not there before.
func (db *DB) Rename(from, to []byte) bool {
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
	if db == dst || !db.LookupWrite(key).Exists() || dst.LookupWrite(key).Exists() {
		return false
	}
	db.transfer(key, dst, key)
	return true
}

// transfer takes the value at from out of db and puts it into dst under the key to.
func (db *DB) transfer(from []byte, dst *DB, to []byte) {
	p, ref := db.d.t.Find(table.Hash(from), from)
	v := value.At(ref)
	f := value.FormOf(v)
	var small [64]byte // what an inline value needs while its entry goes; more is on a block of its own
	deadline, root := v.Deadline(), v.Root()
	fields := db.FieldsDeadline(from)
	if v.Type() != value.String {
		db.leaving(from, v.Type())
	}
	n := v.PayloadSize()
	var held memory.Ref
	carry := small[:min(n, len(small))]
	if n > len(small) {
		held = db.k.heap.Alloc(n, memory.Values)
		carry = memory.Bytes(held, n)
	}
	v.CopyPayload(unsafe.Pointer(unsafe.SliceData(carry)))
	if root != 0 {
		db.k.store.MoveRoot(v.Type(), root)
	}
	if v.Volatile() {
		db.d.ticks -= uint64(db.d.t.Tick(deadline))
	}
	db.letGo(&p, ref, db.d.t.Remove(&p))
	db.touched(from)

	f.KeyLen = len(to)
	payload, created := dst.place(to, &f, deadline)
	copy(value.PayloadBytes(payload, n), carry)
	if !created {
		dst.renew(to)
	}
	if held != 0 {
		db.k.heap.Free(held, memory.Values)
	}
	if fields != 0 {
		dst.SetFieldsDeadline(to, fields)
	}
	dst.touched(to)
}

// CopyTo copies the value at key, deadline included, to dstKey of dst, replacing what was there; false when key does not exist.
func (db *DB) CopyTo(key []byte, dst *DB, dstKey []byte) bool {
	v := db.Peek(key) // COPY has looked it up, and that is one use
	if !v.Exists() {
		return false
	}
	f, deadline, fields := value.FormOf(v), v.Deadline(), db.FieldsDeadline(key)
	f.KeyLen = len(dstKey)
	if v.Rooted() {
		if !dst.setRoot(dstKey, db.k.store.CopyRoot(v), &f, deadline) {
			dst.renew(dstKey)
		}
		if fields != 0 {
			dst.SetFieldsDeadline(dstKey, fields)
		}
		return true
	}
	n := v.PayloadSize()
	held := db.k.heap.Alloc(n, memory.Values) // placing may move v
	v.CopyPayload(memory.Pointer(held))
	payload, created := dst.place(dstKey, &f, deadline)
	copy(value.PayloadBytes(payload, n), memory.Bytes(held, n))
	if !created {
		dst.renew(dstKey)
	}
	db.k.heap.Free(held, memory.Values)
	if fields != 0 {
		dst.SetFieldsDeadline(dstKey, fields)
	}
	dst.touched(dstKey)
	return true
}

// renew is Keyspace.Renew of the value at key, which is there.
func (db *DB) renew(key []byte) {
	_, ref := db.d.t.Find(table.Hash(key), key)
	db.k.Renew(value.At(ref))
}

// Flush empties the database in O(1) and returns how many keys it had; what they held goes to reclaimers.
func (db *DB) Flush() (removed int) {
	removed = db.Len()
	db.flushFields()
	if removed == 0 && !db.d.t.Indexed() {
		return 0
	}
	h, bytes := db.k.heap, db.share()
	root, due := db.d.t.Detach()
	db.d.ticks = 0
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
	if !slices.ContainsFunc(db.k.dbs, func(d DB) bool { return d.Len() > 0 }) {
		db.k.store.Used = value.Encodings{}
	}
	return removed
}

// share is about how many bytes the database takes: as large a part of the data as it has of the keys. O(databases).
func (db *DB) share() int64 {
	keys := 0
	for i := range db.k.dbs {
		keys += db.k.dbs[i].Len()
	}
	h := db.k.heap
	data := h.UsedBy(memory.Keys) + h.UsedBy(memory.Values) + h.UsedBy(memory.Index) - h.Leaving()
	return int64(float64(data) / float64(max(keys, 1)) * float64(db.Len()))
}

// Shape is how the index lies in memory (DEBUG HTSTATS). O(n).
func (db *DB) Shape() table.Shape { return db.d.t.Shape() }

// Pin keeps the bytes of a Long value as they are, readable by any goroutine, until release, which any goroutine may call once.
// Writing or deleting the key meanwhile works on copies of the chunks it touches.
func (db *DB) Pin(v value.Value) (release func()) { return db.k.store.Pin(v.Root()) }
