// Package cjson is the library cjson of Redis's scripts: Lua values to and from JSON, as in Lua CJSON 2.1.0.
//
// Owner: the State that is passed to Open. Each table that cjson.new makes has its own options.
// Never: checks UTF-8, or calls metamethods.
// Start at encode.go and decode.go; this file has the options.
package cjson

import (
	"math"
	"strconv"

	"spindle/scripting/lua"
)

// Null is the value of a decoded null. Both Null and nil are encoded as null.
var Null = lua.LightUserdata(0)

// Open stores the library in the globals of s.
func Open(s *lua.State) { s.Globals.SetName("cjson", newModule(s).Value()) }

// options are shared by the functions of one module.
type options struct {
	sparseConvert int // if 1, a sparse array becomes an object instead of an error
	sparseRatio   int // an array is sparse if its last index exceeds this many times its items; 0 means never
	sparseSafe    int // and exceeds this
	encodeDepth   int
	decodeDepth   int
	encodeInvalid int // for NaN and infinities: invalidError, invalidText or invalidNull
	decodeInvalid int // 1 means NaN, infinities, hexadecimal and leading zeros are allowed
	precision     int // digits of a number
	keepBuffer    int // 1 means buffer is kept between calls
	buffer        []byte
	text          []byte // a string with escapes under construction
}

const (
	invalidError = iota
	invalidText
	invalidNull
)

// keptBuffer is the size up to which a module keeps its buffer, because the memory account does not include the buffer.
const keptBuffer = 64 << 10

func newModule(s *lua.State) *lua.Table {
	o := &options{
		sparseRatio: 2, sparseSafe: 10, encodeDepth: 1000, decodeDepth: 1000, decodeInvalid: 1, precision: 14, keepBuffer: 1,
	}
	t := s.NewTable(0, 0)
	for _, f := range [...]struct {
		name string
		run  func(o *options, c *lua.Call) lua.Outcome
	}{
		{"encode", encode},
		{"decode", decode},
		{"encode_sparse_array", setSparseArray},
		{"encode_max_depth", setter(integer, func(o *options) *int { return &o.encodeDepth }, 1, math.MaxInt32)},
		{"decode_max_depth", setter(integer, func(o *options) *int { return &o.decodeDepth }, 1, math.MaxInt32)},
		{"encode_number_precision", setter(integer, func(o *options) *int { return &o.precision }, 1, 14)},
		{"encode_keep_buffer", setKeepBuffer},
		{"encode_invalid_numbers", setter(choice, func(o *options) *int { return &o.encodeInvalid }, 0, invalidNull)},
		{"decode_invalid_numbers", setter(choice, func(o *options) *int { return &o.decodeInvalid }, 0, 1)},
		{"new", func(_ *options, c *lua.Call) lua.Outcome { return c.Return1(newModule(c.State()).Value()) }},
	} {
		run := f.run
		s.Register(t, f.name, func(c *lua.Call) lua.Outcome { return run(o, c) })
	}
	t.SetName("null", Null)
	t.SetName("_NAME", lua.Intern("cjson"))
	t.SetName("_VERSION", lua.Intern("2.1.0"))
	return t
}

// setter returns the function that sets one option. The function sets the option unless its argument is nil, and
// returns the new value.
func setter(set func(c *lua.Call, i int, option *int, low, high int), option func(*options) *int, low, high int,
) func(*options, *lua.Call) lua.Outcome {
	return func(o *options, c *lua.Call) lua.Outcome {
		atMost(c, 1)
		set(c, 1, option(o), low, high)
		return c.ReturnPushed(1)
	}
}

func atMost(c *lua.Call, n int) {
	if c.Len() > n {
		c.ArgError(n+1, "found too many arguments")
	}
}

// integer sets an option from argument i and pushes it. Its error always names argument 1.
func integer(c *lua.Call, i int, option *int, low, high int) {
	if !c.Arg(i).IsNil() {
		n := c.CheckInt(i)
		if n < low || n > high {
			c.ArgError(1, "expected integer between "+strconv.Itoa(low)+" and "+strconv.Itoa(high))
		}
		*option = n
	}
	c.Push(lua.Number(float64(*option)))
}

var choices = [...]string{"off", "on", "null"}

// choice sets an option from argument i, a boolean or a word, and pushes it. high is the last valid choice.
func choice(c *lua.Call, i int, option *int, _, high int) {
	switch v := c.Arg(i); v.Type() {
	case lua.TypeNil:
	case lua.TypeBoolean:
		*option = 0
		if v.Truth() {
			*option = 1
		}
	default:
		word := lua.CString(c.CheckString(i).Str())
		n := 0
		for n <= high && choices[n] != word {
			n++
		}
		if n > high {
			c.ArgError(i, "invalid option '"+word+"'")
		}
		*option = n
	}
	if *option > 1 {
		c.Push(lua.Intern(choices[*option]))
		return
	}
	c.Push(lua.Bool(*option == 1))
}

// setSparseArray is cjson.encode_sparse_array(convert, ratio, safe).
func setSparseArray(o *options, c *lua.Call) lua.Outcome {
	atMost(c, 3)
	choice(c, 1, &o.sparseConvert, 0, 1)
	integer(c, 2, &o.sparseRatio, 0, math.MaxInt32)
	integer(c, 3, &o.sparseSafe, 0, math.MaxInt32)
	return c.ReturnPushed(3)
}

// setKeepBuffer is cjson.encode_keep_buffer(on).
func setKeepBuffer(o *options, c *lua.Call) lua.Outcome {
	atMost(c, 1)
	choice(c, 1, &o.keepBuffer, 0, 1)
	if o.keepBuffer == 0 {
		o.buffer = nil
	}
	return c.ReturnPushed(1)
}
