package lua

import "strconv"

// maxLevels limits the nesting of syntax and of calls through Go functions, as LUAI_MAXCCALLS does.
const maxLevels = 200

// A parser compiles a chunk to a Proto in one pass, with a builder for each function (code.go).
//
// This file has what all parts of the parser need. scope.go resolves names; expression.go, constructor.go and
// statement.go are the grammar.
type parser struct {
	lex       lexer
	fn        *builder
	level     int
	constants map[string]Value // one string object for all functions of the chunk
}

// Compile compiles source text. name is the chunk's name. Messages show "=x" and "@x" as x, and any other name as
// [string "…"].
// Errors: *SyntaxError, with the position in its text.
func Compile(name string, source []byte) (*Proto, error) {
	return compile(name, string(source), 0, false)
}

// compile compiles source, starting at the nesting level level. loadstring passes a level above 0, because Lua 5.1
// counts the calls around it. If more is true, source is only the beginning of the text. compile then returns
// errNeedsMore, unless it finds a syntax error first.
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

// constant returns the string object of a literal or name. Well-known names have one object in the whole process.
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
