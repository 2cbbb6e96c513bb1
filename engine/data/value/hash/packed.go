package hash

import (
	"slices"

	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// noDeadlineBytes is the length of the listpack entry that means no deadline: the integer 0.
const noDeadlineBytes = 2

// apply makes the gap of s in e's listpack and sets its header. It returns the listpack. The caller writes the gap.
func apply(e *value.Edit, s listpack.Splice) []byte {
	lp := e.Splice(s.Off, s.Del, s.Ins)
	s.Finish(lp)
	return lp
}

func setPacked(e *value.Edit, lp, field, val []byte, keep bool) (created, freed bool) {
	enc := e.Encoding()
	at := listpack.Find(lp, listpack.First(lp), field, per(enc)-1)
	v := listpack.Of(val)
	if at != 0 {
		valueAt := listpack.Next(lp, at)
		if enc != value.ListpackEx || keep || listpack.Get(lp, listpack.Next(lp, valueAt)).Int == 0 {
			s := listpack.Replace(lp, valueAt, v.EncodedLen())
			v.Put(s.Gap(apply(e, s)))
			return false, false
		}
		lp = apply(e, listpack.Delete(lp, at, 3)) // hash.H1: the field moves after those that have a deadline
		freed = true
	}
	f := listpack.Of(field)
	s := listpack.Append(lp, f.EncodedLen()+v.EncodedLen(), 2)
	if enc == value.ListpackEx {
		s.Ins += noDeadlineBytes
		s.Count++
	}
	gap := s.Gap(apply(e, s))
	gap = gap[f.Put(gap):]
	gap = gap[v.Put(gap):]
	if enc == value.ListpackEx {
		listpack.PutInt(gap, 0)
	}
	return at == 0, freed
}

func deletePacked(e *value.Edit, lp, field []byte) (deleted, freed bool) {
	n := per(e.Encoding())
	at := listpack.Find(lp, listpack.First(lp), field, n-1)
	if at == 0 {
		return false, false
	}
	freed = n == 3 && deadlineAt(lp, at) != 0
	apply(e, listpack.Delete(lp, at, n))
	return true, freed
}

// deadlineAt returns the deadline of the field at at in a listpackex.
func deadlineAt(lp []byte, at int) int64 {
	return listpack.Get(lp, listpack.Next(lp, listpack.Next(lp, at))).Int
}

// AllowDeadlines turns a listpack into a listpackex, whose fields have no deadlines yet. It leaves other encodings
// unchanged.
func AllowDeadlines(e *value.Edit) {
	if e.Encoding() != value.Listpack {
		return
	}
	lp := e.Packed()
	end, fields := listpack.End(lp), listpack.Count(lp)/2
	lp = e.Splice(end, 0, noDeadlineBytes*fields)
	// From the last pair to the first, move each pair up by as much as the pairs before it will grow. Write the pair's
	// deadline after it.
	for at, i := end, fields; i > 0; i-- {
		from := listpack.Prev(lp, listpack.Prev(lp, at))
		to := from + noDeadlineBytes*(i-1)
		copy(lp[to:to+at-from], lp[from:at])
		listpack.PutInt(lp[to+at-from:], 0)
		at = from
	}
	listpack.SetHeader(lp, listpack.Bytes(lp)+noDeadlineBytes*fields, fields)
	e.SetEncoding(value.ListpackEx)
}

// setDeadlinePacked changes the deadline of the field at at in a listpackex, 0 for none, and moves the field to its new
// place (hash.H1).
func setDeadlinePacked(e *value.Edit, lp []byte, at int, when int64) {
	s := listpack.Replace(lp, listpack.Next(lp, listpack.Next(lp, at)), listpack.EncodedIntLen(when))
	lp = apply(e, s)
	listpack.PutInt(s.Gap(lp), when)
	end := s.Off + s.Ins // after the field

	to := listpack.End(lp)
	for i := listpack.First(lp); i != 0; {
		first := i
		i = listpack.Next(lp, listpack.Next(lp, i))
		var d listpack.Element
		d, i = listpack.GetNext(lp, i)
		if first != at && when != 0 && (d.Int == 0 || d.Int >= when) {
			to = first
			break
		}
	}
	switch {
	case to > end:
		rotate(lp[at:to], end-at)
	case to < at:
		rotate(lp[to:end], at-to)
	}
	invariant.That(listpack.Bytes(lp) == len(lp), "hash.H1: a listpackex of %d bytes in %d", listpack.Bytes(lp), len(lp))
}

// rotate moves p[n:] before p[:n].
func rotate(p []byte, n int) {
	slices.Reverse(p[:n])
	slices.Reverse(p[n:])
	slices.Reverse(p)
}
