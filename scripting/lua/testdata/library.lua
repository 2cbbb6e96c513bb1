print(tostring(nil), tostring(true), tostring(12), tostring("x"), tostring(1e20), tostring(-0.0)) print(pcall(tostring))
print(tonumber("10"), tonumber("0x1F"), tonumber("  12  "), tonumber("1e3"), tonumber("abc"), tonumber(""), tonumber(" "), tonumber("1 2"), tonumber("0x"), tonumber("1e"), tonumber("."), tonumber(".5"), tonumber("5."))
print(tonumber("inf"), tonumber("nan"), tonumber("-inf"), tonumber("infinity"), tonumber("0x1p4"), tonumber("0x.8"), tonumber("1_000"), tonumber("10", 2), tonumber("zz", 36), tonumber("8", 8), tonumber("ff", 16), tonumber("0xff", 16), tonumber("-ff", 16), tonumber(" 11 ", 2), tonumber("1e1", 16))
print(tonumber({}), tonumber(nil), pcall(tonumber)) print(pcall(tonumber, "1", 1)) print(pcall(tonumber, "1", 37)) print(pcall(tonumber, {}, 10)) print(pcall(tonumber, {}, 2)) print(tonumber("7fffffffffffffff", 16), tonumber("ffffffffffffffffff", 16), tonumber(10, 16), tonumber("1.5", 10), tonumber("9007199254740993"))
print(type(nil), type(1), type("x"), type({}), type(print), type(function() end), type(coroutine.create(function() end)), pcall(type))
print(select(1, "a", "b"), select(-1, "a", "b"), select("#"), select("#", nil, nil), select(2, "a"), pcall(select, 0), pcall(select, -5, 1), pcall(select, "x"))
print(pcall(unpack)) print(pcall(unpack, {}, 1, 1e7)) print(unpack({}, 1, 3)) print(unpack({1, 2, 3}, 2)) print(unpack({1, 2, 3}, -1, 1)) print(pcall(unpack, {}, 1, 8000)) print(select('#', unpack({}, 1, 7000)))
print(pcall(ipairs)) print(pcall(pairs, 1)) print(pcall(rawget, 1, 2)) print(pcall(rawset, {}, nil, 1)) print(pcall(rawset, {}, 0/0, 1)) print(pcall(rawequal, 1)) print(pcall(getmetatable)) print(getmetatable("x").__index == string)
print(getmetatable(setmetatable({}, {__metatable = "locked"})), pcall(setmetatable, setmetatable({}, {__metatable = 1}), {})) print(pcall(setmetatable, {})) print(_VERSION)
----
print(("hello"):sub(2, 3), ("hello"):sub(-3), ("hello"):sub(2), ("hello"):sub(0), ("hello"):sub(10), ("hello"):sub(-100, 2), ("hello"):sub(3, 2), ("hello"):sub(2, -2), ("x"):sub(1, 1e10), ("x"):sub(-1e10, 1))
print(("abc"):byte(), ("abc"):byte(2), ("abc"):byte(-1), ("abc"):byte(1, -1), ("abc"):byte(10), ("abc"):byte(0), (""):byte()) print(string.char(72, 105), string.char(), pcall(string.char, 256), pcall(string.char, -1), pcall(string.char, "x"))
print(("abc"):rep(3), ("abc"):rep(0), ("abc"):rep(-1), (""):rep(100), ("x"):rep(2.9), pcall(string.rep, "x")) print(("abc"):upper(), ("ABC"):lower(), ("abc"):reverse(), ("abc"):len(), #"abc") print((5):type())
----
print(("hello world"):find("wor"), ("hello"):find("l"), ("hello"):find("xyz"), ("hello"):find(""), ("hello"):find("", 10), ("hello"):find("l", -2), ("a.b"):find(".", 1, true), ("a+b"):find("+", 1, true), ("hello"):find("(l)(l)"), ("hello"):find("()ll()"))
print(("key = value"):match("^(%w+)%s*=%s*(%w+)$"), ("2024-01-15"):match("(%d+)-(%d+)-(%d+)"), ("  trim  "):match("^%s*(.-)%s*$"), ("abc"):match(".-"), ("abc"):match("a(.*)c"), ("f(a(b)c)d"):match("%b()"), ("THE (quick) fox"):find("%((%a+)%)"))
print(("hello"):gsub("l", "L"), ("hello"):gsub("l", "L", 1), ("hello"):gsub("", "-"), ("abc"):gsub("%w", "%0%0"), ("abc def"):gsub("(%w+) (%w+)", "%2 %1"), ("hello"):gsub("l", {l = "1"}), ("hello"):gsub(".", {h = 1, e = true, l = false}))
print(pcall(string.gsub, "x", "x", {x = {}})) print(pcall(string.gsub, "x", "x", {x = true})) print(("abc"):gsub("b", function(c) return nil end)) print(("abc"):gsub("(a)(b)", function(a, b) return b .. a end)) print(pcall(string.gsub, "x", "(", "")) print(pcall(string.gsub, "x", ")", "")) print(pcall(string.gsub, "x", "%", "")) print(pcall(string.gsub, "x", "[x", "")) print(pcall(string.gsub, "x", "x", "%2")) print(pcall(string.gsub, "x", "(x", "%1")) print(pcall(string.gsub, "x", "%b", "")) print(pcall(string.gsub, "x", "%f", ""))
print(("hello world from lua"):gsub("%w+", string.upper)) print(("$name is $age"):gsub("%$(%w+)", {name = "Bob", age = 42})) print(("abc"):gsub("", "")) print(("x^2"):gsub("%^", "**")) print(("THE (quick) fox"):gsub("%f[%a]%a+", "W")) print(("aaa"):gsub("a-", "x")) print(("abc"):gsub("%w", "%%")) print(("a\0b"):gsub("%z", "0")) print(pcall(string.gsub, "x", "x")) print(pcall(string.gsub, "x", "x", nil)) print(("abc"):gsub("^a", "x")) print(("aaa"):gsub("^a", "x")) print(("abc"):gsub("c$", "x")) print(("a$c"):gsub("a$c", "x")) print(("abc"):gsub(".", "%1"))
for k, v in string.gmatch("a=1, b=2, c=3", "(%w+)=(%w+)") do print(k, v) end for w in ("one two three"):gmatch("%a+") do print(w) end for p in ("abc"):gmatch("()") do print(p) end for w in ("^a^a"):gmatch("^a") do print(w) end print(pcall(string.gmatch, "x"))
print(("x"):rep(300):find(("x?"):rep(20) .. ("x"):rep(20))) print(("aXb"):find("%u"), ("a1"):find("%d"), ("a b"):find("%s"), ("a,b"):find("%p"), ("a\1b"):find("%c"), ("ag"):find("%X"), ("[]"):find("[]]"), ("a-b"):find("[a%-]", 2), ("a^"):find("[%^]"), ("b"):find("[^a]"), ("]"):find("[^]]"), ("-"):find("[a-]"), ("é"):find("[\128-\255]+"))
print(("abcabc"):find("(a)(b)(c)%1%2%3"), pcall(string.find, "x", "%1"), pcall(string.find, "x", "(%1)"), ("aa"):find("(a)%1"), pcall(string.find, "a", ("(a"):rep(33) .. (")"):rep(33)), ("abc"):match("((a)(b))"), ("abc"):find("b", -1), ("abc"):find("b", -10))
----
print(string.format("%d %5d %-5d| %05d %+d % d %i", 1, 2, 3, 4, 5, 6, 7.9)) print(string.format("%x %X %#x %o %u %#o", 255, 255, 255, 8, 42, 8)) print(string.format("%x", -1)) print(string.format("%d", -1.5), string.format("%d", 2^53), string.format("%d", 1e300), string.format("%d", "10"), string.format("%u", -1), string.format("%u", 1e19), string.format("%x", 2^64), string.format("%d", 0/0))
print(string.format("%f %.2f %10.3f|%-10.1f| %e %.0e %g %g %g %g %G", 1.5, 2.345, 3.14159, 2.5, 12345.678, 5e10, 0.1, 1e20, 1e-10, 100000, 1e-10)) print(string.format("%5s|%-5s|%.2s|%5.1s|%s", "ab", "ab", "abc", "xyz", 12)) print(string.format("%q", 'a "quoted"\n\\ \0 \r string')) print(string.format("%c%c%c", 72, 105, 33)) print(string.format("%%")) print(string.format("%g %g %g %g", 1/0, -1/0, 0/0, -(0/0))) print(string.format("%5.1f|%05.1f|%+.1f|% .1f|%#.0f|%.0f", 1.25, 1.25, 1.25, 1.25, 1, 0.5)) print(string.format("%.3g|%#.3g|%10.3g|%-10.3g|%g", 1, 1, 1234567, 0.00001234, 123456789)) print(string.format("%.14g %.17g %.20f %.99f", 0.1, 0.1, 0.1, 1/3)) print(string.format("%.3d|%8.3d|%-8.3d|%+.3d", 5, 5, 5, 5)) print(string.format("%#x %#X %#o %x", 0, 255, 0, 0)) print(string.format("%.0d|%.0x", 0, 0)) print(string.format("%010d|%+05d|%-+5d|%x", -42, 42, 42, 3735928559)) print(string.format("%s %s %s", 1, "a", 1.5)) print(string.format("%s", ("x"):rep(200))) print(string.format("%10s", ("y"):rep(120))) print(string.format("%s|%5s|%c|", "a\0b", "c\0d", 0)) print(string.format("%20.10s|", ("z"):rep(120)))
print(pcall(string.format, "%d")) print(pcall(string.format, "%d", "x")) print(pcall(string.format, "%y", 1)) print(pcall(string.format, "%s", nil)) print(pcall(string.format, "%s", {})) print(pcall(string.format, "%123d", 1)) print(pcall(string.format, "%.123d", 1)) print(pcall(string.format, "%-+ #0-d", 1)) print(pcall(string.format, "%", 1)) print(pcall(string.format)) print(pcall(string.format, "%*d", 1, 2)) print(pcall(string.format, "%ld", 1)) print(pcall(string.format, "%s %s", 1)) print(pcall(string.format, "%d", {})) print(string.format("%5c|%-5c|", 65, 66)) print(string.format("%i", 3.99), string.format("%05s|", "ab"), string.format("%+s|% s|%#s", "a", "b", "c"))
----
local t = {5, 2, 8, 1, 9, 3} table.sort(t) print(table.concat(t, " ")) table.sort(t, function(a, b) return a > b end) print(table.concat(t, " ")) local s = {"banana", "apple", "Cherry"} table.sort(s) print(table.concat(s, ","))
print(pcall(table.sort, {1, "x", 2})) print(pcall(table.sort, {3, 1, 2}, function() return true end)) print(pcall(table.sort, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, function() return true end)) print(pcall(table.sort, {{}, {}})) print(pcall(table.sort, 1)) print(pcall(table.sort, {}, 1)) print(pcall(table.sort, {1, 2}, function() error("cmp") end)) local log = {} table.sort({4, 3, 2, 1, 7, 5, 6, 9, 8, 0}, function(a, b) log[#log + 1] = a .. "<" .. b return a < b end) print(table.concat(log, " "))
local r = {} for i = 1, 100 do r[i] = (i * 7919) % 101 end table.sort(r) print(table.concat(r, ",")) local o = setmetatable({}, {__lt = function(a, b) return a.v < b.v end}) local objs = {} for i = 1, 5 do objs[i] = setmetatable({v = (i * 3) % 5}, getmetatable(o)) end table.sort(objs) for i = 1, 5 do print(objs[i].v) end
print(table.concat({}), table.concat({1, 2, 3}, ", "), table.concat({1, 2, 3}, "-", 2), table.concat({1, 2, 3}, "-", 2, 3), table.concat({1, 2, 3}, "-", 3, 2), pcall(table.concat, {1, {}, 3})) print(pcall(table.concat, {1, 2}, ",", 1, 5)) print(pcall(table.concat)) print(table.concat({1.5, "x", 1e20}))
local q = {} table.insert(q, "a") table.insert(q, 1, "b") table.insert(q, 2, "c") table.insert(q, 10, "far") print(#q, q[1], q[2], q[3], q[10]) print(table.remove(q, 1), table.remove(q), table.remove({}), table.remove({1, 2, 3}, 2), table.remove({1, 2}, 5)) print(pcall(table.insert, {})) print(pcall(table.insert, {}, 1, 2, 3)) print(pcall(table.insert, 1, 2)) print(pcall(table.insert, {}, "x", 1)) print(table.getn({1, 2, 3}), table.maxn({1, 2, [10] = 3, [2.5] = 1}), pcall(table.setn, {}, 1)) table.foreach({1, 2, x = 3}, print) print(table.foreachi({5, 6, 7}, function(i, v) if i == 2 then return v end end)) print(table.foreach({a = 1}, function(k, v) return k end)) print(table.remove({n = 1}, 1))
local e = {} for i = 1, 10 do e[i] = i end table.remove(e, 1) table.remove(e, 5) print(table.concat(e, " "), #e) table.insert(e, 5, "x") print(table.concat(e, " "), #e)
----
print(math.floor(1.5), math.floor(-1.5), math.ceil(1.5), math.ceil(-1.5), math.abs(-3), math.sqrt(16), math.pi, math.huge, -math.huge, math.max(1, 5, 3), math.min(4, 2, 8), math.fmod(7, 3), math.fmod(-7, 3), math.mod(7, 3), math.modf(3.7), math.modf(-3.7), math.modf(5), math.modf(1/0), math.frexp(8), math.frexp(0), math.ldexp(0.5, 4))
print(math.sin(1), math.cos(1), math.tan(1), math.asin(0.5), math.acos(0.5), math.atan(1), math.atan2(1, 2), math.exp(1), math.log(10), math.log10(1000), math.pow(2, 10), math.sinh(1), math.cosh(1), math.tanh(1), math.deg(math.pi), math.rad(180)) print(pcall(math.floor)) print(pcall(math.floor, "x")) print(math.floor("3.7")) print(pcall(math.max)) print(pcall(math.min, 1, {})) print(math.fmod(1, 0), math.fmod(1, 1/0), math.pow(0, 0), math.sqrt(-1), math.log(0), math.log(-1), math.max(0/0, 1), math.max(1, 0/0))
for i = -5, 5 do print(i ^ 2, 2 ^ i, 10 ^ i, i ^ 3, i % 3, i / 3, 1.1 ^ i) end print(3 ^ 0.5, 10 ^ 0.1, 7 ^ 20, 1.5 ^ 100, 0.9 ^ 1000, 2 ^ 1023, 2 ^ 1024, 2 ^ -1074, 2 ^ -1080, (-2) ^ 3, (-2) ^ 0.5, 0 ^ -1, (1/0) ^ 0, 1 ^ (1/0), 5 ^ 400, 99999 ^ 3)
for _, s in ipairs{"1e309", "-1e309", "1e-400", "0x7fffffffffffffff", "0xffffffffffffffffff", "1e", "e1", "+5", "- 5", "--5", "0b1", "1.2.3", "nan", "NAN", "-nan", "inFinity", "0X1P-2", "0x1.8", "0x.p1", " \t\n5\v\f\r ", "5\0", "1e+5", "1E5", "0e0", "00012", "1d"} do print(s, tonumber(s)) end
----
-- a class with inheritance
local Account = {} Account.__index = Account
function Account.new(b) return setmetatable({balance = b}, Account) end
function Account:deposit(v) self.balance = self.balance + v end
function Account:withdraw(v) if v > self.balance then error("insufficient funds") end self.balance = self.balance - v end
local S = setmetatable({}, {__index = Account}) S.__index = S
function S.new(b, l) local o = Account.new(b) o.limit = l return setmetatable(o, S) end
function S:withdraw(v) if v - self.balance >= self.limit then error("over limit", 2) end self.balance = self.balance - v end
local a, s = Account.new(100), S.new(50, 100) a:deposit(10) s:deposit(5) print(a.balance, s.balance) print(pcall(a.withdraw, a, 1000)) print(pcall(function() s:withdraw(1000) end)) s:withdraw(100) print(s.balance) print(pcall(function() a:missing() end)) print(pcall(function() a.x.y() end)) print(pcall(Account.deposit))
----
-- a queue of jobs, as scripts of job servers have them
local function move(list, from, to) local moved = {} for i, job in ipairs(list) do if job.state == from then job.state = to moved[#moved + 1] = job.id end end return moved end
local jobs = {} for i = 1, 12 do jobs[i] = {id = "job:" .. i, state = i % 3 == 0 and "delayed" or "wait", opts = {attempts = i}} end
print(table.concat(move(jobs, "delayed", "active"), ",")) print(#move(jobs, "wait", "done")) local seen = {} for _, j in ipairs(jobs) do seen[j.state] = (seen[j.state] or 0) + j.opts.attempts end for _, k in ipairs{"active", "done"} do print(k, seen[k]) end
local key = "bull:queue:" .. jobs[3].id:match(":(%d+)$") print(key, key:gsub(":", "/")) local args = {"1", "2", "x"} local n = 0 for i = 1, #args do n = n + (tonumber(args[i]) or 0) end print(n)
-- a rate limiter
local now, window, limit, hits = 1000, 60, 3, {} local function allow(t) while hits[1] and hits[1] <= t - window do table.remove(hits, 1) end if #hits < limit then hits[#hits + 1] = t return 1, limit - #hits end return 0, hits[1] + window - t end
for _, t in ipairs{0, 10, 20, 30, 61, 62, 71} do print(allow(now + t)) end
-- words
local counts, order = {}, {} for w in ("the cat and the dog and the bird"):gmatch("%a+") do if not counts[w] then order[#order + 1] = w end counts[w] = (counts[w] or 0) + 1 end table.sort(order, function(x, y) if counts[x] ~= counts[y] then return counts[x] > counts[y] end return x < y end) for _, w in ipairs(order) do print(w, counts[w]) end
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end print(fib(15)) local function ack(m, n) if m == 0 then return n + 1 elseif n == 0 then return ack(m - 1, 1) else return ack(m - 1, ack(m, n - 1)) end end print(ack(2, 3))
local primes = {} for i = 2, 100 do local p = true for j = 2, math.sqrt(i) do if i % j == 0 then p = false break end end if p then primes[#primes + 1] = i end end print(table.concat(primes, " ")) local s = "" for i = 1, 200 do s = s .. i .. "," end print(#s, s:sub(-20))
local function perm(a, n, out) n = n or #a if n <= 1 then out[#out + 1] = table.concat(a) else for i = 1, n do a[n], a[i] = a[i], a[n] perm(a, n - 1, out) a[n], a[i] = a[i], a[n] end end return out end print(table.concat(perm({"a", "b", "c"}, nil, {}), " "))
local memo = setmetatable({}, {__mode = "k"}) local function ser(v, ind) ind = ind or "" if type(v) ~= "table" then return tostring(v) end local ks = {} for k in pairs(v) do ks[#ks + 1] = tostring(k) end table.sort(ks) local o = {} for _, k in ipairs(ks) do o[#o + 1] = ind .. k .. "=" .. ser(v[k] == nil and v[tonumber(k)] or v[k], ind .. " ") end return "{\n" .. table.concat(o, "\n") .. "}" end print(ser({1, 2, {a = "x", b = {true}}}))
----
for _, n in ipairs{-1933483594248849, 2^31 + 65, 2^31 - 1, -2^31 - 65, -2^31 + 65, 1e300, 0/0, 65.9, -191} do
	print(string.format("a %- 1.20c|", n), string.format("%cb%c", n, n))
end
----
local t = {1, 2, 3}
print(pcall(table.insert, t, -5, "x")) print(#t, t[-5], t[-4], t[0], t[1], t[4])
print(pcall(table.insert, t, 9, "y")) print(#t, t[8], t[9])
print(table.remove(t, 1), table.remove(t, 1), table.remove(t, 9), #t, t[1])
local big = {} for i = 1, 2500 do big[i] = i end
print(table.remove(big, 1), #big, big[1], big[2499]) table.insert(big, 1, 0) print(#big, big[1], big[2], big[2500], table.remove(big, 2400), #big)
----
print(load(function() return print("asked") end))
local n = 0 print(load(function() n = n + 1 print(n) if n == 2 then return "return 7" end end)()) print(n)
n = 0 print(load(function() n = n + 1 return ({"return ", "5"})[n] end)(), n)
n = 0 print(load(function() n = n + 1 return "" end), n)
n = 0 print(load(function() n = n + 1 return ({"x = = ", "1", "2"})[n] end)) print(n)
n = 0 print(load(function() n = n + 1 return ({"x = 1 ", ") ", "2"})[n] end)) print(n)
n = 0 print(load(function() n = n + 1 return ({"x = 'a\n", {}})[n] end)) print(n)
n = 0 print(load(function() n = n + 1 return n < 60 and ("x = " .. n .. "\n") or n < 70 and "= " or nil end, "=n")) print(n)
n = 0 print(load(function() n = n + 1 return ({"--", "[", "[", "]", "]", "f(", ")", "]", "x"})[n] end)) print(n)
n = 0 print(load(function() n = n + 1 return ("local a = 'b' .. [[c]] return a, 1e3, 0x1F, a == nil"):sub(n, n) end)()) print(n)
