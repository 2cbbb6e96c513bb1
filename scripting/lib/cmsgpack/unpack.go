package cmsgpack

import (
	"encoding/binary"
	"math"
	"strconv"
	"unsafe"

	"spindle/scripting/lua"
)

// unpack is cmsgpack.unpack(data). It returns all values of the string.
func unpack(c *lua.Call) lua.Outcome { return unpackFrom(c, c.Len(), 0, 0) }

// unpackOne is cmsgpack.unpack_one(data, offset). It returns the next offset, or -1 at the end, and one value.
func unpackOne(c *lua.Call) lua.Outcome { return unpackFrom(c, 1, 1, c.OptInteger(2, 0)) }

// unpackLimit is cmsgpack.unpack_limit(data, limit, offset). It returns the next offset, or -1 at the end, and up to
// limit values.
func unpackLimit(c *lua.Call) lua.Outcome {
	limit := c.CheckInteger(2)
	return unpackFrom(c, 1, limit, c.OptInteger(3, 0))
}

// unpackFrom reads limit values from offset. If both are 0 it reads all and returns no offset.
func unpackFrom(c *lua.Call, held, limit, offset int) lua.Outcome {
	all := limit == 0 && offset == 0
	data := c.CheckString(1).Bytes()
	length := strconv.Itoa(int(int32(len(data))))
	start := strconv.Itoa(int(int32(offset)))
	switch {
	case offset < 0 || limit < 0: // the error names the length instead of the limit
		c.Error("Invalid request to unpack with offset of " + start + " and limit of " + length + ".")
	case offset > len(data):
		c.Error("Start offset " + start + " greater than input length " + length + ".")
	}
	if all {
		limit = math.MaxInt32
	} else {
		c.Push(lua.Nil) // place of the next offset
	}
	u := unpacker{c: c, s: c.State(), data: data, at: offset, held: held}
	n := 0
	for u.at < len(data) && n < limit {
		v, f := u.value()
		switch f {
		case faultEnd:
			c.Error("Missing bytes in input.")
		case faultFormat:
			c.Error("Bad data format in input.")
		case faultKey:
			return c.Throw(v)
		}
		c.Push(v)
		u.held++
		n++
	}
	c.Spend((u.at - offset) >> 2)
	if all {
		return c.ReturnPushed(n)
	}
	if u.held+1 > lua.MaxStack {
		c.Error("stack overflow (in function mp_unpack_full)")
	}
	next := -1
	if u.at < len(data) {
		next = u.at
	}
	c.SetPushed(n+1, lua.Number(float64(next)))
	return c.ReturnPushed(n + 1)
}

type fault uint8

const (
	faultNone fault = iota
	faultEnd
	faultFormat
	faultKey // of a map; the value is the error
)

// An unpacker reads values at data[at:]. held is the number of values on the stack in the original. Only the limit of
// that stack can be observed.
type unpacker struct {
	c    *lua.Call
	s    *lua.State
	data []byte
	at   int
	held int
}

func (u *unpacker) value() (lua.Value, fault) {
	rest := u.data[u.at:]
	if len(rest) == 0 {
		return lua.Nil, faultEnd
	}
	if u.held >= lua.MaxStack {
		u.c.Error("stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)")
	}
	code := rest[0]
	switch {
	case code < 0x80 || code >= 0xe0:
		u.at++
		return lua.Number(float64(int8(code))), faultNone
	case code < 0x90:
		return u.table(1, int(code&15), true)
	case code < 0xa0:
		return u.table(1, int(code&15), false)
	case code < 0xc0:
		return u.text(1, int(code&31))
	}
	size := int(sizes[code-0xc0]) // the bytes after the code
	if size == refused {
		return lua.Nil, faultFormat
	}
	if len(rest) <= size {
		return lua.Nil, faultEnd
	}
	var number uint64
	switch size {
	case 1:
		number = uint64(rest[1])
	case 2:
		number = uint64(binary.BigEndian.Uint16(rest[1:]))
	case 4:
		number = uint64(binary.BigEndian.Uint32(rest[1:]))
	case 8:
		number = binary.BigEndian.Uint64(rest[1:])
	}
	f := 0.0
	switch code {
	case 0xc0:
		u.at++
		return lua.Nil, faultNone
	case 0xc2, 0xc3:
		u.at++
		return lua.Bool(code == 0xc3), faultNone
	case 0xd9, 0xda, 0xdb:
		return u.text(1+size, int(number))
	case 0xdc, 0xdd:
		return u.table(1+size, int(number), false)
	case 0xde, 0xdf:
		return u.table(1+size, int(number), true)
	case 0xca:
		f = float64(math.Float32frombits(uint32(number)))
	case 0xcb:
		f = math.Float64frombits(number)
	case 0xd0:
		f = float64(int8(number))
	case 0xd1:
		f = float64(int16(number))
	case 0xd2:
		f = float64(int32(number))
	default:
		f = float64(int64(number)) // an unsigned number above 2^63 is negative here
	}
	u.at += 1 + size
	return lua.Number(f), faultNone
}

