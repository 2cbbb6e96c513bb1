package process

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// duringSleep calls try with the admin lane of a new server while DEBUG SLEEP holds the turn. If the machine is too
// slow for the length of the turn, duringSleep repeats with a longer one. It calls after when the turn is over.
func duringSleep(t *testing.T, before func(s *testkit.Server, dial func() *respclient.Client), try, after func()) {
	t.Helper()
	for seconds := 1; ; seconds *= 4 {
		s, dial := withLane(t)
		before(s, dial)
		busy := occupy(t, s, "DEBUG", "SLEEP", seconds)
		over := make(chan struct{})
		go func() {
			busy.Receive()
			close(over)
		}()
		try()
		select {
		case <-over:
			if seconds > 100 {
				t.Fatalf("the lane does not answer within a turn of %d s", seconds)
			}
		default:
			<-over
			after()
			return
		}
	}
}

// field returns a value from a reply to HELLO 3, or from another map.
func field(v respclient.Value, name string) respclient.Value {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if v.Elems[i].Text == name {
			return v.Elems[i+1]
		}
	}
	return respclient.Value{}
}

// TestLaneID: HELLO on the admin lane returns an ID that no other client has.
func TestLaneID(t *testing.T) {
	var s *testkit.Server
	var lane []*respclient.Client
	var told []int64
	var open func() *respclient.Client
	duringSleep(t, func(server *testkit.Server, dial func() *respclient.Client) {
		s, open, told = server, dial, nil
		lane = []*respclient.Client{dial()}
		lane[0].Must("PING")
	}, func() {
		lane = append(lane, open(), open())
		for _, c := range lane {
			told = append(told, field(quickly(t, c, "HELLO", 3), "id").Int)
		}
	}, func() {
		late := s.Dial()
		all := append(slices.Clone(told), late.Must("CLIENT", "ID").Int)
		slices.Sort(all)
		if len(slices.Compact(all)) != len(lane)+1 || all[0] <= 0 {
			t.Errorf("ids %v", all)
		}
	})
}

