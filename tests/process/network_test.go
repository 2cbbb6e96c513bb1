package process

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestUnixSocket: the server listens on the socket and on TCP, and the socket has the configured mode. It replaces a
// dead server's socket, and is removed at the end.
func TestUnixSocket(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/s"
	s := testkit.Start(t, "--unixsocket", path, "--unixsocketperm", "700")
	stat, err := os.Stat(path)
	if err != nil || stat.Mode()&fs.ModeSocket == 0 || stat.Mode().Perm() != 0o700 {
		t.Fatalf("%v %v", stat.Mode(), err)
	}
	ask := func() {
		t.Helper()
		c, err := respclient.Dial("unix:" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.Must("SET", "k", "v"); c.Must("GET", "k").Text != "v" {
			t.Error("no value")
		}
		if info := c.Must("CLIENT", "INFO").Text; !strings.Contains(info, "addr="+path+":0") ||
			!strings.Contains(info, "flags=U") {
			t.Errorf("CLIENT INFO: %s", info)
		}
	}
	ask()
	s.Kill()
	s.Restart() // replaces the socket that was left
	ask()
	s.Terminate()
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket was not removed")
	}
}

// TestOnlyUnixSocket: with port 0 the server listens on no TCP port.
func TestOnlyUnixSocket(t *testing.T) {
	path := t.TempDir() + "/s"
	s := testkit.Launch(t, testkit.Spec{NoWait: true, Args: []string{"--port", "0", "--unixsocket", path}})
	c := await(t, "unix:"+path)
	c.Must("PING")
	if _, err := net.Dial("tcp", s.Addr); err == nil {
		t.Error("it listens on TCP")
	}
}

