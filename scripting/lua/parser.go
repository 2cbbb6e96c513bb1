package lua

import "strconv"

// maxLevels is how deep syntax, and calls through Go functions, may nest: LUAI_MAXCCALLS.
const maxLevels = 200

type parser struct {
	lex       lexer
	fn        *builder
	level     int
	constants map[string]Value // one string object for all functions of the chunk
}

// Compile turns source text into a Proto. name is the chunk's name: "=x" and "@x" show as x in messages, any other as
// [string "…"].
// Errors: *SyntaxError, with the position in its text.
func Compile(name string, source []byte) (*Proto, error) {
	return compile(name, string(source), 0, false)
}

// compile starts at a nesting level, since Lua 5.1 counts the calls around loadstring too. more tells that source is
// only the beginning: what is no error so far is errNeedsMore.
func compile(name, source string, level int, more bool) (proto *Proto, err error) {
	p := &parser{level: level, constants: map[string]Value{}}
	p.lex = lexer{src: source, more: more, line: 1, lastLine: 1, ahead: tokEOS, source: name}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *SyntaxError:
			proto, err = nil, r
		default:
			if r != errNeedsMore {
				panic(r)
			}
			proto, err = nil, errNeedsMore
		}
	}()
	p.lex.next()
	p.open(0)
	p.fn.proto.vararg = varargIsVararg
	p.lex.advance()
	p.chunk()
	p.check(tokEOS)
	return p.close(), nil
}

// constant returns the string object for a literal or name. Well-known names have one for the whole process.
func (p *parser) constant(s string) Value {
	if v, ok := p.constants[s]; ok {
		return v
	}
	v, ok := interned(s)
	if !ok {
		v = staticString(s)
	}
	p.constants[s] = v
	return v
}

func (p *parser) open(line int) {
	p.fn = &builder{
		proto:      &Proto{source: p.lex.source, line: line, registers: 2},
		outer:      p.fn,
		parser:     p,
		lastTarget: -1,
		pending:    noJump,
		numbers:    map[uint64]int{},
		strings:    map[string]int{},
		nilIndex:   -1,
		boolIndex:  [2]int{-1, -1},
		active:     make([]int, 0, maxLocals+1),
	}
}

func (p *parser) close() *Proto {
	b := p.fn
	p.removeLocals(0)
	b.ret(0, 0)
	translate(b.proto)
	p.fn = b.outer
	return b.proto
}

func (p *parser) expected(t token) { p.lex.syntaxError("'" + tokenText(t) + "' expected") }

func (p *parser) test(t token) bool {
	if p.lex.tok == t {
		p.lex.advance()
		return true
	}
	return false
}

func (p *parser) check(t token) {
	if p.lex.tok != t {
		p.expected(t)
	}
}

func (p *parser) expect(t token) {
	p.check(t)
	p.lex.advance()
}

func (p *parser) match(what, who token, line int) {
	if p.test(what) {
		return
	}
	if line == p.lex.line {
		p.expected(what)
	}
	p.lex.syntaxError("'" + tokenText(what) + "' expected (to close '" + tokenText(who) + "' at line " +
		strconv.Itoa(line) + ")")
}

func (p *parser) name() string {
	p.check(tokName)
	s := p.lex.text
	p.lex.advance()
	return s
}

func (p *parser) stringExpression(s string) expression {
	return makeExpression(kindConstant, p.fn.stringConstant(s))
}

func (p *parser) limit(b *builder, n, most int, what string) {
	if n <= most {
		return
	}
	if b.proto.line == 0 {
		p.lex.fail("main function has more than "+strconv.Itoa(most)+" "+what, 0)
	}
	p.lex.fail("function at line "+strconv.Itoa(b.proto.line)+" has more than "+strconv.Itoa(most)+" "+what, 0)
}

func (p *parser) enter() {
	p.level++
	if p.level > maxLevels {
		p.lex.fail("chunk has too many syntax levels", 0)
	}
}

