package cluster

import (
	"math/rand/v2"
	"strings"
	"testing"

	"spindle/cluster/state"
	"spindle/engine/client"
	"spindle/engine/data/keyspace"
	"spindle/tests/testkit/commandtest"
)

// TestShardsAfterAFailover: the shard's old primary has no slots any more, and is not heard of as a replica yet.
// CLUSTER SHARDS shows the slots of the new one, and that one first, whatever node this node knew first.
func TestShardsAfterAFailover(t *testing.T) {
	const mine, old, heir = "07c37dfeb235213a872192d90877d0cd55635b91", "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1",
		"292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
	const shard = ",,tls-port=0,shard-id="
	c := alone(t)
	core := commandtest.StartIn(t, keyspace.Options{Databases: 1, Slots: true}, Family(c))
	c.state = state.New(outside{c}, c.terms(), nowMs(), rand.New(rand.NewPCG(1, 2)))
	if err := c.state.Load("vars currentEpoch 6 lastVoteEpoch 0\n" +
		mine + " 127.0.0.1:7000@17000" + shard + mine + " myself,master - 0 0 1 connected 5461-16383\n" +
		old + " 127.0.0.1:7001@17001" + shard + old + " master,fail - 0 0 2 connected\n" +
		heir + " 127.0.0.1:7002@17002" + shard + old + " master - 0 0 3 connected 0-5460\n"); err != nil {
		t.Fatal(err)
	}
	got := core.Do(core.Client(2), "CLUSTER", "SHARDS")
	if !strings.Contains(got, ":0\r\n:5460\r\n") || strings.Index(got, heir) > strings.Index(got, old) {
		t.Errorf("CLUSTER SHARDS: %q", got)
	}
}

// TestSetSlotOfAPrimary: a Valkey that is the primary of this node sends it SETSLOT in its stream. This node learns the
// same from messages, and has no error for its primary.
func TestSetSlotOfAPrimary(t *testing.T) {
	const mine, primary = "07c37dfeb235213a872192d90877d0cd55635b91", "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"
	c := alone(t)
	core := commandtest.StartIn(t, keyspace.Options{Databases: 1, Slots: true}, Family(c))
	c.state = state.New(outside{c}, c.terms(), nowMs(), rand.New(rand.NewPCG(1, 2)))
	if err := c.state.Load("vars currentEpoch 6 lastVoteEpoch 0\n" +
		mine + " 127.0.0.1:7000@17000 myself,slave " + primary + " 0 0 1 connected\n" +
		primary + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\n"); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[client.Flags]string{client.Primary: "+OK\r\n", 0: "-ERR "} {
		cl := core.Client(2)
		cl.Flags |= flags
		got := core.Do(cl, "CLUSTER", "SETSLOT", "100", "NODE", primary, "TIMEOUT", "2000")
		if !strings.HasPrefix(got, want) {
			t.Errorf("client with flags %x: %q, want %q", flags, got, want)
		}
	}
}
