package migrate

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// values fills the server with a small and a large key of each type, with and without deadlines. It returns their
// names.
func values(c *respclient.Client) (names []string) {
	add := func(name string, args ...any) {
		c.Must(append([]any{args[0], name}, args[1:]...)...)
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	add("text", "SET", "some value")
	add("number", "SET", "12345")
	add("long", "SETRANGE", 3<<20, "end")
	add("brief", "SET", "v", "PX", 600_000)
	add("hash", "HSET", "a", "1", "b", "2")
	add("zset", "ZADD", "1.5", "a", "-2", "b")
	add("stream", "XADD", "1-1", "f", "v")
	for i := range 200 {
		for _, form := range [][]any{{"RPUSH"}, {"SADD"}} {
			args := []any{form[0], strings.ToLower(form[0].(string))}
			for j := range 100 {
				args = append(args, fmt.Sprintf("element-%d-%d", i, j))
			}
			c.Must(args...)
		}
	}
	return append(names, "rpush", "sadd")
}

// target returns the server's host and port, for MIGRATE.
func target(s *testkit.Server) (host, port string) {
	return "127.0.0.1", strconv.Itoa(s.Port)
}

// TestMigrateBothWays: values of every type arrive complete, singly and together, at spindle and at redis-server.
func TestMigrateBothWays(t *testing.T) {
	servers := map[string]func() *testkit.Server{
		"spindle": func() *testkit.Server { return testkit.Start(t) },
		"redis":   func() *testkit.Server { return testkit.Redis(t) },
	}
	for _, pair := range [][2]string{{"spindle", "spindle"}, {"spindle", "redis"}, {"redis", "spindle"}} {
		t.Run(pair[0]+"-"+pair[1], func(t *testing.T) {
			from, to := servers[pair[0]](), servers[pair[1]]()
			a, b := from.Dial(), to.Dial()
			host, port := target(to)
			names := values(a)
			digests := map[string]string{}
			for _, name := range names {
				digests[name] = a.Must("DEBUG", "DIGEST-VALUE", name).Strings()[0]
			}
			a.Must("MIGRATE", host, port, names[0], 0, 5000)
			args := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
			for _, name := range names[1:] {
				args = append(args, name)
			}
			a.Must(args...)
			if n := a.Must("DBSIZE").Int; n != 0 {
				t.Errorf("%d keys are left", n)
			}
			for _, name := range names {
				if got := b.Must("DEBUG", "DIGEST-VALUE", name).Strings()[0]; got != digests[name] {
					t.Errorf("%s: digest %s, was %s", name, got, digests[name])
				}
			}
			if ttl := b.Must("PTTL", "brief").Int; ttl < 1 || ttl > 600_000 {
				t.Errorf("PTTL %d", ttl)
			}
		})
	}
}

// TestKeysOnTheirWay: while the target is slow, commands that name the moving keys wait, and others do not.
func TestKeysOnTheirWay(t *testing.T) {
	s, slow := testkit.Start(t), listen(t)
	c, other, third := s.Dial(), s.Dial(), s.Dial()
	c.Must("MSET", "k", "v", "free", "1")
	c.Must("RPUSH", "source", "x")
	host, port, _ := net.SplitHostPort(slow.Addr().String())
	c.Send("MIGRATE", host, port, "k", 0, 5000)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	conn, err := slow.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	read(t, conn, "RESTORE")
	if n := other.Must("INCR", "free").Int; n != 2 {
		t.Errorf("INCR of another key: %d", n)
	}
	other.Must("MULTI")
	other.Must("APPEND", "k", "more")
	other.Send("EXEC")
	other.Flush()
	time.Sleep(20 * time.Millisecond) // time for EXEC to arrive; without it the test still passes
	if v, _ := third.Do("EVAL", "return redis.call('set', 'k', '1')", 0); v.Err() == nil ||
		!strings.HasPrefix(v.Err().Error(), "TRYAGAIN") {
		t.Errorf("a script that has not declared the key: %v", v)
	}
	if other.Pending() {
		t.Error("EXEC did not wait")
	}
	fmt.Fprint(conn, "+OK\r\n+OK\r\n")
	if v, err := c.Receive(); err != nil || v.Text != "OK" {
		t.Errorf("MIGRATE: %v, %v", v, err)
	}
	if v, err := other.Receive(); err != nil || len(v.Elems) != 1 || v.Elems[0].Int != 4 {
		t.Errorf("APPEND to the key that had gone: %v, %v", v, err)
	}
}

// TestMigrateWithoutItsClient: if the client disconnects, the keys of its MIGRATE are still deleted after they have
// arrived.
func TestMigrateWithoutItsClient(t *testing.T) {
	s, slow := testkit.Start(t), listen(t)
	c, other := s.Dial(), s.Dial()
	c.Must("SET", "k", "v")
	host, port, _ := net.SplitHostPort(slow.Addr().String())
	c.Send("MIGRATE", host, port, "k", 0, 5000)
	c.Flush()
	conn, err := slow.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	read(t, conn, "RESTORE")
	c.Close()
	fmt.Fprint(conn, "+OK\r\n+OK\r\n")
	if n := other.Must("EXISTS", "k").Int; n != 0 {
		t.Errorf("EXISTS %d", n)
	}
}

// TestMigrateErrors checks the errors that clients get when something fails.
func TestMigrateErrors(t *testing.T) {
	ours, redis, to := testkit.Start(t), testkit.Redis(t), testkit.Redis(t, "--requirepass", "secret")
	host, port := target(to)
	closed := listen(t)
	_, nobody, _ := net.SplitHostPort(closed.Addr().String())
	closed.Close()
	for _, call := range [][]any{
		{host, port, "absent", 0, 1000}, {host, port, "", 0, 1000, "KEYS", "absent", "too"}, {host, port, "k", 0, 1000},
		{host, port, "k", 0, 1000, "AUTH", "wrong"}, {host, port, "k", 0, 1000, "AUTH2", "nobody", "wrong"},
		{host, port, "k", 99, 1000, "AUTH", "secret"},
		{host, port, "k", 0, 1000, "AUTH"}, {host, port, "k", 0, 1000, "AUTH2", "a"}, {host, port, "k", 0, 1000, "KEYS", "k"},
		{host, port, "k", 0, 1000, "NOPE"}, {host, port, "k", "x", 1000}, {host, port, "k", 0, "x"},
		{host, port, "", 0, 1000, "KEYS"},
		{"127.0.0.1", nobody, "k", 0, 1000}, {"127.0.0.1", "port", "k", 0, 1000},
		{host, port, "k", 0, 0, "COPY", "AUTH", "secret"},
		{host, port, "k", 0, -1, "COPY", "AUTH", "secret"},
		{host, port, "k", 0, 1000, "copy", "replace", "auth2", "default", "secret"},
	} {
		var got [2]string
		for i, s := range []*testkit.Server{ours, redis} {
			c := s.Dial()
			c.Must("SET", "k", "v")
			v, err := c.Do(append([]any{"MIGRATE"}, call...)...)
			got[i] = fmt.Sprint(v, err, c.Must("EXISTS", "k").Int)
			flush := to.Dial()
			flush.Must("AUTH", "secret")
			flush.Must("FLUSHALL")
		}
		if got[0] != got[1] {
			t.Errorf("MIGRATE %v: %s, redis-server says %s", call, got[0], got[1])
		}
	}
	// Redis reuses a connection that an earlier call authenticated. In spindle, a call without the password may not use
	// such a connection.
	ours.Do("SET", "k", "v")
	v, err := ours.Ask("MIGRATE", host, port, "", 0, 1000, "KEYS", "k")
	if err != nil || !strings.Contains(v.Text, "NOAUTH") {
		t.Errorf("MIGRATE without the password: %v, %v", v, err)
	}
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// read reads until it finds word.
func read(t *testing.T, conn net.Conn, word string) {
	conn.SetReadDeadline(time.Now().Add(testkit.Slowly(time.Minute)))
	buf, n := make([]byte, 4096), 0
	for !strings.Contains(string(buf[:n]), word) {
		k, err := conn.Read(buf[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
}
