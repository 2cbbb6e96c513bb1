package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/str"
	"spindle/engine/family/tx"
	"spindle/engine/part"
	"spindle/protocol"
	"spindle/tests/testkit"
)

// A socket is a connection that keeps the bytes sent to it, in order.
type socket struct {
	mu      sync.Mutex
	sent    []byte
	pieces  int
	closed  bool
	resumed int
	class   protocol.Class
	unsent  int // the unsent bytes that Usage returns
}

func (s *socket) FD() int            { return 3 }
func (s *socket) LocalAddr() string  { return "127.0.0.1:6379" }
func (s *socket) RemoteAddr() string { return "[::1]:4000" }
func (s *socket) Unix() bool         { return false }
func (s *socket) Loopback() bool     { return true }
func (s *socket) LastActive() int64  { return 0 }
func (s *socket) Post(_ uint64, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.pieces = append(s.sent, p...), s.pieces+1
}
func (s *socket) Chunks() protocol.Chunks { return nil }
func (s *socket) PostReply(turn uint64, r *protocol.Reply) {
	at := 0
	for _, l := range r.Lent {
		s.Post(turn, r.B[at:l.At])
		s.Post(turn, l.Data)
		if at = l.At; l.Release != nil {
			l.Release()
		}
	}
	s.Post(turn, r.B[at:])
}
func (s *socket) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed++
}
func (s *socket) Close(bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
func (s *socket) Loop() protocol.Loop { return nil }
func (s *socket) SetClass(c protocol.Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.class = c
}
func (s *socket) Usage() protocol.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return protocol.Usage{Output: s.unsent}
}

func (s *socket) setUnsent(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent = n
}

// take returns the bytes sent since the last take, once they contain want. With "" it does not wait.
func (s *socket) take(t *testing.T, want string) string {
	t.Helper()
	got := ""
	if !testkit.Holds(20*time.Second, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		got = string(s.sent)
		if !strings.Contains(got, want) {
			return false
		}
		s.sent = nil
		return true
	}) {
		t.Fatalf("waited for %q, got %q", want, got)
	}
	return got
}

func (s *socket) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// A scribe is a Saver that writes a fixed text when its gate opens.
type scribe struct {
	text string
	gate chan struct{} // nil: at once

	prepared func() // nil: not counted

	holds  Forms
	clean  bool // no form is in the data any more
	valkey bool // the last copy was asked for in Valkey's form
}

func (s *scribe) Prepare(_ context.Context, _ string, _ int64, only Filter, dialect Dialect) func(
	io.Writer, *keyspace.View) error {
	s.valkey = dialect == ValkeyDialect
	if s.prepared != nil {
		s.prepared()
	}
	return func(w io.Writer, _ *keyspace.View) error {
		if s.gate != nil {
			<-s.gate
		}
		text := s.text
		if only.NoKeys {
			text = "no keys"
		}
		_, err := io.WriteString(w, text)
		return err
	}
}

func (s *scribe) Holds() Forms { return s.holds }

func (s *scribe) Find(_ *keyspace.View, forms Forms) (Find, bool) {
	return Find{3, "special", s.holds & forms}, s.holds&forms != 0 && !s.clean
}

type quiet struct{}

func (quiet) Notice(string, ...any)  {}
func (quiet) Warning(string, ...any) {}

// noDisk is a server without an append-only file.
type noDisk struct{}

func (noDisk) On() bool                                { return false }
func (noDisk) Synced(*client.Client) bool              { return false }
func (noDisk) Confirmed() (synced, end int64, ok bool) { return 0, 0, false }
func (noDisk) Await(*client.Client) (forget func())    { return func() {} }

// A primary is a core with a feed and the string commands.
type primary struct {
	*engine.Core
	t        *testing.T
	feed     *Feed
	follower *Follower
	ends     *Ends
	settings *Settings
	saver    *scribe
	limit    OutputLimit
}

