package aof

import (
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestReadersOfBase: after a rewrite, the server logs which servers can load the base, if some version of Redis 7
// cannot.
func TestReadersOfBase(t *testing.T) {
	const begins = "A server that loads the new AOF base"
	for _, c := range []struct {
		name, want string
		fill       [][]any
	}{
		{"plain", "", [][]any{{"HSET", "h", "f", "v"}}},
		{"deadlines", "Redis 7.4 or later, for the deadlines of hash fields", [][]any{
			{"HSET", "h", "f", "v"}, {"HPEXPIRE", "h", 1_000_000, "FIELDS", 1, "f"}}},
		{"filters", "the module bf, for Bloom filters", [][]any{{"BF.ADD", "b", "x"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.Start(t, "--appendonly", "yes")
			for _, words := range c.fill {
				s.Do(words...)
			}
			s.Do("BGREWRITEAOF")
			s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
			s.AwaitLog(testkit.Slowly(time.Second), "Background AOF rewrite finished successfully")
			log := s.Log()
			if c.want == "" && strings.Contains(log, begins) || !strings.Contains(log, c.want) {
				t.Errorf("the log says: %s", log)
			}
		})
	}
}
