package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// shows has the output that a command of doc/profiling.md must print, by the beginning of the command. The longest
// matching entry applies.
var shows = map[string]string{
	"redis-cli INFO commandstats": "cmdstat_sort:", "redis-cli HOTKEYS GET": "numbers",
	"redis-cli HOTKEYS START":                    "OK",
	"redis-cli HOTKEYS STOP":                     "OK",
	"redis-cli HOTKEYS RESET":                    "OK",
	"redis-cli INFO replylatency":                "reply_usec_sort:",
	"go tool pprof -tags":                        "sort",
	"go tool pprof -top -nodecount=15 http":      "flat%",
	"go tool pprof -top -nodecount=15 -tagfocus": "ort",
	"redis-cli SCRIPT STATS":                     "calls", "redis-cli STALLS GET": "cpu-usec",
	"redis-cli SLOWLOG GET": "127.0.0.1:", "redis-cli INFO stats": "longest_turn_usec:", "redis-cli COMMANDLOG GET": "",
	"curl -s http://127.0.0.1:9121/healthz": `"held":`, "curl -s -o": "", "go tool trace": "",
	"go tool pprof -top -nodecount=10 s": "flat%", "perf record": "", "perf report": "%",
	"redis-cli INFO memory": "memory_purpose_go_heap:", "redis-cli BIGKEYS GET": "numbers",
	"spindle rdb report": "numbers", "redis-cli MEMORY DOCTOR": "", "redis-cli CLIENT LIST": "tot-mem=",
	"go tool pprof -top -nodecount=10 http": "flat%", "go tool pprof -top -nodecount=10 -base": "flat%",
	"curl -s http://127.0.0.1:9121/debug/pprof/goroutine": "goroutine profile: total", "redis-cli MEMORY PURGE": "OK",
}

func shown(command string) (want string, ok bool) {
	longest := ""
	for start, text := range shows {
		if strings.HasPrefix(command, start) && len(start) > len(longest) {
			longest, want, ok = start, text, true
		}
	}
	return want, ok
}

// steps returns the commands of a page: its indented lines.
func steps(t *testing.T, page string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", page))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// goTools returns a folder with a program called go, which only runs the tools pprof and trace. The real one looks at
// all sources of a tool before each run, and that costs ten times as much as the run.
func goTools(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := "#!/bin/sh\ntool=$2\nshift 2\ncase $tool in\n"
	for _, name := range []string{"pprof", "trace"} {
		path, err := exec.Command("go", "tool", "-n", name).Output()
		if err != nil {
			t.Fatalf("go tool -n %s: %v", name, err)
		}
		script += name + ") exec " + strings.TrimSpace(string(path)) + " \"$@\" ;;\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script+"esac\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestProfilingPage runs each step of doc/profiling.md as written, on a server with enough activity to show.
func TestProfilingPage(t *testing.T) {
	t.Parallel()
	port := testkit.FreePort(t)
	admin := "127.0.0.1:" + strconv.Itoa(port)
	s := testkit.Start(t, "--admin-address", admin, "--enable-debug-command", "yes",
		"--pidfile", "the.pid")
	testkit.Pipe(t, s.Dial(), 2000, func(i int) []any { return []any{"RPUSH", "numbers", i * 7919 % 10007} })
	s.Do("EVAL", "return redis.call('LLEN', 'numbers')", 0)
	s.Do("DEBUG", "SLEEP", "0.05")
	s.Do("SORT", "numbers") // the first step may come before the load's first
	over, done := make(chan struct{}), make(chan struct{})
	c := s.Dial()
	go func() {
		defer close(done)
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-over:
				return
			case <-pace.C:
				if _, err := c.Do("SORT", "numbers"); err != nil {
					t.Errorf("the load: %v", err)
					return
				}
			}
		}
	}()
	defer func() { close(over); <-done }()
	tools := goTools(t)
	testkit.Program(t, "redis-cli")
	dir := t.TempDir()
	here := strings.NewReplacer("redis-cli ", fmt.Sprintf("redis-cli -p %d ", s.Port), "127.0.0.1:9121", admin,
		"127.0.0.1:6379", s.Addr,
		"/run/spindle/spindle.pid", s.File("the.pid"), "spindle rdb", testkit.Spindle(t)+" rdb")
	commands := steps(t, "profiling.md")
	if len(commands) < 25 {
		t.Fatalf("only %d steps", len(commands))
	}
	for _, command := range commands {
		if _, err := exec.LookPath(strings.Fields(command)[0]); err != nil && !strings.HasPrefix(command, "spindle") {
			t.Logf("not tried: %s is not installed: %s", strings.Fields(command)[0], command)
			continue
		}
		want, ok := shown(command)
		if !ok {
			t.Errorf("%s: what it has to show is not said in this test", command)
			continue
		}
		run := func() (out []byte, err error) {
			cmd := exec.Command("sh", "-c", here.Replace(command))
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"),
				"PPROF_TMPDIR="+dir)
			return cmd.CombinedOutput()
		}
		began := time.Now()
		out, err := run()
		// On a busy host two seconds may pass without a profile sample of the load. HOTKEYS GET may come before the load's
		// next command.
		for range 10 {
			if err != nil || strings.Contains(string(out), want) || !strings.Contains(command, "/profile?seconds=") &&
				!strings.Contains(command, "HOTKEYS GET") {
				break
			}
			testkit.Lapse(20 * time.Millisecond)
			out, err = run()
		}
		if strings.HasPrefix(command, "perf") && err != nil {
			t.Logf("not tried: perf may not be used here: %s: %.200s", command, out)
			continue
		}
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, shows no %q:\n%.600s", command, err, want, out)
		}
		t.Logf("%s: %v", command, time.Since(began).Round(time.Millisecond))
	}
}
