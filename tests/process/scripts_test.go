package process

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestLapsedKeyInScript: DEBUG OBJECT shows a key that is past its deadline, until a script has looked it up.
func TestLapsedKeyInScript(t *testing.T) {
	s := testkit.Start(t, "--enable-debug-command", "yes")
	s.Do("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	s.Do("SET", "k", "v", "PX", "1")
	time.Sleep(5 * time.Millisecond)
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

// TestManyErrorCodes: errorstats stop when scripts have made up too many codes, say so in the log, and go on after
// CONFIG RESETSTAT.
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
	for _, line := range []string{"Errorstats stopped adding new errors", "Current errors code list: CODE0, CODE1, CODE10"} {
		if n := strings.Count(s.Log(), line); n != 1 {
			t.Errorf("the log has %d lines with %q", n, line)
		}
	}
	s.Do("CONFIG", "RESETSTAT")
	_, _ = s.Ask("EVAL", "return redis.error_reply('MINE text')", "0")
	if got := s.Info("errorstats"); got["errorstat_MINE"] != "count=1" {
		t.Errorf("errorstats behind CONFIG RESETSTAT: %v", got)
	}
}

// TestFlushIsCounted: scripts and functions that a FLUSH lets go count as freed beside the core.
func TestFlushIsCounted(t *testing.T) {
	s := testkit.Start(t)
	for i := range 100 {
		s.Do("FUNCTION", "LOAD", fmt.Sprintf("#!lua name=l%d\nredis.register_function('f%d', function() end)", i, i))
		s.Do("SCRIPT", "LOAD", fmt.Sprintf("return %d", i))
	}
	s.Do("FUNCTION", "FLUSH", "ASYNC")
	if n := s.InfoInt("memory", "lazyfreed_objects"); n != 101 {
		t.Errorf("lazyfreed_objects behind FUNCTION FLUSH: %d, want 100 functions and their world", n)
	}
	s.Do("CONFIG", "RESETSTAT")
	s.Do("SCRIPT", "FLUSH", "ASYNC")
	if n := s.InfoInt("memory", "lazyfreed_objects"); n != 100 {
		t.Errorf("lazyfreed_objects behind SCRIPT FLUSH: %d", n)
	}
}

// TestDeprecatedFunctions: getfenv, setfenv and newproxy can be taken from scripts and from functions.
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
			s.Do("FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function('f', function() return loadstring('return type(redis.call)')() end)")
			if v := s.Do("FCALL", "f", "0"); v.Word() != "function" {
				t.Errorf("code that a function compiles sees redis.call as %v", v)
			}
		})
	}
}
