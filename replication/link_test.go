package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A fakeOutside is an Outside that records the calls of a Link.
type fakeOutside struct {
	terms  Terms
	id     string
	offset int64
	known  bool
	did    []string
}

func (s *fakeOutside) note(format string, args ...any) {
	s.did = append(s.did, fmt.Sprintf(format, args...))
}

func (s *fakeOutside) Terms() Terms                    { return s.terms }
func (s *fakeOutside) History() (string, int64, bool)  { return s.id, s.offset, s.known }
func (s *fakeOutside) Dial(host string, port int)      { s.note("dial %s:%d", host, port) }
func (s *fakeOutside) Send(words ...string)            { s.note("%s", strings.Join(words, " ")) }
func (s *fakeOutside) HangUp()                         { s.note("hang up") }
func (s *fakeOutside) Receive(id string, offset int64) { s.note("receive %s %d", id[:4], offset) }
func (s *fakeOutside) Continue(id string)              { s.note("continue %s", id[:4]) }
func (s *fakeOutside) Acknowledge()                    { s.note("ack") }
func (s *fakeOutside) Answered(accepted bool)          { s.note("accepted %t", accepted) }
func (s *fakeOutside) take() (did []string)            { did, s.did = s.did, nil; return did }

func newLink() (*Link, *fakeOutside) {
	s := &fakeOutside{terms: Terms{Port: 7000, PatienceMs: 60_000}, id: strings.Repeat("a", 40)}
	return &Link{log: quiet{}, other: s}, s
}

// expect fails unless want is what the link has done since the last call.
func (s *fakeOutside) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := s.take(); !slices.Equal(got, want) {
		t.Fatalf("did %q, want %q", got, want)
	}
}

// other is the name of another history.
var other = strings.Repeat("b", 40)

// begin returns a link that dials.
func begin() (*Link, *fakeOutside) {
	l, s := newLink()
	l.Begin("h", 1, 1000)
	return l, s
}

// ask takes a link that dials up to its PSYNC, and returns the PSYNC.
func (s *fakeOutside) ask(l *Link, nowMs int64) string {
	l.Connected(nowMs)
	l.Line("+PONG", nowMs)
	for len(l.steps) > 0 {
		l.Line("+OK", nowMs)
	}
	did := s.take()
	return did[len(did)-1]
}

// TestLinkHandshake: what the link sends, in order, up to a full copy and the stream after it.
func TestLinkHandshake(t *testing.T) {
	l, s := newLink()
	s.terms = Terms{User: "u", Password: "p", Port: 7000, Address: "10.0.0.9", PatienceMs: 60_000}
	l.Begin("h", 1, 1000)
	s.expect(t, "dial h:1")
	l.Connected(1001)
	s.expect(t, "PING")
	l.Line("-NOAUTH Authentication required.", 1002)
	s.expect(t, "AUTH u p", "REPLCONF listening-port 7000", "REPLCONF ip-address 10.0.0.9",
		"REPLCONF capa eof capa psync2", "REPLCONF capa hash-field-deadlines capa bloom capa rdb-15 capa stream-messages",
		"REPLCONF version "+likeVersion)
	for _, line := range []string{"+OK", "-ERR unknown", "+OK", "+OK", "+OK"} {
		l.Line(line, 1003)
		s.expect(t)
	}
	l.Line("+OK", 1003)
	s.expect(t, "PSYNC ? -1")
	l.Line("", 1004)
	l.Line("+FULLRESYNC "+other+" 77", 1005)
	s.expect(t, "receive bbbb 77")
	if l.state.String() != "sync" || l.Up() {
		t.Errorf("%v", l.state)
	}
	l.Taken(1006)
	s.expect(t, "ack")
	l.Tick(1500)
	s.expect(t)
	l.Tick(2006)
	s.expect(t, "ack")
	if !l.Up() {
		t.Error("the link is not up")
	}
}

// TestLinkContinues: the link asks for the first byte that it lacks, as soon as the stream is lost.
func TestLinkContinues(t *testing.T) {
	l, s := begin()
	s.known, s.offset = true, 99
	asked := func(nowMs int64, answer, did string) {
		t.Helper()
		if got, want := s.ask(l, nowMs), "PSYNC "+s.id+" 100"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		l.Line(answer, nowMs)
		s.expect(t, did)
	}
	asked(1001, "+CONTINUE "+other, "continue bbbb")
	l.Lost(5000, "")
	s.expect(t, "hang up", "dial h:1")
	if l.downSinceMs != 5000 {
		t.Errorf("down since %d", l.downSinceMs)
	}
	asked(5001, "+CONTINUE", "continue aaaa") // one that names no history has the same
}