// TestLaneWrongPasswords: wrong passwords that the lane got while the turn was held appear in ACL LOG and INFO once the
// turn is free. This includes the wrong passwords of a client that has since disconnected. ACL LOG still obeys
// acllog-max-len.
func TestLaneWrongPasswords(t *testing.T) {
	var s *testkit.Server
	var old, leaves *respclient.Client
	var open func() *respclient.Client
	duringSleep(t, func(server *testkit.Server, dial func() *respclient.Client) {
		s, open, old = server, dial, dial()
		old.Must("HELLO", 2, "SETNAME", "guesser")
		s.Do("CONFIG", "SET", "acllog-max-len", 3)
	}, func() {
		for _, args := range [][]any{
			{"AUTH", "first", "x"}, {"AUTH", "nobody", "x"}, {"AUTH", "nobody", "y"},
			{"HELLO", "3", "AUTH", "default2", "x"}, {"AUTH", "nobody", "z"},
		} {
			if v := quickly(t, old, args...); !strings.HasPrefix(v.Text, "WRONGPASS") {
				t.Errorf("%v: %v", args, v)
			}
		}
		leaves = open()
		quickly(t, leaves, "auth", "gone", "x")
		leaves.Close()
	}, func() {
		asks := s.Dial()
		entries := asks.Must("ACL", "LOG").Elems
		type entry struct {
			count                 int64
			reason, context       string
			object, user, cl, cmd string
		}
		var got []entry
		for _, e := range entries {
			info := field(e, "client-info").Text
			word := func(name string) string {
				_, rest, _ := strings.Cut(info, " "+name+"=")
				w, _, _ := strings.Cut(rest, " ")
				return w
			}
			got = append(got, entry{field(e, "count").Int, field(e, "reason").Text, field(e, "context").Text,
				field(e, "object").Text, field(e, "username").Text, word("name") + "/" + word("user"), word("cmd")})
		}
		want := []entry{
			{1, "auth", "toplevel", "auth", "gone", "/default", "auth"},
			{3, "auth", "toplevel", "AUTH", "nobody", "guesser/default", "auth"},
			{1, "auth", "toplevel", "HELLO", "default2", "guesser/default", "hello"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("ACL LOG:\n%+v, want\n%+v", got, want)
		}
		info := asks.Must("INFO", "stats", "errorstats").Text
		for _, line := range []string{"acl_access_denied_auth:6", "total_error_replies:6", "errorstat_WRONGPASS:count=6"} {
			if !strings.Contains(info, line+"\r\n") {
				t.Errorf("no %s in\n%s", line, info)
			}
		}
	})
}

// TestLaneUsersThatChange: once the server needs no password, the lane needs none, even while the turn is held. A
// client whose user was deleted has no rights.
func TestLaneUsersThatChange(t *testing.T) {
	const longest = 20 * time.Second
	for wait := 300 * time.Millisecond; !usersThatChange(t, testkit.Slowly(wait)); {
		if wait *= 4; wait > longest {
			t.Fatal("the lane does not get to know of users that change")
		}
	}
}

// usersThatChange waits for some time so that the lane learns about changed users. known is false if the time was too
// short.
func usersThatChange(t *testing.T, wait time.Duration) (known bool) {
	var s *testkit.Server
	var stranger, doomed *respclient.Client
	duringSleep(t, func(server *testkit.Server, dial func() *respclient.Client) {
		s, stranger, doomed = server, nil, dial()
		s.Do("ACL", "SETUSER", "operator", "on", ">secret", "+@all", "~*")
		s.Do("CONFIG", "SET", "requirepass", "x")
		stranger = dial()
		if v, err := stranger.Do("INFO"); err != nil || !strings.HasPrefix(v.Text, "NOAUTH") {
			t.Errorf("INFO of a stranger: %v %v", v, err)
		}
		s.Do("CONFIG", "SET", "requirepass", "")
		time.Sleep(wait)
	}, func() {
		free := quickly(t, stranger, "INFO", "server")
		auth := quickly(t, doomed, "AUTH", "operator", "secret")
		known = !strings.HasPrefix(free.Text, "NOAUTH") && !strings.HasPrefix(auth.Text, "WRONGPASS")
		if known && (free.Err() != nil || auth.Text != "OK") {
			t.Errorf("INFO without a password: %v; AUTH: %v", free, auth)
		}
	}, func() {
		if !known {
			return
		}
		s.Do("ACL", "DELUSER", "operator")
		if v, err := doomed.Do("INFO"); err != nil || !strings.HasPrefix(v.Text, "NOPERM") {
			t.Errorf("INFO of a deleted user: %v %v", v, err)
		}
	})
	return known
}

// TestLaneWrongArguments: the lane refuses wrong arguments with the errors of other addresses, also while the turn is
// held.
func TestLaneWrongArguments(t *testing.T) {
	requests := [][]any{
		{"PING", "a", "b"}, {"AUTH", "a", "b", "c"}, {"AUTH"}, {"AUTH", "a"}, {"HELLO", "4"}, {"HELLO", "x"},
		{"HELLO", "2", "AUTH", "a"}, {"SLOWLOG", "GET", "x"}, {"STALLS", "GET", "x"}, {"CLIENT", "LIST", "ID"},
		{"CLIENT", "LIST", "ID", "x"}, {"CLIENT", "LIST", "TYPE", "x"}, {"CLIENT", "KILL"}, {"CLIENT", "KILL", "ID", "0"},
		{"CLIENT", "KILL", "SKIPME", "maybe"}, {"CLIENT", "KILL", "1.2.3.4:5"}, {"SCRIPT", "KILL", "x"},
		{"SCRIPT", "KILL"}, {"INFO", "nosuch"}, {"CLIENT", "KILL", "USER", "nobody"},
	}
	var want, got []respclient.Value
	var c *respclient.Client
	duringSleep(t, func(s *testkit.Server, dial func() *respclient.Client) {
		c, want, got = dial(), nil, nil
		other := s.Dial()
		for _, args := range requests {
			v, err := other.Do(args...)
			if err != nil {
				t.Fatal(args, err)
			}
			want = append(want, v)
		}
	}, func() {
		c.Send("PING")
		for _, args := range requests {
			c.Send(args...)
		}
		c.Flush()
		if v, err := c.Receive(); err != nil || v.Text != "PONG" {
			t.Errorf("PING: %v %v", v, err)
		}
	}, func() {
		for range requests {
			v, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if i := strings.Index(v.Text, "\r\n# Lane"); i >= 0 {
				v.Text = v.Text[:i]
			}
			got = append(got, v)
		}
	})
	for i := range got {
		if got[i].String() != want[i].String() {
			t.Errorf("%v: %v, elsewhere %v", requests[i], got[i], want[i])
		}
	}
}

// TestFullLane: a full lane closes one client for each newcomer. It closes clients without a password first, and then
// the client that has been idle for longest.
func TestFullLane(t *testing.T) {
	s, dial := withLane(t, "--requirepass", "root")
	occupier := s.Dial()
	occupier.Must("AUTH", "root")
	operator := dial()
	operator.Must("AUTH", "root")
	occupier.Send("DEBUG", "SLEEP", 600)
	occupier.Flush()
	var strangers []*respclient.Client
	for i := range 150 {
		c := dial()
		strangers = append(strangers, c)
		if i < 64 {
			continue
		}
		if v, err := c.Do("PING"); err != nil || !strings.HasPrefix(v.Text, "NOAUTH") { // closed for a newcomer
			t.Fatalf("PING of stranger %d: %v %v", i, v, err)
		}
	}
	if v := quickly(t, operator, "PING"); v.Text != "PONG" {
		t.Errorf("PING of the first client: %v", v)
	}
	last := dial()
	if v := quickly(t, last, "AUTH", "root"); v.Text != "OK" {
		t.Errorf("AUTH of the last client: %v", v)
	}
	if v := quickly(t, strangers[149], "INFO"); !strings.HasPrefix(v.Text, "NOAUTH") {
		t.Errorf("INFO of a stranger: %v", v)
	}
	strangers[0].SetTimeout(laneSoon())
	if v, err := strangers[0].Do("PING"); err == nil {
		t.Errorf("PING of the first stranger: %v", v)
	}
	last.Send("SHUTDOWN", "NOSAVE")
	last.Flush()
	s.Wait(laneSoon())
}

// TestLaneMalformed: bytes that are not a request end the connection with an error, after the replies to earlier
// requests.
func TestLaneMalformed(t *testing.T) {
	_, dial := withLane(t)
	conn := dial().Conn()
	conn.SetDeadline(time.Now().Add(testkit.Slowly(time.Minute)))
	fmt.Fprint(conn, "PING\r\n*x\r\n")
	const want = "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"
	if got, err := io.ReadAll(conn); err != nil || string(got) != want {
		t.Errorf("%q %v", got, err)
	}
}

// TestLaneHalfClosed: a client that sends many requests, closes its sending side and reads gets every reply, in order.
func TestLaneHalfClosed(t *testing.T) {
	_, dial := withLane(t)
	conn := dial().Conn()
	conn.SetDeadline(time.Now().Add(testkit.Slowly(60 * time.Second)))
	const requests = 10_000
	go func() {
		for i := range requests {
			fmt.Fprintf(conn, "PING %d\r\n", i)
		}
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	replies, err := io.ReadAll(conn)
	var want []byte
	for i := range requests {
		want = fmt.Appendf(want, "$%d\r\n%d\r\n", len(strconv.Itoa(i)), i)
	}
	if !bytes.Equal(replies, want) || err != nil {
		t.Errorf("%d bytes of %d, %v", len(replies), len(want), err)
	}
}

// TestLaneLimits: client-query-buffer-limit and client-output-buffer-limit also apply on the lane.
func TestLaneLimits(t *testing.T) {
	s, dial := withLane(t)
	s.Do("CONFIG", "SET", "client-query-buffer-limit", "1mb")
	if v, err := dial().Do("PING", strings.Repeat("x", 2<<20)); err == nil {
		t.Errorf("2 MB: a reply of %d bytes", len(v.Text))
	}
	s.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0")
	greedy := dial()
	if err := greedy.Conn().(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 40 { // more than the sockets hold
			greedy.Send("PING", strings.Repeat("x", 512<<10))
		}
		greedy.Flush()
	}()
	s.AwaitLog(testkit.Slowly(20*time.Second), "Client of the admin lane 127.0.0.1:")
	s.AwaitLog(testkit.Slowly(20*time.Second), "overcoming of output buffer limits")
	if v := quickly(t, dial(), "PING"); v.Text != "PONG" {
		t.Errorf("PING of another client: %v", v)
	}
}
