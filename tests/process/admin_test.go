package process

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// fetch sends a GET to the admin address.
func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// TestAdminAddress: the metrics agree with INFO, and the address serves health, profiles and traces. Without the
// setting there is no such address.
func TestAdminAddress(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address)
	testkit.Pipe(t, s.Dial(), 100, func(i int) []any { return []any{"SET", i, i} })
	if status, body := fetch(t, "http://"+address+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", status, body)
	}
	_, metrics := fetch(t, "http://"+address+"/metrics")
	for _, want := range []string{
		`(?m)^spindle_used_memory \d`, `(?m)^spindle_command_calls_total\{command="set"\} 100$`,
		`(?m)^spindle_db_keys\{db="0"\} 100$`,
		`(?m)^spindle_connected_clients \d`, `(?m)^spindle_command_seconds_total\{command="set"\} `, `(?m)^go_goroutines \d`,
	} {
		if !regexp.MustCompile(want).MatchString(metrics) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap",
		"/debug/pprof/cmdline", "/debug/pprof/trace?seconds=1"} {
		if status, body := fetch(t, "http://"+address+path); status != 200 || body == "" {
			t.Errorf("%s: %d %d bytes", path, status, len(body))
		}
	}
	if status, _ := fetch(t, "http://"+address+"/nothing"); status != 404 {
		t.Errorf("/nothing: %d", status)
	}
}

// TestHalfRequests: connections with incomplete requests do not keep other clients out.
func TestHalfRequests(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	testkit.Start(t, "--admin-address", address)
	for _, half := range []string{
		"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\n",
		"POST /live/console HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n{",
		"GET /live/app.js HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: 127",
		"",
	} {
		for range 80 {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if _, err := io.WriteString(c, half); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			began := time.Now()
			if status, body := fetch(t, "http://"+address+"/healthz"); status != 200 || body != "ok\n" {
				t.Errorf("after %.40q: %d %q", half, status, body)
			}
			if took := time.Since(began); took > testkit.Slowly(5*time.Second) {
				t.Errorf("after %.40q: it took %v", half, took)
			}
		}
	}
}

// stuff opens n connections that send text until the server accepts no more, and that never read.
func stuff(t *testing.T, address string, n int, text string) (all []net.Conn) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil { // so that little fills it
			t.Fatal(err)
		}
		c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := io.WriteString(c, text); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) &&
			!errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) { // closed to admit a later connection
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// pipelined returns n requests for the page's script.
func pipelined(n int) string {
	return strings.Repeat("GET /live/app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", n)
}

// TestBusyRequests: connections with long requests or unread replies do not keep other clients out. If a token is set,
// they do not interrupt the request of a client that has sent the token.
func TestBusyRequests(t *testing.T) {
	t.Parallel()
	heap := "GET /debug/pprof/heap?seconds=100 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for _, c := range []struct{ name, token, text string }{
		{"replies that are not read", "", pipelined(300)},
		{"replies that are not read, with a token", "tok", pipelined(300)},
		{"profiles", "", heap},
		{"profiles, one after the other", "", heap + heap},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
			testkit.Start(t, "--admin-address", address, "--admin-token", c.token)
			traced := make(chan error, 1)
			if c.token != "" {
				began := make(chan struct{})
				go func() { traced <- trace(address, c.token, 3, began) }()
				<-began
			}
			stuff(t, address, 80, c.text)
			pace := time.Tick(50 * time.Millisecond)
			slow := 0
			for range 20 {
				stuff(t, address, 2, c.text) // replaces a connection that was closed
				<-pace
				began := time.Now()
				if status, body := fetch(t, "http://"+address+"/healthz"); status != 200 || body != "ok\n" {
					t.Errorf("%d %q", status, body)
				}
				if time.Since(began) > testkit.Slowly(15*time.Second) {
					slow++
				}
			}
			if slow > 2 { // a busy machine may slow down one
				t.Errorf("%d of 20 requests took more than 15 s", slow)
			}
			if c.token != "" {
				if err := <-traced; err != nil {
					t.Errorf("the trace of a client with the token: %v", err)
				}
			}
		})
	}
}

