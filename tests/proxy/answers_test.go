package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// expect sends a request, and fails if its reply is not the one wanted, as show writes it.
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

// hears fails if the next thing that a client receives is not the one wanted.
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

// show writes a reply as a test names it: 3, text, [a b], null, ERR text.
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

// TestAnswers: what the proxy answers itself is what a client of one server expects.
func TestAnswers(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1)
	for name, test := range map[string]func(t *testing.T, all *tier){
		"PUBLISH counts the clients that get the message": countReceivers,
		"CLIENT REPLY OFF leaves out no message":          hearInSilence,
		"INFO counts blocked clients":                     countBlocked,
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
