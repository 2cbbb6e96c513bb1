package conn

import (
	"strings"
	"testing"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/protocol"
	"spindle/tests/testkit/commandtest"
)

// A fakeConn is a connection without a socket.
type fakeConn struct {
	protocol.Conn
	addr  string
	usage protocol.Usage
}

func (f *fakeConn) FD() int               { return 7 }
func (f *fakeConn) LocalAddr() string     { return "127.0.0.1:6379" }
func (f *fakeConn) RemoteAddr() string    { return f.addr }
func (f *fakeConn) Usage() protocol.Usage { return f.usage }
func (f *fakeConn) LastActive() int64     { return 0 }

// A server is a core with the family. It records what the family calls of the rest of the server.
type server struct {
	*commandtest.Core
	clients *client.Registry
	users   acl.Users
	refused []string // names that AUTH and HELLO refused
	killed  []int64
	self    bool
	paused  []int64
	all     bool
}

func newServer(t testing.TB) *server {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &server{clients: client.NewRegistry()}
	d := Deps{
		Clients: h.clients, Users: &h.users,
		SetUser:    func(cl *client.Client, u *acl.User) { cl.User = u },
		AuthFailed: func(_ *command.Context, user []byte) { h.refused = append(h.refused, string(user)) },
		Kill:       func(c *client.Client, isCaller bool) { h.killed = append(h.killed, c.ID); h.self = h.self || isCaller },
		Pause:      func(all bool, ms int64) { h.paused, h.all = append(h.paused, ms), all },
		Unpause:    func() { h.paused = nil },
		Unblock:    func(c *client.Client, withErr bool) bool { return c.ID == 2 && withErr },
	}
	if h.Core, err = commandtest.New(keyspace.New(heap, keyspace.Options{}), 1_000_000, Family(d)); err != nil {
		t.Fatal(err)
	}
	h.users.Begin(h.Catalogue)
	return h
}

// arrive makes a client with an address and an age in seconds.
func (h *server) arrive(addr string, age int64) *client.Client {
	cl := h.Client(2)
	cl.Flags &^= client.Fake
	cl.Conn = &fakeConn{addr: addr}
	cl.CreatedMs = h.Now() - age*1000
	cl.User = h.users.Default()
	h.clients.Add(cl)
	return cl
}

func TestAuthWithPassword(t *testing.T) {
	h := newServer(t)
	h.users.SetDefaultPassword("secret")
	cl := h.arrive("1.1.1.1:1", 0)
	cl.Authenticated = false
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	for _, c := range []struct{ line, want string }{
		{"AUTH nope", wrong}, {"AUTH secretx", wrong}, {"AUTH other secret", wrong}, {"AUTH default nope", wrong},
		{"HELLO 3 AUTH default nope SETNAME x", wrong},
	} {
		if got := h.Do(cl, strings.Fields(c.line)...); got != c.want || cl.Authenticated {
			t.Errorf("%s: %q", c.line, got)
		}
	}
	if got := h.Do(cl, "HELLO", "3"); !strings.HasPrefix(got,
		"-NOAUTH HELLO must be called with the client already authenticated") {
		t.Errorf("HELLO 3 of a stranger: %q", got)
	}
	if cl.Protocol != 2 || cl.Name != "" || cl.Out.RESP3 {
		t.Error("a refused HELLO changed something")
	}
	if got := h.Do(cl, "HELLO", "3", "AUTH", "default", "secret", "SETNAME", "x"); !strings.HasPrefix(got, "%7\r\n") ||
		!cl.Authenticated || cl.Name != "x" {
		t.Errorf("HELLO 3 AUTH: %q", got)
	}
	if got := h.Do(cl, "RESET"); got != "+RESET\r\n" || cl.Authenticated || cl.Protocol != 2 || cl.Name != "" {
		t.Errorf("RESET: %q, authenticated %t, RESP%d", got, cl.Authenticated, cl.Protocol)
	}
	if got := h.Do(cl, "AUTH", "secret"); got != "+OK\r\n" || !cl.Authenticated {
		t.Errorf("AUTH: %q", got)
	}
}

func TestAuthHidesPasswords(t *testing.T) {
	h := newServer(t)
	cl := h.arrive("1.1.1.1:1", 0)
	for _, line := range []string{"AUTH default secret", "AUTH secret",
		"HELLO 2 AUTH default secret", "HELLO 2 AUTH other secret"} {
		args := [][]byte{}
		for _, w := range strings.Fields(line) {
			args = append(args, []byte(w))
		}
		h.Serve(cl, args)
		for _, a := range args {
			if string(a) == "secret" {
				t.Errorf("%s: the password is left in the arguments", line)
			}
		}
	}
}

func TestKill(t *testing.T) {
	for _, c := range []struct {
		line, want string
		killed     []int64
		self       bool
	}{
		{"CLIENT KILL 2.2.2.2:2", "+OK\r\n", []int64{2}, false},
		{"CLIENT KILL 1.1.1.1:1", "+OK\r\n", []int64{1}, true},
		{"CLIENT KILL ADDR 1.1.1.1:1", ":0\r\n", nil, false},
		{"CLIENT KILL ADDR 1.1.1.1:1 SKIPME no", ":1\r\n", []int64{1}, true},
		{"CLIENT KILL TYPE normal", ":1\r\n", []int64{2}, false},
		{"CLIENT KILL TYPE slave", ":1\r\n", []int64{3}, false},
		{"CLIENT KILL TYPE pubsub SKIPME yes", ":1\r\n", []int64{4}, false},
		{"CLIENT KILL ID 3 ADDR 3.3.3.3:3", ":1\r\n", []int64{3}, false},
		{"CLIENT KILL ID 3 ADDR 4.4.4.4:4", ":0\r\n", nil, false},
		{"CLIENT KILL MAXAGE 100", ":2\r\n", []int64{3, 4}, false},
		{"CLIENT KILL LADDR 127.0.0.1:6379 USER default MAXAGE 1000", ":1\r\n", []int64{4}, false},
	} {
		h := newServer(t)
		caller := h.arrive("1.1.1.1:1", 5)
		h.arrive("2.2.2.2:2", 50)
		h.arrive("3.3.3.3:3", 100).Flags |= client.Replica
		h.arrive("4.4.4.4:4", 1000).Flags |= client.PubSub
		got := h.Do(caller, strings.Fields(c.line)...)
		if got != c.want || h.self != c.self || len(h.killed) != len(c.killed) {
			t.Errorf("%s: %q, killed %v, caller too: %t", c.line, got, h.killed, h.self)
			continue
		}
		for i := range c.killed {
			if h.killed[i] != c.killed[i] {
				t.Errorf("%s: killed %v, want %v", c.line, h.killed, c.killed)
			}
		}
	}
}

