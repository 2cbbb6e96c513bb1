package sentinel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/internal/setting"
	"spindle/protocol/respclient"
)

// A livePrimary is a primary that confirms each write by one of its two replicas while a failover replaces it.
type livePrimary struct {
	*testMachine
	p         *Instance
	slow      *Instance // it gets no writes once a replica is chosen
	offset    map[*Instance]int
	held      map[*Instance]bool
	confirmed int  // the offset of the newest write that a replica has acknowledged
	dead      bool // the Sentinel gets no INFO of it
}

func newLivePrimary(t *testing.T, lines ...Directive) *livePrimary {
	l := &livePrimary{testMachine: newTestMachine(t, append([]Directive{{"known-replica", "m", "10.0.0.2", "1"},
		{"known-replica", "m", "10.0.0.3", "1"}}, lines...)...), offset: map[*Instance]int{}, held: map[*Instance]bool{}}
	l.p = l.primaries.list[0]
	l.slow = l.p.replicas.list[0]
	return l
}

// info returns INFO of a server.
func (l *livePrimary) info(i *Instance) string {
	switch {
	case i != l.p:
		runID := strings.Repeat("b", 40)
		if i == l.slow {
			runID = strings.Repeat("a", 40) // the first choice among equals
		}
		text := ofReplica(100, int64(l.offset[i]), runID, 0) + "spindle_version:1\r\nmaster_replid:" +
			strings.Repeat("1", 40) + "\r\n"
		if l.dead {
			text = strings.Replace(text, "link_status:up", "link_status:down", 1)
		}
		return text
	case l.dead:
		return ""
	}
	return "role:master\r\nmaster_replid:" + strings.Repeat("1", 40) + "\r\nack_replicas_wanted:1\r\n" +
		"slave0:ip=10.0.0.2,port=1,state=online,offset=1,lag=0\r\n" +
		"slave1:ip=10.0.0.3,port=1,state=online,offset=1,lag=0\r\n"
}

// run lets time pass. Each replica gets the requests that were sent to it, and then another write.
func (l *livePrimary) run(ms int64) {
	for range ms / 100 {
		for _, r := range l.p.replicas.list {
			if !l.held[r] && (r != l.slow || l.p.chosen == nil) {
				l.offset[r]++
				l.confirmed = max(l.confirmed, l.offset[r])
			}
		}
		for _, r := range l.p.replicas.list {
			if w := r.link.commands; w != nil {
				for _, a := range w.awaited {
					l.held[r] = l.held[r] || a.to == toHold
				}
			}
		}
		l.pass(100, "PONG", l.info)
	}
}

// TestLivePrimaryConfirmsNoMore: a primary that lives is replaced, because its Sentinels cannot reach it, or because an
// operator has asked for it. Its replies wait for one of its two replicas. No write is confirmed that the chosen
// replica lacks.
func TestLivePrimaryConfirmsNoMore(t *testing.T) {
	l := newLivePrimary(t)
	l.run(15_000)
	l.startFailover(l.p)
	l.p.flags |= forced
	for range 100 {
		if l.run(100); l.p.chosen != nil {
			break
		}
	}
	l.run(1000)
	if l.p.chosen == nil {
		t.Fatalf("no replica is chosen; %v", l.q.events)
	}
	if n := l.offset[l.p.chosen]; n < l.confirmed {
		t.Errorf("the chosen replica has the writes up to %d, and those up to %d are confirmed", n, l.confirmed)
	}
}

// TestReplicasConfirmAgain: when a failover ends without a new primary, replicas confirm writes again. The log says
// why.
func TestReplicasConfirmAgain(t *testing.T) {
	l := newLivePrimary(t)
	l.run(15_000)
	away := l.p.replicas.list[1]
	away.priority = 0
	l.startFailover(l.p)
	l.p.flags |= forced
	l.pass(20_000, "PONG", func(i *Instance) string {
		if i == away {
			return strings.Replace(l.info(i), "slave_priority:100", "slave_priority:0", 1)
		}
		return l.info(i)
	})
	if l.p.is(failingOver) || !l.has("-failover-abort-no-good-slave") {
		t.Fatalf("the failover continues; %v", l.q.events)
	}
	const why = "Too few replicas of m are fit to keep all confirmed writes: 1, and 2 of 2 known ones are needed. While " +
		"the primary is up, SENTINEL RESET m forgets those that are gone for good"
	if strings.Count(strings.Join(l.q.logged, "\n"), why) != 1 {
		t.Errorf("the log is %q", l.q.logged)
	}
	const ms = "600000" // three times failover-timeout, and a minute
	on := l.sentCount("REPLCONF", "holder", l.id, "hold-acks", ms)
	off := l.sentCount("REPLCONF", "holder", l.id, "hold-acks", "0")
	if on != 2 || off != 4 { // once at the start
		t.Errorf("%d replicas were asked to confirm nothing, and %d to confirm again", on, off)
	}
}

