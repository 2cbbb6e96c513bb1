package engine

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/conn"
	"spindle/engine/family/keys"
	"spindle/engine/family/str"
	"spindle/engine/family/tx"
	"spindle/engine/part"
	"spindle/internal/setting"
	"spindle/protocol"
)

// A fakeConn is a connection without a socket. It records what the core does with it, in order.
type fakeConn struct {
	mu     sync.Mutex
	log    []string // "post …", "resume", "close", "close after output"
	marks  []uint64 // of the posts
	remote string
	active int64 // the result of LastActive
	chunks protocol.Chunks
}

func (f *fakeConn) note(format string, args ...any) {
	f.mu.Lock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
	f.mu.Unlock()
}

// take returns what happened since the last take, and clears it.
func (f *fakeConn) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := strings.Join(f.log, "; ")
	f.log = nil
	return text
}

// resumed reports whether the last event is Resume. If so, it removes that event.
func (f *fakeConn) resumed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.log) - 1
	if last < 0 || f.log[last] != "resume" {
		return false
	}
	f.log = f.log[:last]
	return true
}

func (f *fakeConn) FD() int            { return 3 }
func (f *fakeConn) LocalAddr() string  { return "127.0.0.1:6379" }
func (f *fakeConn) RemoteAddr() string { return f.remote }
func (f *fakeConn) Unix() bool         { return false }
func (f *fakeConn) Loopback() bool     { return true }
func (f *fakeConn) Post(mark uint64, p []byte) {
	f.mu.Lock()
	f.marks = append(f.marks, mark)
	f.mu.Unlock()
	f.note("post %s", p)
}
func (f *fakeConn) PostReply(_ uint64, r *protocol.Reply) {
	f.note("post %s", text(r))
	for i := range r.B {
		r.B[i] = 0xDB // the loop owns it now, so a later use of it must fail
	}
}
func (f *fakeConn) Chunks() protocol.Chunks { return f.chunks }
func (f *fakeConn) Resume()                 { f.note("resume") }
func (f *fakeConn) Close(afterOutput bool) {
	if afterOutput {
		f.note("close after output")
	} else {
		f.note("close")
	}
}
func (f *fakeConn) Loop() protocol.Loop     { return nil }
func (f *fakeConn) SetClass(protocol.Class) {}
func (f *fakeConn) Usage() protocol.Usage   { return protocol.Usage{} }
func (f *fakeConn) LastActive() int64       { return f.active }

// text returns the bytes of a reply as they would be sent.
func text(r *protocol.Reply) string {
	var b strings.Builder
	for piece := range r.Pieces {
		b.Write(piece)
	}
	return b.String()
}

// A recorder is a sink that keeps units as text, such as "0:SET k v". Units of several effects are between MULTI and
// EXEC. A "." ends a turn that had effects.
type recorder struct {
	log   []string
	fresh bool
}

func (r *recorder) Append(unit []Effect) {
	r.fresh = true
	for _, e := range unit {
		words := strings.Split(string(e.Command), "\r\n")
		line := ""
		for i := 2; i < len(words); i += 2 {
			line += " " + words[i]
		}
		if e.DB == AnyDB {
			r.log = append(r.log, line[1:])
		} else {
			r.log = append(r.log, fmt.Sprintf("%d:%s", e.DB, line[1:]))
		}
	}
}

func (r *recorder) TurnDone() {
	if r.fresh {
		r.log, r.fresh = append(r.log, "."), false
	}
}

func (r *recorder) take() string {
	all := strings.Join(r.log, " | ")
	r.log = nil
	return all
}

// A testClock stands still until a test advances it.
type testClock struct {
	begins time.Time
	passed atomic.Int64
}

func (k *testClock) Now() time.Time { return k.begins.Add(time.Duration(k.passed.Load())) }

// pass advances the clock by d.
func (k *testClock) pass(d time.Duration) { k.passed.Add(int64(d)) }

// A testCore is a core with a few families, a sink, and the test's own rows.
type testCore struct {
	*Core
	*testClock
	t       *testing.T
	watches *tx.Watches
	sink    *recorder
	slow    []string
}

