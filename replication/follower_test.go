package replication

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/tx"
	"spindle/engine/part"
	"spindle/protocol"
)

// A gulp is a CopyLoader that reads a copy and keeps nothing of it.
type gulp struct{ p *primary }

func (g gulp) Load(c *Copy, begin func() bool, done func(db int)) error {
	g.p.Do(func() { begin() })
	if _, err := io.CopyN(io.Discard, c.Stream, c.Size); err != nil {
		return err
	}
	g.p.Do(func() { done(0) })
	return nil
}

// A source is a primary that consists of a listener. The test decides what it sends.
type source struct {
	t        *testing.T
	listener net.Listener
	conn     net.Conn
	in       *bufio.Reader
}

func newSource(t *testing.T, p *primary) *source {
	p.follower.parts.Loader = gulp{p}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() { // time passes, acknowledgements are due at once, and no link rests
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				p.Do(func() {
					p.follower.link.ackMs = 0
					p.follower.Hurry()
					p.follower.Tick(p.SteadyMs())
				})
			}
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &source{t: t, listener: l}
}

func (s *source) address() Address {
	a := s.listener.Addr().(*net.TCPAddr)
	return Address{"127.0.0.1", a.Port}
}

// greet takes a connection through the handshake, up to PSYNC, and returns the arguments of PSYNC.
func (s *source) greet() string {
	s.t.Helper()
	var err error
	if s.conn, err = s.listener.Accept(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.conn.Close() })
	s.in = bufio.NewReader(s.conn)
	for {
		words := s.read()
		switch words[0] {
		case "PING":
			s.say("+PONG\r\n")
		case "PSYNC":
			return strings.Join(words, " ")
		default:
			s.say("+OK\r\n")
		}
	}
}

func (s *source) say(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.conn, text); err != nil {
		s.t.Fatal(err)
	}
}

// read returns the replica's next command, after any blank lines.
func (s *source) read() []string {
	s.t.Helper()
	s.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		b, err := s.in.Peek(1)
		if err != nil {
			s.t.Fatal(err)
		}
		if b[0] != '\n' {
			break
		}
		s.in.Discard(1)
	}
	number := func(kind byte) (n int) {
		line, err := s.in.ReadString('\n')
		if err == nil && line[0] == kind {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		if err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		return n
	}
	words := make([]string, number('*'))
	for i := range words {
		word := make([]byte, number('$')+2)
		if _, err := io.ReadFull(s.in, word); err != nil {
			s.t.Fatal(err)
		}
		words[i] = string(word[:len(word)-2])
	}
	return words
}

// awaitAck reads until the replica acknowledges the stream up to offset.
func (s *source) awaitAck(offset int64) {
	s.t.Helper()
	for {
		words := s.read()
		if len(words) >= 3 && words[1] == "ACK" {
			got, _ := strconv.ParseInt(words[2], 10, 64)
			if got > offset {
				s.t.Fatalf("ACK %d, and no more than %d was sent whole", got, offset)
			}
			if got == offset {
				return
			}
		}
	}
}

var otherHistory = strings.Repeat("d", 40)

