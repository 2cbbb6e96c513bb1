package sentinel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/protocol/respclient"
)

// testMachine drives one Machine by hand.
type testMachine struct {
	*Machine
	q   *quiet
	now int64
}

func newTestMachine(t *testing.T, lines ...Directive) *testMachine {
	m, q := watching(t, lines...)
	return &testMachine{m, q, 1_000_000}
}

// pass lets time pass in ticks. Every PING and hello gets a reply. INFO gets the reply of info, unless info is nil.
func (b *testMachine) pass(ms int64, ping string, info func(i *Instance) string) {
	for end := b.now + ms; b.now < end; b.now += 100 {
		for _, w := range slices.Clone(b.q.conns) {
			for w.conn != nil && len(w.awaited) > 0 {
				v := respclient.Value{Kind: '+', Text: "OK"}
				switch a := w.awaited[0]; {
				case a.to == toPing && ping == "":
					v = respclient.Value{Kind: '-', Text: "ERR silence"}
				case a.to == toPing:
					v = respclient.Value{Kind: '-', Text: ping}
				case a.to == toInfo && info != nil:
					v = respclient.Value{Kind: '$', Text: info(a.of)}
				}
				b.Received(w, v, b.now)
			}
		}
		b.Tick(b.now)
	}
}

// sentCount returns how often a request was sent.
func (b *testMachine) sentCount(words ...string) (n int) {
	for _, s := range b.q.sent {
		if slices.Equal(s, words) {
			n++
		}
	}
	return n
}

func (b *testMachine) has(event string) bool {
	return slices.ContainsFunc(b.q.events, func(e string) bool { return strings.HasPrefix(e, event) })
}

// TestBusyScriptIsKilledOnce: a server that is down because of a running script gets one SCRIPT KILL each time it goes
// down. Renamed commands are sent with their new names.
func TestBusyScriptIsKilledOnce(t *testing.T) {
	b := newTestMachine(t, Directive{"down-after-milliseconds", "m", "3000"},
		Directive{"rename-command", "m", "SCRIPT", "SCRIBE"})
	b.pass(2000, "PONG", nil)
	b.pass(10_000, "BUSY a script runs", nil)
	if n := b.sentCount("SCRIBE", "KILL"); n != 1 || !b.has("+sdown") {
		t.Errorf("%d times SCRIPT KILL; events %v", n, b.q.events)
	}
	b.pass(2000, "PONG", nil)
	if !b.has("-sdown") {
		t.Errorf("events %v", b.q.events)
	}
	b.pass(10_000, "BUSY a script runs", nil)
	if n := b.sentCount("SCRIBE", "KILL"); n != 2 {
		t.Errorf("%d times SCRIPT KILL in two outages", n)
	}
}

// TestNoConfigurationIsAheadOfTheEpoch: a peer's configuration with a later epoch raises this Sentinel's epoch. So the
// next failover has an even later epoch.
func TestNoConfigurationIsAheadOfTheEpoch(t *testing.T) {
	m, q := watching(t)
	m.Hello("10.0.0.5,26379,"+strings.Repeat("c", 40)+",3,m,10.0.0.2,6379,7", 1_000_000)
	if at := m.primaries.find("m").configEpoch; at != 7 || m.epoch != 7 || !slices.Contains(q.events, "+new-epoch 7") {
		t.Errorf("the configuration is of epoch %d, the epoch is %d; events %v", at, m.epoch, q.events)
	}
	readsItself(t, m)
}

// TestLoadingServerIsThere: LOADING and MASTERDOWN are signs of life, other errors are not.
func TestLoadingServerIsThere(t *testing.T) {
	for reply, down := range map[string]bool{"LOADING x": false, "MASTERDOWN x": false, "NOAUTH x": true, "ERR x": true} {
		b := newTestMachine(t, Directive{"down-after-milliseconds", "m", "3000"})
		b.pass(10_000, reply, nil)
		if b.has("+sdown") != down {
			t.Errorf("%s: down is %v", reply, !down)
		}
	}
}

// TestTilt: for a while after a jump of the clock, no decisions are made.
func TestTilt(t *testing.T) {
	b := newTestMachine(t, Directive{"down-after-milliseconds", "m", "3000"})
	b.pass(2000, "PONG", nil)
	b.now += 60_000
	b.pass(20_000, "", nil)
	if !b.has("+tilt") || b.has("+sdown") {
		t.Errorf("in TILT: %v", b.q.events)
	}
	if down, _, _ := b.isDownReply("10.0.0.1", 6379, 0, "*"); down != 0 {
		t.Error("a Sentinel in TILT calls a primary down")
	}
	b.pass(30_000, "", nil)
	if !b.has("-tilt") || !b.has("+sdown") {
		t.Errorf("after TILT: %v", b.q.events)
	}
}

// TestVoteIsWrittenFirst: a vote is on disk before it is sent. A vote that cannot be written is not given.
func TestVoteIsWrittenFirst(t *testing.T) {
	b := newTestMachine(t)
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	b.q.cannot = true
	if _, leader, of := b.isDownReply("10.0.0.1", 6379, 4, one); leader != "*" || of != 0 || b.epoch != 0 {
		t.Errorf("with a bad disk: a vote for %s in %d, epoch %d", leader, of, b.epoch)
	}
	b.q.cannot = false
	before := b.q.saves
	if _, leader, of := b.isDownReply("10.0.0.1", 6379, 4, one); leader != one || of != 4 || b.q.saves == before {
		t.Errorf("a vote for %s in %d, %d saves", leader, of, b.q.saves-before)
	}
	for _, epoch := range []int64{3, 4} {
		if _, leader, of := b.isDownReply("10.0.0.1", 6379, epoch, two); leader != one || of != 4 {
			t.Errorf("in epoch %d another vote: for %s in %d", epoch, leader, of)
		}
	}
	if _, leader, _ := b.isDownReply("10.0.0.9", 6379, 9, two); leader != "*" {
		t.Error("a vote about a primary that is not watched")
	}
}

