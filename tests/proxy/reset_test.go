package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// giveSlots gives all slots of a shard without keys to another one. No node tells a proxy of it.
func (all *tier) giveSlots(t *testing.T, from, to *testkit.Server) {
	t.Helper()
	giver, taker := from.Do("CLUSTER", "MYID").Text, to.Do("CLUSTER", "MYID").Text
	to.Do("CLUSTER", "BUMPEPOCH") // its claim counts for more than the giver's
	var requests [][]any
	for _, e := range from.Do("CLUSTER", "SLOTS").Elems {
		if e.Elems[2].Elems[2].Text == giver {
			for slot := e.Elems[0].Int; slot <= e.Elems[1].Int; slot++ {
				requests = append(requests, []any{"CLUSTER", "SETSLOT", slot, "NODE", taker})
			}
		}
	}
	replies, err := to.Dial().Pipeline(requests...)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(replies, func(v respclient.Value) bool { return v.Text != "OK" }); i >= 0 {
		t.Fatalf("%v: %v", requests[i], replies[i])
	}
	for _, s := range all.shards {
		testkit.Until(t, testkit.Slowly(time.Minute), "all nodes see the new owner", func() error {
			for _, e := range s.Do("CLUSTER", "SLOTS").Elems {
				if e.Elems[2].Elems[2].Text == giver {
					return fmt.Errorf("%s sees slots of %s", s.Addr, giver)
				}
			}
			return nil
		})
	}
}

// TestResetShard: a shard has given its slots away, and is reset. It answers CLUSTERDOWN. A proxy that has not heard of
// it asks other shards, and sends the request to the slot's new owner.
func TestResetShard(t *testing.T) {
	for _, kind := range []struct{ redis, multi bool }{{false, false}, {false, true}, {true, false}} {
		t.Run(fmt.Sprintf("%+v", kind), func(t *testing.T) {
			t.Parallel()
			all := startTier(t, kind.redis, 0, 1, "--proxy-refresh-interval", "3600000", "--proxy-timeout", "60000")
			gone := all.ownerOf(t, "a")
			other := all.shards[(slices.Index(all.shards, gone)+1)%3]
			c := all.proxies[0].Dial()
			expect(t, c, "null", "GET", "a")
			all.giveSlots(t, gone, other)
			gone.Do("CLUSTER", "RESET")
			testkit.Until(t, testkit.Slowly(10*time.Second), "the shard answers CLUSTERDOWN", func() error {
				if v, err := gone.Ask("GET", "a"); err != nil || !strings.HasPrefix(v.Text, "CLUSTERDOWN") {
					return fmt.Errorf("GET: %v (%v)", v, err)
				}
				return nil
			})
			if kind.multi {
				expect(t, c, "OK", "MULTI")
				expect(t, c, "QUEUED", "SET", "a", "1")
				expect(t, c, "[OK]", "EXEC")
			} else {
				expect(t, c, "OK", "SET", "a", "1")
			}
			if v := other.Do("GET", "a"); v.Text != "1" {
				t.Errorf("GET at the new owner: %v", v)
			}
		})
	}
}