// TestHalfIsNothing: replication.H1 to replication.H3. A stream that is cut anywhere leaves the units that were
// complete before the cut. The replica counts and passes on only these units, and continues after them.
func TestHalfIsNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	units := []string{}
	for i := range 40 {
		switch set := wire(fmt.Sprintf("SET k:%d %s", i, strings.Repeat("v", rng.IntN(200)+1))); rng.IntN(4) {
		case 0:
			units = append(units, wire("MULTI")+set+wire(fmt.Sprintf("INCRBY n %d", i))+wire("EXEC"))
		case 1:
			units = append(units, wire("PING"))
		default:
			units = append(units, set)
		}
	}
	whole := strings.Join(units, "")
	// boundary returns the end of the last unit that is complete in the first n bytes.
	boundary := func(n int) (end int) {
		for _, u := range units {
			if end+len(u) > n {
				break
			}
			end += len(u)
		}
		return end
	}
	p := newPrimary(t)
	s := newSource(t, p)
	below, _ := p.arrive()
	p.Do(func() { p.follower.Follow(s.address()) })
	if got := s.greet(); !strings.HasPrefix(got, "PSYNC "+p.feed.ID+" 1") {
		t.Fatalf("seed %d: %s", seed, got)
	}
	s.say("+FULLRESYNC " + otherHistory + " 0\r\n$3\r\nRDB")
	at := 0
	for cut := 0; ; cut++ {
		to := min(len(whole), at+rng.IntN(400))
		for at < to { // in pieces
			n := min(to-at, rng.IntN(60)+1)
			s.say(whole[at : at+n])
			at += n
		}
		at = boundary(to)
		s.awaitAck(int64(at))
		// No ACK counts the bytes that are cut off.
		p.waitFor("the rest", func() bool { return p.follower.wire.unapplied.Load() >= int64(to-at) })
		p.Do(func() {
			if p.feed.offset != int64(at) || p.feed.ID != otherHistory || p.follower.wire.unapplied.Load() != int64(to-at) {
				t.Fatalf("seed %d, cut %d: replication.H2: offset %d and %d more, want %d and %d", seed, cut, p.feed.offset,
					p.follower.wire.unapplied.Load(), at, to-at)
			}
		})
		if at == len(whole) {
			break
		}
		s.conn.Close()
		if got, want := s.greet(), fmt.Sprintf("PSYNC %s %d", otherHistory, at+1); got != want {
			t.Fatalf("seed %d: replication.H3: %s, want %s", seed, got, want)
		}
		s.say("+CONTINUE\r\n")
	}
	kept := make([]byte, len(whole)+1)
	p.Do(func() { kept = kept[:p.feed.log.read(kept, 0)] })
	if string(kept) != whole {
		t.Fatalf("seed %d: replication.H1: what is handed on is not what came", seed)
	}
	if answer := p.do(below, "SET own 1"); answer != "+OK\r\n" { // no barrier here: as on a writable replica
		t.Error(answer)
	}
	if p.Do(func() { p.feed.flush() }); p.feed.offset != int64(len(whole)) {
		t.Errorf("replication.H1: a write of our own moved the offset to %d", p.feed.offset)
	}
}

// TestGetAckIsAnswered: the ACK comes at once, and counts GETACK and everything before it.
func TestGetAckIsAnswered(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	p.Do(func() { p.follower.Follow(s.address()) })
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 100\r\n$0\r\n")
	s.awaitAck(100)
	text := wire("SET a 1") + wire("REPLCONF GETACK *")
	s.say(text)
	s.awaitAck(100 + int64(len(text)))
}

// TestPromotionBranches: after a promotion, the old history is valid up to the promotion. The former primary gets no
// further ACK.
func TestPromotionBranches(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	p.Do(func() { p.follower.Follow(s.address()) })
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 0\r\n$0\r\n" + wire("SET a 1"))
	end := int64(len(wire("SET a 1")))
	s.awaitAck(end)
	p.Do(func() {
		p.follower.Promote()
		if p.feed.ID == otherHistory || p.feed.ID2 != otherHistory || p.feed.secondOffset != end+1 || p.feed.offset != end {
			t.Errorf("%s from %s, up to %d; at %d", p.feed.ID, p.feed.ID2, p.feed.secondOffset, p.feed.offset)
		}
		if p.follower.primary != nil || p.Clients().Len() != 0 {
			t.Errorf("%d clients are left", p.Clients().Len())
		}
	})
	writer, _ := p.arrive()
	p.do(writer, "SET b 2")
	if want := end + int64(len(wire("SELECT 0")+wire("SET b 2"))); p.feed.offset != want {
		t.Errorf("offset %d, want %d", p.feed.offset, want)
	}
	for _, c := range []struct {
		offset int64
		want   string
	}{{end, "+CONTINUE " + p.feed.ID}, {end + 1, "+FULLRESYNC"}} {
		if answer, _, _ := p.continueAt(otherHistory, c.offset); !strings.HasPrefix(answer, c.want) {
			t.Errorf("of %s after %d: %q, want %s", otherHistory, c.offset, answer, c.want)
		}
	}
}