// ofReplica returns the INFO of a replica.
func ofReplica(priority int, offset int64, runID string, linkDownSeconds int64) string {
	return fmt.Sprintf("run_id:%s\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:up\r\n"+
		"master_link_down_since_seconds:%d\r\nslave_repl_offset:%d\r\nslave_priority:%d\r\n",
		runID, linkDownSeconds, offset, priority)
}

// TestChoice: the replica with the lowest priority is promoted, then the largest offset, then the smallest run id. A
// replica with priority 0, or too long without its primary, is never promoted.
func TestChoice(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)
	for name, infos := range map[string][3]string{
		"priority":  {ofReplica(100, 9, a, 0), ofReplica(10, 1, c, 0), ofReplica(100, 99, a, 0)},
		"offset":    {ofReplica(100, 9, a, 0), ofReplica(100, 10, c, 0), ofReplica(100, 9, b, 0)},
		"run id":    {ofReplica(100, 9, b, 0), ofReplica(100, 9, a, 0), ofReplica(100, 9, c, 0)},
		"zero":      {ofReplica(0, 99, a, 0), ofReplica(100, 1, c, 0), ofReplica(0, 99, b, 0)},
		"link down": {ofReplica(1, 99, a, 9999), ofReplica(100, 1, c, 10), ofReplica(1, 99, b, -1)},
	} {
		m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"}, Directive{"known-replica", "m", "10.0.0.3",
			"1"}, Directive{"known-replica", "m", "10.0.0.4", "1"})
		p := m.primaries.list[0]
		m.pass(15_000, "PONG", func(i *Instance) string {
			if at := slices.Index(p.replicas.list, i); at >= 0 {
				return infos[at]
			}
			return "role:master\r\n"
		})
		if best := m.best(p); best == nil || best.at.ip != "10.0.0.3" {
			t.Errorf("%s: %+v", name, best)
		}
	}
}

// TestChoiceOfRestartedReplicas: all replicas have been restarted since the primary was down. One with data is
// promoted. One that has never had any data is not, nor one that has had no link for long. While another one is fit, or
// may be fit once it answers, none is.
func TestChoiceOfRestartedReplicas(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	for name, x := range map[string]struct {
		infos [2]string
		best  string
	}{
		"restarted":     {[2]string{ofReplica(1, 0, a, -1), ofReplica(100, 7, b, -1)}, "10.0.0.3"},
		"empty":         {[2]string{ofReplica(1, 0, a, -1), ofReplica(1, 0, b, -1)}, ""},
		"one is fit":    {[2]string{ofReplica(100, 3, a, 1), ofReplica(1, 7, b, -1)}, "10.0.0.2"},
		"down for long": {[2]string{ofReplica(1, 3, a, 9999), ofReplica(0, 7, b, -1)}, ""},
		"without a link": {[2]string{ofReplica(1, 3, a, -1) + "uptime_in_seconds:9999\r\n", ofReplica(2, 1, b, -1) +
			"uptime_in_seconds:9\r\n"}, "10.0.0.3"},
		"one is slow":     {[2]string{ofReplica(100, 9, a, 1), ofReplica(1, 7, b, -1)}, ""},
		"confirms writes": {[2]string{ofReplica(1, 3, a, -1) + "acks", ofReplica(1, 7, b, -1) + "acks"}, ""},
	} {
		m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"},
			Directive{"known-replica", "m", "10.0.0.3", "1"})
		p := m.primaries.list[0]
		m.pass(15_000, "PONG", func(i *Instance) string {
			if at := slices.Index(p.replicas.list, i); at >= 0 {
				return x.infos[at]
			}
			if strings.HasSuffix(x.infos[0], "acks") {
				return "role:master\r\nack_replicas_wanted:1\r\n"
			}
			return "role:master\r\n"
		})
		got := ""
		p.flags |= subjectivelyDown
		p.downSince = m.now - 2000
		if name == "one is slow" {
			p.replicas.list[0].infoAt -= 10_000
		}
		if best := m.best(p); best != nil {
			got = best.at.ip
		}
		if got != x.best {
			t.Errorf("%s: %q, want %q", name, got, x.best)
		}
		if p.flags = 0; m.best(p) != nil && name == "restarted" {
			t.Error("a restarted replica replaces a primary that is up")
		}
	}
}

