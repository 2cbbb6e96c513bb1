package bloom

import "spindle/engine/data/value"

// WriteAt writes data at byte off of the chain's bits, which are those of all links in order. data must lie within one
// link.
//
// Errors: an OffsetError.
func WriteAt(e *value.Edit, off int64, data []byte) error {
	r := rootAt(e.Value().Root())
	i, at := r.find(off)
	if i < 0 {
		return OutsideOfChain
	}
	if uint64(len(data)) > r.link(i).bytes-at {
		return AcrossLinks
	}
	w := write(e)
	w.put(w.root.link(i), at, data)
	return nil
}

// An OffsetError is the reason why data does not fit at an offset.
type OffsetError string

func (e OffsetError) Error() string { return string(e) }

const (
	OutsideOfChain OffsetError = "no link is there"
	AcrossLinks    OffsetError = "the link ends before"
)

// put writes data at byte at of l. Zeros in pages never written are not stored (bloom.P1).
func (w *writer) put(l *link, at uint64, data []byte) {
	for len(data) > 0 {
		i, from := at>>leafShift, int(at&(leafBytes-1))
		n := min(len(data), l.leafSize(i)-from)
		if l.leaf(i) != 0 || !allZero(data[:n]) {
			copy(w.leaf(l, i)[from:], data[:n])
		}
		data, at = data[n:], at+uint64(n)
	}
}

func allZero(p []byte) bool { return string(p) == string(zeros[:len(p)]) }

// find returns the link that has byte off of the chain, and the offset in that link. It returns -1 if there is none.
func (r *root) find(off int64) (i int, at uint64) {
	if off < 0 {
		return -1, 0
	}
	at = uint64(off)
	for i := range int(r.links) {
		if n := r.link(i).bytes; at < n {
			return i, at
		} else {
			at -= n
		}
	}
	return -1, 0
}