// TestPromotionAfterAFailedCopy: a replica that is promoted while a full copy fails shows the offset of its stream.
func TestPromotionAfterAFailedCopy(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	p.Do(func() {
		p.feed.moveTo(70)
		p.follower.Follow(s.address())
	})
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 90\r\n$100\r\nRDB")
	p.waitFor("the copy's begin", func() bool { return p.feed.Offset() == 0 })
	p.Do(p.follower.Promote)
	if got := p.feed.Offset(); got != p.feed.offset || got != 70 {
		t.Errorf("it shows offset %d, the stream is at %d", got, p.feed.offset)
	}
}

// TestTakeOverAwaitsTheStream: a primary asks this replica to take over, while the last bytes of its stream are still
// unread. The replica applies them first and continues the stream, so that no write is lost.
func TestTakeOverAwaitsTheStream(t *testing.T) {
	first, last := wire("SET a 1"), wire("SET b 2")
	end := int64(len(first + last))
	// begin makes a replica that has applied first, and a client that asks it to take over at end.
	begin := func(t *testing.T) (p *primary, s *source, asker *client.Client, answers *socket) {
		p = newPrimary(t)
		s = newSource(t, p)
		stop := make(chan struct{})
		t.Cleanup(func() { close(stop) })
		go p.RunDuties(stop)
		p.Do(func() { p.follower.Follow(s.address()) })
		s.greet()
		s.say("+FULLRESYNC " + otherHistory + " 0\r\n$0\r\n" + first)
		s.awaitAck(int64(len(first)))
		asker, answers = p.arrive()
		p.do(asker, "REPLCONF capa eof capa psync2")
		if got := p.do(asker, fmt.Sprintf("PSYNC %s %d FAILOVER", otherHistory, end+1)); got != "" {
			t.Fatalf("%q, and %d bytes are not read yet", got, len(last))
		}
		return p, s, asker, answers
	}
	promoted := func(t *testing.T, p *primary, answer, want string, offset int64) {
		t.Helper()
		p.Do(func() {
			if p.follower.Following() || !strings.HasPrefix(answer, want+" "+p.feed.ID) || p.feed.secondOffset != offset+1 {
				t.Errorf("%q, want %s; a replica: %t; the old history ends before %d, want %d", answer, want,
					p.follower.Following(), p.feed.secondOffset, offset+1)
			}
		})
	}
	t.Run("which come in pieces", func(t *testing.T) {
		p, s, asker, answers := begin(t)
		reader, _ := p.arrive()
		for i := range last {
			if answer := p.do(reader, "PING"); answer != "+PONG\r\n" {
				t.Fatal(answer)
			}
			s.say(last[i : i+1])
		}
		promoted(t, p, answers.take(t, "\r\n"), "+CONTINUE", end)
		if got := p.do(reader, "GET b"); got != "$1\r\n2\r\n" {
			t.Errorf("the last write is lost: %q", got)
		}
		p.do(reader, "SET c 3")
		if got, want := answers.take(t, wire("SET c 3")), wire("SELECT 0")+wire("SET c 3"); got != want {
			t.Errorf("the stream continues with %q, want %q", got, want)
		}
		p.Do(func() {
			if asker.Is(client.Blocked) || p.Clients().Len() != 2 {
				t.Errorf("the new replica waits: %t; %d clients", asker.Is(client.Blocked), p.Clients().Len())
			}
		})
	})
	t.Run("and the link ends before them", func(t *testing.T) {
		p, s, asker, answers := begin(t)
		s.listener.Close()
		s.conn.Close()
		promoted(t, p, answers.take(t, "\r\n"), "+FULLRESYNC", int64(len(first)))
		p.waitFor("the copy", func() bool { return asker.ReplicaState.(*replica).state != waiting })
	})
	t.Run("and they never come", func(t *testing.T) {
		p, _, asker, answers := begin(t)
		p.Do(func() { p.settings.SyncDelay.Set(1) }) // PSYNC has no reply yet, and its client waits no longer
		p.waitFor("the promotion", func() bool { return !p.follower.Following() && !asker.Is(client.Blocked) })
		p.waitFor("the copy", func() bool {
			p.feed.Tick(p.SteadyMs() + 1100)
			return asker.ReplicaState.(*replica).state != waiting
		})
		answer := answers.take(t, "+FULLRESYNC")
		promoted(t, p, strings.TrimLeft(answer, "\n"), "+FULLRESYNC", int64(len(first)))
	})
	t.Run("and the answer gets lost", func(t *testing.T) {
		p, s, asker, answers := begin(t)
		s.say(last)
		promoted(t, p, answers.take(t, "\r\n"), "+CONTINUE", end)
		p.Closed(asker)
		again, _ := p.arrive()
		p.do(again, "REPLCONF capa eof capa psync2")
		answer := p.do(again, fmt.Sprintf("PSYNC %s %d FAILOVER", otherHistory, end+1))
		promoted(t, p, answer, "+CONTINUE", end)
		other, _ := p.arrive()
		if got := p.do(other, fmt.Sprintf("PSYNC %s 1 FAILOVER", noID)); !strings.HasPrefix(got, "-ERR PSYNC FAILOVER") {
			t.Errorf("of another history: %q", got)
		}
	})
	t.Run("and the asker leaves", func(t *testing.T) {
		p, s, asker, _ := begin(t)
		p.Closed(asker)
		s.say(last)
		s.awaitAck(end)
		p.Do(func() {
			if !p.follower.Following() || p.Core.BlockedClients() != 0 {
				t.Errorf("a replica: %t; %d clients wait", p.follower.Following(), p.Core.BlockedClients())
			}
		})
	})
	t.Run("and an operator promotes the replica", func(t *testing.T) {
		p, _, _, answers := begin(t)
		operator, _ := p.arrive()
		p.do(operator, "REPLICAOF NO ONE")
		if got := answers.take(t, "\r\n"); got != "-ERR PSYNC FAILOVER can't be sent to a master.\r\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("and a pause holds them", func(t *testing.T) {
		p, s, _, answers := begin(t)
		p.Do(func() { p.PauseFor(engine.PauseByClient, false, 1_000_000) })
		s.say(last)
		p.waitFor("the hold", func() bool { return p.follower.primary.Is(client.Blocked) })
		p.Do(func() { p.Unpause(engine.PauseByClient) })
		promoted(t, p, answers.take(t, "\r\n"), "+CONTINUE", end)
	})
}

