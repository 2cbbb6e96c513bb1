package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// sameHeard compares messages in any order, because messages of several shards have no fixed order.
func sameHeard(t *testing.T, name string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s heard %v; want %v", name, got, want)
	}
}

// events writes keys of all shards with c, and checks the messages that listener gets, in the form of its subscription.
func events(t *testing.T, c, listener *respclient.Client, keys []string, message func(key string) string) {
	t.Helper()
	var want, got []string
	for _, key := range keys {
		if v := ask(t, c, "SET", key, "x"); v.Text != "OK" {
			t.Fatal(v)
		}
		want = append(want, message(key))
	}
	for range keys {
		v, err := listener.Receive()
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		got = append(got, show(v))
	}
	sameHeard(t, "a listener", got, want)
}

// TestSubscribeWithoutShards: SUBSCRIBE fails after proxy-timeout if no shard answers. Once one does, it succeeds.
func TestSubscribeWithoutShards(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 1, "--proxy-timeout", "1000")
	c := all.proxies[0].Dial()
	for _, s := range all.shards {
		freeze(t, s)
		defer s.Signal(syscall.SIGCONT)
	}
	for _, request := range [][]any{{"SUBSCRIBE", "news"}, {"PSUBSCRIBE", "n*"}, {"SSUBSCRIBE", "news"}} {
		if v := ask(t, c, request...); v.Err() == nil {
			t.Errorf("%v: %s", request, show(v))
		}
	}
	for _, s := range all.shards {
		s.Signal(syscall.SIGCONT)
	}
	testkit.Until(t, testkit.Slowly(time.Minute), "the client has subscribed", func() error {
		return ask(t, c, "SUBSCRIBE", "news").Err()
	})
	testkit.Until(t, testkit.Slowly(time.Minute), "a message has a receiver", func() error {
		return testkit.Equal(ask(t, all.proxies[0].Dial(), "PUBLISH", "news", "1").Int, int64(1))
	})
	hears(t, c, "[message news 1]")
}

// TestKeyspaceEvents: a client gets each event of the keys of all shards once, even of a shard that joins. An ordinary
// message reaches a pattern subscription once.
func TestKeyspaceEvents(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 0, 2, "--proxy-refresh-interval", "200")
			notify := func(s *testkit.Server) { s.Do("CONFIG", "SET", "notify-keyspace-events", "KEA") }
			for _, s := range all.shards {
				notify(s)
			}
			p := all.proxies[1]
			channel, pattern, any, c := p.Dial(), p.Dial(), p.Dial(), p.Dial()
			expect(t, channel, "[subscribe __keyevent@0__:set 1]", "SUBSCRIBE", "__keyevent@0__:set")
			expect(t, pattern, "[psubscribe __keyspace@0__:* 1]", "PSUBSCRIBE", "__keyspace@0__:*")
			expect(t, any, "[psubscribe * 1]", "PSUBSCRIBE", "*")
			check := func(keys ...string) {
				t.Helper()
				events(t, c, channel, keys, func(key string) string { return "[message __keyevent@0__:set " + key + "]" })
				for range keys {
					hearsOneOf(t, pattern, keys)
				}
				for range 2 * len(keys) {
					if v, err := any.Receive(); err != nil || !strings.HasPrefix(v.Elems[2].Text, "__key") {
						t.Fatalf("%v (%v)", v, err)
					}
				}
				for i := range 5 { // no message comes twice
					expect(t, p.Dial(), "1", "PUBLISH", fmt.Sprint("news:", i), "a")
					hears(t, any, fmt.Sprintf("[pmessage * news:%d a]", i))
				}
			}
			check(spread...)
			expect(t, p.Dial(), "[__keyevent@0__:set]", "PUBSUB", "CHANNELS")
			expect(t, p.Dial(), "2", "PUBSUB", "NUMPAT")

			fresh := all.grow(t, redis)
			notify(fresh)
			if !all.move(t, 0, 3, 150) {
				return
			}
			testkit.Until(t, testkit.Slowly(20*time.Second), "the new shard has its listeners", func() error {
				v, err := fresh.Ask("PUBSUB", "NUMPAT")
				if err == nil {
					err = testkit.Equal(v.Int, 2)
				}
				return err
			})
			var keys []string
			for i := 0; len(keys) < 4; i++ {
				key := "key:" + strconv.Itoa(i)
				if v, err := fresh.Ask("EXISTS", key); err == nil && v.Err() == nil {
					keys = append(keys, key)
				}
			}
			check(append(keys, spread...)...)
		})
	}
}

