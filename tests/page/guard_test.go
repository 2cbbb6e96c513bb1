package page

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A visit is one request to the admin address.
type visit struct {
	method, path, body string
	host, origin       string
	header             map[string]string
}

func (v visit) make(t *testing.T, url string) (status int, body string, header http.Header) {
	t.Helper()
	if v.method == "" {
		v.method = "GET"
	}
	r, err := http.NewRequest(v.method, url+v.path, strings.NewReader(v.body))
	if err != nil {
		t.Fatal(err)
	}
	if v.host != "" {
		r.Host = v.host
	}
	if v.origin != "" {
		r.Header.Set("Origin", v.origin)
	}
	for name, value := range v.header {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// bearing has the headers with the token and the content type JSON.
var bearing = map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json"}

// TestGuard: a request without the token, from a foreign page or with a forged host name is refused.
func TestGuard(t *testing.T) {
	t.Parallel()
	s, url := serve(t, "--admin-host", "Redis.Example")
	s.Do("SET", "greeting", "hello")
	basic := map[string]string{"Authorization": "Basic OnBhInNzPGI+"} // an empty user and the token
	another := map[string]string{"Authorization": "Bearer x"}
	form := map[string]string{"Authorization": "Bearer " + token, "Content-Type": "text/plain"}
	secure := "https" + strings.TrimPrefix(url, "http")
	const foreign = "http://evil.example"
	asked := func(header map[string]string, origin string) visit {
		v := visit{method: "POST", path: "/live/console", body: `{"line":"GET greeting"}`}
		v.header, v.origin = header, origin
		return v
	}
	for _, c := range []struct {
		name   string
		v      visit
		status int
		want   string
	}{
		{"the page", visit{path: "/"}, 200, "<title>spindle</title>"},
		{"health", visit{path: "/healthz", host: "evil.example"}, 200, "ok"},
		{"no token", visit{path: "/live/state"}, 401, "a token is needed"},
		{"another token", visit{path: "/live/state", header: another}, 401, ""},
		{"metrics without a token", visit{path: "/metrics"}, 401, ""},
		{"profiles without a token", visit{path: "/debug/pprof/heap"}, 401, ""},
		{"the token", visit{path: "/live/state", header: bearing}, 200, "redis_version"},
		{"the clients", visit{path: "/live/state", header: bearing}, 200, `"clients":["id=`},
		{"metrics", visit{path: "/metrics", header: bearing, host: "collected.by.name"}, 200, "spindle_used_memory"},
		{"the token as a password", visit{path: "/metrics", header: basic}, 200, "spindle_used_memory"},
		{"a bent name", visit{path: "/", host: "evil.example"}, 403, "admin-host"},
		{"a bent name and the token", visit{path: "/live/state", host: "evil.example", header: bearing}, 403, "admin-host"},
		{"localhost", visit{path: "/live/state", host: "localhost:80", header: bearing}, 200, ""},
		{"the name that is set", visit{path: "/live/state", host: "redis.example:9121", header: bearing}, 200, ""},
		{"an address", visit{path: "/live/state", host: "[::1]:9121", header: bearing}, 200, ""},
		{"a foreign page", visit{path: "/live/state", origin: foreign, header: bearing}, 403, "foreign"},
		{"a page without an origin", visit{path: "/live/state", origin: "null", header: bearing}, 403, "foreign"},
		{"the page itself", visit{path: "/live/state", origin: url, header: bearing}, 200, ""},
		{"the page under TLS", visit{path: "/live/state", origin: secure, header: bearing}, 403, ""},
		{"the console", asked(bearing, ""), 200, "hello"},
		{"the console without a token", asked(nil, ""), 401, ""},
		{"the console from a form", asked(form, ""), 415, ""},
		{"the console from a foreign page", asked(bearing, foreign), 403, ""},
		{"the console asked by an address", visit{path: "/live/console?line=GET", header: bearing}, 405, ""},
		{"no JSON", visit{method: "POST", path: "/live/console", body: "GET greeting", header: bearing}, 400, "JSON"},
		{"not there", visit{path: "/live/nothing", header: bearing}, 404, ""},
	} {
		status, body, header := c.v.make(t, url)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %.100q, want %d %q", c.name, status, body, c.status, c.want)
		}
		policy := header.Get("Content-Security-Policy")
		if strings.HasPrefix(c.v.path, "/live") && status < 404 && !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: the policy is %q", c.name, policy)
		}
	}
}

