package lua

import "math"

// This file compiles expressions. It allocates registers and places jumps exactly as Lua 5.1 does, because debug.go
// takes the variable names in error messages from the code. See NOTICE.

type expressionKind uint8

const (
	kindVoid expressionKind = iota
	kindNil
	kindTrue
	kindFalse
	kindConstant    // info: index of the constant
	kindNumber      // number
	kindLocal       // info: register
	kindUpvalue     // info: index of the upvalue
	kindGlobal      // info: constant with the name
	kindIndexed     // info: table register; aux: key register or constant
	kindJump        // info: instruction that jumps
	kindRelocatable // info: instruction whose A is not yet set
	kindFixed       // info: register
	kindCall        // info: instruction
	kindVararg      // info: instruction
)

type expression struct {
	kind                expressionKind
	info, aux           int
	number              float64
	whenTrue, whenFalse int // lists of jumps taken for true or false
}

func makeExpression(kind expressionKind, info int) expression {
	return expression{kind: kind, info: info, whenTrue: noJump, whenFalse: noJump}
}

func (e *expression) hasJumps() bool { return e.whenTrue != e.whenFalse }

func (e *expression) isNumeral() bool {
	return e.kind == kindNumber && e.whenTrue == noJump && e.whenFalse == noJump
}

func (e *expression) isMulti() bool { return e.kind == kindCall || e.kind == kindVararg }

type upvalueSource struct {
	kind expressionKind // kindLocal or kindUpvalue, in the enclosing function
	info int
}

// A block is a scope under compilation.
type block struct {
	outer  *block
	breaks int // list of jumps that leave the loop
	locals int // number of active locals outside
	hasUp  bool
	isLoop bool
}

// A builder compiles one function.
type builder struct {
	proto      *Proto
	outer      *builder
	parser     *parser
	block      *block
	lastTarget int         // the target of a jump: its instruction must not be merged with the one before
	pending    int         // list of jumps to the next instruction
	lasts      map[int]int // from the first jump of a long list to a late one: lists only grow
	free       int         // first free register
	active     []int
	ups        []upvalueSource
	numbers    map[uint64]int
	strings    map[string]int
	nilIndex   int
	boolIndex  [2]int
}

func (b *builder) pc() int { return len(b.proto.code) }

func (b *builder) emit(i instruction) int { return b.emitAt(i, b.parser.lex.lastLine) }

func (b *builder) emitAt(i instruction, line int) int {
	b.patchListTo(b.pending, b.pc(), noRegister, b.pc())
	b.pending = noJump
	b.proto.code = append(b.proto.code, i)
	b.proto.lines = append(b.proto.lines, int32(line))
	return b.pc() - 1
}

func (b *builder) emitABC(o opcode, a, x, c int) int { return b.emit(makeABC(o, a, x, c)) }
func (b *builder) emitABx(o opcode, a, bx int) int   { return b.emit(makeABx(o, a, bx)) }

func (b *builder) fixLine(line int) { b.proto.lines[b.pc()-1] = int32(line) }

func (b *builder) loadNil(from, n int) {
	if b.pc() > b.lastTarget {
		if b.pc() == 0 {
			if from >= len(b.active) {
				return // the registers are nil already
			}
		} else if previous := &b.proto.code[b.pc()-1]; previous.op() == opLoadNil {
			first, last := previous.a(), previous.b()
			if first <= from && from <= last+1 {
				if from+n-1 > last {
					previous.setB(from + n - 1)
				}
				return
			}
		}
	}
	b.emitABC(opLoadNil, from, from+n-1, 0)
}

func (b *builder) jump() int {
	pending := b.pending
	b.pending = noJump
	j := b.emitABx(opJmp, 0, noJump+maxSBx)
	b.joinJumps(&j, pending)
	return j
}

func (b *builder) ret(first, n int) { b.emitABC(opReturn, first, n+1, 0) }

func (b *builder) conditionalJump(o opcode, a, x, c int) int {
	b.emitABC(o, a, x, c)
	return b.jump()
}

func (b *builder) fixJump(pc, target int) {
	offset := target - (pc + 1)
	if offset > maxSBx || -offset > maxSBx {
		b.parser.lex.syntaxError("control structure too long")
	}
	b.proto.code[pc].setSBx(offset)
}

