package listpack

import (
	"encoding/binary"
	"errors"
)

// The errors of Validate.
var (
	ErrSize    = errors.New("listpack: the length in the header is not that of the bytes")
	ErrEnd     = errors.New("listpack: the end is not where it should be")
	ErrEntry   = errors.New("listpack: an entry has no known encoding or reaches beyond the end")
	ErrBacklen = errors.New("listpack: an entry's two lengths differ")
	ErrCount   = errors.New("listpack: the count in the header is not that of the entries")
	ErrElement = errors.New("listpack: an element was refused")
)

// Validate checks that all of lp is one listpack: listpack.I1 alone, or with deep also listpack.I2 and listpack.I3.
// With deep, it calls each, if not nil, for every element in order. each refuses the listpack by returning false. Bytes
// from outside must pass deep before any other function reads them, because all others trust
// listpack.I1..listpack.I3.
func Validate(lp []byte, deep bool, each func(at int, e Element) bool) error {
	if len(lp) < EmptyLen || uint64(len(lp)) != uint64(binary.LittleEndian.Uint32(lp)) {
		return ErrSize
	}
	last := len(lp) - 1
	if lp[last] != end {
		return ErrEnd
	}
	if !deep {
		return nil
	}
	count := 0
	for at := HeaderLen; at < last; count++ {
		next, err := validEntry(lp, at, last)
		if err != nil {
			return err
		}
		if each != nil && !each(at, Get(lp, at)) {
			return ErrElement
		}
		at = next
	}
	if known := headerCount(lp); known != countUnknown && known != count {
		return ErrCount
	}
	return nil
}

// validEntry checks that an entry lies at at and ends at or before last, and returns the entry's end. The backlen must
// be the one that we would write, because a longer form would lead back to another place.
func validEntry(lp []byte, at, last int) (next int, err error) {
	head := 1
	switch b := lp[at]; {
	case b == end:
		return 0, ErrEnd
	case b > enc64Int:
		return 0, ErrEntry
	case b == enc32Str:
		head = 5
	case b >= enc12Str && b < enc32Str:
		head = 2
	}
	if last-at < head {
		return 0, ErrEntry
	}
	body := bodyLen(lp, at)
	size := backlenLen(body)
	if last-at < body+size {
		return 0, ErrEntry
	}
	var want [5]byte
	putBacklen(want[:], body)
	if string(want[:size]) != string(lp[at+body:at+body+size]) {
		return 0, ErrBacklen
	}
	return at + body + size, nil
}
