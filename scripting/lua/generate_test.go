package lua

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A generator writes programs that end: loops count, and functions call only earlier functions.
type generator struct {
	rng    *rand.Rand
	out    strings.Builder
	depth  int
	locals []string
	funcs  int
	loops  int
	vararg bool
}

func generate(rng *rand.Rand) string {
	g := &generator{rng: rng, vararg: true}
	g.locals = []string{"a", "b", "t", "s"}
	g.line("local a, b, t, s = 1, %s, {1, 2, 3, x = 1, y = {z = 2}}, %s", g.number(), g.text())
	if rng.IntN(3) == 0 {
		g.line("setmetatable(t, {%s})", g.metamethods())
	}
	for range 3 + rng.IntN(6) {
		if rng.IntN(3) == 0 {
			g.shape()
			continue
		}
		g.statement()
	}
	g.line("print(a, b, s, #t, t.x, t[1], t[2])")
	return g.out.String()
}

func (g *generator) line(format string, args ...any) { fmt.Fprintf(&g.out, format+"\n", args...) }

func (g *generator) pick(options ...string) string { return options[g.rng.IntN(len(options))] }

func (g *generator) number() string {
	return g.pick("0", "1", "-1", "2", "3", "7", "0.5", "-2.5", "10", "100", "1e15", "1e16", "123456789012",
		"1e300", "1/3", "-0",
		"2^53", "0/0", "1/0", "-1/0", "0x1F", "3.14159265358979", "1e-5", "0.1")
}

func (g *generator) text() string {
	return g.pick(`""`, `"a"`, `"abc"`, `"10"`, `" 0x1p4 "`, `"1e2"`, `"hello world"`, `"a,b,,c"`, `"key = value"`, `'x\0y'`, `[[
line]]`, `"%d"`, `"x(y(z))w"`, `"\255\128"`)
}

func (g *generator) metamethods() string {
	var parts []string
	for _, m := range []string{"__add", "__sub", "__mul", "__div", "__mod", "__pow", "__concat", "__lt", "__le",
		"__eq", "__call",
		"__index", "__newindex", "__unm", "__len", "__tostring"} {
		if g.rng.IntN(3) > 0 {
			continue
		}
		switch m {
		case "__newindex":
			parts = append(parts, m+" = "+g.pick("function(o, k, v) rawset(o, k, v) end", "function() error('no') end", "{}"))
		case "__index":
			parts = append(parts, m+" = "+g.pick("function(o, k) return k end", "{q = 5}", "function(o, k) error({}) end"))
		case "__tostring":
			parts = append(parts, m+" = function() return "+g.pick("'T'", "5", "nil")+" end")
		default:
			parts = append(parts, m+" = function(x, y) return "+g.pick("1", "x", "y", "'m'", "nil", "true", "false",
				"type(x) .. type(y)", "error('e')", "(function() return 3 end)()")+" end")
		}
	}
	return strings.Join(parts, ", ")
}

func (g *generator) variable() string {
	if g.rng.IntN(4) == 0 {
		return g.pick("t.x", "t[1]", "t.y.z", "glob", "t[a]", "t[s]", "t.missing", "t.missing.deeper", "glob.field")
	}
	return g.locals[g.rng.IntN(len(g.locals))]
}

func (g *generator) expr() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 4 {
		return g.pick(g.number(), g.text(), g.variable(), "nil", "true")
	}
	switch g.rng.IntN(17) {
	case 0:
		return g.number()
	case 1:
		return g.text()
	case 2, 3, 4:
		return g.variable()
	case 5, 6:
		return g.expr() + g.pick(" + ", " - ", " * ", " / ", " % ", " ^ ") + g.expr()
	case 7:
		return g.expr() + " .. " + g.expr()
	case 8:
		return "(" + g.expr() + g.pick(" == ", " ~= ", " < ", " <= ", " > ", " >= ") + g.expr() + ")"
	case 9:
		return g.expr() + g.pick(" and ", " or ") + g.expr()
	case 10:
		return g.pick("-", "not ", "#") + g.operand()
	case 11:
		return "{" + g.list(3) + g.pick("", ", k = "+g.expr(), ", ["+g.expr()+"] = 1") + "}"
	case 12, 13:
		return g.call()
	case 14:
		saved := g.vararg
		g.vararg = false
		body := "(function(p, q) return " + g.expr() + g.pick("", ", p") + " end)"
		g.vararg = saved
		return body + "(" + g.list(2) + ")"
	case 15:
		if g.vararg {
			return g.pick("(...)", "select('#', ...)")
		}
	}
	return "(" + g.expr() + ")"
}

func (g *generator) operand() string { return "(" + g.expr() + ")" }

