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

// An item is one element on its way through SORT, other than by its own text.
//
//	numbers         score, then text
//	ALPHA BY …      elements with a weight behind those without, then weight; equal ones stay as they were
//
// Its strings lie in the databases, which do not change while a command reads them, or in the ordering's room.
type item struct {
	text   string
	weight string
	score  float64 // with ALPHA BY: 1 if there is a weight
}

// An ordering puts elements in order as SORT does.
type ordering struct {
	c     *command.Context
	by    *pattern // nil: elements by themselves
	alpha bool
	desc  bool

	find finder
	room []byte // the last of the pieces that texts made here are cut from
}

// sort returns elements [from, to) of v as they stand when all are in order; false if one has a weight that is no number. They lie where
// items' strings do.
//
// Cost: n + (to-from) log (to-from) comparisons, but n log n where equal weights have to stay as they were; 24 to 40 bytes an element on the
// Go heap, 16 more for each that is returned, and the text of integers, until the command ends.
func (o *ordering) sort(v value.Value, from, to int) (texts []string, ok bool) {
	texts = make([]string, 0, to-from)
	if o.alpha && o.by == nil {
		for _, x := range o.sortTexts(v, from, to) {
			texts = append(texts, x.text)
		}
		return texts, true
	}
	items, ok := o.sortItems(v, from, to)
	for i := range items {
		texts = append(texts, items[i].text)
	}
	return texts, ok
}

// A prefixed text is compared by eight of its bytes first, those behind what all texts have in common: hardly any other has to be read.
type prefixed struct {
	prefix uint64
	text   string
}

func (o *ordering) sortTexts(v value.Value, from, to int) []prefixed {
	n := sortableLen(v)
	all := make([]prefixed, 0, n)
	passElements(v, 0, n, false, func(el listpack.Element) bool {
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

// firstEight is the first bytes of text as a number that orders as they do; what is not there counts as zeros.
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

func (o *ordering) sortItems(v value.Value, from, to int) (items []item, ok bool) {
	n := sortableLen(v)
	items, ok = make([]item, 0, n), true
	passElements(v, 0, n, false, func(el listpack.Element) bool {
		it := item{text: o.keepElement(el)}
		ok = o.weigh(&it) && ok
		items = append(items, it)
		return true
	})
	switch {
	case !ok:
		return nil, false
	case o.alpha:
		slices.SortStableFunc(items, o.compare)
	default:
		sortRange(items, from, to, o.compare)
	}
	return items[from:to], true
}

// weigh finds what it is compared by; false if that should be a number and is none.
func (o *ordering) weigh(it *item) bool {
	text := it.text
	if o.by != nil {
		b, found := o.find.find(o.c, o.by, bytesOf(text))
		if !found {
			return true
		}
		if text = textOf(b); o.alpha {
			it.weight, it.score = text, 1
			if o.find.made {
				it.weight = textOf(o.keep(b))
			}
			return true
		}
	}
	var ok bool
	it.score, ok = weight(text)
	return ok
}

func (o *ordering) compare(a, b item) int {
	n := cmp.Compare(a.score, b.score)
	switch {
	case n != 0:
	case o.alpha:
		n = strings.Compare(a.weight, b.weight)
	default:
		n = strings.Compare(a.text, b.text)
	}
	if o.desc {
		return -n
	}
	return n
}

// keepElement is el's text: where it lies, or written down if it is an integer.
func (o *ordering) keepElement(el listpack.Element) string {
	if !el.IsInt {
		return textOf(el.Bytes())
	}
	return textOf(o.keep(el.Text(o.find.digits[:])))
}

// pieceOfRoom is how much is set aside at a time for texts that lie nowhere else.
const pieceOfRoom = 64 << 10

// keep copies b to where it stays as long as the ordering.
func (o *ordering) keep(b []byte) []byte {
	if cap(o.room)-len(o.room) < len(b) {
		o.room = make([]byte, 0, max(pieceOfRoom, len(b)))
	}
	at := len(o.room)
	o.room = append(o.room, b...)
	return o.room[at:]
}

// fewItems are put in order whole.
const fewItems = 64

// sortRange puts items [from, to) where they are when all items are in order, and what is before and behind them somewhere before and
// behind.
func sortRange[T any](items []T, from, to int, compare func(a, b T) int) {
	sortWindow(items, from, to, 2*bits.Len(uint(len(items))), compare)
}

// sortWindow is sortRange with luck partings left to it and to what it hands its parts to: as many unlucky ones as a quicksort of random data
// hardly ever has. Then all that is left is put in order, so that elements chosen to spoil every parting cost no more than n log n.
func sortWindow[T any](items []T, from, to, luck int, compare func(a, b T) int) {
	for ; len(items) > fewItems && luck > 0 && (from > 0 || to < len(items)) && from < to; luck-- {
		less, more := part(items, compare)
		switch {
		case to <= less:
			items = items[:less]
		case from >= more:
			items, from, to = items[more:], from-more, to-more
		default: // the window is on both sides, or among those equal to the pivot
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

// part moves items less than a pivot to [0, less) and those greater to [more, len); what is between equals it.
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

// median is the index of the middle one of three items.
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
