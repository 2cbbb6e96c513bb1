package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// PageServers writes the programs spindle and redis-server into dir, for the commands of a page. redis-server is a
// server of the named kind. Both begin full copies at once: by default a primary waits five seconds for more replicas.
func PageServers(t testing.TB, dir, kind string) {
	t.Helper()
	theirs := Kind(t, kind).Program
	if theirs == "" {
		theirs = Program(t, "redis-server")
	}
	for name, program := range map[string]string{"spindle": Spindle(t), "redis-server": theirs} {
		text := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *--sentinel*) exec %[1]s \"$@\" ;; esac\n"+
			"exec %[1]s \"$@\" --repl-diskless-sync-delay 0 2>&1\n", program)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
