package reactor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/tests/testkit"
)

// A testHandler is a Handler with a few commands, and a turn that is a mutex.
//
//	PING  ECHO x  LEN x        reply +OK, x, and the length of x
//	TURN                       the turn's number, in eight digits
//	NAME n                     remembers the session under n, for the test
//	POST n x                   posts x to session n inside the turn
//	HOLD                       replies +HELD and holds the connection until Resume
//	WORK                       is done outside the turn: the test posts its reply, and resumes
//	LATER x                    is refused the first time, and replies x when it is served again
//	BIG n                      a lent reply of n bytes
//	MANY n                     n elements, or as many as a client will read
//	CLASS n                    gives the session's connection another class
//	TAKE x                     keeps its Bulk
//	QUIET                      replies +OK; later the client gets no protocol error
//	QUIT                       replies +OK and closes after output
//	FILL n                     n bytes of ordinary reply
//	FAN                        replies +FAN and sends the next number to all receivers but the client, once a loop
//	COUNT                      the next number, in eight digits: "#00000001\n"
//	SILENT                     has no reply
type testHandler struct {
	mu     sync.Mutex
	turn   uint64
	count  int
	byName map[string]*testSession

	receivers map[protocol.Loop][]protocol.Conn // FAN's receivers
	stuck     chan struct{}                     // Reserve waits until it is closed; nil: no wait

	opened, closed, malformed atomic.Int64
	reserved, bulkFreed       atomic.Int64 // of Reserve
	taken                     atomic.Int64
	working                   atomic.Int64 // WORKs that have begun
	lent, lentFreed           atomic.Int64
	refuse                    string
	decided                   func(turn uint64) // called for each turn, inside it
	strangers                 bool              // clients must authenticate, which NAME does
}

type testSession struct {
	c     protocol.Conn
	asked bool // LATER was refused once
	quiet bool // wants no replies; inside the turn
	stays bool // may not change its loop; inside the turn
	gone  atomic.Bool
	busy  atomic.Bool
}

// A guest is a session whose client counts as unauthenticated until it has a name.
type guest struct {
	*testSession
	named bool // only its loop uses it
}

func (g *guest) Limits() protocol.Limits {
	return protocol.Limits{MaxBulk: 1 << 20, Unauthenticated: !g.named}
}

// sessionOf returns the testSession in a session of either type.
func sessionOf(session any) *testSession {
	if g, ok := session.(*guest); ok {
		return g.testSession
	}
	return session.(*testSession)
}

func newTestHandler() *testHandler { return &testHandler{byName: map[string]*testSession{}} }

func (h *testHandler) Open(c protocol.Conn) (any, []byte) {
	if h.refuse != "" {
		return nil, []byte(h.refuse)
	}
	h.opened.Add(1)
	if h.strangers {
		return &guest{testSession: &testSession{c: c}}, nil
	}
	return &testSession{c: c}, nil
}

// Still implements protocol.Mover. FAN's receivers stay.
func (h *testHandler) Still(f func(may func(session any) bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(func(session any) bool { return !sessionOf(session).stays })
}

func (h *testHandler) TurnTime() int64 { return 0 }

func (h *testHandler) Malformed(session any, err *protocol.Error) protocol.Verdict {
	h.malformed.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if sessionOf(session).quiet {
		return protocol.Leave
	}
	return protocol.Tell
}

func (h *testHandler) Closed(session any) {
	s := sessionOf(session)
	if s.gone.Swap(true) || s.busy.Load() {
		panic("Closed twice, or during Serve")
	}
	h.closed.Add(1)
}

func (h *testHandler) Reserve(_ any, n int) (*protocol.Bulk, *protocol.Error) {
	h.reserved.Add(1)
	if h.stuck != nil {
		<-h.stuck
	}
	return &protocol.Bulk{Data: make([]byte, n), Release: func(*protocol.Bulk) { h.bulkFreed.Add(1) }}, nil
}

func (h *testHandler) named(name string) *testSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byName[name]
}

// next returns COUNT's next reply. Inside a turn.
func (h *testHandler) next() []byte {
	h.count++
	return fmt.Appendf(nil, "#%08d\n", h.count)
}

