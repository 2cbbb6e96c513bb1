package hash

import (
	"math/bits"
	"math/rand/v2"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// Get returns a field's value and its deadline (Unix ms, 0 for none). ok is false if there is no such field.
//
// Lifetime: val is valid as long as v.
func Get(v value.Value, field []byte) (val listpack.Element, deadline int64, ok bool) {
	if lp := v.Packed(); lp != nil {
		n := per(v.Encoding())
		at := listpack.Find(lp, listpack.First(lp), field, n-1)
		if at == 0 {
			return val, 0, false
		}
		at = listpack.Next(lp, at)
		if n == 3 {
			deadline = listpack.Get(lp, listpack.Next(lp, at)).Int
		}
		return listpack.Get(lp, at), deadline, true
	}
	ref := table.FindIn(rootAt(v.Root()).fields.Root(), table.Field, table.Hash(field), field)
	if ref == 0 {
		return val, 0, false
	}
	return listpack.OfText(table.FieldValue(ref)), table.FieldDeadline(ref), true
}

// Least returns a lower bound of the fields' deadlines, in Unix ms, or 0 if none has one. It is the argument for
// keyspace.DB.SetFieldsDeadline. It is only for live values, because the index of deadlines of a frozen value may have
// changed.
func Least(v value.Value) int64 {
	if lp := v.Packed(); lp != nil {
		if v.Encoding() == value.ListpackEx {
			if at := listpack.Seek(lp, 2); at != 0 {
				return listpack.Get(lp, at).Int
			}
		}
		return 0
	}
	t := table.Open(nil, table.Field, &rootAt(v.Root()).fields, false)
	return t.LeastDeadline()
}

// Random returns a random field, each equally likely, with its value and deadline. The hash must not be empty.
func Random(v value.Value, rng *rand.PCG) (field, val listpack.Element, deadline int64) {
	if lp := v.Packed(); lp != nil {
		n := per(v.Encoding())
		at := listpack.Seek(lp, n*below(rng, listpack.Count(lp)/n))
		if n == 3 {
			deadline = deadlineAt(lp, at)
		}
		return listpack.Get(lp, at), listpack.Get(lp, listpack.Next(lp, at)), deadline
	}
	t := table.Open(nil, table.Field, &rootAt(v.Root()).fields, false)
	ref := t.Random(rng)
	return listpack.OfText(table.FieldKey(ref)), listpack.OfText(table.FieldValue(ref)), table.FieldDeadline(ref)
}

// below returns a random number from 0 to n-1.
func below(rng *rand.PCG, n int) int {
	hi, _ := bits.Mul64(rng.Uint64(), uint64(n))
	return int(hi)
}

// sparse is the ratio of all fields to wanted ones from which Sample draws fields instead of walking the hash.
const sparse = 8

// Sample yields n different fields, or all if there are fewer. Each choice of n is equally likely. If live is not nil,
// it yields only fields for which live returns true.
//
// Cost: one walk of all fields, two with live, without extra memory. If few fields are wanted, the cost is a draw and a
// map entry for each. If live rejects most, it is up to sparse times as many draws, and then two walks.
func Sample(v value.Value, rng *rand.PCG, n int, live func(deadline int64) bool,
	yield func(field, val listpack.Element)) {
	size := Len(v)
	n = min(n, size)
	if v.Packed() != nil || n > size/sparse {
		sampleWalking(v, rng, n, live, yield)
		return
	}
	t := table.Open(nil, table.Field, &rootAt(v.Root()).fields, false)
	seen, draws := make(map[memory.Ref]struct{}, n), sparse*n
	for ; n > 0; draws-- {
		if live != nil && draws == 0 {
			sampleRest(v, rng, n, live, seen, yield)
			return
		}
		ref := t.Random(rng)
		if _, again := seen[ref]; again {
			continue
		}
		seen[ref] = struct{}{}
		if live == nil || live(table.FieldDeadline(ref)) {
			yield(listpack.OfText(table.FieldKey(ref)), listpack.OfText(table.FieldValue(ref)))
			n--
		}
	}
}

// sampleRest yields n more fields of a hashtable, other than those in seen. The fields in seen were drawn at random, so
// all others stay equally likely.
func sampleRest(v value.Value, rng *rand.PCG, n int, live func(deadline int64) bool, seen map[memory.Ref]struct{},
	yield func(field, val listpack.Element)) {
	walk := func(f func(ref memory.Ref) bool) {
		table.Walk(rootAt(v.Root()).fields.Root(), 0, ^uint64(0), nil, func(ref memory.Ref) bool {
			if _, again := seen[ref]; again || !live(table.FieldDeadline(ref)) {
				return true
			}
			return f(ref)
		})
	}
	left := 0
	walk(func(memory.Ref) bool { left++; return true })
	walk(func(ref memory.Ref) bool {
		if below(rng, left) < n {
			yield(listpack.OfText(table.FieldKey(ref)), listpack.OfText(table.FieldValue(ref)))
			n--
		}
		left--
		return n > 0
	})
}

func sampleWalking(v value.Value, rng *rand.PCG, n int, live func(deadline int64) bool,
	yield func(field, val listpack.Element)) {
	left := Len(v)
	if live != nil {
		left = 0
		All(v, func(_, _ listpack.Element, deadline int64) bool {
			if live(deadline) {
				left++
			}
			return true
		})
	}
	All(v, func(field, val listpack.Element, deadline int64) bool {
		if live != nil && !live(deadline) {
			return true
		}
		if n > 0 && below(rng, left) < n { // n of the left fields still to be walked are wanted
			yield(field, val)
			n--
		}
		left--
		return n > 0
	})
}

// scratch has room for the text of an integer.
type scratch [number.MaxIntLen]byte
