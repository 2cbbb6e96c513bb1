package scripting_test

import (
	"crypto/sha1"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"spindle/scripting"
)

// TestReplies checks the reply for the result of a script, in both protocols. The replies are Redis's.
func TestReplies(t *testing.T) {
	s := newServer(t)
	for _, c := range []struct{ body, resp2, resp3 string }{
		{"return 1.9", ":1\r\n", ""},
		{"return -1.9", ":-1\r\n", ""},
		{"return 0/0", ":-9223372036854775808\r\n", ""},
		{"return 'a\\0b'", "$3\r\na\x00b\r\n", ""},
		{"return nil", "$-1\r\n", "_\r\n"},
		{"return true", ":1\r\n", ""},
		{"return false", "$-1\r\n", "_\r\n"},
		{"redis.setresp(3) return {true, false}", "*2\r\n:1\r\n:0\r\n", "*2\r\n#t\r\n#f\r\n"},
		{"return {1, 'x', {2}, nil, 4}", "*3\r\n:1\r\n$1\r\nx\r\n*1\r\n:2\r\n", ""},
		{"return {ok = 'fi\\r\\nne'}", "+fi  ne\r\n", ""},
		{"return {err = 'My Err'}", "-My Err\r\n", ""},
		{"return {double = 3.5}", "$3\r\n3.5\r\n", ",3.5\r\n"},
		{"return {big_number = '12\\r\\n3'}", "$5\r\n12  3\r\n", "(12  3\r\n"},
		{"return {verbatim_string = {string = 'hi', format = 'txt'}}", "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"},
		{"return {map = {a = 1}}", "*2\r\n$1\r\na\r\n:1\r\n", "%1\r\n$1\r\na\r\n:1\r\n"},
		{"return {set = {a = true}}", "*1\r\n$1\r\na\r\n", "~1\r\n$1\r\na\r\n"},
		{"return function() end", "$-1\r\n", "_\r\n"},
	} {
		if c.resp3 == "" {
			c.resp3 = c.resp2
		}
		s.client = s.Client(2)
		s.eval(c.resp2, c.body)
		s.client = s.Client(3)
		s.eval(c.resp3, c.body)
	}
}

// TestDeepReply: a table that contains itself ends in an error at the same depth as in Redis.
func TestDeepReply(t *testing.T) {
	s := newServer(t)
	got := s.Do(s.client, "EVAL", "local a = {}; a[1] = {a}; return a", "0")
	if want := strings.Repeat("*1\r\n", 7995) + "-ERR reached lua stack limit\r\n"; got != want {
		t.Errorf("%d levels, then %q", strings.Count(got, "*1\r\n"), strings.TrimLeft(got, "*1\r\n"))
	}
}

// TestCommandReplies checks the value that a script gets from a command, in both protocols.
func TestCommandReplies(t *testing.T) {
	s := newServer(t)
	s.want(":1\r\n", "HSET", "h", "f", "v")
	s.want(":1\r\n", "ZADD", "z", "1.5", "m")
	s.want(":1\r\n", "SADD", "s", "m")
	s.want("+OK\r\n", "SET", "text", "abc")
	for _, c := range []struct{ body, reply string }{
		{"return redis.call('set', 'k', 'v').ok", "$2\r\nOK\r\n"},
		{"return redis.call('get', 'k')", "$1\r\nv\r\n"},
		{"return type(redis.call('get', 'none'))", "$7\r\nboolean\r\n"},
		{"redis.setresp(3) return type(redis.call('get', 'none'))", "$3\r\nnil\r\n"},
		{"return redis.call('hgetall', 'h')", "*2\r\n$1\r\nf\r\n$1\r\nv\r\n"},
		{"redis.setresp(3) return redis.call('hgetall', 'h').map.f", "$1\r\nv\r\n"},
		{"redis.setresp(3) return redis.call('smembers', 's').set.m", ":1\r\n"},
		{"redis.setresp(3) return tostring(redis.call('zscore', 'z', 'm').double)", "$3\r\n1.5\r\n"},
		{"redis.setresp(3) return redis.call('zrange', 'z', 0, -1, 'withscores')[1][1]", "$1\r\nm\r\n"},
		{"return redis.call('zrange', 'z', 0, -1, 'withscores')[2]", "$3\r\n1.5\r\n"},
		{"return redis.call('mget', 'k', 'none', 'k')", "*3\r\n$1\r\nv\r\n$-1\r\n$1\r\nv\r\n"},
		{"local e = redis.pcall('incr', 'text') return {e.err, e.ignore_error_stats_update}",
			"*2\r\n$43\r\nERR value is not an integer or out of range\r\n:1\r\n"},
		{"redis.setresp(3) return redis.call('get', 'none') == nil", "#t\r\n"},
	} {
		s.client = s.Client(3)
		if !strings.HasPrefix(c.reply, "#") {
			s.client = s.Client(2)
		}
		s.eval(c.reply, c.body)
	}
	s.client = s.Client(2)
	s.eval("$-1\r\n", "return redis.call('get', 'none')") // the last run's RESP3 does not affect this one
}

