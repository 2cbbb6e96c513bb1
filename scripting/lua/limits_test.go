package lua

import (
	"fmt"
	"strings"
	"testing"
)

// limitPrograms returns programs that reach the limits of the compiler and of the instructions' operands.
func limitPrograms() []string {
	rep := strings.Repeat
	join := func(n int, format, separator string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(parts, separator)
	}
	programs := []string{
		"local " + join(200, "a%d", ", ") + " = 1 print(a0, a199)",
		"local " + join(201, "a%d", ", "),
		"function f() local " + join(201, "a%d", ", ") + " end",
		"local " + join(61, "a%d", ", ") + " function f() return " + join(60, "a%d", ", ") + " end print(f())",
		"local " + join(61, "a%d", ", ") + "\nfunction f() return " + join(61, "a%d", ", ") + " end",
		"return " + rep("(", 190) + "1" + rep(")", 190),
		"return " + rep("(", 300) + "1" + rep(")", 300),
		"return " + rep("{", 150) + rep("}", 150),
		"return " + rep("{", 300) + rep("}", 300),
		rep("do ", 150) + rep("end ", 150),
		rep("do ", 250) + rep("end ", 250),
		"local x = " + rep("-", 1) + rep("not ", 250) + "1",
		"return " + rep("function() return ", 90) + "1" + rep(" end", 90),
		"return f(" + join(240, "%d", ", ") + ")",
		"return f(" + join(260, "%d", ", ") + ")",
		"print(select('#', " + join(245, "%d", ", ") + "))",
		"print(" + join(150, "'%d'", " .. ") + ")",
		"local a = " + join(260, "(%d", " .. ") + rep(")", 260),
		join(210, "a%d", ", ") + " = 1",
		join(190, "a%d", ", ") + " = 1, 2 print(a0, a1, a189)",
		"local t = {" + join(300, "%d", ", ") + "} print(#t, t[1], t[300])",
		"local t = {" + join(600, "%d", ", ") + ", (function() return 1, 2, 3 end)()} print(#t, t[600], t[603])",
		"local t = {" + join(26000, "%d", ", ") + "} print(#t, t[25551], t[26000])",
		"local t = {" + join(30000, "%d", ",") + ", n = 1, ...} print(#t, t[30000])",
		"local t = {" + join(400, "k%d = 'v%[1]d'", ", ") +
			"} print(t.k0, t.k399, t.k255, t.k256) for k, v in pairs(t) do print(k, v) end",
		"local t = {} " + join(700, "t.f%d = 'v%[1]d' ", "") +
			" print(t.f255 .. t.f256 .. t.f699, t.f300 == 'v300', t.f300 < 'v', t.f600:upper())",
		"local t = {} " + join(300, "t.f%d = 'v%[1]d' ", "") +
			" local n = nil print(pcall(function() return n.x end)) print(n.f299)",
		join(300, "g%d = %[1]d ", "") +
			" print(g299 + 0.5, 0.75 - g299, 0.125 * 2 == g1, g5 < 0.375, g5 <= 1.375, 7.5 < g9) undefined.x = 1",
		join(300, "g%d = 'w%[1]d' ", "") + " local function f() return g1 end print(('x'):rep(3), f:missing())",
		join(70000, "x = %d.5\n", "") +
			" print(x) x = 'last' print(x, glob, y == nil) glob = 5 print(glob + 1) print(undefinedname.x)",
		"local s = 0 for i = 1, 3 do " + rep("s = s + 1 ", 12000) + " end print(s)",
		"local s, i = 0, 0 while i < 3 do i = i + 1 " + rep("s = s + 1 ", 20000) + " end print(s) repeat i = i - 1 " +
			rep("s = s - 1 ", 9000) +
			" until i == 0 print(s)",
		"local s = 0 for k in pairs({1, 2}) do " + rep("s = s + 1 ", 40000) + " end print(s)",
		"local i = 0 while i < 3 do i = i + 1 " + rep("s = 1 ", 70000) + " end",
		"if x then " + rep("s = 1 ", 70000) + " end",
		rep("if x == 1 then y = 1 else", 150) + "if x then end print(y)",
		"local f = function() " + rep("local a = 1 do local b = a end ", 100) + " end f() print('ok')",
		"print(" + rep("a and b or ", 200) + " 5)",
		rep("local function f() ", 60) + "x.y = 1" + rep(" end", 60) + " f()",
		rep("function f() ", 198) + rep(" end", 198),
		rep("function f() ", 202) + rep(" end", 202),
		`print(pcall(string.find, "x", string.rep("(", 33)))`,
		`print(pcall(string.rep("x", 100).find, string.rep("a", 16), string.rep("a?", 16) .. string.rep("a", 16)))`,
		`print(#string.rep("abc", 100000), #table.concat({string.rep("x", 1000), string.rep("y", 1000)}, ","))`,
		`local t = {} for i = 1, 300 do t[i] = i end print(select("#", unpack(t)), (select(300, unpack(t)))) print(pcall(string.char, unpack(t)))`,
		`local t = {} for i = 1, 250 do t[i] = "x" end print(#string.char(unpack({65, 66, 67})), math.max(unpack({1, 5, 3})), #table.concat(t))`,
		`local function f(...) return select("#", ...) end local t = {} for i = 1, 5000 do t[i] = i end print(f(unpack(t))) print(pcall(f, unpack(t)))`,
		`print(pcall(string.byte, string.rep("x", 9000), 1, -1)) print(select("#", string.byte(string.rep("x", 7000), 1, -1)))`,
		`local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end print(f(15000)) print(pcall(f, 1e6))`,
		`local function f(n) if n == 0 then return 0 end return f(n - 1) end print(f(100000))`,
		`local t = {} for i = 1, 150 do t = setmetatable({}, {__index = t}) end print(pcall(function() return t.x end))`,
		`local t = {} setmetatable(t, {__index = t, __newindex = t}) print(pcall(function() return t.x end)) print(pcall(function() t.x = 1 end))`,
		`local s = string.rep("x", 70) print(loadstring("x =", s)) print(loadstring("x =", "@" .. s)) print(loadstring("x =", "=" .. s .. s))
			print(loadstring(s .. s .. " = = 1"))`,
	}
	return programs
}

