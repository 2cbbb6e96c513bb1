package scripts

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// prelude defines functions for the scripts. T makes a call and stores its result as text; S shows a value.
const prelude = `local out = {}
local function S(v, depth)
	local t = type(v)
	if t == "number" then return string.format("%.17g", v) end
	if t == "string" then return "'" .. v .. "'" end
	if t ~= "table" then return t == "boolean" and tostring(v) or t end
	if depth > 8 then return "deep" end
	local list, sorted = {}, false
	for k, e in pairs(v) do
		sorted = sorted or type(k) == "table"
		list[#list + 1] = (type(k) == "table" and "table" or tostring(k)) .. "=" .. S(e, depth + 1)
	end
	if sorted then table.sort(list) end
	return "{" .. table.concat(list, ",") .. "}" .. #v
end
local function R(...)
	local t = {}
	for i = 1, select("#", ...) do t[i] = S((select(i, ...)), 0) end
	out[#out + 1] = table.concat(t, " | ")
end
local function T(f) R(pcall(f)) end
`

// libraries is the number of different library names.
const libraries = 5

// A generator makes requests. calls counts the API calls in its scripts.
type generator struct {
	*rand.Rand
	calls  int
	queued int  // requests until EXEC; 0 outside a transaction
	caught bool // a pcall catches errors here
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g *generator) number() string {
	if g.chance(25) {
		return strconv.FormatInt(int64(g.Uint64())>>g.IntN(64), 10)
	}
	return g.pick("0", "1", "-1", "2", "3", "10", "1.5", "-0", "0.1", "3.9", "-3.9", "1e15", "1e17", "1e300", "-1e300",
		"2^31", "2^53", "2^63", "-2^63", "2^64", "1/3", "1e-7",
		"0/0", "-(0/0)", "1/0", "-1/0", "123456789012345678", "9007199254740993", "100.25", "5e-324")
}

func (g *generator) text() string {
	return g.pick(`"a"`, `""`, `"abc"`, `"12"`, `"1.5"`, `"x y"`, `"line\r\nbreak"`, `"zero\0byte"`, `"\255\1"`, `"OK"`,
		`"-ERR x"`, `"ERR some error"`, `"nan"`, `string.rep("z", 50)`, `"-MYCODE text"`, `"-"`, `"one\n"`)
}

func (g *generator) key() string {
	return g.pick(`"s1"`, `"s2"`, `"n1"`, `"l1"`, `"h1"`, `"z1"`, `"set1"`, `"x1"`, `"none"`, `KEYS[1]`, `KEYS[2]`,
		`ARGV[1]`, `"{a}k"`)
}

// argument returns an argument of a command.
func (g *generator) argument() string {
	switch g.IntN(20) {
	case 0, 1, 2, 3, 4:
		return g.number()
	case 5:
		return g.pick("nil", "true", "false", "{}", "print", "redis.call", "KEYS", "KEYS[9]", "{1}", "function() end")
	case 6, 7:
		return g.key()
	case 8:
		return "ARGV[" + strconv.Itoa(1+g.IntN(3)) + "]"
	}
	return g.text()
}

