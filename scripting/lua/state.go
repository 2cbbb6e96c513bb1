package lua

import (
	"math"
	"strconv"
	"sync"
	"unsafe"
)

// A State is one Lua environment: globals, the metatable of strings, a stack, and the script that runs or waits on it.
//
// Lifetime: values belong to the State that made them. Strings of a Proto and of Intern belong to all States. One
// goroutine at a time may use a State.
type State struct {
	Globals *Table
	Random  func() float64 // in [0, 1), for math.random
	Seed    func(int32)    // for math.randomseed
	Clock   func() float64 // seconds of CPU time, for os.clock

	cur      *Thread // the coroutine that runs
	main     *Thread
	home     *Table // the main coroutine's globals when a call starts
	status   Status
	errValue Value
	errKind  errorKind
	budget   int
	running  bool // inside Run: errors can be caught
	killed   bool
	killWith Value
	level    int // nesting of Go calls around Run, as Lua 5.1 counts them

	stringMeta *Table
	typeMeta   [typeNone]*Table // metatables of the other basic types
	invoked    invocation
	goOutcome  Outcome
	throwing   bool    // errValue is to be thrown
	outcome    outcome // of the coroutine that last stopped
	call       Call
	scratch    []byte
	buffer     []byte          // of TakeBuffer
	keys       [keySlots]Value // of Key
	spares     spares
	matcher    matcher
	ids        uint32

	used  int // bytes, an estimate; see memory.go
	gate  int // above it, used is checked
	limit int // 0 means none
	epoch uint32
}

// Status is the result of Run.
type Status uint8

const (
	Done      Status = iota // Results has the function's results
	Failed                  // Err has the error
	Paused                  // the budget is used up: call Run again
	Suspended               // a Go function waits: call Wake with its results, then Run
	Killed                  // Kill ended the script; Err has the value it was given
)

type errorKind uint8

const (
	errorRun errorKind = iota
	errorMemory
	errorHandler
)

type invocation struct {
	function int // its place on the stack
	results  int
}

// NewState returns a State with the standard libraries in its globals.
func NewState() *State {
	s := &State{gate: math.MaxInt, level: 1}
	s.call.state = s
	s.main = s.newThread(nil)
	s.cur = s.main
	s.Globals = newTable(s, 0, 64)
	s.SetHome(s.Globals)
	s.openLibraries()
	return s
}

// NewTable returns an empty table with room for items and fields.
func (s *State) NewTable(items, fields int) *Table { return newTable(s, items, fields) }

// String returns text as a Value. The bytes are copied.
func (s *State) String(text string) Value {
	if len(text) <= 1 {
		if len(text) == 0 {
			return emptyString
		}
		return byteStrings[text[0]]
	}
	v, room := s.makeString(len(text))
	copy(room, text)
	return v
}

// Bytes returns a string with a copy of b.
func (s *State) Bytes(b []byte) Value { return s.String(unsafe.String(unsafe.SliceData(b), len(b))) }

// MakeString returns a new string of n bytes, and its bytes. Write them before any use of the value.
func (s *State) MakeString(n int) (Value, []byte) { return s.makeString(n) }

func (s *State) makeString(n int) (Value, []byte) {
	if n > maxString {
		s.raiseMemory()
	}
	s.charge(stringBytes(n))
	return rawString(n)
}

// NewUserdata returns a value that holds data for Go functions.
func (s *State) NewUserdata(data any, meta *Table) Value {
	s.charge(64)
	s.ids++
	return userdataValue(&Userdata{Data: data, meta: meta, id: s.ids})
}

// A Function is a Go function that Lua code can call.
type Function struct {
	name     string
	run      GoFunction
	isNext   bool // the function next: loops over pairs do not call it
	upvalues []Value
	id       uint32
	mark     uint32
}

// A GoFunction is the Go code of a Function. It returns the result of one of Call's methods Return, Throw, Invoke and
// Suspend.
type GoFunction func(c *Call) Outcome

// Outcome tells the machine how to continue after a GoFunction.
type Outcome int

