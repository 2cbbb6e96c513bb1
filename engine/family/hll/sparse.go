package hll

// A sparse body is a sequence of opcodes, each for a run of equal registers:
//
//	00nnnnnn            ZERO:  n+1 registers (1..64) hold 0
//	01nnnnnn nnnnnnnn   XZERO: n+1 registers (1..16384) hold 0; high bits first
//	1vvvvvnn            VAL:   n+1 registers (1..4) hold v+1 (1..32)
//
// hll.S1. The runs add up to 16384 registers.
//
// APPEND can add bytes after the last register, which breaks hll.S1. A count, toDense and mergeSparse detect this, as
// in Redis 7.4.5 and later.
//
// Different opcodes may encode the same registers. As in Redis, only the order of changes decides which opcodes a
// sketch has. So the bytes are equal on a primary, on its replicas and in Redis (see raise).
const (
	maxZero     = 64
	maxVal      = 4
	maxSparse   = 32 // the highest rank of a VAL
	mergeWithin = 5  // the number of opcodes after a change that are checked for equal neighbours
)

// opAt decodes the opcode at s[at:]. length registers hold rank, and size is the opcode's length in bytes. For a
// truncated opcode it returns more registers than exist, so that the body breaks hll.S1.
func opAt(s []byte, at int) (length, rank, size int) {
	switch op := int(s[at]); {
	case op >= 0x80:
		return op&3 + 1, op>>2&31 + 1, 1
	case op < 0x40:
		return op + 1, 0, 1
	case at+1 < len(s):
		return (op&63<<8 | int(s[at+1])) + 1, 0, 2
	}
	return registerCount + 1, 0, 1
}

func isXZero(op byte) bool { return op&0xC0 == 0x40 }
func isVal(op byte) bool   { return op >= 0x80 }

func val(rank, length int) byte { return byte(0x80 | (rank-1)<<2 | (length - 1)) }

// appendRun appends the opcode of length registers that hold rank. It appends nothing if length is 0. If rank is above
// 0, length is at most maxVal.
func appendRun(dst []byte, rank, length int) []byte {
	switch {
	case length == 0:
		return dst
	case rank != 0:
		return append(dst, val(rank, length))
	case length > maxZero:
		return append(dst, byte(0x40|(length-1)>>8), byte(length-1))
	}
	return append(dst, byte(length-1))
}

// A run is an opcode and its place. Offsets count from the sketch's first byte.
type run struct {
	at, size     int
	first        int // the index of its first register
	length, rank int
	prev         int    // the offset of the previous opcode, or -1
	before       cursor // the opcode before prev, or the body's first one
}

// A cursor is an opcode's offset and its first register. find can begin there.
type cursor struct{ at, first int }

// start is the body's first opcode.
var start = cursor{at: headerSize}

// find returns the run of s that contains register index. ok is false if s ends or is truncated before that register.
//
// from is start, or run.before of a run that was found for a lower index. The bytes before from must not have changed
// since then.
// Cost: O(opcodes) after from.
func find(s []byte, from cursor, index int) (r run, ok bool) {
	prev, before := cursor{at: -1}, from
	at, first := from.at, from.first
	for at < len(s) {
		length, rank, size := opAt(s, at)
		if index < first+length {
			if length > registerCount {
				return run{}, false
			}
			return run{at, size, first, length, rank, prev.at, before}, true
		}
		if prev.at >= 0 {
			before = prev
		}
		prev = cursor{at, first}
		at += size
		first += length
	}
	return run{}, false
}

// raise sets register index, found in r with a lower rank, to rank. The caller owns the memory of s and marks its
// estimate as out of date. If the result does not fit into a sparse sketch of limit bytes, raise returns false and does
// not change s.
//
// The resulting bytes must be equal to Redis's. raise splits the run. Then it joins equal neighbours if one VAL can
// hold both. It does so for up to five opcodes, from the one before the run.
func raise(s []byte, r run, index int, rank byte, limit int64) ([]byte, bool) {
	if rank > maxSparse {
		return s, false
	}
	var pieces [5]byte // XZERO VAL XZERO
	split := appendRun(pieces[:0], r.rank, index-r.first)
	split = append(split, val(int(rank), 1))
	split = appendRun(split, r.rank, r.first+r.length-1-index)
	if more := len(split) - r.size; more > 0 && int64(len(s)+more) > limit {
		return s, false
	}
	s = splice(s, r.at, r.size, split)
	s = joinEqual(s, max(r.prev, headerSize))
	outdate(s)
	return s, true
}

// splice replaces the del bytes at s[at:] by those of with.
func splice(s []byte, at, del int, with []byte) []byte {
	n, more := len(s), len(with)-del
	if more > 0 {
		s = append(s, with[:more]...) // to extend s; the bytes are overwritten
	}
	copy(s[at+len(with):], s[at+del:n])
	copy(s[at:], with)
	return s[:n+more]
}

// joinEqual joins neighbouring VALs of the same rank among the first mergeWithin opcodes at s[at:].
func joinEqual(s []byte, at int) []byte {
	for range mergeWithin {
		if at >= len(s) {
			break
		}
		op := s[at]
		switch {
		case isXZero(op):
			at += 2
			continue
		case isVal(op) && at+1 < len(s) && isVal(s[at+1]):
			next := s[at+1]
			sameRank := (op^next)>>2 == 0
			if length := int(op&3+next&3) + 2; sameRank && length <= maxVal {
				s[at] = op&^3 | byte(length-1)
				s = append(s[:at+1], s[at+2:]...)
				continue // it may join with the next one, too
			}
		}
		at++
	}
	return s
}

// addRuns adds the registers of the sparse sketch s to a histogram of ranks. It returns false if hll.S1 does not hold.
func addRuns(h *histogram, s []byte) bool {
	total := 0
	for at := headerSize; at < len(s); {
		length, rank, size := opAt(s, at)
		h[rank] += uint32(length)
		total += length
		at += size
	}
	return total == registerCount
}

// toDense converts the sparse sketch s to a dense one, and keeps the estimate in the header. It returns false if hll.S1
// does not hold.
func toDense(dst *[denseSize]byte, s []byte) bool {
	clear(dst[:])
	copy(dst[:], s[:headerSize])
	dst[atEncoding] = encodingDense
	first := 0
	for at := headerSize; at < len(s); {
		length, rank, size := opAt(s, at)
		if first+length > registerCount {
			return false
		}
		if rank != 0 {
			for i := first; i < first+length; i++ {
				setRegister(dst[headerSize:], i, byte(rank))
			}
		}
		first += length
		at += size
	}
	return first == registerCount
}