// TestNumbers: commands get numbers in full, as Redis writes them.
func TestNumbers(t *testing.T) {
	s := newServer(t)
	for lua, text := range map[string]string{
		"1": "1", "1.5": "1.5", "1e15": "1000000000000000", "1e16": "10000000000000000", "1e18": "1000000000000000000",
		"0.1+0.2": "0.30000000000000004", "1/3": "0.3333333333333333", "-1e-7": "-1e-7", "2^53": "9007199254740992",
		"0/0": "-nan", "1/0": "inf", "-1/0": "-inf", "1e100": "1e+100",
	} {
		s.eval(fmt.Sprintf("$%d\r\n%s\r\n", len(text), text), "redis.call('set', 'k', "+lua+") return redis.call('get', 'k')")
	}
}

// TestErrors: the texts of errors, with script and line, are Redis's.
func TestErrors(t *testing.T) {
	s := newServer(t)
	for body, text := range map[string]string{
		"error('x')":            "ERR user_script:1: x script: SHA, on @user_script:1.",
		"\n\nerror('x')":        "ERR user_script:3: x script: SHA, on @user_script:3.",
		"error({err = 'My x'})": "My x script: SHA, on @user_script:1.",
		"error({code = 1})":     "ERR unknown error script: SHA, on @user_script:1.",
		"error()":               "ERR nil script: SHA, on @user_script:1.",
		"local y\nreturn y.z": "ERR user_script:2: attempt to index local 'y' (a nil value) script: " +
			"SHA, on @user_script:2.",
		"return foo": "ERR user_script:1: Script attempted to access nonexistent global " +
			"variable 'foo' script: SHA, on @user_script:1.",
		"foo = 1": "ERR user_script:1: Attempt to modify a readonly table script: SHA, on " +
			"@user_script:1.",
		"return print": "ERR user_script:1: Script attempted to access nonexistent global " +
			"variable 'print' script: SHA, on @user_script:1.",
		"redis.call = 1": "ERR user_script:1: Attempt to modify a readonly table script: SHA, on " +
			"@user_script:1.",
		"getmetatable('').__index = nil": "ERR user_script:1: Attempt to modify a readonly table script: SHA, on " +
			"@user_script:1.",
		"rawset(_G, 'a', 1)": "ERR Attempt to modify a readonly table script: SHA, on @user_script:1.",
		"return redis.call()": "ERR Please specify at least one argument for this redis lib call " +
			"script: SHA, on @user_script:1.",
		"return redis.call('get', {})": "ERR Lua redis lib command arguments must be strings or integers script: " +
			"SHA, on @user_script:1.",
		"redis.setresp(4)": "ERR RESP version must be 2 or 3. script: SHA, on @user_script:1.",
		"redis.set_repl(8)": "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or " +
			"REPL_NONE. script: SHA, on @user_script:1.",
		"redis.log(1)": "ERR redis.log() requires two arguments or more. script: SHA, on " +
			"@user_script:1.",
		"return redis.acl_check_cmd('nosuch')": "ERR Invalid command passed to redis.acl_check_cmd() script: SHA, on " +
			"@user_script:1.",
		"return redis.sha1hex()":                 "ERR wrong number of arguments script: SHA, on @user_script:1.",
		"return redis.error_reply('-A b\\r\\n')": "A b",
		"return redis.error_reply('word')":       "ERR word",
		"return redis.error_reply(1)":            "ERR wrong number or type of arguments",
		"return = 1": "ERR Error compiling script (new function): user_script:1: unexpected " +
			"symbol near '='",
		"#!lua":                   "ERR Invalid script shebang",
		"#!python\nreturn 1":      "ERR Unexpected engine in script shebang: #!python",
		"#!lua flags=x\nreturn 1": "ERR Unexpected flag in script shebang: x",
		"#!lua name=x\nreturn 1":  "ERR Unknown lua shebang option: name=x",
		"#!lua \"\nreturn 1":      "ERR Invalid engine in script shebang",
		"#!lua\n\nerror('x')":     "ERR user_script:3: x script: SHA, on @user_script:3.",
	} {
		s.eval("-"+strings.ReplaceAll(text, "SHA", sha(body))+"\r\n", body)
	}
	s.eval("*2\r\n$-1\r\n$1\r\ny\r\n", "return {pcall(function() error({err = 'y'}) end)}")
	s.eval("-ERR \r\n", "return redis.error_reply('')")
	s.eval("*2\r\n-E \r\n-E\r\n", "return {{err = 'E '}, {err = 'E'}}")
	s.eval(":3\r\n", "return select('#', pcall(error, {1}))") // an err that is no text follows the table
	s.eval("*1\r\n:5\r\n", "return {(select(3, pcall(error, {err = {5}})))[1]}")
	s.eval("$7\r\nerr and\r\n",
		"local _, e = pcall(error, setmetatable({}, {__index = function(t, k) return k .. ' and' end})) return e")
}

