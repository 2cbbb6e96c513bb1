package lua

import (
	"strings"
	"unsafe"
)

func (s *State) openString() {
	t := newTable(s, 0, 16)
	for _, r := range []struct {
		name string
		run  GoFunction
	}{{"byte", stringByte}, {"char", stringChar}, {"dump", stringDump}, {"find", stringFind}, {"format", stringFormat},
		{"gmatch", stringGmatch}, {"gsub", stringGsub}, {"len", stringLen}, {"lower", stringLower}, {"match", stringMatch},
		{"rep", stringRep}, {"reverse", stringReverse}, {"sub", stringSub}, {"upper", stringUpper}} {
		s.Register(t, r.name, r.run)
	}
	t.SetName("gfind", t.Get(Intern("gmatch")))
	s.Globals.SetName("string", t.Value())
	s.stringMeta = newTable(s, 0, 1)
	s.stringMeta.put(eventNames[eventIndex], t.Value())
}

// relative converts a position that may count from the end to a position from the start.
func relative(pos, length int) int {
	if pos < 0 {
		pos += length + 1
	}
	return max(pos, 0)
}

func stringLen(c *Call) Outcome { return c.Return1(Number(float64(len(c.CheckString(1).str())))) }

func stringSub(c *Call) Outcome {
	v := c.CheckString(1)
	s := v.str()
	start := max(relative(c.CheckInteger(2), len(s)), 1)
	end := min(relative(c.OptInteger(3, -1), len(s)), len(s))
	if start > end {
		return c.Return1(emptyString)
	}
	if start == 1 && end == len(s) {
		return c.Return1(v)
	}
	return c.Return1(c.state.String(s[start-1 : end]))
}

// transform returns a string as long as the first argument. fill writes its bytes.
func transform(c *Call, fill func(to []byte, s string)) Outcome {
	s := c.CheckString(1).str()
	if s == "" {
		return c.Return1(emptyString)
	}
	v, room := c.state.makeString(len(s))
	fill(room, s)
	c.Spend(len(s) >> 4)
	return c.Return1(v)
}

func stringReverse(c *Call) Outcome {
	return transform(c, func(to []byte, s string) {
		for i := range to {
			to[i] = s[len(s)-1-i]
		}
	})
}

func stringLower(c *Call) Outcome {
	return transform(c, func(to []byte, s string) {
		for i := range to {
			b := s[i]
			if isUpper(int(b)) {
				b |= 0x20
			}
			to[i] = b
		}
	})
}

func stringUpper(c *Call) Outcome {
	return transform(c, func(to []byte, s string) {
		for i := range to {
			b := s[i]
			if isLower(int(b)) {
				b &^= 0x20
			}
			to[i] = b
		}
	})
}

func stringRep(c *Call) Outcome {
	s := c.CheckString(1).str()
	n := c.CheckInt(2)
	if n <= 0 || s == "" {
		return c.Return1(emptyString)
	}
	if len(s) > maxString/n {
		c.state.raiseMemory()
	}
	v, room := c.state.makeString(len(s) * n)
	for at := copy(room, s); at < len(room); at *= 2 {
		copy(room[at:], room[:at])
	}
	c.Spend(len(room) >> 6)
	return c.Return1(v)
}

func stringByte(c *Call) Outcome {
	s := c.CheckString(1).str()
	start := relative(c.OptInteger(2, 1), len(s))
	end := relative(c.OptInteger(3, start), len(s))
	start, end = max(start, 1), min(end, len(s))
	if start > end {
		return 0
	}
	n := end - start + 1
	c.checkStack(n, "string slice too long")
	for i := start - 1; i < end; i++ {
		c.Push(Number(float64(s[i])))
	}
	return Outcome(n)
}

func stringChar(c *Call) Outcome {
	if c.n == 1 {
		return c.Return1(byteStrings[c.checkByte(1)])
	}
	room := c.state.scratch[:0]
	for i := 1; i <= c.n; i++ {
		room = append(room, c.checkByte(i))
	}
	c.state.scratch = room
	return c.Return1(c.state.Bytes(room))
}

func (c *Call) checkByte(i int) byte {
	b := c.CheckInt(i)
	if b < 0 || b > 255 {
		c.ArgError(i, "invalid value")
	}
	return byte(b)
}

func stringFind(c *Call) Outcome  { return find(c, true) }
func stringMatch(c *Call) Outcome { return find(c, false) }

