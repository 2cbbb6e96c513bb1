package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// mirrorOf returns the directives of a proxy that mirrors to a cluster.
func mirrorOf(second *tier, more ...string) []string {
	args := []string{"--proxy-mirror-cluster"}
	for _, s := range second.shards {
		args = append(args, s.Addr)
	}
	return append(args, more...)
}

// settle waits until the mirror has no more writes to send.
func settle(t *testing.T, p *testkit.Server) {
	t.Helper()
	p.AwaitInfo(testkit.Slowly(30*time.Second), "mirror", "mirror_queued_bytes", "0")
}

// same compares the values of lists in both clusters.
func same(t *testing.T, one, two *respclient.Client, keys []string) {
	t.Helper()
	for _, key := range keys {
		if a, b := show(one.Must("LRANGE", key, 0, -1)), show(two.Must("LRANGE", key, 0, -1)); a != b || a == "[]" {
			t.Errorf("%s is %s, and at the mirror %s", key, a, b)
		}
	}
}

// firstSlot returns the first slot of a shard according to that shard.
func (all *tier) firstSlot(t *testing.T, shard int) int {
	t.Helper()
	s := all.shards[shard]
	for _, part := range s.Do("CLUSTER", "SLOTS").Elems {
		if part.Elems[2].Elems[1].Int == int64(s.Port) {
			return int(part.Elems[0].Int)
		}
	}
	t.Fatalf("%s has no slots", s.Addr)
	return 0
}

