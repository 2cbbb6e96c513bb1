package set

import (
	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/internal/setting"
)

// An Element is a member as a reader gets it: the integer of an intset or a listpack, or bytes in place.
type Element = listpack.Element

// ElementOf returns member in the form in which a set stores it.
func ElementOf(member []byte) Element { return listpack.Of(member) }

// A set has one of three encodings. A set that outgrows one changes to the next; removals do not change it back.
//
//	intset ──── a member that is no integer, if all fits a listpack ───▶ listpack
//	   │                                                                   │
//	   └── too many, or a member that does not fit a listpack ─▶ hashtable ◀┘   too many, or a member too long
//
// Limits are the limits of the compact encodings: members of an intset, members of a listpack, bytes of a listpack's
// member.
type Limits struct{ IntSet, Entries, Value int }

// mostIntegers is the largest number of members of an intset, whatever the settings are.
const mostIntegers = 1 << 30

func (l Limits) integers() int { return min(l.IntSet, mostIntegers) }

// First returns the encoding of a new set of about n members, the first of which is member.
func (l Limits) First(member []byte, n int) value.Encoding {
	if n <= l.IntSet {
		if _, ok := number.ParseInt(member); ok {
			return value.IntSet
		}
	}
	if n <= l.Entries {
		return value.Listpack
	}
	return value.HashTable
}

// asText reports whether an intset may become a listpack when a member of n bytes that is no integer is added.
func (l Limits) asText(set []byte, n int) bool {
	count, longest, each := intset.Len(set), 0, 0
	if count > 0 {
		least, most := intset.Min(set), intset.Max(set)
		longest = max(number.IntLen(least), number.IntLen(most))
		each = max(listpack.EncodedIntLen(least), listpack.EncodedIntLen(most))
	}
	return count < l.Entries && n <= l.Value && longest <= l.Value &&
		listpack.EmptyLen+count*each+n+listpack.MaxOverhead <= listpack.MaxBytes
}

// takes reports whether a listpack has room for the edit s, which adds a member of n bytes.
func (l Limits) takes(lp []byte, s listpack.Splice, n int) bool {
	return listpack.Count(lp) < l.Entries && n <= l.Value && s.Fits(lp)
}

// Settings are the CONFIG settings of Limits.
type Settings struct {
	IntSet  setting.Int // set-max-intset-entries
	Entries setting.Int // set-max-listpack-entries
	Value   setting.Int // set-max-listpack-value
}

// Rows returns the settings, and sets them to their defaults.
func (s *Settings) Rows() []setting.Row {
	row := func(name string, v *setting.Int, deflt int64) setting.Row {
		return setting.NewInt(name, v, deflt, setting.Between(0, 1<<63-1))
	}
	return []setting.Row{
		row("set-max-intset-entries", &s.IntSet, 512),
		row("set-max-listpack-entries", &s.Entries, 128),
		row("set-max-listpack-value", &s.Value, 64),
	}
}

// Limits returns the present limits.
func (s *Settings) Limits() Limits {
	return Limits{int(s.IntSet.Get()), int(s.Entries.Get()), int(s.Value.Get())}
}
