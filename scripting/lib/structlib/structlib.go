// Package structlib is the library struct of Redis's scripts: Lua values to and from C structures.
//
// Owner: the State that is passed to Open.
// Never: keeps anything between two calls.
//
// A format is a list of options that ends at a zero byte or at the end of the string:
//
//	< > !n     little endian (the default), big endian, alignment (1 by default, 8 for a bare !)
//	b B h H    signed and unsigned integers of 1 and 2 bytes
//	l L T      of 8 bytes
//	in In      of n bytes, 0 to 32, 4 without n; a value takes the low 8 of them
//	f d        floats of 4 and 8 bytes
//	s          a string, followed by a zero byte
//	cn         n bytes, 1 without n; c0 is a whole string, or as long as the number before it says
//	x, blank   one byte of padding; nothing
package structlib

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"spindle/scripting/lua"
)

const (
	maxIntegerSize = 32
	maxAlignment   = 8
)

// Open stores the library in the globals of s.
func Open(s *lua.State) {
	t := s.NewTable(0, 3)
	s.Register(t, "pack", pack)
	s.Register(t, "unpack", unpack)
	s.Register(t, "size", size)
	s.Globals.SetName("struct", t.Value())
}

// A reader walks a format.
type reader struct {
	c     *lua.Call
	rest  string
	big   bool
	align int
}

func newReader(c *lua.Call) reader {
	format := lua.CString(c.CheckString(1).Str())
	c.Spend(len(format))
	return reader{c: c, rest: format, align: 1}
}

// next returns the next option and its size, or 0 if the size depends on the data.
func (r *reader) next() (option byte, size int) {
	option = r.rest[0]
	r.rest = r.rest[1:]
	switch option {
	case 'b', 'B', 'x':
		return option, 1
	case 'h', 'H':
		return option, 2
	case 'f':
		return option, 4
	case 'l', 'L', 'T', 'd':
		return option, 8
	case 'c':
		return option, r.number(1)
	case 'i', 'I':
		if size = r.number(4); size > maxIntegerSize {
			r.c.Error("integral size " + strconv.Itoa(size) + " is larger than limit of " + strconv.Itoa(maxIntegerSize))
		}
		return option, size
	}
	return option, 0
}

// number reads the digits after an option. Without digits it returns other.
func (r *reader) number(other int) int {
	if r.rest == "" || !isDigit(r.rest[0]) {
		return other
	}
	n := 0
	for r.rest != "" && isDigit(r.rest[0]) {
		if n = n*10 + int(r.rest[0]-'0'); n > math.MaxInt32 {
			r.c.Error("integral size overflow")
		}
		r.rest = r.rest[1:]
	}
	return n
}

func isDigit(b byte) bool  { return b >= '0' && b <= '9' }
func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// padding returns the number of bytes from position to the aligned value. For a size that is no power of two it uses
// the same masks as the original, because stored data depends on them.
func (r *reader) padding(position uint64, option byte, size int) int {
	if size == 0 || option == 'c' {
		return 0
	}
	unit := uint64(min(size, r.align))
	return int((unit - position&(unit-1)) & (unit - 1))
}

// control applies an option that has no value.
func (r *reader) control(option byte) {
	switch option {
	case ' ':
	case '>':
		r.big = true
	case '<':
		r.big = false
	case '!':
		n := r.number(maxAlignment)
		if n == 0 || n&(n-1) != 0 {
			r.c.Error("alignment " + strconv.Itoa(n) + " is not a power of 2")
		}
		r.align = n
	default:
		r.c.ArgError(1, "invalid format option '"+string([]byte{option})+"'")
	}
}

// pack is struct.pack(format, ...). It returns the values as one string.
// Cost: the output grows only with the format and the values, and counts as memory while it grows.
func pack(c *lua.Call) lua.Outcome {
	r := newReader(c)
	p := packer{c: c, s: c.State()}
	p.out = p.room[:0]
	argument := 2
	for r.rest != "" {
		option, size := r.next()
		for range r.padding(uint64(len(p.out)), option, size) {
			p.out = append(p.out, 0)
		}
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			p.integer(bits(p.number(argument)), size, r.big)
			argument++
		case 'x':
			p.out = append(p.out, 0)
		case 'f':
			p.integer(uint64(math.Float32bits(float32(p.number(argument)))), 4, r.big)
			argument++
		case 'd':
			p.integer(math.Float64bits(p.number(argument)), 8, r.big)
			argument++
		case 'c', 's':
			text := p.string(argument)
			argument++
			if size == 0 {
				size = len(text)
			}
			if len(text) < size {
				c.ArgError(argument, "string too short") // it names the next argument
			}
			p.append(text[:size])
			if option == 's' {
				p.out = append(p.out, 0)
			}
		default:
			r.control(option)
		}
	}
	c.Spend(len(p.out) >> 4)
	result := p.s.Bytes(p.out)
	p.s.Charge(-p.charged)
	return c.Return1(result)
}

type packer struct {
	c       *lua.Call
	s       *lua.State
	out     []byte
	charged int
	room    [128]byte
}