// TestKilledLinkComesBack: CLIENT KILL of the link is as if the primary had closed it.
func TestKilledLinkComesBack(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	p.Do(func() { p.follower.Follow(s.address()) })
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 7\r\n$0\r\n" + wire("SELECT 3"))
	s.awaitAck(7 + int64(len(wire("SELECT 3"))))
	p.Do(func() { p.Expel(p.follower.primary, false) })
	if got, want := s.greet(), fmt.Sprintf("PSYNC %s %d", otherHistory, 8+len(wire("SELECT 3"))); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	s.say("+CONTINUE\r\n" + wire("SET a 1"))
	s.awaitAck(7 + int64(len(wire("SELECT 3")+wire("SET a 1"))))
	p.Do(func() {
		if db := p.follower.primary.DB; db != 3 {
			t.Errorf("the stream continues in database %d", db)
		}
		if !p.follower.primary.Is(client.Primary) {
			t.Error("it is no primary's client")
		}
	})
}

// TestOffsetIsUnknown: a server begins to follow another. With min-replicas-to-ack it shows no offset until the stream
// continues or the full copy is in place. Without, it shows its own.
func TestOffsetIsUnknown(t *testing.T) {
	for _, reply := range []string{"+CONTINUE\r\n", "+FULLRESYNC " + otherHistory + " 70\r\n$0\r\n"} {
		p := newPrimary(t)
		s := newSource(t, p)
		p.Do(func() {
			p.feed.moveTo(70)
			p.follower.Follow(s.address())
		})
		s.greet()
		if got := p.feed.Offset(); got != 70 {
			t.Errorf("without min-replicas-to-ack the offset is %d", got)
		}
		p.Do(func() { p.feed.settings.MinAck.Set(1) })
		if got := p.feed.Offset(); got != 0 {
			t.Errorf("before %q the offset is %d", reply, got)
		}
		s.say(reply)
		p.waitFor("the offset", func() bool { return p.feed.Offset() == 70 })
	}
}