// TestIPv6: the server listens on several addresses at once, and skips an optional address that does not exist.
func TestIPv6(t *testing.T) {
	s := testkit.Launch(t, testkit.Spec{Args: []string{"--bind", "127.0.0.1", "::1", "-198.51.100.7"}})
	c, err := respclient.Dial(net.JoinHostPort("::1", strconv.Itoa(s.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if info := c.Must("CLIENT", "INFO").Text; !strings.Contains(info, " addr=[::1]:") ||
		!strings.Contains(info, fmt.Sprintf(" laddr=[::1]:%d ", s.Port)) {
		t.Errorf("CLIENT INFO: %s", info)
	}
	r := testkit.Launch(t, testkit.Spec{NoWait: true, Args: []string{"--bind", "198.51.100.7"}})
	if code := r.Wait(20 * time.Second); code != 1 {
		t.Errorf("bound to an address that is not there: exit code %d", code)
	}
	p := testkit.Launch(t, testkit.Spec{NoWait: true, Args: []string{"--port", strconv.Itoa(s.Port)}})
	if code := p.Wait(20 * time.Second); code != 1 || !strings.Contains(p.Log(), "in use") {
		t.Errorf("a port that is taken: exit code %d\n%s", code, p.Log())
	}
}

// TestBindToNames: a list of addresses with host names is accepted or refused as a whole, even in a transaction. The
// server listens on the addresses in CONFIG GET bind.
func TestBindToNames(t *testing.T) {
	s := testkit.Launch(t, testkit.Spec{Args: []string{"--bind", "127.0.0.1"}})
	c, err := respclient.Dial(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bound := func(what, want string) {
		t.Helper()
		if v := c.Must("CONFIG", "GET", "bind"); len(v.Elems) != 2 || v.Elems[1].Text != want {
			t.Errorf("%s: %v", what, v)
		}
		again, err := respclient.Dial(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		again.Close()
	}
	if v := c.Must("CONFIG", "SET", "bind", "localhost"); v.Text != "OK" {
		t.Fatal(v)
	}
	bound("a name", "localhost")
	if v, err := c.Do("CONFIG", "SET", "maxmemory", "1gb", "BIND", "no-such-host.invalid 127.0.0.1"); err != nil ||
		v.Text != "ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses." {
		t.Errorf("%v, %v", v, err)
	}
	bound("a name without an address", "localhost")
	if v := c.Must("CONFIG", "GET", "maxmemory"); v.Elems[1].Text != "0" {
		t.Errorf("of a CONFIG SET that failed maxmemory has stayed: %v", v)
	}
	c.Must("MULTI")
	c.Must("CONFIG", "SET", "bind", "127.0.0.1 localhost 127.0.0.1")
	c.Must("CONFIG", "SET", "bind", "127.0.0.1")
	c.Must("EXEC")
	bound("a transaction", "127.0.0.1")
}

// TestPassword: passwords and renamed commands work. Without the password only a few commands are allowed.
func TestPassword(t *testing.T) {
	dir := t.TempDir()
	conf := "requirepass secret\nrename-command FLUSHALL \"\"\nrename-command CONFIG configure\n"
	if err := os.WriteFile(dir+"/c", []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	port := testkit.FreePort(t)
	s := testkit.Launch(t, testkit.Spec{Bare: true, Dir: dir, Port: port,
		Args: []string{dir + "/c", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", ""}})
	for _, request := range [][]any{{"PING"}, {"GET", "k"}, {"SELECT", 1}, {"INFO"}, {"SYNC"}, {"CLIENT", "LIST"}} {
		if v, err := s.Ask(request...); err != nil || v.Text != "NOAUTH Authentication required." {
			t.Errorf("%v: %v %v", request, v, err)
		}
	}
	if v, err := s.Ask("AUTH", "wrong"); err != nil || !strings.HasPrefix(v.Text, "WRONGPASS ") {
		t.Errorf("AUTH wrong: %v %v", v, err)
	}
	s.Do("AUTH", "secret")
	s.Do("SET", "k", "v")
	for _, request := range [][]any{{"FLUSHALL"}, {"CONFIG", "GET", "port"}} {
		if v, err := s.Ask(request...); err != nil || !strings.HasPrefix(v.Text, "ERR unknown command") {
			t.Errorf("%v: %v %v", request, v, err)
		}
	}
	if v := s.Do("configure", "GET", "port"); len(v.Elems) != 2 || v.Elems[1].Text != strconv.Itoa(port) {
		t.Errorf("configure: %v", v)
	}
	if out, _ := s.CLI("", "-a", "secret", "--no-auth-warning", "GET", "k"); out != "v\n" {
		t.Errorf("redis-cli -a: %q", out)
	}
}

// TestRenamesOfCommands: the commands of cluster mode can be renamed like others. A server does not start if the
// command to rename is unknown, or if the new name exists already.
func TestRenamesOfCommands(t *testing.T) {
	launch := func(lines ...string) *testkit.Server {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/c", []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		port := testkit.FreePort(t)
		return testkit.Launch(t, testkit.Spec{Bare: true, NoWait: true, Dir: dir, Port: port,
			Args: []string{dir + "/c", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", ""}})
	}
	away := []string{"CLUSTER", "MIGRATE", "READONLY", "READWRITE", "ASKING"}
	lines := []string{"rename-command get fetch"}
	for _, name := range away {
		lines = append(lines, "rename-command "+name+` ""`)
	}
	c := await(t, launch(lines...).Addr)
	if v := c.Must("fetch", "k"); !v.Null {
		t.Errorf("fetch k: %v", v)
	}
	for _, name := range away {
		if v, err := c.Do(name); err != nil || !strings.HasPrefix(v.Text, "ERR unknown command") {
			t.Errorf("%s: %v %v", name, v, err)
		}
	}
	for line, want := range map[string]string{
		"rename-command NOSUCH x":                    "No such command in rename-command",
		"rename-command MIGRATE get":                 "Target command name already exists",
		"rename-command get x\nrename-command get y": "No such command in rename-command",
	} {
		s := launch(line)
		if code := s.Wait(testkit.Slowly(20 * time.Second)); code != 1 || !strings.Contains(s.Log(), want) {
			t.Errorf("%s: exit code %d: %s", line, code, s.Log())
		}
	}
}

// TestLoops: each event loop, with one thread and with two, passes the same checks.
func TestLoops(t *testing.T) {
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		for _, threads := range []string{"1", "2"} {
			t.Run(backend+"/"+threads, func(t *testing.T) {
				path := t.TempDir() + "/s"
				s := testkit.Start(t, "--reactor-backend", backend, "--io-threads", threads, "--unixsocket", path)
				if v := s.Do("CONFIG", "GET", "reactor-backend"); v.Elems[1].Text != backend {
					t.Errorf("reactor-backend: %v", v)
				}
				smoke(t, s)
				if n, several := s.InfoInt("stats", "io_threaded_reads_processed"), threads == "2" &&
					backend != "netpoll"; n > 0 != several {
					t.Errorf("io_threaded_reads_processed:%d", n)
				}
				u, err := respclient.Dial(path)
				if err != nil {
					t.Fatal(err)
				}
				defer u.Close()
				if v := u.Must("STRLEN", "big"); v.Int != 3<<20 {
					t.Errorf("over the Unix socket: %v", v)
				}
				if code := s.Terminate(); code != 0 {
					t.Errorf("exit code %d", code)
				}
			})
		}
	}
}

// smoke has the checks that any server must pass. They are pipelines, requests in pieces, large values, many
// connections, inline requests, protocol errors, pushes, and a connection that another one kills.
func smoke(t *testing.T, s *testkit.Server) {
	t.Helper()
	c := s.Dial()
	testkit.Pipe(t, c, 5000, func(i int) []any { return []any{"SET", fmt.Sprint("k", i), i} })
	if n := c.Must("DBSIZE").Int; n != 5000 {
		t.Errorf("DBSIZE %d", n)
	}
	big := strings.Repeat("0123456789abcdef", 3<<16)
	c.Must("SET", "big", big)
	if v := c.Must("GET", "big"); v.Text != big {
		t.Errorf("%d bytes came back of %d", len(v.Text), len(big))
	}
	raw := s.Dial()
	// The bytes of the first request come one by one; then comes an inline request.
	for _, b := range []byte("*3\r\n$3\r\nSET\r\n$5\r\npiece\r\n$3\r\na\r\n\r\nGET piece\r\n") {
		if _, err := raw.Conn().Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := raw.Receive(); err != nil || v.Text != "OK" {
		t.Errorf("in pieces: %v %v", v, err)
	}
	if v, err := raw.Receive(); err != nil || v.Text != "a\r\n" {
		t.Errorf("inline: %v %v", v, err)
	}
	raw.SendRaw([]byte("*1\r\n$x\r\n"))
	if v, err := raw.Receive(); err != nil || v.Text != "ERR Protocol error: invalid bulk length" {
		t.Errorf("garbage: %v %v", v, err)
	}
	if _, err := raw.Receive(); err == nil {
		t.Error("not closed after a protocol error")
	}
	monitor := s.Dial()
	monitor.Must("MONITOR")
	c.Must("SET", "seen", "1")
	for {
		v, err := monitor.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(v.Text, `"SET" "seen" "1"`) {
			break
		}
	}
	victim := s.Dial()
	id := victim.Must("CLIENT", "ID").Int
	if n := c.Must("CLIENT", "KILL", "ID", id).Int; n != 1 {
		t.Errorf("CLIENT KILL: %d", n)
	}
	if _, err := victim.Do("PING"); err == nil {
		t.Error("a killed connection answers")
	}
	errs := make(chan error)
	const connections, rounds = 60, 50
	for i := range connections {
		go func() { errs <- count(s.Addr, i, rounds) }()
	}
	for range connections {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if v := c.Must("GET", "total"); v.Text != strconv.Itoa(connections*rounds) {
		t.Errorf("total %v", v)
	}
	monitor.Close()
	if v, err := s.Dial().Do("QUIT"); err != nil || v.Text != "OK" {
		t.Errorf("QUIT: %v %v", v, err)
	}
}

// count increments a shared counter and its own counter. It checks its own counter's value.
func count(address string, i, rounds int) error {
	c, err := respclient.Dial(address)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetTimeout(testkit.Slowly(time.Minute))
	own := fmt.Sprint("own:", i)
	for n := range rounds {
		replies, err := c.Pipeline([]any{"INCR", "total"}, []any{"INCR", own})
		if err != nil {
			return err
		}
		if replies[1].Int != int64(n+1) {
			return errors.New("own counter " + replies[1].String())
		}
	}
	return nil
}