func (g *generator) list(n int) string {
	var parts []string
	for range g.rng.IntN(n + 1) {
		parts = append(parts, g.expr())
	}
	return strings.Join(parts, ", ")
}

func (g *generator) call() string {
	if g.funcs > 0 && g.rng.IntN(3) == 0 {
		return fmt.Sprintf("f%d(%s)", g.rng.IntN(g.funcs), g.list(3))
	}
	e := g.expr
	switch g.rng.IntN(30) {
	case 0:
		return "tostring(" + e() + ")"
	case 1:
		return "tonumber(" + e() + g.pick("", ", 10", ", 16", ", 2", ", 36") + ")"
	case 2:
		return "type(" + e() + ")"
	case 3:
		return "select(" + e() + ", " + e() + ", " + e() + ")"
	case 4:
		return "pcall(function() return " + g.pure() + " end)"
	case 5:
		return "string.sub(" + e() + ", " + e() + ", " + e() + ")"
	case 6:
		return "string.find(" + e() + ", " + g.pattern() + g.pick("", ", "+e(), ", 1, true") + ")"
	case 7:
		return "string.match(" + e() + ", " + g.pattern() + ")"
	case 8:
		return "string.gsub(" + e() + ", " + g.pattern() + ", " + g.pick(`"%1"`, `"<%0>"`, "t", "string.upper", e()) + ")"
	case 9:
		return "string.format(" + g.format() + ", " + e() + ", " + e() + ")"
	case 10:
		return "string.rep(" + e() + ", " + g.pick("0", "3", "-1", "2.7") + ")"
	case 11:
		return "string.byte(" + e() + ", " + g.pick("1", "-1", "1, -1", e()) + ")"
	case 12:
		return "table.concat(" + g.pick("t", e()) + ", " + g.pick(`","`, e()) + ")"
	case 13:
		return "unpack(" + g.pick("t", "{1, nil, 3}", e()) + ")"
	case 14:
		return "math." + g.pick("floor", "ceil", "abs", "sqrt", "max", "min", "fmod", "modf", "frexp") + "(" + e() +
			", " + e() + ")"
	case 15:
		return "rawget(" + e() + ", " + e() + ")"
	case 16:
		return "rawequal(" + e() + ", " + e() + ")"
	case 17:
		return "next(" + g.pick("{}", "{5}", "t", e()) + ")"
	case 18:
		return "string." + g.pick("upper", "lower", "len", "reverse") + "(" + e() + ")"
	case 19:
		return "(" + g.variable() + "):" + g.pick("upper", "len", "rep", "missing") + "(" + g.pick("", "2") + ")"
	case 20:
		return "coroutine.wrap(function(...) local x = coroutine.yield(" + g.pure() + ") return x end)(" + g.list(2) + ")"
	case 21:
		return "select(2, pcall(error, " + e() + g.pick("", ", 0", ", 2") + "))"
	case 22:
		return "xpcall(function() return " + g.pure() + " end, function(m) return " +
			g.pick("m", "'h'", "m .. 'x'", "error(m)") + " end)"
	case 23:
		return "loadstring(" + g.pick(`"return 1"`, `"return ..."`, `"x ="`, `"return t.x.y"`, e()) + ")"
	case 24:
		return "setmetatable({}, {" + g.metamethods() + "})"
	case 25:
		return "string.char(" + g.pick("65, 66", "0", "300", e()) + ")"
	case 26:
		return "assert(" + g.list(2) + ")"
	case 27:
		return "table.getn(" + g.pick("t", e()) + ")"
	case 28:
		return "table.remove(" + g.pick("t", "{1, 2}", "t, 1") + ")"
	}
	return "math.floor(" + e() + ")"
}

// pure returns an expression without "...".
func (g *generator) pure() string {
	saved := g.vararg
	g.vararg = false
	defer func() { g.vararg = saved }()
	return g.expr()
}

func (g *generator) pattern() string {
	return g.pick(`"a"`, `"."`, `"%a+"`, `"(%w)(%w)"`, `"%s*"`, `"()"`, `"[a-c]"`, `"[^,]*"`, `"^h"`, `"o$"`,
		`"%b()"`, `"%f[%w]%w+"`,
		`"(.)%1"`, `"(a"`, `"%"`, `"[a"`, `"l-o"`, `"x*y?"`, `"(.-),"`, `"%d+"`, `"[%]]"`, `"%1"`, `"a)"`)
}

func (g *generator) format() string {
	return g.pick(`"%d %s"`, `"%5.2f|%-8s|"`, `"%x %X"`, `"%q%s"`, `"%g %e"`, `"%c%i"`, `"%05d %+d"`, `"%.3s %10s"`,
		`"%o %u"`, `"%%%s"`,
		`"%#x %#o"`, `"% d %5.1g"`, `"%s"`, `"%y"`, `"%10.4f%s"`, `"%-5d|%s"`, `"%G %E"`, `"%"`,
		`"%.0f %.14g"`, `"%.20s %5%"`)
}

