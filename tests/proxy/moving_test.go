package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestRepliesWhileSlotsMove: replies equal those of one server, as in TestRepliesAreThoseOfOneServer, while redis-cli
// moves slots between shards. The clients send requests until shards have redirected some of them.
func TestRepliesWhileSlotsMove(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 0, 2)
			one := testkit.Launch(t, testkit.Spec{Redis: redis})
			stop := make(chan struct{})
			var moving sync.WaitGroup
			var moves atomic.Int64
			moving.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if all.move(t, i%3, (i+1)%3, 150) {
						moves.Add(1)
					}
				}
			})
			rounds, redirects := 0, int64(0)
			for ; (rounds < 3 || redirects < 3) && !t.Failed(); rounds++ {
				play(t, all, one, 20, 150*testkit.Scale(), false)
				redirects = 0
				for _, p := range all.proxies {
					redirects += p.InfoInt("stats", "proxy_redirects")
				}
			}
			close(stop)
			moving.Wait()
			t.Logf("%d rounds, %d redirections, %d moves of 150 slots", rounds, redirects, moves.Load())
		})
	}
}

// move moves slots with redis-cli, once all nodes agree on the owners of slots.
func (all *tier) move(t *testing.T, from, to, slots int) bool {
	id := func(i int) string {
		v, err := all.shards[i].Ask("CLUSTER", "MYID")
		if err != nil {
			t.Error(err)
		}
		return v.Text
	}
	var out string
	var code int
	for end := time.Now().Add(testkit.Slowly(2 * time.Minute)); ; testkit.Lapse(100 * time.Millisecond) {
		out, code = testkit.Run(t, testkit.Slowly(120*time.Second), "", "redis-cli", "--cluster", "reshard",
			all.shards[0].Addr, "--cluster-from", id(from), "--cluster-to", id(to), "--cluster-slots", strconv.Itoa(slots),
			"--cluster-yes")
		if code == 0 || !strings.Contains(out, "Nodes don't agree about configuration") || time.Now().After(end) {
			break
		}
	}
	if code != 0 {
		t.Errorf("redis-cli --cluster reshard: %d\n%s", code, out[max(0, len(out)-1000):])
	}
	return code == 0
}

// counters has the increments of clients that send INCR. Each client has its own key.
type counters struct {
	acknowledged, failed []int64
	sum                  atomic.Int64 // of acknowledged
	stop                 chan struct{}
	counting             sync.WaitGroup
}

// rest has a client of a load wait for some milliseconds between two requests, so that the load does not take all of a
// processor. With SPINDLE_TEST_SCALE it does not wait.
func rest() {
	if testkit.Scale() == 1 {
		testkit.Lapse(4 * time.Millisecond)
	}
}

// count makes clients send INCR through proxies until stop. A client whose connection ends connects again.
func (all *tier) count(t *testing.T, clients int) *counters {
	n := &counters{acknowledged: make([]int64, clients), failed: make([]int64, clients), stop: make(chan struct{})}
	for i := range clients {
		n.counting.Go(func() {
			p := all.proxies[i%len(all.proxies)]
			var c *respclient.Client
			for {
				select {
				case <-n.stop:
					return
				default:
				}
				if c == nil {
					var err error
					if c, err = respclient.DialTimeout(p.Addr, time.Second); err != nil {
						c = nil
						testkit.Lapse(5 * time.Millisecond)
						continue
					}
					c.SetTimeout(testkit.ReplyTimeout)
				}
				v, err := c.Do("INCR", fmt.Sprintf("counter:%d", i))
				switch {
				case err != nil:
					n.failed[i]++
					c.Close()
					c = nil
				case v.Err() != nil:
					n.failed[i]++
				default:
					n.acknowledged[i]++
					n.sum.Add(1)
				}
				rest()
			}
		})
	}
	return n
}

// check stops the clients. Each counter is at least the number of acknowledged INCRs, and at most that plus the failed
// ones: no INCR runs twice.
func (n *counters) check(t *testing.T, all *tier) {
	t.Helper()
	close(n.stop)
	n.counting.Wait()
	c := all.proxies[0].Dial()
	sum, lost := int64(0), int64(0)
	for i := range n.acknowledged {
		var v respclient.Value
		testkit.Until(t, testkit.Slowly(20*time.Second), "the counter is served", func() error {
			v = c.Must("GET", fmt.Sprintf("counter:%d", i))
			return v.Err()
		})
		got, _ := strconv.ParseInt(v.Text, 10, 64)
		if got < n.acknowledged[i] || got > n.acknowledged[i]+n.failed[i] {
			t.Errorf("counter %d is %d, %d acknowledged, %d failed", i, got, n.acknowledged[i], n.failed[i])
		}
		sum, lost = sum+n.acknowledged[i], lost+n.failed[i]
	}
	t.Logf("%d acknowledged, %d failed", sum, lost)
	if sum < 100 {
		t.Error("hardly anything was counted")
	}
}