func (b *builder) label() int {
	b.lastTarget = b.pc()
	return b.pc()
}

func (b *builder) jumpTarget(pc int) int {
	offset := b.proto.code[pc].sbx()
	if offset == noJump {
		return noJump
	}
	return pc + 1 + offset
}

func (b *builder) jumpControl(pc int) *instruction {
	if pc >= 1 && b.proto.code[pc-1].op().isTest() {
		return &b.proto.code[pc-1]
	}
	return &b.proto.code[pc]
}

// needsValue reports whether some jump of the list produces no value.
func (b *builder) needsValue(list int) bool {
	for ; list != noJump; list = b.jumpTarget(list) {
		if b.jumpControl(list).op() != opTestSet {
			return true
		}
	}
	return false
}

func (b *builder) patchTest(at, register int) bool {
	i := b.jumpControl(at)
	if i.op() != opTestSet {
		return false
	}
	if register != noRegister && register != i.b() {
		i.setA(register)
	} else {
		*i = makeABC(opTest, i.b(), 0, i.c())
	}
	return true
}

func (b *builder) removeValues(list int) {
	for ; list != noJump; list = b.jumpTarget(list) {
		b.patchTest(list, noRegister)
	}
}

func (b *builder) patchListTo(list, valueTarget, register, target int) {
	for list != noJump {
		next := b.jumpTarget(list)
		if b.patchTest(list, register) {
			b.fixJump(list, valueTarget)
		} else {
			b.fixJump(list, target)
		}
		list = next
	}
}

func (b *builder) patchList(list, target int) {
	if target == b.pc() {
		b.patchToHere(list)
	} else {
		b.patchListTo(list, target, noRegister, target)
	}
}

func (b *builder) patchToHere(list int) {
	b.label()
	b.joinJumps(&b.pending, list)
}

func (b *builder) joinJumps(first *int, second int) {
	if second == noJump {
		return
	}
	if *first == noJump {
		*first = second
		return
	}
	list := *first
	if last, ok := b.lasts[list]; ok {
		list = last
	}
	steps := 0
	for next := b.jumpTarget(list); next != noJump; next = b.jumpTarget(list) {
		list = next
		steps++
	}
	b.fixJump(list, second)
	if steps > 16 {
		if b.lasts == nil {
			b.lasts = map[int]int{}
		}
		b.lasts[*first] = list
	}
}

func (b *builder) checkStack(n int) {
	if size := b.free + n; size > b.proto.registers {
		if size >= maxRegisters {
			b.parser.lex.syntaxError("function or expression too complex")
		}
		b.proto.registers = size
	}
}

func (b *builder) reserve(n int) {
	b.checkStack(n)
	b.free += n
}

func (b *builder) release(register int) {
	if register < constantBit && register >= len(b.active) {
		b.free--
	}
}

func (b *builder) releaseExpression(e *expression) {
	if e.kind == kindFixed {
		b.release(e.info)
	}
}

func (b *builder) addConstant(v Value) int {
	if len(b.proto.constants) > maxBx {
		b.parser.lex.fail("constant table overflow", 0)
	}
	b.proto.constants = append(b.proto.constants, v)
	return len(b.proto.constants) - 1
}

func (b *builder) stringConstant(s string) int {
	if i, ok := b.strings[s]; ok {
		return i
	}
	i := b.addConstant(b.parser.constant(s))
	b.strings[s] = i
	return i
}

func (b *builder) numberConstant(f float64) int {
	key := math.Float64bits(f)
	if f == 0 {
		key = 0 // 0 and -0 share a constant, as in Lua 5.1
	}
	if i, ok := b.numbers[key]; ok {
		return i
	}
	i := b.addConstant(Number(f))
	b.numbers[key] = i
	return i
}

func (b *builder) boolConstant(v bool) int {
	at := 0
	if v {
		at = 1
	}
	if b.boolIndex[at] < 0 {
		b.boolIndex[at] = b.addConstant(Bool(v))
	}
	return b.boolIndex[at]
}

func (b *builder) nilConstant() int {
	if b.nilIndex < 0 {
		b.nilIndex = b.addConstant(Nil)
	}
	return b.nilIndex
}

