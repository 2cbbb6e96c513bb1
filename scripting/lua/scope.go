package lua

// This file resolves the names of a function under compilation: its locals, its blocks, and the upvalues of inner
// functions.

// newLocal declares the n-th local of the statement. activate makes it visible.
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