// say sends a line to the console and returns its reply.
func say(t *testing.T, url, line string) (answer string) {
	t.Helper()
	v := visit{method: "POST", path: "/live/console", body: `{"line":` + strconv.Quote(line) + `}`, header: bearing}
	_, answer, _ = v.make(t, url)
	return answer
}

// TestLongConsoleReplies: a command that would delay all clients is refused, and the error names the command to use
// instead. A reply that is too long is refused too, and its memory is freed.
func TestLongConsoleReplies(t *testing.T) {
	t.Parallel()
	s, url := serve(t)
	s.Do("ACL", "SETUSER", "reader", "+@all")
	c := s.Dial()
	testkit.Pipe(t, c, 20_000, func(i int) []any { return []any{"SET", "key:" + strconv.Itoa(i), i} })
	testkit.Pipe(t, c, 20_000, func(i int) []any {
		return []any{"RPUSH", "list", strings.Repeat("x", 2000) + strconv.Itoa(i)}
	})
	testkit.Pipe(t, c, 20_000, func(i int) []any { return []any{"HSET", "h", i, i} })
	testkit.Pipe(t, c, 9_000, func(i int) []any { return []any{"SADD", "s", i} })
	testkit.Pipe(t, c, 9_000, func(i int) []any { return []any{"SADD", "s2", i} })
	before := s.InfoInt("memory", "go_heap")
	for line, want := range map[string]string{
		"KEYS *": "KEYS may read 20004 elements while all clients wait, and 10000 are allowed here: use SCAN",
		"SCAN 0": "1) ", "HGETALL h": "use HSCAN", "HSCAN h 0": "1) ", "HGET h 3": `\"3\"`, "SMEMBERS s": "1) ",
		"SUNION s s2": "SUNION may read 18000 elements", "SORT_RO list": "use SSCAN, ZSCAN or LRANGE",
		"LRANGE list 0 3": "1) ", "KEYS": "wrong number",
		"HSCAN h 0 COUNT 10000000": "HSCAN may read 20000 elements while all clients wait",
		"LRANGE list 0 -1":         "10000 are allowed here: use a shorter range",
		"SCAN 0 COUNT 10001":       "use a small COUNT", "HRANDFIELD h 10001": "use a smaller count",
		"HRANDFIELD h -10000000": "HRANDFIELD may read 10000000 elements",
		"LRANGE list 0 9999":     "bytes, and at most 1048576 are shown here: use SCAN, HSCAN, SSCAN, ZSCAN or a",
	} {
		if got := say(t, url, line); !strings.Contains(got, want) {
			t.Errorf("%q: %.200s, want %q", line, got, want)
		}
	}
	for range 20 {
		say(t, url, "LRANGE list 0 9999") // 20 MB each
		if grown := s.InfoInt("memory", "go_heap") - before; grown > 32<<20 && !testkit.Race {
			t.Fatalf("the console has left %d MB of heap", grown>>20)
		}
	}
}

