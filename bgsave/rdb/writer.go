package rdb

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
)

// A Writer writes values of any length in bounded memory: it passes its buffer to Spill when the buffer is long enough.
// One goroutine owns it.
type Writer struct {
	Encoder
	Buf []byte // written, and not spilled yet
	// Spill gets Buf when it has SpillAt bytes, and returns the next buffer. If Spill is nil, Buf grows.
	Spill func(full []byte) []byte
	Stop  func() bool // reports that the rest is not needed; nil: never
	Err   error       // ErrPasses, if it happened
}

// SpillAt is the length at which Buf is spilled. SpillMax leaves room for one more append to a Buf below SpillAt.
const (
	SpillAt  = 64 << 10
	SpillMax = SpillAt + PieceMax + PieceMax/16 + 4<<10
)

// ErrPasses means that a value yielded other bytes the second time. That is a bug of this program, found before a file
// is complete.
var ErrPasses = errors.New("a long value was not written with the length announced for it")

// Stopped reports whether the rest of the output is not needed.
func (w *Writer) Stopped() bool { return w.Stop != nil && w.Stop() }

// spill passes Buf to Spill if it is long enough.
func (w *Writer) spill() {
	if len(w.Buf) >= SpillAt && w.Spill != nil {
		w.Buf = w.Spill(w.Buf)
	}
}

// Byte writes one byte.
func (w *Writer) Byte(b byte) { w.Buf = append(w.Buf, b) }

// Length writes a length or a count.
func (w *Writer) Length(n uint64) {
	w.Buf = AppendLength(w.Buf, n)
	w.spill()
}

// Int writes n as a string in decimal.
func (w *Writer) Int(n int64) {
	w.Buf = AppendInt(w.Buf, n)
	w.spill()
}

// Uint64 writes 8 bytes, little endian.
func (w *Writer) Uint64(n uint64) {
	w.Buf = binary.LittleEndian.AppendUint64(w.Buf, n)
	w.spill()
}

// Float64 writes f's 8 bytes, little endian.
func (w *Writer) Float64(f float64) { w.Uint64(math.Float64bits(f)) }

// Raw writes b without a length.
func (w *Writer) Raw(b []byte) {
	for len(b) > PieceMax {
		w.Buf = append(w.Buf, b[:PieceMax]...)
		b = b[PieceMax:]
		w.spill()
	}
	w.Buf = append(w.Buf, b...)
	w.spill()
}

// Text writes a string: as a number, compressed, or verbatim.
func (w *Writer) Text(b []byte) {
	if len(b) > PieceMax {
		w.Long(len(b), func(yield func([]byte) bool) { yield(b) })
		return
	}
	w.Buf = w.AppendText(w.Buf, b)
	w.spill()
}

// Compressed writes a string that package lzf has compressed; size is its original length.
func (w *Writer) Compressed(packed []byte, size int) {
	w.Buf = appendPackedHeader(w.Buf, len(packed), size)
	w.Raw(packed)
}

// Long writes a string of size bytes that each yields in pieces. each must yield the same pieces every time, because
// compression takes two passes: the compressed length comes before the bytes.
func (w *Writer) Long(size int, each func(yield func([]byte) bool)) {
	w.Sparse(size, 0, func(yield func([]byte, int) bool) {
		each(func(p []byte) bool { return yield(p, 0) })
	})
}

// Sparse is Long for a string with runs of zeros. each yields bytes, or the length of a run. empty is the sum of the
// runs. If most bytes are in runs, the string is compressed even if Compress is off.
//
// Cost: a run of zeros costs about its compressed bytes, a 90th of its length.
func (w *Writer) Sparse(size, empty int, each func(yield func(p []byte, zeros int) bool)) {
	packed, mostlyEmpty := 0, empty > size/2
	if w.Compress || mostlyEmpty {
		packed = w.packedLen(size, mostlyEmpty, each)
	}
	announced := size
	if packed > 0 {
		announced = packed
		w.Buf = appendPackedHeader(w.Buf, packed, size)
	} else {
		w.Buf = AppendLength(w.Buf, uint64(size))
	}
	if w.Spill == nil {
		w.Buf = slices.Grow(w.Buf, announced)
	}
	wrote := 0
	eachPiece(each, func(p []byte, times int) bool {
		for ; times > 0 && !w.Stopped(); times-- {
			before := len(w.Buf)
			w.Buf = w.appendPiece(w.Buf, p, packed > 0)
			wrote += len(w.Buf) - before
			w.spill()
		}
		return !w.Stopped()
	})
	if wrote != announced && !w.Stopped() {
		w.Err = ErrPasses
	}
}

// packedLen returns the compressed length of the pieces, or 0 if compression saves nothing. It gives up early on a
// string that does not shrink, unless shrinks promises that it will.
func (w *Writer) packedLen(size int, shrinks bool, each func(yield func(p []byte, zeros int) bool)) int {
	const trial = 16 * PieceMax
	packed, seen := 0, 0
	b := make([]byte, 0, PieceMax+PieceMax/16)
	eachPiece(each, func(p []byte, times int) bool {
		packed += len(w.appendPiece(b, p, true)) * times
		seen += len(p) * times
		return !w.Stopped() && (shrinks || seen < trial || packed < seen)
	})
	if seen < size || packed > size-4 {
		return 0
	}
	return packed
}

// emptyPiece is a piece of zeros.
var emptyPiece [PieceMax]byte

// packedEmpty is emptyPiece in LZF, without its last bytes: a literal byte, and references to the byte before.
var packedEmpty = "\x00\x00" + strings.Repeat("\xe0\xff\x00", (PieceMax-1)/lzfLongest)

const lzfLongest = 264 // bytes of the longest reference

// appendPiece appends a piece, verbatim or compressed.
func (w *Writer) appendPiece(dst, p []byte, compressed bool) []byte {
	switch {
	case !compressed:
		return append(dst, p...)
	case &p[0] != &emptyPiece[0]:
		return w.AppendPiece(dst, p)
	}
	dst = append(dst, packedEmpty[:2+3*((len(p)-1)/lzfLongest)]...)
	switch n := (len(p) - 1) % lzfLongest; {
	case n == 0:
		return dst
	case n < 3:
		return append(append(dst, byte(n-1)), p[:n]...)
	case n < 9:
		return append(dst, byte(n-2)<<5, 0)
	default:
		return append(dst, 7<<5, byte(n-9), 0)
	}
}

// eachPiece cuts the bytes of each into pieces for AppendPiece. It joins adjacent runs of zeros. times is how often a
// piece is repeated.
func eachPiece(each func(yield func(p []byte, zeros int) bool), yield func(p []byte, times int) bool) {
	zeros, stopped := 0, false
	flush := func() bool {
		n, rest := zeros/PieceMax, zeros%PieceMax
		zeros = 0
		return (n == 0 || yield(emptyPiece[:], n)) && (rest == 0 || yield(emptyPiece[:rest], 1))
	}
	each(func(p []byte, empty int) bool {
		stopped = len(p) > 0 && !flush()
		for ; len(p) > 0 && !stopped; p = p[min(len(p), PieceMax):] {
			stopped = !yield(p[:min(len(p), PieceMax)], 1)
		}
		zeros += empty
		return !stopped
	})
	if !stopped {
		flush()
	}
}
