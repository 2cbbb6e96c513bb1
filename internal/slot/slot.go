// Package slot says which of the cluster's 16384 slots a key belongs to.
//
// Owner: whoever calls; it is pure functions.
// Never: allocates.
// Start here.
package slot

import "bytes"

// Count is the number of slots: 0 … Count-1.
const Count = 16384

// Of is a key's slot: CRC16 of the key, or of its hash tag, the bytes between the first '{' and the first '}'
// behind it, if there are any. Source: the Redis Cluster specification.
func Of(key []byte) uint16 {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if size := bytes.IndexByte(key[open+1:], '}'); size > 0 {
			key = key[open+1 : open+1+size]
		}
	}
	return CRC16(key) & (Count - 1)
}

// CRC16 is CRC-16/XMODEM: polynomial 0x1021, from 0, high bit first.
func CRC16(p []byte) uint16 {
	var crc uint16
	for len(p) >= 2 { // two bytes at a time, by two tables
		crc ^= uint16(p[0])<<8 | uint16(p[1])
		crc = table[1][crc>>8] ^ table[0][crc&0xff]
		p = p[2:]
	}
	if len(p) > 0 {
		crc = crc<<8 ^ table[0][byte(crc>>8)^p[0]]
	}
	return crc
}

// table[0][b] is the CRC of b; table[1][b] that of b and a zero byte.
var table = func() (t [2][256]uint16) {
	for b := range t[0] {
		crc := uint16(b) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
		t[0][b] = crc
	}
	for b := range t[1] {
		crc := t[0][b]
		t[1][b] = crc<<8 ^ t[0][crc>>8]
	}
	return t
}()
