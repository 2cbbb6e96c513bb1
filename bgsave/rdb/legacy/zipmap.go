package legacy

import (
	"encoding/binary"
	"errors"
	"iter"

	"spindle/engine/data/listpack"
)

// A Zipmap is a small hash in one block. Unused bytes may follow a value.
//
//	0       1                                                                      len-1
//	+-------+--------+-------+--------+------+-------+------+--------+-- ~ --+------+
//	| count | length | field | length | free | value | free | length |       | 0xFF |   free:  u8, how many bytes after
//	+-------+--------+-------+--------+------+-------+------+--------+-- ~ --+------+          the value mean nothing
//	   u8                                u8            bytes                            length: u8, or 0xFE and u32 LE
//
// legacy.M1. The last byte is 0xFF. No field's length begins with 0xFF.
// legacy.M2. count is the number of fields. 0xFE means that the number is unknown and needs a walk.
// legacy.M3. A length below 0xFE is one byte.
//
// ReadZipmap checks these rules.
// Source: the zipmap as RDB files of versions 1 to 3 hold it.
type Zipmap struct {
	p     []byte
	count int
}

const (
	zipmapEnd     = 0xFF
	zipmapBig     = 0xFE
	zipmapUnknown = 0xFE
)

// Errors for bytes that are not a valid zipmap.
var (
	ErrZipmapEnd   = errors.New("zipmap: the end is not where it should be")
	ErrZipmapEntry = errors.New("zipmap: a field or value reaches beyond the end")
	ErrZipmapCount = errors.New("zipmap: the count is not that of the fields")
)

// ReadZipmap checks that the whole of p is a zipmap. The zipmap may be empty. A field may occur twice; the caller
// checks that when it makes a hash.
func ReadZipmap(p []byte) (Zipmap, error) {
	if len(p) < 2 || p[len(p)-1] != zipmapEnd {
		return Zipmap{}, ErrZipmapEnd
	}
	count, last := 0, len(p)-1
	for at := 1; at < last; count++ {
		if p[at] == zipmapEnd {
			return Zipmap{}, ErrZipmapEnd
		}
		_, _, size, ok := zipmapPair(p[at:last])
		if !ok {
			return Zipmap{}, ErrZipmapEntry
		}
		at += size
	}
	if p[0] != zipmapUnknown && int(p[0]) != count {
		return Zipmap{}, ErrZipmapCount
	}
	return Zipmap{p, count}, nil
}

// All yields fields and values, which point into the zipmap's bytes.
func (z Zipmap) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(field, value []byte) bool) {
		at, last := 1, len(z.p)-1
		for range z.count {
			field, value, size, _ := zipmapPair(z.p[at:last])
			if !yield(field, value) {
				return
			}
			at += size
		}
	}
}

// AppendListpack appends the same fields and values to dst as a hash's listpack.
func (z Zipmap) AppendListpack(dst []byte) []byte {
	from := len(dst)
	dst = listpack.Begin(dst)
	for field, value := range z.All() {
		dst = listpack.AppendEntry(dst, listpack.Of(field))
		dst = listpack.AppendEntry(dst, listpack.Of(value))
	}
	return listpack.Close(dst, from, 2*z.count)
}

// zipmapPair reads a field and its value at the start of p. size is the length of both in p; ok is false if p ends too
// early.
func zipmapPair(p []byte) (field, value []byte, size int, ok bool) {
	at, n, ok := zipmapLength(p)
	if !ok || n > uint64(len(p)-at) {
		return nil, nil, 0, false
	}
	field = p[at : at+int(n) : at+int(n)]
	at += int(n)
	head, n, ok := zipmapLength(p[at:])
	if !ok || at+head == len(p) {
		return nil, nil, 0, false
	}
	at += head
	free := int(p[at])
	at++
	if n+uint64(free) > uint64(len(p)-at) {
		return nil, nil, 0, false
	}
	value = p[at : at+int(n) : at+int(n)]
	return field, value, at + int(n) + free, true
}

// zipmapLength reads a length at the start of p.
func zipmapLength(p []byte) (size int, n uint64, ok bool) {
	switch {
	case len(p) == 0 || p[0] == zipmapEnd:
		return 0, 0, false
	case p[0] < zipmapBig:
		return 1, uint64(p[0]), true
	case len(p) < 5:
		return 0, 0, false
	}
	n = uint64(binary.LittleEndian.Uint32(p[1:]))
	return 5, n, n >= zipmapBig // legacy.M3: a small length has one byte
}
