package lua

import "unsafe"

// A Thread is a coroutine: a stack of values and a stack of frames. All its state is data, so it can stop between two
// instructions, and then the Go stack holds nothing of it.
//
// lua.F1. The stack has at least spare places above the registers of the running function.
// lua.F2. The registers of a Lua function are stack[base : base+registers]; all of them have been set.
// lua.F3. frame.pc is right whenever code other than execute reads it.
type Thread struct {
	stack      []Value
	frames     []frame
	top        int // end of the arguments or results being passed
	high       int // no place from here upwards was used since the last Reset
	open       *upvalue
	parent     *Thread // the Thread that resumed this one
	globals    *Table
	state      *State
	frameLimit int
	level      int // nesting of Go calls below the first frame
	starting   bool
	status     threadStatus
	id         uint32
	mark       uint32
}

type threadStatus uint8

const (
	threadFresh   threadStatus = iota // has a function on its stack
	threadYielded                     // its last frame is a call of yield
	threadActive                      // runs, or waits for one that it resumed
	threadDead
)

// A frame is one active call: of a Lua function if cl is set, otherwise of a Go function.
type frame struct {
	cl        *Closure
	pc        int // Lua: the next instruction. Go: where the results of what it invoked begin
	base      int // register 0, or the first argument
	slot      int // place of the function; the results go there
	results   int // wanted; -1 for all
	tailCalls int32
	level     int16 // nested Go calls, as LUAI_MAXCCALLS counts them
	entry     entry
	catches   catching
	aux       int // Lua: where a concatenation continues. Go: the number of arguments

	function *Function
	step     GoFunction // what the machine calls when this frame is on top
	ctx      any        // data of step
}

// entry says where the results of a frame go.
type entry uint8

const (
	entryCall    entry = iota // an instruction for calls
	entryGo                   // a Go function that invoked it, or the host
	entryEvent                // an instruction that called a metamethod, or a loop its iterator
	entryHandler              // the machine: it is the handler of an error
)

type catching uint8

const (
	catchesNothing catching = iota
	catchesError
	catchesWithHandler // the handler is at base
	catchesForLoad     // the result is nil and the error; outer handlers run first
)

const (
	spare           = 256 + 32 // a register operand is a byte; a Go function may push 20 values without a check
	firstFrameLimit = 16383    // then "stack overflow", at the size where Lua 5.1 stops doubling its array
	nextFrameLimit  = 19999
	lastFrameLimit  = 32767
	frameBytes      = int(unsafe.Sizeof(frame{}))
)

// A Closure is a Lua function: code, its globals, and variables of the enclosing functions.
type Closure struct {
	proto    *Proto
	env      *Table
	upvalues []*upvalue
	id       uint32
	mark     uint32
}

// An upvalue is a variable that closures share. While the variable's function runs, v points into the stack. After
// that, v points to closed.
type upvalue struct {
	v      *Value
	closed Value
	index  int      // on the stack, while open
	next   *upvalue // the Thread's open upvalues, by falling index
	mark   uint32
}

func (s *State) newThread(parent *Thread) *Thread {
	s.charge(400 + (spare+32)*valueBytes)
	s.ids++
	t := &Thread{state: s, id: s.ids, frameLimit: firstFrameLimit, stack: make([]Value, spare+32)}
	if parent != nil {
		t.globals = parent.globals
	}
	return t
}

func (s *State) newClosure(p *Proto, env *Table) *Closure {
	s.charge(64 + 8*p.upCount)
	s.ids++
	if p.upCount == 1 {
		c := &struct {
			Closure
			room [1]*upvalue
		}{}
		c.proto, c.env, c.id, c.upvalues = p, env, s.ids, c.room[:]
		return &c.Closure
	}
	c := &Closure{proto: p, env: env, id: s.ids}
	if p.upCount > 0 {
		c.upvalues = make([]*upvalue, p.upCount)
	}
	return c
}

func (t *Thread) frame() *frame { return &t.frames[len(t.frames)-1] }

func (f *frame) drop() {
	if f.cl == nil {
		f.ctx = nil
	}
	f.catches = catchesNothing
}

// ensure makes room for n values above top (lua.F1).
func (t *Thread) ensure(n int) { t.ensureTo(t.top + n) }

// ensureTo extends the stack to place i and the spare places after it. Pointers into the stack become invalid.
func (t *Thread) ensureTo(i int) {
	if i > t.high {
		t.high = i
	}
	if i+spare <= len(t.stack) {
		return
	}
	size := max(2*len(t.stack), i+spare)
	t.state.charge((size - len(t.stack)) * valueBytes)
	stack := make([]Value, size)
	copy(stack, t.stack)
	t.stack = stack
	for u := t.open; u != nil; u = u.next {
		u.v = &t.stack[u.index]
	}
}