func (h *testHandler) Serve(b *protocol.Batch) {
	s := sessionOf(b.Session)
	if s.busy.Swap(true) || s.gone.Load() {
		panic("Serve at the same time as Serve, or after Closed")
	}
	defer s.busy.Store(false)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn++
	b.Turn = h.turn
	if h.decided != nil {
		h.decided(h.turn)
	}
	for b.Done < len(b.Requests) {
		goOn, done := h.run(s, b, &b.Requests[b.Done])
		if done {
			b.Done++
		}
		if !goOn {
			return
		}
	}
}

func (h *testHandler) run(s *testSession, b *protocol.Batch, q *protocol.Request) (goOn, done bool) {
	r := b.Reply
	switch name := strings.ToUpper(string(q.Args[0])); name {
	case "PING":
		r.OK()
	case "TURN":
		r.Simple(fmt.Sprintf("%08d", h.turn))
	case "ECHO":
		r.Bulk(q.Args[1])
	case "LEN":
		r.B = fmt.Appendf(r.B, ":%d\r\n", len(q.Args[len(q.Args)-1]))
	case "NAME":
		h.byName[string(q.Args[1])] = s
		if g, ok := b.Session.(*guest); ok {
			g.named = true
		}
		r.OK()
	case "POST":
		if to := h.byName[string(q.Args[1])]; to != nil {
			to.c.Post(h.turn, bytes.Clone(q.Args[2]))
		}
		r.OK()
	case "HOLD":
		r.Simple("HELD")
		return false, true
	case "WORK":
		h.working.Add(1)
		b.Soon = true
		return false, true
	case "LATER":
		if !s.asked {
			s.asked = true
			return false, false
		}
		s.asked = false
		r.B = fmt.Appendf(r.B, ":%d\r\n", len(q.Args[1]))
	case "BIG":
		n, _ := strconv.Atoi(string(q.Args[1]))
		data := bytes.Repeat([]byte{'x'}, n)
		h.lent.Add(1)
		r.LendBulk(n, func() { h.lentFreed.Add(1) }, data)
	case "FILL":
		n, _ := strconv.Atoi(string(q.Args[1]))
		r.Bulk(bytes.Repeat([]byte{'y'}, n))
	case "MANY":
		n, _ := strconv.Atoi(string(q.Args[1]))
		for i := 0; i < n && !r.Full(); i++ {
			r.BulkString(fmt.Sprintf("%07d", i))
		}
	case "CLASS":
		class, _ := strconv.Atoi(string(q.Args[1]))
		s.c.SetClass(protocol.Class(class))
		r.OK()
	case "TAKE":
		if q.Bulk != nil {
			q.Bulk.Taken = true
			h.taken.Add(1)
		}
		r.OK()
	case "QUIET":
		s.quiet = true
		r.OK()
	case "QUIT":
		r.OK()
		s.c.Close(true)
		return false, true
	case "FAN":
		h.fan(s)
		b.Reply.Simple("FAN")
	case "COUNT":
		r.B = append(r.B, h.next()...)
	case "SILENT":
	default:
		r.Error(fmt.Errorf("unknown command '%s'", q.Args[0]))
	}
	return true, true
}

// leased has ports that no other test process gets. Reactors have them in turns, since some tests make many reactors.
var (
	leased    [75]int
	leaseOnce sync.Once
	lastPort  atomic.Int32
)

// fan sends the next number to all named sessions except s. Inside a turn.
func (h *testHandler) fan(s *testSession) {
	p := h.next()
	for l, to := range h.receivers {
		if l != nil {
			l.PostAll(h.turn, to, s.c, p)
			continue
		}
		for _, c := range to {
			if c != s.c {
				c.Post(h.turn, p)
			}
		}
	}
}