// hearsOneOf fails the test unless the next message is the event of one of the keys.
func hearsOneOf(t *testing.T, c *respclient.Client, keys []string) {
	t.Helper()
	v, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(v.Elems[2].Text, ":")
	if v.Elems[0].Text != "pmessage" || v.Elems[3].Text != "set" || !slices.Contains(keys, key) {
		t.Errorf("received %s", show(v))
	}
}

// grow adds an empty node to the cluster. It returns once the node serves requests: a redis-server refuses them in its
// first two seconds.
func (all *tier) grow(t *testing.T, redis bool) *testkit.Server {
	t.Helper()
	s := testkit.Launch(t, testkit.Spec{Redis: redis, Args: []string{"--cluster-enabled", "yes", "--cluster-node-timeout",
		"2000", "--cluster-port", strconv.Itoa(testkit.FreePort(t))}})
	all.shards = append(all.shards, s)
	out, code := testkit.Run(t, testkit.Slowly(60*time.Second), "", "redis-cli", "--cluster", "add-node", s.Addr,
		all.shards[0].Addr)
	if code != 0 {
		t.Fatalf("redis-cli --cluster add-node: %d\n%s", code, out)
	}
	for _, one := range all.shards {
		testkit.Until(t, testkit.Slowly(30*time.Second), "every node knows the new one", func() error {
			v := one.Do("CLUSTER", "INFO")
			if !strings.Contains(v.Text, fmt.Sprintf("cluster_known_nodes:%d", len(all.shards))) ||
				!strings.Contains(v.Text, "cluster_state:ok") {
				return fmt.Errorf("%s: %q", one.Addr, v.Text)
			}
			return nil
		})
	}
	return s
}

// TestKeyspaceEventsAfterFailover: after a failover, the old primary sends events of the same keys as a replica. A
// client gets each event once.
func TestKeyspaceEventsAfterFailover(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 1, 1, "--proxy-refresh-interval", "200")
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "notify-keyspace-events", "KEA")
	}
	p := all.proxies[0]
	listener, c := p.Dial(), p.Dial()
	expect(t, listener, "[psubscribe __keyspace@0__:* 1]", "PSUBSCRIBE", "__keyspace@0__:*")
	message := func(key string) string { return "[pmessage __keyspace@0__:* __keyspace@0__:" + key + " set]" }
	events(t, c, listener, spread, message)
	old := all.shards[0]
	all.failover(t, old)
	testkit.Until(t, testkit.Slowly(20*time.Second), "the old primary has no listener, the new one has", func() error {
		if v := old.Do("PUBSUB", "NUMPAT"); v.Int != 0 {
			return fmt.Errorf("the old one has %d", v.Int)
		}
		listening := 0
		for _, s := range all.shards {
			listening += int(s.Do("PUBSUB", "NUMPAT").Int)
		}
		return testkit.Equal(listening, 3)
	})
	events(t, c, listener, spread, message)
	events(t, c, listener, spread, message)
}

// TestMessagesOverGroups: plain servers do not forward published messages to each other. Each subscriber gets each
// message once, through whichever shard or proxy it was published.
func TestMessagesOverGroups(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 3, 2)
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "notify-keyspace-events", "KEA")
	}
	channel, pattern, event := all.proxies[0].Dial(), all.proxies[1].Dial(), all.proxies[0].Dial()
	expect(t, channel, "[subscribe news 1]", "SUBSCRIBE", "news")
	expect(t, pattern, "[psubscribe n* 1]", "PSUBSCRIBE", "n*")
	expect(t, event, "[psubscribe __keyevent@0__:* 1]", "PSUBSCRIBE", "__keyevent@0__:*")
	for i := range 12 {
		c := all.proxies[i%2].Dial()
		if v := ask(t, c, "PUBLISH", "news", strconv.Itoa(i)); v.Int != 2 {
			t.Errorf("PUBLISH: %v", v)
		}
		hears(t, channel, fmt.Sprintf("[message news %d]", i))
		hears(t, pattern, fmt.Sprintf("[pmessage n* news %d]", i))
	}
	events(t, all.proxies[0].Dial(), event, spread, func(key string) string {
		return "[pmessage __keyevent@0__:* __keyevent@0__:set " + key + "]"
	})
	fresh := testkit.Launch(t, testkit.Spec{Redis: true})
	d.ask("POST", "/v1/products/shop/groups", map[string]any{"id": "g9", "primary": fresh.Addr})
	testkit.Until(t, testkit.Slowly(20*time.Second), "the new group has its listeners", func() error {
		return testkit.Equal(fresh.Do("PUBSUB", "NUMPAT").Int, 2)
	})
	fresh.Do("PUBLISH", "news", "of the new group")
	hears(t, channel, "[message news of the new group]")
	hears(t, pattern, "[pmessage n* news of the new group]")
}