// command returns a command's name and arguments.
func (g *generator) command() string {
	k := g.key
	a := g.argument
	switch g.IntN(46) {
	case 0, 1:
		return `"SET", ` + k() + ", " + a() + g.pick("", `, "NX"`, `, "XX"`, `, "GET"`, `, "EX", `+g.number(), `, "KEEPTTL"`)
	case 2, 3:
		return `"GET", ` + k()
	case 4:
		return `"INCRBY", ` + g.pick(`"n1"`, k()) + ", " + a()
	case 5:
		return `"INCRBYFLOAT", ` + g.pick(`"n1"`, k()) + ", " + g.pick("1.5", "0.1", `"2"`, "1e3", a())
	case 6:
		return `"APPEND", ` + k() + ", " + g.text()
	case 7:
		return `"RPUSH", ` + g.pick(`"l1"`, k()) + ", " + a() + ", " + a()
	case 8:
		return `"LRANGE", ` + g.pick(`"l1"`, k()) + ", 0, -1"
	case 9:
		return `"LPOP", ` + g.pick(`"l1"`, k()) + g.pick("", ", 2", ", "+a())
	case 10:
		return `"HSET", ` + g.pick(`"h1"`, k()) + `, "f` + strconv.Itoa(g.IntN(6)) + `", ` + a()
	case 11, 12:
		return g.pick(`"HGETALL"`, `"HKEYS"`, `"HLEN"`) + ", " + g.pick(`"h1"`, k())
	case 13:
		return `"HMGET", ` + g.pick(`"h1"`, k()) + `, "f1", "f2", ` + a()
	case 14:
		return `"ZADD", ` + g.pick(`"z1"`, k()) + ", " + g.pick(g.number(), "1", "2.5", `"inf"`, `"-inf"`, a()) + `, "m` +
			strconv.Itoa(g.IntN(5)) + `"`
	case 15:
		return `"ZRANGE", ` + g.pick(`"z1"`, k()) + `, 0, -1` + g.pick("", `, "WITHSCORES"`, `, "REV", "WITHSCORES"`)
	case 16:
		return g.pick(`"ZSCORE"`, `"ZRANK"`) + ", " + g.pick(`"z1"`, k()) + `, "m` + strconv.Itoa(g.IntN(5)) + `"` +
			g.pick("", `, "WITHSCORE"`)
	case 17:
		return `"ZMSCORE", "z1", "m1", "m2", "m9"`
	case 18:
		return `"ZPOPMIN", ` + g.pick(`"z1"`, k()) + g.pick("", ", 2")
	case 19:
		return `"SADD", ` + g.pick(`"set1"`, k()) + ", " + g.pick("1", "2", "3", a())
	case 20:
		return g.pick(`"SMEMBERS", `, `"SCARD", `) + g.pick(`"set1"`, k())
	case 21:
		return `"SMISMEMBER", "set1", 1, 2, ` + a()
	case 22:
		return `"XADD", ` + g.pick(`"x1"`, k()) + `, "*", "f", ` + a()
	case 23:
		return `"XLEN", ` + g.pick(`"x1"`, k())
	case 24:
		return g.pick(`"TYPE", `, `"EXISTS", `, `"STRLEN", `, `"TTL", `, `"OBJECT", "ENCODING", `) + g.pick(k(), `"s1"`)
	case 25:
		return g.pick(`"DEL", `, `"UNLINK", `) + k()
	case 26:
		return `"MSET", "s1", ` + a() + `, "s2", ` + a()
	case 27:
		return `"MGET", "s1", "s2", "none", ` + k()
	case 28:
		return `"ECHO", ` + a()
	case 29:
		return `"PING"` + g.pick("", ", "+a(), ", "+a()+", "+a())
	case 30:
		return g.pick(`"NOSUCH", `, `"no such", `, `"", `, `"get\0x", `, `"FOO\r\nBAR", `, `5, `, `"evil\1", `) + a()
	case 31:
		return g.pick(`"GET"`, `"SET", "k"`, `"LPUSH", "l1"`, `"HSET", "h1", "f"`, `"OBJECT"`, `"XADD", "x1"`, `"CONFIG"`,
			`"CLIENT"`, `"ZADD", "z1", 1`)
	case 32:
		return g.pick(`"EVAL", "return 1", 0`, `"MULTI"`, `"EXEC"`, `"SUBSCRIBE", "c"`, `"WATCH", "s1"`, `"HELLO", 3`,
			`"AUTH", "x"`, `"SCRIPT", "FLUSH"`, `"FCALL", "f", 0`, `"MONITOR"`,
			`"DEBUG", "SLEEP", 0`, `"CLIENT", "REPLY", "OFF"`, `"QUIT"`, `"RESET"`, `"SAVE"`, `"SHUTDOWN"`,
			`"CONFIG", "SET", "maxmemory", "1"`, `"UNSUBSCRIBE"`, `"FUNCTION", "KILL"`, `"SYNC"`)
	case 33:
		return `"BLPOP", ` + g.pick(`"l1"`, `"none"`) + ", 0"
	case 34:
		return g.pick(`"BZPOPMIN", "z1", 0`, `"BLMOVE", "l1", "l2", "LEFT", "RIGHT", 0`,
			`"XREAD", "BLOCK", 0, "STREAMS", "none", "$"`, `"WAIT", 0, 0`, `"BRPOP", "l1", "none", "x"`)
	case 35:
		return `"SETRANGE", ` + k() + ", " + g.pick("3", "0", "-1", "1.5", "100", "-2^63", "1e300", "2^62") + ", " + g.text()
	case 36:
		return `"GETRANGE", ` + k() + ", " + g.number() + ", " + g.number()
	case 37:
		return `"EXPIRE", ` + k() + ", " + g.pick("100", "-1", g.number())
	case 38:
		return `"SDIFF", "set1", ` + k() // not SORT, because Redis changes the encoding of the sorted set that it sorts
	case 39:
		return `"GEOADD", ` + g.pick(`"g1"`, k()) + `, 13.361389, 38.115556, "p"`
	case 40:
		return g.pick(`"GEOPOS", "g1", "p", "q"`, `"GEODIST", "g1", "p", "p"`, `"GEOHASH", "g1", "p"`)
	case 41:
		return `"BITFIELD", ` + g.pick(`"b1"`, k()) + `, "INCRBY", "u8", 0, ` + g.pick("1", "200", g.number()) +
			`, "GET", "u4", 0`
	case 42:
		return `"LCS", "s1", "s2"` + g.pick("", `, "IDX"`, `, "LEN"`)
	case 43:
		return `"HSTRLEN", "h1", ` + a()
	case 44:
		return `"PUBLISH", "chan", ` + a()
	}
	return `"SPUBLISH", "chan", ` + a()
}