func (p *parser) leave() { p.level-- }

// newLocal declares the n-th local of the statement; activate makes it visible.
func (p *parser) newLocal(name string, n int) {
	b := p.fn
	p.limit(b, len(b.active)+n+1, maxLocals, "local variables")
	if len(b.proto.locals) >= 32767 {
		p.lex.fail("too many local variables", 0)
	}
	b.proto.locals = append(b.proto.locals, localVariable{name: name})
	b.active[:cap(b.active)][len(b.active)+n] = len(b.proto.locals) - 1
}

func (p *parser) activate(n int) {
	b := p.fn
	first := len(b.active)
	b.active = b.active[:first+n]
	for _, i := range b.active[first:] {
		b.proto.locals[i].start = b.pc()
	}
}

func (p *parser) removeLocals(level int) {
	b := p.fn
	for _, i := range b.active[level:] {
		b.proto.locals[i].end = b.pc()
	}
	b.active = b.active[:level]
}

func (b *builder) upvalue(name string, e *expression) int {
	for i, u := range b.ups {
		if u.kind == e.kind && u.info == e.info {
			return i
		}
	}
	b.parser.limit(b, len(b.ups)+1, maxUpvalues, "upvalues")
	b.ups = append(b.ups, upvalueSource{e.kind, e.info})
	b.proto.upvalues = append(b.proto.upvalues, name)
	b.proto.upCount++
	return len(b.ups) - 1
}

func (b *builder) searchLocal(name string) int {
	for i := len(b.active) - 1; i >= 0; i-- {
		if b.proto.locals[b.active[i]].name == name {
			return i
		}
	}
	return -1
}

func (b *builder) markUpvalue(level int) {
	bl := b.block
	for bl != nil && bl.locals > level {
		bl = bl.outer
	}
	if bl != nil {
		bl.hasUp = true
	}
}

func (b *builder) resolve(name string, inner bool) expression {
	if b == nil {
		return makeExpression(kindGlobal, noRegister)
	}
	if v := b.searchLocal(name); v >= 0 {
		if inner {
			b.markUpvalue(v)
		}
		return makeExpression(kindLocal, v)
	}
	e := b.outer.resolve(name, true)
	if e.kind == kindGlobal {
		return e
	}
	e.info = b.upvalue(name, &e)
	e.kind = kindUpvalue
	return e
}

func (p *parser) variable() expression {
	name := p.name()
	e := p.fn.resolve(name, false)
	if e.kind == kindGlobal {
		e.info = p.fn.stringConstant(name)
	}
	return e
}

func (p *parser) adjustAssign(variables, values int, e *expression) {
	b := p.fn
	extra := variables - values
	if e.isMulti() {
		extra = max(extra+1, 0)
		b.setReturns(e, extra)
		if extra > 1 {
			b.reserve(extra - 1)
		}
		return
	}
	if e.kind != kindVoid {
		b.toNextRegister(e)
	}
	if extra > 0 {
		register := b.free
		b.reserve(extra)
		b.loadNil(register, extra)
	}
}

func (p *parser) enterBlock(bl *block, isLoop bool) {
	*bl = block{outer: p.fn.block, breaks: noJump, locals: len(p.fn.active), isLoop: isLoop}
	p.fn.block = bl
}

func (p *parser) leaveBlock() {
	b := p.fn
	bl := b.block
	b.block = bl.outer
	p.removeLocals(bl.locals)
	if bl.hasUp {
		b.emitABC(opClose, bl.locals, 0, 0)
	}
	b.free = len(b.active)
	b.patchToHere(bl.breaks)
}

func (p *parser) pushClosure(inner *builder) expression {
	b := p.fn
	if len(b.proto.protos) > maxBx {
		p.lex.fail("constant table overflow", 0)
	}
	b.proto.protos = append(b.proto.protos, inner.proto)
	e := makeExpression(kindRelocatable, b.emitABx(opClosure, 0, len(b.proto.protos)-1))
	for _, u := range inner.ups {
		o := opGetUpval
		if u.kind == kindLocal {
			o = opMove
		}
		b.emitABC(o, 0, u.info, 0)
	}
	return e
}