// TestShardChannelsOverGroups: a sharded channel follows its slot to another group, though plain servers do not tell
// that a slot has moved.
func TestShardChannelsOverGroups(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 2, 1)
	p := all.proxies[0]
	slot := slots.Of([]byte("room"))
	from := int(slot) * 2 / slots.Count
	c := p.Dial()
	expect(t, c, "[ssubscribe room 1]", "SSUBSCRIBE", "room")
	expect(t, p.Dial(), "1", "SPUBLISH", "room", "a")
	hears(t, c, "[smessage room a]")
	d.ask("POST", "/v1/products/shop/move", map[string]any{"steps": []map[string]any{
		{"from": slot, "to": slot, "source": "g" + strconv.Itoa(from), "target": "g" + strconv.Itoa(1-from)}}})
	testkit.Until(t, testkit.Slowly(20*time.Second), "the subscription has moved", func() error {
		count := func(i int) string { return show(all.shards[i].Do("PUBSUB", "SHARDNUMSUB", "room")) }
		return testkit.Equal(count(from)+count(1-from), "[room 0][room 1]")
	})
	expect(t, p.Dial(), "1", "SPUBLISH", "room", "b")
	hears(t, c, "[smessage room b]")
}

// TestShardChannelAgain: a client unsubscribes from a sharded channel, and another subscribes to it at once. The proxy
// subscribes at the shard only once.
func TestShardChannelAgain(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1)
	c, stays := all.proxies[0].Dial(), all.proxies[0].Dial()
	expect(t, stays, "[ssubscribe {room}2 1]", "SSUBSCRIBE", "{room}2") // the proxy's connection stays open
	send(t, c, "SSUBSCRIBE", "room")
	hears(t, c, "[ssubscribe room 1]")
	for range 5 {
		send(t, c, "SUNSUBSCRIBE", "room")
		send(t, c, "SSUBSCRIBE", "room")
		hears(t, c, "[sunsubscribe room 0]")
		hears(t, c, "[ssubscribe room 1]")
	}
	shard := all.ownerOf(t, "room")
	calls := func() string { return shard.Info("commandstats")["cmdstat_ssubscribe"] }
	before := calls()
	testkit.Lapse(500 * time.Millisecond)
	if now := calls(); now != before {
		t.Errorf("the proxy continues to subscribe: %s, then %s", before, now)
	}
	expect(t, all.proxies[0].Dial(), "1", "SPUBLISH", "room", "a")
	hears(t, c, "[smessage room a]")
}

// TestSubscribeBesideAStoppedShard: a pattern is subscribed on all shards. If one does not reply, the subscription is
// confirmed after its timeout, and messages of the others arrive. When the shard replies again, its messages arrive
// too.
func TestSubscribeBesideAStoppedShard(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, false, "crc16", 2, 1)
	p := all.proxies[0]
	p.Do("CONFIG", "SET", "proxy-timeout", 300)
	all.shards[0].Signal(syscall.SIGSTOP)
	c := p.Dial()
	expect(t, c, "[psubscribe n* 1]", "PSUBSCRIBE", "n*")
	// PUBSUB NUMPAT may count an old connection of the proxy for a while. So the test publishes messages until one
	// arrives.
	heard := func(s *testkit.Server, message string) {
		t.Helper()
		publisher := s.Dial()
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				_, _ = publisher.Do("PUBLISH", "news", message)
				select {
				case <-done:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		defer func() { close(done); <-ended }()
		for {
			v, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if show(v) == "[pmessage n* news "+message+"]" {
				return
			}
		}
	}
	heard(all.shards[1], "a")
	all.shards[0].Signal(syscall.SIGCONT)
	heard(all.shards[0], "b")
}
