package hash

import (
	"slices"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// All yields each field with its value and deadline (Unix ms, 0 for none), until yield returns false. The fields of a
// listpack come in its order, others in no fixed order. Fields past their deadline and not yet removed are included.
//
// Lifetime: that of v, for the elements. Any goroutine may walk a frozen value.
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

// Scan yields about count fields, starting at cursor, as All does, and returns the next cursor. Cursor 0 begins a scan,
// and 0 returned ends it. It yields a packed hash as a whole. A field present from the first call to the last is
// yielded at least once.
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

// Earliest returns the least deadline of all fields, or 0 if none has one. It is exact, also for a frozen value. Cost:
// a walk if the hash is a hashtable with deadlines.
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

// MaxDeadline is the latest deadline that a field can have, in Unix ms, in DUMP and RDB.
const MaxDeadline = 1<<48 - 1

// Deadlines reports whether a listpack of triplets obeys hash.H1. least is the least deadline, or 0 if there is none.
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

// AppendPacked appends to dst the listpack of these fields, or, with ex, the listpackex. The order in a listpackex is
// the one that results from setting the deadlines one after the other. AppendPacked changes the order of fields.
func AppendPacked(dst []byte, fields []Field, ex bool) []byte {
	n := 2
	if ex {
		n = 3
		slices.SortFunc(fields, func(a, b Field) int {
			switch {
			case a.Deadline == b.Deadline && a.Deadline == 0:
				return a.at - b.at
			case a.Deadline == b.Deadline:
				return b.at - a.at // a new deadline is inserted before equal ones
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

// A Field is a field for AppendPacked.
type Field struct {
	Field, Value []byte
	Deadline     int64 // Unix ms; 0 for none
	at           int
}

// NewField returns the i-th field.
func NewField(i int, field, val []byte, deadline int64) Field { return Field{field, val, deadline, i} }