// newPrimary builds one. more are rows in addition to those of the families.
func newPrimary(t *testing.T, more ...command.Spec) *primary {
	t.Helper()
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &primary{t: t, settings: &Settings{Log: quiet{}}, saver: &scribe{text: "RDB"}}
	core, common := &engine.Settings{}, &command.Settings{}
	core.Rows()
	common.Rows()
	p.settings.Rows()
	p.settings.Disk = noDisk{}
	p.settings.Output = func() OutputLimit { return p.limit }
	p.settings.SyncDelay.Set(0)
	space := keyspace.New(heap, keyspace.Options{})
	p.Core = engine.New(engine.Parts{
		Space: space, Clients: client.NewRegistry(), Settings: core, Common: common, Whole: &command.Whole{},
		Gate: protocol.NewGate(),
	})
	p.feed = NewFeed(p.Core, p.settings, p.saver)
	p.follower = NewFollower(p.Core, p.feed, &FollowerSettings{}, FollowerParts{Log: quiet{}, Changed: func() {},
		Dial: Dial, Port: func() int { return 0 }, PatienceMs: func() int64 { return 60_000 }})
	p.follower.settings.Rows()
	p.ends = Join(p.feed, p.follower)
	choose := command.Spec{Name: "choose", Arity: 2, Run: func(c *command.Context) error { // SELECT
		n, err := command.Int(c.Args[1])
		if err == nil && (n < 0 || n > 15) {
			err = protocol.ErrSyntax
		}
		if err == nil {
			c.Client.DB = int(n)
		}
		return err
	}}
	sel := choose
	sel.Name = "select"
	ping := command.Spec{Name: "ping", Arity: -1,
		Run: func(c *command.Context) error { c.Reply.Simple("PONG"); return nil }}
	catalogue, err := command.NewCatalogue(str.Family, p.ends.Family(), p.feed.WaitFamily(), tx.NewWatches(space).Family(),
		command.Family{Name: "test", Rows: append([]command.Spec{choose, sel, ping}, more...)})
	if err != nil {
		t.Fatal(err)
	}
	p.SetCatalogue(catalogue)
	p.Subscribe(part.Listeners{Wrote: p.feed.Wrote, Gone: p.feed.Gone})
	p.Subscribe(part.Listeners{Gone: p.follower.Gone, Diverged: p.follower.Diverged})
	p.AddOwnBarriers()
	return p
}

func (p *primary) arrive() (*client.Client, *socket) {
	s := &socket{}
	session, _ := p.Open(s)
	return session.(*client.Client), s
}

func (p *primary) do(cl *client.Client, lines ...string) string {
	b := &protocol.Batch{Session: cl, Reply: &protocol.Reply{}}
	for _, line := range lines {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		b.Requests = append(b.Requests, protocol.Request{Args: args})
	}
	for len(b.Requests) > 0 { // a batch may end early because of its time
		p.Serve(b)
		ended := b.Done == 0
		p.Do(func() { ended = ended || cl.Is(client.Blocked|client.CloseASAP|client.CloseAfter) })
		if ended {
			break
		}
		b.Requests, b.Done = b.Requests[b.Done:], 0
	}
	return string(b.Reply.B)
}

// online returns a replica that has everything.
func (p *primary) online() (*client.Client, *socket) {
	p.t.Helper()
	cl, s := p.arrive()
	p.do(cl, "SYNC")
	s.take(p.t, "$3\r\nRDB")
	p.waitFor("online", func() bool { return cl.ReplicaState.(*replica).state == online })
	return cl, s
}

// BlockedClients returns the figure in another turn.
func (p *primary) BlockedClients() (n int) {
	p.Do(func() { n = p.Core.BlockedClients() })
	return n
}

func (p *primary) waitFor(what string, done func() bool) {
	p.t.Helper()
	testkit.Await(p.t, 20*time.Second, what, func() (ok bool) {
		p.Do(func() { ok = done() })
		return ok
	})
}

func wire(line string) string {
	words := strings.Split(line, " ")
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return text
}