// TestConsoleIsNamed: the slow log, the stall log and MONITOR show that a command came from the console, with its
// address.
func TestConsoleIsNamed(t *testing.T) {
	t.Parallel()
	s, url := serve(t, "--stall-threshold", "1", "--slowlog-log-slower-than", "1000")
	testkit.Pipe(t, s.Dial(), 100_000, func(i int) []any { return []any{"GEOADD", "g", i % 180, i % 80, i} })
	watcher := s.Dial()
	watcher.Must("MONITOR")
	s.Do("STALLS", "RESET")
	s.Do("SLOWLOG", "RESET")
	say(t, url, "GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 1") // takes many milliseconds
	for _, log := range []string{"STALLS", "SLOWLOG"} {
		got := s.Do(log, "GET", 128).String()
		if !strings.Contains(got, "GEOSEARCH") ||
			!strings.Contains(got, "console") || !strings.Contains(got, "127.0.0.1:") {
			t.Errorf("%s does not name GEOSEARCH and the console: %s", log, got)
		}
		if strings.Contains(got, "consultAs") {
			t.Errorf("%s names a function of the server: %s", log, got)
		}
	}
	for {
		v, err := watcher.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(v.Text, `"GEOSEARCH"`) {
			if !strings.Contains(v.Text, "[0 127.0.0.1:") {
				t.Errorf("MONITOR: %s", v.Text)
			}
			return
		}
	}
}

// TestConsoleUserOfThePage: the user that doc/live.md describes may run what an operator needs in an incident. No
// client can log in as this user.
func TestConsoleUserOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../doc/live.md")
	if err != nil {
		t.Fatal(err)
	}
	s, url := serve(t)
	s.Do("ACL", "DELUSER", "reader")
	for line := range strings.Lines(string(page)) {
		if rules, ok := strings.CutPrefix(line, "    user reader "); ok {
			words := []any{"ACL", "SETUSER", "reader"}
			for word := range strings.FieldsSeq(rules) {
				words = append(words, word)
			}
			s.Do(words...)
		}
	}
	for _, line := range []string{"HOTKEYS GET", "BIGKEYS GET", "STALLS GET", "SLOWLOG GET", "CLIENT LIST",
		"CONFIG GET maxmemory", "INFO", "PING", "GET a", "SCAN 0"} {
		if got := say(t, url, line); !strings.Contains(got, `"error":false`) {
			t.Errorf("%s: %.200s", line, got)
		}
	}
	if v, _ := s.Dial().Do("AUTH", "reader", ""); !strings.Contains(v.Text, "WRONGPASS") {
		t.Errorf("AUTH as the console's user: %v", v)
	}
}