// TestChoiceKeepsConfirmedWrites: if replies wait for replicas, the largest offset comes before the priority. For that,
// enough replicas must be known that one of them certainly has every confirmed write.
func TestChoiceKeepsConfirmedWrites(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)
	whole := [3]string{ofReplica(1, 9, a, 0), ofReplica(100, 10, c, 0), ofReplica(1, 9, b, 0)}
	one := [3]string{ofReplica(1, 9, a, 0), ofReplica(100, 10, c, 0), ofReplica(1, 9, b, 9999)} // two are fit
	down := func(info string) string { return strings.Replace(info, "link_status:up", "link_status:down", 1) }
	// None of the two others has all data of this primary: one was a primary, and one is being copied to.
	foreign := [3]string{"role:master\r\n", down(ofReplica(100, 1, c, 0)), ofReplica(1, 9, b, 0) +
		"master_sync_in_progress:1\r\n"}
	for name, x := range map[string]struct {
		wanted int
		infos  [3]string
		best   string
	}{
		"none waits":          {0, one, "10.0.0.2"},
		"one, all are there":  {1, whole, "10.0.0.3"},
		"one, one is missing": {1, one, ""},
		"two, one is missing": {2, one, "10.0.0.3"},
		"none waits, foreign": {0, foreign, "10.0.0.4"},
		"three, foreign":      {3, foreign, ""},
	} {
		m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"}, Directive{"known-replica", "m", "10.0.0.3",
			"1"}, Directive{"known-replica", "m", "10.0.0.4", "1"})
		p := m.primaries.list[0]
		m.pass(15_000, "PONG", func(i *Instance) string {
			if at := slices.Index(p.replicas.list, i); at >= 0 {
				return x.infos[at]
			}
			info := "role:master\r\n"
			if x.wanted > 0 {
				info += fmt.Sprintf("ack_replicas_wanted:%d\r\n", x.wanted)
			}
			for n := range 3 {
				info += fmt.Sprintf("slave%d:ip=10.0.0.%d,port=1,state=online,offset=1,lag=0\r\n", n, n+2)
			}
			return info
		})
		got := ""
		if best := m.best(p); best != nil {
			got = best.at.ip
		}
		if got != x.best {
			t.Errorf("%s: %q, want %q", name, got, x.best)
		}
	}
}

// TestUnfinishedPromotion: a primary whose replies wait for its replica is down. The replica has become a primary, but
// the failover did not end. The replica may be promoted again if it has the history of its primary. Otherwise the group
// would stay without a primary. If there is another replica, the primary may have confirmed writes by that one since.
func TestUnfinishedPromotion(t *testing.T) {
	history, other := strings.Repeat("1", 40), strings.Repeat("2", 40)
	follows := ofReplica(100, 7, strings.Repeat("a", 40), 0)
	unlinked := strings.Replace(follows, ":up", ":down", 1)
	promoted := func(before string) string {
		return "run_id:" + strings.Repeat("a", 40) + "\r\nrole:master\r\nmaster_replid:" + other + "\r\nmaster_replid2:" +
			before + "\r\nsecond_repl_offset:10\r\n"
	}
	restarted := strings.Replace(promoted(history), "run_id:a", "run_id:b", 1) // its disk has the data of offset 9
	for name, x := range map[string]struct {
		infos []string // of the replica
		late  bool     // the primary answers once more, after the replica has left
		fit   bool
		other bool // there is another replica, which does not answer
	}{
		"promoted":               {infos: []string{follows, promoted(history)}, fit: true},
		"promoted, and asked":    {infos: []string{follows, promoted(history), promoted(history)}, fit: true},
		"another history":        {infos: []string{follows, promoted(other)}},
		"the primary went on":    {infos: []string{follows, promoted(history), promoted(history)}, late: true, fit: true},
		"it went on with one":    {infos: []string{follows, promoted(history), promoted(history)}, late: true, other: true},
		"follows without a link": {infos: []string{follows, promoted(history), unlinked}},
		"restarted":              {infos: []string{follows, promoted(history), restarted}},
		"restarted at once":      {infos: []string{follows, restarted}},
		"follows again":          {infos: []string{follows, promoted(history), follows}, fit: true},
	} {
		lines := []Directive{{"known-replica", "m", "10.0.0.2", "1"}}
		if x.other {
			lines = append(lines, Directive{"known-replica", "m", "10.0.0.3", "1"})
		}
		m := newTestMachine(t, lines...)
		p := m.primaries.list[0]
		r := p.replicas.list[0]
		ofPrimary := "role:master\r\nack_replicas_wanted:1\r\nmaster_replid:" + history +
			"\r\nslave0:ip=10.0.0.2,port=1,state=online,offset=1,lag=0\r\n"
		m.pass(15_000, "PONG", func(i *Instance) string {
			switch i {
			case p:
				return ofPrimary
			case r:
				return follows
			}
			return ""
		})
		p.flags |= subjectivelyDown
		p.downSince = m.Machine.now
		for n, info := range x.infos {
			if n != 2 { // the primary answers in the same ms
				m.Machine.now += 500
			}
			if x.late && n == 2 {
				m.learn(p, parseReport(ofPrimary), m.Machine.now)
			}
			m.learn(r, parseReport(info), m.Machine.now)
		}
		if fit := m.best(p) == r; fit != x.fit {
			t.Errorf("%s: fit is %v, want %v", name, fit, x.fit)
		}
		if x.fit && r.saysPrimary && r.offset != 9 {
			t.Errorf("%s: the offset is %d, want 9", name, r.offset)
		}
	}
}

