package cjson

import (
	"math"
	"strconv"

	"spindle/scripting/lua"
)

func encode(o *options, c *lua.Call) lua.Outcome {
	if c.Len() != 1 {
		c.ArgError(1, "expected 1 argument")
	}
	e := encoder{c: c, s: c.State(), o: o, out: o.buffer[:0]}
	o.buffer = nil // after an error the buffer is gone
	e.value(c.Arg(1), 0, 1)
	c.Spend(len(e.out) >> 2)
	result := e.s.Bytes(e.out)
	e.s.Charge(-e.charged)
	if o.keepBuffer == 1 && cap(e.out) <= keptBuffer {
		o.buffer = e.out
	}
	return c.Return1(result)
}

// An encoder appends JSON to out. held is the number of values on the stack in the original. Only the limit of that
// stack can be observed.
type encoder struct {
	c       *lua.Call
	s       *lua.State
	o       *options
	out     []byte
	charged int
}

// need makes room for n more bytes and counts them as memory of the State.
func (e *encoder) need(n int) {
	if cap(e.out)-len(e.out) < n {
		e.grow(n)
	}
}

func (e *encoder) grow(n int) {
	if len(e.out)+n > lua.MaxString {
		e.s.RaiseMemory()
	}
	size := max(2*cap(e.out), len(e.out)+n, 256)
	e.s.Charge(size - e.charged)
	e.charged = size
	e.out = append(make([]byte, 0, size), e.out...)
}

// refuse raises the error for a value that JSON cannot express.
func (e *encoder) refuse(v lua.Value, reason string) {
	e.c.Spend(len(e.out) >> 2)
	e.c.Error("Cannot serialise " + v.Type().String() + ": " + reason)
}

func (e *encoder) value(v lua.Value, depth, held int) {
	e.need(32)
	switch v.Type() {
	case lua.TypeString:
		e.string(v.Str())
	case lua.TypeNumber:
		e.number(v)
	case lua.TypeTable:
		e.table(v.Table(), depth+1, held)
	case lua.TypeBoolean:
		e.out = strconv.AppendBool(e.out, v.Truth())
	case lua.TypeNil:
		e.out = append(e.out, "null"...)
	default:
		if !lua.RawEqual(v, Null) {
			e.refuse(v, "type not supported")
		}
		e.out = append(e.out, "null"...)
	}
}

func (e *encoder) table(t *lua.Table, depth, held int) {
	if depth > e.o.encodeDepth || held+3 > lua.MaxStack {
		e.c.Spend(len(e.out) >> 2)
		e.c.Error("Cannot serialise, excessive nesting (" + strconv.Itoa(depth) + ")")
	}
	if n := e.arrayLength(t); n > 0 {
		e.array(t, n, depth, held)
		return
	}
	e.out = append(e.out, '{')
	first := true
	for key, value, at, ok := t.Next(0); ok; key, value, at, ok = t.Next(at) {
		e.need(40)
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		switch {
		case key.IsString():
			e.string(key.Str())
		case key.IsNumber():
			e.out = append(e.out, '"')
			e.number(key)
			e.out = append(e.out, '"')
		default:
			e.refuse(key, "table key must be a number or string")
		}
		e.need(1)
		e.out = append(e.out, ':')
		e.value(value, depth, held+2)
	}
	e.need(1)
	e.out = append(e.out, '}')
}

// arrayLength returns the last index if all keys are indexes and the table is not sparse. Otherwise it returns 0 or
// less. The original counts in C's int, so an index past 2^31 becomes the least integer here, too.
func (e *encoder) arrayLength(t *lua.Table) int {
	last, items := int32(0), int32(0)
	for key, _, at, ok := t.Next(0); ok; key, _, at, ok = t.Next(at) {
		if !key.IsNumber() {
			return -1
		}
		f := key.Float()
		if !(f >= 1) || f != math.Trunc(f) {
			return -1
		}
		if f > float64(last) {
			last = math.MinInt32
			if f <= math.MaxInt32 {
				last = int32(f)
			}
		}
		items++
	}
	e.c.Spend(int(items) >> 2)
	if o := e.o; o.sparseRatio > 0 && last > items*int32(o.sparseRatio) && int(last) > o.sparseSafe {
		if o.sparseConvert == 0 {
			e.refuse(t.Value(), "excessively sparse array")
		}
		return -1
	}
	if holes := int(last) - int(items); holes > lua.MaxString/len("null,") {
		e.s.RaiseMemory() // before time is spent on writing them
	}
	return int(last)
}