const (
	outcomeInvoke  Outcome = -1 - iota
	outcomeRaise           // errValue is set
	outcomeYield           // the last values of the stack go to the resumer
	outcomeResume          // State.cur has been changed
	outcomeSuspend         // the host must Wake
	outcomeAgain           // call the step again, after a pause if the budget is used up
)

// NewFunction returns a Go function as a Value.
func (s *State) NewFunction(name string, run GoFunction, upvalues ...Value) Value {
	s.charge(80 + len(upvalues)*valueBytes)
	s.ids++
	return functionValue(&Function{name: name, run: run, upvalues: upvalues, id: s.ids})
}

// Register stores a Go function in a table under its name.
func (s *State) Register(t *Table, name string, run GoFunction) {
	t.put(Intern(name), s.NewFunction(name, run))
}

// Load returns a compiled chunk as a function whose globals are env, or the State's own if env is nil.
func (s *State) Load(p *Proto, env *Table) Value {
	if env == nil {
		env = s.Globals
	}
	return closureValue(s.newClosure(p, env))
}

// SetHome sets the globals for code that loadstring compiles, and the environment of level 0. If a script changes that
// environment, the change ends at the next Start.
func (s *State) SetHome(env *Table) { s.home, s.main.globals = env, env }

// SetEnv sets the globals of a compiled function. It overrides those of setfenv.
func (s *State) SetEnv(function Value, env *Table) { function.closure().env = env }

// Start prepares a call, which Run executes. It reuses the last call's stacks and drops the last call's results.
func (s *State) Start(function Value, args ...Value) {
	t := s.main
	s.Reset()
	t.ensure(len(args) + 1)
	t.stack[0] = function
	copy(t.stack[1:], args)
	t.top = 1 + len(args)
	s.status = Paused
	s.invoked = invocation{0, -1}
	t.starting = true
}

// Reset drops the running or waiting script. It keeps globals and stacks.
func (s *State) Reset() {
	t := s.main
	if t.open != nil {
		t.closeUpvalues(0)
	}
	for i := range t.frames {
		t.frames[i].drop()
	}
	clear(t.stack[:min(t.high, len(t.stack))])
	t.frames, t.top, t.high, t.starting = t.frames[:0], 0, 0, false
	t.globals = s.home
	t.frameLimit = firstFrameLimit
	s.cur = t
	s.errValue, s.killed = Nil, false
	s.matcher.init("", "")
	if len(t.stack) > keptStack {
		t.stack = make([]Value, spare+32)
	}
	if cap(t.frames) > keptStack/16 {
		t.frames = nil
	}
	if cap(s.scratch) > keptScratch {
		s.scratch = nil
	}
}

// These are the maximum sizes of buffers that are kept after a script.
const (
	keptStack   = 8192 // values
	keptScratch = 64 << 10
)

// leastBudget is the budget that a search or sort needs for one step after a pause.
const leastBudget = 8

// Run executes the prepared call, or continues it, for about budget instructions. Each Run makes progress, even with
// the smallest budget.
func (s *State) Run(budget int) Status {
	if s.status != Paused && !s.killed {
		return s.status
	}
	s.budget, s.running = max(budget, leastBudget), true
	for {
		if status, ended := s.protected(); ended {
			s.status, s.running = status, false
			return status
		}
	}
}

// Results returns the function's results, after Done. They are valid until the next Start.
func (s *State) Results() []Value { return s.main.stack[:s.main.top] }

// Err returns the error value after Failed or Killed.
func (s *State) Err() Value { return s.errValue }

// Kill makes the next Run end the script with an error that no pcall catches.
func (s *State) Kill(with Value) { s.killed, s.killWith = true, with }

// Wake provides the results of a suspended Go function.
func (s *State) Wake(results ...Value) {
	if s.status != Suspended {
		return
	}
	t := s.cur
	t.ensure(len(results))
	t.top += copy(t.stack[t.top:], results)
	s.status = Paused
}

// Budget returns what is left of the last Run's budget. It may be negative.
func (s *State) Budget() int { return s.budget }

// Where returns the position "chunk:line: " of a level of the running function, or "". Level 1 is the caller of a Go
// function.
func (s *State) Where(level int) string { return s.cur.where(level) }

