package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// expect sends a request, and fails the test unless its reply, as show prints it, is want.
func expect(t *testing.T, c *respclient.Client, want string, args ...any) {
	t.Helper()
	v, err := c.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if shown := show(v); shown != want {
		t.Errorf("%v: %s; want %s", args, shown, want)
	}
}

// hears fails the test unless the next message or reply that a client receives is want.
func hears(t *testing.T, c *respclient.Client, want string) {
	t.Helper()
	v, err := c.Receive()
	if err != nil {
		t.Fatalf("waiting for %s: %v", want, err)
	}
	if shown := show(v); shown != want {
		t.Errorf("received %s; want %s", shown, want)
	}
}

// send sends a request without waiting for a reply.
func send(t *testing.T, c *respclient.Client, args ...any) {
	t.Helper()
	c.Send(args...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

// show returns a reply in the form that tests use: 3, text, [a b], null, ERR text.
func show(v respclient.Value) string {
	switch {
	case v.Null:
		return "null"
	case v.Kind == ':':
		return fmt.Sprint(v.Int)
	case strings.ContainsRune("*>~%", rune(v.Kind)):
		parts := make([]string, len(v.Elems))
		for i, e := range v.Elems {
			parts[i] = show(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return v.Text
}

// ownerOf returns the shard of a key.
func (all *tier) ownerOf(t *testing.T, key string) *testkit.Server {
	t.Helper()
	for _, s := range all.shards {
		if v, err := s.Ask("EXISTS", key); err == nil && v.Err() == nil {
			return s
		}
	}
	t.Fatalf("no shard has the slot of %s", key)
	return nil
}

// TestAnswers: the replies of the proxy itself are those that a client expects from one server.
func TestAnswers(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1)
	for name, test := range map[string]func(t *testing.T, all *tier){
		"PUBLISH counts the clients that get the message": countReceivers,
		"CLIENT REPLY OFF leaves out no message":          hearInSilence,
		"CLIENT TRACKING tells of keys of all shards":     trackKeys,
		"CLIENT TRACKING with OPTIN, OPTOUT and NOLOOP":   trackSome,
		"CLIENT TRACKING BCAST tells of prefixes":         trackPrefixes,
		"CLIENT TRACKING REDIRECT tells another client":   trackForAnother,
		"CLIENT TRACKING refuses what it cannot do":       refuseTracking,
		"SCRIPT KILL ends a script of another client":     killScript,
		"WATCH inside MULTI does not abort EXEC":          watchInMulti,
		"SUBSCRIBE to many channels counts in order":      countInOrder,
		"INFO counts blocked clients":                     countBlocked,
		"SAVE and SHUTDOWN are not allowed inside MULTI":  refuseInMulti,
	} {
		t.Run(name, func(t *testing.T) { test(t, all) })
	}
}

func countReceivers(t *testing.T, all *tier) {
	p := all.proxies[0]
	one, two, three, c := p.Dial(), p.Dial(), p.Dial(), p.Dial()
	expect(t, one, "[subscribe news 1]", "SUBSCRIBE", "news")
	expect(t, two, "[subscribe news 1]", "SUBSCRIBE", "news")
	expect(t, three, "[psubscribe n*s 1]", "PSUBSCRIBE", "n*s")
	expect(t, c, "3", "PUBLISH", "news", "a")
	expect(t, c, "1", "PUBLISH", "nous", "a")
	expect(t, c, "0", "PUBLISH", "other", "a")
	expect(t, c, "[ssubscribe news 1]", "SSUBSCRIBE", "news")
	expect(t, all.ownerOf(t, "news").Dial(), "[ssubscribe news 1]", "SSUBSCRIBE", "news")
	expect(t, p.Dial(), "2", "SPUBLISH", "news", "a")
	hears(t, one, "[message news a]")
}

func hearInSilence(t *testing.T, all *tier) {
	c := all.proxies[0].Dial()
	c.Must("HELLO", 3)
	send(t, c, "CLIENT", "REPLY", "OFF")
	send(t, c, "SUBSCRIBE", "quiet")
	hears(t, c, "[subscribe quiet 1]")
	expect(t, all.proxies[0].Dial(), "1", "PUBLISH", "quiet", "a")
	hears(t, c, "[message quiet a]")
	send(t, c, "UNSUBSCRIBE")
	hears(t, c, "[unsubscribe quiet 0]")
}

func countBlocked(t *testing.T, all *tier) {
	p := all.proxies[0]
	c, gone := p.Dial(), p.Dial()
	send(t, c, "BLPOP", "list", 0)
	send(t, gone, "BLPOP", "list", 0)
	limit := testkit.Slowly(10 * time.Second)
	p.AwaitInfo(limit, "clients", "blocked_clients", "2")
	gone.Close()
	p.AwaitInfo(limit, "clients", "blocked_clients", "1")
	p.Do("RPUSH", "list", "x")
	hears(t, c, "[list x]")
	p.AwaitInfo(limit, "clients", "blocked_clients", "0")
}

func refuseInMulti(t *testing.T, all *tier) {
	c := all.proxies[0].Dial()
	for _, command := range []string{"SAVE", "SHUTDOWN"} {
		expect(t, c, "OK", "MULTI")
		expect(t, c, "ERR Command not allowed inside a transaction", command)
		expect(t, c, "EXECABORT Transaction discarded because of previous errors.", "EXEC")
	}
}

// spread has keys of all three shards.
var spread = []string{"a", "b", "c", "d", "e", "f"}

// tracker returns a client in RESP3 with tracking on.
func tracker(t *testing.T, p *testkit.Server, options ...any) *respclient.Client {
	t.Helper()
	c := p.Dial()
	c.Must("HELLO", 3)
	expect(t, c, "OK", append([]any{"CLIENT", "TRACKING", "ON"}, options...)...)
	return c
}

func trackKeys(t *testing.T, all *tier) {
	p := all.proxies[0]
	c := tracker(t, p)
	expect(t, c, "0", "CLIENT", "GETREDIR")
	expect(t, c, "[flags [on] redirect 0 prefixes []]", "CLIENT", "TRACKINGINFO")
	for _, key := range spread {
		expect(t, c, "null", "GET", "track:"+key)
		p.Do("SET", "track:"+key, "new")
		hears(t, c, "[invalidate [track:"+key+"]]")
	}
	c.Must("MULTI")
	c.Must("GET", "track:tx")
	expect(t, c, "[null]", "EXEC")
	p.Do("SET", "track:tx", "new")
	hears(t, c, "[invalidate [track:tx]]")
	expect(t, c, "[new new]", "MGET", "track:a", "track:b")
	p.Do("FLUSHALL")
	hears(t, c, "[invalidate null]")
	expect(t, c, "OK", "CLIENT", "TRACKING", "OFF")
	expect(t, c, "[flags [off] redirect -1 prefixes []]", "CLIENT", "TRACKINGINFO")
	expect(t, c, "null", "GET", "track:a")
	p.Do("SET", "track:a", "new")
	expect(t, c, "PONG", "PING")
	for _, push := range c.Pushes { // each shard and the transaction's connection sent an invalidation for FLUSHALL
		if show(push) != "[invalidate null]" {
			t.Errorf("without tracking: %s", show(push))
		}
	}
}

func trackSome(t *testing.T, all *tier) {
	p := all.proxies[0]
	c := tracker(t, p, "OPTIN")
	c.Must("GET", "some:a")
	p.Do("SET", "some:a", "new")
	expect(t, c, "OK", "CLIENT", "CACHING", "YES")
	c.Must("GET", "some:b")
	c.Must("GET", "some:c")
	p.Do("SET", "some:c", "new")
	p.Do("SET", "some:b", "new")
	hears(t, c, "[invalidate [some:b]]")
	expect(t, c, "OK", "CLIENT", "CACHING", "YES")
	c.Must("MULTI")
	c.Must("GET", "some:a")
	c.Must("EXEC")
	p.Do("SET", "some:a", "newer")
	hears(t, c, "[invalidate [some:a]]")

	c = tracker(t, p, "OPTOUT", "NOLOOP")
	expect(t, c, "OK", "CLIENT", "CACHING", "NO")
	c.Must("GET", "some:a")
	c.Must("GET", "some:b")
	p.Do("SET", "some:a", "new")
	p.Do("SET", "some:b", "new")
	hears(t, c, "[invalidate [some:b]]")
	c.Must("GET", "some:c")
	c.Must("SET", "some:c", "own")
	expect(t, c, "own", "GET", "some:c")
	p.Do("SET", "some:c", "new")
	hears(t, c, "[invalidate [some:c]]")
	if len(c.Pushes) > 0 {
		t.Errorf("NOLOOP: %v", c.Pushes)
	}
}

func trackPrefixes(t *testing.T, all *tier) {
	p := all.proxies[0]
	c := tracker(t, p, "BCAST", "PREFIX", "pre:", "PREFIX", "fix:")
	hearsAll := func(when string) {
		testkit.Until(t, testkit.Slowly(10*time.Second), when, func() error {
			p.Do("SET", "pre:"+spread[0], "x")
			for _, key := range spread {
				p.Do("SET", "pre:"+key, "x")
			}
			c.Must("PING")
			told := map[string]bool{}
			for _, push := range c.Pushes {
				for _, key := range push.Elems[1].Strings() {
					told[key] = true
				}
			}
			if len(told) < len(spread) {
				return fmt.Errorf("%d of %d keys were told", len(told), len(spread))
			}
			return nil
		})
	}
	hearsAll("the client hears of keys of all shards")
	for _, s := range all.shards {
		s.Do("CLIENT", "KILL", "TYPE", "normal")
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "the client hears that connections were lost", func() error {
		if c.Must("PING"); !slices.ContainsFunc(c.Pushes, func(v respclient.Value) bool { return v.Elems[1].Null }) {
			return errors.New("it has not")
		}
		return nil
	})
	c.Pushes = nil
	hearsAll("the client hears of keys of all shards again")
}

func trackForAnother(t *testing.T, all *tier) {
	p := all.proxies[0]
	other, old := p.Dial(), p.Dial()
	other.Must("HELLO", 3)
	c := tracker(t, p, "REDIRECT", other.Must("CLIENT", "ID").Int)
	c.Must("GET", "other:a")
	p.Do("SET", "other:a", "x")
	hears(t, other, "[invalidate [other:a]]")
	other.Close()
	testkit.Until(t, testkit.Slowly(10*time.Second), "the client hears that the other has gone", func() error {
		c.Must("GET", "other:a")
		p.Do("SET", "other:a", "x")
		for c.Must("PING"); len(c.Pushes) > 0; c.Pushes = c.Pushes[1:] {
			if strings.HasPrefix(show(c.Pushes[0]), "[tracking-redir-broken") {
				return nil
			}
		}
		return errors.New("it has not")
	})
	id := old.Must("CLIENT", "ID").Int
	expect(t, old, "[subscribe __redis__:invalidate 1]", "SUBSCRIBE", "__redis__:invalidate")
	c = tracker(t, p, "REDIRECT", id)
	c.Must("GET", "other:b")
	p.Do("SET", "other:b", "x")
	hears(t, old, "[message __redis__:invalidate [other:b]]")
}

func refuseTracking(t *testing.T, all *tier) {
	c := all.proxies[0].Dial()
	expect(t, c, "ERR CLIENT TRACKING is served to clients of RESP3 only: say HELLO 3 first", "CLIENT", "TRACKING", "ON")
	c.Must("HELLO", 3)
	expect(t, c, "ERR OPTIN and OPTOUT are not compatible with BCAST", "CLIENT", "TRACKING", "ON", "BCAST", "OPTIN")
	expect(t, c, "ERR PREFIX option requires BCAST mode to be enabled", "CLIENT", "TRACKING", "ON", "PREFIX", "a")
	expect(t, c, "ERR The client ID you want redirect to does not exist", "CLIENT", "TRACKING", "ON", "REDIRECT", 123456)
	v, err := c.Do("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "ab") // the shard refuses it
	if err != nil || !strings.HasPrefix(v.Text, "ERR Prefix") {
		t.Errorf("overlapping prefixes: %v (%v)", v, err)
	}
	expect(t, c, "OK", "CLIENT", "TRACKING", "ON", "OPTIN")
	expect(t, c, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.", "CLIENT", "CACHING", "NO")
	expect(t, c, "ERR tracking is on in another mode: switch it off first", "CLIENT", "TRACKING", "ON", "BCAST")
	expect(t, c, "RESET", "RESET")
	expect(t, c, "-1", "CLIENT", "GETREDIR")
}

// TestWaitHoldsNoOtherClient: WAIT counts the replicas of all shards. Other clients are served while it waits.
func TestWaitHoldsNoOtherClient(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startTier(t, redis, 1, 1).proxies[0]
			c, other := p.Dial(), p.Dial()
			for _, key := range spread {
				c.Must("SET", key, "x")
			}
			expect(t, c, "1", "WAIT", 1, 60000)
			send(t, c, "WAIT", 3, 0)
			p.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "1")
			for _, key := range spread {
				expect(t, other, "x", "GET", key)
			}
			expect(t, other, "1", "WAIT", 2, 300)
			expect(t, other, "ERR timeout is negative", "WAIT", 1, -1)
			c.Close()
			p.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "0")
		})
	}
}

// lengthen sets a proxy's timeout for replies of shards to a minute, so that a test has time to kill a script on any
// host.
func lengthen(p *testkit.Server) { p.Do("CONFIG", "SET", "proxy-timeout", 60_000) }

func killScript(t *testing.T, all *tier) {
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "lua-time-limit", 20)
	}
	p := all.proxies[0]
	lengthen(p)
	c, other := p.Dial(), p.Dial()
	send(t, c, "EVAL", "while true do end", 1, "loop")
	testkit.Until(t, testkit.Slowly(10*time.Second), "the script is killed", func() error {
		v, err := other.Do("SCRIPT", "KILL")
		return errors.Join(err, v.Err())
	})
	v, err := c.Receive()
	if err != nil || !strings.Contains(v.Text, "killed by user") {
		t.Errorf("the script's client reads %v (%v)", v, err)
	}
	expect(t, other, "null", "GET", "loop")
}

func watchInMulti(t *testing.T, all *tier) {
	c := all.proxies[0].Dial()
	expect(t, c, "OK", "MULTI")
	expect(t, c, "QUEUED", "SET", "watched", "x")
	expect(t, c, "ERR WATCH inside MULTI is not allowed", "WATCH", "watched")
	expect(t, c, "[OK]", "EXEC")
}

func countInOrder(t *testing.T, all *tier) {
	c := all.proxies[0].Dial()
	args, again := []any{"SUBSCRIBE"}, []any{"SUBSCRIBE"}
	for i := range 40 {
		args = append(args, fmt.Sprint("many:", i))
	}
	again = append(again, "many:3", "many:new")
	send(t, c, args...)
	for i := range 40 {
		hears(t, c, fmt.Sprintf("[subscribe many:%d %d]", i, i+1))
	}
	send(t, c, again...)
	hears(t, c, "[subscribe many:3 40]")
	hears(t, c, "[subscribe many:new 41]")
}
