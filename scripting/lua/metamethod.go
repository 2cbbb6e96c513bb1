package lua

// These are the slow forms of instructions, for operands that execute does not handle directly.
//
// A slow form may have to call a metamethod. Then it returns called, and finishInstruction completes the instruction
// after the metamethod.

import (
	"math"
	"unsafe"
)

const maxEventLoop = 100

// callEvent calls a metamethod for an instruction. finishInstruction gets its result.
func (s *State) callEvent(t *Thread, f *frame, tm, x, y Value) {
	slot := f.base + f.cl.proto.registers
	t.stack[slot], t.stack[slot+1], t.stack[slot+2] = tm, x, y
	t.top = slot + 3
	s.nested(t, slot, 1, entryEvent)
}

// index computes o[key] for an instruction and stores it in register a, or calls a metamethod. register is the place of
// o, for messages.
func (s *State) index(t *Thread, f *frame, o, key Value, register int, a uint8) (called bool) {
	for range maxEventLoop {
		var tm Value
		if o.n == bitsTable {
			table := (*Table)(o.p)
			slot := table.find(key)
			if slot.n != bitsNil {
				t.stack[f.base+int(a)] = *slot
				return false
			}
			if tm = table.meta.event(eventIndex); tm.n == bitsNil {
				t.stack[f.base+int(a)] = Nil
				return false
			}
		} else if tm = s.metamethod(o, eventIndex); tm.n == bitsNil {
			s.typeError(o, register, "index")
		}
		if tm.IsFunction() {
			s.callEvent(t, f, tm, o, key)
			return true
		}
		o, register = tm, -1
	}
	s.runtimeError("loop in gettable")
	return false
}

// setIndex performs o[key] = v, or calls a metamethod.
func (s *State) setIndex(t *Thread, f *frame, o, key, v Value, register int) (called bool) {
	for range maxEventLoop {
		var tm Value
		if o.n == bitsTable {
			table := (*Table)(o.p)
			if table.readonly {
				s.runtimeError(readonlyText)
			}
			slot := s.slotFor(table, key)
			if slot.n != bitsNil || table.meta == nil {
				store(slot, v)
				return false
			}
			if tm = table.meta.event(eventNewIndex); tm.n == bitsNil {
				store(slot, v)
				return false
			}
		} else if tm = s.metamethod(o, eventNewIndex); tm.n == bitsNil {
			s.typeError(o, register, "index")
		}
		if tm.IsFunction() {
			slot := f.base + f.cl.proto.registers
			t.stack[slot], t.stack[slot+1], t.stack[slot+2], t.stack[slot+3] = tm, o, key, v
			t.top = slot + 4
			s.nested(t, slot, 0, entryEvent)
			return true
		}
		o, register = tm, -1
	}
	s.runtimeError("loop in settable")
	return false
}

const readonlyText = "Attempt to modify a readonly table"

// slotFor is Table.slot for a key that comes from a script. It checks the key.
func (s *State) slotFor(table *Table, key Value) *Value {
	table.absent = 0
	if p := table.find(key); p != &nilSlot {
		return p
	}
	if key.n == bitsNil {
		s.runtimeError(errNilIndex.Error())
	}
	if key.n < firstTag && key.Float() != key.Float() {
		s.runtimeError(errNaNIndex.Error())
	}
	return table.insert(key)
}

type indexError string

func (e indexError) Error() string { return string(e) }

const (
	errNilIndex = indexError("table index is nil")
	errNaNIndex = indexError("table index is NaN")
)

var arithmeticEvents = [...]event{eventAdd, eventSub, eventMul, eventDiv, eventMod, eventPow, eventUnm}

// arith performs the arithmetic instruction at f.pc-1 for operands other than two numbers in registers.
func (s *State) arith(t *Thread, f *frame) (called bool) {
	p := f.cl.proto
	in := p.code[f.pc-1]
	window := (*registers)(unsafe.Pointer(&t.stack[f.base : f.base+256][0]))
	rb, rc := in.b(), in.c()
	if in.op() == opUnm {
		rc = rb
	}
	x, y := p.operand(window, rb), p.operand(window, rc)
	if fx, ok := s.toNumber(x); ok {
		if fy, ok := s.toNumber(y); ok {
			window[in.a()] = Value{window[in.a()].p, math.Float64bits(arithmetic(in.op(), fx, fy))}
			return false
		}
	}
	e := arithmeticEvents[in.op()-opAdd]
	tm := s.metamethod(x, e)
	if tm.IsNil() {
		tm = s.metamethod(y, e)
	}
	if tm.IsNil() {
		s.arithError(x, y, registerOf(rb), registerOf(rc))
	}
	s.callEvent(t, f, tm, x, y)
	return true
}

// registerOf returns the register an operand names, or -1 for a constant.
func registerOf(rk int) int {
	if rk >= constantBit {
		return -1
	}
	return rk
}

