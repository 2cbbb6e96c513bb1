package process

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestEnds: for every way to shut down, the server saves what it should and exits with the right code.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules string // save rules
		end   []any  // the request that ends the server; nil means signal
		sig   syscall.Signal
		saves bool
	}{
		{"SIGTERM with rules", "3600 1", nil, syscall.SIGTERM, true},
		{"SIGTERM without", "", nil, syscall.SIGTERM, false},
		{"SIGINT with rules", "3600 1", nil, syscall.SIGINT, true},
		{"SHUTDOWN with rules", "3600 1", []any{"SHUTDOWN"}, 0, true},
		{"SHUTDOWN without", "", []any{"SHUTDOWN"}, 0, false},
		{"SHUTDOWN SAVE without", "", []any{"SHUTDOWN", "SAVE"}, 0, true},
		{"SHUTDOWN NOSAVE with rules", "3600 1", []any{"SHUTDOWN", "NOSAVE"}, 0, false},
		{"SHUTDOWN NOW FORCE NOSAVE", "3600 1", []any{"SHUTDOWN", "NOW", "FORCE", "NOSAVE"}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.Start(t, "--save", c.rules)
			bystander := s.Dial()
			s.Do("SET", "k", "v")
			if c.end == nil {
				s.Signal(c.sig)
			} else if v, err := s.Ask(c.end...); err == nil {
				t.Errorf("a reply: %v", v)
			}
			if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if _, err := os.Stat(s.File("dump.rdb")); (err == nil) != c.saves {
				t.Errorf("saved: %v, want %v", err == nil, c.saves)
			}
			if _, err := bystander.Do("PING"); err == nil {
				t.Error("a connection outlived the server")
			}
			if log := s.Log(); !strings.Contains(log, "bye bye") {
				t.Errorf("the log does not say so: %s", log)
			}
			s.Restart()
			if v := s.Do("GET", "k"); (v.Text == "v") != c.saves {
				t.Errorf("GET after a start: %v", v)
			}
		})
	}
}

// TestShutdownDuringSave: a shutdown cancels the running save and saves again. No partial file is left.
func TestShutdownDuringSave(t *testing.T) {
	s := testkit.Start(t, "--save", "3600 1", "--rdb-key-save-delay", "1000")
	testkit.Pipe(t, s.Dial(), 5000, func(i int) []any { return []any{"SET", i, i} })
	s.Do("BGSAVE")
	s.Do("CONFIG", "SET", "rdb-key-save-delay", "0")
	s.Do("SET", "last", "1")
	if code := s.Terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if files := s.Files(); len(files) != 1 || files[0] != "dump.rdb" {
		t.Errorf("files: %q", files)
	}
	s.Restart()
	if n := s.Do("DBSIZE").Int; n != 5001 {
		t.Errorf("%d keys", n)
	}
}

// TestSignalWaitsForTick: while the core's ticks are suspended, a shutdown by a signal can still be cancelled. It
// happens once the ticks continue.
func TestSignalWaitsForTick(t *testing.T) {
	s := testkit.Start(t, "--enable-debug-command", "yes", "--save", "")
	s.Do("DEBUG", "PAUSE-CRON", "1")
	s.Signal(syscall.SIGTERM)
	s.AwaitLog(testkit.Slowly(10*time.Second), "Received SIGTERM scheduling shutdown...")
	testkit.Until(t, testkit.Slowly(10*time.Second), "the signal reaches the core", func() error {
		v, err := s.Ask("SHUTDOWN", "ABORT")
		if err == nil && v.Text != "OK" {
			err = errors.New(v.Text)
		}
		return err
	})
	s.Do("DEBUG", "PAUSE-CRON", "0")
	time.Sleep(300 * time.Millisecond) // some ticks
	s.Do("PING")
	s.Do("DEBUG", "PAUSE-CRON", "1")
	s.Signal(syscall.SIGTERM)
	s.Do("DEBUG", "PAUSE-CRON", "0")
	if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if log := s.Log(); strings.Count(log, "Shutdown manually aborted.") != 1 {
		t.Errorf("the log does not tell of one that was called off: %s", log)
	}
}

// TestShutdownWaitsForReplicas: a shutdown waits for replicas for up to shutdown-timeout, and SHUTDOWN ABORT cancels
// it.
func TestShutdownWaitsForReplicas(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--shutdown-timeout", "60", "--repl-ping-replica-period", "1")
	r := testkit.Redis(t, "--replicaof", "127.0.0.1 "+s.Addr[len("127.0.0.1:"):])
	s.AwaitReplica(testkit.Slowly(20*time.Second), r)
	s.Do("SET", "k", "v")
	r.Signal(syscall.SIGSTOP)
	defer r.Signal(syscall.SIGCONT)
	s.Do("SET", "k", strings.Repeat("w", 1000))
	answer := make(chan respclient.Value, 1)
	c := s.Dial()
	go func() {
		v, _ := c.Do("SHUTDOWN")
		answer <- v
	}()
	s.AwaitLog(testkit.Slowly(10*time.Second), "Waiting for replicas before shutting down.")
	s.Do("SHUTDOWN", "ABORT")
	select {
	case v := <-answer:
		if v.Text != "ERR Errors trying to SHUTDOWN. Check logs." {
			t.Errorf("SHUTDOWN that was called off: %v", v)
		}
	case <-time.After(testkit.Slowly(testkit.ReplyTimeout)):
		t.Error("SHUTDOWN ABORT does not end SHUTDOWN")
	}
	if v, err := s.Ask("SHUTDOWN", "ABORT"); err != nil || !strings.HasPrefix(v.Text, "ERR No shutdown in progress") {
		t.Errorf("SHUTDOWN ABORT without one: %v %v", v, err)
	}
	s.Signal(syscall.SIGTERM)
	testkit.Until(t, testkit.Slowly(10*time.Second), "shutdown_in_milliseconds", func() error {
		if _, ok := s.Info("server")["shutdown_in_milliseconds"]; !ok {
			return errors.New("INFO does not say")
		}
		return nil
	})
	r.Signal(syscall.SIGCONT) // the replica catches up
	if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if v := r.Do("STRLEN", "k").Int; v != 1000 {
		t.Errorf("the replica did not get the last write: %d", v)
	}
}

