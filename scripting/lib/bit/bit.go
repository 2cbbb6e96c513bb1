// Package bit is the library bit of Redis's scripts: operations on the low 32 bits of numbers, as in Lua BitOp 1.0.2.
//
// Owner: the State that is passed to Open.
// Never: keeps anything between two calls.
package bit

import (
	"math"
	"math/bits"

	"spindle/scripting/lua"
)

// Open stores the library in the globals of s.
func Open(s *lua.State) {
	functions := [...]struct {
		name string
		run  lua.GoFunction
	}{
		{"tobit", func(c *lua.Call) lua.Outcome { return give(c, argument(c, 1)) }},
		{"bnot", func(c *lua.Call) lua.Outcome { return give(c, ^argument(c, 1)) }},
		{"band", fold(func(a, b uint32) uint32 { return a & b })},
		{"bor", fold(func(a, b uint32) uint32 { return a | b })},
		{"bxor", fold(func(a, b uint32) uint32 { return a ^ b })},
		{"lshift", shift(func(b uint32, n int) uint32 { return b << n })},
		{"rshift", shift(func(b uint32, n int) uint32 { return b >> n })},
		{"arshift", shift(func(b uint32, n int) uint32 { return uint32(int32(b) >> n) })},
		{"rol", shift(func(b uint32, n int) uint32 { return bits.RotateLeft32(b, n) })},
		{"ror", shift(func(b uint32, n int) uint32 { return bits.RotateLeft32(b, -n) })},
		{"bswap", func(c *lua.Call) lua.Outcome { return give(c, bits.ReverseBytes32(argument(c, 1))) }},
		{"tohex", toHex},
	}
	t := s.NewTable(0, len(functions))
	for _, f := range functions {
		s.Register(t, f.name, f.run)
	}
	s.Globals.SetName("bit", t.Value())
}

// argument returns the low 32 bits of argument i, rounded to the nearest integer, ties to even. The addition moves the
// integer to the low bits of the mantissa. An integer above 2^51 only fits there in part.
func argument(c *lua.Call, i int) uint32 {
	return uint32(math.Float64bits(c.CheckNumber(i) + (1<<52 + 1<<51)))
}

func give(c *lua.Call, b uint32) lua.Outcome { return c.Return1(lua.Number(float64(int32(b)))) }

// fold checks the first argument, then the others from the last to the second. In the original, errors come in this
// order.
func fold(join func(a, b uint32) uint32) lua.GoFunction {
	return func(c *lua.Call) lua.Outcome {
		b := argument(c, 1)
		for i := c.Len(); i > 1; i-- {
			b = join(b, argument(c, i))
		}
		return give(c, b)
	}
}

func shift(by func(b uint32, n int) uint32) lua.GoFunction {
	return func(c *lua.Call) lua.Outcome {
		b := argument(c, 1)
		return give(c, by(b, int(argument(c, 2)&31)))
	}
}

// toHex writes the low digits of a number. If the count is negative, the digits are in upper case.
func toHex(c *lua.Call) lua.Outcome {
	b, n, digits := argument(c, 1), 8, "0123456789abcdef"
	if c.Len() >= 2 {
		n = int(int32(argument(c, 2)))
	}
	if n < 0 {
		n, digits = -n, "0123456789ABCDEF"
	}
	var room [8]byte
	n = min(n, len(room))
	for i := n - 1; i >= 0; i-- {
		room[i] = digits[b&15]
		b >>= 4
	}
	return c.Return1(c.State().Bytes(room[:n]))
}
