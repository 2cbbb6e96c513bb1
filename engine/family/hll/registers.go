package hll

import "encoding/binary"

// registers holds a union under construction, one byte per register.
type registers [registerCount]byte

// mergeDense raises r to the registers of a dense body.
func (r *registers) mergeDense(body []byte) {
	for i := range words {
		at := r[i*8 : i*8+8]
		binary.LittleEndian.PutUint64(at, maxOfBytes(binary.LittleEndian.Uint64(at), spread(load(body, i))))
	}
}

// maxOfBytes returns the maximum of each pair of bytes of a and b. No byte has its top bit set.
func maxOfBytes(a, b uint64) uint64 {
	const top = 0x8080_8080_8080_8080
	keep := (a | top) - b&^top // the top bit of a byte says that a is not less there: no byte borrows from the next
	keep &= top
	keep -= keep >> 7 // 0x7F there
	return b ^ (a^b)&keep
}

// mergeSparse raises r to the registers of a sparse sketch. It returns false if hll.S1 does not hold. r is then
// invalid.
func (r *registers) mergeSparse(s []byte) bool {
	first := 0
	for at := headerSize; at < len(s); {
		length, rank, size := opAt(s, at)
		if first+length > registerCount {
			return false
		}
		if rank != 0 {
			for i, held := range r[first : first+length] {
				r[first+i] = max(held, byte(rank))
			}
		}
		first += length
		at += size
	}
	return first == registerCount
}

// merge raises r to the registers of s.
// Errors: errCorrupt.
func (r *registers) merge(s []byte) error {
	if isDense(s) {
		r.mergeDense(s[headerSize:])
	} else if !r.mergeSparse(s) {
		return errCorrupt
	}
	return nil
}

// pack writes r as a dense body.
func (r *registers) pack(body []byte) {
	for i := range words - 1 {
		x := gather(binary.LittleEndian.Uint64(r[i*8:]))
		binary.LittleEndian.PutUint64(body[i*6:], x) // two bytes too many; the next round overwrites them
	}
	x := gather(binary.LittleEndian.Uint64(r[registerCount-8:]))
	last := body[denseBody-6 : denseBody]
	binary.LittleEndian.PutUint32(last, uint32(x))
	binary.LittleEndian.PutUint16(last[4:], uint16(x>>32))
}

func (r *registers) histogram() (h histogram) {
	var c counter
	for i := range words {
		c.add(binary.LittleEndian.Uint64(r[i*8:]))
	}
	c.into(&h)
	return h
}