// call returns an expression that calls the API.
func (g *generator) call() string {
	g.calls++
	switch g.IntN(24) {
	case 0, 1, 2, 3, 4, 5, 6:
		return "redis.pcall(" + g.command() + ")"
	case 7, 8, 9, 10:
		return "redis.call(" + g.command() + ")"
	case 11:
		return "redis." + g.pick("pcall", "call") + "(" +
			g.pick("", "nil", g.argument(), g.argument()+", "+g.argument(), `"SET", KEYS[1], ARGV[1], `+g.argument()) + ")"
	case 12:
		return "redis.error_reply(" + g.pick(g.text(), g.argument(), `"My Err"`, `"-My Err"`, `"ERR\r\n"`, "", `"a", "b"`,
			`"WRONGTYPE x"`, `"noblank"`) + ")"
	case 13:
		return "redis.status_reply(" + g.pick(g.text(), g.argument(), "", `"FINE"`, `"a", "b"`) + ")"
	case 14:
		return "redis.sha1hex(" + g.pick(g.text(), g.argument(), "", `"a", "b"`) + ")"
	case 15:
		return "redis.setresp(" + g.pick("2", "3", "2", "3", "4", "'3'", "nil", "", "2, 3", "2.9", "{}") + ")"
	case 16:
		return "redis.set_repl(" + g.pick("redis.REPL_ALL", "redis.REPL_NONE", "redis.REPL_AOF", "redis.REPL_SLAVE",
			"redis.REPL_REPLICA", "99", "-1", "'1'", "nil", "", "{}") + ")"
	case 17:
		return g.pick("redis.replicate_commands()", "redis.breakpoint()",
			"redis.replicate_commands(1)", "redis.acl_check_cmd("+g.command()+")", "redis.acl_check_cmd('get', 's1')",
			"redis.acl_check_cmd()", "redis.acl_check_cmd('nosuch')",
			"redis.acl_check_cmd('set')", "redis.acl_check_cmd({})", "redis.debug('x')")
	case 18:
		return "redis.log(" + g.pick("redis.LOG_DEBUG, 'x'", "redis.LOG_VERBOSE, 'x', 5", "1", "", "'a', 'b'", "9, 'x'",
			"-1, 'x'", "redis.LOG_DEBUG, {}", "nil, 'x'", "0, nil") + ")"
	case 19:
		return g.pick("redis.LOG_DEBUG", "redis.LOG_WARNING", "redis.REPL_ALL", "redis.REPL_NONE", "redis.nosuch",
			"redis.register_function", "redis.call", "#KEYS", "#ARGV", "KEYS[1]", "ARGV[2]", "type(redis)",
			"tostring(redis.REPL_REPLICA)", "server and server.call == redis.call", "type(server)")
	case 20:
		return g.pick("nosuchglobal", "_G.nosuch", "rawget(_G, 'nosuch')", "getmetatable(_G)",
			"getmetatable('').__index == string", "setmetatable(_G, {})", "rawset(_G, 'x', 1)", "loadstring('return 1 +')",
			"loadstring('x = 1')()", "setfenv(1, {})", "getfenv(0) == _G", "getfenv(1) == _G", "type(print)", "type(dofile)",
			"type(require)", "type(io)", "type(os.exit)", "type(os.clock)", "os.time", "math.random(1, 10)",
			"math.random()", "math.randomseed(5)", "math.random(100)", "table.getn({1, 2})", "type(collectgarbage('count'))",
			"newproxy()", "debug", "coroutine.wrap(function() return redis.pcall('PING') end)()",
			"type(cjson)", "cjson.encode({1, 2, {a = 'b'}})", "cjson.decode('[1,2')",
			"cmsgpack.unpack(cmsgpack.pack(1, 'a'))", "struct.pack('>I2', 5)", "bit.band(7, 3)", "rawequal(redis, _G.redis)",
			"next({})", "_VERSION", "KEYS == nil", "gcinfo and 1", "module", "package",
			"xpcall(function() error('x') end, function(m) return m end)",
			"pcall(error, {err = 'E x'})", "pcall(redis.call, 'NOSUCH')",
			"pcall(pcall, redis.call, 'GET')",
			"xpcall(function() return redis.call('NOSUCH') end, function(m) return type(m) end)",
			"select(2, pcall(redis.call, 'GET'))", "unpack({1, 2, 3})", "tostring(nil) .. 1",
			"getmetatable(redis)", "setmetatable(redis, nil)", "__redis__err__handler",
			"__redis__compare_helper", "pairs(_G)(_G) ~= nil")
	case 21:
		return g.pick("redis", "cjson", "_G", "string", "KEYS", "ARGV", "math", "bit") +
			g.pick(".x", "[1]", ".call", ".null") + " = " + g.argument()
	case 22:
		return g.thrown()
	}
	return "(" + g.value(2) + ")"
}