// equalEvent returns the metamethod that decides whether two different tables or userdata are equal, or nil.
func (s *State) equalEvent(x, y Value) Value {
	if x.n != bitsTable && x.n != bitsUserdata {
		return Nil
	}
	m1, m2 := s.metatable(x), s.metatable(y)
	tm := m1.event(eventEq)
	if tm.IsNil() || m1 == m2 {
		return tm
	}
	if tm2 := m2.event(eventEq); !tm2.IsNil() && rawEqual(tm, tm2) {
		return tm
	}
	return Nil
}

// orderEvent returns the order metamethod if both values have the same one, or nil.
func (s *State) orderEvent(x, y Value, e event) Value {
	tm := s.metamethod(x, e)
	if tm.IsNil() || !rawEqual(tm, s.metamethod(y, e)) {
		return Nil
	}
	return tm
}

// compare performs the order instruction at f.pc-1 for operands other than two numbers.
func (s *State) compare(t *Thread, f *frame) (result, called bool) {
	p := f.cl.proto
	in := p.code[f.pc-1]
	window := (*registers)(unsafe.Pointer(&t.stack[f.base : f.base+256][0]))
	x, y := p.operand(window, in.b()), p.operand(window, in.c())
	if x.Type() != y.Type() {
		s.orderError(x, y)
	}
	orEqual := in.op() == opLe
	switch {
	case x.n < firstTag:
		if orEqual {
			return x.Float() <= y.Float(), false
		}
		return x.Float() < y.Float(), false
	case x.IsString():
		s.budget -= min(x.textLen(), y.textLen()) >> 6
		if orEqual {
			return x.str() <= y.str(), false
		}
		return x.str() < y.str(), false
	}
	if orEqual {
		if tm := s.orderEvent(x, y, eventLe); !tm.IsNil() {
			f.aux = 0
			s.callEvent(t, f, tm, x, y)
			return false, true
		}
		if tm := s.orderEvent(y, x, eventLt); !tm.IsNil() {
			f.aux = 1 // x <= y is not (y < x)
			s.callEvent(t, f, tm, y, x)
			return false, true
		}
	} else if tm := s.orderEvent(x, y, eventLt); !tm.IsNil() {
		f.aux = 0
		s.callEvent(t, f, tm, x, y)
		return false, true
	}
	s.orderError(x, y)
	return false, false
}

// concat joins total registers, the last of which is last, from right to left. The result is in the first.
func (s *State) concat(t *Thread, f *frame, total, last int) (called bool) {
	window := (*registers)(unsafe.Pointer(&t.stack[f.base : f.base+256][0]))
	for total > 1 {
		x, y := window[last-1], window[last]
		n := 2
		switch {
		case !(x.IsString() || x.n < firstTag) || !(y.IsString() || y.n < firstTag):
			tm := s.metamethod(x, eventConcat)
			if tm.IsNil() {
				tm = s.metamethod(y, eventConcat)
			}
			if tm.IsNil() {
				s.concatError(x, y, last-1, last)
			}
			f.aux = last
			s.callEvent(t, f, tm, x, y)
			return true
		case y.n == emptyString.n:
			if x.n < firstTag {
				window[last-1] = s.numberString(x.Float())
			}
		default:
			for n = 1; n < total && (window[last-n].IsString() || window[last-n].n < firstTag); n++ {
			}
			window[last-n+1] = s.join(window[last-n+1 : last+1])
		}
		total -= n - 1
		last -= n - 1
	}
	return false
}

// join makes one string of strings and numbers.
func (s *State) join(parts []Value) Value {
	size := 0
	numbers := s.scratch[:0]
	var ends [256]int32
	for i, v := range parts {
		if v.n < firstTag {
			before := len(numbers)
			numbers = appendNumber(numbers, v.Float())
			size += len(numbers) - before
			ends[uint8(i)] = int32(len(numbers))
		} else {
			size += int(uint32(v.n))
		}
	}
	s.scratch = numbers
	v, room := s.makeString(size)
	at := int32(0)
	for i, part := range parts {
		if part.n < firstTag {
			end := ends[uint8(i)]
			room = room[copy(room, numbers[at:end]):]
			at = end
		} else {
			room = room[copy(room, part.str()):]
		}
	}
	s.budget -= size >> 6
	return v
}

// finishInstruction completes the instruction that called a metamethod or iterator. The results of that call are at
// slot.
func (s *State) finishInstruction(t *Thread, slot int) {
	f := t.frame()
	p := f.cl.proto
	in := p.code[f.pc-1]
	switch in.op() {
	case opSetTable, opSetGlobal:
	case opEq, opLt, opLe:
		result := t.stack[slot].Truth() != (in.op() == opLe && f.aux == 1)
		if result == (in.a() != 0) {
			f.pc += p.code[f.pc].sbx()
		}
		f.pc++
	case opConcat:
		b, last := in.b(), f.aux
		t.stack[f.base+last-1] = t.stack[slot]
		if !s.concat(t, f, last-b, last-1) {
			t.stack[f.base+in.a()] = t.stack[f.base+b]
		}
	case opTForLoop:
		at := f.base + in.a() + 3
		if t.stack[at].n != bitsNil {
			t.stack[at-1] = t.stack[at]
			f.pc += p.code[f.pc].sbx()
		}
		f.pc++
	default:
		t.stack[f.base+in.a()] = t.stack[slot]
	}
}
