package lua

import "unsafe"

func (s *State) openLibraries() {
	g := s.Globals
	g.SetName("_G", g.Value())
	g.SetName("_VERSION", s.String("Lua 5.1"))
	for _, r := range []struct {
		name string
		run  GoFunction
	}{
		{"assert", baseAssert}, {"collectgarbage", baseCollect}, {"error", baseError}, {"gcinfo", baseGCInfo},
		{"getfenv", baseGetfenv}, {"getmetatable", baseGetMetatable}, {"load", baseLoad}, {"loadstring", baseLoadString},
		{"newproxy", baseNewProxy}, {"next", baseNext}, {"pcall", basePCall}, {"rawequal", baseRawEqual},
		{"rawget", baseRawGet},
		{"rawset", baseRawSet}, {"select", baseSelect}, {"setfenv", baseSetfenv}, {"setmetatable", baseSetMetatable},
		{"tonumber", baseToNumber}, {"tostring", baseToString}, {"type", baseType}, {"unpack", baseUnpack},
		{"xpcall", baseXPCall},
	} {
		s.Register(g, r.name, r.run)
	}
	next := s.NewFunction("next", baseNext)
	next.function().isNext = true
	g.Get(Intern("next")).function().isNext = true
	g.SetName("pairs", s.NewFunction("pairs", basePairs, next))
	g.SetName("ipairs", s.NewFunction("ipairs", basePairs2, s.NewFunction("", baseIPairsNext)))
	s.openCoroutine()
	s.openString()
	s.openTable()
	s.openMath()
}

func baseAssert(c *Call) Outcome {
	if c.CheckAny(1).Truth() {
		c.t.top = c.base + c.n
		return Outcome(c.n)
	}
	text := "assertion failed!"
	if !c.Arg(2).IsNil() {
		text = cString(c.CheckString(2).str())
	}
	c.Error(text)
	return 0
}

func baseError(c *Call) Outcome {
	level := c.OptInt(2, 1)
	v := c.Arg(1)
	if level > 0 && (v.IsString() || v.IsNumber()) {
		v = c.state.String(c.t.where(level) + c.state.ToString(v).str())
	}
	return c.Throw(v)
}

var metatableText = Intern("__metatable")

func baseGetMetatable(c *Call) Outcome {
	meta := c.state.metatable(c.CheckAny(1))
	if meta == nil {
		return c.Return1(Nil)
	}
	if v := meta.field(metatableText); !v.IsNil() {
		return c.Return1(v)
	}
	return c.Return1(meta.Value())
}

func baseSetMetatable(c *Call) Outcome {
	t := c.CheckTable(1)
	meta := c.Arg(2)
	if c.n < 2 || !meta.IsNil() && !meta.IsTable() {
		c.ArgError(2, "nil or table expected")
	}
	if t.meta != nil && !t.meta.field(metatableText).IsNil() {
		c.Error("cannot change a protected metatable")
	}
	if t.readonly {
		c.state.runtimeError(readonlyText)
	}
	t.meta = meta.Table()
	return c.Return1(t.Value())
}

// envTarget returns the function for getfenv and setfenv. It returns nil for a frame of a Go function.
func envTarget(c *Call, optional bool) Value {
	if v := c.Arg(1); v.IsFunction() {
		return v
	}
	level := 0
	if optional {
		level = c.OptInt(1, 1)
	} else {
		level = c.CheckInt(1)
	}
	if level < 0 {
		c.ArgError(1, "level must be non-negative")
	}
	i, ok := c.t.frameAt(level)
	if !ok {
		c.ArgError(1, "invalid level")
	}
	if i < 0 {
		c.Error("no function environment for tail call at level " + string(appendNumber(nil, float64(level))))
	}
	f := &c.t.frames[i]
	if f.cl == nil {
		return functionValue(f.function)
	}
	return closureValue(f.cl)
}

func baseGetfenv(c *Call) Outcome {
	v := envTarget(c, true)
	if v.n == bitsClosure {
		return c.Return1(v.closure().env.Value())
	}
	return c.Return1(c.t.globals.Value())
}

func baseSetfenv(c *Call) Outcome {
	env := c.CheckTable(2)
	v := envTarget(c, false)
	if f, ok := toNumber(c.Arg(1)); ok && f == 0 {
		c.t.globals = env
		return 0
	}
	if v.n != bitsClosure {
		c.Error("'setfenv' cannot change environment of given object")
	}
	v.closure().env = env
	return c.Return1(v)
}

func baseRawEqual(c *Call) Outcome {
	a, b := c.CheckAny(1), c.Arg(2)
	c.CheckAny(2)
	if a.n == b.n && a.IsString() {
		c.Spend(a.textLen() >> 6)
	}
	return c.Return1(Bool(rawEqual(a, b)))
}

func baseRawGet(c *Call) Outcome {
	t := c.CheckTable(1)
	return c.Return1(t.Get(c.CheckAny(2)))
}