func (b *builder) codeOf(e *expression) *instruction { return &b.proto.code[e.info] }

func (b *builder) setReturns(e *expression, n int) {
	switch e.kind {
	case kindCall:
		b.codeOf(e).setC(n + 1)
	case kindVararg:
		b.codeOf(e).setB(n + 1)
		b.codeOf(e).setA(b.free)
		b.reserve(1)
	}
}

func (b *builder) setMultiple(e *expression) { b.setReturns(e, -1) }

func (b *builder) setOneReturn(e *expression) {
	switch e.kind {
	case kindCall:
		e.kind = kindFixed
		e.info = b.codeOf(e).a()
	case kindVararg:
		b.codeOf(e).setB(2)
		e.kind = kindRelocatable
	}
}

// dischargeVariables converts a variable to a value in a register or in an instruction.
func (b *builder) dischargeVariables(e *expression) {
	switch e.kind {
	case kindLocal:
		e.kind = kindFixed
	case kindUpvalue:
		e.info = b.emitABC(opGetUpval, 0, e.info, 0)
		e.kind = kindRelocatable
	case kindGlobal:
		e.info = b.emitABx(opGetGlobal, 0, e.info)
		e.kind = kindRelocatable
	case kindIndexed:
		b.release(e.aux)
		b.release(e.info)
		e.info = b.emitABC(opGetTable, 0, e.info, e.aux)
		e.kind = kindRelocatable
	case kindVararg, kindCall:
		b.setOneReturn(e)
	}
}

func (b *builder) codeLabel(a, value, jump int) int {
	b.label()
	return b.emitABC(opLoadBool, a, value, jump)
}

func (b *builder) dischargeTo(e *expression, register int) {
	b.dischargeVariables(e)
	switch e.kind {
	case kindNil:
		b.loadNil(register, 1)
	case kindFalse:
		b.emitABC(opLoadBool, register, 0, 0)
	case kindTrue:
		b.emitABC(opLoadBool, register, 1, 0)
	case kindConstant:
		b.emitABx(opLoadK, register, e.info)
	case kindNumber:
		b.emitABx(opLoadK, register, b.numberConstant(e.number))
	case kindRelocatable:
		b.codeOf(e).setA(register)
	case kindFixed:
		if register != e.info {
			b.emitABC(opMove, register, e.info, 0)
		}
	default: // void or a jump: nothing to do
		return
	}
	e.info = register
	e.kind = kindFixed
}

func (b *builder) dischargeToAny(e *expression) {
	if e.kind != kindFixed {
		b.reserve(1)
		b.dischargeTo(e, b.free-1)
	}
}

func (b *builder) toRegister(e *expression, register int) {
	b.dischargeTo(e, register)
	if e.kind == kindJump {
		b.joinJumps(&e.whenTrue, e.info)
	}
	if e.hasJumps() {
		loadFalse, loadTrue := noJump, noJump
		if b.needsValue(e.whenTrue) || b.needsValue(e.whenFalse) {
			over := noJump
			if e.kind != kindJump {
				over = b.jump()
			}
			loadFalse = b.codeLabel(register, 0, 1)
			loadTrue = b.codeLabel(register, 1, 0)
			b.patchToHere(over)
		}
		final := b.label()
		b.patchListTo(e.whenFalse, final, register, loadFalse)
		b.patchListTo(e.whenTrue, final, register, loadTrue)
	}
	e.whenTrue, e.whenFalse = noJump, noJump
	e.info = register
	e.kind = kindFixed
}

func (b *builder) toNextRegister(e *expression) {
	b.dischargeVariables(e)
	b.releaseExpression(e)
	b.reserve(1)
	b.toRegister(e, b.free-1)
}

func (b *builder) toAnyRegister(e *expression) int {
	b.dischargeVariables(e)
	if e.kind == kindFixed {
		if !e.hasJumps() {
			return e.info
		}
		if e.info >= len(b.active) {
			b.toRegister(e, e.info)
			return e.info
		}
	}
	b.toNextRegister(e)
	return e.info
}

