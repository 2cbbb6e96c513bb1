package acks

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A member is a server with the relay through which it replicates.
type member struct {
	*testkit.Server
	link *testkit.Relay
}

// A tally records one client's writes to its own keys: a counter, a register and a list. They hold the numbers 1, 2, 3
// … in order. Confirmed numbers must survive, and no number after the last tried one may appear.
type tally struct {
	confirmed, tried [3]int64 // counter, register, list
	seen             int64    // the greatest value of the counter that a read has shown
}

// write writes until the connection ends or done is set.
func (y *tally) write(c *respclient.Client, i int, done *atomic.Bool, count *atomic.Int64) {
	for !done.Load() {
		requests := make([][]any, 0, 4)
		for k := range y.tried {
			y.tried[k]++
		}
		requests = append(requests, []any{"INCR", fmt.Sprint("counter:", i)}, []any{"SET", fmt.Sprint("register:", i),
			y.tried[1]}, []any{"RPUSH", fmt.Sprint("list:", i), y.tried[2]}, []any{"GET", fmt.Sprint("counter:", i)})
		for _, r := range requests {
			c.Send(r...)
		}
		if c.Flush() != nil {
			return
		}
		for k := range requests {
			v, err := c.Receive()
			switch {
			case err != nil || v.Kind == '-':
				return // the tried write may exist or not
			case k == 3:
				n, _ := strconv.ParseInt(v.Text, 10, 64)
				y.seen = max(y.seen, n)
			default:
				y.confirmed[k] = y.tried[k]
			}
		}
		count.Add(1)
	}
}

// check compares the new primary's data with the confirmed writes. The tally then continues from that data.
func (y *tally) check(t *testing.T, s *testkit.Server, i int) (losses []string) {
	counter, _ := strconv.ParseInt(plain(t, s, "GET", fmt.Sprint("counter:", i)), 10, 64)
	register, _ := strconv.ParseInt(plain(t, s, "GET", fmt.Sprint("register:", i)), 10, 64)
	length, _ := strconv.ParseInt(plain(t, s, "LLEN", fmt.Sprint("list:", i)), 10, 64)
	for k, n := range [3]int64{counter, register, length} {
		name := [3]string{"counter", "register", "list"}[k]
		if n < y.confirmed[k] {
			losses = append(losses, fmt.Sprintf("%s %d: %d confirmed, %d there", name, i, y.confirmed[k], n))
		}
		if n > y.tried[k] {
			t.Errorf("%s %d: %d tried, %d there", name, i, y.tried[k], n)
		}
		y.confirmed[k], y.tried[k] = n, n
	}
	if counter < y.seen {
		losses = append(losses, fmt.Sprintf("counter %d: a read has shown %d, %d there", i, y.seen, counter))
	}
	if last := plain(t, s, "LINDEX", fmt.Sprint("list:", i), -1); length > 0 && last != fmt.Sprint(length) {
		t.Errorf("list %d: the element at place %d is %s", i, length, last)
	}
	y.seen = counter
	return losses
}

// plain sends a request on a connection whose replies wait for no replica.
func plain(t *testing.T, s *testkit.Server, args ...any) string {
	t.Helper()
	c := s.Dial()
	defer c.Close()
	c.Must("CLIENT", "ACK", 0)
	return text(c.Must(args...))
}

// rounds kills primaries while three writers run, promotes the replica with the greatest offset, and returns the lost
// writes. Before each kill the relays go dark, one after the other. So writes whose replies did not wait are lost.
func rounds(t *testing.T, acks string, most int) (losses []string) {
	t.Helper()
	failovers, confirmed := 0, int64(0)
	defer func() {
		if acks != "0" {
			t.Logf("count: %d failovers, %d confirmed writes, %d lost", failovers, confirmed, len(losses))
		}
	}()
	args := []string{"--min-replicas-to-ack", acks, "--ack-timeout", long, "--repl-diskless-sync-delay", "0", "--save", "",
		"--repl-timeout", "600"}
	members := make([]*member, 3)
	for i := range members {
		members[i] = &member{link: testkit.NewRelay(t)}
	}
	members[0].Server = testkit.Start(t, args...)
	for _, m := range members[1:] {
		m.link.To(members[0].Server)
		m.Server = testkit.Start(t, append(args, "--replicaof", "127.0.0.1 "+m.link.Port())...)
	}
	var tallies [3]tally
	for round := range most {
		primary, others := members[0], members[1:]
		online(t, primary.Server, 2)
		var done atomic.Bool
		var count atomic.Int64
		var writers sync.WaitGroup
		for i := range tallies {
			c := primary.Dial()
			writers.Go(func() { tallies[i].write(c, i, &done, &count) })
		}
		reach := func(n int64, alsoHeld bool) {
			testkit.Until(t, testkit.Slowly(60*time.Second), "writes", func() error {
				if alsoHeld && acks != "0" && primary.Info("replication")["ack_state"] == "waiting" {
					return nil
				}
				if have := count.Load(); have < n {
					return fmt.Errorf("%d of %d", have, n)
				}
				return nil
			})
		}
		reach(20, false)
		others[round%2].link.Darken(true)
		reach(count.Load()+10, true)
		others[1-round%2].link.Darken(true)
		reach(count.Load()+10, true)
		done.Store(true)
		primary.Crashes()
		primary.Kill()
		writers.Wait()
		best := others[0]
		for _, m := range others {
			m.link.Cut()
			m.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "down")
		}
		if others[1].InfoInt("replication", "slave_repl_offset") > best.InfoInt("replication", "slave_repl_offset") {
			best = others[1]
		}
		best.Do("REPLICAOF", "NO", "ONE")
		failovers++
		confirmed += 3 * count.Load() // an INCR, a SET and an RPUSH
		for i := range tallies {
			losses = append(losses, tallies[i].check(t, best.Server, i)...)
		}
		if len(losses) > 0 {
			return losses
		}
		again := []*member{best}
		for _, m := range members {
			if m != best {
				again = append(again, m)
				m.link.To(best.Server)
				m.link.Darken(false)
			}
		}
		best.link.Darken(false)
		primary.Again(append(args, "--replicaof", "127.0.0.1 "+primary.link.Port())...)
		members = again
	}
	return nil
}

// TestNoConfirmedWriteIsLost kills the primary 20 times while three writers run. Every write that was confirmed, or
// that a read has shown, is on the replica with the greatest offset.
func TestNoConfirmedWriteIsLost(t *testing.T) {
	t.Parallel()
	if losses := rounds(t, "1", 20*testkit.Scale()); len(losses) > 0 {
		t.Errorf("lost: %s", strings.Join(losses, "; "))
	}
}

// TestLossesAreFound: the same test finds lost writes when replies do not wait.
func TestLossesAreFound(t *testing.T) {
	t.Parallel()
	if losses := rounds(t, "0", 20); len(losses) == 0 {
		t.Error("no loss was found, although no reply has waited")
	}
}
