package lua

// This file is the grammar of statements, and compiles each of them.

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

// A target is a variable on the left of an assignment.
type target struct {
	previous *target
	e        expression
}

// checkConflict copies a local that an earlier target uses as table or key, because the assignment will change the
// local.
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

// statement parses a statement. It reports whether the statement must be the last of its block.
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