// Expressions

func (p *parser) field(e *expression) {
	p.fn.toAnyRegister(e)
	p.lex.advance()
	key := p.stringExpression(p.name())
	p.fn.indexed(e, &key)
}

func (p *parser) bracketIndex() expression {
	p.lex.advance()
	e := p.expr()
	p.fn.toValue(&e)
	p.expect(']')
	return e
}

// A constructor is a table constructor under way.
type constructor struct {
	item    expression // the last list item read
	table   *expression
	fields  int
	items   int
	toStore int // items in registers
}

func (p *parser) recordField(c *constructor) {
	b := p.fn
	register := b.free
	var key expression
	if p.lex.tok == tokName {
		key = p.stringExpression(p.name())
	} else {
		key = p.bracketIndex()
	}
	c.fields++
	p.expect('=')
	rk := b.toRK(&key)
	value := p.expr()
	b.emitABC(opSetTable, c.table.info, rk, b.toRK(&value))
	b.free = register
}

func (p *parser) closeListField(c *constructor) {
	if c.item.kind == kindVoid {
		return
	}
	p.fn.toNextRegister(&c.item)
	c.item.kind = kindVoid
	if c.toStore == fieldsPerList {
		p.fn.setList(c.table.info, c.items, c.toStore)
		c.toStore = 0
	}
}

func (p *parser) lastListField(c *constructor) {
	if c.toStore == 0 {
		return
	}
	if c.item.isMulti() {
		p.fn.setMultiple(&c.item)
		p.fn.setList(c.table.info, c.items, -1)
		c.items--
		return
	}
	if c.item.kind != kindVoid {
		p.fn.toNextRegister(&c.item)
	}
	p.fn.setList(c.table.info, c.items, c.toStore)
}

func (p *parser) listField(c *constructor) {
	c.item = p.expr()
	c.items++
	c.toStore++
}

func (p *parser) tableConstructor() expression {
	b := p.fn
	line := p.lex.line
	pc := b.emitABC(opNewTable, 0, 0, 0)
	e := makeExpression(kindRelocatable, pc)
	c := constructor{table: &e, item: makeExpression(kindVoid, 0)}
	b.toNextRegister(&e)
	p.expect('{')
	for p.lex.tok != '}' {
		p.closeListField(&c)
		switch p.lex.tok {
		case tokName:
			p.lex.lookahead()
			if p.lex.ahead == '=' {
				p.recordField(&c)
			} else {
				p.listField(&c)
			}
		case '[':
			p.recordField(&c)
		default:
			p.listField(&c)
		}
		if !p.test(',') && !p.test(';') {
			break
		}
	}
	p.match('}', '{', line)
	p.lastListField(&c)
	b.proto.code[pc].setB(intToFloatByte(c.items))
	b.proto.code[pc].setC(intToFloatByte(c.fields))
	return e
}

// intToFloatByte packs a size into eeeeexxx: xxx if eeeee is 0, else 1xxx << (eeeee-1), rounded up.
func intToFloatByte(x int) int {
	e := 0
	for x >= 16 {
		x = (x + 1) >> 1
		e++
	}
	if x < 8 {
		return x
	}
	return (e+1)<<3 | (x - 8)
}

func floatByteToInt(x int) int {
	if e := x >> 3 & 31; e != 0 {
		return (x&7 + 8) << (e - 1)
	}
	return x
}

func (p *parser) parameters() {
	b := p.fn
	n := 0
	if p.lex.tok != ')' {
		for {
			switch p.lex.tok {
			case tokName:
				p.newLocal(p.name(), n)
				n++
			case tokDots:
				p.lex.advance()
				p.newLocal("arg", n)
				n++
				b.proto.vararg = varargHasArg | varargNeedsArg | varargIsVararg
			default:
				p.lex.syntaxError("<name> or '...' expected")
			}
			if b.proto.vararg != 0 || !p.test(',') {
				break
			}
		}
	}
	p.activate(n)
	b.proto.params = len(b.active) - int(b.proto.vararg&varargHasArg)
	b.reserve(len(b.active))
}

