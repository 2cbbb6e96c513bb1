package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// freeze stops a process, and waits until all its threads stand still. SIGCONT continues it.
func freeze(t *testing.T, s *testkit.Server) {
	t.Helper()
	s.Signal(syscall.SIGSTOP)
	testkit.Until(t, testkit.Slowly(60*time.Second), "the process stands still", func() error {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.PID))
		for _, task := range tasks {
			line, _ := os.ReadFile(task)
			if _, after, found := strings.Cut(string(line), ") "); found && after[0] != 'T' {
				return fmt.Errorf("%s: %c", task, after[0])
			}
		}
		return err
	})
}

// TestBlockedAtAStoppedShard: blocking commands without a timeout read an error after their shard has stopped, though
// no other request goes there. At a shard that answers they wait for as long as they like.
func TestBlockedAtAStoppedShard(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 1, "--proxy-timeout", "4000") // a busy host may not answer sooner
	p := all.proxies[0]
	stopped := all.shards[1]
	here, elsewhere := all.keysOf(t, stopped)
	c, fine := p.Dial(), p.Dial()
	send(t, fine, "BLPOP", elsewhere, 0)
	send(t, c, "BLPOP", here, 0)
	p.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "2")
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "cluster-require-full-coverage", "no", "cluster-node-timeout", 60000)
	}
	freeze(t, stopped)
	defer stopped.Signal(syscall.SIGCONT)
	if v, err := c.Receive(); err != nil || v.Err() == nil || !strings.Contains(v.Text, stopped.Addr) {
		t.Errorf("BLPOP at a stopped shard: %v (%v)", v, err)
	}
	expect(t, p.Dial(), "1", "RPUSH", elsewhere, "x")
	hears(t, fine, "["+elsewhere+" x]")
	stopped.Signal(syscall.SIGCONT)
	testkit.Until(t, testkit.Slowly(time.Minute), "the shard serves blocking commands again", func() error {
		if v := ask(t, c, "BLPOP", here, 0.1); !v.Null {
			return fmt.Errorf("%v", v)
		}
		return nil
	})
}

// TestStoppedShard: one of three shards is suspended. Its requests fail at their deadline with an error that names it.
// The other shards' requests do not wait, and the proxy's memory is bounded.
func TestStoppedShard(t *testing.T) {
	t.Parallel()
	const patience = 3 * time.Second // the proxy's timeout: on a busy host the other shards are faster than this
	all := startTier(t, false, 0, 1, "--proxy-timeout", fmt.Sprint(patience.Milliseconds()))
	p := all.proxies[0]
	stopped := all.shards[1]
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "cluster-require-full-coverage", "no", "cluster-node-timeout", 60000)
	}
	keys := map[bool][]string{}
	for i := range 3000 {
		key := fmt.Sprintf("key:%d", i)
		v, err := stopped.Ask("GET", key)
		if err != nil {
			t.Fatal(err)
		}
		keys[v.Err() == nil] = append(keys[v.Err() == nil], key)
	}
	stopped.Signal(syscall.SIGSTOP)
	defer stopped.Signal(syscall.SIGCONT)
	before := p.RSS()
	stop := make(chan struct{})
	var asking sync.WaitGroup
	var failed atomic.Int64
	asking.Go(func() { // floods the stopped shard
		c := p.Dial()
		value := strings.Repeat("x", 10_000)
		for {
			select {
			case <-stop:
				return
			default:
			}
			var batch [][]any
			for i := range 200 {
				batch = append(batch, []any{"SET", keys[true][i%len(keys[true])], value})
			}
			began := time.Now()
			replies, err := c.Pipeline(batch...)
			if err != nil {
				t.Error(err)
				return
			}
			if took := time.Since(began); took > testkit.Slowly(10*patience) {
				t.Errorf("requests to the stopped shard were answered after %v", took)
			}
			for _, v := range replies {
				if !strings.Contains(v.Text, stopped.Addr) || v.Err() == nil {
					t.Errorf("the stopped shard's request: %v", v)
					return
				}
			}
			failed.Add(int64(len(replies)))
		}
	})
	var took []time.Duration
	c := p.Dial()
	flooded := time.Now()
	for end := flooded.Add(2 * patience); time.Now().Before(end) || failed.Load() == 0; {
		if time.Since(flooded) > testkit.Slowly(time.Minute) {
			t.Fatal("no request of the stopped shard was answered")
		}
		began := time.Now()
		if v, err := c.Do("SET", keys[false][len(took)%len(keys[false])], "x"); err != nil || v.Text != "OK" {
			t.Fatalf("another shard's request: %v (%v)", v, err)
		}
		took = append(took, time.Since(began))
		testkit.Lapse(time.Millisecond)
	}
	close(stop)
	asking.Wait()
	slices.Sort(took)
	t.Logf("others: %d requests, p50 %v, p99 %v, most %v; %d failed", len(took), took[len(took)/2], took[len(took)*99/100],
		took[len(took)-1], failed.Load())
	if p99 := took[len(took)*99/100]; p99 > testkit.Slowly(patience/2) {
		t.Errorf("p99 of the others is %v", p99)
	}
	if grown := p.RSS() - before; grown > 100<<20 {
		t.Errorf("the proxy has grown by %d bytes", grown)
	}
	stopped.Signal(syscall.SIGCONT)
	testkit.Until(t, testkit.Slowly(20*time.Second), "the shard is served again", func() error {
		v, err := c.Do("SET", keys[true][0], "back")
		if err != nil {
			return err
		}
		return v.Err()
	})
}