// TestLinkRefusals: other replies that a peer may send, and what the link does then.
func TestLinkRefusals(t *testing.T) {
	for _, c := range []struct {
		line  string
		state linkState
		did   []string
	}{
		{"-ERR unknown command 'PSYNC'", receiving, []string{"SYNC", "receive 0000 -1"}},
		{"garbage", receiving, []string{"SYNC", "receive 0000 -1"}},
		{"-LOADING Redis is loading the dataset in memory", wanting, []string{"hang up"}},
		{"-NOMASTERLINK Can't SYNC while not connected with my master", wanting, []string{"hang up"}},
		{"+FULLRESYNC", wanting, []string{"hang up"}},
		{"+FULLRESYNC " + other + " -5", wanting, []string{"hang up"}},
		{"+FULLRESYNC " + other[1:] + " 5", wanting, []string{"hang up"}},
		{"+FULLRESYNC " + other + " 5x", wanting, []string{"hang up"}},
	} {
		l, s := begin()
		s.ask(l, 1003)
		if l.Line(c.line, 1010); l.state != c.state {
			t.Errorf("%s: %v", c.line, l.state)
		}
		s.expect(t, c.did...)
	}
	l, s := begin()
	l.Connected(1000)
	s.take()
	l.Line("-LOADING", 1000)
	s.expect(t, "hang up")
	l.Tick(1900)
	s.expect(t)
	l.Tick(2000)
	s.expect(t, "dial h:1")
	s.terms.Password = "p"
	l.Connected(2001)
	l.Line("+PONG", 2002)
	s.take()
	l.Line("-WRONGPASS", 2003)
	s.expect(t, "hang up")
}

// TestLinkOfSync: a peer that knows no PSYNC gets no acknowledgements.
func TestLinkOfSync(t *testing.T) {
	l, s := begin()
	s.ask(l, 1003)
	l.Line("-ERR unknown command", 1010)
	s.take()
	l.Taken(1020)
	l.Tick(5000)
	l.Asked(5000)
	s.expect(t)
}

// TestLinkNoticesSilence: the link notices silence in every state that waits for the peer, but not before its patience
// is over.
func TestLinkNoticesSilence(t *testing.T) {
	for _, to := range []linkState{dialing, greeting, introducing, asking, receiving, following} {
		l, s := begin()
		l.state, l.since, l.ackMs = to, 5000, 70_000
		s.take()
		l.Tick(65_000)
		if len(s.take()) != 0 {
			t.Errorf("%v: it gave up early", to)
		}
		if l.Tick(65_001); l.since == 5000 || !slices.Contains(s.take(), "hang up") {
			t.Errorf("%v: it waits on", to)
		}
	}
}

// TestLinkCounts: tries count since the stream last ended and since Begin, and so does the time without a stream.
func TestLinkCounts(t *testing.T) {
	l, s := begin()
	l.Lost(1500, "refused")
	l.Tick(5000)
	s.ask(l, 5000)
	check := func(when string, tries, all, lostMs, nowMs int64) {
		t.Helper()
		if l.tries != tries || l.allTries != all || l.LostMs(nowMs) != lostMs {
			t.Errorf("%s: %d tries of %d, lost for %d ms; want %d of %d, %d ms", when, l.tries, l.allTries,
				l.LostMs(nowMs), tries, all, lostMs)
		}
	}
	check("before the first stream", 2, 2, 0, 5000)
	l.Line("+CONTINUE "+other, 5000)
	check("with a stream", 2, 2, 0, 9000)
	l.Lost(10_000, "EOF") // it dials at once
	check("without a stream", 1, 3, 2000, 12_000)
	s.ask(l, 12_000)
	l.Line("+CONTINUE "+other, 13_000)
	check("with a second stream", 1, 3, 3000, 20_000)
	l.Begin("i", 2, 30_000)
	check("with another primary", 1, 1, 0, 31_000)
}

// TestLinkTakesOver: the first PSYNC asks the peer to take over, the next one does not. A link that is refused stops.
func TestLinkTakesOver(t *testing.T) {
	l, s := begin()
	s.known, s.offset, l.failover = true, 9, true
	for _, want := range []string{"PSYNC " + s.id + " 10 FAILOVER", "PSYNC " + s.id + " 10"} {
		if got := s.ask(l, 1001); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if strings.HasSuffix(want, "FAILOVER") {
			l.Line("-ERR no", 1004)
			s.expect(t, "accepted false")
			l.Lost(1005, "")
			l.Tick(3000)
		}
	}
}

