package limits

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestSaversAtOnce: a rewrite of the log, a snapshot and a full synchronisation run at the same time while clients
// write. They make no turn long. The test logs the longest turn with and without them, and the memory.
func TestSaversAtOnce(t *testing.T) {
	keys := 30_000 * testkit.Scale()
	if testkit.Checked {
		keys /= 10
	}
	s := testkit.Start(t, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0", "--measure-turn-cpu", "yes",
		"--repl-diskless-sync-delay", "0", "--client-output-buffer-limit", "replica 0 0 0")
	testkit.Pipe(t, s.Dial(), keys, func(i int) []any {
		switch i % 8 {
		case 0:
			return []any{"HSET", fmt.Sprint("h:", i), "f", i, "g", i}
		case 1:
			return []any{"RPUSH", fmt.Sprint("l:", i), i, i}
		}
		return []any{"SET", fmt.Sprint("k:", i), strings.Repeat("v", 100)}
	})

	var writers sync.WaitGroup
	stop := make(chan struct{})
	for n := range 4 {
		c, rng := s.Dial(), rand.New(rand.NewPCG(uint64(n), 1))
		writers.Go(func() { write(t, c, rng, keys, stop) })
	}
	longest := func() time.Duration {
		return time.Duration(s.InfoInt("stats", "longest_turn_cpu_usec")) * time.Microsecond
	}
	s.Do("CONFIG", "RESETSTAT")
	time.Sleep(min(time.Duration(keys)*3*time.Microsecond, 10*time.Second)) // without savers
	alone, together := longest(), time.Hour
	for play := 0; play < plays && together > max(testkit.Slowly(longestTurn), 2*alone); play++ {
		allAtOnce(t, s)
		together = min(together, longest())
		t.Logf("%d keys: the longest turn took %v of its thread, without savers %v", keys, together, alone)
	}
	close(stop)
	writers.Wait()
	if together > max(testkit.Slowly(longestTurn), 2*alone) {
		t.Errorf("a turn took %v of its thread", together)
	}
}

// allAtOnce has all three run at the same time, to their ends.
func allAtOnce(t *testing.T, s *testkit.Server) {
	t.Helper()
	s.Do("CONFIG", "RESETSTAT")
	before := s.RSS()
	began, peak := time.Now(), before
	for _, words := range [][]any{{"BGREWRITEAOF"}, {"BGSAVE", "SCHEDULE"}} {
		s.Do(words...)
	}
	replica := s.Dial()
	replica.Send("SYNC")
	if err := replica.Flush(); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = io.Copy(io.Discard, replica.Conn()) })
	most := 0
	testkit.Until(t, testkit.Slowly(5*time.Minute), "the end of all three", func() error {
		peak = max(peak, s.RSS())
		saves, sync := s.Info("persistence"), s.Info("replication")["slave0"]
		going := 0
		for _, on := range []bool{saves["aof_rewrite_in_progress"] == "1" || saves["aof_rewrite_scheduled"] == "1",
			saves["rdb_bgsave_in_progress"] == "1" || saves["rdb_saves"] == "0", !strings.Contains(sync, "state=online")} {
			if on {
				going++
			}
		}
		most = max(most, going)
		return testkit.Equal(going, 0)
	})
	replica.Close()
	reader.Wait()
	s.AwaitInfo(testkit.Slowly(time.Minute), "replication", "connected_slaves", "0")
	t.Logf("they took %v, %d at once; %d MB resident at most, %d before", time.Since(began).Round(time.Millisecond),
		most, peak>>20, before>>20)
	for _, field := range []string{"aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
		if got := s.Info("persistence")[field]; got != "ok" {
			t.Errorf("%s:%s", field, got)
		}
	}
}

// write runs random SETs, pushes and HSETs until stop is closed.
func write(t *testing.T, c *respclient.Client, rng *rand.Rand, keys int, stop <-chan struct{}) {
	value := strings.Repeat("w", 100)
	for {
		select {
		case <-stop:
			return
		default:
		}
		var batch [][]any
		for range 16 {
			switch i := rng.IntN(keys); i % 8 {
			case 0:
				batch = append(batch, []any{"HSET", fmt.Sprint("h:", i), fmt.Sprint(rng.IntN(20)), i})
			case 1:
				batch = append(batch, []any{"RPUSH", fmt.Sprint("l:", i), i})
			default:
				batch = append(batch, []any{"SET", fmt.Sprint("k:", i), value})
			}
		}
		replies, err := c.Pipeline(batch...)
		for _, v := range replies {
			if err == nil {
				err = v.Err()
			}
		}
		if err != nil {
			t.Errorf("a writer: %v", err)
			return
		}
	}
}