func (e *encoder) array(t *lua.Table, n, depth, held int) {
	e.out = append(e.out, '[')
	for i := 1; i <= n; i++ {
		if i > 1 {
			e.need(1)
			e.out = append(e.out, ',')
		}
		e.value(t.GetInt(i), depth, held+1)
	}
	e.need(1)
	e.out = append(e.out, ']')
}

// escaped has the text for each byte that must be escaped in a string.
var escaped = func() (table [256]string) {
	const digits = "0123456789abcdef"
	for b := range table {
		if b < ' ' || b == 0x7f {
			table[b] = "\\u00" + string([]byte{digits[b>>4], digits[b&15]})
		}
	}
	for b, short := range map[byte]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`, '"': `\"`,
		'\\': `\\`, '/': `\/`} {
		table[b] = short
	}
	return table
}()

var plain = func() (table [256]bool) {
	for b := range table {
		table[b] = escaped[b] == ""
	}
	return table
}()

func (e *encoder) string(s string) {
	e.need(len(s) + 2)
	out := append(e.out, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		if plain[s[i]] {
			continue
		}
		e.out = append(out, s[start:i]...)
		e.need(len(s) - i + 8)
		out = append(e.out, escaped[s[i]]...)
		start = i + 1
	}
	e.out = append(append(out, s[start:]...), '"')
}

// number appends C's %.<precision>g. The caller has made room for its maximum of 24 bytes.
func (e *encoder) number(v lua.Value) {
	f := v.Float()
	if f-f != 0 {
		e.invalid(v, f)
		return
	}
	e.out = appendNumber(e.out, f, e.o.precision)
}

func (e *encoder) invalid(v lua.Value, f float64) {
	switch {
	case e.o.encodeInvalid == invalidError:
		e.refuse(v, "must not be NaN or Inf")
	case e.o.encodeInvalid == invalidNull:
		e.out = append(e.out, "null"...)
	case f != f:
		e.out = append(e.out, "nan"...)
	case f > 0:
		e.out = append(e.out, "inf"...)
	default:
		e.out = append(e.out, "-inf"...)
	}
}

// below[n] is 10^n. An integer below it has at most n digits.
var below = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14}

// appendNumber appends C's %.<precision>g of a finite number, for a precision from 1 to 14.
func appendNumber(dst []byte, f float64, precision int) []byte {
	if i := int64(f); float64(i) == f && math.Abs(f) < below[precision] && (i != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, i, 10)
	}
	if math.Signbit(f) {
		dst = append(dst, '-')
		f = -f
	}
	var room [32]byte
	text := strconv.AppendFloat(room[:0], f, 'e', precision-1, 64) // d.ddde±xx
	e := len(text) - 4
	for text[e] != 'e' {
		e--
	}
	exponent := 0
	for _, d := range text[e+2:] {
		exponent = exponent*10 + int(d-'0')
	}
	if text[e+1] == '-' {
		exponent = -exponent
	}
	digits := append(room[:1], text[min(2, e):e]...) // without the point
	for len(digits) > 1 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	switch {
	case exponent < -4 || exponent >= precision:
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		dst = append(dst, 'e', '+')
		if exponent < 0 {
			dst[len(dst)-1], exponent = '-', -exponent
		}
		if exponent < 10 {
			dst = append(dst, '0')
		}
		return strconv.AppendInt(dst, int64(exponent), 10)
	case exponent < 0:
		return append(append(dst, "0.0000"[:1-exponent]...), digits...)
	case exponent+1 >= len(digits):
		dst = append(dst, digits...)
		for range exponent + 1 - len(digits) {
			dst = append(dst, '0')
		}
		return dst
	}
	dst = append(append(dst, digits[:exponent+1]...), '.')
	return append(dst, digits[exponent+1:]...)
}