// TestCountersDuringFailovers: clients send INCR during manual failovers. A primary and its replica agree on these, so
// no acknowledged write is lost. No request fails. With SPINDLE_TEST_SCALE=10 there are failovers until 10^6 writes
// are counted.
func TestCountersDuringFailovers(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 1, 2, "--proxy-timeout", "60000") // an attempt that lapses holds clients for 5 s
	n := all.count(t, 16)
	primaries, least, pause := slices.Clone(all.shards[:3]), int64(0), 300*time.Millisecond
	if scale := testkit.Scale(); scale > 1 {
		// No node votes twice about a shard within two node timeouts, which are 4 s.
		least, pause = 100_000*int64(scale), 3*time.Second
	}
	failovers := 0
	for ; failovers < 3 || n.sum.Load() < least; failovers++ {
		testkit.Lapse(pause)
		primaries[failovers%3] = all.failover(t, primaries[failovers%3])
	}
	testkit.Lapse(300 * time.Millisecond)
	n.check(t, all)
	t.Logf("%d failovers", failovers)
	for i, failed := range n.failed {
		if failed > 0 {
			t.Errorf("%d requests of client %d failed", failed, i)
		}
	}
}

// TestCountersWhileServersDie: clients send INCR while shards and proxies are killed and start again. The shards use
// appendfsync always, so no acknowledged write is lost (proxy.P3).
func TestCountersWhileServersDie(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 2)
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "appendfsync", "always", "appendonly", "yes")
		testkit.Until(t, testkit.Slowly(20*time.Second), "the log is on", func() error {
			return testkit.Equal(s.Info("persistence")["aof_rewrite_in_progress"], "0")
		})
	}
	n := all.count(t, 16)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4 * testkit.Scale() {
		testkit.Moment(rng, 300*time.Millisecond)
		shard, proxy := all.shards[rng.IntN(3)], all.proxies[rng.IntN(2)]
		if rng.IntN(3) == 0 {
			proxy.Kill()
			proxy.Restart()
			continue
		}
		shard.Kill()
		testkit.Moment(rng, 200*time.Millisecond)
		shard.Restart("--appendonly", "yes", "--appendfsync", "always")
		shard.AwaitReady(testkit.Slowly(20 * time.Second))
	}
	testkit.Lapse(200 * time.Millisecond)
	n.check(t, all)
}

// failover makes the replica of a primary take over by a manual failover, so that no acknowledged write is lost. It
// returns the replica. It first waits until every node knows the replica. A primary that does not know it gives no
// vote, and the attempt lapses after 5 s.
func (all *tier) failover(t *testing.T, primary *testkit.Server) (replica *testkit.Server) {
	t.Helper()
	id := primary.Do("CLUSTER", "MYID").Text
	replica = all.replicaOf(t, primary, id)
	var asked time.Time
	testkit.Until(t, testkit.Slowly(30*time.Second), "the replica takes over", func() error {
		role := replica.Info("replication")["role"]
		if role != "master" && time.Since(asked) > 6*time.Second { // an attempt lapses after 5 s on a busy host
			if v, err := replica.Ask("CLUSTER", "FAILOVER"); err != nil || v.Err() != nil {
				return errors.Join(err, v.Err())
			}
			asked = time.Now()
		}
		return testkit.Equal(role, "master")
	})
	return replica
}

// replicaOf waits until every node lists the replica of a primary with this ID and has links to all nodes. It returns
// the replica.
func (all *tier) replicaOf(t *testing.T, primary *testkit.Server, id string) *testkit.Server {
	t.Helper()
	var replica *testkit.Server
	testkit.Until(t, testkit.Slowly(30*time.Second), "every node knows the replica of "+primary.Addr, func() error {
		for _, s := range all.shards {
			v := s.Do("CLUSTER", "NODES")
			lines := strings.Split(v.Text, "\n")
			i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "slave "+id) })
			if i < 0 || strings.Contains(v.Text, "disconnected") {
				return fmt.Errorf("%s does not know it, or has no link to a node: %q", s.Addr, v.Text)
			}
			if strings.Contains(lines[i], "myself") {
				replica = s
			}
		}
		return testkit.Equal(replica != nil, true)
	})
	return replica
}