func (p *parser) body(isMethod bool, line int) expression {
	p.open(line)
	b := p.fn
	p.expect('(')
	if isMethod {
		p.newLocal("self", 0)
		p.activate(1)
	}
	p.parameters()
	p.expect(')')
	p.chunk()
	b.proto.lastLine = p.lex.line
	p.match(tokEnd, tokFunction, line)
	p.close()
	return p.pushClosure(b)
}

func (p *parser) expressionList() (e expression, n int) {
	e, n = p.expr(), 1
	for p.test(',') {
		p.fn.toNextRegister(&e)
		e = p.expr()
		n++
	}
	return e, n
}

func (p *parser) arguments(f *expression) {
	b := p.fn
	line := p.lex.line
	var args expression
	switch p.lex.tok {
	case '(':
		if line != p.lex.lastLine {
			p.lex.syntaxError("ambiguous syntax (function call x new statement)")
		}
		p.lex.advance()
		if p.lex.tok == ')' {
			args = makeExpression(kindVoid, 0)
		} else {
			args, _ = p.expressionList()
			b.setMultiple(&args)
		}
		p.match(')', '(', line)
	case '{':
		args = p.tableConstructor()
	case tokString:
		args = p.stringExpression(p.lex.text)
		p.lex.advance()
	default:
		p.lex.syntaxError("function arguments expected")
	}
	base := f.info
	n := -1
	if !args.isMulti() {
		if args.kind != kindVoid {
			b.toNextRegister(&args)
		}
		n = b.free - (base + 1)
	}
	*f = makeExpression(kindCall, b.emitABC(opCall, base, n+1, 2))
	b.fixLine(line)
	b.free = base + 1
}

func (p *parser) prefixExpression() expression {
	switch p.lex.tok {
	case '(':
		line := p.lex.line
		p.lex.advance()
		e := p.expr()
		p.match(')', '(', line)
		p.fn.dischargeVariables(&e)
		return e
	case tokName:
		return p.variable()
	}
	p.lex.syntaxError("unexpected symbol")
	return expression{}
}

func (p *parser) primary() expression {
	b := p.fn
	e := p.prefixExpression()
	for {
		switch p.lex.tok {
		case '.':
			p.field(&e)
		case '[':
			b.toAnyRegister(&e)
			key := p.bracketIndex()
			b.indexed(&e, &key)
		case ':':
			p.lex.advance()
			key := p.stringExpression(p.name())
			b.self(&e, &key)
			p.arguments(&e)
		case '(', tokString, '{':
			b.toNextRegister(&e)
			p.arguments(&e)
		default:
			return e
		}
	}
}

func (p *parser) simple() expression {
	var e expression
	switch p.lex.tok {
	case tokNumber:
		e = makeExpression(kindNumber, 0)
		e.number = p.lex.number
	case tokString:
		e = p.stringExpression(p.lex.text)
	case tokNil:
		e = makeExpression(kindNil, 0)
	case tokTrue:
		e = makeExpression(kindTrue, 0)
	case tokFalse:
		e = makeExpression(kindFalse, 0)
	case tokDots:
		if p.fn.proto.vararg == 0 {
			p.lex.syntaxError("cannot use '...' outside a vararg function")
		}
		p.fn.proto.vararg &^= varargNeedsArg
		e = makeExpression(kindVararg, p.fn.emitABC(opVararg, 0, 1, 0))
	case '{':
		return p.tableConstructor()
	case tokFunction:
		p.lex.advance()
		return p.body(false, p.lex.line)
	default:
		return p.primary()
	}
	p.lex.advance()
	return e
}

