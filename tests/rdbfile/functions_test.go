package rdbfile

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// libraries has function libraries of several kinds: with named arguments, with a source of many kilobytes, and with a
// source that is not valid text.
var libraries = []string{
	"#!lua name=plain\nredis.register_function('get', function(keys) return redis.call('GET', keys[1]) end)",
	"#!lua name=named\nredis.register_function{function_name = 'n', callback = function() return 'n' end, " +
		"flags = {'no-writes', 'allow-stale'}, description = 'says \\'n\\''}\nredis.register_function('other', function() end)",
	"#!lua name=long\n-- " + strings.Repeat("a long comment ", 10_000) +
		"\nredis.register_function('long', function() return 1 end)",
	"#!lua name=bytes\n-- \x00\xff\xfe\r\nredis.register_function('bytes', function() return '\x01\xff' end)",
}

func loadLibraries(s *testkit.Server) {
	for _, source := range libraries {
		s.Do("FUNCTION", "LOAD", source)
	}
	s.Do("SET", "k", "a value")
}

// functionsOf returns the reply of FUNCTION LIST WITHCODE as text, with the libraries sorted by name. It sorts the
// flags too, because servers return them in no fixed order.
func functionsOf(s *testkit.Server) string {
	var lines []string
	for _, l := range s.Do("FUNCTION", "LIST", "WITHCODE").Elems {
		name, _ := l.Get("library_name")
		code, _ := l.Get("library_code")
		list, _ := l.Get("functions")
		var functions []string
		for _, f := range list.Elems {
			name, _ := f.Get("name")
			description, _ := f.Get("description")
			flags, _ := f.Get("flags")
			words := flags.Strings()
			slices.Sort(words)
			functions = append(functions, fmt.Sprintf("%s %s %s", name.Word(), description.Word(), words))
		}
		slices.Sort(functions)
		lines = append(lines, fmt.Sprintf("%s: %s\n%q", name.Word(), strings.Join(functions, ", "), code.Word()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// holds fails the test unless s has exactly these libraries and this many keys, and can call the libraries.
func holds(t *testing.T, what string, s *testkit.Server, want string, keys int64) {
	t.Helper()
	if got := functionsOf(s); got != want {
		t.Fatalf("%s: %.2000s\nwant %.2000s", what, got, want)
	}
	if n := s.Do("DBSIZE").Int; n != keys {
		t.Errorf("%s: %d keys, want %d", what, n, keys)
	}
	if v := s.Do("FCALL", "bytes", 0); v.Word() != "\x01\xff" {
		t.Errorf("%s: FCALL bytes answers %q", what, v.Word())
	}
	if v := s.Do("FCALL", "get", 1, "k"); keys == 1 && v.Word() != "a value" {
		t.Errorf("%s: FCALL get answers %v", what, v)
	}
}

// TestFunctions: libraries go from redis-server to spindle and back, by payloads and in files, and stay the same.
func TestFunctions(t *testing.T) {
	for _, p := range testkit.Peers(t) {
		t.Run(p.Name, func(t *testing.T) {
			if p.Valkey() {
				t.Skip("Valkey 9 does not load a library with a zero byte")
			}
			version := p.RDBVersion
			here := testkit.Start(t, "--rdb-write-version", fmt.Sprint(version))
			there := testkit.Launch(t, testkit.Spec{Redis: true, Program: p.Program})
			loadLibraries(there)
			want := functionsOf(there)
			there.Do("SAVE")
			here.Do("FUNCTION", "RESTORE", there.Do("FUNCTION", "DUMP").Text)
			holds(t, "by a payload from there", here, want, 0)
			here.Do("FUNCTION", "FLUSH")
			carry(t, there, here)
			holds(t, "by a file from there", here, want, 1)
			here.Do("DEBUG", "RELOAD")
			holds(t, "after DEBUG RELOAD", here, want, 1)

			there.Do("FUNCTION", "FLUSH")
			there.Do("FUNCTION", "RESTORE", here.Do("FUNCTION", "DUMP").Text)
			holds(t, "back by a payload", there, want, 1)
			here.Do("SAVE")
			check(t, here.File("dump.rdb"), version)
			there.Do("FUNCTION", "FLUSH")
			there.Do("FLUSHALL")
			carry(t, here, there)
			holds(t, "back by a file", there, want, 1)

			here.Do("FLUSHALL")
			here.Do("SAVE")
			carry(t, here, there)
			holds(t, "FLUSHALL keeps them, and so does a file without keys", there, want, 0)
		})
	}
}

// TestFunctionsRDB: redis-cli --functions-rdb fetches a file with the libraries and without keys. Both servers read
// it.
func TestFunctionsRDB(t *testing.T) {
	here := testkit.Start(t)
	loadLibraries(here)
	want := functionsOf(here)
	file := here.File("functions.rdb")
	out, code := testkit.Run(t, testkit.Slowly(30*time.Second), "", testkit.Program(t, "redis-cli"),
		"-p", fmt.Sprint(here.Port), "--functions-rdb", file)
	if code != 0 {
		t.Fatalf("redis-cli --functions-rdb: %s", out)
	}
	check(t, file, 10)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range testkit.Peers(t) {
		if p.Valkey() { // Valkey does not load a library with a zero byte
			continue
		}
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/dump.rdb", b, 0o600); err != nil {
			t.Fatal(err)
		}
		holds(t, p.Name, testkit.Launch(t, testkit.Spec{Redis: true, Program: p.Program, Dir: dir}), want, 0)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/dump.rdb", b, 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, "here", testkit.Launch(t, testkit.Spec{Dir: dir}), want, 0)
	holds(t, "the source is as it was", here, want, 1)
}