// thrown returns code that throws a value. If a pcall catches it, the value is random. Otherwise it reaches the client:
// it must be one line, and a table's err must be text. With more lines Redis breaks the protocol; with other tables it
// crashes.
func (g *generator) thrown() string {
	if g.caught {
		return "error(" + g.value(1) + g.pick("", ", 0", ", 2") + ")"
	}
	return "error(" + g.pick("'said'", "'ERR said'", "'MYCODE said'", "''", "5", "nil", "true", "{err = 'CODE text'}",
		"{err = 'nocode'}", "{err = ''}", "{err = '-X'}", "redis.error_reply('My err')",
		"{err = 'E x', source = 'file', line = 7}", "{err = 'E x', ignore_error_stats_update = true}", "print") +
		g.pick("", "", ", 0", ", 2") + ")"
}

// value returns a Lua value that a script can return.
func (g *generator) value(depth int) string {
	switch g.IntN(16) {
	case 0, 1:
		return g.number()
	case 2, 3:
		return g.text()
	case 4:
		return g.pick("nil", "true", "false", "print", "redis.call", "coroutine.create(function() end)", "cjson.null")
	case 5:
		return "{err = " + g.pick(g.text(), g.number(), "'ERR boom'", "{}", "'NOCODE'", "'-X y'", "'E a\\r\\nb'") +
			g.pick("", ", extra = 1", ", source = 'src', line = 5", ", ignore_error_stats_update = true") + "}"
	case 6:
		return "{ok = " + g.pick(g.text(), "'FINE'", "5", "{}", "''", "'a\\r\\nb'") + "}"
	case 7:
		return "{double = " + g.pick(g.number(), "'1.5'", "nil") + "}"
	case 8:
		return "{big_number = " + g.pick("'123456789012345678901234567890'", "'1\\r\\n2'", "5", "''", g.text()) + "}"
	case 9:
		return "{verbatim_string = " + g.pick("{string = 'some', format = 'txt'}", "{string = 'some'}", "{format = 'txt'}",
			"{string = "+g.text()+", format = 'markdown'}", "5", "'x'", "{string = 5, format = 6}") + "}"
	case 10, 11:
		if depth > 0 {
			key := g.pick("map", "set")
			if key == "map" {
				return "{map = {[" + g.pick("'a'", "1", "2.5", "true") + "] = " + g.value(depth-1) + "}}"
			}
			return "{set = {[" + g.pick("'a'", "1", "2.5") + "] = " + g.pick("true", "1", "false", g.value(0)) + "}}"
		}
		return g.pick("{map = {}}", "{set = {}}", "{map = 5}", "{set = 'x'}", "{map = false}")
	case 12:
		return g.pick("redis.error_reply('MY err')", "redis.status_reply('S')", "{{{}}}", "{nil, 1}", "{1, nil, 3}", "KEYS",
			"ARGV", "{KEYS, ARGV}", "setmetatable({}, {__index = function() return 1 end})",
			"setmetatable({1, 2}, {__index = function(t, k) if k == 3 then return 'three' end end})",
			"{false, true, {ok = 'in'}, {err = 'in'}}", "{a = 1}", "(function() end)()", "1, 2, 3")
	}
	if depth <= 0 {
		return g.number()
	}
	var items []string
	for range g.IntN(5) {
		items = append(items, g.value(depth-1))
	}
	return "{" + strings.Join(items, ", ") + "}"
}

