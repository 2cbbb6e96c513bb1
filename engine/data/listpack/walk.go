package listpack

import "iter"

// All yields every element with its offset, first to last.
func All(lp []byte) iter.Seq2[int, Element] {
	return func(yield func(int, Element) bool) {
		for at := HeaderLen; lp[at] != end; {
			e, behind := step(lp, at)
			if !yield(at, e) {
				return
			}
			at = behind
		}
	}
}

// Backward yields every element with its offset, last to first.
func Backward(lp []byte) iter.Seq2[int, Element] {
	return func(yield func(int, Element) bool) {
		for at := Last(lp); at != 0; at = Prev(lp, at) {
			if !yield(at, Get(lp, at)) {
				return
			}
		}
	}
}

// Pairs yields the elements two by two: field and value, member and score. An odd last one is left out.
func Pairs(lp []byte) iter.Seq2[Element, Element] {
	return func(yield func(Element, Element) bool) {
		for at := HeaderLen; lp[at] != end; {
			first, second := step(lp, at)
			if lp[second] == end {
				return
			}
			e, behind := step(lp, second)
			if !yield(first, e) {
				return
			}
			at = behind
		}
	}
}
