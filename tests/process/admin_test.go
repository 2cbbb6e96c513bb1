package process

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// fetch is a GET of the admin address.
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

// TestAdminAddress: metrics that agree with INFO, health, profiles and traces; nothing of it unless asked for.
func TestAdminAddress(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address)
	testkit.Pipe(t, s.Dial(), 100, func(i int) []any { return []any{"SET", i, i} })
	if status, body := fetch(t, "http://"+address+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", status, body)
	}
	_, metrics := fetch(t, "http://"+address+"/metrics")
	for _, want := range []string{
		`(?m)^spindle_used_memory \d`, `(?m)^spindle_command_calls_total\{command="set"\} 100$`, `(?m)^spindle_db_keys\{db="0"\} 100$`,
		`(?m)^spindle_connected_clients \d`, `(?m)^spindle_command_seconds_total\{command="set"\} `, `(?m)^go_goroutines \d`,
	} {
		if !regexp.MustCompile(want).MatchString(metrics) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/trace?seconds=1"} {
		if status, body := fetch(t, "http://"+address+path); status != 200 || body == "" {
			t.Errorf("%s: %d %d bytes", path, status, len(body))
		}
	}
	if status, _ := fetch(t, "http://"+address+"/nothing"); status != 404 {
		t.Errorf("/nothing: %d", status)
	}
}

// TestHealthOfABusyServer: who asks for health does not wait for the command that runs.
func TestHealthOfABusyServer(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address, "--enable-protected-configs", "yes")
	fetch(t, "http://"+address+"/healthz")
	busy := s.Dial()
	busy.Send("DEBUG", "SLEEP", 3)
	if err := busy.Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	if status, body := fetch(t, "http://"+address+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", status, body)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("/healthz took %v while a command ran", took)
	}
	busy.Receive()
	s.Do("CONFIG", "SET", "dir", "/proc", "save", "3600 1", "stop-writes-on-bgsave-error", "yes")
	s.Do("BGSAVE")
	testkit.Until(t, testkit.Slowly(10*time.Second), "writes to be refused", func() error {
		if status, body := fetch(t, "http://"+address+"/healthz"); status != 503 {
			return fmt.Errorf("/healthz: %d %q", status, body)
		}
		return nil
	})
}

// TestHealthWhileLoading: not healthy until it serves.
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
}
