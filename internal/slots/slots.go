// Package slots has a key's slot, and the map from slots to nodes.
//
// Owner: the cluster's goroutine makes a Map. Afterwards the Map does not change, and any goroutine may read it.
// Never: locks, blocks, or knows how nodes communicate.
// Start here; map.go is the map, joints.go the interfaces between the core and the cluster.
package slots

import "bytes"

// Count is the number of slots.
const Count = 16384

// Of returns the slot of a key: 0 to Count-1. If the key has a hash tag, only the tag counts. A hash tag is the text
// between the first opening brace and the next closing one, if it is not empty.
//
// Source: the Redis Cluster specification.
func Of(key []byte) uint16 {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if length := bytes.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return checksum(key) & (Count - 1)
}

// OfPattern returns the slot of every key that a glob pattern can match, and false if these keys can be in several
// slots. They are in one slot if the pattern has a hash tag without wildcards, or no wildcards at all.
//
// Seam: KEYS and SCAN look only at that slot.
func OfPattern(pattern []byte) (slot uint16, one bool) {
	open := -1
	for i, c := range pattern {
		switch {
		case c == '*' || c == '?' || c == '[' || c == '\\':
			return 0, false
		case c == '{' && open < 0:
			open = i
		case c == '}' && open >= 0 && i > open+1:
			return checksum(pattern[open+1:i]) & (Count - 1), true
		case c == '}' && open >= 0 && i == open+1: // an empty tag is no tag, and no later brace makes one
			open = len(pattern)
		}
	}
	return Of(pattern), true
}

// checksum is CRC16 with the polynomial 0x1021, not reflected (XMODEM). It processes eight bytes at a time: the sum is
// linear, so there is a table for each byte position (BenchmarkOf).
func checksum(p []byte) (crc uint16) {
	for ; len(p) >= 8; p = p[8:] {
		crc = crcTables[7][p[0]^byte(crc>>8)] ^ crcTables[6][p[1]^byte(crc)] ^ crcTables[5][p[2]] ^ crcTables[4][p[3]] ^
			crcTables[3][p[4]] ^ crcTables[2][p[5]] ^ crcTables[1][p[6]] ^ crcTables[0][p[7]]
	}
	for _, b := range p {
		crc = crc<<8 ^ crcTables[0][byte(crc>>8)^b]
	}
	return crc
}

// crcTables[n][b] is the checksum of byte b followed by n zero bytes.
var crcTables = func() (t [8][256]uint16) {
	for i := range t[0] {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[0][i] = crc
	}
	for n := 1; n < len(t); n++ {
		for i, crc := range t[n-1] {
			t[n][i] = crc<<8 ^ t[0][crc>>8]
		}
	}
	return t
}()
