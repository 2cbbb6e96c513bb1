package rdb

import "encoding/binary"

// A Plain is a key whose string is verbatim or a number in the file, with at most a deadline. Most keys are like this.
// It takes an eighth of a Record, so that a batch stays in the processor's cache until the keys are inserted.
//
// Lifetime: its Batch's.
type Plain struct {
	keyAt, keyLen     uint32 // in the batch's bytes
	valueAt, valueLen uint32 // if valueLen is isNumber, Int is the value
	DeadlineMs        int64  // Unix ms, or None
	Int               int64
}

const isNumber = 1<<32 - 1

// Key returns p's name.
func (b *Batch) Key(p *Plain) []byte { return b.buf[p.keyAt:][:p.keyLen:p.keyLen] }

// Value returns p's value. If number is true, the value is p.Int.
func (b *Batch) Value(p *Plain) (text []byte, number bool) {
	if p.valueLen == isNumber {
		return nil, true
	}
	return b.buf[p.valueAt:][:p.valueLen:p.valueLen], false
}

// Distance returns how many bytes of the file are between two keys of one batch.
func (p *Plain) Distance(from *Plain) int64 { return int64(p.keyAt) - int64(from.keyAt) }

// plainKeys reads plain keys. It returns how many it has read, and how many of them have a deadline. It stops before
// anything else, and before a key that does not end within the block.
func (d *Decoder) plainKeys(c *cursor, b *Batch) (n, volatile int) {
	p, i := c.p, c.i
	if len(p) > 1<<31 || d.meta || d.next != noAttributes {
		return 0, 0
	}
	from := len(b.Plain)
	for len(b.Plain)-from < maxRecords {
		at := i
		k := Plain{DeadlineMs: None}
		if at+9 < len(p) && Op(p[at]) == OpExpireTimeMs {
			k.DeadlineMs = int64(binary.LittleEndian.Uint64(p[at+1:]))
			at += 9
		}
		if at+2 > len(p) || Kind(p[at]) != KindString {
			break
		}
		var ok bool
		if k.keyLen, at, ok = shortLength(p, at+1); !ok || int(k.keyLen) > len(p)-at {
			break
		}
		k.keyAt = uint32(at)
		at += int(k.keyLen)
		if at >= len(p) {
			break
		}
		if width := 1 << (p[at] & 3); p[at] >= 0xC0 && p[at] < 0xC0+encLZF {
			if len(p)-at-1 < width {
				break
			}
			k.Int, k.valueLen = readInt(p[at], p[at+1:]), isNumber
			at += 1 + width
		} else if k.valueLen, at, ok = shortLength(p, at); !ok || int(k.valueLen) > len(p)-at {
			break
		} else {
			k.valueAt = uint32(at)
			at += int(k.valueLen)
		}
		if k.DeadlineMs != None {
			volatile++
		}
		b.Plain = append(b.Plain, k)
		i = at
	}
	c.i = i
	return len(b.Plain) - from, volatile
}

// shortLength reads a length of one or two bytes at p[at:].
func shortLength(p []byte, at int) (n uint32, behind int, ok bool) {
	if at+1 >= len(p) {
		return 0, at, false
	}
	switch b := p[at]; {
	case b < 0x40:
		return uint32(b), at + 1, true
	case b < 0x80:
		return uint32(b&0x3f)<<8 | uint32(p[at+1]), at + 2, true
	}
	return 0, at, false
}

// readInt returns the integer after an encoding byte.
func readInt(encoding byte, p []byte) int64 {
	switch encoding & 3 {
	case encInt8:
		return int64(int8(p[0]))
	case encInt16:
		return int64(int16(binary.LittleEndian.Uint16(p)))
	}
	return int64(int32(binary.LittleEndian.Uint32(p)))
}
