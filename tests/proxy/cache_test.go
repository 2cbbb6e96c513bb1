package proxy

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// cached starts a tier with one proxy, which has three loops and a cache.
func cached(t *testing.T, redis bool, args ...string) (all *tier, p *testkit.Server) {
	t.Helper()
	all = startTier(t, redis, 0, 0)
	p = startProxy(t, all.shards, append([]string{"--io-threads", "3", "--proxy-cache-size", "10mb"}, args...)...)
	return all, p
}

// hotReads is more than the reads within a second after which the proxy reads a key for its cache.
const hotReads = 40

// warm reads a key until the proxy serves it from its cache.
func warm(t *testing.T, p *testkit.Server, c *respclient.Client, key string) {
	t.Helper()
	hits := func() int64 { return p.InfoInt("cache", "proxy_cache_hits") }
	before := hits()
	testkit.Until(t, testkit.Slowly(20*time.Second), "a hit of the cache", func() error {
		for range hotReads {
			ask(t, c, "GET", key)
		}
		if hits() == before {
			return fmt.Errorf("no hit")
		}
		return nil
	})
}

// TestCacheOfHotKeys: the proxy serves reads of hot keys from its cache, and every change of such a key is visible.
func TestCacheOfHotKeys(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, p := cached(t, redis, "--proxy-cache-max-age", "600000")
			c, other := p.Dial(), p.Dial()
			says := func(want string, args ...any) {
				t.Helper()
				if v := ask(t, c, args...); show(v) != want {
					t.Errorf("%v: %s, want %s", args, show(v), want)
				}
			}
			soon := func(want, key string) {
				t.Helper()
				testkit.Until(t, testkit.Slowly(10*time.Second), key+" is "+want, func() error {
					return testkit.Equal(show(ask(t, c, "GET", key)), want)
				})
			}
			says("OK", "SET", "k", "1")
			warm(t, p, c, "k")
			owner := all.ownerOf(t, "k")

			// A write through the proxy is visible at once, whatever the command.
			ask(t, other, "SET", "k", "2")
			says("2", "GET", "k")
			warm(t, p, c, "k")
			says("3", "INCR", "k")
			says("3", "GET", "k")
			warm(t, p, c, "k")
			ask(t, other, "MULTI")
			ask(t, other, "SET", "k", "4")
			says("3", "GET", "k")
			ask(t, other, "EXEC")
			says("4", "GET", "k")
			warm(t, p, c, "k")
			ask(t, other, "EVAL", "return redis.call('SET', KEYS[1], '5')", 1, "k")
			says("5", "GET", "k")
			warm(t, p, c, "k")
			ask(t, other, "MSET", "k", "6", "somewhere", "else")
			says("6", "GET", "k")
			warm(t, p, c, "k")
			ask(t, other, "FLUSHALL")
			says("null", "GET", "k")
			warm(t, p, c, "k") // an absent key can be hot, too

			// PFCOUNT writes its result into the value.
			ask(t, other, "PFADD", "h", "a", "b", "c")
			warm(t, p, c, "h")
			ask(t, other, "PFCOUNT", "h")
			says(all.ownerOf(t, "h").Do("GET", "h").Text, "GET", "h")

			// A direct write to the shard is visible when the shard's invalidation has arrived.
			owner.Do("SET", "k", "7")
			soon("7", "k")
			warm(t, p, c, "k")
			owner.Do("DEL", "k")
			soon("null", "k")
			owner.Do("SET", "k", "8")
			soon("8", "k")
			warm(t, p, c, "k")
			owner.Do("FLUSHALL")
			soon("null", "k")

			// When a connection can no longer receive invalidations, the values that it has filled are dropped.
			owner.Do("SET", "k", "9")
			soon("9", "k")
			warm(t, p, c, "k")
			owner.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			owner.Do("SET", "k", "10")
			testkit.Until(t, testkit.Slowly(10*time.Second), "the last value", func() error {
				v, err := c.Do("GET", "k")
				if err != nil {
					t.Fatal(err)
				}
				return testkit.Equal(show(v), "10")
			})

			// Clients in RESP2 and RESP3 get the null of their protocol.
			ask(t, c, "DEL", "k")
			warm(t, p, c, "k")
			three := p.Dial()
			ask(t, three, "HELLO", 3)
			if v := ask(t, three, "GET", "k"); v.Kind != '_' {
				t.Errorf("%+v", v)
			}
			if v := ask(t, c, "GET", "k"); v.Kind != '$' || !v.Null {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestCacheFollowsDeadlines: no read returns a value after its key's deadline.
func TestCacheFollowsDeadlines(t *testing.T) {
	t.Parallel()
	_, p := cached(t, true, "--proxy-cache-max-age", "600000")
	c := p.Dial()
	for i := range 5 {
		key := fmt.Sprint("k", i)
		began := time.Now()
		ask(t, c, "SET", key, "v", "PX", 400)
		set := time.Now()
		for range hotReads { // afterwards the proxy may serve it from its cache
			ask(t, c, "GET", key)
		}
		for ; ; testkit.Lapse(0) {
			asked := time.Now()
			v := ask(t, c, "GET", key)
			if !v.Null && asked.Sub(set) > 405*time.Millisecond { // Redis counts whole milliseconds
				t.Fatalf("the key has ended, and is read %s after SET", asked.Sub(set))
			}
			if v.Null {
				if gone := time.Since(began); gone < 400*time.Millisecond {
					t.Fatalf("the key is missing after %s", gone)
				}
				break
			}
		}
	}
}

// TestCacheHasRights: a client gets from the cache only values that it may read. Each database has its own values.
func TestCacheHasRights(t *testing.T) {
	t.Parallel()
	all, p := cached(t, false)
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "stranger", "on", ">word", "~other", "+@all")
		s.Do("ACL", "SETUSER", "untimed", "on", ">word", "~*", "+@all", "-pttl", "-client|tracking")
	}
	c := p.Dial()
	ask(t, c, "SET", "k", "1")
	warm(t, p, c, "k")
	stranger := p.Dial()
	ask(t, stranger, "AUTH", "stranger", "word")
	for range 200 {
		if v := ask(t, stranger, "GET", "k"); !strings.HasPrefix(v.Text, "NOPERM") {
			t.Fatalf("%+v", v)
		}
	}
	untimed := p.Dial() // this client's values cannot be cached, but can be read
	ask(t, untimed, "AUTH", "untimed", "word")
	for range 200 {
		if v := ask(t, untimed, "GET", "k"); v.Text != "1" {
			t.Fatalf("%+v", v)
		}
	}
}