// TestHoldOfAnotherPrimary: a replica still follows the primary that an earlier failover has replaced. The next
// failover ends without a new primary. The replica confirms nothing until it follows the present one.
func TestHoldOfAnotherPrimary(t *testing.T) {
	l := newLivePrimary(t)
	follows := "master_host:10.0.0.9"
	info := func(i *Instance) string {
		text := strings.Replace(l.info(i), "slave_priority:100", "slave_priority:0", 1)
		if i == l.slow {
			text = strings.Replace(text, "master_host:10.0.0.1", follows, 1)
		}
		return text
	}
	l.pass(15_000, "PONG", info)
	l.startFailover(l.p)
	l.p.flags |= forced
	l.pass(20_000, "PONG", info)
	if !l.has("-failover-abort-no-good-slave") {
		t.Fatalf("the failover continues; %v", l.q.events)
	}
	if on, off := l.requests(); on != 2 || off != 2 { // the other one: at the start, and after the failover
		t.Errorf("replicas were asked %d times to confirm nothing, and %d times to confirm again", on, off)
	}
	follows = "master_host:10.0.0.1"
	l.pass(15_000, "PONG", info)
	if _, off := l.requests(); off != 3 {
		t.Errorf("replicas were asked %d times to confirm again", off)
	}
}

// TestLeaderCannotWrite: the replies of a primary wait for replicas. The disk of a Sentinel is full, so it leads no
// failover. After a restart it could make the new primary a replica of the old one.
func TestLeaderCannotWrite(t *testing.T) {
	l := newLivePrimary(t)
	l.run(15_000)
	for _, l.q.cannot = range []bool{true, false} {
		l.startFailover(l.p)
		l.p.flags |= forced
		l.run(3_000)
		if led := l.has("+elected-leader"); led == l.q.cannot || led != l.p.is(failingOver) {
			t.Errorf("cannot write: %t, leads: %t; %v", l.q.cannot, led, l.q.events)
		}
	}
}

// TestLatePromotion: a Sentinel is stopped while the chosen replica becomes a primary, for longer than the others
// confirm nothing. They may have confirmed writes by then. So the first INFO that it reads later does not end the
// failover.
func TestLatePromotion(t *testing.T) {
	for late, want := range map[bool]failoverState{false: reconfReplicas, true: waitPromotion} {
		l := newLivePrimary(t)
		l.run(15_000)
		l.startFailover(l.p)
		l.p.flags |= forced
		for range 100 {
			if l.run(100); l.p.state == waitPromotion {
				break
			}
		}
		if late {
			l.now += holdFor(l.p) + 1000
			l.Machine.now = l.now
		}
		l.learn(l.p.chosen, parseReport("run_id:"+l.p.chosen.runID+"\r\nrole:master\r\n"), l.now)
		if l.p.state != want {
			t.Errorf("late %v: the state is %v, want %v", late, l.p.state, want)
		}
		if l.run(40_000); late && (l.p.is(failingOver) || l.p.at.ip != "10.0.0.1") {
			t.Errorf("the failover continues to %s; %v", l.p.at.ip, l.q.events)
		}
	}
}

