package keys

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
)

// An item is one element in SORT ALPHA BY. Elements without a weight come first. Equal elements keep their order.
//
// Its strings are in the databases, which do not change while a command reads them, or in the ordering's room.
type item struct {
	text     string
	weight   string
	weighted bool
}

// An ordering sorts elements as SORT does.
type ordering struct {
	at    *place
	by    *pattern // if nil, the elements themselves are compared
	alpha bool
	desc  bool

	find finder
	room []byte // the last of the buffers that hold texts made here
}

// sort passes the elements [from, to) of v in sorted order to yield. It returns false if a weight is not a number. A
// text is valid until yield returns.
//
// Cost: numbers are sorted by their digits, in up to eight passes over 16 bytes an element. Texts take n + (to-from)
// log (to-from) comparisons, or n log n if equal weights must keep their order. An element takes 24 to 48 bytes on the
// Go heap until the command ends. An integer among other numbers also needs memory for its text.
func (o *ordering) sort(v value.Value, from, to int, yield func(text []byte)) (ok bool) {
	switch {
	case !o.alpha:
		return o.sortNumbers(v, from, to, yield)
	case o.by == nil:
		for _, x := range o.sortTexts(v, from, to) {
			yield(bytesOf(x.text))
		}
	default:
		for _, x := range o.sortItems(v)[from:to] {
			yield(bytesOf(x.text))
		}
	}
	return true
}

// A prefixed text is compared by its first eight bytes after the texts' common prefix. The rest is hardly ever read.
type prefixed struct {
	prefix uint64
	text   string
}

func (o *ordering) sortTexts(v value.Value, from, to int) []prefixed {
	n := sortableLen(v)
	all := command.Room[prefixed](o.at.Reading, n)
	passElements(v, 0, n, false, func(el listpack.Element) bool {
		o.at.Step()
		all = append(all, prefixed{text: o.keepElement(el)})
		return true
	})
	if len(all) == 0 {
		return nil
	}
	common := all[0].text
	for i := range all {
		common = commonPrefix(common, all[i].text)
	}
	for i := range all {
		all[i].prefix = firstEight(all[i].text[len(common):])
	}
	sortRange(all, from, to, func(a, b prefixed) int {
		o.at.Step()
		n := cmp.Compare(a.prefix, b.prefix)
		if n == 0 {
			n = strings.Compare(a.text, b.text)
		}
		if o.desc {
			return -n
		}
		return n
	})
	return all[from:to]
}

func commonPrefix(a, b string) string {
	if strings.HasPrefix(b, a) {
		return a
	}
	n := 0
	for n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// firstEight returns the first eight bytes of text as a number, which compares as the bytes do. Missing bytes count as
// zeros.
func firstEight(text string) (n uint64) {
	if len(text) >= 8 {
		return binary.BigEndian.Uint64(bytesOf(text[:8]))
	}
	for i := range 8 {
		if n <<= 8; i < len(text) {
			n |= uint64(text[i])
		}
	}
	return n
}

func (o *ordering) sortItems(v value.Value) []item {
	n := sortableLen(v)
	items := command.Room[item](o.at.Reading, n)
	passElements(v, 0, n, false, func(el listpack.Element) bool {
		o.at.Step()
		it := item{text: o.keepElement(el)}
		if b, found := o.find.find(o.at, o.by, bytesOf(it.text)); found {
			if it.weight, it.weighted = textOf(b), true; o.find.made {
				it.weight = textOf(o.keep(b))
			}
		}
		items = append(items, it)
		return true
	})
	slices.SortStableFunc(items, func(a, b item) int {
		o.at.Step()
		n := strings.Compare(a.weight, b.weight)
		if a.weighted != b.weighted {
			n = 1
			if b.weighted {
				n = -1
			}
		}
		if o.desc {
			return -n
		}
		return n
	})
	return items
}

// keepElement returns el's text: in place, or formatted if el is an integer.
func (o *ordering) keepElement(el listpack.Element) string {
	if !el.IsInt {
		return textOf(el.Bytes())
	}
	return textOf(o.keep(el.Text(o.find.digits[:])))
}

// pieceOfRoom is the size of one buffer for texts that are stored nowhere else.
const pieceOfRoom = 64 << 10

// keep copies b to memory that lives as long as the ordering.
func (o *ordering) keep(b []byte) []byte {
	if cap(o.room)-len(o.room) < len(b) {
		o.room = command.Room[byte](o.at.Reading, max(pieceOfRoom, len(b)))
	}
	at := len(o.room)
	o.room = append(o.room, b...)
	return o.room[at:]
}

// Up to fewItems items are sorted as a whole.
const fewItems = 64

// sortRange sorts items just far enough that [from, to) is as in the sorted whole. Smaller items are before it, larger
// ones after it.
func sortRange[T any](items []T, from, to int, compare func(a, b T) int) {
	sortWindow(items, from, to, 2*bits.Len(uint(len(items))), compare)
}

// sortWindow is sortRange with a limit of partitions, luck. Random data hardly ever needs that many. At the limit it
// sorts the rest as a whole, so that data chosen against the pivots costs no more than n log n.
func sortWindow[T any](items []T, from, to, luck int, compare func(a, b T) int) {
	for ; len(items) > fewItems && luck > 0 && (from > 0 || to < len(items)) && from < to; luck-- {
		less, more := part(items, compare)
		switch {
		case to <= less:
			items = items[:less]
		case from >= more:
			items, from, to = items[more:], from-more, to-more
		default: // the window is on both sides, or among items equal to the pivot
			if from < less {
				sortWindow(items[:less], from, less, luck-1, compare)
			}
			if to > more {
				sortWindow(items[more:], 0, to-more, luck-1, compare)
			}
			return
		}
	}
	if from < to {
		slices.SortFunc(items, compare)
	}
}

// part moves items less than a pivot to [0, less) and greater ones to [more, len). The items between are equal to it.
func part[T any](items []T, compare func(a, b T) int) (less, more int) {
	pivot := items[median(items, compare)]
	more = len(items)
	for i := 0; i < more; {
		switch n := compare(items[i], pivot); {
		case n < 0:
			items[less], items[i] = items[i], items[less]
			less++
			i++
		case n > 0:
			more--
			items[more], items[i] = items[i], items[more]
		default:
			i++
		}
	}
	return less, more
}

// median returns the index of the median of three items.
func median[T any](items []T, compare func(a, b T) int) int {
	a, b, c := len(items)/4, len(items)/2, len(items)*3/4
	if compare(items[a], items[b]) > 0 {
		a, b = b, a
	}
	if compare(items[b], items[c]) > 0 {
		b = c
		if compare(items[a], items[b]) > 0 {
			b = a
		}
	}
	return b
}