// trace takes an execution trace of this many seconds. It closes began when the reply begins.
func trace(address, token string, seconds int, began chan struct{}) error {
	r, err := http.Get(fmt.Sprintf("http://:%s@%s/debug/pprof/trace?seconds=%d", token, address, seconds))
	close(began)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != 200 {
		return errors.New(r.Status)
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// TestUnreadReplies: a client does not read the page's files, or does not read refusals. The server soon closes its
// connection. The client itself may hear of it only minutes later, because its window is full.
func TestUnreadReplies(t *testing.T) {
	t.Parallel()
	port := testkit.FreePort(t)
	address := "127.0.0.1:" + strconv.Itoa(port)
	testkit.Start(t, "--admin-address", address, "--admin-token", "tok")
	for _, request := range []string{pipelined(1), "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"} {
		c, text := stuff(t, address, 1, "")[0], ""
		connected := fmt.Sprintf("0100007F:%04X 0100007F:%04X 01 ", port, c.LocalAddr().(*net.TCPAddr).Port)
		open := func() bool {
			all, err := os.ReadFile("/proc/net/tcp")
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(all), connected)
		}
		testkit.Await(t, testkit.Slowly(20*time.Second), "the kernel lists the connection", open)
		if !testkit.Holds(testkit.Slowly(100*time.Second), func() bool {
			if text == "" {
				text = strings.Repeat(request, 100)
			}
			c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			n, _ := io.WriteString(c, text)
			text = text[n:]
			return !open()
		}) {
			t.Errorf("a client that repeats %q is still connected", request)
		}
	}
}

// TestProfilesAtOnce: when the maximum number of profiles run at once, another one is refused with the reason, until
// one ends.
func TestProfilesAtOnce(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	testkit.Start(t, "--admin-address", address)
	var all []net.Conn
	ask := func(more, want int, reason string) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(10*time.Second), "a profile's reply", func() error {
			all = append(all, stuff(t, address, more, // repeated, because the request below may have replaced one
				"GET /debug/pprof/heap?seconds=100 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")...)
			status, body := fetch(t, "http://"+address+"/debug/pprof/goroutine?debug=1")
			if status != want || !strings.Contains(body, reason) {
				return fmt.Errorf("%d %.200q, want %d", status, body, want)
			}
			return nil
		})
	}
	ask(8, 503, "8 profiles are under way")
	for _, c := range all {
		c.Close()
	}
	ask(0, 200, "goroutine profile")
}

// TestNothingSecret: without a token the address shows no passwords. A request with a foreign host name gets no
// names of keys.
func TestNothingSecret(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address, "--masterauth", "hunter2")
	c := s.Dial()
	testkit.Pipe(t, c, 20_000, func(int) []any { return []any{"GET", "secretkey"} })
	if _, body := fetch(t, "http://"+address+"/debug/pprof/cmdline"); strings.Contains(body, "hunter2") ||
		!strings.Contains(body, "masterauth") {
		t.Errorf("cmdline: %q", body)
	}
	named := func(host string) bool {
		request, err := http.NewRequest("GET", "http://"+address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 || !strings.Contains(string(text), "spindle_used_memory ") {
			t.Errorf("for %s: %d, %v", host, r.StatusCode, err)
		}
		return strings.Contains(string(text), "secretkey")
	}
	if named("evil.example") {
		t.Error("a key is named under a foreign name")
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "a key to be named", func() error {
		c.Must("GET", "secretkey")
		if !named("127.0.0.1") {
			return errors.New("it is not named")
		}
		return nil
	})
	if named("evil.example") {
		t.Error("a key is named under a foreign name")
	}
}

