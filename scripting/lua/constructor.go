package lua

// A constructor is the state of a table constructor.
type constructor struct {
	item    expression // the last list item read
	table   *expression
	fields  int
	items   int
	toStore int // items in registers, not yet stored
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