// TestPauseHoldsTheStream: bytes that a primary sends during CLIENT PAUSE are read, but not applied before the pause
// ends.
func TestPauseHoldsTheStream(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	p.Do(func() { p.follower.Follow(s.address()) })
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 0\r\n$0\r\n")
	s.awaitAck(0)
	p.Do(func() { p.PauseFor(engine.PauseByClient, false, 1_000_000) })
	text := wire("SET a 1")
	s.say(text)
	p.waitFor("the bytes", func() bool { return p.follower.wire.unapplied.Load() == int64(len(text)) })
	p.waitFor("the hold", func() bool { return p.follower.primary.Is(client.Blocked) })
	if p.feed.offset != 0 {
		t.Errorf("applied up to %d", p.feed.offset)
	}
	p.Do(func() { p.Unpause(engine.PauseByClient) })
	s.awaitAck(int64(len(text)))
}

// A recording is a connection from which a fixed text is read. It drops the bytes written to it.
type recording struct {
	net.Conn
	text *strings.Reader
}

func (r recording) Read(p []byte) (int, error)  { return r.text.Read(p) }
func (r recording) Write(p []byte) (int, error) { return len(p), nil }
func (r recording) Close() error                { return nil }
func (r recording) LocalAddr() net.Addr         { return &net.TCPAddr{} }
func (r recording) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// FuzzStream: for any stream of a primary, the bytes that count as applied have arrived, and are passed on byte for
// byte (replication.H1, replication.H2).
func FuzzStream(f *testing.F) {
	f.Add(wire("SELECT 3")+wire("SET a b")+wire("MULTI")+wire("INCR n")+wire("EXEC")+wire("REPLCONF GETACK *")+"\r\n"+
		wire("PING"), uint16(0))
	f.Add(wire("MULTI")+wire("SET a b")+wire("SELECT 99")+wire("NOSUCH")+wire("DISCARD")+"PING\r\n*1\r\n$-1\r\n",
		uint16(9))
	f.Add(strings.Repeat(wire("APPEND k "+strings.Repeat("v", 100)), 900), uint16(3))
	f.Fuzz(func(t *testing.T, stream string, offset uint16) {
		p := newPrimary(t)
		p.follower.parts.Loader = gulp{p}
		var calls atomic.Int32
		p.follower.parts.Dial = func(context.Context, string, string) (net.Conn, error) {
			if calls.Add(1) > 1 {
				return nil, io.ErrClosedPipe
			}
			return recording{text: strings.NewReader(
				fmt.Sprintf("+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+FULLRESYNC %s %d\r\n$3\r\nRDB%s",
					otherHistory, offset, stream))}, nil
		}
		p.Do(func() { p.follower.Follow(Address{"h", 1}) })
		p.waitFor("the end of the link", func() bool { return calls.Load() > 1 && p.follower.wire == nil })
		p.Do(func() {
			n := p.feed.offset - int64(offset)
			kept := make([]byte, n)
			if n < 0 || n > int64(len(stream)) || p.feed.log.read(kept, int64(offset)) != int(n) || string(kept) != stream[:n] {
				t.Errorf("offset %d of %d bytes, and %.100q is handed on", n, len(stream), kept)
			}
			p.follower.Promote()
			p.feed.log.free()
		})
	})
}