func sha(body string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(body))) }

// TestCache: only the 500 most recently used scripts of EVAL stay. Scripts of SCRIPT LOAD all stay.
func TestCache(t *testing.T) {
	s := newServer(t)
	loaded := s.Do(s.client, "SCRIPT", "LOAD", "return 'loaded'")[5:45]
	s.eval(":1000\r\n", "return 1000")
	for i := range 499 {
		s.eval(fmt.Sprintf(":%d\r\n", i), fmt.Sprintf("return %d", i))
	}
	s.eval(":1000\r\n", "return 1000") // used again: 0 is the oldest now
	s.eval(":500\r\n", "return 500")
	s.want("*3\r\n:1\r\n:0\r\n:1\r\n", "SCRIPT", "EXISTS", sha("return 1000"), sha("return 0"), strings.ToUpper(loaded))
	s.want("$6\r\nloaded\r\n", "EVALSHA", strings.ToUpper(loaded), "0")
	s.want("-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", sha("return 0"), "0")
	s.want("+OK\r\n", "SCRIPT", "FLUSH", "ASYNC")
	s.want("-NOSCRIPT No matching script. Please use EVAL.\r\n", "EVALSHA", loaded, "0")
	s.want("-ERR SCRIPT FLUSH only support SYNC|ASYNC option\r\n", "SCRIPT", "FLUSH", "x")
}

// TestRandom: the numbers are those of Redis, from its first state and from seeds.
func TestRandom(t *testing.T) {
	s := newServer(t)
	const three = "return {tostring(math.random()), math.random(1000), math.random(5, 6000)}"
	s.eval("*3\r\n$16\r\n0.39646477363839\r\n:841\r\n:2123\r\n", three)
	s.eval("*3\r\n$16\r\n0.74452500033403\r\n:343\r\n:671\r\n", "math.randomseed(42) "+three)
	s.eval("*3\r\n$16\r\n0.30002572727391\r\n:46\r\n:2151\r\n", "math.randomseed(-1) "+three)
}