// body returns a script that makes some calls and reports the result of each.
func (g *generator) body() string {
	g.caught = true
	defer func() { g.caught = false }()
	var b strings.Builder
	b.WriteString(prelude)
	if g.chance(40) {
		fmt.Fprintf(&b, "redis.setresp(%s)\n", g.pick("2", "3"))
	}
	for range 4 + g.IntN(12) {
		c := g.call()
		switch {
		case strings.Contains(c, " = ") && !strings.HasPrefix(c, "redis.") && !strings.HasPrefix(c, "(") &&
			!strings.HasPrefix(c, "error") && !strings.Contains(c, "=="):
			fmt.Fprintf(&b, "T(function() %s end)\n", c)
		case g.chance(10) && strings.HasPrefix(c, "redis.") && strings.HasSuffix(c, ")"):
			name, list, _ := strings.Cut(c, "(")
			if list != ")" {
				list = ", " + list
			}
			fmt.Fprintf(&b, "R(pcall(%s%s)\n", name, list)
		default:
			fmt.Fprintf(&b, "T(function() return %s end)\n", c)
		}
	}
	if g.chance(10) {
		b.WriteString("return {out, " + g.value(2) + "}")
	} else {
		b.WriteString("return out")
	}
	return b.String()
}

// direct returns a script whose reply or error goes to the client unchanged.
func (g *generator) direct() string {
	g.calls++
	resp := g.pick("", "", "redis.setresp(3) ", "redis.setresp(2) ", "\n\n")
	switch g.IntN(8) {
	case 0, 1, 2:
		return resp + "return " + g.value(3)
	case 3, 4:
		return resp + "return redis." + g.pick("call", "pcall") + "(" + g.command() + ")"
	case 5:
		return resp + "return " + g.pick("1 +", "nosuch.x", "redis.call", g.thrown(),
			"redis.call('SET', 's1', 1) + {}", "(nil)()", "local x", "x = 5", "pcall(redis.call, 'X')", "error()",
			"error({err = 'CODE text'}, 0)", "assert(false, 'said')", "assert(nil, {err = 'A b'})",
			"redis.error_reply('X y')", "error(redis.error_reply('X y'))", "redis.call('INCR', 'l1')")
	case 6:
		return g.pick("#!lua", "#!lua flags=no-writes", "#!lua flags=allow-stale,no-cluster", "#!lua flags=nosuch",
			"#!python", "#!lua name=x", "#!lua flags=no-writes flags=allow-oom", "#! lua", "#!lua flags=", "#!",
			"#!lua flags=allow-oom,allow-cross-slot-keys") +
			g.pick("\n", "\n", "\n", " ", "") + "return " +
			g.pick("1", "redis.call('SET', 's1', 2)", "redis.call('GET', 's1')", g.call())
	}
	return resp + "local a = " + g.call() + "\nlocal b = " + g.call() + "\nreturn {a, b, type(a)}"
}

// keysAndArgs returns EVAL's number of keys, keys and arguments.
func (g *generator) keysAndArgs() []string {
	if g.chance(3) {
		return []string{g.pick("-1", "5", "x", "1.5", "", "99999999999999999999"), "a"}
	}
	n := g.IntN(4)
	args := []string{strconv.Itoa(n)}
	for range n {
		args = append(args, strings.Trim(g.pick("s1", "l1", "h1", "z1", "n1", "set1", "none", "{a}k"), `"`))
	}
	for range g.IntN(4) {
		args = append(args, g.pick("1", "2.5", "text", "", "a\r\nb", "\x00\xff", "-3"))
	}
	return args
}

