package lua

import "strconv"

// lastChange returns the last instruction before pc that changed a register, or a return if there is none. It follows
// jumps that are always taken. Error messages get variable names from this instruction.
func lastChange(p *Proto, pc, register int) instruction {
	last := len(p.code) - 1
	for i := 0; i < pc; i++ {
		in := p.code[i]
		a := in.a()
		if in.op().setsA() && a == register {
			last = i
		}
		switch in.op() {
		case opLoadNil:
			if a <= register && register <= in.b() {
				last = i
			}
		case opSelf:
			if register == a+1 {
				last = i
			}
		case opTForLoop:
			if register >= a+2 {
				last = i
			}
		case opForLoop, opForPrep, opJmp:
			if to := i + 1 + in.sbx(); i < to && to <= pc {
				i = to - 1
			}
		case opCall, opTailCall:
			if register >= a {
				last = i
			}
		case opSetList:
			if in.c() == 0 {
				i++
			}
		case opClosure:
			i += p.protos[in.bx()].upCount
		}
	}
	return p.code[last]
}

func (p *Proto) constantName(rk int) string {
	if rk >= constantBit && p.constants[rk-constantBit].IsString() {
		return cString(p.constants[rk-constantBit].str())
	}
	return "?"
}

// cString returns s up to its first zero byte, as C's %s does.
func cString(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] == 0 {
			return s[:i]
		}
	}
	return s
}

// objectName returns the kind, such as "global", and the name of the value in a register at pc. Both are empty if the
// name is unknown.
func objectName(p *Proto, pc, register int) (kind, name string) {
	if name = p.localName(register+1, pc); name != "" {
		return "local", name
	}
	switch i := lastChange(p, pc, register); i.op() {
	case opGetGlobal:
		return "global", cString(p.constants[i.bx()].str())
	case opMove:
		if i.b() < i.a() {
			return objectName(p, pc, i.b())
		}
	case opGetTable:
		return "field", p.constantName(i.c())
	case opGetUpval:
		return "upvalue", p.upvalues[i.b()]
	case opSelf:
		return "method", p.constantName(i.c())
	}
	return "", ""
}

// functionName returns the kind and name by which frame i was called, if the caller's code shows them.
func (t *Thread) functionName(i int) (kind, name string) {
	f := &t.frames[i]
	if f.cl != nil && f.tailCalls > 0 || i == 0 {
		return "", ""
	}
	caller := &t.frames[i-1]
	if caller.cl == nil {
		return "", ""
	}
	p := caller.cl.proto
	switch in := p.code[caller.pc-1]; in.op() {
	case opCall, opTailCall, opTForLoop:
		return objectName(p, caller.pc-1, in.a())
	}
	return "", ""
}

// line returns the line of the present instruction. After a jump to the first instruction it returns that instruction's
// line.
func (f *frame) line() int { return int(f.cl.proto.lines[max(0, f.pc-1)]) }

// frameAt returns the index of the frame of a level: 0 is the running function, 1 its caller. i is -1 for a lost tail
// call. ok is false if there is no such level.
func (t *Thread) frameAt(level int) (i int, ok bool) {
	i = len(t.frames) - 1
	for ; level > 0 && i >= 0; i-- {
		level--
		if f := &t.frames[i]; f.cl != nil {
			level -= int(f.tailCalls)
		}
	}
	if level == 0 && i >= 0 {
		return i, true
	}
	return -1, level < 0
}

// where returns the position "chunk:line: " of a level, or "".
func (t *Thread) where(level int) string {
	if i, ok := t.frameAt(level); ok && i >= 0 {
		if f := &t.frames[i]; f.cl != nil {
			return chunkID(f.cl.proto.source, shortSource) + ":" + strconv.Itoa(f.line()) + ": "
		}
	}
	return ""
}

// position returns the prefix of the machine's own errors: the position in the running Lua function, or "".
func (t *Thread) position() string {
	if n := len(t.frames); n > 0 && t.frames[n-1].cl != nil && t.frames[n-1].pc > 0 {
		f := &t.frames[n-1]
		return chunkID(f.cl.proto.source, shortSource) + ":" + strconv.Itoa(f.line()) + ": "
	}
	return ""
}

// A raised is the value of the panic with which Go code raises a Lua error. The error is in State.errValue.
type raised struct{}

var raisedPanic = &raised{}

func (s *State) raise(v Value) {
	s.errValue, s.errKind = v, errorRun
	panic(raisedPanic)
}

// runtimeError raises an error of the machine. The error has a position if a Lua function runs.
func (s *State) runtimeError(text string) { s.raise(s.String(s.cur.position() + text)) }

// raiseMemory raises the error that has no position and runs no handler.
func (s *State) raiseMemory() {
	s.errValue, s.errKind = memoryText, errorMemory
	panic(raisedPanic)
}

var (
	memoryText  = Intern("not enough memory")
	handlerText = Intern("error in error handling")
)

// typeError raises a type error that names the value. register holds the value, or is -1.
func (s *State) typeError(v Value, register int, what string) {
	kind, name := "", ""
	if register >= 0 {
		if f := s.cur.frame(); f.cl != nil {
			kind, name = objectName(f.cl.proto, f.pc-1, register)
		}
	}
	if kind != "" {
		s.runtimeError("attempt to " + what + " " + kind + " '" + name + "' (a " + v.Type().String() + " value)")
	}
	s.runtimeError("attempt to " + what + " a " + v.Type().String() + " value")
}

func (s *State) arithError(a, b Value, registerA, registerB int) {
	if _, ok := toNumber(a); !ok {
		s.typeError(a, registerA, "perform arithmetic on")
	}
	s.typeError(b, registerB, "perform arithmetic on")
}

func (s *State) concatError(a, b Value, registerA, registerB int) {
	if a.IsString() || a.IsNumber() {
		s.typeError(b, registerB, "concatenate")
	}
	s.typeError(a, registerA, "concatenate")
}

func (s *State) orderError(a, b Value) {
	t1, t2 := a.Type().String(), b.Type().String()
	if t1[2] == t2[2] { // Lua 5.1 compares the third letter of the type names
		s.runtimeError("attempt to compare two " + t1 + " values")
	}
	s.runtimeError("attempt to compare " + t1 + " with " + t2)
}