// TestHealthOfABusyServer: a request for health does not wait for the running command.
func TestHealthOfABusyServer(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address, "--enable-protected-configs", "yes")
	fetch(t, "http://"+address+"/healthz")
	for seconds := 2; ; seconds *= 4 { // on a slow machine a short command may be over first
		busy, over := occupy(t, s, "DEBUG", "SLEEP", seconds), make(chan struct{})
		go func() {
			defer close(over)
			busy.Receive()
		}()
		if status, body := fetch(t, "http://"+address+"/healthz"); status != 200 || body != "ok\n" {
			t.Errorf("/healthz: %d %q", status, body)
		}
		inTime := false
		select {
		case <-over:
		default:
			inTime = true
		}
		if <-over; inTime {
			break
		}
		if seconds > 30 {
			t.Fatalf("/healthz waited for a command of %d s", seconds)
		}
	}
	s.Do("CONFIG", "SET", "dir", "/proc", "save", "3600 1", "stop-writes-on-bgsave-error", "yes")
	s.Do("BGSAVE")
	testkit.Until(t, testkit.Slowly(10*time.Second), "writes to be refused", func() error {
		if status, body := fetch(t, "http://"+address+"/healthz"); status != 503 {
			return fmt.Errorf("/healthz: %d %q", status, body)
		}
		return nil
	})
}

// TestHealthWhileLoading: the server is not healthy until it serves.
func TestHealthWhileLoading(t *testing.T) {
	s := testkit.Start(t)
	testkit.Pipe(t, s.Dial(), 5000, func(i int) []any { return []any{"SET", i, i} })
	s.Do("SAVE")
	s.Kill()
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s.Again("--key-load-delay", "1000", "--admin-address", address) // 5 s
	testkit.Until(t, testkit.Slowly(20*time.Second), "LOADING", func() error {
		v, err := s.Ask("PING")
		if err == nil && !strings.HasPrefix(v.Text, "LOADING") {
			t.Fatalf("it serves already: %v", v)
		}
		return err
	})
	if status, body := fetch(t, "http://"+address+"/healthz"); status != 503 {
		t.Errorf("/healthz while loading: %d %q", status, body)
	}
	if status, body := fetch(t, "http://"+address+"/healthz?alive=yes"); status != 200 {
		t.Errorf("/healthz?alive=yes while loading: %d %q", status, body)
	}
}

// TestHealthFor: /healthz also checks conditions that a load balancer names in its request.
func TestHealthFor(t *testing.T) {
	address := func() string { return "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t)) }
	primaryAt, replicaAt := address(), address()
	primary := testkit.Start(t, "--admin-address", primaryAt, "--busy-reply-threshold", "50")
	replica := testkit.Start(t, "--admin-address", replicaAt, "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port))
	replica.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	ask := func(at, query string, status int, want string) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(10*time.Second), query, func() error {
			if got, body := fetch(t, "http://"+at+"/healthz"+query); got != status || !strings.Contains(body, want) {
				return fmt.Errorf("%d %q, want %d %q", got, body, status, want)
			}
			return nil
		})
	}
	ask(primaryAt, "?role=primary", 200, "ok\n")
	ask(primaryAt, "?role=replica", 503, "the role is primary")
	ask(replicaAt, "?role=replica&max-lag=30&max-held=30&busy=no", 200, "ok\n")
	ask(replicaAt, "?role=primary", 503, "the role is replica")
	ask(replicaAt, "?max-lag=0.0000001", 503, "the link to the primary is up: true")
	ask(replicaAt, "?format=json", 200, `"role":"replica","loading":false,"busy_script":false,"link_up":true`)
	ask(primaryAt, "?format=json", 200, `"ok":true,"reason":"","warning":"","role":"primary"`)
	ask(primaryAt, "?format=json", 200, `"busy_script":false,"lag":0`) // a primary has no link that could be down
	for _, query := range []string{"?alive=no", "?role=master", "?max-lag=soon", "?lag=1", "?busy=yes"} {
		ask(primaryAt, query, 400, "unknown: ")
	}
	busy := primary.Dial()
	busy.Send("EVAL", "while true do end", 0)
	if err := busy.Flush(); err != nil {
		t.Fatal(err)
	}
	ask(primaryAt, "?busy=no", 503, "a script runs")
	ask(primaryAt, "", 200, "ok\n")
	primary.Do("SCRIPT", "KILL")
	ask(primaryAt, "?busy=no", 200, "ok\n")
	primary.Kill()
	ask(replicaAt, "?max-lag=3600", 503, "the link to the primary is up: false")
	ask(replicaAt, "", 200, "ok\n")
	replica.Do("REPLICAOF", "NO", "ONE")
	ask(replicaAt, "?role=primary&max-lag=1", 200, "ok\n")
}