// newTestCore builds a core. more are rows in addition to those of the families.
func newTestCore(t *testing.T, more ...command.Spec) *testCore {
	t.Helper()
	return newTestCoreOf(t, keyspace.Options{}, more...)
}

// newTestCoreOf is newTestCore with a keyspace made with the options o.
func newTestCoreOf(t *testing.T, o keyspace.Options, more ...command.Spec) *testCore {
	t.Helper()
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &testCore{t: t, sink: &recorder{}, testClock: &testClock{begins: time.Now().Truncate(time.Millisecond)}}
	settings, common, whole := &Settings{}, &command.Settings{}, &command.Whole{}
	settings.Rows() // making the rows gives every setting its default
	common.Rows()
	common.MaxBulk = &setting.Int{}
	space := keyspace.New(heap, o)
	h.watches = tx.NewWatches(space)
	registry := client.NewRegistry()
	h.Core = New(Parts{Space: space, Clients: registry, Settings: settings, Common: common, Whole: whole,
		Clock: h.testClock.Now})
	deps := conn.Deps{
		Clients: registry, Users: h.Users(), SetUser: h.SetUser, Kill: h.Expel,
		AuthFailed: func(c *command.Context, user []byte) { h.DenyAuth(c.Client, c.Args[0], user) },
		Unblock:    h.Unblock,
		Pause:      func(all bool, ms int64) { h.PauseFor(PauseByClient, all, ms) },
		Unpause:    func() { h.Unpause(PauseByClient) },
	}
	own := command.Family{Name: "test", Rows: append([]command.Spec{
		{Name: "monitor", Arity: 1, Flags: command.Admin, Run: func(c *command.Context) error {
			h.StartMonitor(c.Client)
			c.Reply.OK()
			return nil
		}},
		{Name: "never", Arity: 1, Flags: command.NoMulti | command.Loading, Run: func(*command.Context) error { return nil }},
		// PARK key … waits for a key, deletes it and replies with its name. It waits 10 s at most.
		{Name: "park", Arity: -2, Flags: command.Write, Keys: command.EachArg(1, command.KeyRW|command.KeyDelete), Run: park},
		// SIGNAL key sets key and marks it as ready.
		{Name: "signal", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
			c.DB.SetString(c.Args[1], []byte("v"), 0)
			c.Changed(1)
			h.Ready(c.Client.DB, c.Args[1])
			c.Reply.OK()
			return nil
		}},
	}, more...)}
	catalogue, err := command.NewCatalogue(str.Family, keys.Family, keys.Databases, conn.Family(deps),
		h.watches.Family(), own)
	if err != nil {
		t.Fatal(err)
	}
	h.SetCatalogue(catalogue)
	h.Subscribe(part.Listeners{
		ExecRefused: h.watches.Abort, Gone: h.watches.Forget, Touched: h.watches.Touched,
		Logged: func(_ *client.Client, args [][]byte, m part.Measure) {
			if m.Log == part.Slow {
				h.slow = append(h.slow, string(args[0]))
			}
		},
	})
	h.AddOwnBarriers()
	h.Do(func() { h.Core.AddSink(h.sink, client.ToReplicas) })
	return h
}

// Tests outside a turn ask these questions in a new turn, in which nothing else happens.

func (h *testCore) hold() (release func()) {
	h.take()
	return h.release
}

// Now returns the time of the turn, not of the clock.
func (h *testCore) Now() int64 { return h.Core.Now() }

func (h *testCore) BlockedClients() int            { defer h.hold()(); return h.Core.BlockedClients() }
func (h *testCore) BlockingKeys() int              { defer h.hold()(); return h.Core.BlockingKeys() }
func (h *testCore) BlockingKeysOnGone() int        { defer h.hold()(); return h.Core.BlockingKeysOnGone() }
func (h *testCore) TimedWaits() int                { defer h.hold()(); return h.Core.TimedWaits() }
func (h *testCore) Figures() Figures               { defer h.hold()(); return h.Core.Figures() }
func (h *testCore) ResetFigures()                  { defer h.hold()(); h.Core.ResetFigures() }
func (h *testCore) UsedMemory() int64              { defer h.hold()(); return h.Core.UsedMemory() }
func (h *testCore) Dirty() int64                   { defer h.hold()(); return h.Core.Dirty() }
func (h *testCore) RemoveSink(s Sink)              { defer h.hold()(); h.Core.RemoveSink(s) }
func (h *testCore) Freeze() *keyspace.View         { defer h.hold()(); return h.Core.Freeze() }
func (h *testCore) Raise(b *part.Barrier, up bool) { defer h.hold()(); h.Core.Raise(b, up) }
func (h *testCore) SetActiveExpire(on bool)        { defer h.hold()(); h.Core.SetActiveExpire(on) }