// pushFrame returns a new frame on top. Its fields still hold values of an older frame.
func (t *Thread) pushFrame() *frame {
	n := len(t.frames)
	if n >= t.frameLimit {
		t.overflow()
	}
	if n == cap(t.frames) {
		t.growFrames()
	}
	t.frames = t.frames[:n+1]
	return &t.frames[n]
}

func (t *Thread) growFrames() {
	n := len(t.frames)
	size := max(8, 2*n)
	t.state.charge((size - n) * frameBytes)
	frames := make([]frame, n, size)
	copy(frames, t.frames)
	t.frames = frames
}

func (t *Thread) overflow() {
	if t.frameLimit == lastFrameLimit {
		t.state.errValue, t.state.errKind = handlerText, errorHandler
		panic(raisedPanic)
	}
	t.frameLimit = lastFrameLimit
	t.state.runtimeError("stack overflow")
}

func (t *Thread) popFrame() {
	t.frame().drop()
	t.frames = t.frames[:len(t.frames)-1]
}

// findUpvalue returns the open upvalue for a place on the stack.
func (t *Thread) findUpvalue(index int) *upvalue {
	at := &t.open
	for *at != nil && (*at).index >= index {
		if (*at).index == index {
			return *at
		}
		at = &(*at).next
	}
	t.state.charge(int(unsafe.Sizeof(upvalue{})))
	u := &upvalue{v: &t.stack[index], index: index, next: *at}
	*at = u
	return u
}

// closeUpvalues moves the upvalues at from and above off the stack.
func (t *Thread) closeUpvalues(from int) {
	for u := t.open; u != nil && u.index >= from; u = t.open {
		t.open = u.next
		u.closed = *u.v
		u.v = &u.closed
		u.next = nil
	}
}

// liveTop returns the first place above everything that the running function uses.
func (t *Thread) liveTop() int {
	if len(t.frames) == 0 {
		return t.top
	}
	if f := t.frame(); f.cl != nil {
		return f.base + f.cl.proto.registers
	}
	return t.top
}

// pushCall begins a call of the function at slot. Its arguments are the values after it, up to t.top. level is the new
// frame's level.
func (s *State) pushCall(t *Thread, slot, results int, how entry, level int) {
	if t.stack[slot].n != bitsClosure && t.stack[slot].n != bitsFunction {
		s.callable(t, slot)
	}
	if v := t.stack[slot]; v.n == bitsClosure {
		s.enter(t, v.closure(), slot, results, how, level)
		return
	}
	t.ensure(0)
	fn := t.stack[slot].function()
	f := t.pushFrame()
	f.cl, f.function, f.step = nil, fn, fn.run
	f.slot, f.base, f.results, f.entry, f.level, f.tailCalls = slot, slot+1, results, how, int16(level), 0
	f.aux, f.pc = t.top-slot-1, t.top
}

// nested is pushCall for a call that counts as a C call. Its results go to a Go function, or to an instruction that
// called a metamethod.
func (s *State) nested(t *Thread, slot, results int, how entry) {
	s.budget -= 4 // metamethods can call each other without a jump or a call instruction
	level := 1
	if len(t.frames) > 0 {
		level = int(t.frame().level) + 1
	}
	if n := t.level + level; n >= maxLevels {
		if n == maxLevels {
			t.frame().level++ // so that a handler of this error can be called
			s.runtimeError("C stack overflow")
		}
		if n >= maxLevels+maxLevels/8 {
			s.errValue, s.errKind = handlerText, errorHandler
			panic(raisedPanic)
		}
	}
	s.pushCall(t, slot, results, how, level)
}

// callable inserts the metamethod __call of the value at slot before that value.
func (s *State) callable(t *Thread, slot int) {
	v := t.stack[slot]
	tm := s.metamethod(v, eventCall)
	if !tm.IsFunction() {
		register := -1
		if len(t.frames) > 0 {
			if f := t.frame(); f.cl != nil && slot >= f.base && slot < f.base+f.cl.proto.registers {
				register = slot - f.base
			}
		}
		s.typeError(v, register, "call")
	}
	t.ensure(1)
	copy(t.stack[slot+1:t.top+1], t.stack[slot:t.top])
	t.top++
	t.stack[slot] = tm
}

