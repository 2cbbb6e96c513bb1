package keyspace

import (
	"sync/atomic"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
	"spindle/internal/slots"
)

// A View is all databases as they were at Freeze. Any number of views may be open at once. Any goroutine may read a
// view and close it.
type View struct {
	hold *memory.Hold
	dbs  []viewDB // the databases that are not empty, ascending
	// hidden are the slots whose keys are not in the view. It is nil if there are none.
	hidden *table.Hidden
	keep   bool
}

type viewDB struct {
	index, home     int
	root            uint64
	count, volatile int
	bySlot          bool
	walked          *[256]atomic.Bool // prefixes that a walk has begun, in builds that check
}

// Freeze makes a View of all databases as they are now, by copying one word, the root, of each.
// Cost: microseconds at any number of keys. Afterwards the first write to each segment and small block copies it.
func (k *Keyspace) Freeze() *View {
	k.assertHeld()
	v := &View{dbs: make([]viewDB, 0, 1), hidden: k.hidden.Copy()}
	for i := range k.dbs {
		t := &k.dbs[i].d.t
		if t.Shown() == 0 {
			continue
		}
		db := viewDB{index: i, home: t.Home(), root: t.Root(), count: t.Shown(), volatile: t.ShownVolatile(),
			bySlot: k.bySlot}
		if invariant.Enabled {
			db.walked = new([256]atomic.Bool)
		}
		v.dbs = append(v.dbs, db)
	}
	v.hold = k.heap.Freeze()
	return v
}

// find returns the view's part for database db, or nil if the database was empty.
func (v *View) find(db int) *viewDB {
	for i := range v.dbs {
		if v.dbs[i].index == db {
			return &v.dbs[i]
		}
	}
	return nil
}

// Epoch returns the last epoch that the view reads.
func (v *View) Epoch() uint64 { return v.hold.Epoch() }

// DBs returns the numbers of the databases that are not empty, ascending.
func (v *View) DBs() []int {
	is := make([]int, len(v.dbs))
	for i := range v.dbs {
		is[i] = v.dbs[i].index
	}
	return is
}

// Len returns the number of keys in database db, including those past their deadline.
func (v *View) Len(db int) int {
	if d := v.find(db); d != nil {
		return d.count
	}
	return 0
}

// Volatile returns the number of keys with a deadline in database db.
func (v *View) Volatile(db int) int {
	if d := v.find(db); d != nil {
		return d.volatile
	}
	return 0
}

// Walk yields every key of one part of database db, 0 <= part < parts, until yield returns false. Each key is in
// exactly one part, and each part may be walked by its own goroutine. A Value is valid until yield returns, because
// memory that only this walk needed is freed while it proceeds. So a part can be walked only once. Call Keep first to
// walk a view again, or to use Get.
func (v *View) Walk(db, part, parts int, yield func(value.Value) bool) {
	d := v.find(db)
	if d == nil {
		return
	}
	from, to := part*256/parts, (part+1)*256/parts // whole prefixes, as holds follow them
	if from == to {
		return
	}
	passed := func(first, last uint64) {
		if (last+1)<<8 != 0 { // the next segments have the same prefix
			return
		}
		for p := int(first >> 56); p <= int(last>>56); p++ {
			v.hold.Passed(d.home, uint8(p))
		}
	}
	if v.keep {
		passed = nil
	} else if invariant.Enabled {
		for p := from; p < to; p++ {
			invariant.That(!d.walked[p].Swap(true), "part %d/%d of database %d is walked twice", part, parts, db)
		}
	}
	table.Walk(d.root, uint64(from)<<56, uint64(to)<<56-1, passed, func(ref memory.Ref) bool {
		at := value.At(ref)
		return v.hidden != nil && v.hidden.Has(slots.Of(at.Key())) || yield(at)
	})
}

// WalkSlot yields every key of a slot of database db, until yield returns false. Call Keep before. Only in cluster
// mode. Cost: the keys yielded. If a segment holds several slots, the cost is all keys of that segment.
func (v *View) WalkSlot(db int, slot uint16, yield func(value.Value) bool) {
	if d := v.find(db); d != nil {
		table.WalkSlot(d.root, table.Entry, slot, func(ref memory.Ref) bool { return yield(value.At(ref)) })
	}
}

// Keep keeps everything that the view reaches until Close. So the view may be walked again.
func (v *View) Keep() { v.keep = true }

// Get finds key in database db of the view. Call Keep before any Walk.
func (v *View) Get(db int, key []byte) value.Value {
	d := v.find(db)
	if d == nil {
		return value.Value{}
	}
	return value.At(table.FindIn(d.root, table.Entry, table.HashOf(key, d.bySlot), key))
}

// Kept returns the bytes that are not yet freed only because of this view or an older one. Turn only.
func (v *View) Kept() int64 { return v.hold.Kept() }

// Untouched reports whether the data that the view reads is unchanged since Freeze. Databases that were empty then may
// have got keys since. Turn only.
func (v *View) Untouched() bool { return v.hold.Untouched() }

// Close ends the view. A second call is harmless. Any goroutine may call it.
func (v *View) Close() { v.hold.Close() }
