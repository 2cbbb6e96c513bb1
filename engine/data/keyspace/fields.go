package keyspace

import (
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// Parts of values have deadlines too. Each database has a table (fields) of the hashes with volatile fields. Another
// one (sent) lists the streams that remember message names of producers (XADD IDMP). An entry in these tables has a key
// and the least deadline of the value's parts, but no value. So the index of deadlines finds a hash when its first
// field is due, to the tick.
//
// keyspace.F1. A key is in fields only if it is a hash, and in sent only if it is a stream. The key is removed from the
// table when its value is removed or replaced. It moves along when the value is moved.
// keyspace.F2. The deadline there is at most the least deadline of the value's parts. It may be earlier. It becomes
// exact when it passes.
// keyspace.F3. No view reads the two tables. So their blocks are edited and freed at once, even if their slots are
// marked as shared.

// FieldsDeadline returns the deadline that SetFieldsDeadline set for key, or 0 for none.
func (db *DB) FieldsDeadline(key []byte) int64 {
	db.k.assertHeld()
	return deadlineIn(&db.d.fields, key)
}

// SetFieldsDeadline sets when the first field of the hash at key is due, in Unix ms. 0 means that no field has a
// deadline. Commands that change or remove deadlines of fields call it. A deadline that is too early does no harm.
func (db *DB) SetFieldsDeadline(key []byte, ms int64) { db.setDeadlineIn(&db.d.fields, key, ms) }

// SentDeadline returns the deadline that SetSentDeadline set for key, or 0 for none.
func (db *DB) SentDeadline(key []byte) int64 {
	db.k.assertHeld()
	return deadlineIn(&db.d.sent, key)
}

// SetSentDeadline sets when the stream at key forgets the first message name of a producer, in Unix ms. 0 means that it
// remembers none. A deadline that is too early does no harm.
func (db *DB) SetSentDeadline(key []byte, ms int64) { db.setDeadlineIn(&db.d.sent, key, ms) }

// SetPartsDeadline calls SetFieldsDeadline or SetSentDeadline for the value at key, by its type t.
func (db *DB) SetPartsDeadline(t value.Type, key []byte, ms int64) {
	db.k.assertHeld()
	if parts := db.d.partsOf(t); parts != nil {
		db.setDeadlineIn(parts, key, ms)
	}
}

// partsOf returns the table with the deadlines of parts of values of type t, or nil.
func (d *data) partsOf(t value.Type) *table.Table {
	switch t {
	case value.Hash:
		return &d.fields
	case value.Stream:
		return &d.sent
	}
	return nil
}

// partsDeadline returns the least deadline of the parts of the value at key, of type t, or 0 for none.
func (db *DB) partsDeadline(t value.Type, key []byte) int64 {
	if parts := db.d.partsOf(t); parts != nil {
		return deadlineIn(parts, key)
	}
	return 0
}

func deadlineIn(t *table.Table, key []byte) int64 {
	if t.Len() == 0 {
		return 0
	}
	if _, ref := t.Find(table.Hash(key), key); ref != 0 {
		return value.At(ref).Deadline()
	}
	return 0
}

func (db *DB) setDeadlineIn(t *table.Table, key []byte, ms int64) {
	db.k.assertHeld()
	if t.Len() == 0 && ms == 0 {
		return
	}
	hash := table.Hash(key)
	p, ref := t.Find(hash, key)
	switch {
	case ref == 0 && ms == 0:
	case ref == 0:
		f := value.Form{Volatile: true, KeyLen: len(key)}
		ref = db.k.heap.Alloc(f.Size(), memory.Index)
		value.Compose(ref, &f, key, ms, 0)
		t.Insert(hash, ref, t.Tick(ms))
	case ms == 0:
		t.Remove(&p)
		db.k.heap.Free(ref, memory.Index)
	default:
		value.At(ref).OverwriteDeadline(ms)
		t.Replace(&p, ref, t.Tick(ms))
	}
}

// HashesWithDeadlines returns the number of hashes that have fields with a deadline (INFO's subexpiry).
func (db *DB) HashesWithDeadlines() int { db.k.assertHeld(); return db.d.fields.Len() }

// FieldsHaveDeadlines reports whether a field of any hash has a deadline. Such a data set needs an RDB file of version
// 12.
func (k *Keyspace) FieldsHaveDeadlines() bool {
	k.assertHeld()
	for i := range k.dbs {
		if k.dbs[i].d.fields.Len() > 0 {
			return true
		}
	}
	return false
}

// MessagesRemembered reports whether a stream remembers message names of producers.
func (k *Keyspace) MessagesRemembered() bool {
	k.assertHeld()
	for i := range k.dbs {
		if k.dbs[i].d.sent.Len() > 0 {
			return true
		}
	}
	return false
}

// flushParts empties a table of deadlines of parts in O(1).
func (db *DB) flushParts(t *table.Table) {
	if t.Len() == 0 && !t.Indexed() {
		return
	}
	root, due := t.Detach()
	if due != 0 {
		db.k.heap.RetireTreeWide(due, value.KindDue, 0)
	}
	db.k.heap.RetireTreeWide(root, value.KindFields, 0)
}

// expireFieldsAtOnce is the largest number of parts of one value that are removed before other keys get their turn, and
// before partsDue checks the time.
const expireFieldsAtOnce = 128

// expireFieldsDue removes due fields, hash by hash, until the time stop. out means that time ran out while fields were
// due.
func (db *DB) expireFieldsDue(stop time.Time) (expired int, out bool) {
	return db.partsDue(&db.d.fields, stop, db.expireFields)
}

// HasForgotten reports whether no stream has message names of producers to forget that are due.
func (k *Keyspace) HasForgotten() bool {
	k.assertHeld()
	for i := range k.dbs {
		if t := &k.dbs[i].d.sent; t.Least() <= t.TickNow(k.now) {
			return false
		}
	}
	return true
}

// ForgetDue makes streams forget the message names of producers that are due, for at most limit. Every server does so,
// also a replica. more means that the time ran out.
func (k *Keyspace) ForgetDue(limit time.Duration) (more bool) {
	k.assertHeld()
	var stop time.Time
	for i := range k.dbs {
		db := &k.dbs[i]
		t := &db.d.sent
		if t.Least() > t.TickNow(k.now) {
			continue
		}
		if stop.IsZero() {
			stop = time.Now().Add(limit)
		}
		if _, more = db.partsDue(t, stop, db.forget); more {
			return true
		}
	}
	return false
}

// forget makes the stream at key forget some message names that are due.
func (db *DB) forget(key []byte) (next int64, n int) {
	if e := db.edit(key); e.Value().Exists() && db.k.Forget != nil {
		db.hand(e)
		return db.k.Forget(e, db.k.now, expireFieldsAtOnce)
	}
	return 0, 0
}

// partsDue calls remove for each key in t whose deadline has passed, until the time stop. remove removes some parts
// that are due. It returns when the next part is due (0 if none is left) and the number removed. out means that time
// ran out while parts were due.
func (db *DB) partsDue(t *table.Table, stop time.Time, remove func(key []byte) (next int64, n int)) (
	removed int, out bool) {
	k := db.k
	now := t.TickNow(k.now)
	d := &k.due
	d.Most = 0
	for t.NextDue(now, d) {
		for i := range d.N {
			at := value.At(d.Refs[i])
			if deadline := at.Deadline(); deadline >= k.now || out {
				d.Stays(i, t.Tick(deadline))
				continue
			}
			if k.conceals(at.Key()) {
				d.Stays(i, t.Tick(k.now+hiddenFor))
				continue
			}
			next, n := remove(at.Key())
			removed += n
			if next == 0 {
				t.Drop(d, i)
				k.heap.Free(d.Refs[i], memory.Index)
			} else {
				at.OverwriteDeadline(next)
				d.Stays(i, t.Tick(next))
			}
			out = time.Now().After(stop)
		}
		t.EndDue(d)
		out = out || time.Now().After(stop) // also if all deadlines found had been postponed
		if out {
			return removed, t.Least() <= now
		}
	}
	return removed, false
}

// expireFields removes some due fields of the hash at key. It returns when the next field is due, or 0 if none has a
// deadline. In the latter case the hash may have been removed. It does not write to the table fields.
func (db *DB) expireFields(key []byte) (next int64, n int) {
	k := db.k
	e := db.edit(key)
	if !e.Value().Exists() || k.ExpireFields == nil {
		return 0, 0
	}
	db.hand(e)
	next, n = k.ExpireFields(e, k.now, expireFieldsAtOnce, func(field []byte) {
		if k.Hooks.FieldExpired != nil && k.Hooks.FieldExpired(db.index, key, field) {
			k.names.Add(field)
		}
	})
	k.Stats.ExpiredFields += int64(n)
	k.Stats.FieldsByCycle += int64(n)
	emptied := next == Emptied
	if n > 0 {
		db.resize(e.Value())
		db.lapsed(key)
		if k.Hooks.FieldsExpired != nil {
			k.Hooks.FieldsExpired(db.index, key, k.names.All(), emptied)
		}
		k.names.Reset()
	}
	if emptied {
		e.Entry().Remove()
		return 0, n
	}
	return next, n
}

// Emptied is the result of ExpireFields that means that the hash has no field left.
const Emptied int64 = -1

// destroyFields frees a table of deadlines of parts.
var destroyFields = table.Destroy(func(r *memory.Returner, ref memory.Ref, _ int) (done bool, spent int) {
	r.Free(ref, memory.Index)
	return true, 1
})
