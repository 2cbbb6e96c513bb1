package sentinel

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol/respclient"
)

// A quiet is an Outside that does nothing.
type quiet struct {
	events []string
	sent   [][]string
	conns  []*Wire
	saves  int
	cannot bool // makes Save fail
	logged []string
}

type quietConn struct{ q *quiet }

func (c quietConn) Send(words ...string)    { c.q.sent = append(c.q.sent, slices.Clone(words)) }
func (c quietConn) Close()                  {}
func (c quietConn) LocalIP() (string, bool) { return "10.9.9.9", true }

func (q *quiet) Dial(w *Wire, _ string, _ int) Conn {
	q.conns = append(q.conns, w)
	return quietConn{q}
}

func (q *quiet) Save() error {
	if q.cannot {
		return errors.New("no space")
	}
	q.saves++
	return nil
}

func (q *quiet) Lookup(string)                   {}
func (q *quiet) LookupNow(string) (string, bool) { return "", false }
func (q *quiet) Publish(event, text string)      { q.events = append(q.events, event+" "+text) }
func (q *quiet) Log(_ logging.Level, s string)   { q.logged = append(q.logged, s) }
func (q *quiet) StartScript(int, []string)       {}
func (q *quiet) KillScript(int)                  {}
func (q *quiet) Crash()                          {}
func (q *quiet) Port() int                       { return 26379 }
func (q *quiet) Password() string                { return "" }
func (q *quiet) Executable(string) bool          { return true }

// watching returns a Machine that watches one primary, m, and the Machine's Outside.
func watching(t testing.TB, lines ...Directive) (*Machine, *quiet) {
	t.Helper()
	q := &quiet{}
	m := New(q, rand.New(rand.NewPCG(1, 2)), 1_000_000)
	if err := m.Configure(append([]Directive{{"monitor", "m", "10.0.0.1", "6379", "2"}}, lines...)); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(1_000_000); err != nil {
		t.Fatal(err)
	}
	return m, q
}

// readsItself checks that another Machine can read m's state, and writes back the same state.
func readsItself(t testing.TB, m *Machine) {
	t.Helper()
	again := New(&quiet{}, rand.New(rand.NewPCG(1, 2)), 1_000_000)
	var lines []Directive
	for _, line := range m.Lines() {
		if strings.ContainsAny(line.Text, "\r\n") {
			t.Fatalf("a line in two: %q", line.Text)
		}
		words, err := setting.SplitArgs(line.Text)
		if err != nil {
			t.Fatalf("%q: %v", line.Text, err)
		}
		lines = append(lines, words)
	}
	if err := again.Configure(lines); err != nil {
		t.Fatalf("%v\n%v", err, lines)
	}
	if got, want := again.Lines(), m.Lines(); !slices.Equal(got, want) {
		t.Fatalf("read back\n%v\nwant\n%v", got, want)
	}
}

// FuzzHello: the Sentinel survives any published hello, and can read back the state that it keeps.
func FuzzHello(f *testing.F) {
	const id = "0123456789abcdef0123456789abcdef01234567"
	f.Add("10.0.0.2,26379," + id + ",3,m,10.0.0.1,6379,0")
	f.Add("10.0.0.2,26379," + id + ",18446744073709551615,m,10.0.0.7,6379,9")
	f.Add("::1,0," + id + ",3,m,fe80::1%eth0,6379,1")
	f.Add("::,0," + id + ",0,m,::00,0,1")
	f.Add("a b,1,\"" + id[1:] + ",1,m,x,1,1")
	f.Fuzz(func(t *testing.T, text string) {
		m, _ := watching(t)
		for i := range int64(3) {
			m.Hello(text, 1_000_000+i*100)
			m.Tick(1_000_000 + i*100)
		}
		readsItself(t, m)
	})
}

// FuzzInfo: the Sentinel survives any INFO, and can read back the state that it keeps.
func FuzzInfo(f *testing.F) {
	f.Add("run_id:0123456789abcdef0123456789abcdef01234567\r\n"+
		"role:master\r\nslave0:ip=10.0.0.2,port=6379,state=online\r\n", false)
	f.Add("role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n"+
		"master_link_down_since_seconds:-1\r\nslave_priority:x\r\n", true)
	f.Add("slave0:1.2.3.4,5,online\r\nslave1:ip=a b,port=-1\r\n"+
		"role:slave\r\nslave_repl_offset:99999999999999999999\r\n", false)
	f.Fuzz(func(t *testing.T, text string, ofReplica bool) {
		m, q := watching(t, Directive{"known-replica", "m", "10.0.0.2", "6379"})
		m.Tick(1_000_000)
		from := m.primaries.list[0]
		if ofReplica {
			from = from.replicas.list[0]
		}
		for i := range int64(3) {
			for _, w := range q.conns {
				if w.of != from || w.subscribes {
					continue
				}
				for range w.awaited {
					m.Received(w, respclient.Value{Kind: '$', Text: text}, 1_000_000+i*1000)
				}
			}
			m.Tick(1_000_000 + i*1000)
		}
		readsItself(t, m)
	})
}

// FuzzConfiguration: lines are accepted or refused. Accepted lines can be read back from the written state.
func FuzzConfiguration(f *testing.F) {
	f.Add("monitor m 10.0.0.1 6379 2\ndown-after-milliseconds m 5\nauth-pass m \"a b\"\nrename-command m A B")
	f.Add("myid 0123456789abcdef0123456789abcdef01234567\ncurrent-epoch 7\nannounce-ip \"x y\"\nannounce-port 1")
	f.Add("known-sentinel m 1.2.3.4 5 abc\nknown-replica m 1.2.3.4 5\nmonitor m 1.1.1.1 1 1\nnotification-script m /a#b")
	f.Add("known-synced m 1.2.3.4 5 abc\nknown-acks m 1 2 \"\"\nknown-replica m 1.2.3.4 5\nmonitor m 1.1.1.1 1 1")
	f.Add("monitor m 1.1.1.1 1 1\nknown-acks m 1 2 0123456789abcdef0123456789abcdef01234567\nknown-acks m 3 0 ?")
	f.Fuzz(func(t *testing.T, text string) {
		var lines []Directive
		for line := range strings.SplitSeq(text, "\n") {
			if words, err := setting.SplitArgs(line); err == nil && len(words) > 0 {
				lines = append(lines, words)
			}
		}
		m := New(&quiet{}, rand.New(rand.NewPCG(1, 2)), 1_000_000)
		if err := m.Configure(lines); err != nil {
			if wrong := (*DirectiveError)(nil); !errors.As(err, &wrong) || wrong.Index >= len(lines) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if err := m.Start(1_000_000); err != nil {
			t.Fatal(err)
		}
		m.Tick(1_000_100)
		readsItself(t, m)
	})
}

// FuzzReplies: the Sentinel survives any reply of a server.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("+PONG\r\n-BUSY x\r\n*3\r\n:1\r\n$1\r\na\r\n:2\r\n"))
	f.Add([]byte("*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$3\r\n,,,\r\n$-1\r\n"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		m, q := watching(t, Directive{"known-sentinel", "m", "10.0.0.5", "1", strings.Repeat("c", 40)})
		m.Tick(1_000_000)
		a, b := net.Pipe()
		go func() {
			_, _ = b.Write(wire)
			b.Close()
		}()
		in := respclient.New(a)
		for now := int64(1_000_000); ; now += 500 {
			v, err := in.Receive()
			if err != nil {
				break
			}
			for _, w := range slices.Clone(q.conns) {
				m.Received(w, v, now)
			}
			m.Tick(now)
		}
		a.Close()
		readsItself(t, m)
	})
}