// TestFunctions: libraries are added and removed as a whole, and their functions are found in any case.
func TestFunctions(t *testing.T) {
	s := newServer(t)
	const lib = "#!lua name=lib\nlocal n = 0\nredis.register_function('f', function(keys, args) n = n + 1 return " +
		"{keys[1], args[1], n} end)"
	s.want("$3\r\nlib\r\n", "FUNCTION", "LOAD", lib)
	s.want("-ERR Library 'lib' already exists\r\n", "FUNCTION", "LOAD", lib)
	s.want("*3\r\n$1\r\nk\r\n$1\r\na\r\n:1\r\n", "FCALL", "f", "1", "k", "a")
	s.want("*3\r\n$1\r\nk\r\n$1\r\na\r\n:2\r\n", "FCALL", "F", "1", "k", "a")
	s.want("-ERR Function F already exists\r\n", "FUNCTION", "LOAD",
		"#!lua name=other\nredis.register_function('F', function() end)")
	s.want("-ERR No functions registered\r\n", "FUNCTION", "LOAD", "REPLACE", "#!lua name=lib\nreturn 1")
	s.want("*3\r\n$1\r\nk\r\n$1\r\na\r\n:3\r\n", "FCALL", "f", "1", "k", "a") // the old library is unchanged
	s.want("$3\r\nlib\r\n", "FUNCTION", "LOAD", "REPLACE",
		"#!lua name=lib\nredis.register_function('g', function() return 1 end)")
	s.want("-ERR Function not found\r\n", "FCALL", "f", "0")
	s.want(":1\r\n", "FCALL", "g", "0")
	s.want("-ERR Can not execute a script with write flag using *_ro command.\r\n", "FCALL_RO", "g", "0")
	for source, text := range map[string]string{
		"return 1":               "Missing library metadata",
		"#!lua name=x":           "Invalid library metadata",
		"#!lua\nx":               "Library name was not given",
		"#!lua name=a name=b\nx": "Invalid metadata value, name argument was given multiple times",
		"#!lua foo=a\nx":         "Invalid metadata value given: foo=a",
		"#!js name=a\nx":         "Engine 'js' not found",
		"#!lua name=a\nreturn string": "Error registering functions: ERR user_function:2: Script attempted to access " +
			"nonexistent global variable 'string'",
		"#!lua name=a\nx x": "Error compiling function: user_function:2: '=' expected near 'x'",
		"#!lua name=a\nredis.register_function('a\\0b', function() end)": "Error registering functions: ERR Library names " +
			"can only contain " +
			"letters, numbers, or underscores(_) and must be at least one character long",
		"#!lua name=a\nwhile true do end": "Error registering functions: ERR FUNCTION LOAD timeout",
	} {
		s.want("-ERR "+text+"\r\n", "FUNCTION", "LOAD", source)
	}
	payload := s.Do(s.client, "FUNCTION", "DUMP")
	payload = payload[strings.Index(payload, "P") : len(payload)-2]
	s.want("-ERR Library lib already exists\r\n", "FUNCTION", "RESTORE", payload)
	s.want("+OK\r\n", "FUNCTION", "RESTORE", payload, "REPLACE")
	s.want("+OK\r\n", "FUNCTION", "FLUSH")
	s.want("-ERR Function not found\r\n", "FCALL", "g", "0")
	s.want("+OK\r\n", "FUNCTION", "RESTORE", payload)
	s.want("+OK\r\n", "FLUSHALL")
	s.want(":1\r\n", "FCALL", "g", "0")
	s.want("+OK\r\n", "FUNCTION", "DELETE", "lib")
	s.want("-ERR Library not found\r\n", "FUNCTION", "DELETE", "lib")
}

