package proxy

import (
	"testing"
	"time"

	"spindle/proxy/topology"
)

// TestCheckBesideABrokenShard: a check waits for its turn at shards that answer others, for longer than checkPatience.
// It does not fail because the last shard cannot be reached. It goes to the first one that has room (proxy.I3).
func TestCheckBesideABrokenShard(t *testing.T) {
	c := newPacing(t)
	w, static := c.w, topology.NewStatic(16)
	busy := []string{"127.0.0.1:1", "127.0.0.1:2"}
	if err := static.Set([]*topology.Shard{{ID: "a", Primary: busy[0]}, {ID: "b", Primary: busy[1]},
		{ID: "c", Primary: "127.0.0.1:3"}}, make([]uint16, 16)); err != nil {
		t.Fatal(err)
	}
	w.topology = static.Current()
	w.breaker("127.0.0.1:3").until = w.now() + time.Hour.Milliseconds()
	for _, at := range busy {
		w.opening[at] = checksMost
	}
	b := &becoming{c.s, c.s.expect(), w.accessOf(identity{user: "visitor"}), nil}
	w.check(b, encode("AUTH", "visitor", "secret"), nil)
	k := w.checks[checkKey{b.next.id, string(encode("AUTH", "visitor", "secret")), 0}]
	for range 5 {
		c.pass(2 * checkPatience * time.Millisecond)
		w.hurryChecks()
	}
	if n := c.s.conn.Buffered(); n > 0 || len(k.asking) != 1 {
		t.Fatalf("the check has ended, with an answer of %d bytes", n)
	}
	if k.queuedAt != busy[1] {
		t.Fatalf("the check waits at %q, want %q", k.queuedAt, busy[1])
	}
	// The shard dies for which the check waits. The check does not fail as long as another shard may have room.
	w.breaker(busy[1]).until = w.now() + time.Hour.Milliseconds()
	w.opening[busy[1]]--
	w.askMore(busy[1])
	if n := c.s.conn.Buffered(); n > 0 || len(k.asking) != 1 || len(w.later) != 1 {
		t.Fatalf("the check has ended, with an answer of %d bytes; %d are to try later", n, len(w.later))
	}
}
