package cluster

import (
	"errors"
	"testing"

	"spindle/tests/testkit"
)

// TestAReplicaThatLeavesEndsItsShard: a client that is subscribed to a shard channel at a replica is unsubscribed when
// the replica switches to another primary. This holds even though the slot's owner stays the same.
func TestAReplicaThatLeavesEndsItsShard(t *testing.T) {
	t.Parallel()
	// On a busy host a primary may be silent for longer than the node timeout. The replica must not take over then.
	nodes := []*testkit.Server{node(t, false), node(t, false), node(t, false),
		node(t, false, "--cluster-replica-no-failover", "yes")}
	create(t, nodes[:3], 0)
	from, to, replica := nodes[0], nodes[1], nodes[3]
	follow := func(primary *testkit.Server) {
		testkit.Meet(t, primary, busPortOf(primary), replica)
		id := primary.Do("CLUSTER", "MYID").Text
		testkit.Until(t, testkit.Slowly(patience), "the replica follows", func() error {
			v, err := replica.Ask("CLUSTER", "REPLICATE", id)
			return errors.Join(err, v.Err())
		})
	}
	follow(from)
	synced(t, replica)
	channel := keyOf(t, from)
	c := replica.Dial()
	testkit.Until(t, testkit.Slowly(patience), "the replica serves the shard", func() error {
		v, err := c.Do("SSUBSCRIBE", channel)
		return errors.Join(err, v.Err())
	})
	follow(to)
	v, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Strings(); len(got) < 2 || got[0] != "sunsubscribe" || got[1] != channel {
		t.Errorf("%v", v)
	}
}

// TestShardIDs: CLUSTER SHARDS shows a shard's ID to a client that called CLIENT CAPA, at the same position as Valkey
// 9.1. No other client sees it.
func TestShardIDs(t *testing.T) {
	t.Parallel()
	n := node(t, false)
	for _, protocol := range []int{2, 3} {
		c := n.Dial()
		c.SetTimeout(testkit.Slowly(patience))
		c.Must("HELLO", protocol)
		shard := c.Must("CLUSTER", "SHARDS").Elems[0]
		if _, is := shard.Get("id"); is {
			t.Errorf("RESP%d: a client without capabilities gets a shard's ID: %s", protocol, written(shard))
		}
		c.Must("CLIENT", "CAPA", "redirect")
		shard = c.Must("CLUSTER", "SHARDS").Elems[0]
		id, _ := shard.Get("id")
		if want := n.Do("CLUSTER", "MYSHARDID").Text; id.Text != want || len(shard.Elems) != 6 || shard.Elems[4].Text !=
			"id" {
			t.Errorf("RESP%d: the shard is %s, its ID is %s", protocol, written(shard), want)
		}
	}
}