// TestLongScript: after its first slice a script lends the turn. Then the script can be killed, unless it has written,
// and other clients get BUSY.
func TestLongScript(t *testing.T) {
	s := newServer(t)
	s.lend = true
	s.want("-NOTBUSY No scripts in execution right now.\r\n", "SCRIPT", "KILL")

	s.want("", "EVAL", "local n = 0 for i = 1, 3000000 do n = n + 1 end return {n, ARGV[1]}", "0", "kept")
	if reply, over := s.goOn(10_000); !over || reply != "*2\r\n:3000000\r\n$4\r\nkept\r\n" {
		t.Errorf("got %q", reply)
	}

	s.logged = nil
	s.want("", "EVAL", "\nwhile true do end", "0")
	killer := s.Client(2)
	if got := s.Do(killer, "FUNCTION", "KILL"); got[:5] != "-BUSY" {
		t.Errorf("FUNCTION KILL of a script: %q", got)
	}
	if _, over := s.goOn(20); over || len(s.logged) != 1 || !strings.Contains(s.logged[0], "Slow script detected") {
		t.Errorf("over %t, logged %q", over, s.logged)
	}
	if got := s.Do(killer, "SCRIPT", "KILL"); got != "+OK\r\n" {
		t.Errorf("SCRIPT KILL: %q", got)
	}
	want := "-ERR Script killed by user with SCRIPT KILL... script: " + sha("\nwhile true do end") +
		", on @user_script:2.\r\n"
	if reply, over := s.goOn(1); !over || reply != want {
		t.Errorf("got %q", reply)
	}

	s.want("", "EVAL", "redis.call('set', 'k', 'v') local t = os.clock() while os.clock() - t < 0.05 do end", "0")
	if got := s.Do(killer, "SCRIPT", "KILL"); !strings.HasPrefix(got, "-UNKILLABLE Sorry") {
		t.Errorf("SCRIPT KILL of a script that has written: %q", got)
	}
	if reply, over := s.goOn(10_000); !over || reply != "$-1\r\n" {
		t.Errorf("got %q", reply)
	}

	s.want("$1\r\nl\r\n", "FUNCTION", "LOAD",
		"#!lua name=l\nredis.register_function('spin', function() while true do end end)")
	s.want("", "FCALL", "spin", "1", "key", "arg")
	if got := s.Do(killer, "FUNCTION", "STATS"); !strings.Contains(got,
		"$4\r\nspin\r\n$7\r\ncommand\r\n*5\r\n$5\r\nFCALL\r\n") {
		t.Errorf("FUNCTION STATS: %q", got)
	}
	if got := s.Do(killer, "FUNCTION", "KILL"); got != "+OK\r\n" {
		t.Errorf("FUNCTION KILL: %q", got)
	}
	if reply, over := s.goOn(1); !over || !strings.HasPrefix(reply, "-ERR Script killed by user") {
		t.Errorf("got %q", reply)
	}
	s.lend = false
	s.eval(":1\r\n", "return 1") // no garbage of the earlier scripts is left
}

// TestMemoryLimit: a script that uses too much memory fails, and the next one runs.
func TestMemoryLimit(t *testing.T) {
	s := newServer(t)
	s.deps.Settings.MemoryLimit.Set(8 << 20)
	for _, body := range []string{"local t = {} while true do t[#t+1] = string.rep('x', 1000) .. #t end",
		"redis.call('set', 'k', string.rep('x', 1000000)) local t = {} while true do t[#t+1] = redis.call('get', 'k') end"} {
		s.eval("-ERR Error running script "+sha(body)+", not enough memory\r\n", body)
	}
	s.eval(":1\r\n", "local s = '' for i = 1, 10000 do s = 'x' .. i end return 1") // garbage does not count
}

// TestConditions: a script with flags is refused before it begins. Scripts without flags behave as they did before
// flags existed.
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		at          scripting.Conditions
		flags, code string
	}{
		{scripting.Conditions{Cluster: true}, "no-cluster", "ERR Can not run script on cluster"},
		{scripting.Conditions{Stale: true}, "no-writes", "MASTERDOWN"},
		{scripting.Conditions{ReadOnly: true}, "allow-oom", "READONLY"},
		{scripting.Conditions{SaveFailed: true}, "allow-oom", "MISCONF"},
		{scripting.Conditions{LogError: "full"}, "allow-oom", "MISCONF"},
		{scripting.Conditions{FewReplicas: true}, "allow-oom", "NOREPLICAS"},
		{scripting.Conditions{OutOfMemory: true}, "allow-stale", "OOM"},
	} {
		s := newServer(t)
		s.at = c.at
		if got := s.Do(s.client, "EVAL", "#!lua flags="+c.flags+"\nreturn 1", "0"); !strings.HasPrefix(got, "-"+c.code) {
			t.Errorf("%+v: %q", c.at, got)
		}
		s.eval(":1\r\n", "#!lua flags=no-writes,allow-stale\nreturn 1")
		if !c.at.Stale {
			s.eval(":1\r\n", "return 1")
		}
	}
}

// TestStats: SCRIPT STATS shows the cost of each script and function.
func TestStats(t *testing.T) {
	s := newServer(t)
	body := "return redis.call('set', 'k', 'v')"
	s.eval("+OK\r\n", body)
	s.eval("+OK\r\n", body)
	got := s.Do(s.client, "SCRIPT", "STATS")
	if !strings.HasPrefix(got, "*1\r\n*16\r\n$4\r\nkind\r\n$6\r\nscript\r\n$4\r\nname\r\n$40\r\n"+sha(body)+
		"\r\n$5\r\ncalls\r\n:2\r\n") ||
		!strings.Contains(got, "$8\r\ncommands\r\n:2\r\n") {
		t.Errorf("%q", got)
	}
}

