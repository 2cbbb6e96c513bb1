package scripting

import (
	"strings"
	"syscall"

	"spindle/engine/client"
	"spindle/internal/invariant"
	"spindle/protocol"
	"spindle/scripting/lua"
)

// An environment is a Lua state with the API of scripts, and the client that runs the scripts' commands. There are two:
// one for EVAL, one for libraries. Globals are readonly, so a script cannot affect later scripts.
type environment struct {
	scripts *Scripts
	state   *lua.State
	client  client.Client
	script  client.Script // the state of the running script; client.Script points here
	out     protocol.Reply
	values  values

	args [][]byte // of the command that a script calls; a buffer
	text []byte   // the text of numbers in args

	pcall, xpcall  lua.Value // the machine's own functions
	enter, handler lua.Value
	readErr        lua.Value // a Lua function that returns its argument's field err
	unwrap         lua.GoFunction
	function       lua.Value // the function that enter calls, with keys and argv
	keys, argv     lua.Value

	// The environment of libraries has its own globals: env, an empty table whose lookup finds names in another table.
	// While a library is loaded, that table is loadGlobals, otherwise the true globals.
	env         *lua.Table
	lookup      *lua.Table // env's metatable
	loadGlobals *lua.Table
	loading     *library // the library being loaded, or nil

	anchor *lua.Table // holds the functions that only Go refers to, so that the memory account includes them
	code   int        // bytes of their compiled code

	counted int  // the machine's memory at the last count
	dropped int  // scripts dropped since then
	stale   bool // a library was dropped since then
}

var (
	nameKeys  = lua.Intern("KEYS")
	nameArgv  = lua.Intern("ARGV")
	nameIndex = lua.Intern("__index")
)

func newEnvironment(s *Scripts, forLibraries bool) *environment {
	e := &environment{scripts: s, state: lua.NewState()}
	e.state.Random, e.state.Seed = s.random.next, s.random.seed
	e.state.Clock = processSeconds
	e.client = client.Client{Flags: client.Fake | client.InScript | client.DenyBlocking, Authenticated: true,
		Protocol: 2, Out: &e.out}
	e.client.Script = &e.script
	e.values = values{state: e.state, reply: &e.out}
	e.out.Build(&e.values)

	g := e.state.Globals
	if !s.deps.Settings.Deprecated.Get() {
		for _, name := range []string{"getfenv", "setfenv", "newproxy"} {
			put(g, lua.Intern(name), lua.Nil)
		}
	}
	e.pcall, e.xpcall = g.Get(lua.Intern("pcall")), g.Get(lua.Intern("xpcall"))
	e.enter = e.state.NewFunction("", e.enterFunction)
	e.handler = e.state.NewFunction("__redis__err__handler", e.handle)
	e.anchor = e.state.NewTable(0, 0)
	p, err := lua.Compile("=pcall", []byte("local t = ... return t.err"))
	invariant.That(err == nil, "pcall's own source: %v", err)
	e.readErr, e.unwrap = e.state.Load(p, nil), e.unwrapError
	put(e.anchor, e.readErr, lua.True)
	put(g, lua.Intern("pcall"), e.state.NewFunction("pcall", e.protectedCall, e.anchor.Value()))
	for _, open := range s.deps.Libraries {
		open(e.state)
	}
	g.SetName("redis", e.api(forLibraries).Value())
	if !forLibraries {
		g.SetName("__redis__err__handler", e.handler)
	}
	g.SetMetatable(e.strict())
	e.protect(g)
	e.protect(e.state.Metatable(e.state.String("")))
	if forLibraries {
		e.isolate()
	}
	return e
}

// strict returns a metatable that makes reading an absent field an error.
func (e *environment) strict() *lua.Table {
	meta := e.state.NewTable(0, 1)
	e.state.Register(meta, "__index", func(c *lua.Call) lua.Outcome {
		if c.Len() != 2 {
			c.Error("Wrong number of arguments to luaProtectedTableError")
		}
		name := c.Arg(2)
		if !name.IsString() && !name.IsNumber() {
			c.Error("Second argument to luaProtectedTableError must be a string or number")
		}
		c.Error("Script attempted to access nonexistent global variable '" + cString(c.State().ToString(name).Str()) + "'")
		return 0
	})
	return meta
}

// protect makes t readonly, and all tables reachable from it.
func (e *environment) protect(t *lua.Table) {
	if t == nil || t.Readonly() {
		return
	}
	t.SetReadonly(true)
	for _, v, next, ok := t.Next(0); ok; _, v, next, ok = t.Next(next) {
		e.protect(v.Table())
	}
	e.protect(t.Metatable())
}

// isolate gives libraries their own globals in front of the true ones.
func (e *environment) isolate() {
	s := e.state
	redis := s.NewTable(0, 16)
	s.Register(redis, "register_function", e.registerFunction)
	e.addLog(redis)
	e.addVersion(redis)
	redis.SetMetatable(e.strict())
	e.loadGlobals = s.NewTable(0, 1)
	e.loadGlobals.SetName("redis", redis.Value())
	e.loadGlobals.SetMetatable(e.strict())
	e.protect(e.loadGlobals)

	e.lookup = s.NewTable(0, 1)
	put(e.lookup, nameIndex, s.Globals.Value())
	e.lookup.SetReadonly(true)
	e.env = s.NewTable(0, 0)
	e.env.SetMetatable(e.lookup)
	e.env.SetReadonly(true)
	s.SetHome(e.env)
}

// hold keeps a function for later calls. code is the size of its compiled form in bytes.
func (e *environment) hold(function lua.Value, code int) {
	put(e.anchor, function, lua.True)
	e.code += code
}

