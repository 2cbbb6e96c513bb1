package lua

// A runnable instruction has its opcode in the low byte and three operands of a byte each. B and C together may be one
// 16-bit operand. The opcode decides whether an operand is a register or a constant.
//
//	0        8        16       24       32
//	+--------+--------+--------+--------+
//	| opcode | A      | B      | C      |
//	+--------+--------+--------+--------+
//
// lua.X1. run[i] does the same as code[i], so a position in one is a position in the other.
// lua.X2. translate checks every operand, in every build: registers, constants and jump targets are in range. The
// machine relies on these checks and does not repeat them (vm.go).
const (
	xMove = iota
	xLoadK
	xLoadKWide
	xLoadBool
	xLoadNil
	xGetUpval
	xGetGlobal
	xGetGlobalWide
	xGetTable
	xGetField // C: constant string
	xGetTableK
	xSetGlobal
	xSetGlobalWide
	xSetUpval
	xSetTable
	xSetTableRK
	xSetField
	xSetFieldK
	xSetTableKR
	xSetTableKK
	xNewTable
	xSelf
	xSelfR
	xAdd
	xAddRK
	xAddKR
	xSub
	xSubRK
	xSubKR
	xMul
	xMulRK
	xMulKR
	xDiv
	xDivRK
	xDivKR
	xMod
	xModRK
	xModKR
	xPow
	xPowRK
	xPowKR
	xArithKK
	xUnm
	xNot
	xLen
	xConcat
	xJmp // the distance is the upper 24 bits
	xEq
	xEqRK
	xEqSlow
	xLt
	xLtRK
	xLtKR
	xLtKK
	xLe
	xLeRK
	xLeKR
	xLeKK
	xTest
	xTestSet
	xCall
	xTailCall
	xReturn
	xReturn0
	xReturn1
	xForLoop
	xForLoopWide
	xForPrep
	xTForLoop
	xSetList
	xClose
	xClosure
	xVararg
	xData
)

func pack(op, a, b, c int) uint32 {
	return uint32(op) | uint32(uint8(a))<<8 | uint32(uint8(b))<<16 | uint32(uint8(c))<<24
}

func packWide(op, a, bx int) uint32 { return uint32(op) | uint32(uint8(a))<<8 | uint32(uint16(bx))<<16 }

// translate fills p.run (lua.X1, lua.X2).
func translate(p *Proto) {
	run := make([]uint32, len(p.code)+1)
	data := 0 // words that belong to the last instruction
	for pc, i := range p.code {
		if data > 0 {
			data--
			run[pc] = xData
			continue
		}
		run[pc] = translateOne(p, pc, i)
		switch {
		case i.op() == opSetList && i.c() == 0:
			data = 1
		case i.op() == opClosure:
			data = p.protos[i.bx()].upCount
		}
	}
	p.run = run
	p.inner = len(p.code)*12 + len(p.constants)*valueBytes + len(p.locals)*40 + 300
	for _, k := range p.constants {
		if k.IsString() {
			p.inner += headerBytes + len(k.str())
		}
	}
	for _, inner := range p.protos {
		p.inner += inner.inner
	}
}

