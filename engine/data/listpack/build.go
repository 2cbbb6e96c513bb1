package listpack

import "encoding/binary"

// Apply makes the gap of s in lp and grows lp as append does. lp must end where the listpack ends. The caller then Puts
// the entries into the gap.
func Apply(lp []byte, s Splice) []byte {
	n := Bytes(lp) + s.Grow()
	if grow := n - len(lp); grow > 0 {
		lp = append(lp, make([]byte, grow)...)
	}
	s.Open(lp)
	return lp[:n]
}

// AppendElement appends an element to lp, which must end where the listpack ends.
func AppendElement(lp []byte, e Element) []byte {
	s := Append(lp, e.EncodedLen(), 1)
	lp = Apply(lp, s)
	e.Put(s.Gap(lp))
	return lp
}

// Begin starts a listpack at the end of dst. AppendEntry adds its entries, and Close ends it. This costs less than
// AppendElement for each element, and the listpack may be part of a longer slice.
func Begin(dst []byte) []byte { return append(dst, 0, 0, 0, 0, 0, 0) }

// AppendEntry appends the entry of e to a listpack, between Begin and Close.
func AppendEntry(dst []byte, e Element) []byte {
	if e.IsInt {
		var entry [10]byte
		return append(dst, entry[:PutInt(entry[:], e.Int)]...)
	}
	var head, back [5]byte
	n := e.n
	body := n + 1
	switch {
	case n < 64:
		dst = append(dst, enc6Str|byte(n))
	case n < 4096:
		dst = append(dst, enc12Str|byte(n>>8), byte(n))
		body = n + 2
	default:
		head[0] = enc32Str
		binary.LittleEndian.PutUint32(head[1:], uint32(n))
		dst = append(dst, head[:]...)
		body = n + 5
	}
	dst = append(dst, e.Bytes()...)
	return append(dst, back[:putBacklen(back[:], body)]...)
}

// Close ends the listpack of count elements that began at dst[from].
func Close(dst []byte, from, count int) []byte {
	dst = append(dst, end)
	binary.LittleEndian.PutUint32(dst[from:], uint32(len(dst)-from))
	setCount(dst[from:], count)
	return dst
}

// FirstEntries returns the entries of the first n elements. entries must have at least n elements.
func FirstEntries(entries []byte, n int) []byte {
	to := 0
	for ; n > 0; n-- {
		to = skip(entries, to)
	}
	return entries[:to]
}

// Wrap makes lp the listpack of these entries, which are count in number. len(lp) must be len(entries) + EmptyLen.
func Wrap(lp, entries []byte, count int) {
	copy(lp[HeaderLen:], entries)
	lp[len(lp)-1] = end
	binary.LittleEndian.PutUint32(lp, uint32(len(lp)))
	setCount(lp, count)
}