func (e *environment) drop(function lua.Value, code int) {
	put(e.anchor, function, lua.Nil)
	e.code -= code
	e.dropped++
}

// uncounted is the amount of garbage, in addition to an eighth of the memory in use, that bytes may count as in use.
const uncounted = 64 << 10

// bytes returns the memory of the machine and its code. It returns 0 for a nil environment.
//
// Cost: sometimes a walk of all the machine's memory. Between two walks the result may be wrong by an eighth.
func (e *environment) bytes() int64 {
	if e == nil {
		return 0
	}
	const script = 64 // in addition to its code
	most := e.counted/8 + uncounted
	if e.stale || e.state.Used() > e.counted+most || e.dropped*script > most {
		e.counted, e.dropped, e.stale = e.state.Live(), 0, false
	}
	return int64(e.state.Used() + e.code)
}

// setLimit makes a script fail when its machine holds more than script-memory-limit.
func (e *environment) setLimit(bytes int) {
	e.values.limit = bytes
	e.state.SetMemoryLimit(bytes)
}

// enterFunction calls a library's function with its keys and arguments.
func (e *environment) enterFunction(c *lua.Call) lua.Outcome {
	c.Push(e.function)
	c.Push(e.keys)
	c.Push(e.argv)
	return c.Invoke(2, 1, passResults)
}

func passResults(c *lua.Call) lua.Outcome { return c.ReturnPushed(len(c.Results())) }

// handle converts an uncaught error to a table that names its place. The place is in the function that failed. If that
// function is written in Go, the place is in its caller.
func (e *environment) handle(c *lua.Call) lua.Outcome {
	err := c.Arg(1)
	frame, known := c.State().Level(1)
	if known && frame.Source == goSource {
		frame, known = c.State().Level(2)
	}
	return c.Return1(e.located(err, frame, known))
}

// goSource is the source of functions that are written in Go.
const goSource = "=[C]"

// located adds a place to an error. It cannot add one to a readonly table, such as a library. In this case Redis's
// handler fails, too, and scripts get the handler's error. Here they get the same error.
func (e *environment) located(err lua.Value, frame lua.Frame, known bool) lua.Value {
	s := e.state
	t := err.Table()
	if t != nil && t.Readonly() && known {
		t = e.errorTable("ERR err_handler_def:10: Attempt to modify a readonly table").Table()
		frame.Source, frame.Line = "@err_handler_def", 10
	}
	if t == nil {
		t = s.NewTable(0, 3)
		put(t, nameErr, s.String("ERR "+s.ToString(err).Str()))
	}
	if known {
		put(t, nameSource, s.String(frame.Source))
		put(t, nameLine, lua.Number(float64(frame.Line)))
	}
	return t.Value()
}

// protectedCall is pcall. Errors of commands are tables, but pcall has always returned just their text to scripts.
func (e *environment) protectedCall(c *lua.Call) lua.Outcome {
	c.CheckAny(1)
	c.Push(e.pcall)
	for i := range c.Len() {
		c.Push(c.Arg(i + 1))
	}
	return c.Invoke(c.Len(), -1, e.unwrap)
}

// unwrapError replaces an error table by its text. If the table's field err is no text, the field's value follows the
// table.
func (e *environment) unwrapError(c *lua.Call) lua.Outcome {
	results := c.Results()
	n := len(results)
	if n != 2 || results[0].Truth() {
		return c.ReturnPushed(n)
	}
	t := results[1].Table()
	if t == nil {
		return c.ReturnPushed(n)
	}
	if t.Metatable() != nil {
		c.Push(e.readErr)
		c.Push(results[1])
		return c.Invoke(1, 1, func(c *lua.Call) lua.Outcome { return withText(c, t.Value(), c.Results()[0]) })
	}
	return withText(c, results[1], t.Get(nameErr))
}

func withText(c *lua.Call, err, text lua.Value) lua.Outcome {
	if text.IsString() || text.IsNumber() {
		return c.Return(lua.False, text)
	}
	return c.Return(lua.False, err, text)
}

// A failure holds the parts of an uncaught error.
type failure struct {
	text    string // including the code
	source  string // "@user_script"; "" if unknown
	line    string
	counted bool // the error was counted for the command that failed
}

// failureOf reads an error value that handle has made.
func (e *environment) failureOf(err lua.Value) failure {
	t := err.Table()
	if t == nil {
		return failure{text: "ERR " + cString(e.state.ToString(err).Str())}
	}
	f := failure{text: "ERR unknown error"}
	if v, ok := e.textOf(t.Get(nameErr)); ok {
		f.text = v
	}
	source, ok1 := e.textOf(t.Get(nameSource))
	line, ok2 := e.textOf(t.Get(nameLine))
	if ok1 && ok2 {
		f.source, f.line = source, line
	}
	if v := t.Get(nameIgnore); v.Type() == lua.TypeBoolean {
		f.counted = v.Truth()
	}
	return f
}

// wholeText returns the text of a string or number. For other values ok is false.
func (e *environment) wholeText(v lua.Value) (string, bool) {
	if !v.IsString() && !v.IsNumber() {
		return "", false
	}
	return strings.Clone(e.state.ToString(v).Str()), true
}

// textOf is wholeText up to its first zero byte, as C reads it.
func (e *environment) textOf(v lua.Value) (string, bool) {
	text, ok := e.wholeText(v)
	return cString(text), ok
}

// numberOf returns argument i of c as a number. It also converts strings that contain a number.
func numberOf(c *lua.Call, i int) (float64, bool) {
	if c.Arg(i).IsString() {
		c.Spend(len(c.Arg(i).Str()) >> 2)
	}
	return lua.ToNumber(c.Arg(i))
}

// processSeconds returns the CPU time of the process, for os.clock.
func processSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}
