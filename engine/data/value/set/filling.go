package set

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Filling is a hashtable that a load builds in slices before it gets a key. Between Pause and Resume the heap may be
// used for other things, and the root is complete.
type Filling struct {
	store    *value.Store
	root     memory.Ref
	expected int
	members  table.Table
}

// Begin makes an empty root for about n members. The Filling is then paused.
func (f *Filling) Begin(s *value.Store, n int) {
	t := table.New(s.Heap, table.Member, s.Base)
	f.store, f.expected = s, n
	f.root = newRoot(s, &t)
}

// Root returns the root block, or 0 before Begin.
func (f *Filling) Root() memory.Ref { return f.root }

// Resume begins a slice. The table is opened as moved, because it has no position for views.
func (f *Filling) Resume() {
	f.members = table.Open(f.store.Heap, table.Member, &rootAt(f.root).members, true)
	f.members.Reserve(f.expected)
}

// Add adds member. It returns false if the set has it already.
func (f *Filling) Add(member []byte) bool { return add(f.store.Heap, &f.members, member) }

// Pause ends a slice.
func (f *Filling) Pause() { rootAt(f.root).members = f.members.State() }