// TestReplicaIsSoonFit: the replies of a primary wait for its replica, which becomes complete. The Sentinel learns that
// within two seconds, because the replica cannot be promoted before. After a restart of the replica it also learns that
// soon.
func TestReplicaIsSoonFit(t *testing.T) {
	m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"})
	p, complete, runID := m.primaries.list[0], false, strings.Repeat("a", 40)
	info := func(i *Instance) string {
		whole := ofReplica(100, 1, runID, 0)
		switch {
		case i == p:
			return "role:master\r\nack_replicas_wanted:1\r\nslave0:ip=10.0.0.2,port=1,state=online,offset=1,lag=0\r\n"
		case complete:
			return whole
		}
		return strings.Replace(whole, "link_status:up", "link_status:down", 1)
	}
	m.pass(15_000, "PONG", info)
	complete = true
	m.pass(2_000, "PONG", info)
	r := p.replicas.list[0]
	if !r.synced {
		t.Error("the replica cannot be promoted yet")
	}
	runID = strings.Repeat("b", 40)
	r.link.hangUp(r.link.commands)
	m.pass(3_000, "PONG", info)
	if !r.synced || r.runID != runID {
		t.Errorf("the replica cannot be promoted yet after its restart: synced %t, run id %s", r.synced, r.runID)
	}
	if m.best(p) != r {
		t.Error("the replica is not fit")
	}
	if r.link.commandsAt = r.infoOf + 1; m.best(p) != nil {
		t.Error("the replica is fit before an INFO on its new connection")
	}
}

// TestLinkBetweenINFOs: the replies of a primary wait for its replica. The replica's link begins after one INFO and
// ends before the next, because the primary dies. A spindle with the primary's history can be promoted. A redis-server
// cannot, because it also counts the time since the link to an earlier primary.
func TestLinkBetweenINFOs(t *testing.T) {
	const own, other = "history-a", "history-b"
	for name, x := range map[string]struct {
		more string // what its INFO says besides
		down int64
		fit  bool
	}{
		"a spindle":                {"spindle_version:1\r\nmaster_replid:" + own + "\r\n", 3, true},
		"a spindle with old data":  {"spindle_version:1\r\nmaster_replid:" + other + "\r\n", 3, false},
		"a spindle without a link": {"spindle_version:1\r\nmaster_replid:" + own + "\r\n", -1, false},
		"a redis-server":           {"master_replid:" + own + "\r\n", 3, false},
	} {
		m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"})
		p, down := m.primaries.list[0], int64(-1)
		m.pass(15_000, "PONG", func(i *Instance) string {
			if i == p {
				return "role:master\r\nmaster_replid:" + own + "\r\nack_replicas_wanted:1\r\n" +
					"slave0:ip=10.0.0.2,port=1,state=online,offset=1,lag=0\r\n"
			}
			if m.now > 10_000 {
				down = x.down
			}
			return x.more + strings.Replace(ofReplica(100, 1, strings.Repeat("a", 40), down), "status:up", "status:down", 1)
		})
		if r := p.replicas.list[0]; r.synced != x.fit {
			t.Errorf("%s: it can be promoted: %t", name, r.synced)
		}
	}
}

// TestPrimaryRestarts: the replies of a primary wait for one of its replicas. The primary restarts with another
// history, and ends. A replica with the new history is promoted before one with a larger offset in the old history. If
// none has the new one, the old one's largest offset wins. All replicas must be fit: each may have confirmed writes.
func TestPrimaryRestarts(t *testing.T) {
	const before, after = "history-a", "history-b"
	for name, x := range map[string]struct {
		histories [2]string // of the replicas, after the restart; "": it cannot be reached
		best      string
	}{
		"one has a link again":              {[2]string{after, before}, "10.0.0.2"},
		"none has a link again":             {[2]string{before, before}, "10.0.0.3"},
		"the one with a link has gone":      {[2]string{"", before}, ""},
		"the one without a link has gone":   {[2]string{after, ""}, ""},
		"a copy has begun, and has failed":  {[2]string{after, "history-c"}, ""},
		"two copies have begun, and failed": {[2]string{"history-c", "history-d"}, ""},
	} {
		m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"}, Directive{"known-replica", "m", "10.0.0.3",
			"1"})
		p, runID, own, histories, status := m.primaries.list[0], "a", before, [2]string{before, before}, "up"
		info := func(i *Instance) string {
			if at := slices.Index(p.replicas.list, i); at >= 0 {
				return "spindle_version:1\r\nmaster_replid:" + histories[at] + "\r\n" + strings.Replace(
					ofReplica(100, []int64{1, 100}[at], strings.Repeat("c", 40), 0), "status:up", "status:"+status, 1)
			}
			info := "run_id:" + strings.Repeat(runID, 40) + "\r\nrole:master\r\nack_replicas_wanted:1\r\nmaster_replid:" +
				own + "\r\n"
			for at, history := range histories {
				if history == own {
					info += fmt.Sprintf("slave%d:ip=10.0.0.%d,port=1,state=online,offset=1,lag=0\r\n", at, at+2)
				}
			}
			return info
		}
		m.pass(15_000, "PONG", info)
		runID, own, histories, status = "b", after, x.histories, "down"
		p.link.hangUp(p.link.commands)
		m.pass(3_000, "PONG", info)
		if p.history != after {
			t.Errorf("%s: the primary's restart is not known after 3 s", name)
		}
		m.pass(15_000, "PONG", info)
		for at, r := range p.replicas.list {
			if histories[at] == "" {
				r.flags |= subjectivelyDown
			}
		}
		got := ""
		if best := m.best(p); best != nil {
			got = best.at.ip
		}
		if got != x.best {
			t.Errorf("%s: %q, want %q", name, got, x.best)
		}
	}
}