// FuzzLink: whatever a peer sends, and whenever it leaves, there is at most one connection. A copy or a stream comes
// only after a PSYNC (replication.L1).
func FuzzLink(f *testing.F) {
	f.Add("+PONG\n+OK\n+OK\n+FULLRESYNC " + other + " 1\n!taken\n!lost\n")
	f.Add("-NOAUTH\n-ERR\n\n+CONTINUE\n!wait\n!tick\n-LOADING\n")
	f.Fuzz(func(t *testing.T, script string) {
		l, s := begin()
		now, connected := int64(1000), false
		for _, line := range strings.Split(script, "\n") {
			now += 300
			switch {
			case line == "!lost":
				l.Lost(now, "gone")
			case line == "!wait":
				now += 100_000
				l.Tick(now)
			case line == "!taken" && l.state == receiving:
				l.Taken(now)
			case l.state == dialing:
				l.Connected(now)
			case l.state >= greeting && l.state <= asking:
				l.Line(line, now)
			default:
				l.Tick(now)
			}
			for _, did := range s.take() {
				switch {
				case strings.HasPrefix(did, "dial "):
					if connected {
						t.Fatal("replication.L1: two connections")
					}
					connected = true
				case did == "hang up":
					connected = false
				case !connected:
					t.Fatalf("replication.L1: %q without a connection", did)
				}
			}
		}
	})
}

// TestLinkRetries: the link asks again at once after the first copy that was cut off. After a copy that cannot be read,
// it rests first.
func TestLinkRetries(t *testing.T) {
	for _, cutOff := range []bool{true, false} {
		l, s := begin()
		s.ask(l, 1003)
		l.Line("+FULLRESYNC "+other+" 7", 1010)
		s.take()
		l.Failed(2000, cutOff, "a test")
		if cutOff {
			s.expect(t, "hang up", "dial h:1")
			continue
		}
		l.Tick(2000 + retryMs - 1)
		s.expect(t, "hang up")
		l.Tick(2000 + retryMs)
		s.expect(t, "dial h:1")
	}
}

// TestLinkBacksOff: failures in a row make the rests longer, up to a bound, which is smaller for a peer that cannot be
// reached. After a stream that lasts, the next failure counts as the first; after a short stream it does not. Begin and
// Hurry forget all failures.
func TestLinkBacksOff(t *testing.T) {
	now := int64(1_000_000)
	// rests makes the link fail n times. It returns how many seconds the link rests each time.
	rests := func(l *Link, s *fakeOutside, n int, fail func()) (seconds []int64) {
		for range n {
			fail()
			s.take()
			from := now
			for l.state == wanting {
				now += 100
				l.Tick(now)
			}
			seconds = append(seconds, (now-from)/1000)
		}
		return seconds
	}
	expect := func(what string, got []int64, want ...int64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: it rests for %v seconds, want %v", what, got, want)
		}
	}
	stream := func(l *Link, s *fakeOutside, lasts int64) {
		s.ask(l, now)
		l.Line("+CONTINUE", now)
		for range lasts / 1000 {
			now += 1000
			l.Alive(now)
			l.Tick(now)
		}
	}
	l, s := newLink()
	l.Begin("h", 1, now)
	copied := func() {
		s.ask(l, now)
		l.Line("+FULLRESYNC "+other+" 7", now)
		l.Failed(now, true, "a test")
	}
	unread := func() {
		s.ask(l, now)
		l.Line("+FULLRESYNC "+other+" 7", now)
		l.Failed(now, false, "a test")
	}
	expect("copies that are cut off", rests(l, s, 8, copied), 0, 1, 2, 4, 8, 16, 30, 30)
	if l.why != "a test" {
		t.Errorf("why: %q", l.why)
	}
	stream(l, s, 3000)
	if l.why != "" {
		t.Errorf("why, while the stream flows: %q", l.why)
	}
	expect("after a short stream", rests(l, s, 1, func() { l.Lost(now, "gone") }), 5)
	expect("after a copy and a short stream", rests(l, s, 1, func() {
		s.ask(l, now)
		l.Line("+FULLRESYNC "+other+" 7", now)
		l.Taken(now)
		l.Lost(now, "gone")
	}), 30)
	stream(l, s, 12_000)
	expect("after a stream that lasted", rests(l, s, 3, func() {
		if l.state != following {
			stream(l, s, 0)
		}
		l.Lost(now, "gone")
	}), 0, 1, 2)
	l.Begin("h", 1, now)
	expect("copies that cannot be read", rests(l, s, 6, unread), 1, 2, 4, 8, 16, 30)
	unread()
	l.Hurry(now)
	if l.state != dialing {
		t.Error("Hurry does not dial")
	}
	expect("after Hurry", rests(l, s, 2, unread), 1, 2)
	expect("nobody there", rests(l, s, 5, func() { l.Lost(now, "refused") }), 1, 2, 4, 5, 5)
	expect("then a copy that cannot be read", rests(l, s, 1, unread), 4)
	expect("then nobody there", rests(l, s, 2, func() { l.Lost(now, "refused") }), 1, 2)
	l.jitter = func(ms int64) int64 { return ms / 4 }
	l.Begin("h", 1, now)
	unread()
	if l.retryAt != now+retryMs*3/4 {
		t.Errorf("with jitter it rests for %d ms", l.retryAt-now)
	}
}
