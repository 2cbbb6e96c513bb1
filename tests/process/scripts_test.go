package process

import (
	"compress/gzip"
	"crypto/sha1"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestLapsedKeyInScript: DEBUG OBJECT shows an expired key until a script has accessed it.
func TestLapsedKeyInScript(t *testing.T) {
	s := testkit.Start(t, "--enable-debug-command", "yes")
	s.Do("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	s.Do("SET", "k", "v", "PX", "1")
	testkit.Lapse(time.Millisecond)
	for _, sub := range []string{"OBJECT", "SDSLEN"} {
		if v, err := s.Ask("DEBUG", sub, "k"); err != nil || v.Err() != nil {
			t.Errorf("DEBUG %s of a key that is past its deadline: %v %v", sub, v, err)
		}
	}
	if v := s.Do("EVAL", "return redis.call('EXISTS', KEYS[1])", "1", "k"); v.Int != 0 {
		t.Errorf("EXISTS in a script: %v", v)
	}
	if v, _ := s.Ask("DEBUG", "OBJECT", "k"); v.Err() == nil {
		t.Errorf("DEBUG OBJECT of a key that is gone: %v", v)
	}
}

// TestManyErrorCodes: INFO errorstats stops when scripts have used too many different error codes, and the log reports
// it. It continues after CONFIG RESETSTAT.
func TestManyErrorCodes(t *testing.T) {
	s := testkit.Start(t)
	for i := range 200 {
		if v, _ := s.Ask("EVAL", "return redis.error_reply('CODE' .. ARGV[1] .. ' text')", "0", i); v.Err() == nil {
			t.Fatalf("no error: %v", v)
		}
	}
	if got := s.Info("errorstats"); len(got) != 1 || got["errorstat_ERRORSTATS_DISABLED"] != "count=1" {
		t.Errorf("errorstats: %v", got)
	}
	for _, line := range []string{"Errorstats stopped adding new errors",
		"Current errors code list: CODE0, CODE1, CODE10"} {
		if n := strings.Count(s.Log(), line); n != 1 {
			t.Errorf("the log has %d lines with %q", n, line)
		}
	}
	s.Do("CONFIG", "RESETSTAT")
	_, _ = s.Ask("EVAL", "return redis.error_reply('MINE text')", "0")
	if got := s.Info("errorstats"); got["errorstat_MINE"] != "count=1" {
		t.Errorf("errorstats after CONFIG RESETSTAT: %v", got)
	}
}

// TestFlushIsCounted: FUNCTION FLUSH and SCRIPT FLUSH count in lazyfreed_objects.
func TestFlushIsCounted(t *testing.T) {
	s := testkit.Start(t)
	for i := range 100 {
		s.Do("FUNCTION", "LOAD", fmt.Sprintf("#!lua name=l%d\nredis.register_function('f%d', function() end)", i, i))
		s.Do("SCRIPT", "LOAD", fmt.Sprintf("return %d", i))
	}
	s.Do("FUNCTION", "FLUSH", "ASYNC")
	if n := s.InfoInt("memory", "lazyfreed_objects"); n != 101 {
		t.Errorf("lazyfreed_objects after FUNCTION FLUSH: %d, want 100 functions and their Lua state", n)
	}
	s.Do("CONFIG", "RESETSTAT")
	s.Do("SCRIPT", "FLUSH", "ASYNC")
	if n := s.InfoInt("memory", "lazyfreed_objects"); n != 100 {
		t.Errorf("lazyfreed_objects after SCRIPT FLUSH: %d", n)
	}
}

// TestDeprecatedFunctions: a setting removes getfenv, setfenv and newproxy from scripts and functions.
func TestDeprecatedFunctions(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		word := map[bool]string{true: "yes", false: "no"}[enabled]
		t.Run(word, func(t *testing.T) {
			s := testkit.Start(t, "--lua-enable-deprecated-api", word)
			for name, use := range map[string]string{
				"setfenv":  "setfenv(function() end, {})",
				"getfenv":  "getfenv(function() end)",
				"newproxy": "getmetatable(newproxy(true)).__gc = function() end",
			} {
				s.Do("FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function('f', function() "+use+" return 1 end)")
				for _, call := range [][]any{{"EVAL", use + " return 1", "0"}, {"FCALL", "f", "0"}} {
					v, err := s.Ask(call...)
					if err != nil {
						t.Fatal(err)
					}
					refused := v.Err() != nil && strings.Contains(v.Err().Error(), "nonexistent global variable '"+name+"'")
					if enabled != (v.Int == 1) || enabled == refused {
						t.Errorf("%v: %v", call, v)
					}
				}
			}
			s.Do("FUNCTION", "LOAD", "REPLACE",
				"#!lua name=l\nredis.register_function('f', function() return loadstring('return type(redis.call)')() end)")
			if v := s.Do("FCALL", "f", "0"); v.Word() != "function" {
				t.Errorf("code that a function compiles sees redis.call as %v", v)
			}
		})
	}
}

// TestScriptsWithoutMemory: when maxmemory is exceeded, a script runs only if its flags allow it, whichever command
// calls it.
func TestScriptsWithoutMemory(t *testing.T) {
	const late = "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
	const early = "OOM command not allowed when used memory > 'maxmemory'."
	for _, kind := range []string{"spindle", "redis"} {
		t.Run(kind, func(t *testing.T) {
			var s *testkit.Server
			if kind == "redis" {
				s = testkit.Redis(t)
			} else {
				s = testkit.Start(t)
			}
			scripts := map[string]string{}
			for name, flags := range map[string]string{"plain": "", "oom": " flags=allow-oom", "reads": " flags=no-writes"} {
				scripts[name] = "#!lua" + flags + "\nreturn 1"
			}
			// A transaction is queued before its script is known, so EXEC does not see that the script may write.
			c := s.Dial()
			queue := func(name string) {
				c.Must("MULTI")
				c.Must("EVALSHA", fmt.Sprintf("%x", sha1.Sum([]byte(scripts[name]))), "0")
			}
			for name, want := range map[string]string{"plain": late, "oom": "1", "reads": "1"} {
				s.Do("CONFIG", "SET", "maxmemory", "0")
				s.Do("SCRIPT", "FLUSH")
				queue(name)
				s.Do("SCRIPT", "LOAD", scripts[name])
				s.Do("CONFIG", "SET", "maxmemory", "1")
				if v := c.Must("EXEC"); v.Elems[0].Word() != want {
					t.Errorf("%s in EXEC: %v", name, v)
				}
				if want == late {
					want = early
				}
				if v, _ := s.Ask("EVAL", scripts[name], "0"); v.Word() != want {
					t.Errorf("%s: %v", name, v)
				}
			}
			if v, _ := s.Ask("EVAL", "return redis.call('SET', 'k', 'v')", "0"); !strings.HasPrefix(v.Word(), early) {
				t.Errorf("a write: %v", v)
			}
		})
	}
}

// TestScriptMemoryIsShown: INFO and MEMORY STATS show the memory of scripts and libraries. It counts in used_memory,
// and is freed when they are deleted.
func TestScriptMemoryIsShown(t *testing.T) {
	s := testkit.Start(t)
	const megabyte = 1 << 20
	read := func() map[string]int64 {
		m := map[string]int64{}
		for _, name := range []string{"used_memory_lua", "used_memory_vm_eval",
			"used_memory_scripts_eval", "number_of_cached_scripts",
			"number_of_functions", "number_of_libraries", "used_memory_vm_functions", "used_memory_vm_total",
			"used_memory_functions",
			"used_memory_scripts", "used_memory", "used_memory_overhead"} {
			m[name] = s.InfoInt("memory", name)
		}
		stats := s.Do("MEMORY", "STATS")
		for _, name := range []string{"lua.caches", "functions.caches", "overhead.total"} {
			v, _ := stats.Get(name)
			m[name] = v.Int
		}
		for name, same := range map[string]string{"used_memory_lua": "used_memory_vm_eval",
			"lua.caches":       "used_memory_scripts_eval",
			"functions.caches": "used_memory_functions", "overhead.total": "used_memory_overhead"} {
			if m[name] != m[same] {
				t.Errorf("%s is %d, %s is %d", name, m[name], same, m[same])
			}
		}
		if sum := m["used_memory_vm_eval"] + m["used_memory_vm_functions"]; m["used_memory_vm_total"] != sum {
			t.Errorf("used_memory_vm_total is %d, the sum %d", m["used_memory_vm_total"], sum)
		}
		if sum := m["used_memory_scripts_eval"] + m["used_memory_functions"]; m["used_memory_scripts"] != sum {
			t.Errorf("used_memory_scripts is %d, the sum %d", m["used_memory_scripts"], sum)
		}
		return m
	}
	grown := func(before, after map[string]int64, by int64, names ...string) {
		t.Helper()
		for _, name := range names {
			if n := after[name] - before[name]; n < by || n > by+megabyte/4 {
				t.Errorf("%s grew by %d, want %d and little more", name, n, by)
			}
		}
	}
	first := read()
	comment := "--" + strings.Repeat("x", megabyte) + "\n"
	s.Do("SCRIPT", "LOAD", comment+"return 1")
	s.Do("EVAL", comment+"return 2", "0")
	second := read()
	grown(first, second, 2*megabyte, "used_memory", "used_memory_scripts_eval", "used_memory_scripts",
		"used_memory_overhead")
	grown(first, second, 2, "number_of_cached_scripts")
	s.Do("FUNCTION", "LOAD", "#!lua name=l\n"+comment+
		"redis.register_function('f', function() end) redis.register_function('g', function() end)")
	third := read()
	grown(second, third, megabyte, "used_memory", "used_memory_functions", "used_memory_scripts", "used_memory_overhead")
	grown(second, third, 1, "number_of_libraries")
	grown(second, third, 2, "number_of_functions")
	if third["used_memory_vm_eval"] == 0 || third["used_memory_vm_functions"] == 0 {
		t.Errorf("machines of no size: %v", third)
	}
	if third["used_memory_vm_total"] > megabyte {
		t.Errorf("the machines hold %d bytes: sources are no part of them", third["used_memory_vm_total"])
	}
	s.Do("EVAL", "for i = 1, 20 do local s = string.rep('garbage', 1e6) end", "0")
	s.Do("FUNCTION", "LOAD",
		"#!lua name=holds\nlocal t = {} for i = 1, 20000 do t[i] = {i} end redis.register_function('h', function() return "+
			"t end)")
	if n := read()["used_memory_vm_eval"]; n > megabyte/2 {
		t.Errorf("%d bytes of EVAL's machine are in use, with 140 MB of garbage", n)
	}
	if n := read()["used_memory_vm_functions"]; n < megabyte || n > 8*megabyte {
		t.Errorf("%d bytes of the functions' machine are in use, with 20,000 tables", n)
	}
	s.Do("FUNCTION", "DELETE", "holds")
	if n := read()["used_memory_vm_functions"]; n > megabyte/2 {
		t.Errorf("%d bytes of the functions' machine are in use when the tables are gone", n)
	}
	s.Do("SCRIPT", "FLUSH")
	s.Do("FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function('f', function() end)")
	s.Do("FUNCTION", "DELETE", "l")
	last := read()
	for _, name := range []string{"used_memory_scripts", "number_of_cached_scripts", "number_of_functions",
		"number_of_libraries"} {
		if last[name] != 0 {
			t.Errorf("%s is %d when all are gone", name, last[name])
		}
	}
	grown(first, last, 0, "used_memory")
	for i := range 510 {
		s.Do("EVAL", fmt.Sprintf("return %d", i), "0")
	}
	if n, kept := s.InfoInt("stats", "evicted_scripts"), read()["number_of_cached_scripts"]; n != 10 || kept != 500 {
		t.Errorf("%d scripts evicted and %d kept of 510", n, kept)
	}
}

// TestLongReplyOfLentScript: a reply of any length arrives complete after its script has lent the turn, with every
// event loop. A client with a smaller output limit is disconnected.
func TestLongReplyOfLentScript(t *testing.T) {
	const script = "local t, end_at = {}, os.clock() + 0.02 while os.clock() < end_at do end " +
		"for i = 1, ARGV[1] do t[i] = 'element ' .. i end return t"
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			s := testkit.Start(t, "--reactor-backend", backend)
			c := s.Dial()
			for _, n := range []int{10, 200_000} {
				replies, err := c.Pipeline([]any{"PING"}, []any{"EVAL", script, "0", n}, []any{"PING"})
				if err != nil {
					t.Fatal(err)
				}
				got := replies[1].Elems
				if len(got) != n || replies[0].Word() != "PONG" || replies[2].Word() != "PONG" {
					t.Fatalf("%d elements, want %d; %v, %v", len(got), n, replies[0], replies[2])
				}
				for i, e := range got {
					if e.Word() != fmt.Sprintf("element %d", i+1) {
						t.Fatalf("element %d: %v", i, e)
					}
				}
			}
			s.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0")
			if v, err := c.Do("EVAL", script, "0", 200_000); err == nil {
				t.Errorf("a client past its limit got %d elements", len(v.Elems))
			}
		})
	}
}