// TestReplicaThatIsNotNamed: the replies of a primary wait for one of its replicas. The primary's last INFO names one
// of two. The other one has lost its link, or has one since. Each of them may have confirmed what the other one lacks,
// so neither can be promoted alone.
func TestReplicaThatIsNotNamed(t *testing.T) {
	for _, status := range []string{"down", "up"} {
		m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"}, Directive{"known-replica", "m",
			"10.0.0.3", "1"})
		p, all := m.primaries.list[0], true
		info := func(i *Instance) string {
			one, two := ofReplica(100, 9, strings.Repeat("a", 40), 0), ofReplica(100, 10, strings.Repeat("b", 40), 0)
			switch at := slices.Index(p.replicas.list, i); {
			case at == 0 && !all:
				return strings.Replace(one, "status:up", "status:"+status, 1)
			case at >= 0:
				return []string{one, two}[at]
			}
			names := "slave0:ip=10.0.0.3,port=1,state=online,offset=10,lag=0\r\n"
			if all {
				names += "slave1:ip=10.0.0.2,port=1,state=online,offset=9,lag=0\r\n"
			}
			return "role:master\r\nack_replicas_wanted:1\r\n" + names
		}
		m.pass(15_000, "PONG", info)
		all = false
		m.pass(15_000, "PONG", info)
		if m.best(p) != p.replicas.list[1] {
			t.Errorf("link %s: the replica with the larger offset is not chosen", status)
		}
		for at, r := range p.replicas.list {
			r.flags |= subjectivelyDown
			if m.best(p) != nil {
				t.Errorf("link %s: one is chosen without replica %d", status, at)
			}
			r.flags = 0
		}
	}
}

// TestSentinelThatHearsTooFew: a Sentinel sees another primary, and a replica that follows it. If replies wait for
// replicas, it leaves both as they are until it hears most Sentinels. It may have missed a failover.
func TestSentinelThatHearsTooFew(t *testing.T) {
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	for acks := range 2 {
		m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"}, Directive{"known-replica", "m", "10.0.0.3",
			"1"}, Directive{"known-sentinel", "m", "10.0.0.8", "1", one}, Directive{"known-sentinel", "m", "10.0.0.9", "1",
			two}, Directive{"failover-timeout", "m", "3000"})
		p := m.primaries.list[0]
		info := func(i *Instance) string {
			switch i {
			case p:
				return fmt.Sprintf("role:master\r\nack_replicas_wanted:%d\r\n", acks)
			case p.replicas.list[0]:
				return "role:master\r\n"
			}
			return strings.Replace(ofReplica(100, 1, strings.Repeat("a", 40), 0), "10.0.0.1", "10.0.0.2", 1)
		}
		m.pass(25_000, "PONG", info)
		if corrects := acks == 0; m.has("+convert-to-slave") != corrects || m.has("+fix-slave-config") != corrects {
			t.Errorf("with %d replicas to wait for, and no other Sentinel: %v", acks, m.q.events)
		}
		for range 25 {
			m.Hello("10.0.0.8,1,"+one+",0,m,10.0.0.1,6379,0", m.now)
			m.pass(1000, "PONG", info)
		}
		if !m.has("+convert-to-slave") || !m.has("+fix-slave-config") {
			t.Errorf("with %d replicas to wait for, and most Sentinels: %v", acks, m.q.events)
		}
	}
}

// TestStray: a server that should be a replica is a primary for long, so a Sentinel makes it one. If replies wait for
// replicas, there are two exceptions. A failover may have promoted the server once more, or the real primary may have
// become a replica since its last INFO. It is asked often.
func TestStray(t *testing.T) {
	for acks := range 2 {
		for name, x := range map[string]struct {
			history  string // of the server, in its second INFO
			answers  bool   // the real primary has sent another INFO by then
			corrects bool
		}{
			"all is as before":          {"1", true, true},
			"it is promoted once more":  {"2", true, acks == 0},
			"the primary is not heard":  {"1", false, acks == 0},
			"neither of them is as was": {"2", false, acks == 0},
		} {
			m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"})
			p, asked := m.primaries.list[0], 0
			ofPrimary := fmt.Sprintf("role:master\r\nack_replicas_wanted:%d\r\n", acks)
			stray := func(history string) string {
				return "role:master\r\nmaster_replid:" + strings.Repeat(history, 40) + "\r\n"
			}
			m.pass(6_000, "PONG", func(i *Instance) string {
				if i == p {
					asked++
					return ofPrimary
				}
				return stray("1")
			})
			if often := asked > 3; often != (acks > 0) {
				t.Errorf("with %d replicas to wait for, the primary was asked %d times", acks, asked)
			}
			m.Machine.now += 12_000
			if x.answers {
				m.learn(p, parseReport(ofPrimary), m.Machine.now)
			}
			m.learn(p.replicas.list[0], parseReport(stray(x.history)), m.Machine.now)
			if m.has("+convert-to-slave") != x.corrects {
				t.Errorf("with %d replicas to wait for, %s: %v", acks, name, m.q.events)
			}
			m.Machine.now += 9_000
			m.learn(p, parseReport(ofPrimary), m.Machine.now)
			m.learn(p.replicas.list[0], parseReport(stray(x.history)), m.Machine.now)
			if !m.has("+convert-to-slave") {
				t.Errorf("with %d replicas to wait for, %s, later: %v", acks, name, m.q.events)
			}
		}
	}
}

