package proxy

import (
	"testing"
	"time"

	"spindle/proxy/topology"
)

// checking begins a check while all of three shards have as many attempts as may be. It then waits for longer than
// checkPatience at each shard that is not broken.
func (c *pacing) checking(broken ...int) (k *check, at []string) {
	w, static := c.w, topology.NewStatic(16)
	at = []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	if err := static.Set([]*topology.Shard{{ID: "a", Primary: at[0]}, {ID: "b", Primary: at[1]},
		{ID: "c", Primary: at[2]}}, make([]uint16, 16)); err != nil {
		c.t.Fatal(err)
	}
	w.topology = static.Current()
	for i := range at {
		w.opening[at[i]] = checksMost
	}
	for _, i := range broken {
		w.breaker(at[i]).until = w.now() + time.Hour.Milliseconds()
	}
	b := &becoming{c.s, c.s.expect(), w.accessOf(identity{user: "visitor"}), nil}
	w.check(b, encode("AUTH", "visitor", "secret"), nil)
	for range 5 {
		c.pass(2 * checkPatience * time.Millisecond)
		w.hurryChecks()
	}
	return w.checks[checkKey{b.next.id, string(encode("AUTH", "visitor", "secret")), 0}], at
}

// hasRoom lets an attempt of another check at a shard end.
func (c *pacing) hasRoom(at string) {
	c.w.opening[at]--
	c.w.askMore(at)
}

// waits fails the test unless the check has no answer yet, and has as many places in queues and attempts.
func (c *pacing) waits(k *check, queued, attempts int) {
	c.t.Helper()
	if n := c.s.conn.Buffered(); n > 0 || len(k.asking) != 1 || k.queued != queued || k.attempts != attempts {
		c.t.Fatalf("an answer of %d bytes, %d sessions ask, %d places, %d attempts, want %d and %d", n, len(k.asking),
			k.queued, k.attempts, queued, attempts)
	}
}

// TestCheckBesideABrokenShard: a check waits for its turn at shards that answer others, for longer than checkPatience.
// It does not fail because the last shard cannot be reached. It goes to the first one that has room (proxy.I3).
func TestCheckBesideABrokenShard(t *testing.T) {
	c := newPacing(t)
	k, at := c.checking(2)
	c.waits(k, 2, 0)
	// A shard dies for which the check waits. The check does not fail as long as another shard may have room.
	c.w.breaker(at[1]).until = c.w.now() + time.Hour.Milliseconds()
	c.hasRoom(at[1])
	c.waits(k, 1, 0)
	c.w.breaker(at[0]).until = c.w.now() + time.Hour.Milliseconds()
	c.hasRoom(at[0])
	if c.waits(k, 0, 0); len(c.w.later) != 1 {
		t.Fatalf("%d checks are to try later", len(c.w.later))
	}
}

// TestCheckBesideAStoppedShard: a check keeps its place at each shard. So it is answered by one that is slow, if the
// shard to which it went last does not answer at all (proxy.I3).
func TestCheckBesideAStoppedShard(t *testing.T) {
	c := newPacing(t)
	k, at := c.checking()
	c.waits(k, 3, 0)
	for _, at := range at {
		a := k.asking[0].next
		a.shared[at] = []*upstream{c.dial(a)}
	}
	c.hasRoom(at[2]) // the shard that does not answer
	c.waits(k, 2, 1)
	c.hasRoom(at[0])
	c.waits(k, 1, 2)
	k.end([]byte("+OK\r\n"), 0, nil)
	c.hasRoom(at[1])
	if len(c.w.checks) != 0 || len(c.w.unchecked) != 0 || c.w.opening[at[1]] != checksMost-1 {
		t.Fatalf("after the answer: checks %v, places %v, attempts %v", c.w.checks, c.w.unchecked, c.w.opening)
	}
}
