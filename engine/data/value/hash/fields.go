package hash

import (
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// open returns the hashtable of e for writing, and the root in which to store its state.
func open(e *value.Edit) (r *root, t table.Table) {
	r = rootAt(e.Root())
	return r, table.Open(e.Heap(), table.Field, &r.fields, e.Wide())
}

// addField adds a field that the hash does not have.
func addField(e *value.Edit, hash uint64, field, val []byte) {
	r, t := open(e)
	t.Insert(hash, table.NewField(e.Heap(), field, val, 0), table.Never)
	r.fields = t.State()
}

func setField(e *value.Edit, field, val []byte, keep bool) (created, freed bool) {
	hash := table.Hash(field)
	if e.Heap().Frozen() == 0 {
		// In the usual case no table is opened for writing, because that would take a tenth of the command's time
		// (BenchmarkSet).
		ref := table.FindIn(rootAt(e.Value().Root()).fields.Root(), table.Field, hash, field)
		switch {
		case ref == 0:
			addField(e, hash, field, val)
			return true, false
		case table.FieldDeadline(ref) == 0 && table.OverwriteValue(ref, val):
			return false, false
		}
	}
	r, t := open(e)
	p, ref := t.Find(hash, field)
	if ref == 0 {
		addField(e, hash, field, val)
		return true, false
	}
	deadline := table.FieldDeadline(ref)
	if deadline != 0 && !keep {
		deadline, freed = 0, true
	}
	if freed || !t.Edit(&p) || !table.OverwriteValue(ref, val) {
		t.Release(ref, t.Replace(&p, table.NewField(e.Heap(), field, val, deadline), t.Tick(deadline)))
	}
	r.fields = t.State()
	return false, freed
}

func deleteField(e *value.Edit, field []byte) (deleted, freed bool) {
	r, t := open(e)
	p, ref := t.Find(table.Hash(field), field)
	if ref == 0 {
		return false, false
	}
	freed = table.FieldDeadline(ref) != 0
	t.Release(ref, t.Remove(&p))
	r.fields = t.State()
	return true, freed
}

// setDeadlineOf changes the deadline of the field at p. 0 means none.
func setDeadlineOf(e *value.Edit, t *table.Table, p table.Place, when int64) {
	ref := p.Ref()
	if when != 0 && table.FieldDeadline(ref) != 0 && t.Edit(&p) {
		table.OverwriteDeadline(ref, when)
		t.Replace(&p, ref, t.Tick(when))
		return
	}
	next := table.NewField(e.Heap(), table.FieldKey(ref), table.FieldValue(ref), when)
	t.Release(ref, t.Replace(&p, next, t.Tick(when)))
}
