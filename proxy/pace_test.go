package proxy

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/reactor"
)

// A wire is a connection that keeps its output.
type wire struct {
	reactor.Direct
	buffered int
	paused   bool
}

func (c *wire) Append(p []byte)    { c.buffered += len(p) }
func (c *wire) Buffered() int      { return c.buffered }
func (c *wire) Pause()             { c.paused = true }
func (c *wire) Continue()          { c.paused = false }
func (c *wire) Owe(bool)           {}
func (c *wire) Abandon()           {}
func (c *wire) Close(bool)         {}
func (c *wire) RemoteAddr() string { return "127.0.0.1:2" }

// A pacing is a session and the means to give it replies of shards.
type pacing struct {
	t *testing.T
	w *worker
	s *session
}

func newPacing(t *testing.T) *pacing {
	p := &Proxy{settings: &Settings{}, started: time.Now(), log: logging.New(io.Discard)}
	p.cache = newHotCache(p.settings)
	if _, err := setting.NewRegistry(p.settings.Rows()); err != nil {
		t.Fatal(err)
	}
	w := newWorker(p, nil)
	w.readClock()
	w.ticking, w.lookedAt = true, w.clock // no timer is started
	return &pacing{t, w, &session{w: w, conn: &wire{}, access: w.newAccess(identity{}), pinned: -1}}
}

// dial makes a connection to a shard.
func (c *pacing) dial(a *access) *upstream {
	const at = "127.0.0.1:1"
	u := &upstream{w: c.w, access: a, at: at, d: &wire{}, state: up, own: true, figure: c.w.figures.shard(at)}
	u.owner, u.hears = a.private, a.private != nil
	c.w.ups[u] = struct{}{}
	return u
}

// long begins a reply of 6 MB. A third of it comes.
func (c *pacing) long(a *access) *upstream {
	u := c.dial(a)
	u.push(call{s: c.s, number: c.s.expect(), slot: -1, row: 1}, encode("GET", "big"))
	u.Received(append([]byte("$6291456\r\n"), third...))
	return u
}

var third = bytes.Repeat([]byte("x"), 2<<20)

// isPaused reports whether u waits for the client.
func (c *pacing) isPaused(u *upstream) bool {
	paused := u.d.(*wire).paused
	if paused != (u.slow == c.s) || paused != (c.s.slow == u) {
		c.t.Fatalf("paused: %v, slow: %p, its client: %p", paused, u.slow, c.s)
	}
	return paused
}

// pass lets time pass.
func (c *pacing) pass(d time.Duration) {
	c.w.p.started = c.w.p.started.Add(-d)
	c.w.readClock()
}

// read has the client read what there is.
func (c *pacing) read() {
	c.s.conn.(*wire).buffered = 0
	c.s.Account(0, 0)
}

// TestEndDuringPause: the end of a long reply comes although its connection is paused. The connection is read again
// then, and the next long reply, on another connection, has its own pause.
func TestEndDuringPause(t *testing.T) {
	c := newPacing(t)
	first := c.long(c.s.access)
	if !c.isPaused(first) {
		t.Fatal("a client has not read 2 MB, and more is read for it")
	}
	first.Received(third)
	if first.Received(append(third, "\r\n"...)); first.calls.n > 0 || c.isPaused(first) {
		t.Errorf("%d replies are not over; paused: %v", first.calls.n, c.isPaused(first))
	}
	second := c.long(c.s.access)
	if !c.isPaused(second) {
		t.Error("the next reply is not paused")
	}
	if c.read(); c.isPaused(second) {
		t.Error("the client has read, and the connection is paused")
	}
}

