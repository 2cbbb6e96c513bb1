package lua

// The grammar of expressions: operators by priority, calls, fields, function bodies.

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
	{6, 6}, {6, 6}, {7, 7}, {7, 7}, {7, 7}, {10, 9}, {5, 4},
	{3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}, {2, 2}, {1, 1}}

const unaryPriority = 8

// subexpression parses operands and the operators that bind tighter than limit. It returns the first other operator.
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
