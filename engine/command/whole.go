package command

import "spindle/engine/data/keyspace"

// Whole is told of changes to whole databases, inside the turn and before they happen: who watches or tracks keys would
// not hear of each. The zero value, or nil, tells nobody.
type Whole struct {
	Emptying []func(db int)   // every key of db is about to be removed
	Swapping []func(a, b int) // the contents of a and b are about to change places
	// Renewing says, once, that one of the above is about to happen to one database or to all.
	Renewing []func()
	// Emptied says that FLUSHALL has removed all keys, of which there were removed. Its changes are not counted yet.
	Emptied []func(removed int)
}

// Empty removes every key of db, in O(1), and says how many there were.
func (w *Whole) Empty(db *keyspace.DB) (removed int) {
	w.renew()
	return w.empty(db)
}

// renew tells of what is about to happen to one database or to all.
func (w *Whole) renew() {
	if w != nil {
		for _, f := range w.Renewing {
			f()
		}
	}
}

func (w *Whole) empty(db *keyspace.DB) (removed int) {
	if w != nil {
		for _, f := range w.Emptying {
			f(db.Index())
		}
	}
	return db.Flush()
}

// EmptyAllKeepingSaves removes every key because others are about to take their place: what is saved stays saved.
func (w *Whole) EmptyAllKeepingSaves(k *keyspace.Keyspace) (removed int) {
	w.renew()
	for i := range k.Len() {
		removed += w.empty(k.DB(i))
	}
	return removed
}

// EmptyAll is Empty of all databases.
func (w *Whole) EmptyAll(k *keyspace.Keyspace) (removed int) {
	removed = w.EmptyAllKeepingSaves(k)
	if w != nil {
		for _, f := range w.Emptied {
			f(removed)
		}
	}
	return removed
}

// Swap exchanges the contents of databases a and b.
func (w *Whole) Swap(k *keyspace.Keyspace, a, b int) {
	if a == b {
		return
	}
	w.renew()
	if w != nil {
		for _, f := range w.Swapping {
			f(a, b)
		}
	}
	k.Swap(a, b)
}