func (b *builder) toValue(e *expression) {
	if e.hasJumps() {
		b.toAnyRegister(e)
	} else {
		b.dischargeVariables(e)
	}
}

// toRK puts the value into a register, or makes it a constant that fits an operand.
func (b *builder) toRK(e *expression) int {
	b.toValue(e)
	switch e.kind {
	case kindNumber, kindTrue, kindFalse, kindNil:
		if len(b.proto.constants) <= maxIndexRK {
			switch e.kind {
			case kindNil:
				e.info = b.nilConstant()
			case kindNumber:
				e.info = b.numberConstant(e.number)
			default:
				e.info = b.boolConstant(e.kind == kindTrue)
			}
			e.kind = kindConstant
			return e.info | constantBit
		}
	case kindConstant:
		if e.info <= maxIndexRK {
			return e.info | constantBit
		}
	}
	return b.toAnyRegister(e)
}

func (b *builder) storeVariable(v, e *expression) {
	switch v.kind {
	case kindLocal:
		b.releaseExpression(e)
		b.toRegister(e, v.info)
		return
	case kindUpvalue:
		b.emitABC(opSetUpval, b.toAnyRegister(e), v.info, 0)
	case kindGlobal:
		b.emitABx(opSetGlobal, b.toAnyRegister(e), v.info)
	case kindIndexed:
		b.emitABC(opSetTable, v.info, v.aux, b.toRK(e))
	}
	b.releaseExpression(e)
}

func (b *builder) self(e, key *expression) {
	b.toAnyRegister(e)
	b.releaseExpression(e)
	function := b.free
	b.reserve(2)
	b.emitABC(opSelf, function, e.info, b.toRK(key))
	b.releaseExpression(key)
	e.info = function
	e.kind = kindFixed
}

func (b *builder) invertJump(e *expression) {
	i := b.jumpControl(e.info)
	i.setA(1 - i.a())
}

func (b *builder) jumpOn(e *expression, cond int) int {
	if e.kind == kindRelocatable {
		if i := *b.codeOf(e); i.op() == opNot {
			b.proto.code = b.proto.code[:b.pc()-1]
			b.proto.lines = b.proto.lines[:b.pc()]
			return b.conditionalJump(opTest, i.b(), 0, 1-cond)
		}
	}
	b.dischargeToAny(e)
	b.releaseExpression(e)
	return b.conditionalJump(opTestSet, noRegister, e.info, cond)
}

func (b *builder) goIfTrue(e *expression) {
	b.dischargeVariables(e)
	var pc int
	switch e.kind {
	case kindConstant, kindNumber, kindTrue:
		pc = noJump
	case kindJump:
		b.invertJump(e)
		pc = e.info
	default:
		pc = b.jumpOn(e, 0)
	}
	b.joinJumps(&e.whenFalse, pc)
	b.patchToHere(e.whenTrue)
	e.whenTrue = noJump
}

func (b *builder) goIfFalse(e *expression) {
	b.dischargeVariables(e)
	var pc int
	switch e.kind {
	case kindNil, kindFalse:
		pc = noJump
	case kindJump:
		pc = e.info
	default:
		pc = b.jumpOn(e, 1)
	}
	b.joinJumps(&e.whenTrue, pc)
	b.patchToHere(e.whenFalse)
	e.whenFalse = noJump
}

func (b *builder) not(e *expression) {
	b.dischargeVariables(e)
	switch e.kind {
	case kindNil, kindFalse:
		e.kind = kindTrue
	case kindConstant, kindNumber, kindTrue:
		e.kind = kindFalse
	case kindJump:
		b.invertJump(e)
	case kindRelocatable, kindFixed:
		b.dischargeToAny(e)
		b.releaseExpression(e)
		e.info = b.emitABC(opNot, 0, e.info, 0)
		e.kind = kindRelocatable
	}
	e.whenTrue, e.whenFalse = e.whenFalse, e.whenTrue
	b.removeValues(e.whenFalse)
	b.removeValues(e.whenTrue)
}

func (b *builder) indexed(t, key *expression) {
	t.aux = b.toRK(key)
	t.kind = kindIndexed
}

