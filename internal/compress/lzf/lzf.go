// Package lzf compresses strings in the format of liblzf, for RDB files and DUMP payloads.
//
// Owner: the caller; a Compressor serves one goroutine.
// Never: allocates, except a Packer's room, or accesses memory outside its arguments, whatever the bytes.
// Start here.
package lzf

import (
	"encoding/binary"
	"errors"
)

// A compressed text is a sequence of items. Each begins with a control byte:
//
//	000LLLLL  byte × (L+1)                 a run of L+1 bytes as they are
//	LLLooooo  oooooooo                     L = 1..6: the L+2 bytes that stand (o+1) bytes before
//	111ooooo  llllllll  oooooooo           the l+9 bytes that stand (o+1) bytes before
//
// o has 13 bits; its high five are in the control byte.
// Source: the liblzf manual.
const (
	maxRun      = 32
	maxDistance = 1 << 13
	minMatch    = 3
	maxMatch    = 264

	hashBits = 13
)

// ErrDamaged is the error for bytes that Compress cannot have made, or for a text of the wrong length.
var ErrDamaged = errors.New("lzf: damaged data")

// A Compressor remembers where three bytes were last seen. The zero value is ready. It need not be cleared between
// texts: positions continue from text to text, so positions of an older text are out of reach.
type Compressor struct {
	last [1 << hashBits]uint32
	base uint32 // the position of the current text's first byte
}

// Compress compresses src into dst and returns the length. It returns 0 if dst is too short, because compression is
// then not worthwhile.
func (e *Compressor) Compress(dst, src []byte) int {
	if len(src) >= 1<<31 {
		return 0
	}
	if e.base == 0 || uint64(e.base)+uint64(len(src)) >= 1<<32 {
		clear(e.last[:])
		e.base = maxDistance + 1 // so that an empty entry is out of reach
	}
	base := e.base
	e.base += uint32(len(src)) + maxDistance + 1

	out, run := 0, 0 // run: start of the bytes that are not written yet
	at, end := 0, len(src)-minMatch
	for at <= end {
		three := uint32(src[at]) | uint32(src[at+1])<<8 | uint32(src[at+2])<<16
		place := &e.last[three*0x9E3779B1>>(32-hashBits)]
		position := base + uint32(at)
		distance := position - *place
		*place = position
		from := at - int(distance)
		if distance > maxDistance || from < 0 ||
			src[from] != src[at] || src[from+1] != src[at+1] || src[from+2] != src[at+2] {
			// Where nothing repeats, fewer and fewer positions are checked.
			at += 1 + (at-run)>>6
			continue
		}
		size := matchLen(src, from, at)
		if out = putRun(dst, out, src[run:at]); out < 0 {
			return 0
		}
		if len(dst)-out < 3 {
			return 0
		}
		o, l := int(distance)-1, size-2
		if l < 7 {
			dst[out] = byte(l<<5 | o>>8)
			out++
		} else {
			dst[out], dst[out+1] = byte(7<<5|o>>8), byte(l-7)
			out += 2
		}
		dst[out] = byte(o)
		out++
		for i := at + 1; i < at+size && i <= end; i += 2 { // every other position in the match is enough
			three := uint32(src[i]) | uint32(src[i+1])<<8 | uint32(src[i+2])<<16
			e.last[three*0x9E3779B1>>(32-hashBits)] = base + uint32(i)
		}
		at += size
		run = at
	}
	if out = putRun(dst, out, src[run:]); out < 0 {
		return 0
	}
	return out
}

// A Packer is a Compressor with its own output memory. The zero value is ready; it serves one goroutine.
type Packer struct {
	compressor Compressor
	room       []byte
}

// Pack compresses src to at most `most` bytes. It returns nil if the text does not fit.
//
// Lifetime: until the next call.
func (p *Packer) Pack(src []byte, most int) []byte {
	if len(p.room) < most {
		p.room = make([]byte, most+most/4)
	}
	n := p.compressor.Compress(p.room[:most], src)
	if n == 0 {
		return nil
	}
	return p.room[:n]
}

// matchLen returns how many bytes at from and at are equal, at most maxMatch. The first three must be equal.
func matchLen(src []byte, from, at int) int {
	most := min(maxMatch, len(src)-at)
	n := minMatch
	for n+8 <= most {
		if binary.LittleEndian.Uint64(src[from+n:]) != binary.LittleEndian.Uint64(src[at+n:]) {
			break
		}
		n += 8
	}
	for n < most && src[from+n] == src[at+n] {
		n++
	}
	return n
}

// putRun writes p as literal bytes to dst[out:] and returns the new length, or -1 if p does not fit.
func putRun(dst []byte, out int, p []byte) int {
	for len(p) > 0 {
		n := min(len(p), maxRun)
		if len(dst)-out < n+1 {
			return -1
		}
		dst[out] = byte(n - 1)
		out += 1 + copy(dst[out+1:], p[:n])
		p = p[n:]
	}
	return out
}

// Decompress writes the text of src to dst and returns the text's length. The caller compares that with the expected
// length.
// Errors: ErrDamaged, also for a text longer than dst.
func Decompress(dst, src []byte) (n int, err error) {
	in, out := 0, 0
	for in < len(src) {
		control := int(src[in])
		in++
		if control < maxRun {
			n := control + 1
			if len(src)-in < n || len(dst)-out < n {
				return 0, ErrDamaged
			}
			copy(dst[out:out+n], src[in:in+n])
			in += n
			out += n
			continue
		}
		size := control>>5 + 2
		if size == 7+2 {
			if in == len(src) {
				return 0, ErrDamaged
			}
			size += int(src[in])
			in++
		}
		if in == len(src) {
			return 0, ErrDamaged
		}
		from := out - (control&31<<8 | int(src[in])) - 1
		in++
		if from < 0 || len(dst)-out < size {
			return 0, ErrDamaged
		}
		// A match may overlap its own output. Each copy then doubles the bytes available.
		for end := out + size; out < end; {
			out += copy(dst[out:end], dst[from:out])
		}
	}
	return out, nil
}