// TestConsoleLines: the console accepts the right lines, and shows their replies. It accepts no line that would change
// data, wait or subscribe.
func TestConsoleLines(t *testing.T) {
	t.Parallel()
	s, url := serve(t, "--busy-reply-threshold", "50")
	s.Do("ACL", "SETUSER", "reader", "+@all")
	s.Do("SET", "greeting", "hello")
	s.Do("HSET", "h", "\xff\x00", "b")
	ask := func(line string) string { return say(t, url, line) }
	for line, want := range map[string]string{
		`GET greeting`: `\"hello\"`, `get 'greeting'`: `\"hello\"`, `GET "gree\x74ing"`: `\"hello\"`,
		`GET "greeting`: "unbalanced quotes", `GET "a"b`: "unbalanced quotes",
		`HGETALL h`: `\"\\xff\\x00\" =\u003e \"b\"`, `DBSIZE`: "(integer) 2", `EXISTS nothing`: "(integer) 0",
		`ACL WHOAMI`: "reader", `PING`: "PONG", `KEYS *`: "1) ", `GET nothing`: "(nil)",
		`GET h`: "(error) WRONGTYPE", `XREAD BLOCK 0 STREAMS s $`: "(nil)", `CLIENT LIST`: "cmd=",
		`SET greeting x`: "only takes", `DEL greeting`: "only takes", `SUBSCRIBE c`: "only takes",
		`MONITOR`: "only takes", `BLPOP l 0`: "only takes", `EVAL "return 1" 0`: "only takes",
		`CONFIG SET maxmemory 1`: "only takes", `SHUTDOWN`: "only takes", `CLIENT KILL TYPE normal`: "only takes",
		`MULTI`: "only takes", `SLOWLOG RESET`: "only takes", `SCRIPT FLUSH`: "only takes",
		`SORT_RO h`: "WRONGTYPE", `OBJECT ENCODING greeting`: "embstr", ``: `"text":""`, `GET`: "wrong number",
		`CLIENT`: "wrong number",
	} {
		if got := ask(line); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %q", line, got, want)
		}
	}
	for line, want := range map[string]string{
		"help": "BIGKEYS", "help get": `GET key\nReturns the string value of a key.`,
		"HELP client list": "CLIENT LIST [TYPE <NORMAL | MASTER", "help set": "SET key value [",
		"help config": "CONFIG GET: Returns", "help nothing": "no command", "select 99": "DB index", "select -1": "DB index",
		"select x": "not an integer", "select": "only takes", "select 3": "OK",
	} {
		if got := ask(line); !strings.Contains(strings.ReplaceAll(got, `\u003c`, "<"), want) {
			t.Errorf("%q: %s, want %q", line, got, want)
		}
	}
	in := func(db, line string) (answer string) {
		_, answer, _ = visit{method: "POST", path: "/live/console", body: `{"line":"` + line + `","db":` + db + `}`,
			header: bearing}.make(t, url)
		return answer
	}
	if got := in("3", "GET greeting"); !strings.Contains(got, "(nil)") || !strings.Contains(got, `"db":3`) {
		t.Errorf("in database 3: %s", got)
	}
	if got := in("3", "select 0"); !strings.Contains(got, `"db":0`) {
		t.Errorf("after SELECT 0: %s", got)
	}
	if got := in("-1", "GET greeting"); !strings.Contains(got, "DB index") {
		t.Errorf("in database -1: %s", got)
	}
	s.Do("ACL", "SETUSER", "reader", "db=0")
	if got := in("3", "GET greeting"); !strings.Contains(got, "NOPERM") {
		t.Errorf("in a database without a right: %s", got)
	}
	busy := s.Dial()
	busy.Send("EVAL", "while true do end", 0)
	if err := busy.Flush(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, testkit.Slowly(10e9), "BUSY", func() error {
		if got := ask("GET greeting"); !strings.Contains(got, "BUSY") {
			return io.EOF
		}
		return nil
	})
	if _, body, _ := (visit{path: "/live/state", header: bearing}).make(t, url); !strings.Contains(body, "redis_version") {
		t.Errorf("while a script runs the page shows %.200s", body)
	}
	s.Do("SCRIPT", "KILL")
	testkit.Until(t, testkit.Slowly(10e9), "the script's end", func() error {
		v, err := s.Ask("PING")
		return errors.Join(err, v.Err())
	})
	s.Do("ACL", "SETUSER", "reader", "off")
	if got := ask("GET greeting"); !strings.Contains(got, "admin-console-user") {
		t.Errorf("as a user that is off: %s", got)
	}
	if got := s.Do("GET", "greeting"); got.Text != "hello" {
		t.Errorf("the console has changed data: %v", got)
	}
}

// TestLooksLeaveNoTrace: the page's own requests are not counted.
func TestLooksLeaveNoTrace(t *testing.T) {
	t.Parallel()
	s, url := serve(t, "--slowlog-log-slower-than", "0")
	s.Do("SLOWLOG", "RESET")
	before := s.Info("everything")
	for range 3 {
		visit{path: "/live/state", header: bearing}.make(t, url)
		visit{path: "/live/history?range=day", header: bearing}.make(t, url)
	}
	after := s.Info("everything")
	for _, name := range []string{
		"total_error_replies", "cmdstat_slowlog|get", "cmdstat_latency|latest", "cmdstat_cluster|nodes",
		"total_connections_received",
	} {
		if before[name] != after[name] {
			t.Errorf("%s: %q before, %q after", name, before[name], after[name])
		}
	}
	if log := s.Do("SLOWLOG", "GET", -1).String(); strings.Contains(log, "LATENCY") || strings.Contains(log, "latency") {
		t.Errorf("the slow log has the page's questions: %s", log)
	}
}

