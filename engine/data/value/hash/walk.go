package hash

import (
	"slices"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// All yields each field with its value and deadline (Unix ms, 0: none), until yield returns false. A listpack's come in
// its order, others in none. Those past their deadline that have not been removed are among them.
//
// Lifetime: the elements as v's. Frozen values too: any goroutine.
func All(v value.Value, yield func(field, val listpack.Element, deadline int64) bool) {
	if lp := v.Packed(); lp != nil {
		allPacked(lp, per(v.Encoding()) == 3, yield)
		return
	}
	table.Walk(rootAt(v.Root()).fields.Root(), 0, ^uint64(0), nil, func(ref memory.Ref) bool {
		return yield(listpack.OfText(table.FieldKey(ref)), listpack.OfText(table.FieldValue(ref)), table.FieldDeadline(ref))
	})
}

func allPacked(lp []byte, ex bool, yield func(field, val listpack.Element, deadline int64) bool) {
	for at := listpack.First(lp); at != 0; {
		var field, val listpack.Element
		field, at = listpack.GetNext(lp, at)
		val, at = listpack.GetNext(lp, at)
		deadline := int64(0)
		if ex {
			var e listpack.Element
			e, at = listpack.GetNext(lp, at)
			deadline = e.Int
		}
		if !yield(field, val, deadline) {
			return
		}
	}
}

// Scan passes about count fields from cursor on, as All does, and returns the cursor to go on from; 0 begins and ends.
// A packed hash is passed as a whole. A field that is there from the first call to the last is passed at least once.
func Scan(v value.Value, cursor uint64, count int,
	yield func(field, val listpack.Element, deadline int64)) (next uint64) {
	if lp := v.Packed(); lp != nil {
		allPacked(lp, per(v.Encoding()) == 3, func(field, val listpack.Element, deadline int64) bool {
			yield(field, val, deadline)
			return true
		})
		return 0
	}
	t := table.Open(nil, table.Field, &rootAt(v.Root()).fields, false)
	return t.Scan(cursor, count, func(ref memory.Ref) {
		yield(listpack.OfText(table.FieldKey(ref)), listpack.OfText(table.FieldValue(ref)), table.FieldDeadline(ref))
	})
}

// Earliest is the least deadline of all fields, 0 when none has one: exact, also of a frozen value. Cost: a walk of a
// hashtable that has deadlines.
func Earliest(v value.Value) (least int64) {
	if v.Packed() != nil {
		return Least(v)
	}
	if !Volatile(v) {
		return 0
	}
	All(v, func(_, _ listpack.Element, deadline int64) bool {
		if deadline != 0 && (least == 0 || deadline < least) {
			least = deadline
		}
		return true
	})
	return least
}

// MaxDeadline is the latest deadline a field can have, Unix ms, as DUMP and RDB know it.
const MaxDeadline = 1<<48 - 1

// Deadlines says whether a listpack of triplets obeys hash.H1, and which deadline is the least; 0: there is none.
func Deadlines(lp []byte) (least int64, ok bool) {
	last, none, i := int64(0), false, 0
	for _, e := range listpack.All(lp) {
		if i++; i%3 != 0 {
			continue
		}
		switch {
		case !e.IsInt || e.Int < 0 || e.Int > MaxDeadline:
			return 0, false
		case e.Int == 0:
			none = true
		case none || e.Int < last:
			return 0, false
		case last == 0:
			least = e.Int
		}
		last = e.Int
	}
	return least, true
}

// AppendPacked appends to dst the listpack of these fields, or, with ex, the listpackex, in the order that giving them
// their deadlines one after the other leads to. It changes the order of fields.
func AppendPacked(dst []byte, fields []Field, ex bool) []byte {
	n := 2
	if ex {
		n = 3
		slices.SortFunc(fields, func(a, b Field) int {
			switch {
			case a.Deadline == b.Deadline && a.Deadline == 0:
				return a.at - b.at
			case a.Deadline == b.Deadline:
				return b.at - a.at // a deadline goes before others like it
			case a.Deadline == 0 || b.Deadline != 0 && a.Deadline > b.Deadline:
				return 1
			}
			return -1
		})
	}
	from := len(dst)
	dst = listpack.Begin(dst)
	for _, f := range fields {
		dst = listpack.AppendEntry(dst, listpack.Of(f.Field))
		dst = listpack.AppendEntry(dst, listpack.Of(f.Value))
		if ex {
			dst = listpack.AppendEntry(dst, listpack.OfInt(f.Deadline))
		}
	}
	return listpack.Close(dst, from, n*len(fields))
}

// A Field is one that AppendPacked is given.
type Field struct {
	Field, Value []byte
	Deadline     int64 // Unix ms; 0: none
	at           int
}

// NewField is the i-th field.
func NewField(i int, field, val []byte, deadline int64) Field { return Field{field, val, deadline, i} }