// TestReplicaThatCannotHold: a redis-server does not know the request to confirm nothing. It is promoted all the same.
func TestReplicaThatCannotHold(t *testing.T) {
	l := newLivePrimary(t)
	l.run(15_000)
	l.startFailover(l.p)
	l.p.flags |= forced
	for l.p.state != selectReplica {
		l.run(100)
	}
	l.now += 100
	l.Tick(l.now)
	for _, r := range l.p.replicas.list {
		for w := r.link.commands; len(w.awaited) > 0; {
			v := respclient.Value{Kind: '-', Text: "ERR Unrecognized REPLCONF option: hold-acks"}
			if w.awaited[0].to == toInfo {
				v = respclient.Value{Kind: '$', Text: l.info(r)}
			}
			l.Received(w, v, l.now)
		}
	}
	if l.run(1000); l.p.chosen == nil {
		t.Errorf("no replica is chosen; %v", l.q.events)
	}
}

// TestRestartedSentinelKnowsAcks: a Sentinel restarts while a primary is down whose replies wait for replicas. It
// promotes a replica only if enough of them answer, as before its restart.
func TestRestartedSentinelKnowsAcks(t *testing.T) {
	before := newLivePrimary(t)
	before.run(15_000)
	var lines []Directive
	for _, line := range before.Lines() {
		words, err := setting.SplitArgs(line.Text)
		if err != nil {
			t.Fatal(err)
		}
		if words[0] == "known-acks" {
			lines = append(lines, words)
		}
	}
	for _, answering := range []int{1, 2} {
		l := newLivePrimary(t, lines...)
		l.dead = true
		l.pass(15_000, "PONG", func(i *Instance) string {
			if answering == 1 && i == l.slow {
				return ""
			}
			return l.info(i)
		})
		if fit := l.best(l.p); (fit != nil) != (answering == 2) {
			t.Errorf("with %d of 2 replicas it would promote %v", answering, fit)
		}
	}
	// A failover has promoted one replica, and has not ended. It counts after a restart too.
	lines = append(lines, Directive{"known-synced", "m", "10.0.0.3", "1", strings.Repeat("b", 40)})
	l := newLivePrimary(t, lines...)
	l.dead = true
	l.pass(15_000, "PONG", func(i *Instance) string {
		if i == l.p.replicas.list[1] {
			return "run_id:" + strings.Repeat("b", 40) + "\r\nrole:master\r\nmaster_replid2:" + l.p.history +
				"\r\nsecond_repl_offset:10\r\n"
		}
		return l.info(i)
	})
	if fit := l.best(l.p); fit == nil || fit.offset != 9 {
		t.Errorf("after a failover that did not end it would promote %v", fit)
	}
	m, q := watching(t)
	saves := func(acks, replicas int) int {
		was := q.saves
		m.learnAcks(m.primaries.list[0], report{acks: acks, replicas: make([]hostPort, replicas)})
		return q.saves - was
	}
	for i, x := range []struct{ acks, replicas, saves int }{
		{0, 0, 0}, {0, 2, 0}, {1, 2, 1}, {1, 2, 0}, {1, 1, 1}, {2, 1, 1}, {0, 1, 1}, {0, 2, 0},
	} {
		if n := saves(x.acks, x.replicas); n != x.saves {
			t.Error(fmt.Sprint("step ", i, ": the state was written ", n, " times, want ", x.saves))
		}
	}
}

// requests returns how often replicas were asked to confirm nothing, and how often to confirm again.
func (l *livePrimary) requests() (on, off int) {
	for _, words := range l.q.sent {
		switch n := len(words) - 1; {
		case n < 2 || words[n-1] != "hold-acks":
		case words[n] == "0":
			off++
		default:
			on++
		}
	}
	return on, off
}

// selects starts a failover that an operator has asked for, and lets time pass until replicas confirm nothing.
func (l *livePrimary) selects(t *testing.T) {
	t.Helper()
	l.startFailover(l.p)
	l.p.flags |= forced
	for range 100 {
		if on, _ := l.requests(); on == 2 {
			return
		}
		l.now += 100
		l.Tick(l.now)
	}
	t.Fatalf("the replicas still confirm; %v", l.q.events)
}

// TestEndOfHoldArrives: replicas confirm nothing, and the failover ends without a new primary. They are told so, also
// the one whose connection was lost meanwhile, and also after SENTINEL RESET.
func TestEndOfHoldArrives(t *testing.T) {
	for name, end := range map[string]func(l *livePrimary){
		"abort": func(l *livePrimary) {
			l.slow.link.hangUp(l.slow.link.commands)
			l.abort(l.p, "-failover-abort-no-good-slave")
		},
		"reset": func(l *livePrimary) { l.relearn(l.p) },
	} {
		l := newLivePrimary(t)
		l.run(15_000)
		l.selects(t)
		_, before := l.requests()
		end(l)
		l.pass(25_000, "PONG", l.info)
		if _, off := l.requests(); off-before < 2 {
			t.Errorf("%s: %d of 2 replicas are asked to confirm again", name, off-before)
		}
	}
}