// TestPauseIsNotTheShards: the time in which the client did not read is none of the shard's.
func TestPauseIsNotTheShards(t *testing.T) {
	c := newPacing(t)
	u := c.long(c.s.access)
	if c.pass(time.Hour); !c.isPaused(u) {
		t.Fatal("a client has not read 2 MB, and more is read for it")
	}
	c.read()
	u.Received(third)
	if c.pass(time.Hour); !c.isPaused(u) {
		t.Fatal("the connection is not paused again")
	}
	if u.Received(append(third, "\r\n"...)); u.calls.n > 0 {
		t.Fatal("the reply is not over")
	}
	for _, e := range c.w.p.slow.entries { // the test itself may take more than slowlog-log-slower-than
		if e.micros >= time.Hour.Microseconds() {
			t.Errorf("SLOWLOG has an entry of %d s", e.micros/1e6)
		}
	}
}

// TestNoPauseForAnother: a connection that brings the invalidations of another client is not paused.
func TestNoPauseForAnother(t *testing.T) {
	for _, to := range []*session{nil, {}} {
		c := newPacing(t)
		a := c.w.newAccess(identity{resp3: true})
		a.private, a.tracking, a.sessions = c.s, &tracking{to: to}, 1
		c.s.access, c.s.tracking = a, a.tracking
		if paused := c.isPaused(c.long(a)); paused != (to == nil) {
			t.Errorf("another client hears: %v; paused: %v", to != nil, paused)
		}
	}
}

// TestLongReplyBeforeAnother: a client leaves more than clientMost bytes unread, and another client waits for a later
// call on the connection. The first client is closed, and the log says so. With one byte less it is not (proxy.O5).
func TestLongReplyBeforeAnother(t *testing.T) {
	for _, kept := range []int{clientMost - len(third), clientMost - len(third) + 1} {
		c, text := newPacing(t), &bytes.Buffer{}
		c.w.p.log = logging.New(text)
		u := c.dial(c.s.access)
		u.push(call{s: c.s, number: c.s.expect(), slot: -1, row: 1}, encode("GET", "big"))
		other := &session{w: c.w, conn: &wire{}, access: c.s.access, pinned: -1}
		u.push(call{s: other, number: other.expect(), slot: -1, row: 1}, encode("GET", "small"))
		u.Received([]byte("$6291456\r\n"))
		c.s.conn.(*wire).buffered = kept
		if u.Received(third); c.isPaused(u) {
			t.Error("another client waits, and the connection is paused")
		}
		if c.s.closed != (kept > clientMost-len(third)) || c.s.closed != strings.Contains(text.String(), "bytes unread") {
			t.Errorf("%d bytes are unread; closed: %v; the log: %q", kept+len(third), c.s.closed, text.String())
		}
	}
}

// TestSettledByReply: a call whose reply has begun has run, though its client does not read. One after it may not have.
func TestSettledByReply(t *testing.T) {
	c := newPacing(t)
	u := c.long(c.s.access)
	if m := (&mark{u, u.answers + uint64(u.calls.n)}); !c.isPaused(u) || !m.isSettled() {
		t.Error("a table waits for a reply that has begun")
	}
	u.push(call{s: c.s, number: c.s.expect(), slot: -1, row: 1}, encode("GET", "big"))
	if m := (&mark{u, u.answers + uint64(u.calls.n)}); m.isSettled() {
		t.Error("no table waits for a call that may not have run")
	}
}

// TestLongReplyAfterAnother: a long reply begins to come before its client's earlier reply. The proxy keeps its first
// bytes until the earlier reply has ended. The rest is passed on as it comes.
func TestLongReplyAfterAnother(t *testing.T) {
	c := newPacing(t)
	first := c.dial(c.s.access)
	first.push(call{s: c.s, number: c.s.expect(), slot: -1, row: 1}, encode("GET", "a"))
	u := c.long(c.s.access)
	if n := c.s.conn.Buffered(); u.passing || n != 0 {
		t.Fatalf("the second reply is passed on before the first: %d bytes", n)
	}
	first.Received([]byte("$1\r\na\r\n"))
	u.Received(third[:1])
	if want := len("$1\r\na\r\n$6291456\r\n") + len(third) + 1; !u.passing || u.part != nil || c.s.conn.Buffered() != want {
		t.Errorf("%d bytes of %d are passed on, %d are kept", c.s.conn.Buffered(), want, len(u.part))
	}
}
