local function f(...) return select('#', ...), ... end
print(f()) print(f(nil)) print(f(1, nil, nil)) print((f(1, 2)))
local t = {f(1, 2), f(3)} print(#t, unpack(t))
print(unpack({1, 2, nil, 4}, 1, 4))
local function g(a, b, ...) local x, y = ... return a, b, x, y, ... end
print(g(1)) print(g(1, 2, 3, 4, 5))
function old(a, ...) return arg.n, arg[1], arg[2] end
print(old(1, 2, 3)) print(old())
----
local fs = {}
for i = 1, 3 do local j = i * 2 fs[#fs + 1] = function() j = j + 1 return i + j end end
for i, f in ipairs(fs) do print(i, f(), f()) end
local a = {}
for i = 1, 5 do a[i] = function() i = i + 1 return i end if i == 3 then break end end
print(a[1](), a[1](), a[2](), a[3]())
local x = 0
repeat local y = x x = x + 1 local h = function() return y end until h() >= 3
print(x)
while true do local z = x local function q() return z end x = x + 1 if x > 6 then break end end
print(x)
----
print(1 < 2, 1 <= 1, 2 > 3, "a" < "b", "a\0b" < "a\0c", "" < "a", "Z" < "a", "10" < "9")
print(pcall(function() return 1 < "2" end))
print(pcall(function() return {} < {} end))
print(pcall(function() return nil < 1 end))
print(pcall(function() return true < false end))
print(pcall(function() return print < print end))
print(1 == 1.0, "1" == 1, nil == false, {} == {}, 0 == -0, 0/0 == 0/0)
print(2^10, 7 % 3, -7 % 3, 7 % -3, -7 % -3, 5.5 % 2, 1e308 * 10, -1e308 * 10, 0/0, -(0/0), 1 % 0, 2^0.5, 2^-1, (-8)^(1/3))
print("10" + 5, "0x10" + 0, " 3 " * "4", 10 .. 20, -"2", "1e1" / 2)
print(1e15, 1e14, 123456789012345, 0.1, 1/3, 100, 1e100, -1e-7, 5e-324, 1.7976931348623157e308, 2^53, 2^63, 1e15 + 0.5)
print(10 == "10", not nil, not 0, nil and 1, false or nil, 1 and 2, nil or "x")
print(#"abc", #{1, 2, 3}, -2 ^ 2, 2 ^ 3 ^ 2, 1 .. 2 == "12", "a" .. "b" .. "c" == "abc")
----
local t = setmetatable({}, {__index = function(t, k) return k .. "!" end, __newindex = function(t, k, v) rawset(t, k, v * 2) end,
 __call = function(self, ...) return "called", ... end, __len = function() return 42 end, __unm = function() return "neg" end,
 __tostring = function() return "TT" end, __concat = function(a, b) return type(a) .. "&" .. type(b) end})
print(t.foo) t.bar = 5 print(t.bar, rawget(t, "foo")) print(t(1, 2)) print(#t, -t, tostring(t)) print(t .. "x", "x" .. t, t .. t, 1 .. t)
print("a" .. "b" .. t .. "c" .. "d")
local mt = {}
for _, op in ipairs{"add", "sub", "mul", "div", "mod", "pow"} do mt["__" .. op] = function(a, b) return op .. type(a) .. type(b) end end
local o = setmetatable({}, mt)
print(o + 1, 1 - o, o * o, "x" / o, o % nil, o ^ "2")
local c = {}
c.__eq = function(a, b) return true end c.__lt = function(a, b) return a.v < b.v end
local p, q = setmetatable({v = 1}, c), setmetatable({v = 2}, c)
print(p == q, p ~= q, p < q, p <= q, p > q, p >= q, p == 1)
c.__le = function() return nil end
print(p <= q, p >= q)
print(pcall(function() return p < setmetatable({}, {__lt = function() end}) end))
print(pcall(function() return p < 1 end))
----
print(pcall(function() local t t.x = 1 end))
print(pcall(function() local t = {} t.x.y = 1 end))
print(pcall(function() undefinedglobal() end))
print(pcall(function() undefinedglobal.x() end))
print(pcall(function() local t = {} t.method() end))
print(pcall(function() local t = {} t:method() end))
print(pcall(function() local s = "x" s:nomethod() end))
print(pcall(function() local t = {} t[nil] = 1 end))
print(pcall(function() local t = {} t[0/0] = 1 end))
print(pcall(function() return {} .. "x" end))
print(pcall(function() local x = {} return "a" .. x end))
print(pcall(function() return 1 + nil end))
print(pcall(function() local a = "x" return a + 1 end))
print(pcall(function() return t.x + 1 end))
print(pcall(function() local up = nil return (function() return up.x end)() end))
print(pcall(function() local up = nil return (function() return up() end)() end))
print(pcall(function() return #nil end))
print(pcall(function() local n = 5 return #n end))
print(pcall(function() return -{} end))
print(pcall(function() for i = 1, "x" do end end))
print(pcall(function() for i = {}, 1 do end end))
print(pcall(function() for i = 1, 2, {} do end end))
print(pcall(function() for k in 5 do end end))
print(pcall(function() for k in nil do end end))
print(pcall(function() local a = {} ; (a.b.c)() end))
print(pcall(function() return a.b.c.d end))
print(pcall(function() string.rep() end))
print(pcall(function() ("x"):rep({}) end))
print(pcall(function() ("x").rep() end))
print(pcall(function() local r = string.rep r() end))
print(pcall(string.rep))
print(pcall(function() return string.rep("x", {}) end))
print(pcall(setmetatable, 1, 2))
print(pcall(function() setmetatable({}, 1) end))
print(pcall(function() error() end))
print(pcall(function() error(nil) end))
print(pcall(function() error({code = 1}) end))
print(pcall(function() error("msg", 0) end))
print(pcall(function() error("msg", 1) end))
print(pcall(function() error("msg", 2) end))
print(pcall(function() error("msg", 3) end))
print(pcall(function() error(42) end))
print(pcall(function() assert(false) end))
print(pcall(function() assert(nil, "custom") end))
print(pcall(function() assert(false, {}) end))
print(pcall(assert))
print(assert(1, 2, 3))
print(select('#', assert(true, nil)))
----
print(xpcall(function() error("x") end, function(m) return "handled " .. m end))
print(xpcall(function() return 1, 2 end, print))
print(xpcall(function() local x = nil; x() end, function(m) error("again") end))
print(xpcall(function() error({}) end, function(m) return type(m) end))
print(pcall(xpcall)) print(pcall(xpcall, print))
print(xpcall(error, function(m) return m end))
print(xpcall(function() error("x") end, nil))
print(xpcall(function() error("x") end, {}))
print(pcall(pcall)) print(pcall(pcall, error, "x")) print(pcall(pcall, nil))
print(select(2, pcall(function() local a = 1; a.b.c = 2 end)))
local function deep(n) if n == 0 then error("bottom") end deep(n - 1) end
print(pcall(deep, 10))
local function overflow() return 1 + overflow() end
print(pcall(overflow))
local function rec() pcall(rec) end
print(pcall(rec))
local depth = 0
local function nest() depth = depth + 1 local ok, e = pcall(nest) if not ok then return e end return e end
print(nest(), depth)
local function m() return setmetatable({}, {__index = function(t, k) return t[k + 1] end})[1] end
print(pcall(m))
print(string.gsub("x", "x", function() return string.gsub("y", "y", function() return nil end) end))
----
local co = coroutine.create(function(a, b)
  print(a, b) local c = coroutine.yield(a + b) print(c) local d, e = coroutine.yield(c * 2) print(d, e) return "end", 1 end)
print(coroutine.resume(co, 1, 2)) print(coroutine.status(co)) print(coroutine.resume(co, 10)) print(coroutine.resume(co, "x", "y"))
print(coroutine.status(co)) print(coroutine.resume(co)) print(coroutine.resume(co))
local w = coroutine.wrap(function() error("in wrap") end)
print(pcall(w)) print(pcall(w))
local w2 = coroutine.wrap(function() error({}) end) print(pcall(w2))
print(coroutine.resume(coroutine.create(function() error("e") end)))
print(coroutine.resume(coroutine.create(function() local x = nil; x.y = 1 end)))
print(pcall(coroutine.yield, 1))
print(pcall(coroutine.create, print)) print(pcall(coroutine.create)) print(pcall(coroutine.resume, 1)) print(pcall(coroutine.status))
local function gen(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) end
local s = 0 for i in gen(10) do s = s + i end print(s)
print(coroutine.resume(coroutine.create(function() return pcall(coroutine.yield, 1) end)))
print(coroutine.resume(coroutine.create(function() return setmetatable({}, {__index = function() coroutine.yield(1) end}).x end)))
print(coroutine.resume(coroutine.create(function() table.sort({3, 2, 1}, function(a, b) coroutine.yield() end) end)))
print(coroutine.resume(coroutine.create(function() for k in function() coroutine.yield(5) end do end end)))
local outer = coroutine.create(function()
  local inner = coroutine.create(function() print(coroutine.status(outer_co)) coroutine.yield(coroutine.running() ~= nil) end)
  print(coroutine.resume(inner)) print(coroutine.status(inner)) coroutine.yield() end)
outer_co = outer
print(coroutine.resume(outer)) print(coroutine.running())
local self_co
self_co = coroutine.create(function() return coroutine.resume(self_co) end)
print(coroutine.resume(self_co))
local tc = coroutine.wrap(function(...) return coroutine.yield(...) end)
print(tc(1, 2, 3)) print(tc(4, 5))
local function nestco(n) if n == 0 then return "deep" end return coroutine.wrap(nestco)(n - 1) end
print(pcall(nestco, 50))
print(pcall(nestco, 300))
local cl = coroutine.create(function() local v = 1 local f = function() v = v + 1 return v end coroutine.yield(f) print(v) end)
local _, ff = coroutine.resume(cl) print(ff(), ff()) coroutine.resume(cl) print(ff())
----
local t = {10, 20, 30, nil, 50, x = 1}
print(#t) t[#t + 1] = 60 print(#t)
local u = {} for i = 1, 20 do u[i] = i end for i = 1, 20, 2 do u[i] = nil end print(#u)
local v = {} v[1] = 1 v[2] = 2 v[4] = 4 print(#v) v[3] = 3 print(#v) v[5] = 5 v[7] = 7 print(#v)
local w = {n = 1, [1] = "a", [2] = "b", [3.5] = "c", [true] = "d", [-1] = "e"} 
for k, x in pairs(w) do print(k, x) end
local keys = {} for _, name in ipairs{"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "one", "two", "three"} do keys[name] = #name end
for k, x in pairs(keys) do print(k, x) end
keys.alpha = nil keys.iota = 3 keys.kappa = 4 for k, x in pairs(keys) do print(k, x) end
for k in pairs(keys) do keys[k] = nil end print(next(keys))
local m = {} for i = 1, 100 do m[i * 3] = i end local c = 0 for k, v in pairs(m) do c = c + k * v end print(c, #m)
for k, v in pairs(m) do if k < 30 then print(k, v) end end
print(next({}), next({1}), pcall(next, {}, "nokey")) print(pcall(next)) print(rawequal(t, t), rawget(t, 1), rawset(t, 1, 5) == t, t[1])
local big = {} for i = 10, 1, -1 do big[i] = i end print(#big) for k, v in pairs(big) do io_ = (io_ or "") .. k .. " " end print(io_)
local z = {1, 2, 3, [2] = "x", [4] = 4} print(z[2], #z)
local q = {(function() return 1, 2, 3 end)()} print(#q)
local q2 = {(function() return 1, 2, 3 end)(), 10} print(#q2)
local nested = {a = {b = {c = {d = "deep"}}}} print(nested.a.b.c.d, nested["a"]["b"].c["d"])
----
goto_ = 1 print(goto_) local a <= 3
----
x = = 2
----
for i = 1 do end
----
local function f( return end
----
print("unfinished
----
print([[unfinished
----
x = 5 5
----
return return
----
break
----
local x = 1 = 2
----
f() = 1
----
a.b:c = 1
----
if x then
print(1)
----
x = }
----
x = "\300"
----
x = 0x
----
x = 1e
----
x = 1..2
----
x = 3x
----
x = [==[ a ]=] ]==] print(x) --[[ comment ]] print(1) --[==[ x
]==] print(2) -- end
----
x = [[ [[ ]] ]]
----
x = '\065\10\
newline\z' print(x)
----
return ...
----
local function f() return ... end
----
f
(1)
----
print((("x"):rep(3)), #"\0\0", "a\0b", ("%s"):format("q"))
----
local t = {} function t.a.b() end
----
local t = {a = {}} function t.a.b(x) return x end function t.a:c(y) return self == t.a, y end print(t.a.b(1), t.a:c(2))
----
local function f(n) if n > 0 then return f(n - 1) end return "done", error_here() end print(pcall(f, 100))
----
local a, b, c = (function() return 1, 2 end)() print(a, b, c) local i, t = 1, {} i, t[i] = i + 1, 20 print(i, t[1], t[2])
local x, y = 1, 2 x, y = y, x print(x, y) local a = {1, 2} local j = 1 j, a[j], a[j + 1] = 2, "p", "q" print(j, a[1], a[2])
do local a = a print(a[1]) a = 5 end print(a[1])
----
setfenv(1, {print = print, pcall = pcall}) print(x) x = 1 print(x) print(pcall(function() return y.z end))
----
local f = function() return v end setfenv(f, {v = "env"}) print(f(), getfenv(f).v, pcall(setfenv, print, {}), pcall(getfenv, 50), pcall(setfenv, 1))
print(pcall(getfenv, -1)) print(getfenv() == _G, getfenv(0) ~= nil)
local function lvl() return getfenv(2) == getfenv(1) end print(lvl())
----
print(loadstring("return 1 +")) print(loadstring("return 1, 2")()) print(loadstring("x =", "chunk")) print(loadstring("x =", "=chunk")) print(loadstring("x =", "@file"))
print(pcall(loadstring("error('in chunk')", "=mychunk"))) print(pcall(loadstring("error('e')", "line1\nline2")))
print(pcall(loadstring("local x = nil; x()", "a very long chunk name that goes on and on and on and on until it must be cut")))
print(pcall(loadstring("error('e')", "@a/very/long/file/name/that/goes/on/and/on/and/on/and/on/until/it/must/be/cut.lua")))
local parts = {"return ", "1 ", "+ 2", nil} local i = 0 print(load(function() i = i + 1 return parts[i] end)())
print(load(function() return 1 > 2 end)) print(load(function() error("rd") end)) print(pcall(load, 1)) print(load(function() return nil end))
print(load(function() return {} end, "=n"))
