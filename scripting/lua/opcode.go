package lua

// An instruction of the compiler has 32 bits: opcode 6, A 8, C 9, B 9; or opcode 6, A 8, Bx 18. A B or C of 256 or more
// means constant B-256. The set of instructions and their meaning are those of Lua 5.1, because debug.go gets variable
// names from them. The machine runs a translation, one for one (translate.go).
type instruction uint32

type opcode uint8

const (
	opMove opcode = iota
	opLoadK
	opLoadBool
	opLoadNil
	opGetUpval
	opGetGlobal
	opGetTable
	opSetGlobal
	opSetUpval
	opSetTable
	opNewTable
	opSelf
	opAdd
	opSub
	opMul
	opDiv
	opMod
	opPow
	opUnm
	opNot
	opLen
	opConcat
	opJmp
	opEq
	opLt
	opLe
	opTest
	opTestSet
	opCall
	opTailCall
	opReturn
	opForLoop
	opForPrep
	opTForLoop
	opSetList
	opClose
	opClosure
	opVararg
)

const (
	maxBx         = 1<<18 - 1
	maxSBx        = maxBx >> 1
	maxC          = 1<<9 - 1
	constantBit   = 256
	maxIndexRK    = constantBit - 1
	noRegister    = 255
	noJump        = -1
	maxRegisters  = 250
	maxLocals     = 200
	maxUpvalues   = 60
	fieldsPerList = 50
)

func (i instruction) op() opcode { return opcode(i & 63) }
func (i instruction) a() int     { return int(i >> 6 & 0xFF) }
func (i instruction) b() int     { return int(i >> 23) }
func (i instruction) c() int     { return int(i >> 14 & 0x1FF) }
func (i instruction) bx() int    { return int(i >> 14) }
func (i instruction) sbx() int   { return int(i>>14) - maxSBx }

func (i *instruction) setOp(o opcode) { *i = *i&^63 | instruction(o) }
func (i *instruction) setA(a int)     { *i = *i&^(0xFF<<6) | instruction(a)<<6 }
func (i *instruction) setB(b int)     { *i = *i&^(0x1FF<<23) | instruction(b)<<23 }
func (i *instruction) setC(c int)     { *i = *i&^(0x1FF<<14) | instruction(c)<<14 }
func (i *instruction) setSBx(sbx int) { *i = *i&(1<<14-1) | instruction(sbx+maxSBx)<<14 }

func makeABC(o opcode, a, b, c int) instruction {
	return instruction(o) | instruction(a)<<6 | instruction(b)<<23 | instruction(c)<<14
}

func makeABx(o opcode, a, bx int) instruction {
	return instruction(o) | instruction(a)<<6 | instruction(bx)<<14
}

// isTest reports whether the instruction may skip the next instruction, which is a jump.
func (o opcode) isTest() bool {
	return o >= opEq && o <= opTestSet || o == opTForLoop
}

// setsA reports whether the instruction changes register A.
func (o opcode) setsA() bool {
	switch o {
	case opSetGlobal, opSetUpval, opSetTable, opJmp, opEq, opLt, opLe, opReturn, opTForLoop, opSetList, opClose:
		return false
	}
	return true
}

// A Proto is a compiled function. It never changes and may be shared by States on any goroutine.
type Proto struct {
	code      []instruction // as compiled; for debug.go and for resuming
	run       []uint32      // as executed, one for one, followed by a zero
	constants []Value
	protos    []*Proto
	lines     []int32
	locals    []localVariable
	upvalues  []string
	source    string // the chunk's name, with its = or @
	line      int    // where the function begins; 0 for a chunk
	lastLine  int
	params    int
	registers int // at least 2
	upCount   int
	vararg    uint8
	inner     int // bytes, for the memory account of a loaded chunk
}

const (
	varargHasArg   = 1
	varargIsVararg = 2
	varargNeedsArg = 4
)

type localVariable struct {
	name       string
	start, end int // its first instruction, and the one after its last
}

// Source returns the name of the chunk, as given to Compile.
func (p *Proto) Source() string { return p.source }

// Bytes returns the approximate memory of p and its inner functions.
func (p *Proto) Bytes() int { return p.inner }

// localName returns the name of the n-th local alive at pc, counted from 1, or "".
func (p *Proto) localName(n, pc int) string {
	for i := 0; i < len(p.locals) && p.locals[i].start <= pc; i++ {
		if pc < p.locals[i].end {
			n--
			if n == 0 {
				return p.locals[i].name
			}
		}
	}
	return ""
}