// TestAdminTLS: under TLS the admin address uses the tls-* directives, and new certificates take effect at once.
func TestAdminTLS(t *testing.T) {
	certificates := testkit.NewCertificates(t)
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, append(certificates.Directives(0), "--admin-address", address, "--admin-tls", "yes")...)
	ask := func(certified bool) (string, *x509.Certificate, error) {
		transport := &http.Transport{TLSClientConfig: certificates.Client(t, certified)}
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Get("https://" + address + "/metrics")
		if err != nil {
			return "", nil, err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return string(body), r.TLS.PeerCertificates[0], err
	}
	body, first, err := ask(true)
	if err != nil || !strings.Contains(body, "spindle_used_memory") {
		t.Fatalf("/metrics over TLS: %v %.200s", err, body)
	}
	for _, name := range []string{"server", "ca"} {
		if !regexp.MustCompile(`spindle_tls_certificate_expires_in_seconds{certificate="` + name +
			`"} 3[0-9]{3}\n`).MatchString(body) {
			t.Errorf("/metrics does not say when the certificate %s ends", name)
		}
	}
	if strings.Contains(body, `certificate="client"`) || strings.Contains(body, "_serial") {
		t.Error("/metrics has figures of no certificate")
	}
	if _, _, err := ask(false); err == nil {
		t.Error("tls-auth-clients yes lets in a client without a certificate")
	}
	if r, err := http.Get("http://" + address + "/metrics"); err == nil && r.StatusCode != 400 {
		t.Errorf("in the clear: %v", r.Status)
	}
	s.Do("CONFIG", "SET", "tls-auth-clients", "no")
	if _, _, err := ask(false); err != nil {
		t.Errorf("tls-auth-clients no: %v", err)
	}
	certificates.Issue(t, "server")
	s.Do("CONFIG", "SET", "tls-cert-file", certificates.File("server.crt"))
	if _, second, err := ask(true); err != nil || second.Equal(first) {
		t.Errorf("a new certificate is not shown: %v", err)
	}
}

// TestAdminTLSWithoutCertificates: if TLS is set and there are no certificates, the server opens no admin address, not
// even one without TLS.
func TestAdminTLSWithoutCertificates(t *testing.T) {
	out, code := testkit.Run(t, testkit.Slowly(20*time.Second), "", testkit.Spindle(t), "--port", "0", "--unixsocket",
		t.TempDir()+"/s",
		"--admin-address", "127.0.0.1:0", "--admin-tls", "yes")
	if code != 1 || !strings.Contains(out, "tls-cert-file") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestStartLineOfTheAdminAddress: the log line of the start names the admin address once it is open. If the address
// cannot be opened, the line does not name it.
func TestStartLineOfTheAdminAddress(t *testing.T) {
	port := testkit.FreePort(t)
	s := testkit.Start(t, "--admin-address", "127.0.0.1:"+strconv.Itoa(port))
	s.AwaitLog(testkit.Slowly(10*time.Second), fmt.Sprintf(", 127.0.0.1:%d (admin): ", port))
	out, code := testkit.Run(t, testkit.Slowly(20*time.Second), "", testkit.Spindle(t), "--port", "0", "--unixsocket",
		t.TempDir()+"/s", "--admin-address", "0.0.0.0:1")
	if code != 1 || strings.Contains(out, "(admin)") || !strings.Contains(out, "needs admin-token") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
