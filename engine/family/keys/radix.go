package keys

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// SORT of numbers uses a radix sort. Each element gets a key that compares as the number does:
//
//	integers   key = number + 2^63; the text is made from the key again for the output
//	others     key = the double's bits, inverted if it is negative; at is the index of the text
//	DESC       key = the complement of that
//
// Elements with equal numbers and different texts, such as 1 and 1.0, are ordered by their texts.
type keyed struct {
	key uint64
	at  uint32 // index in the texts
}

// exactInt is the limit below which doubles represent all integers. SORT compares doubles.
const exactInt = 1 << 53

// keyOfInt and keyOfDouble return the keys for ascending order.
func keyOfInt(n int64) uint64 { return uint64(n) ^ 1<<63 }

func keyOfDouble(f float64) uint64 {
	if f == 0 {
		f = 0 // turns -0 into 0
	}
	b := math.Float64bits(f)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// sortNumbers is sort by number, either of the elements or of the values that BY leads to.
func (o *ordering) sortNumbers(v value.Value, from, to int, yield func(text []byte)) (ok bool) {
	turned := uint64(0)
	if o.desc {
		turned = ^turned
	}
	if o.by == nil {
		if all, ok := o.integers(v, turned); ok {
			var digits [number.MaxIntLen]byte
			for _, x := range radixSort(o.at.Reading, all)[from:to] {
				yield(number.AppendInt(digits[:0], int64(x.key^turned^1<<63)))
			}
			return true
		}
	}
	n := sortableLen(v)
	all, texts := command.Room[keyed](o.at.Reading, n), command.Room[string](o.at.Reading, n)
	ok = true
	passElements(v, 0, n, false, func(el listpack.Element) bool {
		o.at.Step()
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
	all = radixSort(o.at.Reading, all)
	o.orderEqual(all, texts, from, to)
	for _, x := range all[from:to] {
		yield(bytesOf(texts[x.at]))
	}
	return true
}

// integers returns the keys of v's elements. ok is true if all of them are integers in canonical form that doubles
// represent exactly.
func (o *ordering) integers(v value.Value, turned uint64) (all []keyed, ok bool) {
	n := sortableLen(v)
	passElements(v, 0, n, false, func(el listpack.Element) bool {
		o.at.Step()
		x := el.Int
		if ok = el.IsInt; !ok {
			x, ok = number.ParseInt(el.Bytes())
		}
		if ok = ok && x >= -exactInt && x <= exactInt; ok {
			if all == nil { // the first one is an integer
				all = command.Room[keyed](o.at.Reading, n)
			}
			all = append(all, keyed{key: keyOfInt(x) ^ turned})
		}
		return ok
	})
	return all, ok
}

// weigh returns the number by which an element is compared. It is 0 if BY leads to no value. ok is false if BY leads to
// a text that is no number.
func (o *ordering) weigh(text string) (f float64, ok bool) {
	if o.by != nil {
		b, found := o.find.find(o.at, o.by, bytesOf(text))
		if !found {
			return 0, true
		}
		text = textOf(b)
	}
	return weight(text)
}

// orderEqual orders elements with equal numbers by their texts, where it matters for [from, to).
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
				o.at.Step()
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
	radixLeast = 64      // below it elements are compared
	radixMany  = 1 << 15 // above it wide digits pay off
	radixWide  = 11      // bits
	radixShort = 8
)

// radixSort returns all sorted by key. Equal keys keep their order. It needs as much memory again. It skips digits that
// are equal in all keys.
func radixSort(r *command.Reading, all []keyed) []keyed {
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
	other := command.Room[keyed](r, len(all))[:len(all)]
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
