package hll

import "encoding/binary"

// A dense body is 16384 registers of 6 bits, in order. Each begins at the lowest free bit of its byte:
//
//	byte      0          1          2          3
//	      +----------+----------+----------+----------+--
//	bits  | 11000000 | 22221111 | 33333322 | 55444444 |     the digit is the register's index; high bits left
//	      +----------+----------+----------+----------+--
//
// Eight registers are six bytes. spread gives each of them a byte of a word, and gather packs them again.
const denseBody = registerCount * 6 / 8

// A pair says which one or two bytes hold a register.
type pair struct{ at, size int }

func pairOf(index int) (p pair, shift int) {
	bit := index * 6
	p = pair{bit >> 3, 1}
	if shift = bit & 7; shift > 2 {
		p.size = 2
	}
	return p, shift
}

// register returns the value of a register of a dense body.
func register(body []byte, index int) byte {
	p, shift := pairOf(index)
	x := uint(body[p.at])
	if p.size == 2 {
		x |= uint(body[p.at+1]) << 8
	}
	return byte(x>>shift) & 63
}

// withRegister returns the bytes of a dense body that hold register index, after it is set to rank. p is their place.
func withRegister(body []byte, index int, rank byte) (bytes [2]byte, p pair) {
	p, shift := pairOf(index)
	x := uint(body[p.at])
	if p.size == 2 {
		x |= uint(body[p.at+1]) << 8
	}
	x = x&^(63<<shift) | uint(rank)<<shift
	return [2]byte{byte(x), byte(x >> 8)}, p
}

// setRegister sets a register of a dense body to rank.
func setRegister(body []byte, index int, rank byte) {
	bytes, p := withRegister(body, index, rank)
	copy(body[p.at:], bytes[:p.size])
}

// spread gives each of the eight 6-bit registers in the low 48 bits of x its own byte. It ignores the higher bits.
func spread(x uint64) uint64 {
	x = x&0x0000_0000_00FF_FFFF | x<<8&0x00FF_FFFF_0000_0000
	x = x&0x0000_0FFF_0000_0FFF | x<<4&0x0FFF_0000_0FFF_0000
	return x&0x003F_003F_003F_003F | x<<2&0x3F00_3F00_3F00_3F00
}

// gather returns the inverse of spread: eight bytes of at most 63 become 48 bits.
func gather(x uint64) uint64 {
	x = x&0x003F_003F_003F_003F | x&0x3F00_3F00_3F00_3F00>>2
	x = x&0x0000_0FFF_0000_0FFF | x&0x0FFF_0000_0FFF_0000>>4
	return x&0x0000_0000_00FF_FFFF | x&0x00FF_FFFF_0000_0000>>8
}

// words is the number of groups of eight registers.
const words = registerCount / 8

// load returns the i-th eight registers of a dense body, in the form that spread takes. A word has eight bytes, so the
// last group is read from two bytes earlier.
func load(body []byte, i int) uint64 {
	if i == words-1 {
		return binary.LittleEndian.Uint64(body[denseBody-8:]) >> 16
	}
	return binary.LittleEndian.Uint64(body[i*6:])
}

// addRegisters adds the registers of a dense body to a histogram of ranks.
func addRegisters(h *histogram, body []byte) {
	var c counter
	for i := range words {
		c.add(spread(load(body, i)))
	}
	c.into(h)
}
