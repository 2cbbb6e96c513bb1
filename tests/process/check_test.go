package process

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestCheckRDB: under the name redis-check-rdb, spindle prints that tool's lines about a valid file, and has its exit
// code. The files come from either server.
func TestCheckRDB(t *testing.T) {
	link := filepath.Join(t.TempDir(), "redis-check-rdb")
	if err := os.Symlink(testkit.Spindle(t), link); err != nil {
		t.Fatal(err)
	}
	reference := testkit.Program(t, "redis-check-rdb")
	for _, s := range []*testkit.Server{testkit.Start(t), testkit.Redis(t)} {
		s.Do("SET", "k", "v", "EX", "1000")
		s.Do("RPUSH", "l", "a", "b")
		s.Do("ZADD", "z", "1", "a")
		s.Do("XADD", "x", "1-1", "f", "v")
		s.Do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)")
		c := s.Dial()
		c.Must("SELECT", "9")
		c.Must("SADD", "s", "1", "2")
		s.Do("SAVE")
		whole, err := os.ReadFile(s.File("dump.rdb"))
		if err != nil {
			t.Fatal(err)
		}
		flipped := []byte(strings.Replace(string(whole), "lname", "lnane", 1))
		flipped[len(flipped)-12] ^= 1
		for name, file := range map[string][]byte{"whole": whole, "cut": whole[:len(whole)-30], "flipped": flipped,
			"empty": nil, "foreign": []byte("<html></html>\n")} {
			path := s.File(name + ".rdb")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			want, code := testkit.Run(t, time.Minute, "", reference, path)
			out, ours := testkit.Run(t, time.Minute, "", link, path)
			if (code != 0) != (ours != 0) || (ours != 0) != strings.Contains(out, "--- RDB ERROR DETECTED ---\n") {
				t.Errorf("%s: exit code %d, redis-check-rdb %d: %s", name, ours, code, out)
			}
			for line := range strings.Lines(want) {
				if code == 0 && !strings.Contains(out, line) {
					t.Errorf("%s: no line %q in %s", name, line, out)
				}
			}
		}
	}
	for _, args := range [][]string{nil, {"--nosuch"}, {"/nowhere/a.rdb"}} {
		if out, code := testkit.Run(t, time.Minute, "", link, args...); code != 1 || out == "" {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
}

// TestCheckAOF: under the name redis-check-aof, spindle prints that tool's lines and has its exit code. --fix truncates
// at the same place. The logs come from either server: complete, truncated, and with transactions that begin or end
// twice. Each run truncates at other places, and long runs at more of them.
func TestCheckAOF(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "redis-check-aof")
	if err := os.Symlink(testkit.Spindle(t), link); err != nil {
		t.Fatal(err)
	}
	reference := testkit.Program(t, "redis-check-aof")
	const manifest, incr = "appendonly.aof.manifest", "appendonly.aof.1.incr.aof"
	for kind, s := range map[string]*testkit.Server{
		"ours": testkit.Start(t, "--appendonly", "yes"), "Redis's": testkit.Redis(t, "--appendonly", "yes"),
	} {
		c := s.Dial()
		c.Pipeline([]any{"SET", "a", 1}, []any{"MULTI"}, []any{"SET", "b", 2}, []any{"INCR", "c"}, []any{"EXEC"},
			[]any{"SET", "d", 3})
		c.Close()
		s.Terminate()
		folder := s.File("appendonlydir")
		log, err := os.ReadFile(filepath.Join(folder, incr))
		if err != nil {
			t.Fatal(err)
		}
		names, err := os.ReadFile(filepath.Join(folder, manifest))
		if err != nil {
			t.Fatal(err)
		}
		check := func(what, file string, text []byte, args ...string) {
			t.Helper()
			var outs, files [2]string
			var codes [2]int
			for i, program := range []string{reference, link} {
				for name, text := range map[string][]byte{incr: log, manifest: names, file: text} {
					if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				args := append(slices.Clone(args), filepath.Join(folder, file))
				if file == incr && len(args) > 1 {
					args[len(args)-1] = filepath.Join(folder, manifest)
				}
				outs[i], codes[i] = testkit.Run(t, time.Minute, "y\n", program, args...)
				left, _ := os.ReadFile(filepath.Join(folder, file))
				files[i] = string(left)
			}
			if codes[0] != codes[1] || files[0] != files[1] {
				t.Errorf("%s: %s: exit code %d, Redis's %d; %d bytes, Redis's %d\n%s\n%s",
					kind, what, codes[1], codes[0], len(files[1]), len(files[0]), outs[1], outs[0])
			}
			for line := range strings.Lines(outs[0]) {
				line, _, _ = strings.Cut(line, ", ok_up_to_line")
				if strings.Trim(line, "\n*") == "" || strings.HasPrefix(line, "[") || strings.HasPrefix(line, "0x") ||
					strings.Contains(line, "format error") || strings.Contains(line, ":C ") {
					continue // parts of an RDB file, the bytes at an error, and headers of a log's lines
				}
				if !strings.Contains(outs[1], line) {
					t.Errorf("%s: %s: no line %q in\n%s", kind, what, line, outs[1])
				}
			}
		}
		check("whole", manifest, names)
		check("the file alone", incr, log)
		check("empty", incr, nil)
		check("empty, by the manifest", incr, nil, "--fix")
		step := 47
		if testkit.Scale() > 1 {
			step = 7
		}
		for n := rand.IntN(step); n < len(log); n += step {
			check(fmt.Sprint("cut at ", n), incr, log[:n])
			check(fmt.Sprint("mended, cut at ", n), incr, log[:n], "--fix")
		}
		for n := 1 + rand.IntN(step/2); n <= len(names); n += step / 2 {
			check(fmt.Sprint("manifest cut at ", n), manifest, names[:n])
		}
		for name, text := range map[string]string{
			"MULTI twice": strings.Replace(string(log), "*1\r\n$5\r\nMULTI\r\n", "*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n",
				1),
			"EXEC twice": string(log) + "*1\r\n$4\r\nEXEC\r\n",
		} {
			check(name, incr, []byte(text))
			check(name+", mended", incr, []byte(text), "--fix")
		}
	}
	out, code := testkit.Run(t, time.Minute, "", link, "--version")
	if code != 0 || !strings.HasPrefix(out, "redis-check-aof v=7.4.1") {
		t.Errorf("%d, %s", code, out)
	}
}
