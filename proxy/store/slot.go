package store

import (
	"bytes"
	"hash/crc32"

	"spindle/internal/slots"
)

// SlotOf returns a key's slot by the product's rule.
//
// Codis's rule is CRC-32 of the key, or of the text between its first { and the next }. This text may be empty.
// Source: for crc16 the Redis Cluster specification, for crc32 Codis 3.
func (p *Product) SlotOf(key []byte) int {
	if p.Hash != HashCRC32 {
		return int(slots.Of(key))
	}
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if tag, _, closed := bytes.Cut(key[open+1:], []byte{'}'}); closed {
			key = tag
		}
	}
	return int(crc32.ChecksumIEEE(key) % 1024)
}
