package state

import (
	"strings"
	"testing"

	"spindle/cluster/bus"
)

// An asker is an Outside that keeps the errands of a node.
type asker struct {
	quiet
	asked []Errand
}

func (a *asker) Ask(e Errand) { a.asked = append(a.asked, e) }

// TestGossipMovesThePrimary: a replica hears from another node that its failed primary has a new address. It follows
// the primary there when the primary answers. This answer has no news. Before it, the address may be another server's.
func TestGossipMovesThePrimary(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 1 connected\n" +
		idB + " 127.0.0.1:7001@17001 master,fail - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 5461-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	out := &asker{}
	s.out = out
	s.Followed()
	c := s.byID[idC]
	s.Receive(s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }), &bus.Message{Type: bus.Ping,
		Sender: idC, CurrentEpoch: 6, ConfigEpoch: 3, Flags: bus.Primary, Slots: slotsOf("5461-16383"), Port: c.Port,
		BusPort: c.BusPort, IP: c.IP,
		Gossip: []bus.Gossip{{ID: idB, IP: "127.0.0.9", Port: 7009, BusPort: 17009, Flags: bus.Primary}}})
	save := s.Finish()
	if len(out.asked) > 0 {
		t.Errorf("before the primary answers: errands %+v", out.asked)
	}
	b := s.byID[idB]
	b.Link = &Link{Node: b, ready: true}
	for range 2 {
		s.Receive(b.Link, &bus.Message{Type: bus.Pong, Sender: idB, CurrentEpoch: 6, ConfigEpoch: 2, Flags: bus.Primary,
			Slots: slotsOf("0-5460"), Port: b.Port, BusPort: b.BusPort, IP: b.IP})
		s.Finish()
	}
	if len(out.asked) != 1 || out.asked[0].Kind != Follow || out.asked[0].Host != "127.0.0.9" ||
		out.asked[0].Port != 7009 {
		t.Errorf("errands %+v", out.asked)
	}
	if save == nil || !strings.Contains(string(save.Text), "127.0.0.9:7009@17009") {
		t.Error("nodes.conf has the old address")
	}
}

// TestResetReplicaLeavesTheShard: CLUSTER RESET makes a replica a primary of a new shard. Otherwise its primary's shard
// would have two primaries, and CLUSTER SHARDS shows the slots of one.
func TestResetReplicaLeavesTheShard(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 1 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	primary := s.byID[idB].ShardID
	if s.me.ShardID != primary {
		t.Fatalf("the replica is of shard %s, its primary of %s", s.me.ShardID, primary)
	}
	if err := s.Reset(false, true); err != nil || s.me.ShardID == primary || !s.me.isPrimary() {
		t.Errorf("after CLUSTER RESET the node is still of the shard %s: %v", s.me.ShardID, err)
	}
}

// TestFailedReplicaDoesNotMigrate: C has no replica left. B has three, of which the one with the smallest ID has
// failed. So this node moves to C, the next in order.
func TestFailedReplicaDoesNotMigrate(t *testing.T) {
	failed := "0" + idA[1:39] + "0"
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-5460\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 5461-16383\n" +
		idD + " 127.0.0.1:7003@17003 slave " + idB + " 0 0 2 connected\n" +
		failed + " 127.0.0.1:7004@17004 slave,fail " + idB + " 0 0 2 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	s.ok, s.Terms.AllowMigration, s.Terms.MigrationBarrier = true, true, 1
	c := s.byID[idC]
	c.Flags |= bus.MigrateTo
	c.orphanedMs = s.now
	s.At(s.now + migrationDelay + 1)
	for _, n := range s.nodes {
		n.PingSent, n.PongReceived, n.dataReceived = 0, s.now, s.now
	}
	s.Tick()
	if s.me.Primary != c {
		t.Errorf("this node is a replica of %s", s.me.Primary.ID)
	}
}

// TestUpdateAboutThisNode: a message cannot change this node's own role or epoch.
func TestUpdateAboutThisNode(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 1 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-16383\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Receive(s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }), &bus.Message{Type: bus.Update,
		Sender: idB, CurrentEpoch: 9, ConfigEpoch: 2, Flags: bus.Primary, Slots: slotsOf("0-16383"), About: idA,
		UpdateEpoch: 9, UpdateSlots: slotsOf("0-16383")})
	s.Finish()
	if !s.IsReplica() || s.me.Epoch == 9 {
		t.Errorf("this node: %s", s.Line(s.me, false))
	}
}
