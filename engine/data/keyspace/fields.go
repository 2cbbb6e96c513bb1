package keyspace

import (
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// Deadlines of fields of hashes. Each database has a table of the hashes with volatile fields. Its entries have a key
// and a deadline, the least of the hash's fields, but no value. So the index of deadlines finds a hash when its first
// field is due, to the tick.
//
// keyspace.F1. A key is in fields only if it is a hash. It is removed there when the hash is removed or replaced. It
// moves along when the hash is moved.
// keyspace.F2. The deadline there is at most the least of the hash's fields. It may be earlier, and becomes exact when
// it comes.
// keyspace.F3. No view reads fields: its blocks are edited and freed at once, whatever their slots' shared marks say.

// FieldsDeadline returns the deadline that SetFieldsDeadline set for key; 0 for none.
func (db *DB) FieldsDeadline(key []byte) int64 {
	db.k.assertHeld()
	if db.d.fields.Len() == 0 {
		return 0
	}
	if _, ref := db.d.fields.Find(table.Hash(key), key); ref != 0 {
		return value.At(ref).Deadline()
	}
	return 0
}

// SetFieldsDeadline sets when the first field of the hash at key is due, in Unix ms; 0: none has a deadline. Commands
// that change or remove deadlines of fields call it. A deadline that is too early does no harm.
func (db *DB) SetFieldsDeadline(key []byte, ms int64) {
	db.k.assertHeld()
	t := &db.d.fields
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

// HashesWithDeadlines is the number of hashes that have fields with a deadline (INFO's subexpiry).
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

// flushFields empties fields in O(1).
func (db *DB) flushFields() {
	t := &db.d.fields
	if t.Len() == 0 && !t.Indexed() {
		return
	}
	root, due := t.Detach()
	if due != 0 {
		db.k.heap.RetireTreeWide(due, value.KindDue, 0)
	}
	db.k.heap.RetireTreeWide(root, value.KindFields, 0)
}

// expireFieldsAtOnce is the most fields of one hash that are removed before other hashes follow, and before
// expireFieldsDue checks the time.
const expireFieldsAtOnce = 128

// expireFieldsDue removes due fields, hash by hash, until the time stop. out means that it stopped early.
func (db *DB) expireFieldsDue(stop time.Time) (expired int, out bool) {
	k, t := db.k, &db.d.fields
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
			next, n := db.expireFields(at.Key())
			expired += n
			if next == 0 {
				t.Drop(d, i)
				k.heap.Free(d.Refs[i], memory.Index)
			} else {
				at.OverwriteDeadline(next)
				d.Stays(i, t.Tick(next))
			}
			out = time.Now().After(stop)
		}
		t.Settle(d)
		out = out || time.Now().After(stop) // also if all deadlines found had been postponed
		if out {
			return expired, t.Least() <= now
		}
	}
	return expired, false
}

// expireFields removes some due fields of the hash at key. It returns when the next one is due, and 0 if none is left;
// key may then be removed. It does not write to fields.
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
	emptied := next == Emptied
	if n > 0 {
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

// Emptied as a result of ExpireFields: the hash has no field left.
const Emptied int64 = -1

// destroyFields frees fields.
var destroyFields = table.Destroy(func(r *memory.Returner, ref memory.Ref, _ int) (done bool, spent int) {
	r.Free(ref, memory.Index)
	return true, 1
})
