package keys

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// SORT of numbers compares nothing: it deals elements by the digits of a key that orders as the numbers do (radix
// sort).
//
//	integers   key = number + 2^63; the text is made of the key again when it is put out
//	others     key = the double's bits, turned over where it is negative; at leads to the text
//	DESC       key = the complement of that
//
// Elements of equal numbers and different texts, as 1 and 1.0, are in the order of their texts.
type keyed struct {
	key uint64
	at  uint32 // in the texts
}

// exactInt is up to where doubles tell integers apart: SORT compares doubles.
const exactInt = 1 << 53

// keyOfInt and keyOfDouble are keys, ascending.
func keyOfInt(n int64) uint64 { return uint64(n) ^ 1<<63 }

func keyOfDouble(f float64) uint64 {
	if f == 0 {
		f = 0 // -0 is 0
	}
	b := math.Float64bits(f)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// sortNumbers is sort by number: of the elements, or of what BY leads to.
func (o *ordering) sortNumbers(v value.Value, from, to int, yield func(text []byte)) (ok bool) {
	turned := uint64(0)
	if o.desc {
		turned = ^turned
	}
	if o.by == nil {
		if all, ok := integers(v, turned); ok {
			var digits [number.MaxIntLen]byte
			for _, x := range radixSort(all)[from:to] {
				yield(number.AppendInt(digits[:0], int64(x.key^turned^1<<63)))
			}
			return true
		}
	}
	n := sortableLen(v)
	all, texts := make([]keyed, 0, n), make([]string, 0, n)
	ok = true
	passElements(v, 0, n, false, func(el listpack.Element) bool {
		text := o.keepElement(el)
		weight := float64(0)
		if weight, ok = o.weigh(text); ok {
			all = append(all, keyed{keyOfDouble(weight) ^ turned, uint32(len(texts))})
			texts = append(texts, text)
		}
		return ok
	})
	if !ok {
		return false
	}
	all = radixSort(all)
	o.orderEqual(all, texts, from, to)
	for _, x := range all[from:to] {
		yield(bytesOf(texts[x.at]))
	}
	return true
}

// integers are the keys of v's elements, if all are integers that doubles tell apart, written as integers are.
func integers(v value.Value, turned uint64) (all []keyed, ok bool) {
	n := sortableLen(v)
	passElements(v, 0, n, false, func(el listpack.Element) bool {
		x := el.Int
		if ok = el.IsInt; !ok {
			x, ok = number.ParseInt(el.Bytes())
		}
		if ok = ok && x >= -exactInt && x <= exactInt; ok {
			if all == nil { // now that the first is one
				all = make([]keyed, 0, n)
			}
			all = append(all, keyed{key: keyOfInt(x) ^ turned})
		}
		return ok
	})
	return all, ok
}

// weigh is what an element is compared by: 0 where BY leads to nothing; false if that should be a number and is none.
func (o *ordering) weigh(text string) (f float64, ok bool) {
	if o.by != nil {
		b, found := o.find.find(o.c, o.by, bytesOf(text))
		if !found {
			return 0, true
		}
		text = textOf(b)
	}
	return weight(text)
}

// orderEqual puts elements of equal numbers in the order of their texts, as far as [from, to) shows it.
func (o *ordering) orderEqual(all []keyed, texts []string, from, to int) {
	if from >= to {
		return
	}
	for from > 0 && all[from-1].key == all[from].key {
		from--
	}
	for from < to {
		end := from + 1
		for end < len(all) && all[end].key == all[from].key {
			end++
		}
		if end > from+1 {
			sortRange(all[from:end], 0, min(to, end)-from, func(a, b keyed) int {
				if n := strings.Compare(texts[a.at], texts[b.at]); !o.desc {
					return n
				} else {
					return -n
				}
			})
		}
		from = end
	}
}

const (
	radixLeast = 64      // fewer are compared
	radixMany  = 1 << 15 // so many are worth wide digits
	radixWide  = 11      // bits
	radixShort = 8
)

// radixSort returns all in the order of their keys; equal ones stay as they were. It takes as much memory again. Digits
// that all keys have in common are not looked at.
func radixSort(all []keyed) []keyed {
	if len(all) < radixLeast {
		slices.SortStableFunc(all, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
		return all
	}
	differ, ordered := uint64(0), true
	for i := range all {
		differ |= all[i].key ^ all[0].key
		ordered = ordered && (i == 0 || all[i-1].key <= all[i].key)
	}
	if ordered {
		return all
	}
	digit := radixShort
	if len(all) >= radixMany {
		digit = radixWide
	}
	var counts [1 << radixWide]uint32
	other := make([]keyed, len(all))
	for shift := bits.TrailingZeros64(differ); differ>>shift != 0; shift += digit {
		mask := uint64(1)<<digit - 1
		if differ>>shift&mask == 0 {
			continue
		}
		clear(counts[:mask+1])
		for i := range all {
			counts[all[i].key>>shift&mask]++
		}
		sum := uint32(0)
		for i := range counts[:mask+1] {
			counts[i], sum = sum, sum+counts[i]
		}
		for _, x := range all {
			at := &counts[x.key>>shift&mask]
			other[*at] = x
			*at++
		}
		all, other = other, all
	}
	return all
}