// number and string read an argument. If it is missing, the error says "got nil", as in the original.
func (p *packer) number(i int) float64 {
	if i > p.c.Len() {
		p.c.ArgError(i, "number expected, got nil")
	}
	return p.c.CheckNumber(i)
}

func (p *packer) string(i int) string {
	if i > p.c.Len() {
		p.c.ArgError(i, "string expected, got nil")
	}
	return p.c.CheckString(i).Str()
}

func (p *packer) append(text string) {
	if need := len(p.out) + len(text); need > cap(p.out) {
		if need > lua.MaxString {
			p.s.RaiseMemory()
		}
		p.s.Charge(2*need - p.charged)
		p.charged = 2 * need
		p.out = append(make([]byte, 0, 2*need), p.out...)
	}
	p.out = append(p.out, text...)
}

func (p *packer) integer(value uint64, size int, big bool) {
	var room [maxIntegerSize]byte
	if big {
		binary.BigEndian.PutUint64(room[maxIntegerSize-8:], value)
		p.out = append(p.out, room[maxIntegerSize-size:]...)
		return
	}
	binary.LittleEndian.PutUint64(room[:], value)
	p.out = append(p.out, room[:size]...)
}

// bits converts f to a 64-bit integer as x86 does: a negative number as signed, any other as unsigned.
func bits(f float64) uint64 {
	if f >= 1<<63 {
		return uint64(lua.ToInteger(f-1<<63)) ^ 1<<63
	}
	return uint64(lua.ToInteger(f))
}

// unpack is struct.unpack(format, data, position). It returns the values, then the position after them.
func unpack(c *lua.Call) lua.Outcome {
	r := newReader(c)
	data := c.CheckString(2).Str()
	pos := uint64(c.OptInteger(3, 1))
	if pos == 0 {
		c.ArgError(3, "offset must be 1 or greater")
	}
	pos-- // a negative position is past every end
	s, n := c.State(), 0
	for r.rest != "" {
		option, size := r.next()
		pos += uint64(r.padding(pos, option, size))
		check(c, data, pos, uint64(size))
		c.CheckStack(2, "too many results")
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			c.Push(lua.Number(integer(data[pos:pos+uint64(size)], r.big, option|0x20 == option)))
			n++
		case 'x':
		case 'f':
			c.Push(lua.Number(float64(math.Float32frombits(uint32(unsigned(data[pos:pos+4], r.big))))))
			n++
		case 'd':
			c.Push(lua.Number(math.Float64frombits(unsigned(data[pos:pos+8], r.big))))
			n++
		case 'c':
			if size == 0 {
				f, ok := 0.0, false
				if n > 0 {
					f, ok = lua.ToNumber(c.Last())
				}
				if !ok {
					c.Error("format 'c0' needs a previous size")
				}
				c.Pop(1)
				n--
				length := bits(f)
				check(c, data, pos, length)
				size = int(length)
			}
			c.Push(s.String(data[pos : pos+uint64(size)]))
			n++
		case 's':
			end := strings.IndexByte(data[pos:], 0)
			if end < 0 {
				c.Error("unfinished string in data")
			}
			c.Push(s.String(data[pos : pos+uint64(end)]))
			n++
			size = end + 1
		default:
			r.control(option)
		}
		pos += uint64(size)
	}
	c.Push(lua.Number(float64(int64(pos + 1))))
	c.Spend(len(data) >> 6)
	return c.ReturnPushed(n + 1)
}

func check(c *lua.Call, data string, pos, size uint64) {
	if size > uint64(len(data)) || pos > uint64(len(data))-size {
		c.ArgError(2, "data string too short")
	}
}

// unsigned reads an integer. If it is longer than 8 bytes, only the low 8 count.
func unsigned(b string, big bool) (u uint64) {
	if big {
		for i := range len(b) {
			u = u<<8 | uint64(b[i])
		}
		return u
	}
	for i := len(b) - 1; i >= 0; i-- {
		u = u<<8 | uint64(b[i])
	}
	return u
}

// integer reads an integer. The sign is bit 8*size-1, modulo 64 as in x86 shifts.
func integer(b string, big, signed bool) float64 {
	u := unsigned(b, big)
	if !signed {
		return float64(u)
	}
	mask := ^uint64(0) << (uint(len(b)*8-1) & 63)
	if u&mask != 0 {
		u |= mask
	}
	return float64(int64(u))
}

// size is struct.size(format). It returns the size of the format's values in bytes.
func size(c *lua.Call) lua.Outcome {
	r := newReader(c)
	pos := uint64(0)
	for r.rest != "" {
		option, size := r.next()
		pos += uint64(r.padding(pos, option, size))
		switch {
		case option == 's':
			c.ArgError(1, "option 's' has no fixed size")
		case option == 'c' && size == 0:
			c.ArgError(1, "option 'c0' has no fixed size")
		case !isLetter(option) && !isDigit(option):
			r.control(option)
		}
		pos += uint64(size)
	}
	return c.Return1(lua.Number(float64(int64(pos))))
}