const refused = 0xff

// sizes has the number of bytes after each of the codes 0xc0 to 0xdf.
var sizes = [32]byte{
	0x00: 0, 0x01: refused, 0x02: 0, 0x03: 0, // nil, -, false, true
	0x04: refused, 0x05: refused, 0x06: refused, 0x07: refused, 0x08: refused, 0x09: refused, // bin, ext
	0x0a: 4, 0x0b: 8, // floats
	0x0c: 1, 0x0d: 2, 0x0e: 4, 0x0f: 8, 0x10: 1, 0x11: 2, 0x12: 4, 0x13: 8, // unsigned and signed integers
	0x14: refused, 0x15: refused, 0x16: refused, 0x17: refused, 0x18: refused, // fixext
	0x19: 1, 0x1a: 2, 0x1b: 4, // strings
	0x1c: 2, 0x1d: 4, 0x1e: 2, 0x1f: 4, // arrays, maps
}

func (u *unpacker) text(head, n int) (lua.Value, fault) {
	if len(u.data)-u.at-head < n {
		return lua.Nil, faultEnd
	}
	u.at += head
	b := u.data[u.at : u.at+n]
	u.at += n
	return u.s.Bytes(b), faultNone
}

// key is value for the key of a map. That is usually a short string that has occurred before.
func (u *unpacker) key() (lua.Value, fault) {
	rest := u.data[u.at:]
	if len(rest) == 0 || rest[0]>>5 != 0xa0>>5 || len(rest) <= int(rest[0]&31) || u.held >= lua.MaxStack {
		return u.value()
	}
	n := 1 + int(rest[0]&31)
	u.at += n
	return u.s.Key(unsafe.String(unsafe.SliceData(rest[1:]), n-1)), faultNone
}

// table reads n items, or n pairs. The table stays on the stack, so that the memory account includes it.
func (u *unpacker) table(head, n int, isMap bool) (lua.Value, fault) {
	u.at += head
	t := u.s.NewTable(0, 0)
	u.c.Push(t.Value())
	u.held++
	var v lua.Value
	var f fault
	if isMap {
		v, f = u.pairs(t, n)
	} else {
		v, f = u.items(t, n)
	}
	if f != faultNone {
		return v, f
	}
	u.held--
	u.c.Pop(1)
	return t.Value(), faultNone
}

func (u *unpacker) items(t *lua.Table, n int) (lua.Value, fault) {
	if u.held >= lua.MaxStack {
		u.c.Error("stack overflow (in function mp_decode_to_lua_array)")
	}
	u.held++ // the index
	for i := 1; i <= n; i++ {
		v, f := u.value()
		if f != faultNone {
			return v, f
		}
		t.SetInt(i, v)
	}
	u.held--
	return lua.Nil, faultNone
}

func (u *unpacker) pairs(t *lua.Table, n int) (lua.Value, fault) {
	for range n {
		key, f := u.key()
		if f != faultNone {
			return key, f
		}
		u.held++
		if key.IsTable() {
			u.c.Push(key)
		}
		v, f := u.value()
		if f != faultNone {
			return v, f
		}
		if key.IsTable() {
			u.c.Pop(1)
		}
		u.held--
		if err := t.Set(key, v); err != nil {
			return u.s.String(err.Error()), faultKey
		}
	}
	return lua.Nil, faultNone
}