// TestResetWaitsForTheNextINFO: a Sentinel gets SENTINEL RESET. If replies of the primary wait for replicas, it forgets
// only those that the primary's next INFO does not name. If that comes late, it forgets none. If replies do not
// wait, it forgets all at once.
func TestResetWaitsForTheNextINFO(t *testing.T) {
	for name, x := range map[string]struct {
		acks, silentMs int
		atOnce, later  string // the replicas that are known
	}{
		"replies wait":       {1, 0, "[10.0.0.2:1 10.0.0.3:1]", "[10.0.0.3:1]"},
		"the INFO is late":   {1, 8_000, "[10.0.0.2:1 10.0.0.3:1]", "[10.0.0.2:1 10.0.0.3:1]"},
		"replies do not":     {0, 0, "[]", "[10.0.0.3:1]"},
		"nor, and it's late": {0, 8_000, "[]", "[10.0.0.3:1]"},
	} {
		l := newLivePrimary(t)
		silent := false
		info := func(i *Instance) string {
			switch {
			case i == l.p && silent:
				return ""
			case i == l.p:
				text := strings.Replace(l.info(i), "wanted:1", "wanted:"+strconv.Itoa(x.acks), 1)
				return strings.Replace(text, "slave0:ip=10.0.0.2,port=1,", "", 1)
			}
			return l.info(i)
		}
		known := func() string {
			var names []string
			for _, r := range l.p.replicas.list {
				names = append(names, r.name)
			}
			return fmt.Sprint(names)
		}
		l.pass(15_000, "PONG", info)
		if l.relearn(l.p); known() != x.atOnce {
			t.Errorf("%s: at once it knows %s, want %s", name, known(), x.atOnce)
		}
		silent = true
		l.pass(int64(x.silentMs), "PONG", info)
		silent = false
		l.pass(15_000, "PONG", info)
		if known() != x.later {
			t.Errorf("%s: later it knows %s, want %s", name, known(), x.later)
		}
		const why = "SENTINEL RESET of m has forgotten no replica: its primary did not answer within 5 s, or was failed over"
		if warned := slices.Contains(l.q.logged, why); warned != (x.atOnce == x.later) {
			t.Errorf("%s: the log is %q", name, l.q.logged)
		}
	}
}

// TestResetKeepsThePromotion: a Sentinel gets SENTINEL RESET when its failover has promoted a replica. If replies wait
// for replicas, that one is the primary then. Its epoch is the newest, so no other Sentinel would correct the address.
func TestResetKeepsThePromotion(t *testing.T) {
	l := newLivePrimary(t)
	l.run(15_000)
	l.p.flags |= failingOver
	l.p.chosen = l.slow
	l.p.failoverEpoch = 1
	l.promotionSeen(l.p, l.slow)
	if l.relearn(l.p); l.p.at.ip != "10.0.0.2" || l.p.configEpoch != 1 || l.p.is(failingOver) {
		t.Errorf("the primary is at %s in epoch %d; %v", l.p.at.ip, l.p.configEpoch, l.q.events)
	}
	// Another failover follows at once. The INFO of its primary, which names no replica yet, is not the awaited one.
	if err := l.changeAddress(l.p, "10.0.0.3", 1); err != nil {
		t.Fatal(err)
	}
	l.learn(l.p, parseReport("role:master\r\nack_replicas_wanted:1\r\n"), l.Machine.now)
	if n := l.p.replicas.len(); n != 2 {
		t.Errorf("%d replicas are known", n)
	}
}