func translateOne(p *Proto, pc int, i instruction) uint32 {
	a, b, c := i.a(), i.b(), i.c()
	register := func(r int) int {
		mustHold(r < p.registers, "register")
		return r
	}
	constant := func(k int) int {
		mustHold(k < len(p.constants), "constant")
		return k
	}
	isK := func(rk int) bool { return rk >= constantBit }
	operand := func(rk int) int {
		if isK(rk) {
			return constant(rk - constantBit)
		}
		return register(rk)
	}
	isString := func(rk int) bool { return isK(rk) && p.constants[rk-constantBit].IsString() }
	jump := func(offset int) {
		to := pc + 1 + offset
		mustHold(to >= 0 && to < len(p.code), "jump")
	}
	if i.op() != opSetGlobal && i.op() != opJmp && i.op() != opEq && i.op() != opLt && i.op() != opLe &&
		i.op() != opClose &&
		!(i.op() == opReturn && b == 1) {
		register(a)
	}
	switch i.op() {
	case opMove:
		return pack(xMove, a, register(b), 0)
	case opLoadK:
		if constant(i.bx()) > 0xFFFF {
			return pack(xLoadKWide, a, 0, 0)
		}
		return packWide(xLoadK, a, i.bx())
	case opLoadBool:
		return pack(xLoadBool, a, b, c)
	case opLoadNil:
		return pack(xLoadNil, a, register(b), 0)
	case opGetUpval:
		return pack(xGetUpval, a, b, 0)
	case opGetGlobal:
		if constant(i.bx()) > 0xFFFF {
			return pack(xGetGlobalWide, a, 0, 0)
		}
		return packWide(xGetGlobal, a, i.bx())
	case opSetGlobal:
		if constant(i.bx()) > 0xFFFF {
			return pack(xSetGlobalWide, register(a), 0, 0)
		}
		return packWide(xSetGlobal, register(a), i.bx())
	case opSetUpval:
		return pack(xSetUpval, a, b, 0)
	case opGetTable:
		switch {
		case isString(c):
			return pack(xGetField, a, register(b), operand(c))
		case isK(c):
			return pack(xGetTableK, a, register(b), operand(c))
		}
		return pack(xGetTable, a, register(b), register(c))
	case opSetTable:
		op := xSetTable
		switch {
		case isString(b):
			op = xSetField
		case isK(b):
			op = xSetTableKR
		}
		if isK(c) {
			op++
		}
		return pack(op, a, operand(b), operand(c))
	case opNewTable:
		return pack(xNewTable, a, b, c)
	case opSelf:
		register(a + 1)
		if isString(c) {
			return pack(xSelf, a, register(b), operand(c))
		}
		return pack(xSelfR, a, register(b), register(c))
	case opAdd, opSub, opMul, opDiv, opMod, opPow:
		op := xAdd + 3*int(i.op()-opAdd)
		switch {
		case isK(b) && isK(c):
			operand(b)
			operand(c)
			return pack(xArithKK, a, 0, 0)
		case isK(c):
			op++
		case isK(b):
			op += 2
		}
		return pack(op, a, operand(b), operand(c))
	case opUnm:
		return pack(xUnm, a, register(b), 0)
	case opNot:
		return pack(xNot, a, register(b), 0)
	case opLen:
		return pack(xLen, a, register(b), 0)
	case opConcat:
		return pack(xConcat, a, register(b), register(c))
	case opJmp:
		jump(i.sbx())
		return uint32(xJmp) | uint32(i.sbx())<<8
	case opEq:
		op := xEq
		switch {
		case isK(b):
			op = xEqSlow
		case isK(c):
			op = xEqRK
		}
		return pack(op, a, operand(b), operand(c))
	case opLt, opLe:
		op := xLt
		if i.op() == opLe {
			op = xLe
		}
		switch {
		case isK(b) && isK(c):
			op += 3
		case isK(b):
			op += 2
		case isK(c):
			op++
		}
		return pack(op, a, operand(b), operand(c))
	case opTest:
		return pack(xTest, a, 0, c)
	case opTestSet:
		return pack(xTestSet, a, register(b), c)
	case opCall:
		mustHold(b < 256 && c < 256, "call")
		return pack(xCall, a, b, c)
	case opTailCall:
		return pack(xTailCall, a, b, 0)
	case opReturn:
		switch b {
		case 1:
			return pack(xReturn0, 0, 0, 0)
		case 2:
			return pack(xReturn1, a, 0, 0)
		}
		return pack(xReturn, a, b, 0)
	case opForLoop:
		jump(i.sbx())
		register(a + 3)
		if i.sbx() < -32768 {
			return pack(xForLoopWide, a, 0, 0)
		}
		return packWide(xForLoop, a, i.sbx())
	case opForPrep:
		jump(i.sbx())
		register(a + 3)
		return pack(xForPrep, a, 0, 0)
	case opTForLoop:
		register(a + 2 + c)
		return pack(xTForLoop, a, 0, c)
	case opSetList:
		return pack(xSetList, a, 0, 0)
	case opClose:
		return pack(xClose, a, 0, 0)
	case opClosure:
		return pack(xClosure, a, 0, 0)
	case opVararg:
		return pack(xVararg, a, b, 0)
	}
	mustHold(false, "opcode")
	return xData
}

// mustHold panics on a mistake of the compiler. Otherwise the mistake could make code that reaches foreign memory.
func mustHold(ok bool, what string) {
	if !ok {
		panic("lua.X2: the compiler made a bad " + what)
	}
}