// TestSecondShutdown: while a shutdown waits for replicas, a second request without SAVE or NOSAVE does not change
// whether the server saves.
func TestSecondShutdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rules, first string
		second             func(s *testkit.Server)
		saves              bool
	}{
		{"SAVE, then SIGTERM", "", "SAVE", func(s *testkit.Server) { s.Signal(syscall.SIGTERM) }, true},
		{"SAVE, then SHUTDOWN NOW", "", "SAVE", func(s *testkit.Server) { s.Dial().Do("SHUTDOWN", "NOW") }, true},
		{"NOSAVE, then SIGTERM", "3600 1", "NOSAVE", func(s *testkit.Server) { s.Signal(syscall.SIGTERM) }, false},
		{"SAVE, then NOW NOSAVE", "", "SAVE", func(s *testkit.Server) { s.Dial().Do("SHUTDOWN", "NOW", "NOSAVE") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--shutdown-timeout", "60", "--save", c.rules)
			r := testkit.Start(t, "--replicaof", "127.0.0.1 "+s.Addr[len("127.0.0.1:"):], "--save", "")
			s.AwaitReplica(testkit.Slowly(20*time.Second), r)
			_ = os.Remove(s.File("dump.rdb"))
			r.Signal(syscall.SIGSTOP)
			defer r.Signal(syscall.SIGCONT)
			s.Do("SET", "k", "v")
			first := s.Dial()
			first.Send("SHUTDOWN", c.first)
			if err := first.Flush(); err != nil {
				t.Fatal(err)
			}
			s.AwaitLog(testkit.Slowly(10*time.Second), "Waiting for replicas before shutting down.")
			c.second(s)
			if !strings.Contains(c.name, "NOW") {
				s.AwaitLog(testkit.Slowly(10*time.Second), "Received SIGTERM scheduling shutdown...")
				s.Do("PING") // a turn after that of the signal, most times
			}
			r.Signal(syscall.SIGCONT)
			if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if _, err := os.Stat(s.File("dump.rdb")); (err == nil) != c.saves {
				t.Errorf("saved: %v, want %v", err == nil, c.saves)
			}
		})
	}
}

// TestSecondShutdownKeepsForce: SHUTDOWN NOW ends the wait of SHUTDOWN FORCE, which ends the server although the save
// fails.
func TestSecondShutdownKeepsForce(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--shutdown-timeout", "60", "--save", "")
	r := testkit.Start(t, "--replicaof", "127.0.0.1 "+s.Addr[len("127.0.0.1:"):], "--save", "")
	s.AwaitReplica(testkit.Slowly(20*time.Second), r)
	_ = os.Remove(s.File("dump.rdb"))
	if err := os.MkdirAll(s.File("dump.rdb/in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.Signal(syscall.SIGSTOP)
	defer r.Signal(syscall.SIGCONT)
	s.Do("SET", "k", "v")
	first := s.Dial()
	first.Send("SHUTDOWN", "SAVE", "FORCE")
	if err := first.Flush(); err != nil {
		t.Fatal(err)
	}
	s.AwaitLog(testkit.Slowly(10*time.Second), "Waiting for replicas before shutting down.")
	s.Dial().Do("SHUTDOWN", "NOW")
	if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSignalDuringScript: a shutdown by a signal waits for the end of a script, and saves all its writes.
func TestSignalDuringScript(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--save", "3600 1", "--busy-reply-threshold", "1")
	s.Do("SET", "k", "v")
	busy := s.Dial()
	busy.Send("EVAL", "redis.call('SET', 'a', 1) repeat "+testkit.UntilReleased+"redis.call('SET', 'b', 2)", 0)
	if err := busy.Flush(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "the script runs", func() error {
		if v, err := s.Ask("PING"); err != nil || strings.HasPrefix(v.Text, "BUSY") {
			return err
		}
		return errors.New("PING is answered")
	})
	s.Signal(syscall.SIGTERM)
	s.AwaitLog(testkit.Slowly(10*time.Second), "Received SIGTERM scheduling shutdown...")
	s.Release()
	if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.Restart()
	for _, key := range []string{"k", "a", "b"} {
		if v := s.Do("EXISTS", key); v.Int != 1 {
			t.Errorf("%s is lost", key)
		}
	}
}