// TestStoppedWhileItChooses: a Sentinel is stopped before it chooses, for longer than the replicas confirm nothing. It
// asks them once more. Nor does the failover end only because the time to ask them is over.
func TestStoppedWhileItChooses(t *testing.T) {
	for _, asked := range []bool{true, false} {
		l := newLivePrimary(t)
		l.run(15_000)
		if asked {
			l.selects(t)
		} else {
			l.startFailover(l.p)
			l.p.flags |= forced
			for l.p.state != selectReplica {
				l.run(100)
			}
		}
		before, _ := l.requests()
		l.now += 3_600_000
		for range 500 {
			if l.pass(100, "PONG", l.info); l.p.chosen != nil {
				break
			}
		}
		if on, _ := l.requests(); l.p.chosen == nil || on-before < 2 {
			t.Errorf("asked before: %v; %d replicas were asked since, and %v is chosen", asked, on-before, l.p.chosen)
		}
	}
}

// TestReplicaThatWasAPrimary: a replica that an unfinished failover has promoted counts. It has no primary to which it
// could confirm nothing. So it does not become a replica again during the failover. If another Sentinel makes it one,
// it is asked once more.
func TestReplicaThatWasAPrimary(t *testing.T) {
	l := newLivePrimary(t)
	l.run(15_000)
	promoted := true
	info := func(i *Instance) string {
		text := l.info(i)
		if i != l.p {
			text = strings.Replace(text, "slave_priority:100", "slave_priority:0", 1)
		}
		if i == l.slow && promoted {
			return "run_id:" + strings.Repeat("a", 40) + "\r\nrole:master\r\nspindle_version:1\r\nmaster_replid:" +
				strings.Repeat("2", 40) + "\r\nmaster_replid2:" + strings.Repeat("1", 40) + "\r\nsecond_repl_offset:9\r\n"
		}
		return text
	}
	for !l.slow.saysPrimary {
		l.pass(100, "PONG", info)
	}
	l.pass(5_000, "PONG", info)
	l.selects(t)
	l.pass(4_000, "PONG", info)
	if l.has("+convert-to-slave") {
		t.Errorf("it is made a replica; %v", l.q.events)
	}
	promoted = false
	l.enter(l.p, selectReplica)
	before, _ := l.requests()
	l.pass(2_000, "PONG", info)
	if on, _ := l.requests(); on-before != 3 || !l.p.is(failingOver) {
		t.Errorf("replicas were asked %d times, want 3; %v", on-before, l.q.events)
	}
}

// TestRoleHandedOverBeforeTheHold: an operator has the primary hand its role to a replica, just before a Sentinel asks
// the replicas to confirm nothing. The other replica has the same offset. The new primary may confirm writes by the old
// one, so the Sentinel chooses the new primary.
func TestRoleHandedOverBeforeTheHold(t *testing.T) {
	l := newLivePrimary(t)
	l.run(15_000)
	next := l.p.replicas.list[1] // it has the larger run id
	info := func(i *Instance) string {
		switch i {
		case next:
			return "run_id:" + strings.Repeat("b", 40) + "\r\nrole:master\r\nspindle_version:1\r\nmaster_replid:" +
				strings.Repeat("2", 40) + "\r\nmaster_replid2:" + strings.Repeat("1", 40) + "\r\nsecond_repl_offset:" +
				strconv.Itoa(l.offset[l.slow]+1) + "\r\n"
		case l.p:
			text := ofReplica(100, int64(l.offset[l.slow]), strings.Repeat("c", 40), 0)
			return strings.Replace(text, "10.0.0.1", "10.0.0.3", 1)
		}
		return l.info(i)
	}
	l.startFailover(l.p)
	l.p.flags |= forced
	for range 50 {
		if l.pass(100, "PONG", info); l.p.chosen != nil {
			break
		}
	}
	if l.p.chosen != next {
		t.Errorf("the new primary is not chosen, with the offsets %d and %d; %v", next.offset, l.slow.offset, l.q.events)
	}
}

// TestAcksAreWrittenInTheEnd: the disk is full when a Sentinel learns for how many replicas replies wait. It writes
// that later.
func TestAcksAreWrittenInTheEnd(t *testing.T) {
	m, q := watching(t)
	learned := report{acks: 1, replicas: make([]hostPort, 2)}
	q.cannot = true
	m.learnAcks(m.primaries.list[0], learned)
	q.cannot = false
	was := q.saves
	for range 2 {
		m.learnAcks(m.primaries.list[0], learned)
	}
	if n := q.saves - was; n != 1 {
		t.Errorf("the state was written %d times", n)
	}
}