func (g *generator) block(n int, extra ...string) {
	kept := len(g.locals)
	g.locals = append(g.locals, extra...)
	g.depth++
	for range 1 + g.rng.IntN(n) {
		g.statement()
	}
	g.depth--
	g.locals = g.locals[:kept]
}

// statement writes one statement. Two of three are guarded, so that a failure does not end the program.
func (g *generator) statement() {
	if g.depth > 0 || g.rng.IntN(3) == 0 {
		g.bare()
		return
	}
	saved, kept, funcs := g.vararg, len(g.locals), g.funcs
	g.vararg = false
	g.line("print(pcall(function()")
	g.depth++
	g.bare()
	g.depth--
	g.line("end))")
	g.vararg, g.locals, g.funcs = saved, g.locals[:kept], funcs
}

func (g *generator) bare() {
	if g.depth > 3 {
		g.line("%s = %s", g.variable(), g.expr())
		return
	}
	switch g.rng.IntN(20) {
	case 0, 1, 2:
		g.line("%s = %s", g.variable(), g.expr())
	case 3:
		g.line("%s, %s = %s, %s", g.variable(), g.variable(), g.expr(), g.expr())
	case 4:
		name := fmt.Sprintf("v%d", len(g.locals))
		g.line("local %s = %s", name, g.expr())
		g.locals = append(g.locals, name)
	case 5, 6:
		g.line("print(%s)", g.expr())
	case 7:
		g.line("if %s then", g.expr())
		g.block(2)
		if g.rng.IntN(2) == 0 {
			g.line("elseif %s then", g.expr())
			g.block(2)
		}
		if g.rng.IntN(2) == 0 {
			g.line("else")
			g.block(2)
		}
		g.line("end")
	case 8, 9:
		g.line("for i = %s do", g.pick("1, 3", "3, 1, -1", "1, 2, 0.5", "1, '4'", "10, 1", "1, #s", "'x', 2"))
		g.block(2, "i")
		if g.rng.IntN(4) == 0 {
			g.line("if %s then break end", g.expr())
		}
		g.line("end")
	case 10:
		g.line("for k, v in %s do", g.pick("ipairs(t)", "pairs({5, 6})", "string.gmatch(s, '%w')", "next, {1}", "5",
			"coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i, s) end end)"))
		g.block(2, "v")
		g.line("end")
	case 11:
		g.loops++
		name := fmt.Sprintf("n%d", g.loops)
		g.line("local %s = 0", name)
		if g.rng.IntN(2) == 0 {
			g.line("while %s < 3 do", name)
			g.block(2)
			g.line("%s = %s + 1 end", name, name)
		} else {
			g.line("repeat %s = %s + 1", name, name)
			g.block(2)
			g.line("local function up() return %s end until up() > 2 or %s", name, g.pick("nil", "false", name+" > 1"))
		}
	case 12, 13:
		if g.depth > 0 {
			g.line("do")
			g.block(2)
			g.line("end")
			return
		}
		name := fmt.Sprintf("f%d", g.funcs)
		saved := g.vararg
		g.vararg = g.rng.IntN(2) == 0
		dots := ""
		if g.vararg {
			dots = ", ..."
		}
		g.line("function %s(p, q%s)", name, dots)
		g.block(3, "p", "q")
		g.line("return %s", g.pick(g.expr(), "p, q", g.call(), ""))
		g.line("end")
		g.vararg = saved
		g.funcs++
	case 14:
		g.line("print(pcall(function() return %s end))", g.pure())
	case 15:
		g.line("table.sort({%s}%s)", g.list(5), g.pick("", ", function(x, y) return x > y end",
			", function(x, y) return true end",
			", function(x, y) return tostring(x) < tostring(y) end"))
	case 16:
		g.line("table.insert(t, %s)", g.pick(g.expr(), "1, 5", "9, 5", "2, "+g.expr()))
	case 17:
		name := fmt.Sprintf("c%d", g.loops)
		g.loops++
		g.line("local %s = coroutine.create(function(...) local x, y = ... local z = coroutine.yield(x) print(z, %s) "+
			"return y end)", name, g.pure())
		g.line("print(coroutine.resume(%s, %s, 2)) print(coroutine.resume(%s, %s)) print(coroutine.status(%s))",
			name, g.expr(), name, g.expr(), name)
	case 18:
		g.line("do local x, y = %s; print(x, y) end", g.expr())
	default:
		g.line("print(%s)", g.call())
	}
}