// TestMirror: writes of all kinds reach the second cluster in their order, even while its slots move. Reads and refused
// writes are not mirrored. A reply that differs is counted, and logged with its command and key.
func TestMirror(t *testing.T) {
	t.Parallel()
	first, second := startTier(t, true, 0, 0), startTier(t, false, 0, 1)
	p := startProxy(t, first.shards, mirrorOf(second, "--proxy-mirror-compare", "yes")...)
	c, there, modern := p.Dial(), second.proxies[0].Dial(), p.Dial()
	modern.Must("HELLO", 3)
	for i, key := range spread {
		c.Must("SET", key, i)
		c.Must("INCRBY", key, 10)
		modern.Must("HSET", "h:"+key, "field", i)
		modern.Must("HINCRBYFLOAT", "h:"+key, "field", "0.5")
		modern.Must("ZADD", "z:"+key, i, "m")
		modern.Must("ZINCRBY", "z:"+key, "0.5", "m")
		c.Must("GET", key)
		v, err := c.Do("LPUSH", key, "x")
		if err != nil || v.Err() == nil {
			t.Errorf("LPUSH to a string: %v, %v", v, err)
		}
	}
	expect(t, c, "OK", "MSET", "m:a", "1", "m:b", "2", "m:c", "3", "m:d", "4")
	expect(t, c, "2", "DEL", "m:a", "m:b")
	sha := c.Must("SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])").Text
	for _, key := range spread {
		expect(t, c, "1", "EVALSHA", sha, 1, "n:"+key)
	}
	c.Must("MULTI")
	c.Must("SET", "{tx}a", "1")
	c.Must("GET", "{tx}a")
	c.Must("INCR", "{tx}a")
	expect(t, c, "[OK 1 2]", "EXEC")
	c.Must("RPUSH", "queue", "a", "b", "c")
	expect(t, c, "[queue a]", "BLPOP", "queue", 0)
	expect(t, c, "null", "BLPOP", "nothing", "0.01")
	settle(t, p)
	for i, key := range spread {
		expect(t, there, strconv.Itoa(i+10), "GET", key)
		expect(t, there, fmt.Sprint(i, ".5"), "HGET", "h:"+key, "field")
		expect(t, there, fmt.Sprint(i, ".5"), "ZSCORE", "z:"+key, "m")
		expect(t, there, "1", "GET", "n:"+key)
	}
	expect(t, there, "[null null 3 4]", "MGET", "m:a", "m:b", "m:c", "m:d")
	expect(t, there, "2", "GET", "{tx}a")
	expect(t, there, "[b c]", "LRANGE", "queue", 0, -1)
	p.AwaitInfo(testkit.Slowly(10*time.Second), "mirror", "mirror_differences", "0")
	p.AwaitInfo(testkit.Slowly(10*time.Second), "mirror", "mirror_lost", "0")

	var writers sync.WaitGroup
	var lists []string
	stop := make(chan struct{})
	const moved = 150 // slots, the first ones of the second shard, with all the lists
	firstSlot := second.firstSlot(t, 1)
	for i := 0; len(lists) < 8; i++ {
		key := fmt.Sprint("list:", i)
		if at := int(slots.Of([]byte(key))) - firstSlot; at < 0 || at >= moved {
			continue
		}
		lists = append(lists, key)
		writer := p.Dial()
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					if _, err := writer.Do("RPUSH", key, n); err != nil {
						t.Error(err)
						return
					}
					rest()
				}
			}
		})
	}
	to, from := second.shards[0].Do("CLUSTER", "MYID").Text, second.shards[1].Do("CLUSTER", "MYID").Text
	out, code := testkit.Run(t, testkit.Slowly(2*time.Minute), "", "redis-cli", "--cluster", "reshard",
		second.shards[0].Addr, "--cluster-from", from, "--cluster-to", to, "--cluster-slots", strconv.Itoa(moved),
		"--cluster-yes")
	close(stop)
	writers.Wait()
	if code != 0 {
		t.Fatalf("reshard: %s", out)
	}
	if n := second.firstSlot(t, 1); n <= int(slots.Of([]byte(lists[0]))) {
		t.Fatalf("the slots from %d on have not moved", n)
	}
	settle(t, p)
	same(t, c, there, lists)
	p.AwaitInfo(testkit.Slowly(10*time.Second), "mirror", "mirror_lost", "0")

	c.Must("CONFIG", "RESETSTAT")
	there.Must("SET", "odd", "text")
	c.Must("RPUSH", "odd", "secret")
	there.Must("INCR", "more")
	c.Must("INCR", "more")
	settle(t, p)
	p.AwaitInfo(testkit.Slowly(10*time.Second), "mirror", "mirror_differences", "2")
	log := p.Log()
	for _, want := range []string{`has the error WRONGTYPE for RPUSH of the key "odd"`,
		`has another reply for INCR of the key "more"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say: %s", want)
		}
	}
	if strings.Contains(log, "secret") {
		t.Error("the log has a value")
	}
	expect(t, c, "OK", "FLUSHALL")
	settle(t, p)
	expect(t, there, "0", "DBSIZE")
}

// TestMirrorThatStops: clients do not wait for a mirror that does not reply. Beyond the limit, writes are dropped and
// counted. When the mirror replies again, later writes arrive.
func TestMirrorThatStops(t *testing.T) {
	t.Parallel()
	first, second := startTier(t, false, 0, 0), startTier(t, false, 0, 0)
	p := startProxy(t, first.shards, mirrorOf(second, "--proxy-mirror-queue", "1mb", "--proxy-timeout", "3000")...)
	c := p.Dial()
	c.Must("SET", "a", "1")
	settle(t, p)
	for _, s := range second.shards {
		s.Signal(syscall.SIGSTOP)
	}
	text := strings.Repeat("x", 10000)
	for i := range 300 {
		c.Must("SET", spread[i%len(spread)], text)
	}
	for _, s := range second.shards {
		s.Signal(syscall.SIGCONT)
	}
	settle(t, p)
	dropped := 0
	for line := range strings.Lines(p.Do("INFO", "mirror").Text) {
		if n, is := strings.CutPrefix(strings.TrimSpace(line), "mirror_dropped:"); is {
			dropped, _ = strconv.Atoi(n)
		}
	}
	if dropped == 0 || dropped > 250 {
		t.Errorf("%d of 300 writes were dropped", dropped)
	}
	testkit.Until(t, testkit.Slowly(30*time.Second), "a later write arrives", func() error {
		c.Must("SET", "late", "x")
		settle(t, p)
		var last error
		for _, s := range second.shards {
			v, err := s.Ask("GET", "late")
			if err == nil && v.Text == "x" {
				return nil
			}
			last = fmt.Errorf("%v, %v", v.Text, err)
		}
		return last
	})
}

// TestMirrorOfItself: a proxy refuses to mirror to the cluster that it serves.
func TestMirrorOfItself(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 0)
	out, code := testkit.Run(t, testkit.Slowly(30*time.Second), "", testkit.Spindle(t), "--proxy", "--port",
		strconv.Itoa(testkit.FreePort(t)), "--proxy-cluster", all.shards[0].Addr, "--proxy-mirror-cluster",
		all.shards[1].Addr)
	if code != 1 || !strings.Contains(out, "proxy-mirror-cluster names the cluster that the proxy serves") {
		t.Errorf("%d %s", code, out)
	}
}