// TestPrimaryFollowsItsReplica: the replies of a primary wait for its replica. They have changed roles, and the replica
// was restarted since, so it does not count as complete. It is promoted once the old primary has its data, or else the
// group would stay without a primary.
func TestPrimaryFollowsItsReplica(t *testing.T) {
	for status, replaced := range map[string]bool{"up": true, "down": false} {
		m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"})
		p, changed := m.primaries.list[0], false
		info := func(i *Instance) string {
			switch {
			case (i == p) != changed:
				return "run_id:" + strings.Repeat("b", 40) + "\r\nrole:master\r\nack_replicas_wanted:1\r\n"
			case i != p:
				return ofReplica(100, 9, strings.Repeat("a", 40), 0)
			}
			text := strings.Replace(ofReplica(100, 9, strings.Repeat("c", 40), 0), "10.0.0.1\r\nmaster_port:6379",
				"10.0.0.2\r\nmaster_port:1", 1)
			return strings.Replace(text, "link_status:up", "link_status:"+status, 1)
		}
		m.pass(15_000, "PONG", info)
		changed = true
		m.pass(15_000, "PONG", info)
		m.startFailover(p)
		p.flags |= forced
		m.pass(20_000, "PONG", info)
		if (p.at.ip == "10.0.0.2") != replaced {
			t.Errorf("its link is %s, and the primary is at %s; %v", status, p.at.ip, m.q.events)
		}
	}
}

// TestFailedCopyBetweenINFOs: the replies of a primary wait for its replica. A full copy begins and fails between two
// INFOs of the replica, which has no data then, and another history. It is not promoted.
func TestFailedCopyBetweenINFOs(t *testing.T) {
	m := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"})
	p, history, status := m.primaries.list[0], "history-a", "up"
	info := func(i *Instance) string {
		if i == p {
			return "role:master\r\nmaster_replid:history-a\r\nack_replicas_wanted:1\r\n"
		}
		return "spindle_version:1\r\nmaster_replid:" + history + "\r\n" +
			strings.Replace(ofReplica(100, 9, strings.Repeat("a", 40), 0), "status:up", "status:"+status, 1)
	}
	m.pass(15_000, "PONG", info)
	if m.best(p) == nil {
		t.Error("it is not fit before the copy")
	}
	history, status = "history-c", "down"
	m.pass(15_000, "PONG", info)
	if m.best(p) != nil {
		t.Error("it is fit after the copy")
	}
}

// TestChosenReplicaRestarts: the replies of a primary wait for its replica. The replica is chosen, and restarts with
// less data before it is promoted. It is not promoted before it has all data again.
func TestChosenReplicaRestarts(t *testing.T) {
	b := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"})
	p, whole, runID := b.primaries.list[0], true, strings.Repeat("a", 40)
	r := p.replicas.list[0]
	info := func(i *Instance) string {
		switch {
		case i == p:
			return "role:master\r\nack_replicas_wanted:1\r\nslave0:ip=10.0.0.2,port=1,state=online,offset=1,lag=0\r\n"
		case whole:
			return ofReplica(100, 1, runID, 0)
		}
		return strings.Replace(ofReplica(100, 0, runID, 0), "link_status:up", "link_status:down", 1)
	}
	b.pass(15_000, "PONG", info)
	b.startFailover(p)
	p.flags |= forced
	for p.state != sendPromotion {
		b.pass(100, "PONG", info)
	}
	whole, runID = false, strings.Repeat("b", 40)
	r.link.hangUp(r.link.commands)
	b.pass(4_000, "PONG", info)
	if n := b.sentCount("SLAVEOF", "NO", "ONE"); n != 0 {
		t.Fatalf("it is promoted with the offset %d; %v", r.offset, b.q.events)
	}
	whole = true
	b.pass(4_000, "PONG", info)
	if n := b.sentCount("SLAVEOF", "NO", "ONE"); n != 1 {
		t.Errorf("it is promoted %d times; %v", n, b.q.events)
	}
}

// TestPromotedReplicaRestarts: the chosen replica gets the request to become a primary, and restarts before it reports
// so. If replies of its primary wait for it, it is chosen again only after it has all data again.
func TestPromotedReplicaRestarts(t *testing.T) {
	for acks, accepted := range []bool{true, false} {
		b := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"})
		p, one, two := b.primaries.list[0], strings.Repeat("a", 40), strings.Repeat("b", 40)
		r := p.replicas.list[0]
		ofReplicaNow := ofReplica(100, 1, one, 0)
		info := func(i *Instance) string {
			if i == p {
				return fmt.Sprintf("role:master\r\nack_replicas_wanted:%d\r\n"+
					"slave0:ip=10.0.0.2,port=1,state=online,offset=1,lag=0\r\n", acks)
			}
			return ofReplicaNow
		}
		b.pass(15_000, "PONG", info)
		b.startFailover(p)
		p.flags |= forced
		for p.state != waitPromotion {
			b.pass(100, "PONG", info)
		}
		ofReplicaNow = "run_id:" + two + "\r\nrole:master\r\n"
		r.link.hangUp(r.link.commands)
		b.pass(8_000, "PONG", info)
		if b.has("+promoted-slave") != accepted {
			t.Errorf("with %d replicas to wait for: %v", acks, b.q.events)
		}
		if accepted {
			continue
		}
		ofReplicaNow = ofReplica(100, 1, two, 0)
		b.pass(4_000, "PONG", info)
		if p.is(failingOver) || r.is(promoted) || b.best(p) != r {
			t.Errorf("it cannot be chosen again; %v", b.q.events)
		}
	}
}

