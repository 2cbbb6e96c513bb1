package hll

// A sparse body is a row of opcodes, each a run of registers that hold the same:
//
//	00nnnnnn            ZERO:  n+1 registers (1..64) hold 0
//	01nnnnnn nnnnnnnn   XZERO: n+1 registers (1..16384) hold 0; high bits first
//	1vvvvvnn            VAL:   n+1 registers (1..4) hold v+1 (1..32)
//
// hll.S1. The runs add up to 16384 registers.
//
// Bytes behind the last register, as APPEND leaves them, break hll.S1. Only a count of one sketch finds that out
// always: to whoever goes through the registers (toDense, mergeSparse) a VAL that stands there is the end, as it is in
// Redis.
//
// Two rows may say the same; which one a sketch has follows from the order of its changes alone, as in Redis, so that
// the bytes are equal on a primary, its replicas and the server they came from: see raise.
const (
	maxZero     = 64
	maxVal      = 4
	maxSparse   = 32 // the highest rank that VAL can say
	mergeWithin = 5  // how many opcodes a change looks at for neighbours that have become equal
)

// opAt reads the opcode at s[at:]: how many registers hold which rank, and how many bytes say so. One that is cut off
// runs over more registers than there are, so that no body with it adds up (hll.S1).
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

// appendRun appends the opcode of length registers that hold rank, or nothing for none. A VAL's length is at most
// maxVal.
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

// A run is an opcode where it stands. Offsets count from the sketch's first byte.
type run struct {
	at, size     int
	first        int // its first register
	length, rank int
	prev         int    // the opcode before it, or -1
	before       cursor // the one before that, or the body's first
}

// A cursor is a place from which find may begin: an opcode's offset and its first register.
type cursor struct{ at, first int }

// start is the body's first opcode.
var start = cursor{at: headerSize}

// find finds the run of s that register index lies in; false when s says nothing of it or is cut off before.
//
// from is start, or run.before of a run that an earlier, lower index was found in, and raised or not: no change since
// has touched what stands before it. Cost: O(opcodes) from there.
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

// raise makes register index, found in r and of lower rank, hold rank. s has its own memory, and its estimate is out of
// date afterwards. False, and s unchanged, when a sparse sketch of at most limit bytes cannot say it.
//
// The bytes that result are part of what is compatible: the run is split, then up to five opcodes from the one before
// it on are searched for equal neighbours, which become one if a VAL can say both.
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

// splice puts with in the place of the del bytes at s[at:].
func splice(s []byte, at, del int, with []byte) []byte {
	n, more := len(s), len(with)-del
	if more > 0 {
		s = append(s, with[:more]...) // for its length alone
	}
	copy(s[at+len(with):], s[at+del:n])
	copy(s[at:], with)
	return s[:n+more]
}

// joinEqual joins neighbouring VALs of the same rank among the opcodes from s[at:] on.
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
				continue // it may join with the one behind it, too
			}
		}
		at++
	}
	return s
}

// addRuns adds what the sparse sketch s holds to a histogram of ranks; false if hll.S1 does not hold.
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

// toDense writes the sparse sketch s as a dense one, its header's estimate with it; false if hll.S1 does not hold, but
// for VALs at the end.
func toDense(dst *[denseSize]byte, s []byte) bool {
	clear(dst[:])
	copy(dst[:], s[:headerSize])
	dst[atEncoding] = encodingDense
	first := 0
	for at := headerSize; at < len(s); {
		length, rank, size := opAt(s, at)
		if first+length > registerCount {
			return rank != 0 && first == registerCount
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