// fold computes an operation on two numerals, except for division by zero and NaN.
func fold(o opcode, x, y *expression) bool {
	if !x.isNumeral() || !y.isNumeral() {
		return false
	}
	switch o {
	case opDiv, opMod:
		if y.number == 0 {
			return false
		}
	case opLen, opConcat:
		return false
	}
	r := arithmetic(o, x.number, y.number)
	if r != r {
		return false
	}
	x.number = r
	return true
}

func (b *builder) arith(o opcode, x, y *expression) {
	if fold(o, x, y) {
		return
	}
	second := 0
	if o != opUnm && o != opLen {
		second = b.toRK(y)
	}
	first := b.toRK(x)
	if first > second {
		b.releaseExpression(x)
		b.releaseExpression(y)
	} else {
		b.releaseExpression(y)
		b.releaseExpression(x)
	}
	x.info = b.emitABC(o, 0, first, second)
	x.kind = kindRelocatable
}

func (b *builder) compare(o opcode, cond int, x, y *expression) {
	first, second := b.toRK(x), 0
	second = b.toRK(y)
	b.releaseExpression(y)
	b.releaseExpression(x)
	if cond == 0 && o != opEq { // a > b is b < a
		first, second = second, first
		cond = 1
	}
	x.info = b.conditionalJump(o, cond, first, second)
	x.kind = kindJump
}

func (b *builder) prefix(o opcode, e *expression) {
	zero := makeExpression(kindNumber, 0)
	switch o {
	case opUnm:
		if !e.isNumeral() {
			b.toAnyRegister(e)
		}
		b.arith(opUnm, e, &zero)
	case opNot:
		b.not(e)
	case opLen:
		b.toAnyRegister(e)
		b.arith(opLen, e, &zero)
	}
}

type binaryOperator uint8

const (
	operatorAdd binaryOperator = iota
	operatorSub
	operatorMul
	operatorDiv
	operatorMod
	operatorPow
	operatorConcat
	operatorNe
	operatorEq
	operatorLt
	operatorLe
	operatorGt
	operatorGe
	operatorAnd
	operatorOr
	operatorNone
)

// infix is called after the first operand and the operator have been parsed.
func (b *builder) infix(o binaryOperator, e *expression) {
	switch o {
	case operatorAnd:
		b.goIfTrue(e)
	case operatorOr:
		b.goIfFalse(e)
	case operatorConcat:
		b.toNextRegister(e)
	case operatorAdd, operatorSub, operatorMul, operatorDiv, operatorMod, operatorPow:
		if !e.isNumeral() {
			b.toRK(e)
		}
	default:
		b.toRK(e)
	}
}

// posfix is called after both operands have been parsed. The result is in x.
func (b *builder) posfix(o binaryOperator, x, y *expression) {
	switch o {
	case operatorAnd:
		b.dischargeVariables(y)
		b.joinJumps(&y.whenFalse, x.whenFalse)
		*x = *y
	case operatorOr:
		b.dischargeVariables(y)
		b.joinJumps(&y.whenTrue, x.whenTrue)
		*x = *y
	case operatorConcat:
		b.toValue(y)
		if y.kind == kindRelocatable && b.codeOf(y).op() == opConcat {
			b.releaseExpression(x)
			b.codeOf(y).setB(x.info)
			x.kind, x.info = kindRelocatable, y.info
		} else {
			b.toNextRegister(y)
			b.arith(opConcat, x, y)
		}
	case operatorNe:
		b.compare(opEq, 0, x, y)
	case operatorEq:
		b.compare(opEq, 1, x, y)
	case operatorLt:
		b.compare(opLt, 1, x, y)
	case operatorLe:
		b.compare(opLe, 1, x, y)
	case operatorGt:
		b.compare(opLt, 0, x, y)
	case operatorGe:
		b.compare(opLe, 0, x, y)
	default:
		b.arith(opAdd+opcode(o), x, y)
	}
}

func (b *builder) setList(base, items, toStore int) {
	c := (items-1)/fieldsPerList + 1
	x := toStore
	if toStore == -1 {
		x = 0
	}
	if c <= maxC {
		b.emitABC(opSetList, base, x, c)
	} else {
		b.emitABC(opSetList, base, x, 0)
		b.emit(instruction(c))
	}
	b.free = base + 1
}