func find(c *Call, positions bool) Outcome {
	s, full := c.CheckString(1).str(), c.CheckString(2).str()
	init := min(max(relative(c.OptInteger(3, 1), len(s))-1, 0), len(s))
	pattern := cString(full)
	c.Spend(len(full) >> 5)
	if positions && (c.Arg(4).Truth() || !strings.ContainsAny(pattern, "^$*+?.([%-")) {
		c.Spend((len(s) - init) >> 6)
		at := strings.Index(s[init:], full)
		if at < 0 {
			return c.Return1(Nil)
		}
		return c.Return(Number(float64(init+at+1)), Number(float64(init+at+len(full))))
	}
	p := 0
	if pattern != "" && pattern[0] == '^' {
		p = 1
	}
	m := &c.state.matcher
	m.init(s, pattern)
	m.begin(init, p)
	f := c.t.frame()
	f.pc = init // the start of the attempt
	if positions {
		f.step = findStep
		return findStep(c)
	}
	f.step = matchStep
	return matchStep(c)
}

func findStep(c *Call) Outcome {
	m := &c.state.matcher
	switch c.search(m, true) {
	case matchPaused:
		return outcomeAgain
	case matchFound:
		s, e := c.t.frame().pc, m.s
		c.Push(Number(float64(s + 1)))
		c.Push(Number(float64(e)))
		return Outcome(2 + c.pushCaptures(m, s, e, false))
	}
	return c.Return1(Nil)
}

func matchStep(c *Call) Outcome {
	m := &c.state.matcher
	switch c.search(m, true) {
	case matchPaused:
		return outcomeAgain
	case matchFound:
		return Outcome(c.pushCaptures(m, c.t.frame().pc, m.s, true))
	}
	return c.Return1(Nil)
}

// search continues m's attempt at the position frame.pc. If anywhere is true, it also tries later positions.
func (c *Call) search(m *matcher, anywhere bool) matchResult {
	f := c.t.frame()
	first := 0
	if m.at(0) == '^' && anywhere {
		first = 1
	}
	for {
		switch r := m.run(&c.state.budget); r {
		case matchError:
			c.Error(m.failed)
		case matchFailed:
			f.pc++
			if f.pc > len(m.src) || first == 1 {
				return matchFailed
			}
			m.begin(f.pc, first)
		default:
			return r
		}
	}
}

func stringGmatch(c *Call) Outcome {
	s, p := c.CheckString(1), c.CheckString(2)
	return c.Return1(c.state.NewFunction("", gmatchNext, s, p, Number(0)))
}

func gmatchNext(c *Call) Outcome {
	f := c.t.frame()
	from := int(c.Upvalue(2).Float())
	m := &c.state.matcher
	m.init(c.Upvalue(0).str(), cString(c.Upvalue(1).str()))
	c.Spend(len(c.Upvalue(1).str()) >> 5)
	if from > len(m.src) {
		return 0
	}
	m.begin(from, 0)
	f.pc = from
	f.step = gmatchStep
	return gmatchStep(c)
}

func gmatchStep(c *Call) Outcome {
	m := &c.state.matcher
	switch c.search(m, false) { // ^ has no meaning here
	case matchPaused:
		return outcomeAgain
	case matchFailed:
		return 0
	}
	f := c.t.frame()
	next := m.s
	if m.s == f.pc {
		next++
	}
	f.function.upvalues[2] = Number(float64(next))
	return Outcome(c.pushCaptures(m, f.pc, m.s, true))
}

// A substitution is the state of a gsub.
type substitution struct {
	src     string
	pattern string
	at      int // the start of the next attempt
	start   int // the pattern's position after ^
	end     int // of the match being replaced
	count   int
	most    int
	out     []byte
	charged int
}

func stringGsub(c *Call) Outcome {
	src := c.CheckString(1).str()
	pattern := cString(c.CheckString(2).str())
	c.Spend(len(src)>>5 + len(pattern)>>5)
	most := c.OptInt(4, int(int32(len(src)+1)))
	switch v := c.Arg(3); v.Type() {
	case TypeNumber, TypeString, TypeFunction, TypeTable:
	default:
		c.ArgError(3, "string/function/table expected")
	}
	g := &substitution{src: src, pattern: pattern, most: most}
	if pattern != "" && pattern[0] == '^' {
		g.start = 1
	}
	if c.Arg(3).IsNumber() {
		c.CheckString(3)
	}
	c.drop()
	c.Keep(g)
	if g.count < g.most {
		m := &c.state.matcher
		m.init(g.src, g.pattern)
		m.begin(0, g.start)
	}
	c.t.frame().step = gsubStep
	return gsubStep(c)
}

func (c *Call) gsubGrow(g *substitution) {
	if n := cap(g.out); n > g.charged {
		c.state.charge(n - g.charged)
		g.charged = n
	}
	if len(g.out) > maxString {
		c.state.raiseMemory()
	}
}

