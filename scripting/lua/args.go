package lua

import "strconv"

// The methods of this file check arguments. On failure they raise the error of Lua 5.1's own library, and the function
// that called them does not continue.

// Error raises text as an error, preceded by the position of the caller.
func (c *Call) Error(text string) { c.state.raise(c.state.String(c.t.where(1) + text)) }

// ArgError raises "bad argument #i to 'name' (text)".
func (c *Call) ArgError(i int, text string) {
	kind, name := c.t.functionName(len(c.t.frames) - 1)
	if kind == "method" {
		i--
		if i == 0 {
			c.Error("calling '" + name + "' on bad self (" + text + ")")
		}
	}
	if kind == "" {
		name = "?"
	}
	c.Error("bad argument #" + strconv.Itoa(i) + " to '" + name + "' (" + text + ")")
}

// TypeError raises the error that argument i is not of the expected type.
func (c *Call) TypeError(i int, expected string) {
	c.ArgError(i, expected+" expected, got "+c.typeName(i))
}

func (c *Call) typeName(i int) string {
	if i > c.n {
		return typeNone.String()
	}
	return c.Arg(i).Type().String()
}

// CheckAny raises an error unless there is an argument i.
func (c *Call) CheckAny(i int) Value {
	if i > c.n {
		c.ArgError(i, "value expected")
	}
	return c.Arg(i)
}

// CheckTable returns argument i, which must be a table.
func (c *Call) CheckTable(i int) *Table {
	v := c.Arg(i)
	if v.n != bitsTable {
		c.TypeError(i, "table")
	}
	return (*Table)(v.p)
}

// CheckFunction returns argument i, which must be a function.
func (c *Call) CheckFunction(i int) Value {
	v := c.Arg(i)
	if !v.IsFunction() {
		c.TypeError(i, "function")
	}
	return v
}

// CheckNumber returns argument i, which must be a number or a string that can be converted.
func (c *Call) CheckNumber(i int) float64 {
	v := c.Arg(i)
	if v.n < firstTag {
		return v.Float()
	}
	f, ok := c.state.toNumber(v)
	if !ok {
		c.TypeError(i, "number")
	}
	return f
}

// CheckInteger is CheckNumber converted to a 64-bit integer.
func (c *Call) CheckInteger(i int) int { return int(toInteger(c.CheckNumber(i))) }

// CheckInt is CheckInteger converted to 32 bits, as C's int.
func (c *Call) CheckInt(i int) int { return int(int32(toInteger(c.CheckNumber(i)))) }

// OptInt is CheckInt, or other if there is no argument i or it is nil.
func (c *Call) OptInt(i, other int) int {
	if c.Arg(i).IsNil() {
		return other
	}
	return c.CheckInt(i)
}

// OptInteger is CheckInteger, or other if there is no argument i or it is nil.
func (c *Call) OptInteger(i, other int) int {
	if c.Arg(i).IsNil() {
		return other
	}
	return c.CheckInteger(i)
}

// CheckString returns argument i, which must be a string or a number, as a string value.
func (c *Call) CheckString(i int) Value {
	v := c.Arg(i)
	if v.IsString() {
		return v
	}
	if v.n >= firstTag {
		c.TypeError(i, "string")
	}
	v = c.state.numberString(v.Float())
	c.t.stack[c.base+i-1] = v
	return v
}

// OptString is CheckString, or other if there is no argument i or it is nil.
func (c *Call) OptString(i int, other Value) Value {
	if c.Arg(i).IsNil() {
		return other
	}
	return c.CheckString(i)
}

// checkStack raises an error if n more values exceed the stack of a C function in Lua 5.1.
func (c *Call) checkStack(n int, text string) {
	if !c.fits(n) {
		c.Error("stack overflow (" + text + ")")
	}
	c.t.ensure(n)
}

const maxCStack = 8000

func (c *Call) fits(n int) bool { return n <= maxCStack && c.t.top-c.base+n <= maxCStack }