// TestErrorIsLibrary: a readonly table as an error value does not change, whether a script raises it or passes it to
// the handler.
func TestErrorIsLibrary(t *testing.T) {
	s := newServer(t)
	for _, body := range []string{"error(string)", "error(redis)", "error(_G)", "return __redis__err__handler(math)",
		"pcall(__redis__err__handler, math) return 1"} {
		got := s.Do(s.client, "EVAL", body, "0")
		const want = "-ERR err_handler_def:10: Attempt to modify a readonly table"
		if !strings.HasPrefix(got, want) && !strings.HasSuffix(body, "return 1") {
			t.Errorf("%s: %q", body, got)
		}
	}
	for _, table := range []string{"string", "redis", "_G", "math"} {
		s.eval("*2\r\n$3\r\nnil\r\n$3\r\nnil\r\n",
			"return {tostring(rawget("+table+", 'source')), tostring(rawget("+table+", 'line'))}")
	}
}

// TestRefusedLibraryIsForgotten: the functions of a refused library are gone.
func TestRefusedLibraryIsForgotten(t *testing.T) {
	s := newServer(t)
	s.want("$1\r\na\r\n", "FUNCTION", "LOAD", "#!lua name=a\nredis.register_function('f', function() return 1 end)")
	held := func() int64 {
		for _, section := range s.scripts.Sections() {
			for _, f := range section.Fields {
				if f.Name == "used_memory_vm_functions" {
					n, _ := strconv.ParseInt(string(f.Value(nil)), 10, 64)
					return n
				}
			}
		}
		t.Fatal("no such field")
		return 0
	}
	clash := "#!lua name=b\nlocal kept = '" + strings.Repeat("x", 10000) +
		"'\nredis.register_function('f', function() return kept end)"
	first := int64(0)
	for i := range 20 {
		s.want("-ERR Function f already exists\r\n", "FUNCTION", "LOAD", clash)
		s.want("-ERR Function f already exists\r\n", "FUNCTION", "RESTORE", string(pack([][]byte{[]byte(clash)})), "APPEND")
		if now := held(); i == 0 {
			first = now
		} else if now > first {
			t.Fatalf("%d bytes after the first refusal, %d after %d", first, now, i+1)
		}
	}
}

// TestEnvironmentEndsWithScript: setfenv affects only the script that called it.
func TestEnvironmentEndsWithScript(t *testing.T) {
	s := newServer(t)
	s.eval(":1\r\n", "setfenv(0, {mine = 5}) return 1")
	s.eval("*2\r\n$1\r\n1\r\n:1\r\n",
		"return {tostring(getfenv(0) == _G and 1), pcall(loadstring('return mine')) and 0 or 1}")
	const own = "local known = rawget and 1 setfenv(1, {}) return known"
	s.eval(":1\r\n", own)
	s.eval(":1\r\n", own)
}

// TestEndlessReplyIsCut: tables that contain each other twice make an endless reply. No memory limit stops it, but the
// client's output limit does.
func TestEndlessReplyIsCut(t *testing.T) {
	s := newServer(t)
	s.client.Out.Chunks, s.client.Out.B = noChunks{}, make([]byte, 0, 256<<10)
	s.Serve(s.client, [][]byte{[]byte("EVAL"),
		[]byte("local t = {string.rep('x', 100)} for i = 1, 18 do t = {t, t} end return t"), []byte("0")})
	if n := s.client.Out.Len(); n > 1<<20 || !s.client.Out.Full() {
		t.Errorf("a reply of %d bytes", n)
	}
}

// noChunks refuses every reply that is longer than a buffer.
type noChunks struct{}

func (noChunks) Chunk(int, int) ([]byte, func()) { return nil, nil }
func (noChunks) Outgrown([]byte)                 {}