// dialOnlyLinks has the follower not ask its primary for the version.
func dialOnlyLinks(p *primary) {
	p.follower.parts.Dial = func(ctx context.Context, address, source string) (net.Conn, error) {
		if pc, _, _, _ := runtime.Caller(1); strings.HasSuffix(runtime.FuncForPC(pc).Name(), "askInfo") {
			return nil, errors.New("a test")
		}
		return Dial(ctx, address, source)
	}
}

// TestUnknownCommandStops: the stream ends before a command that this server does not understand, anywhere in a batch
// or a transaction. The next stream begins with this command. Commands before it count once. A command that fails for
// another reason is skipped, and so is an unknown one if the setting says so.
func TestUnknownCommandStops(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	dialOnlyLinks(p)
	p.follower.settings.Rows()
	at := int64(100)
	expect := func(n int64, why string) {
		t.Helper()
		if got, want := s.greet(), fmt.Sprintf("PSYNC %s %d", otherHistory, at+1); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		p.Do(func() {
			if got := p.follower.link.why; !strings.Contains(got, why) {
				t.Errorf("why: %q, want %q", got, why)
			}
		})
		reader, _ := p.arrive()
		if got, want := p.do(reader, "GET n"), fmt.Sprintf("$1\r\n%d\r\n", n); got != want {
			t.Fatalf("n: %q, want %q", got, want)
		}
	}
	p.Do(func() { p.follower.Follow(s.address()) })
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 100\r\n$0\r\n" + wire("SET a x") + wire("INCR a") + wire("INCR n") +
		wire("NONSENSE x") + wire("INCR n"))
	at += int64(len(wire("SET a x") + wire("INCR a") + wire("INCR n")))
	expect(1, "unknown command 'NONSENSE'")
	s.say("+CONTINUE\r\n" + wire("NONSENSE x"))
	expect(1, "unknown command 'NONSENSE'")
	s.say("+CONTINUE\r\n" + wire("MULTI") + wire("INCR n") + wire("NONSENSE x") + wire("EXEC"))
	expect(1, "unknown command 'NONSENSE'")
	s.say("+CONTINUE\r\n" + wire("INCR n") + wire("SET a b NONSENSE"))
	at += int64(len(wire("INCR n")))
	expect(2, "syntax error")
	s.say("+CONTINUE\r\n" + wire("GET"))
	expect(2, "wrong number of arguments")
	s.say("+CONTINUE\r\n" + wire("MULTI") + wire("INCR n") + wire("SET a b NONSENSE") + wire("INCR n") + wire("EXEC"))
	if got := s.greet(); got != "PSYNC ? -1" { // it has run: only a full copy makes the data equal again
		t.Fatalf("%s, want a full copy", got)
	}
	p.follower.settings.IgnoreUnknown.Set(true)
	s.say("+FULLRESYNC " + otherHistory + " 100\r\n$0\r\n" + wire("NONSENSE x") + wire("GET"))
	s.awaitAck(100 + int64(len(wire("NONSENSE x")+wire("GET"))))
}

// TestRefusedTransactionStops: this server has no memory for a transaction of its primary, and refuses its EXEC. The
// stream ends before the transaction.
func TestRefusedTransactionStops(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	dialOnlyLinks(p)
	short := &part.Barrier{Name: "short", Refuse: func(_ *client.Client, call part.Call) error {
		if call.Spec.Has(command.RunsQueue) {
			return protocol.ErrNoMemory
		}
		return nil
	}}
	p.AddOwnBarriers(short)
	p.Subscribe(part.Listeners{ExecRefused: tx.NewWatches(nil).Abort})
	p.Do(func() {
		p.Raise(short, true)
		p.follower.Follow(s.address())
	})
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 100\r\n$0\r\n" + wire("MULTI") + wire("INCR n") + wire("EXEC"))
	if got, want := s.greet(), "PSYNC "+otherHistory+" 101"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	p.Do(func() { p.Raise(short, false) })
	s.say("+CONTINUE\r\n" + wire("MULTI") + wire("INCR n") + wire("EXEC"))
	s.awaitAck(100 + int64(len(wire("MULTI")+wire("INCR n")+wire("EXEC"))))
}