func unaryOperator(t token) (opcode, bool) {
	switch t {
	case tokNot:
		return opNot, true
	case '-':
		return opUnm, true
	case '#':
		return opLen, true
	}
	return 0, false
}

func binaryOperatorOf(t token) binaryOperator {
	switch t {
	case '+':
		return operatorAdd
	case '-':
		return operatorSub
	case '*':
		return operatorMul
	case '/':
		return operatorDiv
	case '%':
		return operatorMod
	case '^':
		return operatorPow
	case tokConcat:
		return operatorConcat
	case tokNe:
		return operatorNe
	case tokEq:
		return operatorEq
	case '<':
		return operatorLt
	case tokLe:
		return operatorLe
	case '>':
		return operatorGt
	case tokGe:
		return operatorGe
	case tokAnd:
		return operatorAnd
	case tokOr:
		return operatorOr
	}
	return operatorNone
}

var priorities = [...]struct{ left, right int }{
	{6, 6}, {6, 6}, {7, 7}, {7, 7}, {7, 7}, {10, 9}, {5, 4}, {3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}, {2, 2}, {1, 1}}

const unaryPriority = 8

// subexpression reads operands and operators that bind tighter than limit, and returns the first operator that does
// not.
func (p *parser) subexpression(limit int) (expression, binaryOperator) {
	p.enter()
	var e expression
	if o, ok := unaryOperator(p.lex.tok); ok {
		p.lex.advance()
		e, _ = p.subexpression(unaryPriority)
		p.fn.prefix(o, &e)
	} else {
		e = p.simple()
	}
	o := binaryOperatorOf(p.lex.tok)
	for o != operatorNone && priorities[o].left > limit {
		p.lex.advance()
		p.fn.infix(o, &e)
		y, next := p.subexpression(priorities[o].right)
		p.fn.posfix(o, &e, &y)
		o = next
	}
	p.leave()
	return e, o
}

func (p *parser) expr() expression {
	e, _ := p.subexpression(0)
	return e
}

// Statements

func blockEnds(t token) bool {
	switch t {
	case tokElse, tokElseif, tokEnd, tokUntil, tokEOS:
		return true
	}
	return false
}

func (p *parser) blockStatement() {
	var bl block
	p.enterBlock(&bl, false)
	p.chunk()
	p.leaveBlock()
}

// A target is a variable on the left side of an assignment.
type target struct {
	previous *target
	e        expression
}

// checkConflict copies a local that an earlier target uses as table or key, before the assignment changes it.
func (p *parser) checkConflict(t *target, e *expression) {
	b := p.fn
	extra := b.free
	conflict := false
	for ; t != nil; t = t.previous {
		if t.e.kind == kindIndexed {
			if t.e.info == e.info {
				conflict = true
				t.e.info = extra
			}
			if t.e.aux == e.info {
				conflict = true
				t.e.aux = extra
			}
		}
	}
	if conflict {
		b.emitABC(opMove, b.free, e.info, 0)
		b.reserve(1)
	}
}

func (p *parser) assignment(t *target, variables int) {
	b := p.fn
	if t.e.kind < kindLocal || t.e.kind > kindIndexed {
		p.lex.syntaxError("syntax error")
	}
	if p.test(',') {
		next := target{previous: t}
		next.e = p.primary()
		if next.e.kind == kindLocal {
			p.checkConflict(t, &next.e)
		}
		p.limit(b, variables, maxLevels-p.level, "variables in assignment")
		p.assignment(&next, variables+1)
	} else {
		p.expect('=')
		e, n := p.expressionList()
		if n == variables {
			b.setOneReturn(&e)
			b.storeVariable(&t.e, &e)
			return
		}
		p.adjustAssign(variables, n, &e)
		if n > variables {
			b.free -= n - variables
		}
	}
	e := makeExpression(kindFixed, b.free-1)
	b.storeVariable(&t.e, &e)
}