// TestFullSync: a replica gets the reply, the view with its length, then the writes made meanwhile, with a SELECT
// before them. A further SELECT comes only when the database changes.
func TestFullSync(t *testing.T) {
	p := newPrimary(t)
	p.saver.gate = make(chan struct{})
	writer, _ := p.arrive()
	p.do(writer, "SET before 1")
	cl, s := p.arrive()
	if got := p.do(cl, "PSYNC ? -1"); got != "+FULLRESYNC "+p.feed.ID+" 0\r\n" {
		t.Fatalf("%q, and the history is %s", got, p.feed.ID)
	}
	p.do(writer, "SET a 1", "CHOOSE 3", "SET a 2")
	close(p.saver.gate)
	want := "$3\r\nRDB" + wire("SELECT 0") + wire("SET a 1") + wire("SELECT 3") + wire("SET a 2")
	if got := s.take(t, wire("SET a 2")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if s.class != protocol.ClassReplica {
		t.Errorf("class %d", s.class)
	}
	p.do(writer, "SET a 3", "CHOOSE 0", "GET a", "SET a 4")
	if got, want := s.take(t, wire("SET a 4")), wire("SET a 3")+wire("SELECT 0")+wire("SET a 4"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	total := len(want) - len("$3\r\nRDB") + len(wire("SET a 3")+wire("SELECT 0")+wire("SET a 4"))
	if p.feed.offset != int64(total) {
		t.Errorf("replication.F1: offset %d, want %d", p.feed.offset, total)
	}
	p.Closed(cl)
	p.do(writer, "SET a 5")
	if total += len(wire("SET a 5")); p.feed.offset != int64(total) || len(p.feed.replicas) != 0 {
		t.Errorf("offset %d, %d replicas after the last has left", p.feed.offset, len(p.feed.replicas))
	}
}

// TestHistoryIsNewAfterAGap: writes without a backlog have moved no offset, so the next replica's data get a new
// history's name. While there is a backlog the name stays, also without a replica.
func TestHistoryIsNewAfterAGap(t *testing.T) {
	p := newPrimary(t)
	writer, _ := p.arrive()
	_, first := p.psync("PSYNC ? -1")
	name := p.feed.ID
	got, second := p.psync("PSYNC ? -1")
	if want := "+FULLRESYNC " + name + " 0\r\n"; got != want {
		t.Errorf("%q, want %q: the first still follows", got, want)
	}
	p.Closed(first)
	p.Closed(second)
	p.do(writer, "SET a 1")
	got, third := p.psync("PSYNC ? -1")
	if !strings.Contains(got, name) {
		t.Errorf("%q, and the backlog of history %s is there", got, name)
	}
	p.Closed(third)
	p.Do(func() { p.feed.Tick(p.SteadyMs() + 3600_000) })
	if p.feed.log == nil {
		t.Error("the backlog goes before its time")
	}
	p.Do(func() { p.feed.Tick(p.SteadyMs() + 3601_000) })
	if p.feed.log != nil {
		t.Error("the backlog outlives repl-backlog-ttl")
	}
	p.do(writer, "SET a 1")
	if got, _ := p.psync("PSYNC ? -1"); strings.Contains(got, name) ||
		!strings.HasPrefix(got, "+FULLRESYNC "+p.feed.ID+" ") {
		t.Errorf("%q after a gap in history %s", got, name)
	}
}

// TestEOFWaitsForTheReplica: with capa eof the stream begins when the replica has loaded the copy and says so.
func TestEOFWaitsForTheReplica(t *testing.T) {
	p := newPrimary(t)
	cl, s := p.arrive()
	if got := p.do(cl, "REPLCONF capa eof capa psync2"); got != "+OK\r\n" {
		t.Fatalf("%q", got)
	}
	p.do(cl, "PSYNC ? -1")
	p.waitFor("the view to leave", func() bool { return cl.ReplicaState.(*replica).state == awaitAck })
	writer, _ := p.arrive()
	p.do(writer, "SET a 1")
	p.do(writer, "SET a 2")
	got := s.take(t, "$EOF:")
	if mark := got[5 : 5+40]; got != "$EOF:"+mark+"\r\nRDB"+mark {
		t.Errorf("%q", got)
	}
	if answer := p.do(cl, "REPLCONF ACK 0"); answer != "" {
		t.Errorf("ACK was answered with %q", answer)
	}
	if got, want := s.take(t, "SET"), wire("SELECT 0")+wire("SET a 1")+wire("SET a 2"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAckOutrunsTheViewsLeaving: a replica may have loaded the view, and acknowledged it once, before the turn that
// counts the view as sent.
func TestAckOutrunsTheViewsLeaving(t *testing.T) {
	p := newPrimary(t)
	p.saver.gate = make(chan struct{})
	cl, s := p.arrive()
	p.do(cl, "REPLCONF capa eof capa psync2")
	p.do(cl, "PSYNC ? -1", "REPLCONF ACK 0")
	writer, _ := p.arrive()
	p.do(writer, "SET a 1")
	if state := cl.ReplicaState.(*replica).state; state != sending {
		t.Errorf("%v before the view has left", state)
	}
	close(p.saver.gate)
	if got, want := s.take(t, "SET"), wire("SELECT 0")+wire("SET a 1"); !strings.HasPrefix(got, "$EOF:") ||
		!strings.HasSuffix(got, want) {
		t.Errorf("%q, want the view, then %q", got, want)
	}
}

// TestHeldHasASoftLimit: a replica that lacks more than the soft limit for longer than its seconds is closed, even if
// nothing is written meanwhile.
func TestHeldHasASoftLimit(t *testing.T) {
	p := newPrimary(t)
	p.limit = OutputLimit{Soft: 100, Seconds: 2}
	p.saver.gate = make(chan struct{})
	defer close(p.saver.gate)
	writer, _ := p.arrive()
	cl, s := p.arrive()
	p.do(cl, "SYNC")
	p.do(writer, "SET key "+strings.Repeat("v", 100))
	r := cl.ReplicaState.(*replica)
	p.Do(func() {
		p.feed.limitLag(r)
		if s.isClosed() || r.softSince == 0 {
			t.Errorf("closed %t, over the soft limit since %d", s.isClosed(), r.softSince)
		}
		r.softSince = p.Now() - 2000
		p.feed.limitLag(r)
		if s.isClosed() {
			t.Error("closed before its seconds are over")
		}
		r.softSince -= 100
		p.feed.Tick(p.SteadyMs())
	})
	if !s.isClosed() || p.feed.OutputLimitCloses() != 1 {
		t.Errorf("closed %t, %d counted", s.isClosed(), p.feed.OutputLimitCloses())
	}
}

// TestFilteredSync: rdb-filter-only leaves the keys out of the RDB stream, and needs a replica that knows the EOF form.
func TestFilteredSync(t *testing.T) {
	p := newPrimary(t)
	cl, s := p.arrive()
	p.do(cl, "REPLCONF rdb-filter-only functions")
	for _, line := range []string{"SYNC", "PSYNC ? -1"} {
		if got := p.do(cl, line); got != "-ERR Filtered replica requires EOF capability\r\n" || len(p.feed.replicas) != 0 {
			t.Errorf("%s without capa eof: %q", line, got)
		}
	}
	if got := p.do(cl, "REPLCONF capa eof rdb-only 1"); got != "+OK\r\n" {
		t.Errorf("%q", got)
	}
	p.do(cl, "PSYNC ? -1")
	if got := s.take(t, "no keys"); strings.Contains(got, "RDB") {
		t.Errorf("%q", got)
	}
	cl, s = p.arrive() // as redis-cli --functions-rdb
	p.do(cl, "REPLCONF capa eof", "REPLCONF rdb-only 1", "REPLCONF rdb-filter-only functions")
	p.do(cl, "SYNC")
	if got := s.take(t, "no keys"); !strings.Contains(got, "$EOF:") {
		t.Errorf("%q", got)
	}
}

// TestStreamIsKeptOnce: replication.F3. The backlog keeps one copy of the bytes that several replicas lack, each from
// its own offset. It drops them when the last of these replicas is gone.
func TestStreamIsKeptOnce(t *testing.T) {
	p := newPrimary(t)
	p.settings.BacklogSize.Set(16 << 10)
	_, all := p.online()
	all.take(t, "")
	writer, _ := p.arrive()
	var late []*client.Client
	for i := range 5000 {
		if i%1500 == 0 { // its view was sent, and it never reports that it has loaded it
			cl, _ := p.arrive()
			p.do(cl, "REPLCONF capa eof")
			p.do(cl, "PSYNC ? -1")
			p.waitFor("the view to leave", func() bool { return cl.ReplicaState.(*replica).state == awaitAck })
			late = append(late, cl)
		}
		p.do(writer, fmt.Sprintf("SET key:%d v%s", i, strings.Repeat("v", 100+i%100)))
	}
	stream := all.take(t, "key:4999")
	for i, cl := range late {
		r, log := cl.ReplicaState.(*replica), p.feed.log
		lacks := make([]byte, log.end-r.at)
		log.read(lacks, r.at)
		if text := string(lacks); !strings.HasPrefix(text, wire("SELECT 0")) || !strings.HasSuffix(stream, text) ||
			i == 0 && text != stream {
			t.Errorf("replication.F3: replica %d lacks %d bytes of %d", i, len(text), len(stream))
		}
	}
	if bytes, excess := p.feed.StreamBytes(); bytes > int64(len(stream))+2*blockBytes ||
		excess != int64(len(stream))-p.feed.log.limit {
		t.Errorf("replication.F3: %d bytes for a stream of %d, %d of them past the limit", bytes, len(stream), excess)
	}
	for _, cl := range late {
		p.Closed(cl)
	}
	if bytes, excess := p.feed.StreamBytes(); bytes > p.feed.log.limit+2*blockBytes || excess != 0 {
		t.Errorf("replication.B1: %d bytes, %d past the limit, when no replica needs them", bytes, excess)
	}
}

// TestSlowReplicaReadsTheBacklog: a replica whose socket accepts no bytes has at most aheadMax bytes in its loop. It
// gets everything in the end.
func TestSlowReplicaReadsTheBacklog(t *testing.T) {
	p := newPrimary(t)
	cl, s := p.online()
	s.take(t, "")
	writer, _ := p.arrive()
	r := cl.ReplicaState.(*replica)
	s.setUnsent(unsentMax + 1)
	var want strings.Builder
	write := func(i int) {
		line := fmt.Sprintf("SET key:%d %s", i, strings.Repeat("v", 1000))
		want.WriteString(wire(line))
		p.do(writer, line)
	}
	for i := range 3000 {
		write(i)
	}
	p.Do(func() {
		if r.at == live {
			t.Errorf("the replica is given the stream, though it takes nothing")
		}
	})
	s.setUnsent(0)
	p.waitFor("the whole stream", func() bool { return r.at == live })
	for i := range 10 {
		write(3000 + i)
	}
	if got := s.take(t, "key:3009"); !strings.HasSuffix(got, want.String()) {
		t.Errorf("the replica got %d bytes, not the %d of the stream", len(got), want.Len())
	}
}

// TestHeldIsBounded: a replica that needs more than its limit during its full copy is closed, and no bytes are kept for
// it any more.
func TestHeldIsBounded(t *testing.T) {
	p := newPrimary(t)
	p.settings.BacklogSize.Set(16 << 10) // a lower limit counts as this
	p.limit.Hard = 1000
	p.saver.gate = make(chan struct{})
	cl, s := p.arrive()
	p.do(cl, "SYNC")
	writer, _ := p.arrive()
	for range 50 {
		p.do(writer, "SET key "+strings.Repeat("v", 100))
	}
	if s.isClosed() {
		t.Error("closed for less than the backlog keeps")
	}
	for range 200 {
		p.do(writer, "SET key "+strings.Repeat("v", 100))
	}
	if r := cl.ReplicaState.(*replica); !s.isClosed() || r.at != live || p.feed.OutputLimitCloses() != 1 {
		t.Errorf("closed %t, the stream kept from %d, %d counted", s.isClosed(), r.at, p.feed.OutputLimitCloses())
	}
	p.Closed(cl)
	close(p.saver.gate)
}

func TestHandshakeRefusals(t *testing.T) {
	p := newPrimary(t)
	for _, c := range []struct{ line, want string }{
		{"REPLCONF capa", "-ERR syntax error\r\n"},
		{"REPLCONF nosuch 1", "-ERR Unrecognized REPLCONF option: nosuch\r\n"},
		{"REPLCONF listening-port +1", "-ERR value is not an integer or out of range\r\n"},
		{"REPLCONF version 7.4", "-ERR Unrecognized version format: 7.4\r\n"},
		{"REPLCONF fack 1", "-ERR Unrecognized REPLCONF option: fack\r\n"},
		{"REPLCONF ACK 5 FACK 5", ""},
		{"REPLCONF ip-address " + strings.Repeat("h", 255), "+OK\r\n"}, // a name, where a translation lies between
		{"REPLCONF ip-address " + strings.Repeat("h", 256),
			"-ERR REPLCONF ip-address provided by replica instance is too long: 256 bytes\r\n"},
		{"REPLCONF ip-address h\x01", "-ERR REPLCONF ip-address provided by replica instance is invalid\r\n"},
		{"REPLCONF rdb-filter-only functions", "+OK\r\n"},
		{"REPLCONF rdb-filter-only \"FUNCTIONS\"", "+OK\r\n"},
		{"REPLCONF rdb-filter-only \"", "-ERR Missing rdb-filter-only values\r\n"},
		{"REPLCONF rdb-filter-only keys", "-ERR Unsupported rdb-filter-only option: keys\r\n"},
		{"REPLCONF rdb-only 2", "-ERR value is out of range, value must between 0 and 1\r\n"},
		{"REPLCONF GETACK *", ""}, {"REPLCONF ACK 5", ""},
		{"PSYNC ? x", "-ERR value is not an integer or out of range\r\n"},
		{"PSYNC ? -1 FAILOVER", "-ERR PSYNC FAILOVER can't be sent to a master.\r\n"},
		{"WAIT 01 0", "-ERR value is not an integer or out of range\r\n"},
		{"WAIT 0 x", "-ERR timeout is not an integer or out of range\r\n"},
		{"WAIT 0 -1", "-ERR timeout is negative\r\n"},
		{"WAIT 1 9223372036854775807", "-ERR timeout is out of range\r\n"},
		{"WAITAOF 0 1 9223372036854775807", "-ERR timeout is out of range\r\n"},
		{"WAITAOF 2 0 0", "-ERR value is out of range, value must between 0 and 1\r\n"},
		{"WAITAOF 1 0 0", "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n"},
		{"WAITAOF 0 0 0", "*2\r\n:0\r\n:0\r\n"},
		{"WAITAOF 0 -1 0", "-ERR value is out of range, must be positive\r\n"},
		{"WAITAOF 0 x x", "-ERR value is out of range, must be positive\r\n"},
		{"WAITAOF 1 -1 0", "-ERR value is out of range, must be positive\r\n"},
		{"WAITAOF 0 9223372036854775807 0", "*2\r\n:0\r\n:0\r\n"},
		{"WAITAOF 0 4294967296 0", "*2\r\n:0\r\n:0\r\n"},
		{"WAIT 4294967295 0", ":0\r\n"},
		{"WAIT 4294967296 0", ":0\r\n"},
		{"WAIT 2147483648 0", ":0\r\n"},
	} {
		cl, _ := p.arrive()
		if got := p.do(cl, c.line); got != c.want {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
	cl, _ := p.arrive()
	pending := "-ERR SYNC and PSYNC are invalid with pending output\r\n"
	if got := p.do(cl, "SET a b", "PSYNC ? -1", "SYNC"); got != "+OK\r\n"+pending+pending || len(p.feed.replicas) != 0 {
		t.Errorf("after other replies: %q", got)
	}
}

// TestWait: WAIT waits for the client's own last write, is woken by acknowledgements, and leaves no waiter.
func TestWait(t *testing.T) {
	p := newPrimary(t)
	replica, s := p.online()
	writer, _ := p.arrive()
	p.do(writer, "SET a 1")
	reader, _ := p.arrive()
	if got := p.do(reader, "WAIT 1 1000"); got != ":1\r\n" {
		t.Errorf("a client that wrote nothing waits: %q", got)
	}
	s.take(t, "SET")
	if got := p.do(writer, "WAIT 1 0"); got != "" {
		t.Fatalf("answered at once: %q", got)
	}
	if got := s.take(t, "GETACK"); got != wire("REPLCONF GETACK *") {
		t.Errorf("%q", got)
	}
	offset := writer.StreamOffset
	p.do(replica, fmt.Sprint("REPLCONF ACK ", offset-1))
	if !writer.Is(client.Blocked) {
		t.Error("woken too early")
	}
	p.do(replica, fmt.Sprint("REPLCONF ACK ", offset))
	ws := writer.Conn.(*socket)
	if got := ws.take(t, "\r\n"); got != ":1\r\n" || writer.Is(client.Blocked) || ws.resumed != 1 {
		t.Errorf("%q, resumed %d times", got, ws.resumed)
	}
	for i := range 100 {
		cl, _ := p.arrive()
		p.do(cl, fmt.Sprint("SET a ", i), "WAIT 2 1")
		switch i % 3 {
		case 0:
			p.Closed(cl)
		case 1:
			p.Do(func() { p.Unblock(cl, false) })
		case 2:
			p.Do(func() { p.Unblock(cl, true) })
		}
	}
	p.do(replica, fmt.Sprint("REPLCONF ACK ", offset))
	if p.feed.waits.count() != 0 || p.BlockedClients() != 0 {
		t.Errorf("replication.F4: %d waiters, %d blocked", p.feed.waits.count(), p.BlockedClients())
	}
}

// TestWaitersAreLookedAtOnce: replicas are asked at most once a turn. An acknowledgement wakes just the clients whose
// number of replicas have acknowledged the offset.
func TestWaitersAreLookedAtOnce(t *testing.T) {
	p := newPrimary(t)
	a, as := p.online()
	b, _ := p.online()
	var writers []*client.Client
	for range 20 {
		cl, _ := p.arrive()
		writers = append(writers, cl)
	}
	blocked := func() (which string) {
		for _, cl := range writers {
			if cl.Is(client.Blocked) {
				which += "w"
			} else {
				which += "."
			}
		}
		return which
	}
	for i, cl := range writers {
		p.do(cl, "SET k v")
		if got := p.do(cl, fmt.Sprint("WAIT ", 1+i%2, " 0")); got != "" {
			t.Fatalf("%d: answered at once: %q", i, got)
		}
	}
	as.take(t, "GETACK")
	ack := func(replica *client.Client, of int) {
		p.do(replica, fmt.Sprint("REPLCONF ACK ", writers[of].StreamOffset))
	}
	ack(a, 9)
	if got, want := blocked(), ".w.w.w.w.wwwwwwwwwww"; got != want {
		t.Errorf("one replica has 10 of 20 writes: %s, want %s", got, want)
	}
	ack(b, 3)
	if got, want := blocked(), ".....w.w.wwwwwwwwwww"; got != want {
		t.Errorf("and the other 4: %s, want %s", got, want)
	}
	ack(b, 19)
	if got, want := blocked(), "...........w.w.w.w.w"; got != want {
		t.Errorf("and then all: %s, want %s", got, want)
	}
	ack(a, 19)
	if got, want := blocked(), "...................."; got != want {
		t.Errorf("both have all: %s, want %s", got, want)
	}
	if p.feed.waits.count() != 0 {
		t.Errorf("replication.F4: %d wait", p.feed.waits.count())
	}
	as.take(t, "")
	p.Do(func() {
		for range 50 {
			p.feed.askForAcks()
		}
	})
	if got := strings.Count(as.take(t, "GETACK"), "GETACK"); got != 1 {
		t.Errorf("asked %d times in one turn", got)
	}
}

// TestAcksBeforeTheEnd: the server ends in the turn in which a replica acknowledges a write. The reply of that write
// leaves. The reply of a later write fails.
func TestAcksBeforeTheEnd(t *testing.T) {
	var p *primary
	p = newPrimary(t, command.Spec{Name: "end", Arity: 1, Run: func(*command.Context) error { p.feed.EndAcks(); return nil }})
	replica, _ := p.online()
	p.Do(func() { p.SetCommonAcks(1) })
	writer, _ := p.arrive()
	write := func() (turn uint64, offset int64) {
		p.do(writer, "SET k v")
		p.Do(func() { turn, offset = p.TurnNumber()-1, p.feed.offset })
		if !p.Gate().HoldsAt(turn, 1) {
			t.Fatal("the reply does not wait")
		}
		return turn, offset
	}
	first, offset := write()
	second, _ := write()
	p.do(replica, fmt.Sprint("REPLCONF ACK ", offset), "end")
	for turn, fails := range map[uint64]bool{first: false, second: true} {
		if p.Gate().HoldsAt(turn, 1) || p.Gate().FailsAt(turn, 1) != fails {
			t.Errorf("turn %d: held %v, failed %v", turn, p.Gate().HoldsAt(turn, 1), p.Gate().FailsAt(turn, 1))
		}
	}
}

// TestAcksCostByClientsServed: the cost of an acknowledgement that wakes no client does not grow with the number of
// waiting clients.
func TestAcksCostByClientsServed(t *testing.T) {
	p := newPrimary(t)
	a, _ := p.online()
	p.online()
	acks := func() time.Duration {
		began := time.Now()
		for i := range 1000 {
			p.do(a, fmt.Sprint("REPLCONF ACK ", i))
		}
		return time.Since(began)
	}
	alone := acks()
	for range 3000 {
		cl, _ := p.arrive()
		p.do(cl, "SET k v")
		p.do(cl, "WAIT 2 0")
	}
	took, limit := acks(), 20*alone+100*time.Millisecond
	for tries := 1; tries < 10 && took > limit; tries++ { // other work on the host lengthens some of them
		took = acks()
	}
	if took > limit {
		t.Errorf("1000 acknowledgements: %v, beside 3000 waiting clients %v, want at most %v", alone, took, limit)
	}
}

func senderTo(to ...*replica) *sender {
	return &sender{posted: new(atomic.Int64), to: to, left: map[*replica]error{},
		patience: func() time.Duration { return time.Hour }}
}

// TestSenderWaitsForTheSocket: R5. The sender waits for the socket, and gives up on a replica that is gone or reads
// nothing.
func TestSenderWaitsForTheSocket(t *testing.T) {
	s := &socket{unsent: unsentMax + 1}
	r := &replica{cl: &client.Client{Conn: s}, gone: make(chan struct{})}
	out := senderTo(r)
	io.WriteString(out, "x")
	done := make(chan error, 1)
	go func() { done <- out.post() }()
	select {
	case <-done:
		t.Fatal("it did not wait")
	case <-time.After(10 * time.Millisecond):
	}
	s.setUnsent(unsentMax)
	if err := <-done; err != nil || s.take(t, "x") != "x" {
		t.Errorf("%v", err)
	}
	s.setUnsent(unsentMax + 1)
	out.patience = func() time.Duration { return 5 * time.Millisecond }
	if err := out.post(); err == nil || !errors.Is(out.left[r], errReplicaStuck) {
		t.Errorf("stuck: %v, %v", err, out.left[r])
	}
	out = senderTo(r)
	close(r.gone)
	if err := out.post(); !errors.Is(err, errReplicaGone) || !errors.Is(out.left[r], errReplicaGone) {
		t.Errorf("gone: %v, %v", err, out.left[r])
	}
	if _, err := (&counter{to: out}).Write([]byte("x")); !errors.Is(err, errReplicaGone) {
		t.Errorf("counting for one that is gone: %v", err)
	}
}

// TestCountingKeepsTheReplicaWaiting: while the length is counted, a replica gets an empty line now and then.
func TestCountingKeepsTheReplicaWaiting(t *testing.T) {
	s := &socket{}
	out := senderTo(&replica{cl: &client.Client{Conn: s}, gone: make(chan struct{})})
	c := &counter{to: out, signed: time.Now().Add(-2 * signEvery)}
	for range 3 {
		c.Write([]byte("abc"))
	}
	if got := s.take(t, ""); got != "\n" || c.n != 9 {
		t.Errorf("%q, %d bytes", got, c.n)
	}
}

// TestSyncIsAsLongAsAnnounced: a stream whose second encoding has another length ends the connection, if the stream is
// short or long.
func TestSyncIsAsLongAsAnnounced(t *testing.T) {
	for _, lengths := range [][]int{{3, 3}, {3, 2}, {3, 4}, {pieceBytes, 2 * pieceBytes}, {2*pieceBytes + 1, pieceBytes}} {
		s, pass := &socket{}, 0
		r := &replica{cl: &client.Client{Conn: s}, gone: make(chan struct{})}
		err := sendView(senderTo(r), false, nil, func(w io.Writer, _ *keyspace.View) error {
			pass++
			_, err := io.WriteString(w, strings.Repeat("x", lengths[pass-1]))
			return err
		})
		if (err == nil) != (lengths[0] == lengths[1]) {
			t.Errorf("%d bytes announced, %d sent: %v", lengths[0], lengths[1], err)
		}
	}
}

// TestTick: replicas are pinged, and those that no longer report are closed.
func TestTick(t *testing.T) {
	p := newPrimary(t)
	cl, s := p.online()
	p.Do(func() { p.feed.Tick(p.SteadyMs()) })
	s.take(t, "")
	p.Do(func() { p.feed.Tick(p.SteadyMs() + 11_000) })
	if got := s.take(t, ""); got != wire("PING") {
		t.Errorf("%q", got)
	}
	p.Do(func() { p.feed.Tick(p.SteadyMs() + 100_000) })
	if s.isClosed() {
		t.Error("one that came by SYNC never reports, and was closed for that")
	}
	cl.ReplicaState.(*replica).psync2 = true
	p.Do(func() { p.feed.Tick(p.SteadyMs() + 100_000) })
	if !s.isClosed() {
		t.Error("a silent replica stays")
	}
}

func TestGoodReplicas(t *testing.T) {
	p := newPrimary(t)
	cl, _ := p.online()
	p.Do(func() {
		if !p.feed.EnoughReplicas() || p.feed.WantsReplicas() {
			t.Error("by default nothing is asked")
		}
		p.settings.MinWrite.Set(1)
		if !p.feed.EnoughReplicas() {
			t.Error("a fresh replica is good")
		}
		cl.ReplicaState.(*replica).ackMs -= 11_000
		if p.feed.EnoughReplicas() || p.feed.goodReplicas() != 0 {
			t.Error("a silent one is not")
		}
	})
	asker, _ := p.arrive()
	if got, want := p.do(asker,
		"ROLE"), "*3\r\n$6\r\nmaster\r\n:0\r\n*1\r\n*3\r\n$3\r\n::1\r\n$1\r\n0\r\n$1\r\n0\r\n"; got != want {
		t.Errorf("ROLE: %q", got)
	}
}

// TestWrittenCountsBytesOfSockets: bytes that a slow replica has not taken do not count as written to it. Nor do bytes
// that are lost with the replica.
func TestWrittenCountsBytesOfSockets(t *testing.T) {
	p := newPrimary(t)
	writer, _ := p.arrive()
	slow, socket := p.online()
	written := func() (n uint64) {
		p.Do(func() { n = p.feed.written() })
		return n
	}
	before := written()
	if before != uint64(len("$3\r\nRDB")) {
		t.Errorf("%d bytes of a full synchronization", before)
	}
	p.do(writer, "SET k v")
	got := socket.take(t, "v\r\n")
	socket.setUnsent(10)
	expect := func(what string, want uint64) {
		t.Helper()
		if n := written(); n != want {
			t.Errorf("%s: %d bytes, want %d", what, n, want)
		}
	}
	expect("ten are left", before+uint64(len(got))-10)
	socket.setUnsent(12)
	expect("the count falls behind what it has said", before+uint64(len(got))-10)
	p.Do(p.ends.ResetStats)
	socket.setUnsent(4)
	expect("eight more since a reset", 8)
	p.Closed(slow)
	expect("four were lost", 8)
	_, next := p.online()
	expect("the next one", 8+before)
	next.setUnsent(5)
	p.do(writer, "SET k v")
	expect("and its effects", 8+before+uint64(len(next.take(t, "v\r\n")))-5)
}

// TestFormIsOfTheCopy: a replica names another form while it gets a copy. The copy keeps its form, and the next one of
// that form can begin after it. Once that one waited for ever.
func TestFormIsOfTheCopy(t *testing.T) {
	p := newPrimary(t)
	p.saver.gate = make(chan struct{})
	cl, s := p.arrive()
	p.do(cl, "PSYNC ? -1")
	p.do(cl, "REPLCONF capa eof")
	writer, _ := p.arrive()
	p.do(writer, "SET a 1")
	close(p.saver.gate)
	if got, want := s.take(t, wire("SET a 1")), "$3\r\nRDB"+wire("SELECT 0")+wire("SET a 1"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	next, second := p.arrive()
	p.do(next, "PSYNC ? -1")
	if got := second.take(t, "RDB"); !strings.HasSuffix(got, "$3\r\nRDB") {
		t.Errorf("the next copy is %q", got)
	}
}
