package aof

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestMigration follows MIGRATION.md in both directions, with each other server: with an RDB file, with an append-only
// file, and with both.
func TestMigration(t *testing.T) {
	for _, p := range testkit.Peers(t) {
		for _, persistence := range []string{"appendonly no", "appendonly yes", "appendonly yes\nsave 3600 1"} {
			t.Run(p.Name+"/"+persistence, func(t *testing.T) { migrate(t, p, persistence) })
		}
	}
}

func migrate(t *testing.T, p testkit.Peer, persistence string) {
	dir, port := t.TempDir(), testkit.FreePort(t)
	conf := filepath.Join(dir, "redis.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\ndbfilename dump.rdb\nenable-debug-command local\n%s\n",
		port, dir, persistence)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var was []string
	for i, here := range []bool{false, true, false} {
		spec := testkit.Spec{Redis: !here, Program: p.Program, Bare: true, Port: port, Dir: dir, Args: []string{conf}}
		if here {
			if spec.Program = ""; p.Valkey() {
				spec.Args = append(spec.Args, "--rdb-write-version", "80")
			}
		}
		s := testkit.Launch(t, spec)
		if is := content(s, p); i > 0 && !slices.Equal(is, was) {
			t.Fatalf("spindle %t: it has\n%q, the one before had\n%q", here, is, was)
		}
		fill(s, strconv.Itoa(i))
		fillVolatile(s, p, strconv.Itoa(i))
		if here && persistence != "appendonly no" {
			s.Do("BGREWRITEAOF")
			s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
		}
		was = content(s, p)
		words := []any{"SHUTDOWN"}
		if persistence == "appendonly no" {
			words = append(words, "SAVE")
		}
		_, _ = s.Ask(words...) // the connection ends
		if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
			t.Fatalf("spindle %t: it ends with %d", here, code)
		}
	}
}
