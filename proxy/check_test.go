package proxy

import (
	"slices"
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

// isAt fails the test unless the check has no answer yet, and is at these shards.
func (c *pacing) isAt(k *check, shards ...string) {
	c.t.Helper()
	n := c.s.conn.Buffered()
	if slices.Sort(k.at); n > 0 || len(k.asking) != 1 || !slices.Equal(k.at, shards) {
		c.t.Fatalf("an answer of %d bytes, %d sessions ask at %v, want %v", n, len(k.asking), k.at, shards)
	}
}

// TestCheckBesideABrokenShard: a check waits for its turn at shards that answer others, for longer than checkPatience.
// It does not fail because the last shard cannot be reached. It goes to the first one that has room (proxy.I3).
func TestCheckBesideABrokenShard(t *testing.T) {
	c := newPacing(t)
	k, at := c.checking(2)
	c.isAt(k, at[0], at[1])
	// A shard dies for which the check waits. The check does not fail as long as another shard may have room.
	c.w.breaker(at[1]).until = c.w.now() + time.Hour.Milliseconds()
	c.hasRoom(at[1])
	c.isAt(k, at[0])
	c.w.breaker(at[0]).until = c.w.now() + time.Hour.Milliseconds()
	c.hasRoom(at[0])
	if c.isAt(k); len(c.w.later) != 1 {
		t.Fatalf("%d checks are to try later", len(c.w.later))
	}
}

// TestCheckBesideAStoppedShard: a check keeps its place at each shard. So it is answered by one that is slow, if the
// shard to which it went last does not answer at all (proxy.I3).
func TestCheckBesideAStoppedShard(t *testing.T) {
	c := newPacing(t)
	k, at := c.checking()
	c.isAt(k, at...)
	for _, at := range at {
		a := k.asking[0].next
		a.shared[at] = []*upstream{c.dial(a)}
	}
	c.hasRoom(at[2]) // the shard that does not answer
	c.isAt(k, at...)
	c.hasRoom(at[0])
	c.isAt(k, at...)
	if len(c.w.unchecked[at[1]]) != 1 || len(c.w.unchecked) != 1 {
		t.Fatalf("places: %v", c.w.unchecked)
	}
	k.end([]byte("+OK\r\n"), 0, nil)
	c.hasRoom(at[1])
	if len(c.w.checks) != 0 || len(c.w.unchecked) != 0 || c.w.opening[at[1]] != checksMost-1 {
		t.Fatalf("after the answer: checks %v, places %v, attempts %v", c.w.checks, c.w.unchecked, c.w.opening)
	}
}

// TestCheckLooksAgain: a check has a place at a shard that does not answer, and has passed over one that could not be
// reached. It goes there when that one is back (proxy.I3).
func TestCheckLooksAgain(t *testing.T) {
	c := newPacing(t)
	k, at := c.checking(1, 2)
	c.isAt(k, at[0])
	c.w.breaker(at[2]).until = 0
	c.pass(2 * checkPatience * time.Millisecond)
	if !c.w.hurryChecks() {
		t.Error("no check waits")
	}
	c.isAt(k, at[0], at[2])
}
