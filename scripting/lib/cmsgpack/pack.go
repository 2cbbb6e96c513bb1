package cmsgpack

import (
	"encoding/binary"
	"math"

	"spindle/scripting/lua"
)

const maxNesting = 16 // a deeper table is packed as nil, so a table may contain itself

// pack is cmsgpack.pack(...): it concatenates all arguments in packed form.
func pack(c *lua.Call) lua.Outcome {
	n := c.Len()
	if n == 0 {
		c.ArgError(0, "MessagePack pack needs input.")
	}
	if 2*n > lua.MaxStack {
		c.ArgError(0, "Too many arguments for MessagePack pack.")
	}
	p := packer{c: c, s: c.State(), out: c.State().TakeBuffer()}
	for i := 1; i <= n; i++ {
		// The original keeps the results for the earlier arguments on its stack, and the current argument.
		p.checkStack(n+i-1, 1, "in function mp_check")
		p.value(c.Arg(i), 0, n+i)
	}
	c.Spend(len(p.out) >> 2)
	result := p.s.Bytes(p.out)
	p.s.Charge(-p.charged)
	p.s.KeepBuffer(p.out)
	return c.Return1(result)
}

// A packer appends values to out. held is the number of values on the stack in the original. Only the limit of that
// stack can be observed.
type packer struct {
	c       *lua.Call
	s       *lua.State
	out     []byte
	charged int
}

func (p *packer) checkStack(held, n int, text string) {
	if held+n > lua.MaxStack {
		p.c.Spend(len(p.out) >> 2)
		p.c.Error("stack overflow (" + text + ")")
	}
}

// need makes room for n more bytes and counts them as memory of the State.
func (p *packer) need(n int) {
	if cap(p.out)-len(p.out) >= n {
		return
	}
	size := max(2*cap(p.out), len(p.out)+n, 256)
	if len(p.out)+n > lua.MaxString {
		p.s.RaiseMemory()
	}
	p.s.Charge(size - p.charged)
	p.charged = size
	p.out = append(make([]byte, 0, size), p.out...)
}

func (p *packer) value(v lua.Value, level, held int) {
	p.need(9)
	switch v.Type() {
	case lua.TypeString:
		text := v.Str()
		p.head(0xa0, 31, 0xda, len(text))
		p.need(len(text))
		p.out = append(p.out, text...)
	case lua.TypeNumber:
		p.number(v.Float())
	case lua.TypeBoolean:
		if v.Truth() {
			p.out = append(p.out, 0xc3)
		} else {
			p.out = append(p.out, 0xc2)
		}
	case lua.TypeTable:
		if level < maxNesting {
			p.table(v.Table(), level, held)
			return
		}
		p.out = append(p.out, 0xc0)
	default:
		p.out = append(p.out, 0xc0)
	}
}

// head writes the length of a string, array or map. A length up to short is part of the byte fix. A longer length
// follows the code long in 16 bits, or the code long+1 in 32 bits. Only a string has a code for 8 bits, which is
// long-1.
func (p *packer) head(fix byte, short int, long byte, n int) {
	switch {
	case n <= short:
		p.out = append(p.out, fix|byte(n))
	case n <= math.MaxUint8 && long == 0xda:
		p.out = append(p.out, long-1, byte(n))
	case n <= math.MaxUint16:
		p.out = binary.BigEndian.AppendUint16(append(p.out, long), uint16(n))
	default:
		p.out = binary.BigEndian.AppendUint32(append(p.out, long+1), uint32(n))
	}
}

// table packs an array if the keys are 1 to n, else a map.
func (p *packer) table(t *lua.Table, level, held int) {
	p.checkStack(held, 2, "in function table_is_an_array")
	if n, ok := arrayLength(t); ok {
		p.head(0x90, 15, 0xdc, n)
		p.checkStack(held, 1, "in function mp_encode_lua_table_as_array")
		for i := 1; i <= n; i++ {
			p.value(t.GetInt(i), level+1, held+1)
		}
		return
	}
	p.checkStack(held, 3, "in function mp_encode_lua_table_as_map")
	n := 0
	for _, _, at, ok := t.Next(0); ok; _, _, at, ok = t.Next(at) {
		n++
	}
	p.head(0x80, 15, 0xde, n)
	for key, value, at, ok := t.Next(0); ok; key, value, at, ok = t.Next(at) {
		p.value(key, level+1, held+3)
		p.value(value, level+1, held+2)
	}
}

func arrayLength(t *lua.Table) (n int, ok bool) {
	largest := 0
	for key, _, at, more := t.Next(0); more; key, _, at, more = t.Next(at) {
		if !key.IsNumber() {
			return 0, false
		}
		f := key.Float()
		if f <= 0 || f > math.MaxInt32 || f != math.Trunc(f) {
			return 0, false
		}
		largest = max(largest, int(f))
		n++
	}
	return n, largest == n
}

// number packs f as the shortest integer if f is a 64-bit integer. Otherwise it packs the shortest float that is equal
// to f.
func (p *packer) number(f float64) {
	i := lua.ToInteger(f)
	if float64(i) != f {
		if short := float32(f); float64(short) == f {
			p.out = binary.BigEndian.AppendUint32(append(p.out, 0xca), math.Float32bits(short))
			return
		}
		p.out = binary.BigEndian.AppendUint64(append(p.out, 0xcb), math.Float64bits(f))
		return
	}
	switch {
	case i >= -32 && i <= math.MaxInt8:
		p.out = append(p.out, byte(i))
	case i >= 0 && i <= math.MaxUint8:
		p.out = append(p.out, 0xcc, byte(i))
	case i >= 0 && i <= math.MaxUint16:
		p.out = binary.BigEndian.AppendUint16(append(p.out, 0xcd), uint16(i))
	case i >= 0 && i <= math.MaxUint32:
		p.out = binary.BigEndian.AppendUint32(append(p.out, 0xce), uint32(i))
	case i >= 0:
		p.out = binary.BigEndian.AppendUint64(append(p.out, 0xcf), uint64(i))
	case i >= math.MinInt8:
		p.out = append(p.out, 0xd0, byte(i))
	case i >= math.MinInt16:
		p.out = binary.BigEndian.AppendUint16(append(p.out, 0xd1), uint16(i))
	case i >= math.MinInt32:
		p.out = binary.BigEndian.AppendUint32(append(p.out, 0xd2), uint32(i))
	default:
		p.out = binary.BigEndian.AppendUint64(append(p.out, 0xd3), uint64(i))
	}
}