// TestKillCountsWholeSeconds: a client's age is the difference of two Unix times in seconds.
func TestKillCountsWholeSeconds(t *testing.T) {
	for _, c := range []struct {
		createdMs int64 // before the present second
		want      string
	}{{99_001, ":1\r\n"}, {99_000, ":0\r\n"}, {100_999, ":0\r\n"}} {
		h := newServer(t)
		caller := h.arrive("1.1.1.1:1", 0)
		h.arrive("2.2.2.2:2", 0).CreatedMs = h.Now()/1000*1000 - c.createdMs
		maxAge := "100"
		if c.createdMs > 100_000 {
			maxAge = "102"
		}
		if got := h.Do(caller, "CLIENT", "KILL", "MAXAGE", maxAge); got != c.want {
			t.Errorf("created %d ms before: %q, want %q", c.createdMs, got, c.want)
		}
	}
}

func TestListLine(t *testing.T) {
	h := newServer(t)
	caller := h.arrive("1.1.1.1:1", 5)
	other := h.arrive("2.2.2.2:2", 7)
	other.Flags |= client.Multi | client.NoEvict | client.Unix
	other.Queue = &client.Queue{Commands: make([]client.Queued, 2), Bytes: 99}
	other.LastMs, other.DB, other.Name, other.Protocol, other.LastCommand = h.Now()-3000, 4, "n", 3, "get"
	other.Conn.(*fakeConn).usage = protocol.Usage{Query: 1, QueryFree: 2, Output: 70, Pieces: 3, ReplyCap: 16, Total: 1000}
	got := h.Do(caller, "CLIENT", "LIST", "ID", "2")
	want := "id=2 addr=2.2.2.2:2 laddr=127.0.0.1:6379 fd=7 name=n age=7 idle=3 flags=xUe db=4 sub=0 psub=0 ssub=0 " +
		"multi=2 watch=0 " +
		"qbuf=1 qbuf-free=2 argv-mem=0 multi-mem=99 rbs=16 rbp=16 obl=0 oll=3 omem=70 tot-mem="
	if !strings.Contains(got, want) || !strings.HasSuffix(got,
		" events=rw cmd=get user=default redir=-1 resp=3 lib-name= lib-ver=\n\r\n") {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestPauseAndUnblock(t *testing.T) {
	h := newServer(t)
	caller := h.arrive("1.1.1.1:1", 0)
	h.arrive("2.2.2.2:2", 0)
	if h.Do(caller, "CLIENT", "PAUSE", "500", "WRITE"); len(h.paused) != 1 || h.paused[0] != 500 || h.all {
		t.Errorf("PAUSE WRITE: %v %t", h.paused, h.all)
	}
	if h.Do(caller, "CLIENT", "PAUSE", "1"); !h.all {
		t.Error("PAUSE is for all unless it says WRITE")
	}
	if got := h.Do(caller, "CLIENT", "PAUSE", "9223372036854775807"); got != "-ERR timeout is out of range\r\n" {
		t.Errorf("a pause past the end of time: %q", got)
	}
	for line, want := range map[string]string{"CLIENT UNBLOCK 2 ERROR": ":1\r\n", "CLIENT UNBLOCK 2": ":0\r\n",
		"CLIENT UNBLOCK 9": ":0\r\n"} {
		if got := h.Do(caller, strings.Fields(line)...); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestReplyModes(t *testing.T) {
	h := newServer(t)
	cl := h.arrive("1.1.1.1:1", 0)
	if h.Do(cl, "CLIENT", "REPLY", "SKIP"); !cl.Is(client.ReplySkipNext) {
		t.Error("SKIP is not noted")
	}
	cl.Flags &^= client.ReplySkipNext
	if h.Do(cl, "CLIENT", "REPLY", "OFF"); !cl.Is(client.ReplyOff) {
		t.Error("OFF is not noted")
	}
	if h.Do(cl, "CLIENT", "REPLY", "SKIP"); cl.Is(client.ReplySkipNext) {
		t.Error("SKIP while OFF would switch replies on again")
	}
	if got := h.Do(cl, "CLIENT", "REPLY", "ON"); cl.Is(client.ReplyOff) || got != "+OK\r\n" {
		t.Errorf("ON: %q", got)
	}
}

func TestPingWhileSubscribed(t *testing.T) {
	h := newServer(t)
	cl := h.arrive("1.1.1.1:1", 0)
	cl.Flags |= client.PubSub
	if got := h.Do(cl, "PING"); got != "*2\r\n$4\r\npong\r\n$0\r\n\r\n" {
		t.Errorf("RESP2: %q", got)
	}
	cl.Protocol = 3
	if got := h.Do(cl, "PING"); got != "+PONG\r\n" {
		t.Errorf("RESP3: %q", got)
	}
}