func TestLimitsAgainstLua(t *testing.T) {
	needOracle(t)
	compareAll(t, limitPrograms(), slices)
}

// TestCodeBytes: code is counted once, even if several values lead to it. A chunk without references is not counted.
func TestCodeBytes(t *testing.T) {
	size := func(source string) int {
		t.Helper()
		r := runScript("=x", source, func() int { return 1 << 20 })
		if r.status != Done {
			t.Fatal(r.state.Err())
		}
		return CodeBytes(r.state.Results()...)
	}
	one := size("return function() return 1 end")
	if one == 0 {
		t.Fatal("a function of no size")
	}
	for source, want := range map[string]int{
		"local x = 'a long text that is code of the chunk only' return function() return 1 end": one,
		"local f = function() return 1 end return f, f, {f, {f}}":                               one,
		"return {[function() return 1 end] = function() return 1 end}":                          2 * one,
		"return setmetatable({}, {__index = function() return 1 end})":                          one,
		"f = function() return 1 end return 1, 'x', string.len":                                 0,
	} {
		if got := size(source); got != want {
			t.Errorf("%s: %d bytes, want %d", source, got, want)
		}
	}
	both := size("local f = function() return 1 end return function() return f end")
	if own := size("local f = 1 return function() return f end"); both != own+one {
		t.Errorf("a function and its upvalue: %d bytes, want %d", both, own+one)
	}
	if held := size("return function() return function() return 1 end end"); held <= one {
		t.Errorf("a function in another: %d bytes", held)
	}
}
