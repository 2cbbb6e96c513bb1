package legacy

import (
	"encoding/binary"
	"errors"
	"iter"

	"spindle/engine/data/listpack"
)

// A Ziplist is a list of strings and integers in one block, walkable in both directions. Listpacks replaced it.
//
//	0         4         8        10                               bytes-1
//	+---------+---------+--------+---------+---------+-- ~ --+------+
//	| bytes   | tail    | count  | entry 0 | entry 1 |       | 0xFF |   tail:  the offset of the last entry
//	+---------+---------+--------+---------+---------+-- ~ --+------+   entry: the previous length, encoding, payload
//	  u32 LE    u32 LE    u16 LE
//
// The length of the previous entry (0 for the first) is one byte below 0xFE, or 0xFE and a u32 LE. The long form may
// hold a small length, too. Encodings (l: length, big endian; integers are little endian, two's complement):
//
//	00llllll                     string of 0..63 bytes       11000000  integer of 16 bits    11111110  integer of 8 bits
//	01llllll llllllll            string of 0..16383 bytes    11010000  integer of 32 bits    1111xxxx  integer x-1,
//	10______ u32 BE              string of any length        11100000  integer of 64 bits              x = 1..13
//	                                                         11110000  integer of 24 bits
//
// legacy.Z1. bytes is the size of the whole ziplist, with header and 0xFF.
// legacy.Z2. tail is the offset of the last entry, if there is one.
// legacy.Z3. count is the number of entries. 0xFFFF means that the number is unknown and needs a walk.
// legacy.Z4. Each entry holds the length of the entry before it.
//
// ReadZiplist checks legacy.Z1..legacy.Z4. A quicklist of RDB version 7 to 9 (kind 14) is a sequence of ziplists.
// Source: the ziplist as RDB files hold it.
type Ziplist struct {
	p     []byte
	count int
}

const (
	ziplistHeader = 10
	ziplistEnd    = 0xFF
	bigPrevious   = 0xFE
	countUnknown  = 0xFFFF
)

// Errors for bytes that are not a valid ziplist.
var (
	ErrZiplistSize  = errors.New("ziplist: the length in the header is not that of the bytes")
	ErrZiplistEnd   = errors.New("ziplist: the end is not where it should be")
	ErrZiplistEntry = errors.New("ziplist: an entry has no known encoding or reaches beyond the end")
	ErrZiplistBack  = errors.New("ziplist: an entry misstates the length of the one before it")
	ErrZiplistTail  = errors.New("ziplist: the header does not lead to the last entry")
	ErrZiplistCount = errors.New("ziplist: the count in the header is not that of the entries")
)

// ReadZiplist checks that the whole of p is a ziplist. The ziplist may be empty.
func ReadZiplist(p []byte) (Ziplist, error) {
	if len(p) <= ziplistHeader || uint64(len(p)) != uint64(binary.LittleEndian.Uint32(p)) {
		return Ziplist{}, ErrZiplistSize
	}
	last := len(p) - 1
	if p[last] != ziplistEnd {
		return Ziplist{}, ErrZiplistEnd
	}
	count, tail, before := 0, -1, 0
	for at := ziplistHeader; at < last; count++ {
		if p[at] == ziplistEnd {
			return Ziplist{}, ErrZiplistEnd
		}
		head, previous, ok := previousLen(p[at:last])
		if !ok {
			return Ziplist{}, ErrZiplistEntry
		}
		if previous != uint64(before) {
			return Ziplist{}, ErrZiplistBack
		}
		_, size, ok := ziplistEntry(p[at+head : last])
		if !ok {
			return Ziplist{}, ErrZiplistEntry
		}
		tail, before = at, head+size
		at += before
	}
	if tail >= 0 && binary.LittleEndian.Uint32(p[4:]) != uint32(tail) {
		return Ziplist{}, ErrZiplistTail
	}
	if known := binary.LittleEndian.Uint16(p[8:]); known != countUnknown && int(known) != count {
		return Ziplist{}, ErrZiplistCount
	}
	return Ziplist{p, count}, nil
}

// All yields the elements in order, as a listpack would hold them. Strings point into the ziplist's bytes.
func (z Ziplist) All() iter.Seq[listpack.Element] {
	return func(yield func(listpack.Element) bool) {
		at, last := ziplistHeader, len(z.p)-1
		for range z.count {
			head, _, _ := previousLen(z.p[at:last])
			e, size, _ := ziplistEntry(z.p[at+head : last])
			if !yield(e) {
				return
			}
			at += head + size
		}
	}
}

// AppendListpack appends the same elements to dst as a listpack.
func (z Ziplist) AppendListpack(dst []byte) []byte {
	from := len(dst)
	dst = listpack.Begin(dst)
	for e := range z.All() {
		dst = listpack.AppendEntry(dst, e)
	}
	return listpack.Close(dst, from, z.count)
}

// previousLen reads the length of the previous entry at the start of p, which is not empty. size is the length of that
// field.
func previousLen(p []byte) (size int, previous uint64, ok bool) {
	switch {
	case p[0] < bigPrevious:
		return 1, uint64(p[0]), true
	case len(p) < 5:
		return 0, 0, false
	}
	return 5, uint64(binary.LittleEndian.Uint32(p[1:])), true
}

// ziplistEntry reads an entry's encoding and payload at the start of p. ok is false if p ends too early.
func ziplistEntry(p []byte) (e listpack.Element, size int, ok bool) {
	if len(p) == 0 {
		return e, 0, false
	}
	b := p[0]
	if b < 0xC0 {
		return ziplistString(p)
	}
	if b > 0xF0 && b < 0xFE {
		return listpack.OfInt(int64(b&0x0F) - 1), 1, true
	}
	width := 0
	switch b {
	case 0xFE:
		width = 1
	case 0xC0:
		width = 2
	case 0xF0:
		width = 3
	case 0xD0:
		width = 4
	case 0xE0:
		width = 8
	}
	if width == 0 || len(p) < 1+width {
		return e, 0, false
	}
	var eight [8]byte
	copy(eight[8-width:], p[1:1+width])
	n := int64(binary.LittleEndian.Uint64(eight[:])) >> (64 - 8*width) // the shift extends the sign
	return listpack.OfInt(n), 1 + width, true
}

// ziplistString reads a string entry at the start of p.
func ziplistString(p []byte) (e listpack.Element, size int, ok bool) {
	head, n := 1, uint64(p[0]&0x3F)
	switch p[0] >> 6 {
	case 1:
		if len(p) < 2 {
			return e, 0, false
		}
		head, n = 2, n<<8|uint64(p[1])
	case 2:
		if len(p) < 5 {
			return e, 0, false
		}
		head, n = 5, uint64(binary.BigEndian.Uint32(p[1:]))
	}
	if n > uint64(len(p)-head) {
		return e, 0, false
	}
	size = head + int(n)
	return listpack.Of(p[head:size:size]), size, true
}
