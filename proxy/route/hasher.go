package route

import (
	"bytes"
	"hash/crc32"

	"spindle/internal/slots"
)

// A Hasher maps keys to slots.
type Hasher uint8

const (
	Redis Hasher = iota // CRC-16 over 16,384 slots, as in Redis Cluster
	Codis               // CRC-32 (IEEE) over 1,024 slots, as in Codis
)

const codisSlots = 1024

// Slots returns the number of slots.
func (h Hasher) Slots() int {
	if h == Codis {
		return codisSlots
	}
	return slots.Count
}

// Slot returns the slot of a key: 0 to Slots()-1.
//
// Source: the Redis Cluster specification; for Codis, the behaviour of its proxy. A hash tag of Codis may be empty.
func (h Hasher) Slot(key []byte) int {
	if h != Codis {
		return int(slots.Of(key))
	}
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if length := bytes.IndexByte(key[open+1:], '}'); length >= 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return int(crc32.ChecksumIEEE(key) % codisSlots)
}
