package aof

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestTwoServers: while a server writes to a log, no other server may use it. The other server does not start on that
// log, does not switch it on, and makes no base for it. No tool cuts the log. A log with another name in the same
// folder is free, and so is a killed server's log.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes")
	s.Do("SET", "k", "first")
	const said = "is another server's, which runs"

	out, code := testkit.Run(t, testkit.Slowly(20*time.Second), "", testkit.Spindle(t), "--dir", s.Dir, "--appendonly",
		"yes", "--port", fmt.Sprint(testkit.FreePort(t)), "--save", "")
	if code != 1 || !strings.Contains(out, said) {
		t.Errorf("the second server ends with %d: %s", code, out)
	}

	other := testkit.Launch(t, testkit.Spec{Dir: s.Dir, Args: []string{"--save", ""}})
	const refusal = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs."
	if v, err := other.Ask("CONFIG", "SET", "appendonly", "yes"); err != nil || v.Text != refusal {
		t.Errorf("CONFIG SET answers %v, %v", v, err)
	}
	if v := other.Do("CONFIG", "GET", "appendonly"); len(v.Elems) != 2 || v.Elems[1].Text != "no" {
		t.Errorf("appendonly is %v", v)
	}
	other.Do("SET", "k", "other")
	other.Do("BGREWRITEAOF")
	other.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_last_bgrewrite_status", "err")
	if !strings.Contains(other.Log(), said) {
		t.Errorf("the log does not say why")
	}
	other.Terminate()

	named := testkit.Launch(t, testkit.Spec{Dir: s.Dir,
		Args: []string{"--save", "", "--appendonly", "yes", "--appendfilename", "log2"}})
	named.Do("SET", "k", "named")
	named.Terminate()

	manifest := s.File("appendonlydir/appendonly.aof.manifest")
	for _, words := range [][]string{{"--fix"}, {"--truncate-to-timestamp", "1"}} {
		out, code := testkit.Run(t, testkit.Slowly(20*time.Second), "y\n", testkit.Spindle(t),
			append(append([]string{"check-aof"}, words...), manifest)...)
		if code != 1 || !strings.Contains(out, "is the log of a server that runs") {
			t.Errorf("check-aof %v ends with %d: %s", words, code, out)
		}
	}
	s.Kill()
	s.Restart()
	if v := s.Do("GET", "k"); v.Text != "first" {
		t.Errorf("k is %v", v)
	}
}

// TestLogGivenBack: a server that switches its log off releases the lock. It takes the lock again when the log is
// switched on.
func TestLogGivenBack(t *testing.T) {
	s := testkit.Start(t, "--appendonly", "yes")
	s.Do("SET", "k", "first")
	other := testkit.Launch(t, testkit.Spec{Dir: s.Dir, Args: []string{"--save", ""}})
	turnOn := func(s *testkit.Server) error {
		v, err := s.Ask("CONFIG", "SET", "appendonly", "yes")
		if err == nil && v.Text != "OK" {
			err = errors.New(v.Text)
		}
		return err
	}
	rewritten := func(s *testkit.Server) error {
		s.Do("BGREWRITEAOF")
		s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
		if s.Info("persistence")["aof_last_bgrewrite_status"] != "ok" {
			return errors.New("the rewrite has failed")
		}
		return nil
	}
	until := func(what string, s *testkit.Server, done func(*testkit.Server) error) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(20*time.Second), what, func() error { return done(s) })
		s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
	}

	if rewritten(other) == nil {
		t.Error("a server has made a base for another's log")
	}
	s.Do("CONFIG", "SET", "appendonly", "no")
	until("the log is free", other, turnOn)
	if turnOn(s) == nil {
		t.Error("two servers write to one log")
	}
	other.Do("CONFIG", "SET", "appendonly", "no")
	until("the log is free again", s, turnOn)
	s.Do("CONFIG", "SET", "appendonly", "no")
	// A base that is made while the log is off holds the lock only while it is made.
	until("a base of the other's", other, rewritten)
	until("a base of the first", s, rewritten)
}