// slow returns the row of SLOW [error | nothing]: it sets a to 1 and lends the turn until end. Then it sets b to 1, or
// fails with a syntax error, as a script does. With nothing, it fails without having set a.
func slow(end *atomic.Bool) command.Spec {
	set := func(c *command.Context, key string) {
		c.DB.SetString([]byte(key), []byte("1"), 0)
		c.Changed(1)
	}
	return command.Spec{Name: "slow", Arity: -1, Flags: command.Write, Run: func(c *command.Context) error {
		fails := len(c.Args) > 1
		if !fails || string(c.Args[1]) != "nothing" {
			set(c, "a")
		}
		c.Core.Lend(c, func(c *command.Context) (over bool, err error) {
			switch {
			case !end.Load():
				return false, nil
			case fails:
				return false, protocol.ErrSyntax
			}
			set(c, "b")
			c.Reply.OK()
			return true, nil
		})
		return nil
	}}
}

// TestLentCommandCountsAtItsEnd: a script of an older primary lends the turn. Its bytes count when it has ended, in the
// same turn and before any function of Between. So do those of a transaction with such a script. (replication.H2)
func TestLentCommandCountsAtItsEnd(t *testing.T) {
	for _, unit := range []string{wire("SLOW"), wire("MULTI") + wire("INCR n") + wire("SLOW") + wire("EXEC")} {
		for _, rest := range []string{"", wire("SET c 1") + wire("REPLCONF GETACK *")} {
			var end atomic.Bool
			p := newPrimary(t, slow(&end))
			s := newSource(t, p)
			p.Do(func() { p.follower.Follow(s.address()) })
			s.greet()
			first := wire("SET z 1")
			s.say("+FULLRESYNC " + otherHistory + " 100\r\n$0\r\n" + first + unit + rest)
			p.waitFor("the script", p.Lent)
			p.Do(func() {
				if at := p.feed.offset; at > 100+int64(len(first)) {
					t.Errorf("%q counts before its end: offset %d", unit, at)
				}
				p.Between(func() {
					if at := p.feed.offset; at != 100+int64(len(first+unit)) {
						t.Errorf("%q: offset %d at its end", unit, at)
					}
				})
			})
			end.Store(true)
			s.awaitAck(100 + int64(len(first+unit+rest)))
		}
	}
}

// TestFailedScriptStops: a script of an older primary ends with an error that is not understood, at once or after it
// has lent the turn. If it has written, or was part of a transaction, it counts, and a full copy is asked for.
// Otherwise the stream ends before the script. No write is applied twice.
func TestFailedScriptStops(t *testing.T) {
	at := fmt.Sprintf("PSYNC %s %d", otherHistory, 101+len(wire("SET z 1")))
	for unit, want := range map[string]string{
		wire("SLOW error"):   "PSYNC ? -1",
		wire("SLOW nothing"): at,
		wire("MULTI") + wire("SLOW nothing") + wire("EXEC"): "PSYNC ? -1",
		wire("BRIEF error"):   "PSYNC ? -1",
		wire("BRIEF nothing"): at,
	} {
		for _, rest := range []string{"", wire("SET c 1")} {
			var end atomic.Bool
			brief := command.Spec{Name: "brief", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
				if string(c.Args[1]) != "nothing" {
					c.DB.SetString([]byte("a"), []byte("1"), 0)
					c.Changed(1)
				}
				return protocol.ErrSyntax
			}}
			p := newPrimary(t, slow(&end), brief)
			s := newSource(t, p)
			dialOnlyLinks(p)
			p.Do(func() { p.follower.Follow(s.address()) })
			s.greet()
			s.say("+FULLRESYNC " + otherHistory + " 100\r\n$0\r\n" + wire("SET z 1") + unit + rest)
			if strings.Contains(unit, "SLOW") {
				p.waitFor("the script", p.Lent)
				end.Store(true)
			}
			if got := s.greet(); got != want {
				t.Errorf("%q: %s, want %s", unit, got, want)
			}
			reader, _ := p.arrive()
			if got := p.do(reader, "GET c"); got != "$-1\r\n" {
				t.Errorf("c is %q: a command ran after the end of the stream", got)
			}
		}
	}
}

