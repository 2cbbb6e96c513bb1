package keyspace

import (
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// Deadlines of fields of hashes. Beside its keys each database has a table of those hashes that have volatile fields:
// entries of key and deadline without a value, the deadline being the least one of the hash's fields. So the index of
// deadlines finds a hash when its first field is due, to the tick.
//
// keyspace.F1. A key is in fields only if it is a hash; it goes from there when the hash is removed, replaced or moved,
// and moves along.
// keyspace.F2. The deadline there is at most the least of the hash's fields; it may be earlier, and is put right when
// it comes.
// keyspace.F3. No view reads fields: its blocks are edited and freed at once, whatever the slots' marks say.

// FieldsDeadline is what SetFieldsDeadline was told of key; 0 for none.
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

// SetFieldsDeadline says when the first field of the hash at key is due, in Unix ms; 0: none has a deadline. Commands
// that change deadlines of fields, or remove fields that have one, call it; a deadline that is too early does no harm.
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

// HashesWithDeadlines is how many hashes have fields with a deadline (INFO's subexpiry).
func (db *DB) HashesWithDeadlines() int { db.k.assertHeld(); return db.d.fields.Len() }

// FieldsHaveDeadlines says whether a field of any hash has a deadline: such a data set needs an RDB file of version 12.
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

// expireFieldsAtOnce is how many fields of one hash go before others have their turn, and expireFieldsDue looks at the
// time.
const expireFieldsAtOnce = 128

// expireFieldsDue removes due fields, hash by hash, until stop.
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
		out = out || time.Now().After(stop) // also when all that were found had been put off
		if out {
			return expired, t.Least() <= now
		}
	}
	return expired, false
}

// expireFields removes some due fields of the hash at key and returns when the next one is due, 0: none is left; key
// then may be gone. It does not write to fields.
func (db *DB) expireFields(key []byte) (next int64, n int) {
	k := db.k
	e := db.edit(key)
	if !e.Value().Exists() || k.ExpireFields == nil {
		return 0, 0
	}
	db.hand(e)
	next, n = k.ExpireFields(e, k.now, expireFieldsAtOnce, func(field []byte) {
		if k.Hooks.FieldExpired != nil {
			k.Hooks.FieldExpired(db.index, key, field)
		}
	})
	k.Stats.ExpiredFields += int64(n)
	emptied := next == Emptied
	if n > 0 {
		db.lapsed(key)
		if k.Hooks.FieldsExpired != nil {
			k.Hooks.FieldsExpired(db.index, key, n, emptied)
		}
	}
	if emptied {
		e.Entry().Remove()
		return 0, n
	}
	return next, n
}

// Emptied as what ExpireFields returns: the hash has no field left.
const Emptied int64 = -1

// destroyFields takes fields apart.
var destroyFields = table.Destroy(func(r *memory.Returner, ref memory.Ref, _ int) (done bool, spent int) {
	r.Free(ref, memory.Index)
	return true, 1
})
