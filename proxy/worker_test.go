package proxy

import (
	"bytes"
	"io"
	"testing"
	"time"

	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol"
	"spindle/protocol/respclient"
	"spindle/protocol/scan"
	"spindle/proxy/route"
	"spindle/proxy/topology"
)

// A verdict is a taker that notes the error.
type verdict struct{ err *protocol.Error }

func (v *verdict) take(_ *upstream, _ *call, _ []byte, _ scan.Refusal, err *protocol.Error) {
	v.err = err
}

// TestSilence: a server that says nothing for the limit is given up. The time in which the proxy itself did not run
// counts only as one interval between two looks.
func TestSilence(t *testing.T) {
	p := &Proxy{settings: &Settings{}, started: time.Now(), log: logging.New(io.Discard)}
	p.cache = newHotCache(p.settings)
	if _, err := setting.NewRegistry(p.settings.Rows()); err != nil {
		t.Fatal(err)
	}
	w := newWorker(p, nil)
	pass := func(d time.Duration) {
		p.started = p.started.Add(-d)
		w.readClock()
		w.endSilent()
	}
	w.readClock()
	w.ticking, w.lookedAt = true, w.clock // no timer is started
	u, v := &upstream{w: w, access: &access{w: w}, at: "127.0.0.1:1", retiring: true}, &verdict{}
	w.ups[u] = struct{}{}
	u.push(call{to: v, slot: -1, fixed: true}, encode("PING"))
	for range 5 {
		if pass(time.Minute); v.err != nil {
			t.Fatalf("the proxy was stopped for a minute, and says of the server: %v", v.err)
		}
	}
	limit := time.Duration(p.settings.Timeout.Get()) * time.Millisecond
	looks := 0
	for ; v.err == nil; looks++ {
		pass(tick)
		if looks > 10*int(limit/tick) {
			t.Fatal("the server is never given up")
		}
	}
	if least := int(limit/tick) / 2; looks < least {
		t.Errorf("the server is given up after %d looks, want at least %d", looks, least)
	}
}

// TestBlockedAtAStoppedServer: a blocked command ends if its server has stopped to answer PING, or if its slot has
// another primary for longer than proxy-timeout. Otherwise it waits for as long as it likes.
func TestBlockedAtAStoppedServer(t *testing.T) {
	for name, how := range map[string]struct{ silent, replaced bool }{"a server that answers": {},
		"a stopped one": {silent: true}, "one that was replaced": {replaced: true}} {
		t.Run(name, func(t *testing.T) {
			c := newPacing(t)
			s, u, shared := c.s, c.dial(c.s.access), c.dial(c.s.access)
			s.access.shared[u.at] = []*upstream{shared}
			c.w.p.commands.Store(&route.Table{})
			pings, stopped := 0, false
			static := topology.NewStatic(16)
			use := func(primary string) {
				if err := static.Set([]*topology.Shard{{ID: "g", Primary: primary}}, make([]uint16, 16)); err != nil {
					t.Fatal(err)
				}
				c.w.topology = static.Current()
			}
			use(u.at)
			u.owner, s.pin, s.pinned, s.unpinning = s, u, 3, true
			u.push(call{s: s, number: s.expect(), slot: 3, patient: true, to: (*unblocked)(s)}, encode("BLPOP", "k", "0"))
			pass := func() {
				for range 2 * c.w.p.settings.Timeout.Get() / tick.Milliseconds() {
					c.pass(tick)
					if c.w.endSilent(); shared.calls.n > 0 && !stopped {
						shared.Received([]byte("+PONG\r\n"))
						pings++
					}
				}
			}
			if pass(); u.state == down {
				t.Fatal("a blocked command has a deadline")
			}
			if pings < 2 || pings > 8 {
				t.Errorf("the server got %d times PING", pings)
			}
			c.w.breaker(u.at).silent, stopped = how.silent, how.silent
			if how.replaced {
				use("127.0.0.1:3")
			}
			if pass(); (u.state == down) != (how.silent || how.replaced) || (s.owed.n == 0) != (u.state == down) {
				t.Errorf("ended: %v, replies owed: %d", u.state == down, s.owed.n)
			}
		})
	}
}

// TestAnyShard: a request without a key goes to the client's usual shard for such, or to the next one that answers.
func TestAnyShard(t *testing.T) {
	c := newPacing(t)
	first := c.dial(c.s.access)
	second := c.dial(c.s.access)
	second.at = "127.0.0.1:2"
	static := topology.NewStatic(16)
	if err := static.Set([]*topology.Shard{{ID: "a", Primary: first.at}, {ID: "b", Primary: second.at}},
		make([]uint16, 16)); err != nil {
		t.Fatal(err)
	}
	c.w.topology = static.Current()
	for _, u := range []*upstream{first, second} {
		c.s.access.shared[u.at] = []*upstream{u}
	}
	goes := func(when string, want *upstream) {
		t.Helper()
		if u, err := c.s.upstream(-1); u != want || err != nil {
			t.Errorf("%s: %v (%v), want %v", when, u, err, want)
		}
	}
	goes("both answer", first)
	c.w.breaker(first.at).silent = true
	goes("the first one is stopped", second)
	c.w.breaker(second.at).failed(c.w.now())
	goes("neither answers", first)
	c.w.breaker(first.at).closed()
	goes("the first one answers again", first)
}