// enter begins a call of a Lua function.
func (s *State) enter(t *Thread, cl *Closure, slot, results int, how entry, level int) *frame {
	p := cl.proto
	base, args := slot+1, t.top-slot-1
	if p.vararg != 0 {
		base = s.adjustVarargs(t, p, args)
		args = t.top - base
	} else {
		args = min(args, p.params)
	}
	t.ensureTo(base + p.registers)
	f := t.pushFrame()
	registers := t.stack[base : base+p.registers]
	for i := args; i < len(registers); i++ {
		registers[i] = Nil
	}
	f.cl, f.pc, f.base, f.slot, f.results, f.entry, f.level, f.tailCalls = cl, 0, base, slot, results, how, int16(level), 0
	return f
}

// adjustVarargs moves the named parameters after all arguments. For functions that do not use "..." it makes the table
// arg.
func (s *State) adjustVarargs(t *Thread, p *Proto, args int) (base int) {
	t.ensure(p.params + 2)
	for ; args < p.params; args++ {
		t.stack[t.top] = Nil
		t.top++
	}
	var arg *Table
	if p.vararg&varargNeedsArg != 0 {
		extra := args - p.params
		arg = newTable(s, extra, 1)
		for i := 0; i < extra; i++ {
			store(arg.slotInt(i+1), t.stack[t.top-extra+i])
		}
		arg.put(nText, Number(float64(extra)))
	}
	base = t.top
	fixed := base - args
	for i := 0; i < p.params; i++ {
		t.stack[t.top] = t.stack[fixed+i]
		t.stack[fixed+i] = Nil
		t.top++
	}
	if arg != nil {
		t.stack[t.top] = arg.Value()
		t.top++
	}
	return base
}

var nText = Intern("n")

// A Call is one call as its Go function sees it. It is valid until the function returns.
type Call struct {
	state *State
	t     *Thread
	base  int
	n     int
}

// State returns the State in which the call runs.
func (c *Call) State() *State { return c.state }

// Len returns the number of arguments.
func (c *Call) Len() int { return c.n }

// Arg returns argument i, counted from 1. It returns nil if the argument is missing.
func (c *Call) Arg(i int) Value {
	if i > c.n {
		return Nil
	}
	return c.t.stack[c.base+i-1]
}

// Args returns all arguments, valid until the next push or until Lua code runs.
func (c *Call) Args() []Value { return c.t.stack[c.base : c.base+c.n] }

// Upvalue returns the i-th upvalue of NewFunction, counted from 0.
func (c *Call) Upvalue(i int) Value { return c.t.frame().function.upvalues[i] }

// Push puts a value on the stack, as a result or as an argument for Invoke.
func (c *Call) Push(v Value) {
	c.t.ensure(1)
	c.t.stack[c.t.top] = v
	c.t.top++
}

// Return ends the function with results.
func (c *Call) Return(results ...Value) Outcome {
	t := c.t
	t.ensure(len(results))
	t.top += copy(t.stack[t.top:], results)
	return Outcome(len(results))
}

// Return1 ends the function with one result.
func (c *Call) Return1(v Value) Outcome {
	t := c.t
	if t.top+spare > len(t.stack) {
		t.ensure(1)
	}
	t.stack[t.top] = v
	t.top++
	return 1
}

// ReturnPushed ends the function with the last n pushed values as results.
func (c *Call) ReturnPushed(n int) Outcome { return Outcome(n) }

// Throw ends the function with an error.
func (c *Call) Throw(v Value) Outcome {
	c.state.errValue, c.state.errKind = v, errorRun
	return outcomeRaise
}

// Invoke calls a function, which was pushed before its n arguments. After the function has returned, the machine calls
// then, which gets the results from Results. results is the wanted number of results, or -1 for all.
func (c *Call) Invoke(n, results int, then GoFunction) Outcome {
	f := c.t.frame()
	f.step = then
	c.state.invoked = invocation{c.t.top - n - 1, results}
	return outcomeInvoke
}

// Results returns the results of the invoked function. The function then of Invoke calls it.
func (c *Call) Results() []Value { return c.t.stack[c.t.frame().pc:c.t.top] }

// Keep stores data for the function's next step. Kept returns the data.
func (c *Call) Keep(data any) { c.t.frame().ctx = data }

func (c *Call) Kept() any { return c.t.frame().ctx }

// drop removes the values after the arguments from the stack.
func (c *Call) drop() { c.t.top = c.base + c.n }

// Suspend stops the machine: Run returns Suspended. After State.Wake and Run the machine calls then, which gets the
// values of Wake from Results.
func (c *Call) Suspend(then GoFunction) Outcome {
	c.t.frame().step = then
	return outcomeSuspend
}

// Spend subtracts n from the budget, for work other than instructions.
func (c *Call) Spend(n int) { c.state.budget -= n }
