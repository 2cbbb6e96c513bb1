package command

import "spindle/engine/data/keyspace"

// Whole changes whole databases, and calls its functions inside the turn. part.Listeners describes them. Each may be
// nil.
type Whole struct {
	Emptying func(db int)
	Swapping func(a, b int)
	Renewing func()
	Emptied  func(removed int)
}

// Empty removes every key of db, in O(1), and returns their number.
func (w *Whole) Empty(db *keyspace.DB) (removed int) {
	w.renew()
	return w.empty(db)
}

func (w *Whole) renew() {
	if w != nil && w.Renewing != nil {
		w.Renewing()
	}
}

func (w *Whole) empty(db *keyspace.DB) (removed int) {
	if w != nil && w.Emptying != nil {
		w.Emptying(db.Index())
	}
	return db.Flush()
}

// EmptyAllKeepingSaves removes every key because other keys are about to replace them. It does not call Emptied, so
// saved files stay valid.
func (w *Whole) EmptyAllKeepingSaves(k *keyspace.Keyspace) (removed int) {
	w.renew()
	for i := range k.Len() {
		removed += w.empty(k.DB(i))
	}
	return removed
}

// EmptyAll removes every key of all databases, and returns their number.
func (w *Whole) EmptyAll(k *keyspace.Keyspace) (removed int) {
	removed = w.EmptyAllKeepingSaves(k)
	if w != nil && w.Emptied != nil {
		w.Emptied(removed)
	}
	return removed
}

// Swap exchanges the contents of databases a and b.
func (w *Whole) Swap(k *keyspace.Keyspace, a, b int) {
	if a == b {
		return
	}
	w.renew()
	if w != nil && w.Swapping != nil {
		w.Swapping(a, b)
	}
	k.Swap(a, b)
}