func baseRawSet(c *Call) Outcome {
	t := c.CheckTable(1)
	c.CheckAny(2)
	c.CheckAny(3)
	c.rawSet(t, c.Arg(2), c.Arg(3))
	return c.Return1(t.Value())
}

// rawSet sets t[key] for library functions. It respects the readonly flag and calls no metamethod.
func (c *Call) rawSet(t *Table, key, v Value) {
	if t.readonly {
		c.state.runtimeError(readonlyText)
	}
	store(c.state.slotFor(t, key), v)
}

func (c *Call) rawSetInt(t *Table, i int, v Value) {
	if t.readonly {
		c.state.runtimeError(readonlyText)
	}
	store(t.slotInt(i), v)
}

func baseNext(c *Call) Outcome {
	t := c.CheckTable(1)
	cursor, ok := t.cursorAfter(c.Arg(2))
	if !ok {
		c.state.runtimeError("invalid key to 'next'")
	}
	key, v, after, ok := t.Next(cursor)
	c.Spend((after - cursor) >> 3)
	if !ok {
		return c.Return1(Nil)
	}
	return c.Return(key, v)
}

func basePairs(c *Call) Outcome {
	return c.Return(c.Upvalue(0), c.CheckTable(1).Value(), Nil)
}

func basePairs2(c *Call) Outcome {
	return c.Return(c.Upvalue(0), c.CheckTable(1).Value(), Number(0))
}

func baseIPairsNext(c *Call) Outcome {
	i := int(int32(c.CheckInt(2) + 1))
	t := c.CheckTable(1)
	v := t.GetInt(i)
	if v.IsNil() {
		return 0
	}
	return c.Return(Number(float64(i)), v)
}

var typeValues = func() (values [typeNone]Value) {
	for t := range values {
		values[t] = Intern(typeNames[t])
	}
	return values
}()

func baseType(c *Call) Outcome { return c.Return1(typeValues[c.CheckAny(1).Type()]) }

func baseSelect(c *Call) Outcome {
	if v := c.Arg(1); v.IsString() && len(v.str()) > 0 && v.str()[0] == '#' {
		return c.Return1(Number(float64(c.n - 1)))
	}
	i := c.CheckInt(1)
	if i < 0 {
		i += c.n
	} else if i > c.n {
		i = c.n
	}
	if i < 1 {
		c.ArgError(1, "index out of range")
	}
	c.drop()
	return Outcome(c.n - i)
}

func baseUnpack(c *Call) Outcome {
	t := c.CheckTable(1)
	i := c.OptInt(2, 1)
	var e int
	if c.Arg(3).IsNil() {
		e = t.Len()
	} else {
		e = c.CheckInt(3)
	}
	if i > e {
		return 0
	}
	n := e - i + 1
	if int32(n) <= 0 || !c.fits(n) {
		c.Error("too many results to unpack")
	}
	c.t.ensure(n)
	stack, top := c.t.stack, c.t.top
	for j := range n {
		stack[top+j] = *t.findInt(i + j)
	}
	c.t.top += n
	return Outcome(n)
}

func baseToNumber(c *Call) Outcome {
	base := c.OptInt(2, 10)
	if base == 10 {
		if f, ok := c.state.toNumber(c.CheckAny(1)); ok {
			return c.Return1(Number(f))
		}
		return c.Return1(Nil)
	}
	s := cString(c.CheckString(1).str())
	c.Spend(len(s) >> 2)
	if base < 2 || base > 36 {
		c.ArgError(2, "base out of range")
	}
	u, n := scanUnsigned(s, base)
	if n > 0 {
		for n < len(s) && isSpace(int(s[n])) {
			n++
		}
		if n == len(s) {
			return c.Return1(Number(float64(u)))
		}
	}
	return c.Return1(Nil)
}

var toStringText = Intern("__tostring")

func baseToString(c *Call) Outcome {
	v := c.CheckAny(1)
	if meta := c.state.metatable(v); meta != nil {
		if tm := meta.field(toStringText); !tm.IsNil() {
			c.Push(tm)
			c.Push(v)
			return c.Invoke(1, 1, returnResults)
		}
	}
	return c.Return1(c.state.ToString(v))
}

// returnResults is the last step of functions that return what the invoked function returned.
func returnResults(c *Call) Outcome { return Outcome(len(c.Results())) }

func basePCall(c *Call) Outcome {
	c.CheckAny(1)
	c.t.frame().catches = catchesError
	c.drop()
	return c.Invoke(c.n-1, -1, afterPCall)
}

// afterPCall puts true before the results of a call that succeeded. An error does not come here (throw).
func afterPCall(c *Call) Outcome {
	first := c.t.frame().pc
	n := c.t.top - first
	c.Push(Nil)
	copy(c.t.stack[first+1:], c.t.stack[first:first+n])
	c.t.stack[first] = True
	return Outcome(n + 1)
}

