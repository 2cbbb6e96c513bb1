package listpack

import (
	"encoding/binary"

	"spindle/internal/invariant"
)

// A Splice is a planned edit: Ins bytes replace Del bytes at offset Off, and the number of elements changes by Count.
// This package plans it. The owner of the bytes makes the gap, in place or in a new block. It then Puts the entries
// into the gap and sets the header. To replace several neighbours by several others, plan a Delete, then set Ins and
// add to Count.
//
// The zero Splice changes nothing.
type Splice struct {
	Off, Del, Ins int
	Count         int
}

// InsertBefore plans the insertion of count new elements of ins bytes before the one at at. at may be End.
func InsertBefore(at, ins, count int) Splice { return Splice{Off: at, Ins: ins, Count: count} }

// InsertAfter plans the insertion of count new elements of ins bytes after the one at at.
func InsertAfter(lp []byte, at, ins, count int) Splice {
	return Splice{Off: skip(lp, at), Ins: ins, Count: count}
}

// Append plans the insertion of count new elements of ins bytes at the end.
func Append(lp []byte, ins, count int) Splice { return Splice{Off: End(lp), Ins: ins, Count: count} }

// Prepend plans the insertion of count new elements of ins bytes at the beginning.
func Prepend(ins, count int) Splice { return Splice{Off: HeaderLen, Ins: ins, Count: count} }

// Replace plans to put an element of ins bytes in place of the one at at. If ins is the old length, nothing moves.
func Replace(lp []byte, at, ins int) Splice {
	return Splice{Off: at, Del: skip(lp, at) - at, Ins: ins}
}

// Delete plans the removal of up to n elements, the first at at.
func Delete(lp []byte, at, n int) Splice {
	to, gone := at, 0
	for ; gone < n && lp[to] != end; gone++ {
		to = skip(lp, to)
	}
	return Splice{Off: at, Del: to - at, Count: -gone}
}

// DeleteRange plans the removal of up to n elements, the first at index. A negative index counts from the end.
func DeleteRange(lp []byte, index, n int) Splice {
	at := Seek(lp, index)
	if at == 0 || n <= 0 {
		return Splice{}
	}
	if known := headerCount(lp); known != countUnknown {
		if index < 0 {
			index += known
		}
		if n >= known-index { // the removal reaches the end, so no walk is needed
			return Splice{Off: at, Del: End(lp) - at, Count: index - known}
		}
	}
	return Delete(lp, at, n)
}

// Grow returns the number of bytes by which the listpack becomes longer. It is negative if the listpack becomes
// shorter.
func (s Splice) Grow() int { return s.Ins - s.Del }

// Fits reports whether the listpack stays within MaxBytes after the edit.
func (s Splice) Fits(lp []byte) bool { return Bytes(lp)+s.Grow() <= MaxBytes }

// Gap returns the bytes for the new entries, after the other bytes have been moved.
func (s Splice) Gap(lp []byte) []byte { return lp[s.Off : s.Off+s.Ins : s.Off+s.Ins] }

// Open makes the gap in place and sets the header. lp must have room for the longer of the old and the new listpack.
func (s Splice) Open(lp []byte) {
	if s.Ins != s.Del {
		copy(lp[s.Off+s.Ins:], lp[s.Off+s.Del:Bytes(lp)])
	}
	s.Finish(lp)
}

// CopyTo makes the gap in dst, as a copy of lp, and sets the header of dst. lp stays unchanged, because views may be
// reading it.
func (s Splice) CopyTo(dst, lp []byte) {
	copy(dst, lp[:s.Off])
	copy(dst[s.Off+s.Ins:], lp[s.Off+s.Del:Bytes(lp)])
	s.Finish(dst)
}

// Finish sets the header, for an owner that has moved the bytes itself.
func (s Splice) Finish(lp []byte) { SetHeader(lp, Bytes(lp)+s.Grow(), s.Count) }

// SetHeader sets the field bytes, and changes the field count by countDelta. A count that has become unknown stays
// unknown.
func SetHeader(lp []byte, bytes, countDelta int) {
	invariant.That(bytes >= EmptyLen && bytes <= MaxBytes, "listpack.I1: of %d bytes", bytes)
	binary.LittleEndian.PutUint32(lp, uint32(bytes))
	if n := headerCount(lp); n != countUnknown {
		setCount(lp, n+countDelta)
	}
}

func setCount(lp []byte, n int) {
	invariant.That(n >= 0, "listpack.I2: %d elements", n)
	binary.LittleEndian.PutUint16(lp[4:], uint16(min(n, countUnknown)))
}
