package aof

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/tests/testkit"
)

// TestScriptsInLogs: a log of an older Redis has calls of scripts instead of their effects. They run when the log is
// loaded, on a primary and on a read-only replica.
func TestScriptsInLogs(t *testing.T) {
	for name, args := range map[string][]string{
		"primary": nil,
		"replica": {"--replicaof", "127.0.0.1 1", "--propagation-error-behavior", "panic"},
		"full":    {"--maxmemory", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeLog(t, dir, [][]string{
				{"SELECT", "9"},
				{"EVAL", "redis.call('set', KEYS[1], '100')", "1", "foo"},
				{"EVAL", "redis.call('incr', KEYS[1])", "1", "foo"},
			})
			s := testkit.Launch(t, testkit.Spec{Dir: dir, Args: append([]string{"--appendonly", "yes"}, args...)})
			c := s.Dial()
			c.Do("SELECT", 9)
			if v, err := c.Do("GET", "foo"); err != nil || v.Text != "101" {
				t.Errorf("foo is %v, %v", v, err)
			}
		})
	}
}

// writeLog writes a log of these commands into a server's folder.
func writeLog(t *testing.T, dir string, lines [][]string) {
	files := filepath.Join(dir, "appendonlydir")
	var log strings.Builder
	for _, line := range lines {
		var words [][]byte
		for _, w := range line {
			words = append(words, []byte(w))
		}
		log.Write(protocol.AppendCommand(nil, words))
	}
	for file, text := range map[string]string{
		"appendonly.aof.manifest":   "file appendonly.aof.1.incr.aof seq 1 type i\n",
		"appendonly.aof.1.incr.aof": log.String(),
	} {
		if err := os.MkdirAll(files, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(files, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLoadingLetsIn: while DEBUG LOADAOF runs, even within a script of the log, other clients get LOADING at once. A
// second DEBUG LOADAOF is refused with LOADING, or with BUSY after busy-reply-threshold.
func TestLoadingLetsIn(t *testing.T) {
	dir := t.TempDir()
	slow := "redis.call('set', KEYS[1], 'y'); for i = 1, 400000 do redis.call('ping') end return 'ok'"
	writeLog(t, dir, [][]string{{"SELECT", "9"}, {"SET", "before", "1"}, {"EVAL", slow, "1", "x"}, {"SET", "behind", "2"}})
	s := testkit.Launch(t, testkit.Spec{Dir: dir, Args: []string{
		"--appendonly", "yes", "--busy-reply-threshold", "1", "--enable-debug-command", "yes", "--aof-use-rdb-preamble", "no",
	}})
	loader, other := s.Dial(), s.Dial()
	for round := range 2 {
		loader.Send("DEBUG", "LOADAOF")
		if err := loader.Flush(); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, testkit.Slowly(20*time.Second), "LOADING", func() error {
			v, err := other.Do("PING")
			if err != nil {
				return err
			}
			return testkit.Equal(strings.HasPrefix(v.Text, "LOADING "), true)
		})
		v, err := other.Do("DEBUG", "LOADAOF")
		if word, _, _ := strings.Cut(v.Text, " "); err != nil || word != "LOADING" && word != "BUSY" && word != "OK" {
			t.Errorf("round %d: another LOADAOF: %v, %v", round, v, err)
		}
		if v, err := loader.Receive(); err != nil || v.Text != "OK" {
			t.Fatalf("round %d: LOADAOF: %v, %v", round, v, err)
		}
		c := s.Dial()
		c.Do("SELECT", 9)
		for key, want := range map[string]string{"before": "1", "x": "y", "behind": "2"} {
			if v, err := c.Do("GET", key); err != nil || v.Text != want {
				t.Errorf("round %d: %s is %v, %v", round, key, v, err)
			}
		}
		if v, err := c.Do("SET", "behind", "2"); err != nil || v.Text != "OK" { // must be logged
			t.Errorf("round %d: SET: %v, %v", round, v, err)
		}
	}
	s.AwaitLog(testkit.Slowly(time.Second), "Slow script detected")
}
