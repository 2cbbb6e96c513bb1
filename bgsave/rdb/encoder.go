package rdb

import (
	"encoding/binary"

	"spindle/internal/compress/lzf"
)

// An Encoder appends the parts of a file to byte slices. One goroutine owns it, because it has scratch memory.
type Encoder struct {
	Compress bool // try LZF on strings longer than 20 bytes (rdbcompression)

	packer lzf.Packer
}

// AppendHeader begins a file of the given version, in that version's dialect.
func AppendHeader(dst []byte, version int) []byte {
	return append(dst, DialectOf(version).header(version)...)
}

// AppendAux appends one auxiliary field.
func (e *Encoder) AppendAux(dst []byte, name, value string) []byte {
	dst = append(dst, byte(OpAux))
	dst = e.AppendText(dst, []byte(name))
	return e.AppendText(dst, []byte(value))
}

// AppendSelectDB announces the keys of db. keys is their number, and volatile is how many of them have a deadline.
func AppendSelectDB(dst []byte, db, keys, volatile int) []byte {
	dst = AppendLength(append(dst, byte(OpSelectDB)), uint64(db))
	dst = AppendLength(append(dst, byte(OpResizeDB)), uint64(keys))
	return AppendLength(dst, uint64(volatile))
}

// AppendSlotInfo states how many keys of the selected database are in a hash slot, and how many have a deadline. It is
// a hint; readers know it since version 12.
func AppendSlotInfo(dst []byte, slot, keys, volatile int) []byte {
	dst = AppendLength(append(dst, byte(OpSlotInfo)), uint64(slot))
	dst = AppendLength(dst, uint64(keys))
	return AppendLength(dst, uint64(volatile))
}

// AppendFunction appends a function library's source.
func (e *Encoder) AppendFunction(dst, code []byte) []byte {
	return e.AppendText(append(dst, byte(OpFunction2)), code)
}

// Attributes may precede a key. An attribute that is missing is None.
type Attributes struct {
	DeadlineMs int64 // Unix ms
	Idle       int64 // seconds
	Freq       int   // 0..255
}

// noAttributes are the Attributes of a key that has none.
var noAttributes = Attributes{None, None, None}

// None marks an attribute that a key does not have.
const None = -1

// AppendKey appends everything before a value: attributes, kind, key.
func (e *Encoder) AppendKey(dst []byte, a Attributes, kind Kind, key []byte) []byte {
	if a.DeadlineMs != None {
		dst = binary.LittleEndian.AppendUint64(append(dst, byte(OpExpireTimeMs)), uint64(a.DeadlineMs))
	}
	if a.Idle != None {
		dst = AppendLength(append(dst, byte(OpIdle)), uint64(a.Idle))
	}
	if a.Freq != None {
		dst = append(dst, byte(OpFreq), byte(a.Freq))
	}
	return e.AppendText(append(dst, byte(kind)), key)
}

// AppendText appends s as a number if possible, otherwise compressed if that is shorter, otherwise verbatim.
func (e *Encoder) AppendText(dst, s []byte) []byte {
	if n, ok := smallInt(s); ok {
		return AppendInt(dst, n)
	}
	if e.Compress && len(s) >= minCompressed {
		if packed := e.packer.Pack(s, len(s)-4); packed != nil {
			dst = appendPackedHeader(dst, len(packed), len(s))
			return append(dst, packed...)
		}
	}
	return append(AppendLength(dst, uint64(len(s))), s...)
}

// appendPackedHeader begins an LZF string. Its packed bytes follow, which expand to size bytes.
func appendPackedHeader(dst []byte, packed, size int) []byte {
	return AppendLength(AppendLength(append(dst, 0xC0|encLZF), uint64(packed)), uint64(size))
}

// PieceMax is the length of the longest piece that AppendPiece accepts.
const PieceMax = 64 << 10

// AppendPiece compresses one piece of a long string. LZF has no header and no end, so compressed pieces can be joined.
// So a string of any length can be written in bounded memory. A piece that does not shrink is written as literals (33
// bytes for 32).
// Source: the LZF format.
func (e *Encoder) AppendPiece(dst, piece []byte) []byte {
	if len(piece) >= minCompressed {
		if packed := e.packer.Pack(piece, len(piece)-1); packed != nil {
			return append(dst, packed...)
		}
	}
	const run = 32
	for len(piece) > 0 {
		n := min(len(piece), run)
		dst = append(append(dst, byte(n-1)), piece[:n]...)
		piece = piece[n:]
	}
	return dst
}

// AppendEOF ends a file. checksum covers all bytes so far, with EOF. 0 means no checksum.
func AppendEOF(dst []byte, checksum uint64) []byte {
	return binary.LittleEndian.AppendUint64(dst, checksum)
}