// TestKeysAreNew: KEYS and ARGV are new for each script, whatever the last script did to them.
func TestKeysAreNew(t *testing.T) {
	s := newServer(t)
	for _, before := range []string{
		"return #ARGV", "ARGV[4] = 'left' ARGV[3] = nil", "ARGV.field = 1", "for i = 1, 100 do ARGV[i] = i end",
		"for i = 1, 20 do KEYS[i] = ARGV end ARGV[1] = KEYS", "setmetatable(ARGV, {__index = function() return 'left' end})",
		"ARGV[1], ARGV[2] = nil, nil", "setfenv(1, ARGV) field = 1", "rawset(ARGV, 2.5, 'left')", "error(ARGV)",
		"local t = ARGV coroutine.wrap(function() coroutine.yield(t) end)()", "table.remove(ARGV, 1)", "ARGV[0] = 'left'",
		"pcall(error, ARGV) while true do ARGV[#ARGV + 1] = 1 if #ARGV > 500 then error('full') end end",
	} {
		for _, args := range [][]string{{}, {"a"}, {"a", "b", "c", "d", "e"}} {
			s.Do(s.client, append([]string{"EVAL", before, "1", "key"}, args...)...)
			s.eval(":1\r\n", `local n = 0
				for k, v in pairs(ARGV) do n = n + 1 if k ~= n or v ~= 'x' .. n then return tostring(k) end end
				local new = #ARGV == 3 and n == 3 and #KEYS == 0 and next(KEYS) == nil
				return new and not getmetatable(ARGV) and not ARGV.field and 1 or 0`, "x1", "x2", "x3")
			s.want("*1\r\n$3\r\nkey\r\n", "EVAL", "local t = {} for k, v in pairs(KEYS) do t[#t + 1] = v end "+
				"return {next(ARGV) or t[1], t[2]}", "1", "key")
		}
	}
	allocated := testing.AllocsPerRun(100, func() { s.Do(s.client, "EVAL", "return 1", "0") })
	if more := testing.AllocsPerRun(100, func() { s.Do(s.client, "EVAL", "return 1", "1", "k") }) - allocated; more > 2 {
		t.Errorf("a key costs %v allocations, want one for its text and one for the test's request", more)
	}
}

// TestFiguresEndWithTheFunction: the figures of a deleted or replaced function are gone, whichever command removed it.
func TestFiguresEndWithTheFunction(t *testing.T) {
	s := newServer(t)
	source := func(library, function string) string {
		return "#!lua name=" + library + "\nredis.register_function('" + function + "', function() return 1 end)"
	}
	none := "*0\r\n"
	staged := func(sources ...string) {
		data := s.scripts.Stage()
		for _, text := range sources {
			if err := data.Add([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		data.Install()
	}
	for name, change := range map[string]func(){
		"REPLACE by another":  func() { s.want("$1\r\na\r\n", "FUNCTION", "LOAD", "REPLACE", source("a", "g")) },
		"REPLACE by the same": func() { s.want("$1\r\na\r\n", "FUNCTION", "LOAD", "REPLACE", source("a", "f")) },
		"other letters":       func() { s.want("$1\r\na\r\n", "FUNCTION", "LOAD", "REPLACE", source("a", "F")) },
		"DELETE":              func() { s.want("+OK\r\n", "FUNCTION", "DELETE", "a") },
		"FLUSH":               func() { s.want("+OK\r\n", "FUNCTION", "FLUSH") },
		"RESTORE REPLACE":     func() { s.want("+OK\r\n", "FUNCTION", "RESTORE", "P"+source("a", "g"), "REPLACE") },
		"RESTORE FLUSH":       func() { s.want("+OK\r\n", "FUNCTION", "RESTORE", "P"+source("b", "g"), "FLUSH") },
		"another data set":    func() { staged(source("b", "f")) },
		"an empty data set":   func() { staged() },
	} {
		s.want("+OK\r\n", "FUNCTION", "FLUSH")
		s.want("$1\r\na\r\n", "FUNCTION", "LOAD", source("a", "f"))
		s.want(":1\r\n", "FCALL", "f", "0")
		s.Do(s.client, "FUNCTION", "LOAD", source("c", "f")) // refused
		if got := s.Do(s.client, "SCRIPT", "STATS"); !strings.Contains(got, "$5\r\ncalls\r\n:1\r\n") {
			t.Errorf("%s, before: %q", name, got)
		}
		change()
		if got := s.Do(s.client, "SCRIPT", "STATS"); got != none {
			t.Errorf("%s: %q", name, got)
		}
	}
}
