package topology

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// flood has clients write a kilobyte each time, as fast as they are answered, until stop is set.
func flood(t *testing.T, s *testkit.Server, clients int, stop *atomic.Bool) (*atomic.Int64, *sync.WaitGroup) {
	writes, all := &atomic.Int64{}, &sync.WaitGroup{}
	value := strings.Repeat("v", 1000)
	for i := range clients {
		c := s.Dial()
		c.Must("CLIENT", "SETNAME", "flood")
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if v, err := c.Do("SET", fmt.Sprint(i, ":", n%100), value); err != nil || v.Err() != nil {
					t.Errorf("SET: %v %v", v, err)
					return
				}
				writes.Add(1)
			}
		})
	}
	return writes, all
}

// rate is INFO's repl_throttle_rate.
func rate(t *testing.T, s *testkit.Server) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(s.Info("throttling")["repl_throttle_rate"], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestThrottledWriters: a replica does not read. With repl-throttling-enabled the primary slows the clients that write,
// and the replica stays, beyond its soft limit too. Reads are not slowed. When the replica reads again, it needs no
// full copy. Switched off, the throttle lets all continue.
func TestThrottledWriters(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--repl-throttling-enabled", "yes", "--repl-backlog-size", "64kb", "--repl-timeout", "600",
		"--client-output-buffer-limit", "replica 0 2mb 5")
	r := attach(t, s)
	if n := rate(t, s); n != -1 {
		t.Errorf("the rate is %v before anything lags", n)
	}
	r.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { r.Signal(syscall.SIGCONT) })
	var stop atomic.Bool
	writes, all := flood(t, s, 4, &stop)
	testkit.Until(t, testkit.Slowly(60*time.Second), "slow writers", func() error {
		if n := rate(t, s); n < 0 || n > 20 {
			return fmt.Errorf("the rate is %v after %d writes", n, writes.Load())
		}
		return nil
	})
	testkit.Until(t, testkit.Slowly(60*time.Second), "a client that is held", func() error {
		if v := s.Do("CLIENT", "LIST", "FLAGS", "h"); strings.Count(v.Text, "name=flood") == 0 {
			return fmt.Errorf("%q", v.Text)
		}
		return nil
	})
	reader := s.Dial()
	for range 1000 {
		reader.Must("GET", "0:1")
	}
	throttling, debug := s.Info("throttling"), s.Info("debug")
	for _, field := range []string{"repl_throttle_activation_events", "repl_throttle_total_commands",
		"total_throttled_commands"} {
		if n, _ := strconv.Atoi(throttling[field]); n < 1 {
			t.Errorf("%s is %q", field, throttling[field])
		}
	}
	if n, _ := strconv.Atoi(debug["repl_throttle_more_events"]); n < 10 {
		t.Errorf("repl_throttle_more_events is %q", debug["repl_throttle_more_events"])
	}
	if n := s.InfoInt("replication", "connected_slaves"); n != 1 {
		t.Fatalf("%d replicas", n)
	}
	r.Signal(syscall.SIGCONT)
	stop.Store(true)
	all.Wait()
	equal(t, s, r)
	if n := s.InfoInt("stats", "sync_full"); n != 1 {
		t.Errorf("%d full copies", n)
	}
	s.Do("CONFIG", "SET", "repl-throttling-enabled", "no")
	testkit.Until(t, testkit.Slowly(20*time.Second), "the end of the throttle", func() error {
		return testkit.Equal(rate(t, s), -1)
	})
	s.AwaitLog(testkit.Slowly(20*time.Second), "are no longer slowed down")
}

// TestThrottleEnds: clients that are held may leave. They continue when the setting is switched off, when the last
// replica leaves, and when the server becomes a replica.
func TestThrottleEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"switched off", "no replica", "another role"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--repl-throttling-enabled", "yes", "--repl-backlog-size", "64kb", "--repl-timeout", "600",
				"--client-output-buffer-limit", "replica 0 256kb 5")
			r := attach(t, s)
			r.Signal(syscall.SIGSTOP)
			t.Cleanup(func() {
				if !r.Ended() {
					r.Signal(syscall.SIGCONT)
				}
			})
			held := func() int { return strings.Count(s.Do("CLIENT", "LIST", "FLAGS", "h").Text, "\n") }
			var stop atomic.Bool
			_, all := flood(t, s, 2, &stop)
			testkit.Await(t, testkit.Slowly(120*time.Second), "a client that is held for long", func() bool {
				return rate(t, s) >= 0 && rate(t, s) < 1 && held() > 1
			})
			leaver := s.Dial()
			leaver.Send("SET", "k", "v")
			leaver.Flush()
			testkit.Await(t, testkit.Slowly(20*time.Second), "three", func() bool { return held() > 2 })
			leaver.Close()
			testkit.Await(t, testkit.Slowly(20*time.Second), "two", func() bool { return held() <= 2 })
			stop.Store(true)
			switch end {
			case "switched off":
				s.Do("CONFIG", "SET", "repl-throttling-enabled", "no")
			case "no replica":
				r.Kill()
			case "another role":
				s.Do("CONFIG", "SET", "replica-read-only", "no")
				s.Do("REPLICAOF", "127.0.0.1", testkit.FreePort(t))
			}
			all.Wait()
			testkit.Until(t, testkit.Slowly(20*time.Second), "the end of the throttle", func() error {
				return testkit.Equal(rate(t, s), -1)
			})
			if n := held(); n != 0 {
				t.Errorf("%d clients are held", n)
			}
		})
	}
}

// TestNoThrottleByDefault: without the setting no client is slowed, and a replica that does not read is closed at its
// limit.
func TestNoThrottleByDefault(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--repl-backlog-size", "64kb", "--repl-timeout", "600", "--client-output-buffer-limit",
		"replica 0 2mb 0")
	r := attach(t, s)
	r.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { r.Signal(syscall.SIGCONT) })
	var stop atomic.Bool
	_, all := flood(t, s, 4, &stop)
	s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "connected_slaves", "0")
	stop.Store(true)
	all.Wait()
	if i := s.Info("throttling"); i["total_throttled_commands"] != "0" || i["repl_throttle_rate"] != "-1.00" {
		t.Errorf("%v", i)
	}
}