// TestConsoleIsOff: without a user or a token there is no console.
func TestConsoleIsOff(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--admin-token", token}, {"--admin-console-user", "default"}, {},
	} {
		address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
		testkit.Start(t, append(args, "--admin-address", address)...)
		line := visit{method: "POST", path: "/live/console", body: `{"line":"PING"}`, header: bearing}
		status, body, _ := line.make(t, "http://"+address)
		if status != 403 || !strings.Contains(body, "the console is off") {
			t.Errorf("%v: %d %s", args, status, body)
		}
		_, state, _ := visit{path: "/live/state", header: bearing}.make(t, "http://"+address)
		if !strings.Contains(state, `"console":""`) {
			t.Errorf("%v: the page is told of a console", args)
		}
	}
}

// TestForeignHostWithoutToken: without a token, a foreign page whose host name resolves to this server gets no
// profile.
func TestForeignHostWithoutToken(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	testkit.Start(t, "--admin-address", address)
	for _, c := range []struct {
		path, host string
		status     int
	}{
		{"/debug/pprof/cmdline", "evil.example", 403},
		{"/debug/pprof/", "evil.example", 403},
		{"/debug/pprof/cmdline", "", 200},
		{"/live/state", "evil.example", 403},
		{"/metrics", "collected.by.name", 200},
	} {
		if status, body, _ := (visit{path: c.path, host: c.host}).make(t, "http://"+address); status != c.status {
			t.Errorf("%s for %q: %d %.100s, want %d", c.path, c.host, status, body, c.status)
		}
	}
}

// TestIdleConnections: idle connections are closed to admit new ones, and their number is limited.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	_, url := serve(t)
	const came, most = 200, 64
	var crowd []net.Conn
	for range came {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
	}
	if status, _, _ := (visit{path: "/healthz"}).make(t, url); status != 200 {
		t.Errorf("beside a crowd: %d", status)
	}
	for i, c := range crowd[:came-most] { // the oldest connections are closed first
		c.SetReadDeadline(time.Now().Add(testkit.Slowly(time.Minute)))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d of %d still waits", i+1, came)
		}
	}
}

// TestCollectorsDuringATurn: while a command holds the turn, only a few metric requests and console commands wait for
// it. The others are refused, with the reason.
func TestCollectorsDuringATurn(t *testing.T) {
	t.Parallel()
	s, url := serve(t, "--admin-port", strconv.Itoa(testkit.FreePort(t)))
	lane, err := respclient.Dial("127.0.0.1:" + s.Do("CONFIG", "GET", "admin-port").Elems[1].Text)
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	busy := s.Dial()
	busy.Send("DEBUG", "SLEEP", 600) // runs until the server ends
	if err := busy.Flush(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "a turn that is held", func() error {
		v, err := lane.Do("INFO", "server")
		if err == nil && !strings.Contains(v.Text, "lane_answered_beside_turn:1") {
			err = errors.New("it is free")
		}
		return err
	})
	const asked = 20
	statuses := make(chan int, 2*asked)
	for range asked {
		for _, v := range []visit{
			{method: "GET", path: "/metrics"}, {method: "POST", path: "/live/console", body: `{"line":"PING"}`},
		} {
			r, err := http.NewRequest(v.method, url+v.path, strings.NewReader(v.body))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range bearing {
				r.Header.Set(name, value)
			}
			go func() {
				status := 0 // 0 means that the server has exited
				if answer, err := http.DefaultClient.Do(r); err == nil {
					status = answer.StatusCode
					answer.Body.Close()
				}
				statuses <- status
			}()
		}
	}
	for range asked - 4 + asked - 8 { // the limits of waiting requests in admin.go and console.go
		select {
		case status := <-statuses:
			if status != 503 {
				t.Errorf("while the turn is held: %d", status)
			}
		case <-time.After(testkit.Slowly(time.Minute)):
			t.Error("too many wait for the turn")
		}
	}
	lane.Send("SHUTDOWN", "NOSAVE")
	lane.Flush()
	s.Wait(testkit.Slowly(10 * time.Second))
	for range 4 + 8 {
		<-statuses
	}
}