// keys returns the number of keys in database 0.
func (h *testCore) keys() int { defer h.hold()(); return h.space.DB(0).Len() }

// connected returns the number of clients.
func (h *testCore) connected() int { defer h.hold()(); return h.clients.Len() }

// knows reports whether cl is in the registry.
func (h *testCore) knows(cl *client.Client) bool { defer h.hold()(); return h.clients.Get(cl.ID) == cl }

// joins puts cl into an audience.
func (h *testCore) joins(all *client.Audience, cl *client.Client) { defer h.hold()(); all.Add(cl) }

// has reports whether database 0 has this key.
func (h *testCore) has(key string) bool {
	defer h.hold()()
	return h.space.DB(0).Peek([]byte(key)).Exists()
}

func park(c *command.Context) error {
	try := func(c *command.Context) (done bool) {
		for _, k := range c.Args[1:] {
			if c.DB.Delete(k) {
				c.Changed(1)
				c.Propagate([]byte("DEL"), k)
				c.Reply.Bulk(k)
				return true
			}
		}
		return false
	}
	if try(c) {
		return nil
	}
	if c.Client.Is(client.DenyBlocking) {
		c.Reply.NullArray()
		return nil
	}
	c.Core.Block(c, command.Wait{
		Keys: c.Args[1:], DeadlineMs: c.Now + 10_000, Timeout: func(c *command.Context) { c.Reply.NullArray() },
		Retry: func(c *command.Context) error {
			try(c)
			return nil
		},
	})
	return nil
}

// arrive opens a connection and returns its client.
func (h *testCore) arrive() (*client.Client, *fakeConn) {
	h.t.Helper()
	f := &fakeConn{remote: fmt.Sprintf("127.0.0.1:%d", 1000+h.connected())}
	session, refusal := h.Open(f)
	if session == nil {
		h.t.Fatalf("refused: %s", refusal)
	}
	return session.(*client.Client), f
}

// batch serves lines as a loop does: if a batch ends early because of its time, it continues at once. It returns the
// number of lines done and the replies.
func (h *testCore) batch(cl *client.Client, lines ...string) (done int, answer string) {
	f := cl.Conn.(*fakeConn)
	for {
		n, text := h.turn(cl, lines[done:]...)
		done, answer = done+n, answer+text
		if done == len(lines) || n == 0 || cl.Is(cannotGoOn) || !f.resumed() {
			return done, answer
		}
	}
}

// turn serves lines as one batch of cl, in one turn. It returns the number of lines done and the replies. It overwrites
// the arguments afterwards, as the loop's buffer would be (R2).
func (h *testCore) turn(cl *client.Client, lines ...string) (done int, answer string) {
	b := &protocol.Batch{Session: cl, Reply: &protocol.Reply{}}
	for _, line := range lines {
		var r protocol.Request
		for _, word := range strings.Fields(line) {
			r.Args = append(r.Args, []byte(word))
		}
		b.Requests = append(b.Requests, r)
	}
	lent := make([][]byte, 0)
	for _, r := range b.Requests {
		lent = append(lent, r.Args...)
	}
	h.Serve(b)
	for _, arg := range lent {
		for i := range arg {
			arg[i] = 0xDB
		}
	}
	return b.Done, text(b.Reply)
}

// do is batch, and fails unless all lines are done.
func (h *testCore) do(cl *client.Client, lines ...string) string {
	h.t.Helper()
	done, answer := h.batch(cl, lines...)
	if done != len(lines) {
		h.t.Fatalf("%q: %d done, answer %q", lines, done, answer)
	}
	return answer
}

// expect fails the test unless got is want.
func (h *testCore) expect(what, got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Errorf("%s: %q, want %q", what, got, want)
	}
}
