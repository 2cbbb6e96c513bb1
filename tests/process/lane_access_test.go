package process

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// besideSleep has try ask the lane of a fresh server while DEBUG SLEEP holds the turn. A machine that takes longer than
// the turn gets a longer one. after comes when the turn is over.
func besideSleep(t *testing.T, before func(s *testkit.Server, dial func() *respclient.Client), try, after func()) {
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

// field is a value of a reply to HELLO 3, or of another map.
func field(v respclient.Value, name string) respclient.Value {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if v.Elems[i].Text == name {
			return v.Elems[i+1]
		}
	}
	return respclient.Value{}
}

// TestLaneID: HELLO beside the turn tells the id that the client has in it. No two clients have the same.
func TestLaneID(t *testing.T) {
	var s *testkit.Server
	var lane []*respclient.Client
	var told []int64
	var open func() *respclient.Client
	besideSleep(t, func(server *testkit.Server, dial func() *respclient.Client) {
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
		for i, c := range slices.Backward(lane) { // who came last is the first whom the core hears of
			if id := c.Must("CLIENT", "ID").Int; id != told[i] {
				t.Errorf("CLIENT ID is %d, HELLO told %d", id, told[i])
			}
		}
		var listed []int64
		for line := range strings.Lines(late.Must("CLIENT", "LIST").Text) {
			var id int64
			fmt.Sscanf(line, "id=%d ", &id)
			listed = append(listed, id)
		}
		if !slices.IsSorted(listed) || len(listed) < len(lane)+1 {
			t.Errorf("CLIENT LIST has ids %v", listed)
		}
	})
}

