// Package testkit starts real servers, spindle and redis-server, for black-box tests.
//
// Owner: the test that starts a server. Any goroutine may call a Server's methods, but Do only one goroutine at a time.
// Never: ends a process that no test has started, listens beyond loopback, or leaves a process or a file. A server dies
// with the test process in any case.
// Start at server.go; build.go makes the binary, ports.go finds ports, child.go starts processes, poll.go waits.
package testkit

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/internal/invariant"
)

// Checked is true under -race and -tags invariants. The servers are then built with the same flags, so they are slower
// and use more memory.
const Checked = invariant.Enabled

// Slowly lengthens a time limit in builds with invariant checks.
func Slowly(d time.Duration) time.Duration {
	if Checked {
		return 8 * d
	}
	return d
}

// Program finds a program of Debian's redis packages, which `make deps` installs. It fails the test if the program is
// missing.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: make deps installs it", err)
	}
	return path
}

// Run runs a program to its end with text as its input. It returns both outputs, joined, and the exit code. After slack
// times limit, it fails the test.
func Run(t testing.TB, limit time.Duration, text, name string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), slack*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(text)
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	cmd.WaitDelay = 5 * time.Second
	err := startChild(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %v did not end within %v:\n%s", name, args, limit, tail(buf.String(), 2000))
	}
	if cmd.ProcessState == nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return buf.String(), cmd.ProcessState.ExitCode()
}

// tail returns the last n bytes of s.
func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// Scale returns the factor for a test's amount of work: SPINDLE_TEST_SCALE, or 1.
func Scale() int {
	if n, err := strconv.Atoi(os.Getenv("SPINDLE_TEST_SCALE")); err == nil && n > 1 {
		return n
	}
	return 1
}