// A breaker is a CopyLoader whose copy fails after the present data were dropped.
type breaker struct{ p *primary }

func (b breaker) Load(_ *Copy, begin func() bool, _ func(db int)) error {
	b.p.Do(func() { begin() })
	return errors.New("the copy is damaged")
}

// An aheadReader is a CopyLoader whose goroutine still reads the connection when the load has failed.
type aheadReader struct{ p *primary }

func (a aheadReader) Load(c *Copy, begin func() bool, _ func(db int)) error {
	a.p.Do(func() { begin() })
	go io.Copy(io.Discard, c.Stream)
	<-time.After(10 * time.Millisecond)
	return errors.New("the copy is damaged")
}

// TestReadAheadOfADamagedCopy: the load of a copy fails while another goroutine reads the rest. The link is closed, and
// tries again. The race detector watches.
func TestReadAheadOfADamagedCopy(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	p.follower.parts.Loader = aheadReader{p}
	p.Do(func() { p.follower.Follow(s.address()) })
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 0\r\n$1000000000\r\n")
	go func(to net.Conn) {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(to, "RDB")
		}
	}(s.conn)
	if got := s.greet(); got != "PSYNC ? -1" {
		t.Error(got)
	}
}

// TestWritesBeforeReplicaOf: a transaction writes, makes this primary a replica, and writes again. No replica gets a
// part of it. So no replica may continue the old history, also after a promotion before the full copy.
func TestWritesBeforeReplicaOf(t *testing.T) {
	p := newPrimary(t)
	p.online()
	writer, _ := p.arrive()
	p.do(writer, "SET a 1")
	id, end := p.feed.ID, p.feed.offset
	p.do(writer, "MULTI", "SET b 2", "REPLICAOF 127.0.0.1 1", "SET c 3", "EXEC")
	if p.feed.offset != end {
		t.Errorf("the stream got %d bytes of the transaction", p.feed.offset-end)
	}
	p.do(writer, "REPLICAOF NO ONE")
	if answer, _, _ := p.continueAt(id, end); !strings.HasPrefix(answer, "+FULLRESYNC") {
		t.Errorf("%q, and b = %q", answer, p.do(writer, "GET b"))
	}
}

// TestDroppedDataHaveNoHistory: a replica drops its data for a full copy, which then fails. After a promotion none of
// its replicas may continue the history of the dropped data, because their data differ from those here.
func TestDroppedDataHaveNoHistory(t *testing.T) {
	p := newPrimary(t)
	s := newSource(t, p)
	p.Do(func() { p.follower.Follow(s.address()) })
	s.greet()
	s.say("+FULLRESYNC " + otherHistory + " 0\r\n$0\r\n" + wire("SET a 1"))
	end := int64(len(wire("SET a 1")))
	s.awaitAck(end)
	if answer, _, _ := p.continueAt(otherHistory, end); !strings.HasPrefix(answer, "+CONTINUE") {
		t.Fatalf("%q before the copy", answer)
	}
	p.Do(func() { p.follower.parts.Loader = breaker{p} })
	s.conn.Close()
	s.greet()
	s.say("+FULLRESYNC " + strings.Repeat("e", 40) + " 100\r\n$0\r\n")
	s.greet() // after the failure
	p.Do(p.follower.Promote)
	if answer, _, _ := p.continueAt(otherHistory, end); !strings.HasPrefix(answer, "+FULLRESYNC") {
		t.Errorf("%q", answer)
	}
}