// serveHandler starts a reactor on a free port and stops it with the test.
func serveHandler(t testing.TB, h protocol.Handler, o Options) (*Reactor, string) {
	t.Helper()
	if o.Handler = h; apart {
		o.Handler, o.Loops = newAwayHandler(h), max(o.Loops, 2)
	}
	if shuffled {
		o.Loops = max(o.Loops, 3)
	}
	o.Bind = []string{"127.0.0.1"}
	if o.Logf == nil {
		o.Logf = func(level Level, format string, args ...any) {
			if level >= Warning {
				fmt.Fprintf(os.Stderr, format+"\n", args...)
			}
		}
	}
	leaseOnce.Do(func() {
		for i := range leased {
			leased[i] = testkit.FreePort(t)
		}
	})
	for range 60 {
		port := leased[int(lastPort.Add(1))%len(leased)]
		if o.Port = port; secured {
			o.Port, o.TLSPort, o.TLS = 0, port, serverTLS()
		}
		r, err := New(o)
		if err != nil {
			continue
		}
		r.Serve()
		t.Cleanup(func() { r.Stop(2 * time.Second) })
		if shuffled {
			t.Cleanup(shuffle(r))
		}
		return r, r.Addrs()[0]
	}
	t.Fatal("no free port")
	return nil, ""
}

func TestMain(m *testing.M) { testkit.Waiting(m) }

// eachBackend runs f as a subtest of each backend.
func eachBackend(t *testing.T, f func(t *testing.T, b Backend)) {
	for b := Gnet; b <= IOUring; b++ {
		t.Run(b.String(), func(t *testing.T) { f(t, b) })
	}
}

// eachBackendAtOnce is eachBackend for a test that waits. Its subtests are parallel, and all have ended when it
// returns.
func eachBackendAtOnce(t *testing.T, f func(t *testing.T, b Backend)) {
	t.Run("at once", func(t *testing.T) {
		eachBackend(t, func(t *testing.T, b Backend) {
			t.Parallel()
			f(t, b)
		})
	})
}

// patience is how long a test waits for an event that must come, also on a busy host.
var patience = testkit.Slowly(time.Minute)

// A peer is a client that reads line by line.
type peer struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *peer {
	t.Helper()
	return dialSized(t, addr, 0)
}

// dialNarrow is dial with a small receive buffer. The system may let the buffer of dial grow to many megabytes. So a
// reply that has to wait would be long, and would cost much time.
func dialNarrow(t testing.TB, addr string) *peer {
	t.Helper()
	return dialSized(t, addr, 64<<10)
}

// dialSized connects with a receive buffer of this size, or with the system's if it is 0.
func dialSized(t testing.TB, addr string, buffer int) *peer {
	t.Helper()
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	c, err := net.DialTimeout(network, addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if tcp, ok := c.(*net.TCPConn); ok && buffer > 0 {
		if err := tcp.SetReadBuffer(buffer); err != nil {
			t.Fatal(err)
		}
	}
	c.SetDeadline(time.Now().Add(patience))
	p := &peer{t, c, bufio.NewReaderSize(c, 64<<10)}
	if secured && network == "tcp" {
		p.secure()
	}
	return p
}

func (p *peer) send(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p, s); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// sendCut sends two parts. The server usually reads each part alone.
func (p *peer) sendCut(first, second string) {
	p.t.Helper()
	p.send(first)
	time.Sleep(5 * time.Millisecond)
	p.send(second)
}

// expectNothing fails the test if a byte arrives within d.
func (p *peer) expectNothing(d time.Duration) {
	p.t.Helper()
	if err := p.SetReadDeadline(time.Now().Add(d)); err != nil {
		p.t.Fatal(err)
	}
	if got, err := p.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("read %q, %v; want nothing within %v", got, err, d)
	}
	if err := p.SetReadDeadline(time.Time{}); err != nil {
		p.t.Fatal(err)
	}
}

// expect reads exactly these bytes.
func (p *peer) expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.r, got); err != nil {
		p.t.Fatalf("read %d bytes, the first of them %.300q, then %v; want %d bytes, %.300q", n, got[:n], err, len(want),
			want)
	}
	if string(got) != want {
		at := 0
		for got[at] == want[at] {
			at++
		}
		p.t.Fatalf("from byte %d on: read %.300q, want %.300q", at, got[at:], want[at:])
	}
}

// expectEnd fails the test unless the connection ends without another byte.
func (p *peer) expectEnd() {
	p.t.Helper()
	if rest, err := io.ReadAll(p.r); len(rest) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		p.t.Fatalf("read %q, %v; want the end", rest, err)
	}
}

func command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// eventually waits until ok returns true, which another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Await(t, patience, what, ok)
}