// gsubStep continues the attempt in the State's matcher.
func gsubStep(c *Call) Outcome {
	g := c.Kept().(*substitution)
	m := &c.state.matcher
	for g.count < g.most {
		switch m.run(&c.state.budget) {
		case matchPaused:
			return outcomeAgain
		case matchError:
			c.Error(m.failed)
		case matchFound:
			g.count++
			g.end = m.s
			if o := c.replace(g, m); o != 0 {
				return o
			}
		default:
			g.end = -1
		}
		if !c.gsubAdvance(g) {
			break
		}
		m.begin(g.at, g.start)
	}
	g.out = append(g.out, g.src[g.at:]...)
	c.gsubGrow(g)
	c.Push(c.state.Bytes(g.out))
	c.Push(Number(float64(g.count)))
	return 2
}

// gsubAdvance moves past the match, or by one byte. It returns false at the end of the search.
func (c *Call) gsubAdvance(g *substitution) bool {
	c.gsubGrow(g)
	switch {
	case g.end > g.at:
		g.at = g.end
	case g.at < len(g.src):
		g.out = append(g.out, g.src[g.at])
		g.at++
	default:
		return false
	}
	return g.start == 0
}

// replace appends the replacement of the match. If the outcome is not 0, the machine must call a function first.
func (c *Call) replace(g *substitution, m *matcher) Outcome {
	switch by := c.Arg(3); by.Type() {
	case TypeFunction:
		c.Push(by)
		return c.Invoke(c.pushCaptures(m, g.at, g.end, true), 1, gsubReplaced)
	case TypeTable:
		c.pushCapture(m, 0, g.at, g.end)
		key := c.t.stack[c.t.top-1]
		c.drop()
		v, tm, holder := c.state.lookup(by, key)
		if !tm.IsNil() {
			c.Push(tm)
			c.Push(holder)
			c.Push(key)
			return c.Invoke(2, 1, gsubReplaced)
		}
		c.appendReplacement(g, v)
	default:
		c.appendTemplate(g, m, by.str())
	}
	return 0
}

// lookup returns o[key]. If a function must be called for it, tm is that function and holder its first argument.
func (s *State) lookup(o, key Value) (v, tm, holder Value) {
	for range maxEventLoop {
		if o.n == bitsTable {
			table := (*Table)(o.p)
			if v = table.Get(key); v.n != bitsNil {
				return v, Nil, Nil
			}
			if tm = table.meta.event(eventIndex); tm.n == bitsNil {
				return Nil, Nil, Nil
			}
		} else if tm = s.metamethod(o, eventIndex); tm.n == bitsNil {
			s.typeError(o, -1, "index")
		}
		if tm.IsFunction() {
			return Nil, tm, o
		}
		o = tm
	}
	s.runtimeError("loop in gettable")
	return
}

func gsubReplaced(c *Call) Outcome {
	g := c.Kept().(*substitution)
	v := c.Results()[0]
	c.drop()
	c.appendReplacement(g, v)
	f := c.t.frame()
	f.step = gsubStep
	if !c.gsubAdvance(g) {
		g.most = g.count
	}
	m := &c.state.matcher // the called function may have used it
	m.init(g.src, g.pattern)
	m.begin(g.at, g.start)
	return gsubStep(c)
}

func (c *Call) appendReplacement(g *substitution, v Value) {
	switch {
	case v.isFalsy():
		g.out = append(g.out, g.src[g.at:g.end]...)
	case v.IsString():
		g.out = append(g.out, v.str()...)
	case v.IsNumber():
		g.out = appendNumber(g.out, v.Float())
	default:
		c.Error("invalid replacement value (a " + v.Type().String() + ")")
	}
	c.gsubGrow(g)
}

// appendTemplate appends a replacement string, with %0 to %9 replaced.
func (c *Call) appendTemplate(g *substitution, m *matcher, template string) {
	before := len(g.out)
	defer func() { c.Spend(len(template)>>2 + (len(g.out)-before)>>5) }()
	for i := 0; i < len(template); i++ {
		b := template[i]
		if b != '%' {
			g.out = append(g.out, b)
			continue
		}
		i++
		b = 0
		if i < len(template) {
			b = template[i]
		}
		switch {
		case !isDigit(int(b)):
			g.out = append(g.out, b)
		case b == '0':
			g.out = append(g.out, g.src[g.at:g.end]...)
		default:
			c.pushCapture(m, int(b-'1'), g.at, g.end)
			v := c.t.stack[c.t.top-1]
			c.t.top--
			if v.IsNumber() {
				g.out = appendNumber(g.out, v.Float())
			} else {
				g.out = append(g.out, v.str()...)
			}
		}
	}
}

func viewString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