// TestForgottenServers: a server has left the map. Its breaker and figures go when no connection to it is left.
func TestForgottenServers(t *testing.T) {
	c := newPacing(t)
	a := c.w.accessOf(identity{})
	u := c.dial(a)
	a.spare[u.at] = []*upstream{u}
	use := func(at string) {
		static := topology.NewStatic(16)
		shard := &topology.Shard{ID: "a", Primary: at, Replicas: []*topology.Replica{{Addr: "127.0.0.1:3"}}}
		if err := static.Set([]*topology.Shard{shard}, make([]uint16, 16)); err != nil {
			t.Fatal(err)
		}
		c.w.use(static.Current())
	}
	has := func(at string) bool {
		return c.w.breakers[at] != nil && c.w.figures.shards[at] != nil
	}
	for _, at := range []string{u.at, "127.0.0.1:3"} {
		c.w.breaker(at).failed(c.w.now())
		c.w.figures.shard(at)
	}
	u.push(call{s: c.s, number: c.s.expect(), slot: -1, row: 1}, encode("ECHO", "a"))
	if use(u.at); !has(u.at) {
		t.Error("a server of the map is forgotten")
	}
	if use("127.0.0.1:2"); !has(u.at) {
		t.Error("a server that owes a reply is forgotten")
	}
	u.Received([]byte("$1\r\na\r\n"))
	if use("127.0.0.1:2"); has(u.at) || len(c.w.breakers) != 1 || !has("127.0.0.1:3") {
		t.Errorf("known are %v and %v", c.w.breakers, c.w.figures.shards)
	}
}

// TestUnreachableBCAST: a lost connection of CLIENT TRACKING BCAST is opened again when its server may be tried.
func TestUnreachableBCAST(t *testing.T) {
	for _, until := range []int64{0, 2000} {
		c := newPacing(t)
		c.s.access.private, c.s.access.tracking = c.s, &tracking{bcast: true}
		c.s.tracking = c.s.access.tracking
		u, now := c.dial(c.s.access), c.w.now()
		c.w.breaker(u.at).until = now + until
		u.Down(io.EOF)
		if n := len(c.w.later); n != 1 || c.w.later[0].at-now != max(trackAgain, until) {
			t.Errorf("the server is not tried for %d ms: %d attempts: %+v", until, n, c.w.later)
		}
	}
}

// TestShardWithoutTracking: a shard refuses CLIENT TRACKING of a BCAST client again and again. It is asked less and
// less often, and the log has one line of it.
func TestShardWithoutTracking(t *testing.T) {
	c := newPacing(t)
	var lines bytes.Buffer
	c.w.p.log = logging.New(&lines)
	a := c.w.newAccess(identity{resp3: true})
	a.private, a.tracking, a.sessions = c.s, &tracking{bcast: true}, 1
	c.s.access, c.s.tracking = a, a.tracking
	for n := range 10 {
		u := c.dial(a)
		u.push(call{to: tracksToo{}, slot: -1, fixed: true}, trackingOn)
		c.w.later, a.tracking.due = nil, nil
		u.Received([]byte("-ERR unknown subcommand\r\n"))
		if pause := int64(trackAgain) << min(n+1, 6); len(c.w.later) != 1 || c.w.later[0].at-c.w.now() != pause {
			t.Errorf("after %d refusals it is not tried for %d ms: %+v", n+1, pause, c.w.later)
		}
	}
	for range 10 { // for requests of the client
		u := c.dial(a)
		u.push(call{to: tracksToo{}, slot: -1, fixed: true}, trackingOn)
		u.Received([]byte("-ERR unknown subcommand\r\n"))
	}
	if len(c.w.later) != 1 {
		t.Errorf("it is tried %d times after the pause", len(c.w.later))
	}
	if n := bytes.Count(lines.Bytes(), []byte{'\n'}); n != 1 {
		t.Errorf("the log has %d lines: %s", n, lines.String())
	}
	u := c.dial(a)
	u.push(call{to: tracksToo{}, slot: -1, fixed: true}, trackingOn)
	if u.Received(replyOK); !u.tracks || len(a.tracking.refusals) > 0 {
		t.Error("the shard agrees, and its refusals count")
	}
}

// TestCounts: a request that has to wait counts when it is served. A greeting that fails is no failed request.
func TestCounts(t *testing.T) {
	c := newPacing(t)
	table, err := route.Read(respclient.Value{Elems: []respclient.Value{{Null: true}}}, route.Redis)
	if err != nil {
		t.Fatal(err)
	}
	c.w.p.commands.Store(table)
	u := c.dial(c.s.access)
	c.s.access.shared[u.at] = []*upstream{u}
	static := topology.NewStatic(16)
	if err := static.Set([]*topology.Shard{{ID: "a", Primary: u.at}}, make([]uint16, 16)); err != nil {
		t.Fatal(err)
	}
	c.w.p.finder, c.w.topology = handed{static}, static.Current()
	b := &protocol.Batch{Session: c.s, Reply: &protocol.Reply{}}
	for _, request := range []string{"ECHO a", "SELECT 1"} {
		b.Requests = append(b.Requests, protocol.Request{Args: bytes.Fields([]byte(request))})
	}
	c.w.p.Serve(b)
	if n := c.w.p.count.requests.Load(); b.Done != 1 || n != 1 {
		t.Errorf("%d requests are served, and %d count", b.Done, n)
	}
	c.s.quit = true // its last reply is still owed
	if c.w.p.Serve(b); b.Done != len(b.Requests) || c.w.p.count.requests.Load() != 1 {
		t.Error("a request after QUIT is served")
	}
	u.push(call{to: spoken{}, slot: -1, fixed: true}, encode("HELLO", "3"))
	u.Down(io.EOF)
	if n := c.w.p.count.failed.Load(); n != 0 {
		t.Errorf("%d requests have failed", n)
	}
}
