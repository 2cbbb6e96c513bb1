package hash

import (
	"math"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Condition decides whether a field may get another deadline.
type Condition uint8

const (
	Always Condition = iota
	NX               // the field has no deadline
	XX               // the field has a deadline
	GT               // the field has an earlier deadline
	LT               // the field has no deadline, or a later one
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

// An Outcome is the result of a change of a field's deadline, in the numbers that clients get.
type Outcome int

const (
	NoField    Outcome = -2
	NoDeadline Outcome = -1
	NotMet     Outcome = 0 // the condition did not hold
	Done       Outcome = 1
	Removed    Outcome = 2
)

// Expire gives field the deadline when (Unix ms, not 0) if c holds. If c holds and passed is set, it removes the field
// instead and returns Removed. Call AllowDeadlines first, once for all fields of a command.
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

// Persist removes field's deadline. A field whose deadline is before now, in Unix ms, counts as absent.
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

// Emptied is ExpireDue's result for a hash that has no field left. It equals keyspace.Emptied.
const Emptied int64 = -1

// ExpireDue removes up to budget fields whose deadline is before now (Unix ms), the earliest first. It calls gone
// before it removes each. It returns their number, and the next deadline, or 0 if there is none. If no field is left,
// next is Emptied; the hash stays in place.
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
	// Postponed fields count as seen too.
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
		t.EndDue(&d)
	}
	r.fields = t.State()
	return n
}

// sweepUpTo is the largest number of fields for which ExpirePast looks at every field of a hashtable.
const sweepUpTo = 4096

// ExpirePast is ExpireDue without a budget. In a hashtable it also removes fields whose deadline has passed but whose
// tick is still to come. It does not do so if there are too many fields, because the walk would make a long turn.
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
