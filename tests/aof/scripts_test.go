package aof

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spindle/protocol"
	"spindle/tests/testkit"
)

// TestScriptsInLogs: a log of an older Redis holds scripts as they were called. They run when it is loaded, on a
// primary and on a replica that may not be written to.
func TestScriptsInLogs(t *testing.T) {
	for name, args := range map[string][]string{
		"primary": nil,
		"replica": {"--replicaof", "127.0.0.1 1", "--propagation-error-behavior", "panic"},
		"full":    {"--maxmemory", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := filepath.Join(dir, "appendonlydir")
			var log strings.Builder
			for _, line := range [][]string{
				{"SELECT", "9"},
				{"EVAL", "redis.call('set', KEYS[1], '100')", "1", "foo"},
				{"EVAL", "redis.call('incr', KEYS[1])", "1", "foo"},
			} {
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
			s := testkit.Launch(t, testkit.Spec{Dir: dir, Args: append([]string{"--appendonly", "yes"}, args...)})
			c := s.Dial()
			c.Do("SELECT", 9)
			if v, err := c.Do("GET", "foo"); err != nil || v.Text != "101" {
				t.Errorf("foo is %v, %v", v, err)
			}
		})
	}
}
