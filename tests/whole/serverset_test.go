package whole

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// A serverSet is a set of servers that is used for many cells. It is the testing.TB of its servers. They end with the
// serverSet, and a failure in a cell ends only that cell.
type serverSet struct {
	testing.TB
	mu    sync.Mutex
	ends  []func()
	notes []string // what the servers report about a failure
	wrong []string
}

// A failure is the reason why a cell ended early.
type failure string

// Helper implements testing.TB.
func (s *serverSet) Helper() {}

// Cleanup implements testing.TB.
func (s *serverSet) Cleanup(f func()) { s.ends = append(s.ends, f) }

// TempDir implements testing.TB.
func (s *serverSet) TempDir() string {
	dir, err := os.MkdirTemp("", "whole")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Fatal implements testing.TB.
func (s *serverSet) Fatal(args ...any) { s.end(fmt.Sprint(args...)) }

// Fatalf implements testing.TB.
func (s *serverSet) Fatalf(format string, args ...any) { s.end(fmt.Sprintf(format, args...)) }

// FailNow implements testing.TB.
func (s *serverSet) FailNow() { s.end("the cell has failed") }

func (s *serverSet) end(why string) {
	s.Errorf("%s", why)
	panic(failure(why))
}

// Error implements testing.TB.
func (s *serverSet) Error(args ...any) { s.Errorf("%s", fmt.Sprint(args...)) }

// Errorf implements testing.TB.
func (s *serverSet) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// Fail implements testing.TB.
func (s *serverSet) Fail() { s.Errorf("the cell has failed") }

// Failed implements testing.TB.
func (s *serverSet) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wrong) > 0
}

// Log implements testing.TB.
func (s *serverSet) Log(args ...any) { s.Logf("%s", fmt.Sprint(args...)) }

// Logf implements testing.TB.
func (s *serverSet) Logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// close ends the servers. It returns their problems, including errors in their logs, and their notes about these.
func (s *serverSet) close() (wrong, notes string) {
	for i := len(s.ends) - 1; i >= 0; i-- {
		s.ends[i]()
	}
	return strings.Join(s.wrong, "\n"), strings.Join(s.notes, "\n")
}
