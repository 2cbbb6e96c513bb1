package lua

import (
	"math"
	"unsafe"
)

// registers is a window on the stack. A register operand is a byte, so no index needs a check (lua.F1).
type registers = [256]Value

// at returns constant i. translate has checked i (lua.X2).
func at(constants unsafe.Pointer, i uint8) *Value {
	return (*Value)(unsafe.Add(constants, uintptr(i)*unsafe.Sizeof(Value{})))
}

// execute runs the Lua functions on top of t. It returns when a Go function or no function is on top, when the budget
// is used up, or when a function fails.
//
// f.pc = pc precedes all code that may call, fail or read the frame (lua.F3). Code that may grow the stack jumps to
// reload afterwards, because window points into it.
func (s *State) execute(t *Thread) signal {
	var (
		f         *frame
		cl        *Closure
		run       []uint32
		constants unsafe.Pointer
		window    *registers
		pc        int
		i         uint32
		a         uint8
		taken     bool
	)
reload:
	if s.budget < 0 {
		return signalPause
	}
	f = t.frame()
	cl = f.cl
	if cl == nil {
		return signalNext
	}
	run = cl.proto.run
	constants = unsafe.Pointer(unsafe.SliceData(cl.proto.constants))
	window = (*registers)(unsafe.Pointer(&t.stack[f.base : f.base+256][0]))
	pc = f.pc
	for {
		i = run[pc]
		pc++
		a = uint8(i >> 8)
		switch uint8(i) {
		case xMove:
			window[a] = window[uint8(i>>16)]
		case xLoadK:
			window[a] = cl.proto.constants[i>>16]
		case xLoadKWide:
			window[a] = cl.proto.constants[cl.proto.code[pc-1].bx()]
		case xLoadBool:
			window[a].n = bitsFalse + uint64(uint8(i>>16))
			if uint8(i>>24) != 0 {
				pc++
			}
		case xLoadNil:
			for r := int(a); r <= int(uint8(i>>16)); r++ {
				window[uint8(r)] = Nil
			}
		case xGetUpval:
			window[a] = *cl.upvalues[uint8(i>>16)].v
		case xSetUpval:
			*cl.upvalues[uint8(i>>16)].v = window[a]

		case xGetGlobal:
			key := cl.proto.constants[i>>16]
			if slot := cl.env.findString(key); slot.n != bitsNil {
				window[a] = *slot
				continue
			}
			f.pc = pc
			if s.index(t, f, tableValue(cl.env), key, -1, a) {
				goto reload
			}
		case xGetGlobalWide:
			f.pc = pc
			if s.index(t, f, tableValue(cl.env), cl.proto.constants[cl.proto.code[pc-1].bx()], -1, a) {
				goto reload
			}
		case xSetGlobal:
			key := cl.proto.constants[i>>16]
			f.pc = pc
			if s.setIndex(t, f, tableValue(cl.env), key, window[a], -1) {
				goto reload
			}
		case xSetGlobalWide:
			f.pc = pc
			if s.setIndex(t, f, tableValue(cl.env), cl.proto.constants[cl.proto.code[pc-1].bx()], window[a], -1) {
				goto reload
			}

		case xGetTable:
			o, key := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if o.n == bitsTable {
				table := (*Table)(o.p)
				if key.n < firstTag {
					x := key.Float()
					if j := int(x); float64(j) == x && uint(j-1) < uint(len(table.array)) {
						if slot := &table.array[j-1]; slot.n != bitsNil || table.meta == nil {
							window[a] = *slot
							continue
						}
					}
				}
				if slot := table.find(*key); slot.n != bitsNil || table.meta == nil {
					window[a] = *slot
					continue
				}
			}
			f.pc = pc
			if s.index(t, f, *o, *key, int(uint8(i>>16)), a) {
				goto reload
			}
		case xGetField:
			o, key := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if o.n == bitsTable {
				table := (*Table)(o.p)
				if slot := table.findString(*key); slot.n != bitsNil || table.meta == nil {
					window[a] = *slot
					continue
				}
			}
			f.pc = pc
			if s.index(t, f, *o, *key, int(uint8(i>>16)), a) {
				goto reload
			}
		case xGetTableK:
			o, key := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if o.n == bitsTable {
				table := (*Table)(o.p)
				if slot := table.find(*key); slot.n != bitsNil || table.meta == nil {
					window[a] = *slot
					continue
				}
			}
			f.pc = pc
			if s.index(t, f, *o, *key, int(uint8(i>>16)), a) {
				goto reload
			}

		case xSetTable, xSetTableRK:
			key := &window[uint8(i>>16)]
			v := &window[uint8(i>>24)]
			if uint8(i) == xSetTableRK {
				v = at(constants, uint8(i>>24))
			}
			if o := &window[a]; o.n == bitsTable && key.n < firstTag {
				table := (*Table)(o.p)
				x := key.Float()
				if j := int(x); float64(j) == x && uint(j-1) < uint(len(table.array)) && !table.readonly {
					if slot := &table.array[j-1]; slot.n != bitsNil || table.meta == nil {
						store(slot, *v)
						continue
					}
				}
			}
			f.pc = pc
			if s.setIndex(t, f, window[a], *key, *v, int(a)) {
				goto reload
			}
		case xSetField, xSetFieldK:
			key := at(constants, uint8(i>>16))
			v := &window[uint8(i>>24)]
			if uint8(i) == xSetFieldK {
				v = at(constants, uint8(i>>24))
			}
			if o := &window[a]; o.n == bitsTable {
				table := (*Table)(o.p)
				if slot := table.findString(*key); slot != &nilSlot && !table.readonly &&
					(slot.n != bitsNil || table.meta == nil) {
					table.absent = 0
					store(slot, *v)
					continue
				}
			}
			f.pc = pc
			if s.setIndex(t, f, window[a], *key, *v, int(a)) {
				goto reload
			}
		case xSetTableKR, xSetTableKK:
			v := &window[uint8(i>>24)]
			if uint8(i) == xSetTableKK {
				v = at(constants, uint8(i>>24))
			}
			f.pc = pc
			if s.setIndex(t, f, window[a], *at(constants, uint8(i>>16)), *v, int(a)) {
				goto reload
			}
		case xNewTable:
			f.pc = pc
			window[a] = tableValue(newTable(s, floatByteToInt(int(uint8(i>>16))), floatByteToInt(int(uint8(i>>24)))))
		case xSelf:
			o, key := window[uint8(i>>16)], at(constants, uint8(i>>24))
			window[a+1] = o
			if o.n == bitsTable {
				table := (*Table)(o.p)
				if slot := table.findString(*key); slot.n != bitsNil || table.meta == nil {
					window[a] = *slot
					continue
				}
			}
			f.pc = pc
			if s.index(t, f, o, *key, int(uint8(i>>16)), a) {
				goto reload
			}
		case xSelfR:
			o, key := window[uint8(i>>16)], window[uint8(i>>24)]
			window[a+1] = o
			f.pc = pc
			if s.index(t, f, o, key, int(uint8(i>>16)), a) {
				goto reload
			}

		case xAdd:
			x, y := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(x.Float() + y.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xAddRK:
			x, y := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(x.Float() + y.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xSub:
			x, y := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(x.Float() - y.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xSubRK:
			x, y := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(x.Float() - y.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xMul:
			x, y := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(x.Float() * y.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xMulRK:
			x, y := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(x.Float() * y.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xDiv:
			x, y := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(x.Float() / y.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xDivRK:
			x, y := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(x.Float() / y.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xMod:
			x, y := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(modulo(x.Float(), y.Float()))
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xModRK:
			x, y := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if x.n < firstTag && y.n < firstTag {
				window[a].n = math.Float64bits(modulo(x.Float(), y.Float()))
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xAddKR, xSubKR, xMulKR, xDivKR, xModKR, xPow, xPowRK, xPowKR, xArithKK:
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xUnm:
			if x := &window[uint8(i>>16)]; x.n < firstTag {
				window[a].n = math.Float64bits(-x.Float())
				continue
			}
			f.pc = pc
			if s.arith(t, f) {
				goto reload
			}
		case xNot:
			if window[uint8(i>>16)].isFalsy() {
				window[a].n = bitsTrue
			} else {
				window[a].n = bitsFalse
			}
		case xLen:
			x := &window[uint8(i>>16)]
			if x.n == bitsTable {
				window[a].n = math.Float64bits(float64((*Table)(x.p).Len()))
				continue
			}
			if x.IsString() {
				window[a].n = math.Float64bits(float64(uint32(x.n)))
				continue
			}
			f.pc = pc
			tm := s.metamethod(*x, eventLen)
			if tm.IsNil() {
				s.typeError(*x, int(uint8(i>>16)), "get length of")
			}
			s.callEvent(t, f, tm, *x, Nil)
			goto reload
		case xConcat:
			f.pc = pc
			b, c := int(uint8(i>>16)), int(uint8(i>>24))
			if s.concat(t, f, c-b+1, c) {
				goto reload
			}
			window[a] = window[uint8(b)]

		case xJmp:
			offset := int(int32(i) >> 8)
			pc += offset
			if offset < 0 {
				if s.budget += offset; s.budget < 0 {
					f.pc = pc
					return signalPause
				}
			}
		case xEq, xEqRK:
			x, y := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if uint8(i) == xEqRK {
				y = at(constants, uint8(i>>24))
			}
			switch {
			case x.n < firstTag || y.n < firstTag:
				taken = x.n < firstTag && y.n < firstTag && x.Float() == y.Float()
			case x.n != y.n:
				taken = false
			case x.n>>48 == tagString:
				taken = x.p == y.p || s.sameText(*x, *y)
			case x.n < bitsTable || x.p == y.p:
				taken = true
			default:
				f.pc = pc
				tm := s.equalEvent(*x, *y)
				if !tm.IsNil() {
					f.aux = 0
					s.callEvent(t, f, tm, *x, *y)
					goto reload
				}
				taken = false
			}
			goto conditional
		case xEqSlow:
			x, y := *at(constants, uint8(i>>16)), cl.proto.operand(window, cl.proto.code[pc-1].c())
			if x.n == y.n && x.IsString() {
				s.budget -= x.textLen() >> 6
			}
			taken = rawEqual(x, y) // a constant has no metamethod
			goto conditional
		case xLt:
			x, y := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				taken = x.Float() < y.Float()
				goto conditional
			}
			goto compare
		case xLtRK:
			x, y := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if x.n < firstTag && y.n < firstTag {
				taken = x.Float() < y.Float()
				goto conditional
			}
			goto compare
		case xLtKR:
			x, y := at(constants, uint8(i>>16)), &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				taken = x.Float() < y.Float()
				goto conditional
			}
			goto compare
		case xLe:
			x, y := &window[uint8(i>>16)], &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				taken = x.Float() <= y.Float()
				goto conditional
			}
			goto compare
		case xLeRK:
			x, y := &window[uint8(i>>16)], at(constants, uint8(i>>24))
			if x.n < firstTag && y.n < firstTag {
				taken = x.Float() <= y.Float()
				goto conditional
			}
			goto compare
		case xLeKR:
			x, y := at(constants, uint8(i>>16)), &window[uint8(i>>24)]
			if x.n < firstTag && y.n < firstTag {
				taken = x.Float() <= y.Float()
				goto conditional
			}
			goto compare
		case xLtKK, xLeKK:
			goto compare
		case xTest:
			taken = window[a].isFalsy() == (uint8(i>>24) == 0)
			a = 1
			goto conditional
		case xTestSet:
			b := &window[uint8(i>>16)]
			if b.isFalsy() == (uint8(i>>24) == 0) {
				window[a] = *b
				a, taken = 1, true
			} else {
				a, taken = 1, false
			}
			goto conditional

		case xCall:
			slot := f.base + int(a)
			if b := int(uint8(i >> 16)); b != 0 {
				t.top = slot + b
			}
			f.pc = pc
			v := &window[a]
			if v.n == bitsClosure {
				callee := v.closure()
				p := callee.proto
				if p.vararg == 0 {
					if s.budget -= 4; s.budget < 0 {
						s.enter(t, callee, slot, int(uint8(i>>24))-1, entryCall, int(f.level))
						return signalPause
					}
					base := slot + 1
					args := min(t.top-base, p.params)
					if base+p.registers+spare > len(t.stack) || base+p.registers > t.high {
						t.ensureTo(base + p.registers)
					}
					level := f.level
					if n := len(t.frames); n < cap(t.frames) && n < t.frameLimit {
						t.frames = t.frames[:n+1]
						f = &t.frames[n]
					} else {
						f = t.pushFrame()
					}
					window = (*registers)(unsafe.Pointer(&t.stack[base : base+256][0]))
					for r := args; r < p.registers; r++ {
						window[uint8(r)] = Nil
					}
					f.cl, f.base, f.slot, f.results, f.entry, f.level, f.tailCalls = callee, base, slot, int(uint8(i>>24))-1,
						entryCall, level, 0
					cl = callee
					run = p.run
					constants = unsafe.Pointer(unsafe.SliceData(p.constants))
					pc = 0
					continue
				}
				s.budget -= 4
				s.enter(t, callee, slot, int(uint8(i>>24))-1, entryCall, int(f.level))
				if s.budget < 0 {
					return signalPause
				}
				goto reload
			}
			if v.n == bitsFunction {
				if o := s.callGo(t, v.function(), slot, int(uint8(i>>24))-1, f.level); o < 0 {
					s.goOutcome = o
					return signalOutcome
				}
				goto reload
			}
			s.pushCall(t, slot, int(uint8(i>>24))-1, entryCall, int(f.level))
			goto reload
		case xTailCall:
			slot := f.base + int(a)
			if b := int(uint8(i >> 16)); b != 0 {
				t.top = slot + b
			}
			f.pc = pc
			if n := window[a].n; n != bitsClosure && n != bitsFunction {
				s.callable(t, slot)
				window = (*registers)(unsafe.Pointer(&t.stack[f.base : f.base+256][0]))
			}
			s.budget -= 4
			if window[a].n == bitsClosure {
				callee := window[a].closure()
				if t.open != nil {
					t.closeUpvalues(f.base)
				}
				to, results, how, level, calls := f.slot, f.results, f.entry, f.level, f.tailCalls
				n := copy(t.stack[to:], t.stack[slot:t.top])
				t.top = to + n
				t.frames = t.frames[:len(t.frames)-1]
				f = s.enter(t, callee, to, results, how, int(level))
				f.tailCalls = calls + 1
				if s.budget < 0 {
					return signalPause
				}
				goto reload
			}
			if o := s.callGo(t, window[a].function(), slot, -1, f.level); o < 0 {
				s.goOutcome = o
				return signalOutcome
			}
			goto reload
		case xReturn0, xReturn1, xReturn:
			from, n := f.base+int(a), 0
			switch uint8(i) {
			case xReturn1:
				n = 1
			case xReturn:
				if b := int(uint8(i >> 16)); b != 0 {
					n = b - 1
				} else {
					n = t.top - from
				}
			}
			if t.open != nil {
				t.closeUpvalues(f.base)
			}
			slot, wanted, how := f.slot, f.results, f.entry
			if n == 1 && wanted == 1 {
				t.stack[slot] = t.stack[from]
				t.top = slot + 1
			} else {
				t.moveResults(from, n, slot, wanted)
			}
			t.frames = t.frames[:len(t.frames)-1]
			if how != entryCall {
				s.returned(t, slot, how)
				if len(t.frames) == 0 {
					return signalNext
				}
			}
			goto reload

		case xForLoop:
			step := window[a+2].Float()
			x, limit := window[a].Float()+step, window[a+1].Float()
			if step > 0 && x <= limit || !(step > 0) && limit <= x {
				window[a].n = math.Float64bits(x)
				window[a+3].n = math.Float64bits(x)
				offset := int(int16(i >> 16))
				pc += offset
				if s.budget += offset; s.budget < 0 {
					f.pc = pc
					return signalPause
				}
			}
		case xForLoopWide:
			step := window[a+2].Float()
			x, limit := window[a].Float()+step, window[a+1].Float()
			if step > 0 && x <= limit || !(step > 0) && limit <= x {
				window[a].n = math.Float64bits(x)
				window[a+3].n = math.Float64bits(x)
				pc += cl.proto.code[pc-1].sbx()
				f.pc = pc
				if s.budget -= 32768; s.budget < 0 {
					return signalPause
				}
			}
		case xForPrep:
			f.pc = pc
			s.prepareFor(window[a : int(a)+3 : int(a)+3])
			pc += cl.proto.code[pc-1].sbx()
		case xTForLoop:
			f.pc = pc
			window[a+5], window[a+4], window[a+3] = window[a+2], window[a+1], window[a]
			slot := f.base + int(a) + 3
			t.top = slot + 3
			if v := window[a+3]; v.n == bitsFunction {
				// The function next on a table, as in loops over pairs, needs no frame.
				if fn := v.function(); fn.isNext && window[a+4].n == bitsTable {
					table := window[a+4].Table()
					cursor, ok := table.cursorAfter(window[a+5])
					if ok {
						key, value, after, more := table.Next(cursor)
						s.budget -= 4 + (after-cursor)>>3
						if !more {
							pc++
							continue
						}
						window[a+3], window[a+2] = key, key
						window[a+4] = value
						for r := int(a) + 5; r < int(a)+3+int(uint8(i>>24)); r++ {
							window[uint8(r)] = Nil
						}
						a, taken = 1, true
						goto conditional
					}
				}
			}
			s.budget -= 4
			s.nested(t, slot, int(uint8(i>>24)), entryEvent)
			goto reload
		case xSetList:
			in := cl.proto.code[pc-1]
			n, c := in.b(), in.c()
			if n == 0 {
				n = t.top - f.base - int(a) - 1
			}
			if c == 0 {
				c = int(cl.proto.code[pc])
				pc++
			}
			f.pc = pc
			table := window[a].Table()
			last := (c-1)*fieldsPerList + n
			if last > len(table.array) {
				table.resizeArray(last)
			}
			for from := f.base + int(a); n > 0; n-- {
				store(table.slotInt(last), t.stack[from+n])
				last--
			}
		case xClose:
			t.closeUpvalues(f.base + int(a))
		case xClosure:
			p := cl.proto.protos[cl.proto.code[pc-1].bx()]
			f.pc = pc
			closure := s.newClosure(p, cl.env)
			for j := range closure.upvalues {
				source := cl.proto.code[pc]
				pc++
				if source.op() == opGetUpval {
					closure.upvalues[j] = cl.upvalues[source.b()]
				} else {
					closure.upvalues[j] = t.findUpvalue(f.base + source.b())
				}
			}
			window[a] = closureValue(closure)
		case xVararg:
			f.pc = pc
			b := int(uint8(i>>16)) - 1
			n := f.base - f.slot - 1 - cl.proto.params
			to := f.base + int(a)
			if b < 0 {
				b = n
				t.ensureTo(to + n)
				t.top = to + n
			}
			for j := 0; j < b; j++ {
				if j < n {
					t.stack[to+j] = t.stack[f.base-n+j]
				} else {
					t.stack[to+j] = Nil
				}
			}
			window = (*registers)(unsafe.Pointer(&t.stack[f.base : f.base+256][0]))
		default:
			panic("lua.X1: no instruction")
		}
		continue

	compare:
		f.pc = pc
		{
			result, called := s.compare(t, f)
			if called {
				goto reload
			}
			taken = result
		}
	conditional: // a test: the jump after it is taken if the result equals operand A
		if taken == (a != 0) {
			offset := int(int32(run[pc]) >> 8)
			pc += offset + 1
			if offset < 0 {
				if s.budget += offset; s.budget < 0 {
					f.pc = pc
					return signalPause
				}
			}
		} else {
			pc++
		}
	}
}

// operand returns the value of an operand that may be a constant.
func (p *Proto) operand(window *registers, rk int) Value {
	if rk >= constantBit {
		return p.constants[rk-constantBit]
	}
	return window[uint8(rk)]
}

// callGo calls a Go function for a call instruction. If the outcome is negative, the function's frame stays on top.
func (s *State) callGo(t *Thread, fn *Function, slot, results int, level int16) Outcome {
	s.budget -= 8
	t.ensure(0)
	f := t.pushFrame()
	f.cl, f.function, f.step = nil, fn, fn.run
	f.slot, f.base, f.results, f.entry, f.level, f.tailCalls = slot, slot+1, results, entryCall, level, 0
	f.aux, f.pc = t.top-slot-1, t.top
	c := &s.call
	c.t, c.base, c.n = t, slot+1, f.aux
	o := fn.run(c)
	if o >= 0 {
		t.moveResults(t.top-int(o), int(o), slot, results)
		t.popFrame()
	}
	return o
}

// prepareFor checks and converts the three control values of a numeric loop: start, limit, step.
func (s *State) prepareFor(control []Value) {
	var v [3]float64
	for i, what := range [...]string{"initial value", "limit", "step"} {
		f, ok := s.toNumber(control[i])
		if !ok {
			s.runtimeError("'for' " + what + " must be a number")
		}
		v[i] = f
	}
	control[0], control[1], control[2] = Number(v[0]-v[2]), Number(v[1]), Number(v[2])
}