// TestParallelSyncs: a forced failover promotes one replica and reconfigures the others, parallel-syncs at a time.
func TestParallelSyncs(t *testing.T) {
	b := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"}, Directive{"known-replica", "m", "10.0.0.3",
		"1"}, Directive{"known-replica", "m", "10.0.0.4", "1"}, Directive{"known-replica", "m", "10.0.0.5", "1"},
		Directive{"parallel-syncs", "m", "2"})
	p := b.primaries.list[0]
	info := func(i *Instance) string {
		switch {
		case i.kind == primary, i.is(promoted):
			return "role:master\r\n"
		}
		return ofReplica(100, int64(i.at.ip[7]), strings.Repeat("a", 40), 0)
	}
	b.pass(15_000, "PONG", info)
	b.startFailover(p)
	p.flags |= forced
	b.pass(5000, "PONG", info)
	if p.chosen == nil || p.chosen.at.ip != "10.0.0.5" || b.sentCount("SLAVEOF", "NO", "ONE") != 1 {
		t.Fatalf("the choice: %+v", p.chosen)
	}
	if n := b.sentCount("SLAVEOF", "10.0.0.5", "1"); n != 2 {
		t.Errorf("%d replicas are pointed to the new primary at a time, not 2", n)
	}
	b.pass(30_000, "PONG", info)
	if n := b.sentCount("SLAVEOF", "10.0.0.5", "1"); n != 3 ||
		p.at.ip != "10.0.0.5" || !b.has("+switch-master m 10.0.0.1 6379 10.0.0.5 1") {
		t.Errorf("%d replicas were told; the primary is at %s; %v", n, p.at.ip, b.q.events)
	}
}

// TestRebootedPrimary: a restarted primary that only replies LOADING counts as down after its own period.
func TestRebootedPrimary(t *testing.T) {
	b := newTestMachine(t, Directive{"master-reboot-down-after-period", "m", "5000"})
	run := strings.Repeat("a", 40)
	info := func(*Instance) string { return "run_id:" + run + "\r\nrole:master\r\n" }
	b.pass(12_000, "PONG", info)
	run = strings.Repeat("b", 40)
	b.pass(25_000, "LOADING x", info)
	if !b.has("+reboot") || !b.has("+sdown") {
		t.Errorf("events %v", b.q.events)
	}
	b.pass(2000, "PONG", info)
	if !b.has("-sdown") {
		t.Errorf("events %v", b.q.events)
	}
}

// scripted is an Outside that counts scripts.
type scripted struct {
	quiet
	started []int
	killed  []int
}

func (s *scripted) StartScript(job int, _ []string) { s.started = append(s.started, job) }
func (s *scripted) KillScript(job int)              { s.killed = append(s.killed, job) }

// TestScripts: 256 scripts may wait, 16 run at a time, and a script that runs for a minute is killed. After exit code 1
// a script is retried, ten times in all, with a longer delay each time.
func TestScripts(t *testing.T) {
	b := newTestMachine(t)
	out := &scripted{}
	b.out = out
	for i := range 300 {
		b.schedule("/bin/x", fmt.Sprint(i))
	}
	if len(b.scripts) != scriptsMax || b.scripts[0].argv[1] != "44" {
		t.Fatalf("%d wait, the first is %v", len(b.scripts), b.scripts[0].argv)
	}
	b.pass(300, "PONG", nil)
	if len(out.started) != scriptsAtOne {
		t.Fatalf("%d run", len(out.started))
	}
	first := out.started[0]
	b.ScriptStarted(first, 76, b.now)
	b.ScriptStarted(out.started[1], 77, b.now)
	b.ScriptEnded(first, 0, 0, b.now)
	b.pass(100, "PONG", nil)
	if len(out.started) != scriptsAtOne+1 || len(b.scripts) != scriptsMax-1 {
		t.Errorf("after one has ended %d were started and %d are left", len(out.started), len(b.scripts))
	}
	b.pass(61_000, "PONG", nil)
	if len(out.killed) != scriptsAtOne ||
		!strings.Contains(strings.Join(out.events, "\n"), "-script-timeout /bin/x 77") {
		t.Errorf("%d were killed after a minute: %v", len(out.killed), out.events)
	}

	b = newTestMachine(t)
	out = &scripted{}
	b.out = out
	b.schedule("/bin/x")
	began := []int64{}
	for len(b.scripts) > 0 && b.now < 1_000_000+300*60_000 {
		b.pass(1000, "PONG", nil)
		if len(out.started) > len(began) {
			began = append(began, b.now)
			b.ScriptEnded(out.started[0], 1, 0, b.now)
		}
	}
	if len(began) != scriptTries {
		t.Fatalf("%d tries", len(began))
	}
	for i := 2; i < len(began); i++ {
		if was, is := began[i-1]-began[i-2], began[i]-began[i-1]; is < 2*was-4000 {
			t.Errorf("a rest of %d ms after one of %d", is, was)
		}
	}
}

// named is an Outside that resolves names when the test tells it to.
type named struct {
	quiet
	asked []string
}

func (n *named) Lookup(host string) { n.asked = append(n.asked, host) }

// TestNamesAreNotWaitedFor: a hello with host names is used once they are resolved. The Sentinel does not wait for
// them.
func TestNamesAreNotWaitedFor(t *testing.T) {
	b := newTestMachine(t, Directive{"resolve-hostnames", "yes"})
	out := &named{}
	b.out = out
	id := strings.Repeat("e", 40)
	b.Hello("peer.example,26379,"+id+",0,m,Primary.example,6379,5", b.now)
	p := b.primaries.list[0]
	b.pass(500, "PONG", nil)
	if p.sentinels.len() != 0 || !slices.Contains(out.asked, "peer.example") {
		t.Fatalf("%d Sentinels, asked for %v", p.sentinels.len(), out.asked)
	}
	b.Resolved("peer.example", "10.0.0.77", b.now)
	if !slices.Contains(out.asked, "primary.example") {
		t.Fatalf("asked for %v", out.asked)
	}
	b.Resolved("primary.example", "10.0.0.8", b.now)
	if p.sentinels.len() != 1 || p.sentinels.list[0].at.ip != "10.0.0.77" ||
		p.at.ip != "10.0.0.8" || p.at.host != "Primary.example" {
		t.Errorf("the Sentinel: %+v, the primary is at %+v", p.sentinels.list, p.at)
	}
	// The number of names is bounded.
	for i := range 5000 {
		b.Hello(fmt.Sprintf("h%d,26379,%040d,0,m,10.0.0.8,6379,5", i, i), b.now)
	}
	if len(out.asked) > lookupsMax+8 || b.deferred > deferredMax {
		t.Errorf("%d lookups, %d messages wait", len(out.asked), b.deferred)
	}
}

