package aof

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestMigration follows MIGRATION.md in both directions: with an RDB file, with an append-only file, and with both.
func TestMigration(t *testing.T) {
	for _, persistence := range []string{"appendonly no", "appendonly yes", "appendonly yes\nsave 3600 1"} {
		t.Run(persistence, func(t *testing.T) {
			dir, port := t.TempDir(), testkit.FreePort(t)
			conf := filepath.Join(dir, "redis.conf")
			text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\ndbfilename dump.rdb\nenable-debug-command local\n%s\n",
				port, dir, persistence)
			if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			digest, way := "", []string{"redis", "spindle", "redis"}
			for i, who := range way {
				s := testkit.Launch(t, testkit.Spec{Redis: who == "redis", Bare: true, Port: port, Dir: dir, Args: []string{conf}})
				if got := s.Do("DEBUG", "DIGEST").Text; i > 0 && got != digest {
					t.Fatalf("%s has %s, %s had %s", who, got, way[i-1], digest)
				}
				fill(s, strconv.Itoa(i))
				digest = s.Do("DEBUG", "DIGEST").Text
				words := []any{"SHUTDOWN"}
				if persistence == "appendonly no" {
					words = append(words, "SAVE")
				}
				_, _ = s.Ask(words...) // the connection ends
				if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
					t.Fatalf("%s ends with %d", who, code)
				}
			}
		})
	}
}