// library returns the source of a library with a few functions.
func (g *generator) library() string {
	name := fmt.Sprintf("lib%d", g.IntN(libraries))
	head := g.pick("#!lua name="+name, "#!lua name="+name, "#!lua name="+name, "#!lua name="+name, "#!lua", "#!lua name=",
		"#!lua name=a b", "#!lua name=a-b", "#!js name=x", "", "#!lua name=x name=y", "#!lua foo=bar name=z") + "\n"
	var b strings.Builder
	b.WriteString(head)
	b.WriteString(g.pick("", "local shared = 0\n", "local function helper(x) return x end\n", "redis.call('PING')\n",
		"return 1 +\n", "nosuch()\n", "glob = 5\n", "redis.log(redis.LOG_DEBUG, 'loading')\n", "", "", ""))
	for i := range 1 + g.IntN(3) {
		f := fmt.Sprintf("%sf%d", name, i)
		g.calls++
		inner := g.pick("return "+g.value(2), "return "+g.call(), "local a = "+g.call()+" return {type(a), #keys, args}",
			"return {keys, args}", "return "+g.call())
		inner = strings.NewReplacer("KEYS", "keys", "ARGV", "args").Replace(inner)
		switch g.IntN(10) {
		case 0, 1, 2, 3:
			fmt.Fprintf(&b, "redis.register_function('%s', function(keys, args)\n %s end)\n", f, inner)
		case 4, 5, 6, 7:
			fmt.Fprintf(&b, "redis.register_function{function_name = '%s', callback = function(keys, args) %s end%s}\n", f,
				inner, g.pick("", ", flags = {'no-writes'}", ", flags = {'allow-oom', 'allow-stale'}",
					", description = 'says things'", ", flags = {'nosuch'}", ", flags = 5", ", nosuch = 1", ", flags = {}",
					", description = 5", ", flags = {5}"))
		default:
			b.WriteString("redis.register_function(" + g.pick("", "'x'", "'x', 5", "{}", "{function_name = 'y'}",
				"'bad name', function() end", "5, function() end", "'"+f+"', function() end, 3", "{callback = print}",
				"{function_name = {}, callback = print}", "'"+name+"f0', function() end", "'"+f+"', redis.call", "{1, 2}") + ")\n")
		}
	}
	return b.String()
}

// request returns one request of the client.
func (g *generator) request() []string {
	if g.queued > 0 {
		if g.queued--; g.queued == 0 {
			return []string{g.pick("EXEC", "EXEC", "EXEC", "DISCARD")}
		}
	}
	eval := func(name, body string) []string { return append([]string{name, body}, g.keysAndArgs()...) }
	switch g.IntN(40) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15:
		return eval("EVAL", g.body())
	case 16, 17, 18, 19, 20, 21, 22:
		return eval("EVAL", g.direct())
	case 23, 24:
		return eval("EVAL_RO", g.direct())
	case 25:
		return []string{"HELLO", g.pick("2", "3")}
	case 26:
		return [][]string{{"SCRIPT", "EXISTS", "x", strings.Repeat("a", 40)}, {"SCRIPT", "KILL"}, {"FUNCTION", "KILL"},
			{"SCRIPT", "nosuch"}, {"SCRIPT", "FLUSH", g.pick("SYNC", "ASYNC", "x")}, {"EVALSHA", "nosuch", "0"}, {"EVAL"},
			{"EVAL", "return 1"},
			{"SCRIPT", "LOAD", g.direct()}, {"FUNCTION", "STATS"}, {"EVALSHA", strings.Repeat("A", 40), "0"},
			{"SCRIPT", "LOAD"}}[g.IntN(12)]
	case 27, 28, 29, 30:
		return append([]string{"FUNCTION", "LOAD"}, append(map[bool][]string{true: {"REPLACE"}}[g.chance(60)],
			g.library())...)
	case 31, 32, 33, 34, 35, 36:
		return eval(g.pick("FCALL", "FCALL", "FCALL_RO"), fmt.Sprintf("lib%df%d", g.IntN(libraries), g.IntN(3)))
	case 37:
		return [][]string{{"FUNCTION", "LIST"}, {"FUNCTION", "LIST", "WITHCODE"},
			{"FUNCTION", "LIST", "LIBRARYNAME", "lib[0-2]"}, {"FUNCTION", "DELETE", "lib1"}, {"FUNCTION", "DELETE", "none"},
			{"FUNCTION", "LIST", "x"},
			{"FUNCTION", "RESTORE", "x"}, {"FUNCTION", "RESTORE", "", "y"}}[g.IntN(8)] // FLUSH can crash Redis
	case 38:
		if g.queued == 0 {
			g.queued = 2 + g.IntN(4)
			return []string{"MULTI"}
		}
	}
	return [][]string{{"SET", "n1", "5"}, {"GET", "s1"}, {"LRANGE", "l1", "0", "-1"},
		{"DEL", "l1", "h1", "z1", "set1", "s1", "s2", "n1", "x1", "none", "g1", "b1", "{a}k"}}[g.IntN(4)]
}