// TestLaneWrongPasswords: wrong passwords given beside the turn are in ACL LOG and in INFO for the first who asks when
// the turn is free, also those of a client that has left. No more entries are kept for that than ACL LOG keeps.
func TestLaneWrongPasswords(t *testing.T) {
	var s *testkit.Server
	var old, leaves *respclient.Client
	var open func() *respclient.Client
	besideSleep(t, func(server *testkit.Server, dial func() *respclient.Client) {
		s, open, old = server, dial, dial()
		old.Must("CLIENT", "SETNAME", "guesser")
		old.Must("CONFIG", "SET", "acllog-max-len", 3)
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

// TestLaneUsersThatChange: beside the turn, too, who was asked for a password need not give it once nobody is. Who is
// let in there as a user that is deleted before the next turn goes with it, as that user's other clients do.
func TestLaneUsersThatChange(t *testing.T) {
	const longest = 20 * time.Second
	for wait := 300 * time.Millisecond; !usersThatChange(t, testkit.Slowly(wait)); {
		if wait *= 4; wait > longest {
			t.Fatal("the lane does not get to know of users that change")
		}
	}
}

// usersThatChange gives the lane so long to get to know of users that change. known is false if that was too short, as
// it may be on a slow machine.
func usersThatChange(t *testing.T, wait time.Duration) (known bool) {
	var s *testkit.Server
	var stranger, doomed *respclient.Client
	besideSleep(t, func(server *testkit.Server, dial func() *respclient.Client) {
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
		if v, err := doomed.Do("ACL", "WHOAMI"); err == nil {
			t.Errorf("a deleted user is answered: %v", v)
		}
		if v := stranger.Must("ACL", "WHOAMI"); v.Text != "default" {
			t.Errorf("another client is %v", v)
		}
	})
	return known
}

// TestLaneWrongArguments: what the lane's own commands refuse in the turn they refuse beside it, or when it is free.
func TestLaneWrongArguments(t *testing.T) {
	requests := [][]any{
		{"PING", "a", "b"}, {"AUTH", "a", "b", "c"}, {"AUTH"}, {"HELLO", "4"}, {"HELLO", "x"}, {"HELLO", "2", "AUTH", "a"},
		{"SLOWLOG", "GET", "x"}, {"CLIENT", "LIST", "ID"}, {"CLIENT", "LIST", "ID", "x"}, {"CLIENT", "KILL"},
		{"CLIENT", "KILL", "ID", "0"}, {"CLIENT", "KILL", "SKIPME", "maybe"}, {"CLIENT", "KILL", "1.2.3.4:5"},
		{"SCRIPT", "KILL", "x"}, {"SHUTDOWN", "NOSAVE", "SAVE"}, {"INFO", "nosuch"}, {"CLIENT", "KILL", "USER", "nobody"},
	}
	var want, got []respclient.Value
	var c *respclient.Client
	besideSleep(t, func(s *testkit.Server, dial func() *respclient.Client) {
		c, want, got = dial(), nil, nil
		for _, args := range requests {
			v, err := c.Do(args...)
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
			t.Errorf("%v: %v, in the turn %v", requests[i], got[i], want[i])
		}
	}
}

// TestLaneMalformed: who does not speak the protocol reads on the lane what it reads elsewhere. A reply that is awaited
// comes before the error, and who wants no replies gets none.
func TestLaneMalformed(t *testing.T) {
	s, dial := withLane(t)
	lane := dial().Conn().RemoteAddr().String()
	for _, c := range []struct{ name, first, then, want string }{
		{"after nothing", "", "*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"without replies", "CLIENT REPLY OFF\r\n", "*x\r\n", ""},
		{"blocked", "BLPOP list 0\r\n", "*1\r\n+x\r\n",
			"*2\r\n$4\r\nlist\r\n$5\r\nvalue\r\n-ERR Protocol error: expected '$', got '+'\r\n"},
		{"blocked, at once", "", "BLPOP list 0\r\n*1\r\n+x\r\n",
			"*2\r\n$4\r\nlist\r\n$5\r\nvalue\r\n-ERR Protocol error: expected '$', got '+'\r\n"},
		{"behind a transaction", "", "MULTI\r\nPING\r\nEXEC\r\n*x\r\n",
			"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"},
	} {
		for _, address := range []string{s.Addr, lane} {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(testkit.Slowly(10 * time.Second)))
			blocks := strings.Contains(c.first+c.then, "BLPOP")
			fmt.Fprint(conn, c.first)
			if blocks && c.first != "" {
				s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "1")
			}
			fmt.Fprint(conn, c.then)
			if blocks {
				s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "1")
				// For what follows to arrive. If that takes longer, the test is only kinder.
				time.Sleep(50 * time.Millisecond)
				s.Do("RPUSH", "list", "value")
			}
			if got, err := io.ReadAll(conn); err != nil || string(got) != c.want {
				t.Errorf("%s, at the lane %t: %q %v", c.name, address == lane, got, err)
			}
			conn.Close()
		}
	}
}

// TestLaneCrowd: who comes to a full lane is let in. Who has given no password goes first, then who has been idle
// longest.
func TestLaneCrowd(t *testing.T) {
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
		if v, err := c.Do("PING"); err != nil || !strings.HasPrefix(v.Text, "NOAUTH") { // then room was made for the next
			t.Fatalf("PING of stranger %d: %v %v", i, v, err)
		}
	}
	if v := quickly(t, operator, "PING"); v.Text != "PONG" {
		t.Errorf("PING of who came first: %v", v)
	}
	last := dial()
	if v := quickly(t, last, "AUTH", "root"); v.Text != "OK" {
		t.Errorf("AUTH of who came last: %v", v)
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
	s.Wait(laneSoon() * 4)
}

// TestLaneLastWords: what a client sends before it leaves runs, as elsewhere, also if the turn is held meanwhile.
// If many come and go while it is held, they take no place from those who stay.
func TestLaneLastWords(t *testing.T) {
	s, dial := withLane(t)
	lane := dial().Conn().RemoteAddr().String()
	const clients = 60
	send := func(key string) {
		for range clients {
			conn, err := net.Dial("tcp", lane)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "INCR %s\r\nINCR %s\r\n", key, key)
			conn.Close()
		}
	}
	arrive := func(key string) {
		testkit.Until(t, testkit.Slowly(10*time.Second), key, func() error {
			if v := s.Do("GET", key); v.Text != fmt.Sprint(2*clients) {
				return fmt.Errorf("%v of %d", v, 2*clients)
			}
			return nil
		})
	}
	send("free")
	arrive("free")
	busy := occupy(t, s, "DEBUG", "SLEEP", 1)
	send("held")
	busy.Receive()
	arrive("held")

	stays := dial() // whatever those leave behind that come and go
	stays.Must("PING")
	busy = occupy(t, s, "DEBUG", "SLEEP", 1)
	for range 3 {
		send("many")
	}
	busy.Receive()
	if v, err := stays.Do("PING"); err != nil || v.Text != "PONG" {
		t.Errorf("PING of who stays: %v %v", v, err)
	}
}

// TestLaneHalfClosed: a client that sends much, ends its side and reads gets every reply.
func TestLaneHalfClosed(t *testing.T) {
	_, dial := withLane(t)
	conn, err := net.Dial("tcp", dial().Conn().RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const requests = 10_000
	go func() {
		_, _ = io.WriteString(conn, strings.Repeat("INCR half\r\n", requests))
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_ = conn.SetReadDeadline(time.Now().Add(testkit.Slowly(60 * time.Second)))
	replies, err := io.ReadAll(conn)
	if n := bytes.Count(replies, []byte("\r\n")); n != requests || err != nil {
		t.Errorf("%d replies of %d, %v", n, requests, err)
	}
}

// TestLaneOwnEnd: a client whose own command ends its connection reads the replies to what it sent before that end.
func TestLaneOwnEnd(t *testing.T) {
	s, dial := withLane(t)
	for range 20 {
		s.Do("ACL", "SETUSER", "short", "on", ">secret", "+@all", "~*")
		c := dial()
		c.Must("AUTH", "short", "secret")
		c.Send("INCR", "n")
		c.Send("ACL", "DELUSER", "short")
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if v, err := c.Receive(); err != nil || v.Kind != ':' {
				t.Fatalf("%v %v", v, err)
			}
		}
	}
}

// TestLaneLimits: what CONFIG SET says of the buffers of clients holds on the lane.
func TestLaneLimits(t *testing.T) {
	s, dial := withLane(t)
	s.Do("CONFIG", "SET", "client-query-buffer-limit", "1mb", "client-output-buffer-limit", "normal 1mb 0 0")
	c := dial()
	if v, err := c.Do("SET", "large", strings.Repeat("x", 2<<20)); err == nil {
		t.Errorf("2 MB beyond client-query-buffer-limit: %v", v)
	}
	s.Do("SETRANGE", "large", 32<<20, "x")
	if v, err := dial().Do("GET", "large"); err == nil {
		t.Errorf("32 MB beyond client-output-buffer-limit: a reply of %d bytes", len(v.Text))
	}
}
