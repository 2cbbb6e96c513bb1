package process

import (
	"os"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestLoadmoduleOfABuiltIn: a server starts with a configuration of Redis with RedisBloom, and every command about
// modules lists it. CONFIG REWRITE keeps the line.
func TestLoadmoduleOfABuiltIn(t *testing.T) {
	for _, path := range []string{"/opt/redis-stack/lib/redisbloom.so", "bf"} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/redis.conf", []byte("loadmodule "+path+"\nenable-module-command yes\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
		s := testkit.Start(t, "--include", dir+"/redis.conf")
		s.AwaitLog(time.Second, "Module 'bf' is built in: "+path+" is not read")
		const version = "20802"
		if got, want := s.Do("MODULE", "LIST").String(), path; !strings.Contains(got, want) ||
			!strings.Contains(got, version) {
			t.Errorf("MODULE LIST: %s", got)
		}
		if got := s.Do("HELLO", "3").String(); !strings.Contains(got, "bf") || !strings.Contains(got, version) {
			t.Errorf("HELLO: %s", got)
		}
		if got := s.Do("INFO", "modules").Text; !strings.Contains(got,
			"module:name=bf,ver="+version+",api=1,filters=0,usedby=[],using=[],options=[]\r\n") {
			t.Errorf("INFO modules: %s", got)
		}
		if got := s.Do("COMMAND", "INFO", "bf.add", "get").String(); strings.Count(got, "module") != 1 {
			t.Errorf("COMMAND INFO bf.add get: %s", got)
		}
		if got := s.Do("COMMAND", "LIST", "FILTERBY", "MODULE", "bf").String(); !strings.Contains(got, "bf.madd") ||
			strings.Contains(got, "get") {
			t.Errorf("COMMAND LIST FILTERBY MODULE bf: %s", got)
		}
		for command, want := range map[string]string{
			"MODULE LOAD /nowhere/x.so":                "ERR Error loading the extension. Please check the server logs.",
			"MODULE LOADEX /x.so CONFIG a b ARGS c":    "ERR Error loading the extension. Please check the server logs.",
			"MODULE LOAD /usr/lib/redis/redisbloom.so": "ERR Error loading the extension. Please check the server logs.",
			"MODULE UNLOAD bf": "ERR Error unloading module: the module exports one or more " +
				"module-side data types, can't unload",
			"MODULE UNLOAD x": "ERR Error unloading module: no such module with that name",
		} {
			var words []any
			for _, w := range strings.Fields(command) {
				words = append(words, w)
			}
			if got, _ := s.Ask(words...); got.Err() == nil || got.Err().Error() != want {
				t.Errorf("%s: %v", command, got.Err())
			}
		}
		s.AwaitLog(time.Second, `Module "/nowhere/x.so" is not loaded: native modules cannot be loaded; built in are: bf`)
		s.AwaitLog(time.Second, `Module "/usr/lib/redis/redisbloom.so" is not loaded: bf is built in, and loaded already`)
	}
}

// TestLoadmoduleWithArguments: the arguments of loadmodule apply to the filters that BF.ADD and similar commands
// create.
func TestLoadmoduleWithArguments(t *testing.T) {
	s := testkit.Start(t, "--loadmodule", "redisbloom.so", "INITIAL_SIZE", "1000", "error_rate", "0.001")
	s.Do("BF.ADD", "added", "x")
	s.Do("BF.MADD", "many", "x", "y")
	s.Do("BF.INSERT", "inserted", "ITEMS", "x")
	s.Do("BF.INSERT", "told", "CAPACITY", "50", "ITEMS", "x")
	s.Do("BF.RESERVE", "like", "0.001", "1000")
	s.Do("BF.RESERVE", "small", "0.001", "50")
	for key, like := range map[string]string{"added": "like", "many": "like", "inserted": "like", "told": "small"} {
		for _, field := range []string{"CAPACITY", "SIZE", "EXPANSION"} {
			if got, want := s.Do("BF.INFO", key, field).String(), s.Do("BF.INFO", like, field).String(); got != want {
				t.Errorf("%s of %s: %s, want %s", field, key, got, want)
			}
		}
	}
	if got := s.Do("MODULE", "LIST").String(); !strings.Contains(got, "INITIAL_SIZE") || !strings.Contains(got, "0.001") {
		t.Errorf("MODULE LIST: %s", got)
	}
}

// TestLoadmoduleOfAnotherEndsTheStart: a server does not start with a module that it does not have, or with arguments
// that would have no effect. The log names them.
func TestLoadmoduleOfAnotherEndsTheStart(t *testing.T) {
	for line, want := range map[string]string{
		"/opt/redis-stack/lib/redisearch.so": "native modules cannot be loaded; built in are: bf",
		"redisbloom.so ERROR_RATE":           "Invalid number of arguments passed",
		"redisbloom.so ERROR_RATE x":         "Invalid argument for 'ERROR_RATE'",
		"redisbloom.so ERROR_RATE 0":         "ERROR_RATE must be > 0",
		"redisbloom.so ERROR_RATE 1":         "ERROR_RATE must be < 1",
		"redisbloom.so INITIAL_SIZE 1e3":     "Invalid argument for 'INITIAL_SIZE'",
		"redisbloom.so INITIAL_SIZE 0":       "INITIAL_SIZE must be > 0",
		"redisbloom.so CF_MAX_EXPANSIONS 8":  "Unrecognized option 'CF_MAX_EXPANSIONS'",
	} {
		s := testkit.Launch(t, testkit.Spec{NoWait: true, Args: append([]string{"--loadmodule"}, strings.Fields(line)...)})
		if code := s.Wait(20 * time.Second); code != 1 {
			t.Errorf("%s: exit code %d", line, code)
		}
		if log := s.Log(); !strings.Contains(log, "Can't load module from "+strings.Fields(line)[0]+": server aborting") ||
			!strings.Contains(log, want) {
			t.Errorf("%s: %s", line, log)
		}
	}
}
