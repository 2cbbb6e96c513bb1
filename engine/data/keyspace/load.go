package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// Reserve announces that the database will have about n keys when a load has ended. Reserve(0) ends the load.
func (db *DB) Reserve(n int) { db.k.assertHeld(); db.d.t.Reserve(n) }

// A Loader adds many new keys to a database, in any order. The holder of the turn calls its methods.
//
//	Add… ─▶ the entry is written, after the one before it ──┐
//	AddWritten: one that a Writer has written ──────────────┴─▶ its pile, by the hash's top bits
//	                                                             └─▶ Full ─▶ Settle ─▶ the table
//
// In the order of a file, each key would go to another segment of the table. Neither the segment nor its address
// translation would be cached, and waiting for them was a third of a load's time. The keys of one pile go to few
// segments, which stay in the cache (compare BenchmarkLoader with BenchmarkSet/new).
//
// keyspace.L1. Views, lookups and counts do not see a key in a pile. The key only counts as used memory.
// keyspace.L2. The keys of a pile enter the table in the order in which they were added. So of two equal keys the
// second is the duplicate.
// keyspace.L3. At most one pile is full. While a pile is full, no key is added until the pile has settled.
type Loader struct {
	db      *DB
	shift   uint8 // a hash shifted right by it is the number of its pile
	fill    []uint16
	piles   []Written // pileKeys for each
	full    int       // the pile that is settling, or none
	settled int       // how many keys of the full pile have settled
	last    int       // Finish has settled the piles from this index up
}

const (
	pileKeys    = 512     // the capacity of a pile
	pileSpan    = 1 << 14 // keys of the database for each pile: 200 KB of table
	mostPiles   = 1 << 9  // 4 MB
	settleKeys  = 128     // the keys that one Settle moves
	settleAhead = 16      // keys whose cache misses are under way at once
	none        = -1
)

// Loader begins a load of about n keys. n is 0 if the number is unknown.
func (db *DB) Loader(n int) *Loader {
	l := &Loader{db: db, shift: 64, full: none, last: 1}
	for ; l.last < mostPiles && l.last < n/pileSpan; l.last *= 2 {
		l.shift--
	}
	l.fill = make([]uint16, l.last)
	l.piles = make([]Written, l.last*pileKeys)
	return l
}

func (l *Loader) DB() *DB { return l.db }

// AddString adds a string, as SetString stores it.
func (l *Loader) AddString(key, val []byte, deadline int64) value.Value {
	l.db.k.assertHeld()
	var f value.Form
	word := memory.Ref(f.OfText(len(key), val, deadline != 0))
	if f.Rooted {
		word = l.db.k.store.NewLong(val)
	}
	return l.add(key, &f, word, val, deadline)
}

// AddInt adds a string, the decimal form of n.
func (l *Loader) AddInt(key []byte, n, deadline int64) value.Value {
	l.db.k.assertHeld()
	f := value.IntForm(len(key), deadline != 0)
	return l.add(key, &f, memory.Ref(n), nil, deadline)
}

// AddPacked adds a collection whose listpack or intset is b.
func (l *Loader) AddPacked(key []byte, t value.Type, enc value.Encoding, b []byte, deadline int64) value.Value {
	l.db.k.assertHeld()
	k := l.db.k
	k.store.Used.Note(t, enc)
	f := value.PackedForm(t, enc, len(key), len(b), deadline != 0)
	root := memory.Ref(0)
	if f.Rooted {
		root = k.store.PackedOf(b)
	}
	return l.add(key, &f, root, b, deadline)
}

// add writes an entry and puts it on its pile. The payload is inline if f stores it inline, otherwise word.
func (l *Loader) add(key []byte, f *value.Form, word memory.Ref, inline []byte, deadline int64) value.Value {
	k := l.db.k
	ref := k.heap.Alloc(f.Size(), memory.Keys)
	w := k.compose(ref, key, f, word, inline, deadline, k.newClock())
	l.pile(w)
	return value.At(ref)
}

// AddWritten adds entries that a [Writer] has made, up to the first empty one, or until a pile is full. It returns how
// many it has added. It zeroes these, because they belong to the loader now.
func (l *Loader) AddWritten(entries []Written) (n int) {
	l.db.k.assertHeld()
	for n < len(entries) && entries[n].word != 0 && l.full == none {
		l.pile(entries[n])
		entries[n] = Written{}
		n++
	}
	return n
}

// pile puts an entry on the pile for its hash.
func (l *Loader) pile(w Written) {
	invariant.That(l.full == none, "keyspace.L3: pile %d is full", l.full)
	pile := int(w.hash >> l.shift)
	n := int(l.fill[pile])
	l.piles[pile*pileKeys+n] = w
	if n++; n == pileKeys {
		l.full = pile
	}
	l.fill[pile] = uint16(n)
}

// Full reports whether a pile is full. If so, call Settle until Full returns false, before you add the next key.
func (l *Loader) Full() bool { l.db.k.assertHeld(); return l.full != none }

// Settle moves some keys of the full pile into the table. duplicate is a key that the table already had, or nil; the
// new entry of a duplicate is freed.
// Cost: about 4 µs, and 8–10 µs for each segment that splits.
func (l *Loader) Settle() (duplicate []byte) {
	l.db.k.assertHeld()
	t := &l.db.d.t
	keys := l.piles[l.full*pileKeys:][l.settled:l.fill[l.full]]
	keys = keys[:min(settleKeys, len(keys))]
	told := l.db.k.Blocking > 0 || l.db.k.Watching > 0
	for i := range min(settleAhead, len(keys)) {
		t.TouchInsert(keys[i].hash)
	}
	for i := range keys {
		if i+settleAhead < len(keys) {
			t.TouchInsert(keys[i+settleAhead].hash)
		}
		w := &keys[i]
		if !t.Add(w.hash, w.ref(), w.word&isVolatile != 0) {
			duplicate = append([]byte{}, value.At(w.ref()).Key()...)
			t.Discard(w.hash, w.ref())
			continue
		}
		t.Count(value.Type(w.word>>writtenType&7), value.SizeClass(w.word>>writtenClass))
		if w.word&mayBeLarge != 0 {
			l.db.k.written(l.db.d, w.hash, value.At(w.ref()))
		}
		if told {
			l.notify(value.At(w.ref()))
		}
	}
	if l.settled += len(keys); l.settled == int(l.fill[l.full]) {
		l.fill[l.full], l.settled, l.full = 0, 0, none
	}
	return duplicate
}

// Finish ends a load: it is Settle for any pile that has keys. Call it until done is true, which means that no pile had
// a key left.
func (l *Loader) Finish() (duplicate []byte, done bool) {
	l.db.k.assertHeld()
	for ; l.full == none; l.last-- {
		if l.last == 0 {
			return nil, true
		}
		if l.fill[l.last-1] > 0 {
			l.full = l.last - 1
		}
	}
	return l.Settle(), false
}

// notify calls the hooks for a new key that was loaded.
func (l *Loader) notify(v value.Value) {
	if l.db.k.Blocking > 0 {
		l.db.arrived(v.Key(), v.Type())
	}
	l.db.touched(v.Key())
}