// TestCacheIsBounded: values of many hot keys use no more than proxy-cache-size. CONFIG SET can disable the cache.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	_, p := cached(t, true)
	c := p.Dial()
	ask(t, c, "CONFIG", "SET", "proxy-cache-size", 100_000)
	value := strings.Repeat("x", 5000)
	for i := range 60 {
		key := fmt.Sprint("k", i)
		ask(t, c, "SET", key, value)
		warm(t, p, c, key)
		if n := p.InfoInt("cache", "proxy_cache_bytes"); n > 100_000 {
			t.Fatalf("%d bytes", n)
		}
	}
	ask(t, c, "SET", "long", strings.Repeat("x", 200_000))
	for range 200 {
		if v := ask(t, c, "GET", "long"); len(v.Text) != 200_000 {
			t.Fatalf("%d bytes", len(v.Text))
		}
	}
	ask(t, c, "CONFIG", "SET", "proxy-cache-size", 0)
	if text := ask(t, c, "INFO").Text; strings.Contains(text, "proxy_cache") {
		t.Error("INFO tells of a cache that is off")
	}
	for range 200 {
		if v := ask(t, c, "GET", "k1"); v.Text != value {
			t.Fatalf("%.20s", v.Text)
		}
	}
	// A write while the cache is disabled is visible after the cache is enabled again.
	ask(t, c, "CONFIG", "SET", "proxy-cache-size", 100_000)
	warm(t, p, c, "k1")
	if replies, err := c.Pipeline([]any{"CONFIG", "SET", "proxy-cache-size", 0}, []any{"SET", "k1", "new"},
		[]any{"CONFIG", "SET", "proxy-cache-size", 100_000}, []any{"GET", "k1"}); err != nil || replies[3].Text != "new" {
		t.Errorf("%v, %v", replies, err)
	}
}

