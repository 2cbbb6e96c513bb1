package hash

import (
	"math"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Condition is when a field may be given another deadline.
type Condition uint8

const (
	Always Condition = iota
	NX               // it has none
	XX               // it has one
	GT               // it has an earlier one
	LT               // it has none, or a later one
)

func (c Condition) holds(old, when int64) bool {
	switch c {
	case NX:
		return old == 0
	case XX:
		return old != 0
	case GT:
		return old != 0 && when > old
	case LT:
		return old == 0 || when < old
	}
	return true
}

// An Outcome is what became of a wish about a field's deadline, in the numbers that clients get.
type Outcome int

const (
	NoField    Outcome = -2
	NoDeadline Outcome = -1
	NotMet     Outcome = 0 // the condition did not hold
	Done       Outcome = 1
	Removed    Outcome = 2
)

// Expire gives field the deadline when (Unix ms, not 0) if c holds; or removes it, if c holds and passed is set:
// Removed. AllowDeadlines comes first, once for several fields.
func Expire(e *value.Edit, field []byte, when int64, c Condition, passed bool) Outcome {
	if lp := e.Packed(); lp != nil {
		at := listpack.Find(lp, listpack.First(lp), field, 2)
		switch {
		case at == 0:
			return NoField
		case !c.holds(deadlineAt(lp, at), when):
			return NotMet
		case passed:
			apply(e, listpack.Delete(lp, at, 3))
			return Removed
		}
		setDeadlinePacked(e, lp, at, when)
		return Done
	}
	r, t := open(e)
	p, ref := t.Find(table.Hash(field), field)
	switch {
	case ref == 0:
		return NoField
	case !c.holds(table.FieldDeadline(ref), when):
		return NotMet
	case passed:
		t.Release(ref, t.Remove(&p))
		r.fields = t.State()
		return Removed
	}
	setDeadlineOf(e, &t, p, when)
	r.fields = t.State()
	return Done
}

// Persist takes field's deadline away; a field whose deadline is before now, in Unix ms, counts as absent.
func Persist(e *value.Edit, field []byte, now int64) Outcome {
	if lp := e.Packed(); lp != nil {
		n := per(e.Encoding())
		at := listpack.Find(lp, listpack.First(lp), field, n-1)
		if at == 0 {
			return NoField
		}
		if n != 3 {
			return NoDeadline
		}
		if o := persistable(deadlineAt(lp, at), now); o != Done {
			return o
		}
		setDeadlinePacked(e, lp, at, 0)
		return Done
	}
	_, deadline, ok := Get(e.Value(), field)
	if !ok {
		return NoField
	}
	if o := persistable(deadline, now); o != Done {
		return o
	}
	r, t := open(e)
	p, _ := t.Find(table.Hash(field), field)
	setDeadlineOf(e, &t, p, 0)
	r.fields = t.State()
	return Done
}

func persistable(deadline, now int64) Outcome {
	switch {
	case deadline == 0:
		return NoDeadline
	case deadline < now:
		return NoField
	}
	return Done
}

// Emptied is what ExpireDue returns of a hash without a field left, as keyspace.Emptied.
const Emptied int64 = -1

// ExpireDue removes up to budget fields whose deadline is before now (Unix ms), each after gone has heard of it, the
// earliest first. It returns how many, and when the next one is due, 0: no other has a deadline. It leaves an emptied
// hash in place: Emptied.
func ExpireDue(e *value.Edit, now int64, budget int, gone func(field []byte)) (next int64, n int) {
	if lp := e.Packed(); lp != nil {
		if e.Encoding() != value.ListpackEx {
			return 0, 0
		}
		var room scratch
		allPacked(lp, true, func(field, _ listpack.Element, deadline int64) bool {
			if deadline == 0 || deadline >= now || n == budget {
				return false
			}
			gone(field.Text(room[:0]))
			n++
			return true
		})
		if n > 0 {
			apply(e, listpack.DeleteRange(lp, 0, 3*n))
		}
	} else {
		n = expireDueFields(e, now, budget, gone)
	}
	if v := e.Value(); n > 0 && Len(v) == 0 {
		return Emptied, n
	}
	return Least(e.Value()), n
}

func expireDueFields(e *value.Edit, now int64, budget int, gone func(field []byte)) (n int) {
	r, t := open(e)
	var d table.Due
	// Of fields put off, too.
	for seen := 0; n < budget && seen>>3 < budget && t.NextDue(t.TickNow(now), &d); seen += d.N + 1 {
		for i, ref := range d.Refs[:d.N] {
			if deadline := table.FieldDeadline(ref); deadline >= now {
				d.Stays(i, t.Tick(deadline))
				continue
			}
			gone(table.FieldKey(ref))
			t.Release(ref, t.Drop(&d, i))
			n++
		}
		t.Settle(&d)
	}
	r.fields = t.State()
	return n
}

// sweepUpTo is how many fields a hashtable may have for ExpirePast to look at each of them.
const sweepUpTo = 4096

// ExpirePast is ExpireDue of all fields, whenever they are due. It also removes those of a hashtable whose deadline has
// passed but whose tick is still to come, unless there are so many fields that a walk would hold up the turn.
func ExpirePast(e *value.Edit, now int64, gone func(field []byte)) (next int64, n int) {
	next, n = ExpireDue(e, now, math.MaxInt, gone)
	if next <= 0 || next >= now || e.Packed() != nil || Len(e.Value()) > sweepUpTo {
		return next, n
	}
	var past []memory.Ref
	r, t := open(e)
	table.Walk(r.fields.Root(), 0, ^uint64(0), nil, func(ref memory.Ref) bool {
		if deadline := table.FieldDeadline(ref); deadline != 0 && deadline < now {
			past = append(past, ref)
		}
		return true
	})
	for _, ref := range past {
		field := table.FieldKey(ref)
		gone(field)
		p := t.Locate(table.Hash(field), ref)
		t.Release(ref, t.Remove(&p))
	}
	r.fields = t.State()
	if n += len(past); r.fields.Len() == 0 {
		return Emptied, n
	}
	return Least(e.Value()), n
}
