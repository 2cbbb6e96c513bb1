package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestPanicIsInTheLog: a panic in a turn ends the process, with every event loop. The log file has the trace, even
// after a rotation.
func TestPanicIsInTheLog(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--enable-debug-command", "yes", "--logfile", "log.txt", "--reactor-backend", backend)
			s.Crashes()
			if backend == "epoll" {
				if err := os.Rename(s.File("log.txt"), s.File("log.old")); err != nil {
					t.Fatal(err)
				}
				s.Do("DEBUG", "LOG", "first line of the new file")
				// The server checks the file every 5 s.
				testkit.Until(t, testkit.Slowly(30*time.Second), "the old file is let go of", func() error {
					return testkit.Equal(slices.Contains(open(t, s.PID), s.File("log.old")), false)
				})
			}
			if v, err := s.Ask("DEBUG", "PANIC"); err == nil {
				t.Errorf("a reply: %v", v)
			}
			if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 2 {
				t.Errorf("exit code %d", code)
			}
			log, err := os.ReadFile(s.File("log.txt"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"panic: DEBUG PANIC", "engine.(*Core).serve(", "goroutine "} {
				if !strings.Contains(string(log), want) {
					t.Errorf("no %q in %s", want, log)
				}
			}
		})
	}
}

// open returns the paths of the files that a process has open.
func open(t *testing.T, pid int) (paths []string) {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("no descriptors of %d: %v", pid, err)
	}
	for _, fd := range fds {
		if path, err := os.Readlink(fd); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// TestNoCrashLog: crash-log-enabled no keeps traces out of the log file.
func TestNoCrashLog(t *testing.T) {
	s := testkit.Start(t, "--enable-debug-command", "yes", "--logfile", "log.txt", "--crash-log-enabled", "no")
	s.Crashes()
	_, _ = s.Ask("DEBUG", "PANIC")
	s.Wait(testkit.Slowly(20 * time.Second))
	if log, err := os.ReadFile(s.File("log.txt")); err != nil || strings.Contains(string(log), "goroutine ") {
		t.Errorf("%v: %s", err, log)
	}
}
