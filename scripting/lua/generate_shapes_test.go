package lua

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A shape is a random piece of a program that exercises one part of the language.
var shapes = []func(*generator){
	(*generator).closures, (*generator).variadic, (*generator).chain, (*generator).objects, (*generator).producer,
	(*generator).resumes, (*generator).thrown, (*generator).levels, (*generator).nameless, (*generator).patterns,
	(*generator).formats, (*generator).numbers, (*generator).holes, (*generator).sorting, (*generator).flow,
	(*generator).environments, (*generator).compiled, (*generator).walks, (*generator).methods, (*generator).compared,
}

func (g *generator) shape() {
	saved, kept := g.vararg, len(g.locals)
	g.vararg = false
	g.line("do")
	g.depth++
	shapes[g.rng.IntN(len(shapes))](g)
	g.depth--
	g.line("end")
	g.vararg, g.locals = saved, g.locals[:kept]
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func (g *generator) repeated(least, most int, one func(i int) string) string {
	var b strings.Builder
	for i := range least + g.rng.IntN(most-least+1) {
		b.WriteString(one(i))
	}
	return b.String()
}

// closures makes closures that share variables, including those of loops that have ended.
func (g *generator) closures() {
	g.line("local fs, up = {}, %s", g.expr())
	head := g.pick("for i = 1, 4 do", "for i, w in ipairs{5, 6, 7, 8} do",
		"local i = 0 while i < 4 do i = i + 1", "local i = 0 repeat i = i + 1")
	g.line("%s local j, k = i, %s", head, g.expr())
	g.line("fs[#fs + 1] = function(n) %s return i, j, k, up end",
		g.pick("i = n", "j = j + i", "k = n", "up = j", "j = j .. tostring(up)",
			"local i = j j = i", "k, up = up, k", "return (function() j = n return j end)()"))
	g.line("fs[#fs + 1] = function(n) %s return function() %s return i, j, k end end",
		g.pick("i = 0", "j = n", "k = i", ""),
		g.pick("j = j .. 'x'", "i = i + 1", "up = n", ""))
	if g.chance(30) {
		g.line("if i == %d then break end", 1+g.rng.IntN(4))
	}
	if strings.HasPrefix(head, "local i = 0 repeat") {
		g.line("until i >= 4 or not j")
	} else {
		g.line("end")
	}
	for range 2 + g.rng.IntN(4) {
		g.line("print(pcall(fs[%d], %s))", 1+g.rng.IntN(8), g.expr())
	}
	g.line("print(pcall(fs[2]%s)) print(pcall(fs[4] and fs[4](2)))", g.pick("", ", 7"))
}

func (g *generator) variadic() {
	g.line("local function v(%s...) %s return %s end", g.pick("", "p, ", "p, q, "),
		g.pick("", "local x, y = ...", "local r = {...} print(#r, r[1])",
			"print(arg and arg.n)", "for i = 1, select('#', ...) do local w = select(i, ...) print(i, w) end"),
		g.pick("...", "(...)", "..., ...", "1, ...", "select('#', ...), ...", "select(-1, ...)", "unpack({...})",
			"{...}, #{...}", "select(2, ...)",
			"(select('#', ...))", "pcall(select, -2, ...)", "unpack({...}, 1, select('#', ...))", "v and math.max(...)"))
	for range 1 + g.rng.IntN(3) {
		g.line("print(pcall(v%s))", g.pick("", ", "+g.expr(), ", nil, nil", ", "+g.expr()+", "+g.expr(), ", v(1, 2, 3)",
			", (v(1, 2, 3))",
			", 1, nil, 3, nil", ", unpack({1, nil, 3}, 1, 4)", ", v(), v()"))
	}
	g.line("local function old(a, ...) return arg, ... end print(select('#', old(1, 2, %s)))", g.expr())
	if g.chance(20) {
		g.line("local n = %s print(pcall(select, n, 1, 2)) print(pcall(unpack, {1, 2}, n, %s))", g.number(),
			g.pick("3", "n", "-1", "0", "2.9"))
	}
}

// chain makes tables that look up missing fields in each other.
func (g *generator) chain() {
	g.line("local base = {p = 1, q = %s, [1] = 'one'}", g.expr())
	for i, name := range []string{"mid", "top"} {
		below := []string{"base", "mid"}[i]
		g.line("local %s = setmetatable({%s}, {__index = %s, __newindex = %s%s})", name, g.pick("", "q = false", "r = 2"),
			g.pick(below, below, "function(o, k) return "+below+"[k] end", "function(o, k) return k, 1 end", "rawget", g.expr()),
			g.pick(below, "nil", "rawset", "function(o, k, v) rawset(o, k, v) end",
				"function(o, k, v) error(k, "+g.pick("0", "1", "2")+") end", "{}", g.expr()),
			g.pick("", ", __metatable = 'locked'", ", __metatable = false",
				", __call = function(self, x) return x, self ~= nil end", ", __call = "+below,
				", __len = function() return 9 end", ", __tostring = function() return '"+name+"' end",
				", __tostring = function() return 1 end"))
	}
	for range 4 + g.rng.IntN(5) {
		f := g.pick("top", "mid")
		k := g.pick(".p", ".q", ".r", "[1]", "["+g.expr()+"]", ".missing", "['p']", "[nil]", "[0/0]")
		g.line("print(pcall(function() %s end))", g.pick("return "+f+k, f+k+" = "+g.expr(), "return rawget("+f+", 'p')",
			"return "+f+"("+g.expr()+")",
			"return #"+f, "return tostring("+f+")", "return getmetatable("+f+")", "return setmetatable("+f+", nil)",
			"return "+f+k+".deeper",
			f+k+".x = 1", "local r = {} for k, v in pairs("+f+") do r[#r + 1] = tostring(k) end return table.concat(r)",
			f+k+" = "+f+k+" + 1 return "+f+k, "return "+f+k+" .. 'x'", "for i, v in ipairs("+f+") do print(i, v) end"))
	}
	g.line("print(base.p, base.q, base.r, base[1])")
}

// objects makes objects that have a class with metamethods. Some metamethods fail, yield or return several values.
func (g *generator) objects() {
	g.line("local C = {} C.__index = C")
	for _, m := range []string{"__add", "__concat", "__eq", "__lt", "__le", "__unm", "__call", "__mod", "__pow", "__div",
		"__sub", "__mul"} {
		if g.chance(45) {
			g.line("C.%s = function(x, y, ...) %s end", m, g.pick("return "+g.expr(), "return x, y",
				"return type(x) .. type(y)", "return y", "return",
				"error({m = '"+m+"'})", "error('"+m+"', 2)", "return rawequal(x, y)",
				"return (pcall(error, x))", "return select('#', x, y, ...)", "return not x",
				"return coroutine.yield(x)", "local r = y r.z = 1 return x", "return x.v", "return #y"))
		}
	}
	g.line("local o, u = setmetatable({v = 1}, C), setmetatable({v = 2}, %s)",
		g.pick("C", "C", "{__eq = C.__eq}", "{__lt = C.__lt, __concat = function() return 'u' end}"))
	for range 4 + g.rng.IntN(5) {
		x, y := g.pick("o", "u", "o", g.expr()), g.pick("o", "u", g.expr())
		e := x + g.pick(" + ", " .. ", " == ", " ~= ", " < ", " <= ", " > ", " >= ", " % ", " ^ ", " / ", " - ", " * ") + y
		g.line("print(pcall(function() %s end))", g.pick("return "+e, "return "+e, "if "+e+" then return 1 else return 2 end",
			"return -o, not u, #o", "return o("+g.list(2)+")",
			"local r = "+e+" return r", "return ("+e+") == nil", "return 'a' .. 1 .. "+x+" .. "+y,
			"while "+e+" do return 'loop' end", "return o == u and "+e,
			"return o.v + u.v", "return o:missing()", "return o.v.w", "return coroutine.wrap(function() return "+e+" end)()"))
	}
}

func (g *generator) producer() {
	g.line("local co = coroutine.%s(function(...)", g.pick("create", "wrap"))
	g.line("for i = 1, %d do local x, y = coroutine.yield(i, %s) print('in', x, y, %s) %s end",
		1+g.rng.IntN(3), g.pick("...", "i .. 'v'", "nil"), g.expr(),
		g.pick("", "if x then return x end", "if i == 2 then error(y) end",
			"pcall(coroutine.yield, i)", "coroutine.wrap(function() coroutine.yield(1) end)()",
			"table.sort({3, 1, 2}, function(p, q) coroutine.yield() return p < q end)",
			"string.gsub('ab', '.', coroutine.yield)", "error({i})"))
	g.line("return %s end)", g.pick("'end'", "", "coroutine.yield('tail')", "...", "error('last', 0)"))
	for range 2 + g.rng.IntN(4) {
		g.line("if type(co) == 'thread' then print(coroutine.status(co), coroutine.resume(co, %s)) else print(pcall(co, "+
			"%s)) end", g.expr(), g.list(2))
	}
}

func (g *generator) resumes() {
	g.line("local a1, b1")
	g.line("a1 = coroutine.create(function(x) print(coroutine.status(a1), coroutine.running() == a1) print(%s) return "+
		"coroutine.yield(x) end)",
		g.pick("coroutine.resume(a1)", "coroutine.resume(b1, x)", "coroutine.status(b1)",
			"pcall(coroutine.wrap(function() return coroutine.running() ~= a1 end))",
			"coroutine.resume(coroutine.create(function() return coroutine.resume(a1) end))",
			"pcall(coroutine.resume, 5)", "coroutine.yield('early')"))
	g.line("b1 = coroutine.create(function(...) local r = {coroutine.resume(a1, ...)} print(unpack(r)) %s end)",
		g.pick("error(r[2])", "return coroutine.yield(#r)", "coroutine.yield() coroutine.yield() return coroutine.status(a1)",
			"return coroutine.resume(b1)"))
	for range 3 + g.rng.IntN(3) {
		g.line("print(coroutine.resume(%s, %s))", g.pick("a1", "b1"), g.expr())
	}
	g.line("print(coroutine.status(a1), coroutine.status(b1), pcall(coroutine.wrap(function() %s end)))",
		g.pick("error{}", "error('w')", "local t t.x = 1",
			"return coroutine.yield(coroutine.yield())", "return 1, nil", "error()"))
	g.line("print(pcall(coroutine.%s, %s))", g.pick("create", "wrap", "resume", "status", "yield"),
		g.pick("nil", "print", "5", "function() end", "", "a1"))
}

// thrown throws any value, through any number of pcalls.
func (g *generator) thrown() {
	value := func() string {
		return g.pick(g.expr(), "nil", "{}", "setmetatable({}, {__tostring = function() return 'E' end})", "'text'", "42",
			"print", "true", "",
			"coroutine.create(print)", "{code = 1}")
	}
	g.line("local function raise() %s end", g.pick("error("+value()+")",
		"error("+value()+", "+g.pick("0", "1", "2", "3", "50", "'1'", "nil", "{}")+")",
		"assert(false, "+value()+")", "assert(nil)", "assert("+g.expr()+", 'said')", "local x = nil .. 'a'", "return error"))
	handler := g.pick("function(m) return m end", "function(m) return type(m), 2 end",
		"function(m) error(m) end", "function(m) return pcall(error, m) end",
		"tostring", "error", "5", "nil", "function(m) return (pcall(raise)) end",
		"function() return coroutine.running() end", "function(m) return m.code end")
	for range 2 + g.rng.IntN(3) {
		g.line("print(%s)", g.pick("pcall(raise)", "xpcall(raise, "+handler+")", "pcall(pcall, raise)",
			"pcall(pcall, pcall, raise)", "pcall(xpcall, raise, "+handler+")",
			"pcall(error, "+value()+")", "pcall(function() local ok, e = pcall(raise) error(e, 0) end)",
			"coroutine.resume(coroutine.create(raise))",
			"pcall(coroutine.wrap(raise))", "xpcall(function() return pcall(raise) end, "+handler+")",
			"select('#', pcall(raise))", "pcall(string.gsub, 'x', 'x', raise)",
			"pcall(table.sort, {1, 2, 3}, raise)", "pcall(load, raise)", "load(raise)",
			"pcall(table.foreach, {1}, raise)", "xpcall(xpcall, "+handler+")",
			"pcall(setmetatable({}, {__call = raise}))", "pcall()", "xpcall(raise)", "pcall(nil)", "pcall(assert)",
			"pcall(assert, "+g.list(3)+")",
			"pcall(tostring, setmetatable({}, {__tostring = raise}))", "pcall(function() for k in raise do end end)"))
	}
}

// levels checks the position in errors of different levels.
func (g *generator) levels() {
	g.line("local function l0(n) error(%s, n) end", g.pick("'m'", "{}", "5"))
	g.line("local function l1(n) %s end", g.pick("l0(n)", "return l0(n)",
		"local r = l0(n) return r", "pcall(print) l0(n)", "for k in l0, n do end",
		"return (setmetatable({}, {__index = function(t, k) l0(n) end})).x",
		"string.gsub('x', '.', function() l0(n) end)", "t = {l0(n)}"))
	g.line("local function l2(n)\n%s\nend", g.pick("l1(n)", "return l1(n)", "l1(n) return",
		"loadstring('local f, n = ... f(n)', '"+
			g.pick("=chunk", "@file.lua", "text of it", "two\\nlines", "")+"')(l1, n)", "coroutine.wrap(l1)(n)"))
	for range 3 {
		g.line("print(pcall(l2, %s))", g.pick("0", "1", "2", "3", "4", "5", "1.9", "-1", "nil"))
	}
}

// nameless uses values of the wrong type. The errors must show the values' names.
func (g *generator) nameless() {
	g.line("local loc, num, tab, up2 = nil, 5, {f = {}}, %s", g.expr())
	for range 3 + g.rng.IntN(5) {
		thing := g.pick("loc", "num", "tab", "tab.f", "tab.f.g", "tab.none", "tab[num]", "tab[loc]", "up2", "glob1",
			"glob1.x", "('s')", "tab.f[1]", "nil", "(loc)",
			"tab['a b']", "tab[1.5]", "string.none", "string", "(5)", "true", "tab[tab]", "(loc or num)", "tab:m()", "loc:m()",
			"num:m(1)", "tab.f:m()", "glob1:m()",
			"(function() end)()", "(...)", g.expr())
		stat := g.pick(
			"return "+thing+".x", thing+"()", "return "+thing+" + 1", "return 1 - "+thing, "return "+thing+" .. 'x'",
			"return 'x' .. "+thing, "return #"+thing, "return -"+thing,
			"return "+thing+" < 1", "return "+thing+" <= "+thing, "return {} < "+thing, "return "+thing+":meth()",
			"return "+thing+".x.y", "return "+thing+" * "+thing,
			"for i = 1, "+thing+" do end", "for i = "+thing+", 2 do end", "for i = 1, 2, "+thing+" do end",
			"for k in "+thing+" do end", "return 2 ^ "+thing+" .. 'y'",
			"local q = "+thing+" return q.z", "local q = "+thing+" return q()", "local q = "+thing+" return q + 1",
			"return (function() return "+thing+".x end)()",
			"loc = "+thing+" loc()", "return "+thing+"[1][2]", "tab.f = "+thing+" tab.f()", "return string.rep("+thing+", 2)",
			"return ('x'):rep("+thing+")",
			"return math.floor("+thing+")", "return tab.f("+thing+")", "return "+thing+"'lit'", "return "+thing+"{}",
			"local a, b = "+thing+" return b.c",
			"return string.sub("+thing+")", "return ipairs("+thing+")", "return setmetatable("+thing+", "+thing+")",
			"return not "+thing+".x", "return a and "+thing+".x",
			"return ("+thing+")()", "return "+thing+" and "+thing+".y", "return tab.none == nil or "+thing+"()")
		stat = strings.ReplaceAll(stat, "nil()", "(nil)()")
		fixed := strings.NewReplacer("return nil.", "return (nil).", "return nil:", "return (nil):", "return nil[",
			"return (nil)[", "true.", "(true).").Replace(stat)
		g.line("print(loadstring(%s))", luaQuote("local "+fixed)) // mostly syntax errors
		g.line("do local f, m = loadstring(%s) print(m) if f then print(pcall(f)) end end", luaQuote(fixed))
		if !strings.Contains(thing, "...") && !strings.HasPrefix(thing, "nil") && !strings.HasPrefix(thing, "true") &&
			!strings.HasPrefix(thing, "{") && !strings.Contains(stat, "(function") && g.simple(thing) {
			g.line("print(pcall(function() %s end))", stat)
		}
	}
}

// simple reports whether the text may stand before a call or an index.
func (g *generator) simple(thing string) bool {
	switch thing[0] {
	case '(', 'l', 't', 'u', 'g':
		return strings.HasPrefix(thing, "loc") || strings.HasPrefix(thing, "tab") || strings.HasPrefix(thing, "up2") ||
			strings.HasPrefix(thing, "glob1") ||
			thing == "(5)" || thing == "(loc)" || thing == "('s')" || thing == "(loc or num)"
	}
	return thing == "num" || thing == "string.none" || thing == "string"
}

// patternText returns a pattern, rarely with a mistake.
func (g *generator) patternText(depth int) string {
	if g.chance(4) {
		return g.pick("(", ")", "%", "[", "[^", "[a-", "%b", "%bx", "%f", "%f(", "[%", "%0", "%2", "(()", "[]", "[^]]", "*",
			"^*", "a**", "$$", "[a-%]", "[%a-z]", "[z-a]", "[]-a]")
	}
	single := func() string {
		switch g.rng.IntN(8) {
		case 0, 1, 2:
			return g.pick("a", "b", "c", "l", "o", " ", ",", "1", "x", "h")
		case 3:
			return "."
		case 4, 5:
			return "%" + g.pick("a", "c", "d", "l", "p", "s", "u", "w", "x", "z", "A", "D", "S", "W", "Z", ".", "%", "(", "]",
				"-", "1", "n", "P", "C", "L", "U", "X")
		}
		set := g.repeated(1, 4, func(int) string {
			return g.pick("a", "b-d", "%w", "%s", "0-9", "^", "]", "-", "%]", ".", "%-", "l-o", "%D", "z-", "\255", "\000", "%x")
		})
		return "[" + g.pick("", "^") + set + "]"
	}
	return g.pick("", "", "", "^") + g.repeated(1, 4, func(int) string {
		switch g.rng.IntN(12) {
		case 0:
			if depth > 0 {
				return "(" + strings.TrimPrefix(g.patternText(depth-1), "^") + ")"
			}
			return "()"
		case 1:
			return g.pick("%b()", "%bab", "%bxx", "%f[%w]", "%f[^%w]", "%f[%z]", "()", "%1", "%2", "(.)%1", "$", "^")
		}
		return single() + g.pick("", "", "*", "+", "-", "?")
	}) + g.pick("", "", "", "$")
}

func (g *generator) subject() string {
	if g.chance(30) {
		return g.text()
	}
	n := g.rng.IntN(24)
	b := make([]byte, n)
	for i := range b {
		b[i] = "aabbccloh xX1,.(())=%\n\x00\xff"[g.rng.IntN(24)]
	}
	return luaQuote(string(b))
}

func (g *generator) patterns() {
	for range 3 + g.rng.IntN(4) {
		p, s := luaQuote(g.patternText(2)), g.subject()
		init := g.pick("", "", ", 1", ", 0", ", -3", ", 3", ", 100", ", -100", ", "+g.number())
		repl := g.pick(`"%1"`, `"<%0>"`, `"%2%1"`, `"%%"`, `"%9"`, `"%"`, `"%a"`, `""`, `"x\0y"`,
			"{a = 1, b = false, ['1'] = 'one', [' '] = '_'}", "string.upper",
			"function(...) return ... end", "function(p, q) return q end",
			"function() return false end", "function() return {} end", "function() end", "5", "nil", "{}",
			"setmetatable({}, {__index = function(_, k) return k .. k end})", "function(...) return select('#', ...) end")
		g.line("print(pcall(%s))", g.pick("string.find, "+s+", "+p+init, "string.match, "+s+", "+p+init,
			"string.gsub, "+s+", "+p+", "+repl+g.pick("", "", ", 1", ", 0", ", -1", ", 2.5", ", '1'"),
			"string.find, "+s+", "+g.subject()+init+g.pick("", ", true"),
			"function() local r = {} for p, q in string.gmatch("+s+", "+p+
				") do r[#r + 1] = tostring(p) .. '/' .. tostring(q) if #r > 30 then break end end return table.concat(r, ';') end"))
	}
	if g.chance(20) {
		g.line("print(pcall(string.%s, %s))", g.pick("find", "match", "gmatch", "gsub", "gfind"), g.list(4))
	}
}

func (g *generator) specifier() string {
	flags := g.repeated(0, 2, func(int) string { return g.pick("-", "+", " ", "#", "0") })
	width := g.pick("", "", "1", "5", "12", "20", "99")
	precision := g.pick("", "", ".", ".0", ".1", ".3", ".10", ".14", ".17", ".20", ".99")
	if g.chance(3) {
		return "%" + g.pick("100d", "5.100f", "-+ #0x", "-+ #00x", ".5.5d", "l", "h", "y", "", "*d", "5", "p", "n",
			"D", "\x00", "lld")
	}
	return "%" + flags + width + precision + g.pick("d", "i", "u", "c", "x", "X", "o", "e", "E", "f", "g", "G",
		"q", "s", "s", "%")
}

func (g *generator) formats() {
	for range 3 + g.rng.IntN(4) {
		n := 1 + g.rng.IntN(3)
		var spec, args string
		for range n {
			s := g.specifier()
			if strings.HasSuffix(s, "q") {
				s = "%q"
			}
			spec += g.pick("", "|", "a ", "%%") + s
			args += ", " + g.pick(g.numeral(), g.numeral(), g.text(), g.expr())
		}
		if g.chance(4) {
			args = ""
		}
		g.line("print(pcall(string.format, %s%s))", luaQuote(spec), args)
	}
}

// numeral returns a number in source form, or a text that may be one.
func (g *generator) numeral() string {
	switch g.rng.IntN(9) {
	case 0, 1:
		return g.number()
	case 2:
		return strconv.FormatInt(int64(g.rng.Uint64())>>g.rng.IntN(64), 10)
	case 3:
		f := math.Float64frombits(g.rng.Uint64())
		if f-f != 0 {
			return "0"
		}
		return strconv.FormatFloat(f, 'g', 1+g.rng.IntN(18), 64)
	case 4:
		return strconv.FormatFloat((g.rng.Float64()-0.5)*math.Pow10(g.rng.IntN(40)-20), 'f', g.rng.IntN(17), 64)
	case 5:
		return strconv.FormatFloat(math.Ldexp(float64(g.rng.IntN(1<<20)), g.rng.IntN(60)-40), 'g', -1, 64)
	case 6:
		return "0x" + strconv.FormatUint(g.rng.Uint64()>>g.rng.IntN(64), 16)
	case 7:
		return strconv.Itoa(g.rng.IntN(2000)-1000) + g.pick("", ".5", "e3", "e-3", ".25e2", "e15", "e20")
	}
	return g.pick("2^31", "-2^31", "2^32", "2^53", "2^53 + 1", "2^63", "-2^63", "2^64", "1e15 - 1", "99999999999999.5",
		"1e14 + 0.5", "5e-324", "2.2250738585072014e-308",
		"1.7976931348623157e308", "0.1 + 0.2", "1e21", "1e-5", "123456.789e3", "100 * 1.1", "4.35 * 100")
}

func (g *generator) numberText() string {
	body := g.pick(strconv.Itoa(g.rng.IntN(5000)-1000), g.numeral(), "0x1F", "0x", "1e", "1e+5", "inf", "nan", "0x1p4",
		"1 2", "", " ", "1.", ".5", ".", "1_0", "z9", "7fffffffffffffff",
		"ffffffffffffffff", "-ff", "1e1000", "0b1", "1f", "1d", "١",
		"9999999999999999999999", "0x.8", "0x8.", "infinity", "INF", "NaN", "1\\0", "0X1A", "1e5e5")
	return `"` + g.pick("", "", " ", "\\t", "-", "+", "- ", "--") + strings.ReplaceAll(body, `"`, "") +
		g.pick("", "", " ", "\\n", "x", "\\0") + `"`
}

func (g *generator) numbers() {
	for range 3 + g.rng.IntN(4) {
		x, y := g.numeral(), g.numeral()
		g.line("print(pcall(function() return %s end))", g.pick(
			x, "-("+x+")", "("+x+") + ("+y+")", "("+x+") * ("+y+")", "("+x+") / ("+y+")", "("+x+") % ("+y+")",
			"("+x+") - ("+y+")", "("+x+") .. ''", "tostring("+x+")",
			"tonumber("+g.numberText()+")", "tonumber("+g.numberText()+", "+
				g.pick("2", "8", "10", "16", "36", "3", "1", "37", "0", "-1", "16.5")+")", g.numberText()+" + 0",
			g.numberText()+" * ("+y+")", "math.floor("+x+"), math.ceil("+x+")", "math.fmod("+x+", "+y+")", "math.modf("+x+")",
			"math.frexp("+x+")", "math.ldexp("+x+", "+
				g.pick("1", "-3", "10", "2000", "-2000")+")", "("+x+") == ("+y+"), ("+x+") < ("+y+"), ("+x+") <= ("+y+")",
			"math.max("+x+", "+y+"), math.min("+x+", "+y+")",
			"tostring("+x+") == tostring("+y+")", "("+x+") ^ "+g.pick("2", "0.5", "-1", "3", "10", "0"),
			"math.abs("+x+"), math.sqrt("+x+")", "("+x+") .. ("+y+")", "#tostring("+x+")",
			"string.rep('x', "+g.pick("3", "-2", "1.9", "0", "'2'")+")", "({[ "+x+"] = 1})[ "+y+"]",
			"string.char("+g.pick("65", "256", "-1", "65.9", "0", "'66'")+")",
			"string.sub('hello', "+x+", "+y+")", "string.byte('hello', "+x+", "+y+")",
			"math.exp("+g.pick("0", "1", "-1")+"), math.log10(1000), math.pi, math.huge"))
	}
}

// holes checks how tables grow, and the results of # and next for tables with holes.
func (g *generator) holes() {
	items := g.repeated(0, 9, func(int) string {
		return g.pick("nil, ", "1, ", "'x', ", "false, ", "[3] = 5, ", "k = 1, ", "[2.5] = 1, ", "[9] = 2, ")
	})
	g.line("local h = {%s%s}", items, g.pick("", "unpack({1, nil, 3})", "(unpack({1, 2}))", "nil", "'last'"))
	for range 3 + g.rng.IntN(8) {
		g.line("%s", g.pick("h[#h + 1] = 'p'", "h[#h] = nil", fmt.Sprintf("h[%d] = %d", g.rng.IntN(20)-1, g.rng.IntN(9)),
			fmt.Sprintf("h[%d] = nil", g.rng.IntN(10)), "table.insert(h, 'i')",
			"print(pcall(table.insert, h, "+g.pick("1", "2", "-1", "0", "12", "2.5", "'3'", "nil", "-50")+", 0))",
			"print(table.remove(h))", "print(pcall(table.remove, h, "+g.number()+"))",
			"for i = 1, 9 do h[i] = i end", "for i = 9, 1, -1 do h[i] = nil end",
			"h.k = nil", "h.x, h.y, h.z = 1, 2, 3", "for k in pairs(h) do h[k] = nil end",
			"print(#h, table.maxn(h), table.getn(h))", "print(pcall(table.concat, h, ',', "+
				g.pick("1", "2", "-1", "1, 3", "1, #h", "3, 2")+"))",
			"print(pcall(table.setn, h, 3))", "print(unpack(h))", "print(next(h))",
			"print(pcall(next, h, 'none'))", "h[-1] = 1 h[0] = 0", "h[2^40] = 1", "h[1e300] = 'far' h['1'] = 'text'",
			"print(pcall(unpack, h, 1, "+g.pick("2", "5", "-1", "1e8", "7999", "8001")+"))"))
	}
	g.line("local r = {} for k, v in pairs(h) do r[#r + 1] = tostring(k) .. '=' .. tostring(v) end print(#h, " +
		"table.concat(r, ' '))")
}

func (g *generator) sorting() {
	list := g.repeated(0, 14, func(int) string { return strconv.Itoa(g.rng.IntN(40)) + ", " })
	if g.chance(30) {
		list += g.pick("'a', 'b', 'ab', ''", "1, 'a'", "{}, {}", "nil, 5", "0/0, 1, 2", "'10', '9'")
	}
	g.line("local so, n = {%s}, 0", list)
	g.line("print(pcall(table.sort, so%s))", g.pick("", ", nil", ", 5", ", function(p, q) return p > q end",
		", function(p, q) n = n + 1 return p % 7 < q % 7 end", ", function(p, q) return true end",
		", function(p, q) return tostring(p) < tostring(q) end",
		", function(p, q) n = n + 1 if n > 5 then error('enough') end return p < q end",
		", function(p, q) return p <= q end", ", function() end",
		", function(p, q) so[#so] = nil return p < q end", ", function(p, q) return pcall(error) or p < q end", ", math.max"))
	g.line("print(n, pcall(table.concat, so, ' '))")
	g.line("%s", g.pick("print(table.foreach(so, function(k, v) if k == 3 then return v end end))",
		"print(table.foreachi(so, function(i, v) if v == 5 then return i, v end end))",
		"print(pcall(table.foreachi, so, print))", "print(pcall(table.foreach, so))",
		"for i, v in ipairs(so) do if i > 4 then break end print(v) end", "print(pcall(ipairs))"))
}

// flow nests loops and branches.
func (g *generator) flow() {
	g.line("local n, r = 0, {}")
	var nest func(depth int)
	nest = func(depth int) {
		g.line("n = n + 1 if n > 200 then return end r[#r + 1] = %s",
			g.pick("n", "'"+strconv.Itoa(depth)+"'", "tostring("+g.expr()+")"))
		if depth == 0 {
			return
		}
		i := fmt.Sprintf("i%d", depth)
		open, end := "", "end"
		switch g.rng.IntN(5) {
		case 0:
			open = fmt.Sprintf("for %s = %s do", i, g.pick("1, 3", "3, 1, -1", "0, 1, 0.25", "1, 0", "-1, 1", "1, 3, 5", "2, 2",
				"1, 2^0.5", "n, n + 2", "1, #r, 3"))
		case 1:
			open = fmt.Sprintf("local %s = 0 while %s < 3 do %s = %s + 1", i, i, i, i)
		case 2:
			open, end = fmt.Sprintf("local %s = 0 repeat local z = %s %s = %s + 1", i, i, i, i),
				"local c = function() return z end until c() >= 2 or n > 100"
		case 3:
			open = fmt.Sprintf("for %s, w in %s do", i, g.pick("ipairs{4, 5}", "pairs{a = 1}", "next, {7, 8}",
				"string.gmatch('ab', '.')", "(function(s, c) if c < 3 then return c + 1 end end), nil, 0"))
		default:
			open = fmt.Sprintf("if %s then local %s = 1", g.pick("n % 2 == 0", "#r > 3 and n < 50",
				"not (n == 1) or r.x", g.expr()), i)
			if g.chance(50) {
				end = fmt.Sprintf("elseif %s then local %s = 2 r[#r + 1] = 'ei' else local %s = 3 r[#r + 1] = 'el' end",
					g.expr(), i, i)
			}
		}
		g.line("%s", open)
		if g.chance(30) && (strings.HasPrefix(open, "for") || strings.Contains(open, "while")) {
			g.line("if %s then break end", g.pick("n > 5", "n % 3 == 0", "#r == 7", i+" == 2"))
		}
		for range 1 + g.rng.IntN(2) {
			nest(depth - 1)
		}
		g.line("%s", end)
	}
	g.line("print(pcall(function()")
	nest(3)
	g.line("end))")
	g.line("print(n, table.concat(r, ' '))")
}

func (g *generator) environments() {
	g.line("local env = %s", g.pick("{}", "{print = print, x = 1}", "setmetatable({}, {__index = _G})",
		"setmetatable({}, {__newindex = function(t, k, v) rawset(t, k, tostring(v) .. '!') end})", "_G"))
	g.line("local function fe() %s return %s end", g.pick("x = 5", "y = x", "gl = 1", "local x = 2"),
		g.pick("x", "type(print)", "y", "_G", "getfenv and 1", "function() return x end"))
	g.line("print(pcall(setfenv, %s)) print(pcall(fe)) print(rawget(env, 'x'), x)",
		g.pick("fe, env", "fe, env", "1, env", "0, env", "print, env", "fe", "fe, 5", "4, env", "-1, env",
			"'x', env", "2, env"))
	g.line("print(pcall(function() return getfenv(%s) == %s end))",
		g.pick("fe", "1", "0", "", "print", "2", "9", "-1", "'a'", "nil"), g.pick("_G", "env", "getfenv()"))
}

func (g *generator) compiled() {
	src := g.pick("return ...", "x = ", "return 1 +", "for", "local function f() return f end return f", "return '\\z'",
		"a.b:c = 1", "return 0x", "return 1..2", "return 3e", "--[[ open", "[[ open", "'open", "\"a\nb\"",
		"break", "return return", "goto x", "x == 1", "f(", "local a <const> = 1", "a, b = 1, 2 return a, b", "return (...)",
		"for i = 1 do end", "until x", "if x", "return {1, 2; 3, n = 4}.n", "f\n(1)", "# comment",
		"return '\\300'", "return '\\065\\10\\x'", "return [==[a]]b]==]", "return 5 -- c", "local x = 1; ; ", "return ~",
		"x = }", "return @", "return \"\\\n\"", "function a.b.c:d() end", "local function a.b() end", "::l::",
		"return 08, 1e+1, .5, 5., 0xA", "return a.1", "return 1 .. 2", "return -2^2, not nil == true, 1 .. 2 .. 3, 2^3^2, -x",
		"local a = {f = function() end,}", "return f{...}, g'x', h[[y]]", "x.y['z'].w, q = 1")
	if g.chance(30) {
		src = g.repeated(3, 12, func(int) string { return spareTokens[g.rng.IntN(len(spareTokens))] + " " })
	}
	name := g.pick("", "", `, "=name"`, `, "@some/file"`, `, "a chunk\nof lines"`, `, "`+strings.Repeat("long", 30)+`"`,
		`, "=`+strings.Repeat("long", 30)+`"`, `, "@`+strings.Repeat("long", 30)+`"`, `, ""`)
	g.line("local cf, cm = loadstring(%s%s) print(cm) if cf then print(pcall(cf, %s)) end", luaQuote(src), name, g.expr())
	g.line("local ln = 0 print(load(function() ln = ln + 1 return %s end%s))",
		g.pick("({'return ', '1', nil})[ln]", "ln < 5 and 'x = 1 ' or nil", "({'x', ''})[ln]", "5", "{}",
			"error('r')", "nil"), name)
}

// walks iterates over tables and changes them.
func (g *generator) walks() {
	g.line("local w, c = {%s}, 0", g.repeated(1, 8, func(i int) string {
		return g.pick(fmt.Sprintf("k%d = %d, ", i, i), fmt.Sprintf("[%d] = 'v', ", g.rng.IntN(30)), "'a', ", "[true] = 1, ",
			"[0.5] = 1, ", fmt.Sprintf("['%c%d'] = 1, ", 'a'+g.rng.IntN(26), g.rng.IntN(999)))
	}))
	g.line("print(pcall(function() for k, v in %s do c = c + 1 if c > 40 then break end %s end end))",
		g.pick("pairs(w)", "next, w", "ipairs(w)", "next, w, nil"),
		g.pick("w[k] = nil", "w[k] = c", "print(k, v)", "if c == 2 then w[k] = nil end print(tostring(k))",
			"w[c] = w[c] and c", "local x = w[k] w[k] = nil w[k] = x"))
	g.line("local r = {} for k, v in pairs(w) do r[#r + 1] = tostring(k) .. ':' .. tostring(v) end " +
		"print(table.concat(r, ' '), #w, next({}), c)")
	g.line("print(pcall(next, w, %s)) print(pcall(next%s))", g.pick("'k0'", "1", "99", "nil", "w", "true", "0/0"),
		g.pick("", ", 5", ", w"))
}

func (g *generator) methods() {
	g.line("local M = {n = 0} function M:inc(by%s) self.n = self.n + %s return self end function M.get(self) return "+
		"self.n end function M.sub() return M end", g.pick("", ", ..."),
		g.pick("(by or 1)", "by", "1"))
	g.line("M.inner = {M = M, s = 'str'}")
	for range 2 + g.rng.IntN(3) {
		g.line("print(pcall(function() return %s end))",
			g.pick("M:inc():inc(2):get()", "M:inc("+g.expr()+").n", "M.inc(M, 3):get()", "M:missing()", "M.inner:missing(1)",
				"M.inner.M:get()", "M.inner.s:upper():len()",
				"M.inner.s:bad()", "('%d'):format("+g.numeral()+")", "#M.inner.s:rep(3)", "M.sub().inner.M.sub():get()",
				"(M.inner.s):sub("+g.number()+")", "M:get(1)(2)", "M.n:get()", "('x'):byte()", "M.get()", "M.inc()",
				"M.inner.s:gsub('.', {s = 'S'})", "(''):rep(2):len()", "M:inc{}", "M:inc'5'.n"))
	}
}

func (g *generator) compared() {
	kinds := []string{"nil", "true", "1", "'a'", "'b'", "''", "'a\\0b'", "'a\\0c'", "'1'", "{}", "print", "t", "s", "0/0",
		"-0", "0", "coroutine.create(print)", "'\\255'", "'A'", "1e300", "-1/0"}
	one := func() string { return kinds[g.rng.IntN(len(kinds))] }
	for range 4 + g.rng.IntN(4) {
		x, y := one(), one()
		g.line("print(pcall(function() local x, y = %s, %s return x %s y end))",
			x, y, g.pick("<", "<=", ">", ">=", "==", "~=", "..", "+", "and", "or"))
		if g.chance(30) {
			g.line("print(pcall(function() return (%s) %s %s end), rawequal(%s, %s))", x, g.pick("<", "<=", "==", "~="), y, x, y)
		}
	}
}