func (p *parser) condition() int {
	e := p.expr()
	if e.kind == kindNil {
		e.kind = kindFalse
	}
	p.fn.goIfTrue(&e)
	return e.whenFalse
}

func (p *parser) breakStatement() {
	b := p.fn
	bl := b.block
	hasUp := false
	for bl != nil && !bl.isLoop {
		hasUp = hasUp || bl.hasUp
		bl = bl.outer
	}
	if bl == nil {
		p.lex.syntaxError("no loop to break")
	}
	if hasUp {
		b.emitABC(opClose, bl.locals, 0, 0)
	}
	b.joinJumps(&bl.breaks, b.jump())
}

func (p *parser) whileStatement(line int) {
	b := p.fn
	p.lex.advance()
	start := b.label()
	exit := p.condition()
	var bl block
	p.enterBlock(&bl, true)
	p.expect(tokDo)
	p.blockStatement()
	b.patchList(b.jump(), start)
	p.match(tokEnd, tokWhile, line)
	p.leaveBlock()
	b.patchToHere(exit)
}

func (p *parser) repeatStatement(line int) {
	b := p.fn
	start := b.label()
	var loop, scope block
	p.enterBlock(&loop, true)
	p.enterBlock(&scope, false)
	p.lex.advance()
	p.chunk()
	p.match(tokUntil, tokRepeat, line)
	exit := p.condition()
	if !scope.hasUp {
		p.leaveBlock()
		b.patchList(exit, start)
	} else {
		p.breakStatement()
		b.patchToHere(exit)
		p.leaveBlock()
		b.patchList(b.jump(), start)
	}
	p.leaveBlock()
}

func (p *parser) loopExpression() {
	e := p.expr()
	p.fn.toNextRegister(&e)
}

func (p *parser) forBody(base, line, variables int, numeric bool) {
	b := p.fn
	p.activate(3)
	p.expect(tokDo)
	var prepare int
	if numeric {
		prepare = b.emitABx(opForPrep, base, noJump+maxSBx)
	} else {
		prepare = b.jump()
	}
	var bl block
	p.enterBlock(&bl, false)
	p.activate(variables)
	b.reserve(variables)
	p.blockStatement()
	p.leaveBlock()
	b.patchToHere(prepare)
	var end int
	if numeric {
		end = b.emitABx(opForLoop, base, noJump+maxSBx)
	} else {
		end = b.emitABC(opTForLoop, base, 0, variables)
	}
	b.fixLine(line)
	if !numeric {
		end = b.jump()
	}
	b.patchList(end, prepare+1)
}

func (p *parser) numericFor(name string, line int) {
	b := p.fn
	base := b.free
	p.newLocal("(for index)", 0)
	p.newLocal("(for limit)", 1)
	p.newLocal("(for step)", 2)
	p.newLocal(name, 3)
	p.expect('=')
	p.loopExpression()
	p.expect(',')
	p.loopExpression()
	if p.test(',') {
		p.loopExpression()
	} else {
		b.emitABx(opLoadK, b.free, b.numberConstant(1))
		b.reserve(1)
	}
	p.forBody(base, line, 1, true)
}

func (p *parser) genericFor(name string) {
	b := p.fn
	base := b.free
	p.newLocal("(for generator)", 0)
	p.newLocal("(for state)", 1)
	p.newLocal("(for control)", 2)
	p.newLocal(name, 3)
	n := 4
	for p.test(',') {
		p.newLocal(p.name(), n)
		n++
	}
	p.expect(tokIn)
	line := p.lex.line
	e, values := p.expressionList()
	p.adjustAssign(3, values, &e)
	b.checkStack(3)
	p.forBody(base, line, n-3, false)
}

func (p *parser) forStatement(line int) {
	var bl block
	p.enterBlock(&bl, true)
	p.lex.advance()
	name := p.name()
	switch p.lex.tok {
	case '=':
		p.numericFor(name, line)
	case ',', tokIn:
		p.genericFor(name)
	default:
		p.lex.syntaxError("'=' or 'in' expected")
	}
	p.match(tokEnd, tokFor, line)
	p.leaveBlock()
}

