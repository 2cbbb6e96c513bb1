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
