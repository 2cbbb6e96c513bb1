package aof

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestShutdownEndsARewrite: a server that shuts down during a rewrite leaves no file of the rewrite, whether the log is
// on or not.
func TestShutdownEndsARewrite(t *testing.T) {
	for _, on := range []string{"yes", "no"} {
		t.Run("appendonly="+on, func(t *testing.T) {
			s := testkit.Start(t, "--appendonly", on, "--rdb-key-save-delay", "100000", "--save", "")
			for i := range 1000 {
				s.Do("SET", fmt.Sprint("k", i), "v")
			}
			s.Do("BGREWRITEAOF")
			temp := s.File("temp-rewriteaof-bg-*.aof")
			testkit.Until(t, testkit.Slowly(20*time.Second), "the rewrite begins", func() error {
				found, _ := filepath.Glob(temp)
				return testkit.Equal(fmt.Sprint(len(found)), "1")
			})
			s.Terminate()
			left, _ := filepath.Glob(temp)
			bases, _ := filepath.Glob(s.File("appendonlydir/*.2.base.*"))
			if len(left)+len(bases) > 0 {
				t.Errorf("%v and %v are left", left, bases)
			}
		})
	}
}

// TestShutdownNoSaveKeepsTheLog: a server that shuts down without a snapshot still writes the log's buffer to disk,
// however slow the disk is.
func TestShutdownNoSaveKeepsTheLog(t *testing.T) {
	for name, end := range map[string]func(s *testkit.Server){
		"SHUTDOWN NOSAVE":     func(s *testkit.Server) { s.Ask("SHUTDOWN", "NOSAVE") },
		"SHUTDOWN NOSAVE NOW": func(s *testkit.Server) { s.Ask("SHUTDOWN", "NOSAVE", "NOW", "FORCE") },
		"SIGTERM": func(s *testkit.Server) {
			s.Do("CONFIG", "SET", "shutdown-on-sigterm", "nosave")
			s.Terminate()
		},
		"switched off before": func(s *testkit.Server) {
			s.Do("CONFIG", "SET", "appendonly", "no")
			s.Ask("SHUTDOWN", "NOSAVE")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "no")
			s.Do("DEBUG", "AOF-FLUSH-SLEEP", "300000")
			const keys = 50
			for i := range keys {
				s.Do("SET", fmt.Sprint("k", i), "v")
			}
			end(s)
			s.Wait(testkit.Slowly(20 * time.Second))
			s.Restart()
			if n := s.Do("DBSIZE").Int; n != keys {
				t.Errorf("%d keys are in the log", n)
			}
		})
	}
}

// TestShutdownBeforeTheFirstBase: after the log was switched on, a server does not shut down before its data set is in
// the log on disk. FORCE overrides this.
func TestShutdownBeforeTheFirstBase(t *testing.T) {
	s := testkit.Start(t, "--save", "")
	for i := range 1000 {
		s.Do("SET", fmt.Sprint("k", i), "v")
	}
	s.Do("CONFIG", "SET", "rdb-key-save-delay", "100000")
	s.Do("CONFIG", "SET", "appendonly", "yes")
	if v, err := s.Ask("SHUTDOWN", "NOSAVE"); err != nil || v.Text != "ERR Errors trying to SHUTDOWN. Check logs." {
		t.Errorf("%v, %v", v, err)
	}
	s.AwaitLog(testkit.Slowly(10*time.Second), "Writing initial AOF, can't exit.")
	s.Signal(syscall.SIGTERM)
	s.AwaitLog(testkit.Slowly(10*time.Second), "Received SIGTERM scheduling shutdown...")
	if n := s.Do("DBSIZE").Int; n != 1000 {
		t.Errorf("%d keys", n)
	}
	s.Ask("SHUTDOWN", "NOSAVE", "FORCE")
	if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	s.AwaitLog(time.Second, "Writing initial AOF. Exit anyway.")
}
