package sentinel

import (
	"slices"
	"strings"
	"testing"

	"spindle/protocol/respclient"
)

// TestRefusedSubscription: a server has too many clients and refuses each new subscription. It replies to PING on the
// connection that it has accepted before, so it is not down.
func TestRefusedSubscription(t *testing.T) {
	b := newTestMachine(t, Directive{"auth-pass", "m", "secret"}, Directive{"down-after-milliseconds", "m", "5000"})
	b.pass(2000, "PONG", nil)
	l := b.primaries.list[0].link
	for range 3000 {
		if w := l.channel; w != nil {
			b.Received(w, respclient.Value{Kind: '-', Text: "ERR max number of clients reached"}, b.now)
			b.Lost(w, "closed", b.now)
		}
		b.pass(100, "PONG", nil)
	}
	if b.has("+sdown") || l.pending > 10 {
		t.Errorf("%d replies are awaited; events %v", l.pending, b.q.events)
	}
}

// TestLeaderOfOneEpoch: the epoch rises during an election, and this Sentinel is elected with a vote of the new epoch.
// Then its own vote in that epoch is for itself. Another Sentinel that got it too would be a second leader.
func TestLeaderOfOneEpoch(t *testing.T) {
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	b := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"},
		Directive{"known-sentinel", "m", "10.0.0.8", "26379", one},
		Directive{"known-sentinel", "m", "10.0.0.9", "26379", two})
	p := b.primaries.list[0]
	b.startFailover(p)
	b.Tick(b.now)
	b.Hello("10.0.0.9,26379,"+two+",2,m,10.0.0.1,6379,0", b.now)
	first := b.findSentinel(p, nil, one)
	first.answered, first.leader, first.leaderEpoch = b.now, b.id, 2
	b.Tick(b.now)
	if p.state == waitStart {
		t.Fatal("it is not elected")
	}
	if _, leader, of := b.isDownReply("10.0.0.1", 6379, 2, two); leader != b.id || of != 2 || p.failoverEpoch != 2 {
		t.Errorf("it leads in epoch %d, and its vote in epoch %d is for %s", p.failoverEpoch, of, leader)
	}
}

// TestPromotedReplicaDies: the promoted replica goes down before the other replicas follow it, and stays down. At the
// failover's timeout it is the primary, and the next failover promotes another replica.
func TestPromotedReplicaDies(t *testing.T) {
	b := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"}, Directive{"known-replica", "m", "10.0.0.3",
		"1"}, Directive{"down-after-milliseconds", "m", "1000"}, Directive{"failover-timeout", "m", "20000"})
	p := b.primaries.list[0]
	p.quorum = 1
	dead := map[string]bool{}
	info := func(i *Instance) string {
		if i.kind == primary || i.is(promoted) {
			return "role:master\r\n"
		}
		return ofReplica(100, int64(i.at.ip[7]), strings.Repeat("a", 40), 0)
	}
	pass := func(ms int64) {
		for range ms / 100 {
			for _, w := range slices.Clone(b.q.conns) {
				if w.conn != nil && dead[w.of.at.ip] {
					b.Lost(w, "refused", b.now)
				}
			}
			b.pass(100, "PONG", info)
		}
	}
	pass(15_000)
	dead["10.0.0.1"] = true
	for range 100 {
		if pass(100); p.state == reconfReplicas {
			break
		}
	}
	if p.chosen == nil || p.chosen.at.ip != "10.0.0.3" {
		t.Fatalf("the choice: %+v", p.chosen)
	}
	dead["10.0.0.3"] = true
	pass(60_000)
	if !b.has("+switch-master m 10.0.0.1 6379 10.0.0.3 1") || !b.has("+switch-master m 10.0.0.3 1 10.0.0.2 1") {
		t.Errorf("the primary is at %s in state %s; %v", p.at.ip, p.state, b.q.events)
	}
}

// TestUnresolvedSentinels: two Sentinels whose host names are not resolved are two, also if they have the same port.
func TestUnresolvedSentinels(t *testing.T) {
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	b := newTestMachine(t, Directive{"resolve-hostnames", "yes"},
		Directive{"known-sentinel", "m", "one.example", "26379", one})
	b.Hello("two.example,26379,"+two+",0,m,10.0.0.1,6379,0", b.now)
	b.Resolved("two.example", "", b.now)
	p := b.primaries.list[0]
	if b.findSentinel(p, nil, one) == nil || b.findSentinel(p, nil, two) == nil {
		t.Errorf("%d Sentinels; %v", p.sentinels.len(), b.q.events)
	}
}

// TestReportOfTheOldPrimary: an INFO of the primary waits for a host name. Meanwhile the primary is switched to another
// server. The INFO is not that server's.
func TestReportOfTheOldPrimary(t *testing.T) {
	b := newTestMachine(t, Directive{"resolve-hostnames", "yes"})
	p := b.primaries.list[0]
	b.informed(p, "run_id:"+strings.Repeat("a", 40)+"\r\nrole:slave\r\nmaster_host:other.example\r\nmaster_port:1\r\n")
	b.Hello("10.0.0.9,26379,"+strings.Repeat("2", 40)+",2,m,10.0.0.2,6379,2", b.now)
	b.Resolved("other.example", "10.0.0.7", b.now)
	if p.at.ip != "10.0.0.2" || !p.saysPrimary || p.runID != "" {
		t.Errorf("the primary at %s has run id %q, says primary: %v", p.at.ip, p.runID, p.saysPrimary)
	}
	b.informed(p, "run_id:"+strings.Repeat("b", 40)+"\r\nrole:master\r\n")
	if p.runID != strings.Repeat("b", 40) {
		t.Errorf("the run id is %q", p.runID)
	}
}

// TestDelayedInfoOfAnOlderConnection: the replies of a primary wait for its replica. An INFO of the replica waits for a
// host name while the replica gets a new connection. It counts as of the time when it came.
func TestDelayedInfoOfAnOlderConnection(t *testing.T) {
	b := newTestMachine(t, Directive{"resolve-hostnames", "yes"}, Directive{"known-replica", "m", "10.0.0.2", "1"})
	p := b.primaries.list[0]
	r := p.replicas.list[0]
	ofPrimary := "role:master\r\nack_replicas_wanted:1\r\nslave0:ip=10.0.0.2,port=1,state=online,offset=1,lag=0\r\n"
	follows := ofReplica(100, 1, strings.Repeat("a", 40), 0)
	b.pass(15_000, "PONG", func(i *Instance) string {
		if i == p {
			return ofPrimary
		}
		return follows
	})
	if b.best(p) != r {
		t.Fatal("the replica is not fit")
	}
	came := b.now
	b.Machine.now = came
	b.informed(r, follows+"slave0:ip=other.example,port=1,state=online,offset=1,lag=0\r\n")
	r.link.hangUp(r.link.commands)
	b.now += 2000
	b.Tick(b.now)
	b.Resolved("other.example", "", b.now+100)
	if r.infoOf != came || b.best(p) != nil {
		t.Errorf("the INFO came at %d, and counts as of %d", came, r.infoOf)
	}
}

// TestLargeNumbers: SENTINEL SET takes no number with which the next start would fail.
func TestLargeNumbers(t *testing.T) {
	for _, o := range options {
		m, _ := watching(t)
		p := m.primaries.list[0]
		_ = o.set(m, p, "5000000000") // refused or not
		readsItself(t, m)
	}
}