func baseXPCall(c *Call) Outcome {
	c.CheckAny(2)
	f, handler := c.Arg(1), c.Arg(2)
	c.t.stack[c.base], c.t.stack[c.base+1] = handler, f
	c.t.top = c.base + 2
	c.t.frame().catches = catchesWithHandler
	return c.Invoke(0, -1, afterPCall)
}

func baseLoadString(c *Call) Outcome {
	source := c.CheckString(1)
	name := c.OptString(2, source)
	return c.load(cString(name.str()), source.str())
}

// load returns the compiled chunk, or nil and the error.
func (c *Call) load(name, source string) Outcome {
	return c.compiled(c.compile(name, source, false))
}

func (c *Call) compile(name, source string, more bool) (*Proto, error) {
	c.state.budget -= len(source) >> 2
	return compile(name, source, c.t.level+int(c.t.frame().level), more)
}

func (c *Call) compiled(p *Proto, err error) Outcome {
	if err != nil {
		return c.Return(Nil, c.state.String(err.Error()))
	}
	c.state.charge(p.inner)
	return c.Return1(closureValue(c.state.newClosure(p, c.t.globals)))
}

// pieces holds the source that load has read so far.
type pieces struct {
	source []byte
	tried  int  // bytes found to be a valid beginning
	tries  int  // number of such attempts
	empty  bool // the first piece was empty: Lua 5.1 then asks again, because it looks for bytecode first
}

// due reports whether to compile the source read so far. Lua 5.1 compiles while it reads, so it reads no more after an
// error. Here the source is compiled again after each of the first pieces, and later after each growth by an eighth.
func (p *pieces) due() bool { return p.tries < 64 || len(p.source)-p.tried >= p.tried/8 }

func baseLoad(c *Call) Outcome {
	c.OptString(2, Nil)
	c.CheckFunction(1)
	c.drop()
	c.t.frame().catches = catchesForLoad
	c.Keep(&pieces{})
	return c.nextPiece()
}

func (c *Call) nextPiece() Outcome {
	c.Push(c.Arg(1))
	return c.Invoke(0, 1, loadStep)
}

func loadStep(c *Call) Outcome {
	v := c.Results()[0]
	c.drop()
	p := c.Kept().(*pieces)
	switch {
	case v.IsString() || v.IsNumber():
		piece := c.state.ToString(v).str()
		if len(piece) > 0 {
			c.state.charge(len(piece))
			p.source = append(p.source, piece...)
			if p.due() {
				if _, err := c.compile(c.chunkName(), p.text(), true); err != errNeedsMore {
					return c.compiled(nil, err)
				}
				p.tried = len(p.source)
				p.tries++
			}
			return c.nextPiece()
		}
	case !v.IsNil():
		c.Error("reader function must return a string") // load itself catches it
	}
	if len(p.source) == 0 && !p.empty {
		p.empty = true
		return c.nextPiece()
	}
	return c.load(c.chunkName(), p.text())
}

func (p *pieces) text() string { return unsafe.String(unsafe.SliceData(p.source), len(p.source)) }

// chunkName returns the second argument of load, or its default.
func (c *Call) chunkName() string {
	if c.Arg(2).IsNil() {
		return "=(load)"
	}
	return cString(c.CheckString(2).str())
}

func baseNewProxy(c *Call) Outcome {
	s := c.state
	arg := c.Arg(1)
	switch {
	case arg.isFalsy():
		return c.Return1(s.NewUserdata(nil, nil))
	case arg.n == bitsTrue:
		meta := newTable(s, 0, 0)
		meta.proxy = true
		return c.Return1(s.NewUserdata(nil, meta))
	}
	meta := s.metatable(arg)
	if meta == nil || !meta.proxy {
		c.ArgError(1, "boolean or proxy expected")
	}
	return c.Return1(s.NewUserdata(nil, meta))
}

// counted returns bytes, the memory in use. It spends budget for the walk that counted the memory.
func (c *Call) counted(bytes int) int {
	c.Spend(bytes >> 5)
	return bytes
}

func baseGCInfo(c *Call) Outcome {
	return c.Return1(Number(float64(c.counted(c.state.Live()) >> 10)))
}

func baseCollect(c *Call) Outcome {
	option := "collect"
	if !c.Arg(1).IsNil() {
		option = cString(c.CheckString(1).str())
	}
	s := c.state
	result := 0.0
	known := false
	for _, o := range []string{"stop", "restart", "collect", "count", "step", "setpause", "setstepmul"} {
		known = known || o == option
	}
	if !known {
		c.ArgError(1, "invalid option '"+option+"'")
	}
	c.OptInt(2, 0)
	switch option {
	case "collect":
		s.Collect()
		c.counted(s.used)
	case "count":
		result = float64(c.counted(s.Live())) / 1024
	case "step":
		s.Collect()
		c.counted(s.used)
		return c.Return1(True)
	case "setpause", "setstepmul":
		result = 200 // Lua 5.1's initial value; here Go's collector frees objects
	}
	return c.Return1(Number(result))
}
