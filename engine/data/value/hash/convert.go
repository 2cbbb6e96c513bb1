package hash

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// Convert turns a packed hash into a hashtable (hash.H3).
func Convert(e *value.Edit) {
	v := e.Value()
	if v.Packed() == nil {
		return
	}
	b := NewBuilder(e.Store(), 0)
	var f, x scratch
	All(v, func(field, val listpack.Element, deadline int64) bool {
		b.Add(field.Text(f[:0]), val.Text(x[:0]), deadline)
		return true
	})
	e.SetRoot(value.HashTable, b.Root())
}

// A Builder makes a hashtable that does not yet belong to a key. It is for conversions, and for loaders, which may
// pause it between turns.
type Builder struct {
	store *value.Store
	root  memory.Ref
	t     table.Table
}

// NewBuilder begins a hashtable of about n fields. 0 means that the number is unknown.
func NewBuilder(s *value.Store, n int) Builder {
	t := table.New(s.Heap, table.Field, s.Base)
	b := Builder{store: s, root: newRoot(s, &t)}
	b.t = table.Open(s.Heap, table.Field, &rootAt(b.root).fields, true) // opened as moved, because it has no position
	if n > 0 {
		b.t.Reserve(n)
	}
	return b
}

// Add adds a field. If the hashtable has it already, Add does nothing and returns false. deadline is in Unix ms, 0 for
// none.
func (b *Builder) Add(field, val []byte, deadline int64) bool {
	hash := table.Hash(field)
	if _, ref := b.t.Find(hash, field); ref != 0 {
		return false
	}
	b.t.Insert(hash, table.NewField(b.store.Heap, field, val, deadline), b.t.Tick(deadline))
	return true
}

// Len returns the number of fields so far.
func (b *Builder) Len() int { return b.t.Len() }

// Root returns the root of the hashtable built so far, complete. keyspace.DB's CreateRoot and PutRoot take it. A turn
// that pauses the Builder also calls it. It is 0 for the zero Builder.
func (b *Builder) Root() memory.Ref {
	if b.root != 0 {
		rootAt(b.root).fields = b.t.State()
	}
	return b.root
}

func (b *Builder) Least() int64 { return b.t.LeastDeadline() }

// Discard frees the hashtable built so far.
func (b *Builder) Discard() { b.store.DropRoot(value.Hash, b.Root()) }