// TestScriptMemoryLimit: when a script, function or library exceeds script-memory-limit, only it fails. Its earlier
// writes stay.
func TestScriptMemoryLimit(t *testing.T) {
	s := testkit.Start(t, "--script-memory-limit", "8mb")
	const hoard = "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 1000) .. i end"
	short := func(what string, args ...any) {
		t.Helper()
		if v, err := s.Ask(args...); err != nil || v.Err() == nil || !strings.Contains(v.Err().Error(), "not enough memory") {
			t.Errorf("%s: %.200v %v", what, v, err)
		}
	}
	short("a script", "EVAL", "redis.call('SET', 'k', 'v') "+hoard, "0")
	if v := s.Do("GET", "k"); v.Word() != "v" {
		t.Errorf("what it wrote: %v", v)
	}
	s.Do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() "+hoard+
		" end) redis.register_function('g', function() return 'g' end)")
	short("a function", "FCALL", "f", "0")
	short("a library", "FUNCTION", "LOAD", "#!lua name=m\nlocal t = {} for i = 1, 1e9 do t[i] = {"+
		strings.Repeat("i, ", 32)+"} end") // it has half a second
	short("values from a command", "EVAL",
		"redis.call('SET', 'big', string.rep('x', 4e6)) local t = {} for i = 1, 9 do t[i] = redis.call('GET', 'big') end",
		"0")
	if v := s.Do("EVAL", "return {pcall(string.rep, 'x', 1e8)}", "0"); len(v.Elems) != 2 ||
		!strings.Contains(v.Elems[1].Word(), "not enough memory") {
		t.Errorf("pcall: %v", v)
	}
	if v := s.Do("EVAL", "for i = 1, 1e5 do local s = string.rep('x', 1000) end return 'garbage does not count'",
		"0"); v.Err() != nil {
		t.Error(v)
	}
	if v := s.Do("FCALL", "g", "0"); v.Word() != "g" {
		t.Errorf("another function: %v", v)
	}
	const large = "local t = {} for i = 1, 2e4 do t[i] = string.rep('x', 1000) .. i end return #t"
	short("a large script", "EVAL", large, "0")
	s.Do("CONFIG", "SET", "script-memory-limit", "0")
	if v := s.Do("EVAL", large, "0"); v.Int != 20_000 {
		t.Errorf("without a limit: %v", v)
	}
}

