package hash

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
)

// Set makes val the value of field. The field loses its deadline unless keep is set. created means that the field is
// new. freed means that it lost a deadline, so that Least may change.
func Set(e *value.Edit, field, val []byte, keep bool, l Limits) (created, freed bool) {
	if lp := e.Packed(); lp != nil {
		if len(field) > l.Value || len(val) > l.Value ||
			len(lp)+len(field)+len(val)+3*listpack.MaxOverhead > listpack.MaxBytes {
			Convert(e)
		} else {
			created, freed = setPacked(e, lp, field, val, keep)
			if Len(e.Value()) > l.Entries {
				Convert(e)
			}
			return created, freed
		}
	}
	return setField(e, field, val, keep)
}

// Delete removes field. freed means that it had a deadline. The caller removes the key of a hash that has become empty.
func Delete(e *value.Edit, field []byte) (deleted, freed bool) {
	if lp := e.Packed(); lp != nil {
		return deletePacked(e, lp, field)
	}
	return deleteField(e, field)
}

// FillBytes returns the length of the listpack that has these pairs, fields and values in turn, if all fields are
// different.
func FillBytes(pairs [][]byte) int {
	n := listpack.EmptyLen
	for _, p := range pairs {
		n += listpack.EncodedLen(p)
	}
	return n
}

// Fill writes pairs, fields and values in turn, to a new packed hash of FillBytes bytes. It returns how many fields the
// hash then has.
func Fill(e *value.Edit, pairs [][]byte, l Limits) (created int) {
	lp := e.Packed()
	listpack.AppendEmpty(lp[:0])
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 && listpack.Find(lp, listpack.First(lp), pairs[i], 1) != 0 { // given twice: there is more room than needed
			e.Splice(listpack.Bytes(lp), len(lp)-listpack.Bytes(lp), 0)
			for ; i+1 < len(pairs); i += 2 {
				if isNew, _ := Set(e, pairs[i], pairs[i+1], false, l); isNew {
					created++
				}
			}
			return created
		}
		field, val := listpack.Of(pairs[i]), listpack.Of(pairs[i+1])
		s := listpack.Append(lp, field.EncodedLen()+val.EncodedLen(), 2)
		s.Open(lp)
		gap := s.Gap(lp)
		val.Put(gap[field.Put(gap):])
		created++
	}
	return created
}