func (p *parser) thenBlock() int {
	p.lex.advance()
	exit := p.condition()
	p.expect(tokThen)
	p.blockStatement()
	return exit
}

func (p *parser) ifStatement(line int) {
	b := p.fn
	escapes := noJump
	list := p.thenBlock()
	for p.lex.tok == tokElseif {
		b.joinJumps(&escapes, b.jump())
		b.patchToHere(list)
		list = p.thenBlock()
	}
	if p.lex.tok == tokElse {
		b.joinJumps(&escapes, b.jump())
		b.patchToHere(list)
		p.lex.advance()
		p.blockStatement()
	} else {
		b.joinJumps(&escapes, list)
	}
	b.patchToHere(escapes)
	p.match(tokEnd, tokIf, line)
}

func (p *parser) localFunction() {
	b := p.fn
	p.newLocal(p.name(), 0)
	v := makeExpression(kindLocal, b.free)
	b.reserve(1)
	p.activate(1)
	e := p.body(false, p.lex.line)
	b.storeVariable(&v, &e)
	b.proto.locals[b.active[len(b.active)-1]].start = b.pc()
}

func (p *parser) localStatement() {
	n := 0
	for {
		p.newLocal(p.name(), n)
		n++
		if !p.test(',') {
			break
		}
	}
	e, values := makeExpression(kindVoid, 0), 0
	if p.test('=') {
		e, values = p.expressionList()
	}
	p.adjustAssign(n, values, &e)
	p.activate(n)
}

func (p *parser) functionStatement(line int) {
	p.lex.advance()
	v := p.variable()
	for p.lex.tok == '.' {
		p.field(&v)
	}
	isMethod := false
	if p.lex.tok == ':' {
		isMethod = true
		p.field(&v)
	}
	e := p.body(isMethod, line)
	p.fn.storeVariable(&v, &e)
	p.fn.fixLine(line)
}

func (p *parser) expressionStatement() {
	t := target{e: p.primary()}
	if t.e.kind == kindCall {
		p.fn.codeOf(&t.e).setC(1)
		return
	}
	p.assignment(&t, 1)
}

func (p *parser) returnStatement() {
	b := p.fn
	p.lex.advance()
	first, n := 0, 0
	if !blockEnds(p.lex.tok) && p.lex.tok != ';' {
		var e expression
		e, n = p.expressionList()
		switch {
		case e.isMulti():
			b.setMultiple(&e)
			if e.kind == kindCall && n == 1 {
				b.codeOf(&e).setOp(opTailCall)
			}
			first = len(b.active)
			n = -1
		case n == 1:
			first = b.toAnyRegister(&e)
		default:
			b.toNextRegister(&e)
			first = len(b.active)
		}
	}
	b.ret(first, n)
}

// statement returns whether it must be the last of its block.
func (p *parser) statement() bool {
	line := p.lex.line
	switch p.lex.tok {
	case tokIf:
		p.ifStatement(line)
	case tokWhile:
		p.whileStatement(line)
	case tokDo:
		p.lex.advance()
		p.blockStatement()
		p.match(tokEnd, tokDo, line)
	case tokFor:
		p.forStatement(line)
	case tokRepeat:
		p.repeatStatement(line)
	case tokFunction:
		p.functionStatement(line)
	case tokLocal:
		p.lex.advance()
		if p.test(tokFunction) {
			p.localFunction()
		} else {
			p.localStatement()
		}
	case tokReturn:
		p.returnStatement()
		return true
	case tokBreak:
		p.lex.advance()
		p.breakStatement()
		return true
	default:
		p.expressionStatement()
	}
	return false
}

func (p *parser) chunk() {
	p.enter()
	for last := false; !last && !blockEnds(p.lex.tok); {
		last = p.statement()
		p.test(';')
		p.fn.free = len(p.fn.active)
	}
	p.leave()
}