// TestScriptsAreObserved: SCRIPT STATS and /metrics have the calls and commands of each script and function. CONFIG
// RESETSTAT resets them. A CPU profile names the running script.
func TestScriptsAreObserved(t *testing.T) {
	admin := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", admin)
	s.Do("FUNCTION", "LOAD",
		"#!lua name=l\nredis.register_function('f', function(keys) redis.call('INCR', keys[1]) return redis.call('GET', "+
			"keys[1]) end)")
	const body = "return redis.call('PING')"
	digest := fmt.Sprintf("%x", sha1.Sum([]byte(body)))
	for range 3 {
		s.Do("FCALL", "f", "1", "k")
	}
	s.Do("EVAL", body, "0")
	s.Do("EVALSHA", digest, "0")
	figures := func() map[string]string {
		m := map[string]string{}
		for _, e := range s.Do("SCRIPT", "STATS").Elems {
			kind, _ := e.Get("kind")
			name, _ := e.Get("name")
			calls, _ := e.Get("calls")
			commands, _ := e.Get("commands")
			m[kind.Word()+" "+name.Word()] = fmt.Sprintf("%d calls, %d commands", calls.Int, commands.Int)
		}
		return m
	}
	if m := figures(); len(m) != 2 || m["function f"] != "3 calls, 6 commands" ||
		m["script "+digest] != "2 calls, 2 commands" {
		t.Errorf("SCRIPT STATS: %v", m)
	}
	_, metrics := fetch(t, "http://"+admin+"/metrics")
	for _, line := range []string{`spindle_script_calls_total{kind="function",name="f"} 3`,
		`spindle_script_commands_total{kind="function",name="f"} 6`,
		`spindle_script_calls_total{kind="script",name="` + digest + `"} 2`} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics has no %s", line)
		}
	}
	s.Do("CONFIG", "RESETSTAT")
	if m := figures(); m["function f"] != "0 calls, 0 commands" {
		t.Errorf("after CONFIG RESETSTAT: %v", m)
	}

	const long = "repeat for i = 1, 10000 do end " + testkit.UntilReleased + "return 'done'"
	c := start(t, s, []any{"EVAL", long, "0"})
	// On a busy host the server may get too little CPU time for a sample within a second.
	testkit.Until(t, testkit.Slowly(20*time.Second), "a profile that names the script", func() error {
		_, packed := fetch(t, "http://"+admin+"/debug/pprof/profile?seconds=1")
		unpacker, err := gzip.NewReader(strings.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		profile, err := io.ReadAll(unpacker)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%x", sha1.Sum([]byte(long))); !strings.Contains(string(profile), want) {
			return fmt.Errorf("one of %d bytes does not name script %s", len(profile), want)
		}
		return nil
	})
	s.Release()
	if v, err := c.Receive(); err != nil || v.Word() != "done" {
		t.Errorf("the script: %v %v", v, err)
	}
}