// A Frame describes a running function for the host's messages.
type Frame struct {
	Source string // the chunk's name as given to Compile; "=[C]" for a Go function
	Short  string // the form in messages
	Line   int    // the present line, or -1
}

// Level describes the function at a level. ok is false if there is none.
func (s *State) Level(level int) (Frame, bool) {
	i, ok := s.cur.frameAt(level)
	if !ok {
		return Frame{}, false
	}
	if i < 0 {
		return Frame{"=(tail call)", "(tail call)", -1}, true
	}
	f := &s.cur.frames[i]
	if f.cl == nil {
		return Frame{"=[C]", "[C]", -1}, true
	}
	return f.describe(), true
}

// InLua describes the innermost Lua function. It runs, or waits for Go functions or a coroutine. ok is false if there
// is none.
func (s *State) InLua() (frame Frame, ok bool) {
	for t := s.cur; t != nil; t = t.parent {
		for i := len(t.frames) - 1; i >= 0; i-- {
			if f := &t.frames[i]; f.cl != nil {
				return f.describe(), true
			}
		}
	}
	return Frame{}, false
}

func (f *frame) describe() Frame {
	return Frame{f.cl.proto.source, chunkID(f.cl.proto.source, shortSource), f.line()}
}

// SetTypeMetatable gives all values of a basic type a metatable.
func (s *State) SetTypeMetatable(t Type, meta *Table) {
	if t == TypeString {
		s.stringMeta = meta
		return
	}
	s.typeMeta[t] = meta
}

func (s *State) metatable(v Value) *Table {
	switch v.n >> 48 {
	case tagTable:
		return v.Table().meta
	case tagString:
		return s.stringMeta
	case tagHeavy:
		if v.n == bitsUserdata {
			return (*Userdata)(v.p).meta
		}
	}
	return s.typeMeta[v.Type()]
}

// Metatable returns the metatable of any value, or nil.
func (s *State) Metatable(v Value) *Table { return s.metatable(v) }

// metamethod returns v's metamethod for an event.
func (s *State) metamethod(v Value, e event) Value { return s.metatable(v).event(e) }

// ToString returns the result of tostring for a value without the metamethod __tostring.
func (s *State) ToString(v Value) Value {
	switch v.Type() {
	case TypeString:
		return v
	case TypeNumber:
		return s.numberString(v.Float())
	case TypeBoolean:
		if v.n == bitsTrue {
			return trueText
		}
		return falseText
	case TypeNil:
		return nilText
	}
	if id, ok := v.Light(); ok && id == 0 {
		return nullText
	}
	id := uint64(v.n & (1<<48 - 1))
	switch v.n {
	case bitsTable:
		id = uint64(v.Table().id)
	case bitsClosure:
		id = uint64(v.closure().id)
	case bitsFunction:
		id = uint64(v.function().id)
	case bitsUserdata:
		id = uint64((*Userdata)(v.p).id)
	case bitsThread:
		id = uint64(v.thread().id)
	}
	// Use an id instead of an address, so that a script prints the same text in every run.
	text := strconv.FormatUint(0x100000000000+id*64, 16)
	return s.String(v.Type().String() + ": 0x" + text)
}

var (
	trueText, falseText, nilText = Intern("true"), Intern("false"), Intern("nil")
	nullText                     = Intern("userdata: (nil)") // C's text for a null pointer
)

func (s *State) numberString(f float64) Value {
	if f >= 0 && f <= 9 && f == math.Trunc(f) && !math.Signbit(f) {
		return byteStrings['0'+int(f)]
	}
	var room [40]byte
	return s.Bytes(appendNumber(room[:0], f))
}

var (
	internLock  sync.RWMutex
	internTable = map[string]Value{}
)

// Intern returns the string object that all later Protos use for text. It is for names of libraries, because a lookup
// of an interned name compares no bytes. The objects live as long as the process.
func Intern(text string) Value {
	internLock.Lock()
	defer internLock.Unlock()
	v, ok := internTable[text]
	if !ok {
		v = staticString(text)
		internTable[text] = v
	}
	return v
}

func interned(text string) (Value, bool) {
	internLock.RLock()
	defer internLock.RUnlock()
	v, ok := internTable[text]
	return v, ok
}