// TestSentinelsAreBounded: hellos of invented Sentinels cost only a bounded number of entries. Hellos of known
// Sentinels are still handled.
func TestSentinelsAreBounded(t *testing.T) {
	b := newTestMachine(t)
	p := b.primaries.list[0]
	for i := range sentinelsMax + 100 {
		b.Hello(fmt.Sprintf("10.1.%d.%d,26379,%040d,0,m,10.0.0.1,6379,0", i/256, i%256, i), b.now)
	}
	if n := p.sentinels.len(); n != sentinelsMax {
		t.Errorf("%d Sentinels", n)
	}
	b.now += 5000
	b.Hello(fmt.Sprintf("10.1.0.7,26379,%040d,9,m,10.0.0.1,6379,0", 7), b.now)
	if s := p.sentinels.list[7]; s.heard != b.now || b.epoch != 9 {
		t.Errorf("the eighth was heard at %d, the epoch is %d", s.heard, b.epoch)
	}
}

// TestPrimaryThatIsAReplica: a primary that was made a replica is failed over. Its replicas may have been without a
// primary for longer than after a crash.
func TestPrimaryThatIsAReplica(t *testing.T) {
	b := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"}, Directive{"known-replica", "m", "10.0.0.3",
		"1"}, Directive{"down-after-milliseconds", "m", "1000"})
	p := b.primaries.list[0]
	offset := map[string]int64{"10.0.0.2": 5, "10.0.0.3": 7}
	info := func(i *Instance) string { return ofReplica(100, offset[i.at.ip], strings.Repeat("a", 40), 60) }
	b.pass(40_000, "PONG", info)
	if !p.is(subjectivelyDown) {
		t.Fatal("it does not count as down")
	}
	if best := b.best(p); best == nil || best.at.ip != "10.0.0.3" {
		t.Errorf("the choice: %+v", best)
	}
	p.saysPrimary = true
	if best := b.best(p); best != nil {
		t.Errorf("of a primary that was one: %s, whose link was down for long", best.name)
	}
}

// TestNewerConfigurationEndsFailover: a Sentinel that has promoted a replica accepts a newer configuration with the old
// address. It no longer announces its own choice.
func TestNewerConfigurationEndsFailover(t *testing.T) {
	b := newTestMachine(t, Directive{"known-replica", "m", "10.0.0.2", "1"})
	p := b.primaries.list[0]
	p.flags |= failingOver
	p.chosen, p.configEpoch = p.replicas.list[0], 1
	b.enter(p, reconfReplicas)
	b.Hello(fmt.Sprintf("10.0.0.9,26379,%040d,2,m,10.0.0.1,6379,2", 9), b.now)
	if at := p.current(); at.ip != "10.0.0.1" || p.configEpoch != 2 || p.is(failingOver) {
		t.Errorf("the primary is at %s in epoch %d, failing over: %v", at.ip, p.configEpoch, p.is(failingOver))
	}
}

// TestTwoAddressesOfOneEpoch: two Sentinels have failed over at once, because operators have asked for it. If replies
// wait for replicas, the greater address wins, so that they agree. In Redis they disagree until the next failover.
func TestTwoAddressesOfOneEpoch(t *testing.T) {
	for _, x := range []struct {
		acks int
		host string
		want string
	}{{1, "10.0.0.2", "10.0.0.2"}, {1, "10.0.0.0", "10.0.0.1"}, {0, "10.0.0.2", "10.0.0.1"}} {
		b := newTestMachine(t, Directive{"config-epoch", "m", "2"}, Directive{"known-acks", "m", fmt.Sprint(x.acks), "1",
			"?"})
		p := b.primaries.list[0]
		b.Hello(fmt.Sprintf("10.0.0.9,26379,%040d,2,m,%s,6379,2", 9, x.host), b.now)
		if p.at.ip != x.want || p.configEpoch != 2 {
			t.Errorf("%+v: the primary is at %s in epoch %d", x, p.at.ip, p.configEpoch)
		}
	}
}

// TestVoteAfterMonitor: a Sentinel forgets a primary for which it has voted, and watches it again. It does not vote
// twice in that epoch.
func TestVoteAfterMonitor(t *testing.T) {
	m, _ := watching(t)
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	p := m.primaries.list[0]
	if leader, epoch := m.vote(p, 5, one); leader != one || epoch != 5 {
		t.Fatalf("the vote is for %q in %d", leader, epoch)
	}
	m.release(p)
	p, err := m.monitor("m", "10.0.0.1", 6379, 2)
	if err != nil {
		t.Fatal(err)
	}
	if leader, _ := m.vote(p, 5, two); leader != "" {
		t.Errorf("it votes for %q too", leader)
	}
	if leader, epoch := m.vote(p, 6, two); leader != two || epoch != 6 {
		t.Errorf("in the next epoch the vote is for %q in %d", leader, epoch)
	}
}
