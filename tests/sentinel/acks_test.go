package sentinel

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestFailoverKeepsConfirmedWrites: replies wait for a replica. The primary is killed while a client writes. The new
// primary has all writes that the old primary had confirmed. It confirms writes as soon as the other replica follows
// it.
func TestFailoverKeepsConfirmedWrites(t *testing.T) {
	t.Parallel()
	const ours, redis = testkit.Ours, testkit.Redis70
	for name, kinds := range map[string][]string{"ours": {ours, ours, ours}, "redis's": {redis, redis, redis}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, []string{ours, ours, ours}, kinds)
			for _, s := range g.servers {
				s.Do("CONFIG", "SET", "min-replicas-to-ack", "1", "ack-timeout", "600000")
			}
			old := g.servers[0]
			for _, s := range g.sentinels {
				testkit.Until(t, patience, "a Sentinel to see all well", func() error {
					return s.whyNotWell(len(g.servers)-1, len(g.sentinels)-1)
				})
			}
			confirmed := startCount(t, old)
			g.downAfter(alertMs)
			old.Kill()
			last := <-confirmed
			t.Logf("count: 1 failovers, %d confirmed writes, 0 lost", last)
			promoted := g.awaitSwitch(t, old.Addr)
			await(t, promoted, "role", "master")
			testkit.Until(t, patience, "the new primary to confirm a write", func() error {
				v, err := promoted.Ask("INCR", "n")
				if err == nil && v.Kind == ':' && v.Int <= last {
					t.Fatalf("%d writes were confirmed, and the next one makes it %d", last, v.Int)
				}
				return errors.Join(err, v.Err())
			})
		})
	}
}

// startCount has a client call countUp, and returns once there are some hundred writes. The result comes when the
// connection has ended.
func startCount(t *testing.T, s *testkit.Server) <-chan int64 {
	t.Helper()
	c, confirmed := s.Dial(), make(chan int64)
	go func() { confirmed <- countUp(c) }()
	testkit.Until(t, patience, "writes", func() error {
		v, err := s.Ask("GET", "n")
		return errors.Join(err, testkit.Equal(len(v.Text) >= 3, true))
	})
	return confirmed
}

// countUp increments a key until the connection ends. It returns the last value that was confirmed.
func countUp(c *respclient.Client) (last int64) {
	for {
		v, err := c.Do("INCR", "n")
		if err != nil || v.Kind != ':' {
			return last
		}
		last = v.Int
	}
}

// acksGroup starts three servers whose replies wait for one replica, and Sentinels that see them all.
func acksGroup(t *testing.T) group {
	t.Helper()
	ours := []string{testkit.Ours, testkit.Ours, testkit.Ours}
	g := newGroup(t, ours, ours)
	for _, s := range g.servers {
		s.Do("CONFIG", "SET", "min-replicas-to-ack", "1", "ack-timeout", "600000")
	}
	for _, s := range g.sentinels {
		s.hasten()
		testkit.Until(t, patience, "a Sentinel to see all well, and to know for how many replicas replies wait", func() error {
			text, err := os.ReadFile(s.file)
			if err == nil && !strings.Contains(string(text), "sentinel known-acks m 1 2 ") {
				err = errors.New("its file has no such line")
			}
			return errors.Join(err, s.whyNotWell(len(g.servers)-1, len(g.sentinels)-1))
		})
	}
	return g
}

// TestSentinelsRestartWithoutAPrimary: replies wait for one of two replicas. The primary dies, and all Sentinels
// restart. One replica does not answer, and may be the one with a confirmed write. So the other one is not promoted
// before it answers.
func TestSentinelsRestartWithoutAPrimary(t *testing.T) {
	t.Parallel()
	g := acksGroup(t)
	old := g.servers[0]
	g.servers[1].Signal(syscall.SIGSTOP)
	old.Do("SET", "k", "v")
	g.downAfter(alertMs)
	for _, s := range g.sentinels {
		s.Kill()
	}
	old.Kill()
	for _, s := range g.sentinels {
		s.Restart()
	}
	for _, s := range g.sentinels {
		s.AwaitLog(patience, "+odown master m")
	}
	testkit.Until(t, patience, "a failover that ends without a replica", func() error {
		for _, s := range g.sentinels {
			if at := s.address(); at != old.Addr {
				t.Fatalf("%s was promoted", at)
			}
			if strings.Contains(s.Log(), "-failover-abort-no-good-slave") {
				return nil
			}
		}
		return errors.New("no Sentinel has tried")
	})
	g.servers[1].Signal(syscall.SIGCONT)
	promoted := g.awaitSwitch(t, old.Addr)
	await(t, promoted, "role", "master")
	if v := promoted.Do("GET", "k"); v.Text != "v" {
		t.Errorf("the confirmed write: %v", v)
	}
}

// TestFailoverOfALivePrimary: an operator asks for a failover while a client writes. The best replica that the Sentinel
// knows stands still for a while, and the other one acknowledges writes. No confirmed write is lost.
func TestFailoverOfALivePrimary(t *testing.T) {
	t.Parallel()
	g := acksGroup(t)
	old, s := g.servers[0], g.sentinels[0]
	confirmed := startCount(t, old)
	best := g.best(t, s)
	best.Signal(syscall.SIGSTOP)
	s.Do("SENTINEL", "FAILOVER", "m")
	testkit.Lapse(300 * time.Millisecond)
	best.Signal(syscall.SIGCONT)
	promoted := g.awaitSwitch(t, old.Addr)
	await(t, promoted, "role", "master")
	last := <-confirmed
	t.Logf("count: 1 failovers, %d confirmed writes, 0 lost", last)
	testkit.Until(t, patience, "the new primary to show the writes", func() error {
		v, err := promoted.Ask("GET", "n")
		if n, _ := strconv.ParseInt(v.Text, 10, 64); err == nil && v.Err() == nil && n < last {
			t.Fatalf("%d writes were confirmed, and the new primary has %d", last, n)
		}
		return errors.Join(err, v.Err())
	})
}

// best returns the replica that a Sentinel would promote now: the one with the largest offset, and then with the
// smallest run id.
func (g group) best(t *testing.T, s watched) (best *testkit.Server) {
	t.Helper()
	offset, runID := int64(-1), ""
	for _, e := range s.Do("SENTINEL", "REPLICAS", "m").Elems {
		f := fields(e)
		n, _ := strconv.ParseInt(f["slave-repl-offset"], 10, 64)
		if n < offset || n == offset && f["runid"] > runID {
			continue
		}
		offset, runID = n, f["runid"]
		for _, r := range g.servers {
			if strconv.Itoa(r.Port) == f["port"] {
				best = r
			}
		}
	}
	if best == nil {
		t.Fatal("the Sentinel knows no replica")
	}
	return best
}