// TestCacheIsNeverOlder: counters only grow. No read returns less than the reply to an earlier write through the proxy,
// on any connection. Nor does a client read less than it has read before.
func TestCacheIsNeverOlder(t *testing.T) {
	t.Parallel()
	_, p := cached(t, false)
	const keys, writers, readers = 4, 2, 6
	var acknowledged [keys]atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	run := func(f func(c *respclient.Client, rng *rand.Rand) error) {
		c, rng := p.Dial(), rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
		all.Go(func() {
			for !stop.Load() {
				if err := f(c, rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	raise := func(k int, to int64) {
		for old := acknowledged[k].Load(); old < to && !acknowledged[k].CompareAndSwap(old, to); {
			old = acknowledged[k].Load()
		}
	}
	for range writers {
		run(func(c *respclient.Client, rng *rand.Rand) error {
			k := rng.IntN(keys)
			v, err := c.Do("INCR", fmt.Sprint("n", k))
			if err == nil {
				raise(k, v.Int)
				// A pipeline reads its own writes.
				var both []respclient.Value
				both, err = c.Pipeline([]any{"INCR", fmt.Sprint("n", k)}, []any{"GET", fmt.Sprint("n", k)})
				if err == nil {
					if read, _ := strconv.ParseInt(both[1].Text, 10, 64); read < both[0].Int {
						return fmt.Errorf("n%d was %d after its INCR to %d", k, read, both[0].Int)
					}
					raise(k, both[0].Int)
				}
			}
			testkit.Moment(rng, 4*time.Millisecond)
			return err
		})
	}
	for range readers {
		run(func(c *respclient.Client, rng *rand.Rand) error {
			k := rng.IntN(keys)
			least := acknowledged[k].Load()
			v, err := c.Do("GET", fmt.Sprint("n", k))
			if n, _ := strconv.ParseInt(v.Text, 10, 64); err == nil && n < least {
				return fmt.Errorf("n%d was read as %d after %d was acknowledged", k, n, least)
			}
			return err
		})
	}
	testkit.Until(t, testkit.Slowly(60*time.Second), "many hits of the cache", func() error {
		if hits := p.InfoInt("cache", "proxy_cache_hits"); hits < 10_000 && !t.Failed() {
			return fmt.Errorf("%d hits", hits)
		}
		return nil
	})
	stop.Store(true)
	all.Wait()
}

// TestCacheKnowsScripts: a script may write keys that it does not declare. A client reads the writes of its script, in
// a pipeline and after a transaction, as it would without a cache.
func TestCacheKnowsScripts(t *testing.T) {
	t.Parallel()
	shard := testkit.Launch(t, testkit.Spec{Args: []string{"--cluster-enabled", "yes",
		"--cluster-port", strconv.Itoa(testkit.FreePort(t))}})
	shard.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	testkit.Until(t, testkit.Slowly(30*time.Second), "the shard serves all slots", func() error {
		return testkit.Equal(strings.Contains(shard.Do("CLUSTER", "INFO").Text, "cluster_state:ok"), true)
	})
	p := startProxy(t, []*testkit.Server{shard}, "--proxy-cache-size", "10mb", "--proxy-cache-max-age", "600000")
	c, other := p.Dial(), p.Dial()
	for i := range 40 {
		script := []any{"EVAL", fmt.Sprintf("return redis.call('SET', 'k', '%d')", i), 0}
		if i%4 > 1 {
			script = append(script[:2], 1, "another key")
		}
		requests := [][]any{script, {"GET", "k"}}
		if i%2 == 1 {
			requests = [][]any{{"MULTI"}, script, {"EXEC"}, {"GET", "k"}}
		}
		ask(t, c, "SET", "k", "before")
		warm(t, p, c, "k")
		replies, err := c.Pipeline(requests...)
		if err != nil {
			t.Fatal(err)
		}
		if v := replies[len(replies)-1]; v.Text != strconv.Itoa(i) {
			t.Errorf("%v: the client reads %s", requests, v)
		}
		if v := ask(t, other, "GET", "k"); v.Text != strconv.Itoa(i) {
			t.Errorf("%v: another client reads %s", requests, v)
		}
	}
}

// TestCacheBesideLimitedUsers: if a user has no right to MULTI, EXEC or DISCARD, a transaction of that user does not
// run. Meanwhile each read through the cache returns the shard's value.
func TestCacheBesideLimitedUsers(t *testing.T) {
	t.Parallel()
	all, p := cached(t, false, "--proxy-cache-max-age", "600000")
	for without, replies := range map[string][]string{
		"multi":   {"OK", "NOPERM", "QUEUED", "EXECABORT"},
		"exec":    {"OK", "QUEUED", "QUEUED", "EXECABORT"},
		"discard": {"OK", "QUEUED", "QUEUED", "OK"},
	} {
		for _, s := range all.shards {
			s.Do("ACL", "SETUSER", "no"+without, "on", ">word", "~*", "+@all", "-"+without)
		}
		c, writer, key := p.Dial(), p.Dial(), "key of "+without
		expect(t, writer, "OK", "AUTH", "no"+without, "word")
		expect(t, c, "OK", "SET", key, "before")
		warm(t, p, c, key)
		last := "EXEC"
		if without == "discard" {
			last = "DISCARD"
		}
		for i, request := range [][]any{{"MULTI"}, {"SET", key, "after"}, {"SET", key, "again"}, {last}} {
			v := ask(t, writer, request...)
			if word, _, _ := strings.Cut(v.Text, " "); word != replies[i] {
				t.Errorf("without %s, %v: %v, want %s", without, request, v, replies[i])
			}
			expect(t, c, "before", "GET", key)
			if v := all.ownerOf(t, key).Do("GET", key); v.Text != "before" {
				t.Errorf("without %s, after %v the shard has %v", without, request, v)
			}
		}
		expect(t, writer, "OK", "SET", key, "afterwards") // on a connection that is in no transaction
		expect(t, c, "afterwards", "GET", key)
	}
}

// TestCacheAfterLostConnections: a connection to a shard ends while writes are in flight. Afterwards a client reads the
// shard's value.
func TestCacheAfterLostConnections(t *testing.T) {
	t.Parallel()
	all, p := cached(t, false, "--proxy-cache-max-age", "600000")
	c, writer := p.Dial(), p.Dial()
	expect(t, c, "1", "INCR", "n")
	owner := all.ownerOf(t, "n")
	for range 20 {
		warm(t, p, c, "n")
		for range 100 {
			writer.Send("INCR", "n")
		}
		writer.Send("MULTI")
		writer.Send("INCR", "n")
		writer.Send("EXEC")
		if err := writer.Flush(); err != nil {
			t.Fatal(err)
		}
		owner.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		for range 103 {
			if _, err := writer.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, c, owner.Do("GET", "n").Text, "GET", "n")
	}
}
