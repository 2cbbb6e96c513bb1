package process

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/internal/crc"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// An endless is a call that never ends by itself.
type endless struct {
	name string
	call []any
	kill []any
	busy string // the error that other clients get
	end  string // the error that the script's client gets, after the error's code
}

var endlessCalls = []endless{
	{"script", []any{"EVAL", "while true do end", "0"}, []any{"SCRIPT", "KILL"}, "SCRIPT KILL",
		"Script killed by user with SCRIPT KILL"},
	{"script in pcall", []any{"EVAL", "while true do pcall(function() while true do end end) end", "0"},
		[]any{"SCRIPT", "KILL"},
		"SCRIPT KILL", "Script killed by user with SCRIPT KILL"},
	{"function", []any{"FCALL", "f", "0"}, []any{"FUNCTION", "KILL"}, "FUNCTION KILL",
		"Script killed by user with SCRIPT KILL"},
}

// heard has the durations until three replies during an endless call.
type heard struct{ busy, arrival, kill time.Duration }

// least returns the shorter duration of each kind. A busy machine is only sometimes slow, but an unresponsive server
// always.
func (h heard) least(o heard) heard {
	return heard{min(h.busy, o.busy), min(h.arrival, o.arrival), min(h.kill, o.kill)}
}

// TestEndlessScript: a script never ends, on a server with one loop of any kind. Other clients get BUSY soon after the
// threshold. SCRIPT KILL works at once and frees everything of the script. The admin address always replies.
func TestEndlessScript(t *testing.T) {
	const threshold = 100 * time.Millisecond
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		admin := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
		s := testkit.Start(t, "--reactor-backend", backend, "--io-threads", "1", "--admin-address", admin,
			"--busy-reply-threshold", "100")
		s.Do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() while true do end end)")
		s.Do("SET", "k", "v")
		for _, e := range endlessCalls {
			t.Run(backend+"/"+e.name, func(t *testing.T) {
				best := runEndless(t, s, e, admin)
				busy, arrival, kill := threshold+testkit.Slowly(400*time.Millisecond), testkit.Slowly(200*time.Millisecond),
					testkit.Slowly(200*time.Millisecond)
				for more := 19; more > 0 && (best.busy > busy || best.arrival > arrival || best.kill > kill); more-- {
					best = best.least(runEndless(t, s, e, admin))
				}
				if best.busy < threshold*9/10 || best.busy > busy {
					t.Errorf("BUSY after %v, want about %v", best.busy, threshold)
				}
				if best.arrival > arrival {
					t.Errorf("a new connection hears BUSY after %v", best.arrival)
				}
				if best.kill > kill {
					t.Errorf("%v is answered after %v", e.kill, best.kill)
				}
			})
		}
		if n := s.InfoInt("clients", "blocked_clients"); n != 0 {
			t.Errorf("%s: %d clients are blocked still", backend, n)
		}
	}
}

// runEndless makes the call and kills it. busy is measured from the call, and the other times from their requests.
func runEndless(t *testing.T, s *testkit.Server, e endless, admin string) (h heard) {
	t.Helper()
	began := time.Now()
	c := start(t, s, e.call)
	untilBegun(t, s)
	wants(t, "GET beside it", s.Dial(), "BUSY Redis is busy running a script. You can only call "+e.busy+
		" or SHUTDOWN NOSAVE.", "GET", "k")
	h.busy = time.Since(began)
	for _, path := range []string{"/healthz", "/metrics"} {
		if status, _ := fetch(t, "http://"+admin+path); status != 200 && path == "/healthz" {
			t.Errorf("%s beside it: %d", path, status)
		}
	}
	again := time.Now()
	wants(t, "a new connection", s.Dial(), "BUSY", "PING")
	h.arrival = time.Since(again)
	killer := s.Dial()
	defer killer.Close()
	again = time.Now()
	if v, err := killer.Do(e.kill...); err != nil || v.Word() != "OK" {
		t.Fatalf("%v: %v %v", e.kill, v, err)
	}
	h.kill = time.Since(again)
	if v, err := c.Receive(); err != nil || v.Err() == nil || !strings.Contains(v.Err().Error(), e.end) {
		t.Errorf("its client was told %v %v", v, err)
	}
	if v := s.Do("GET", "k"); v.Word() != "v" {
		t.Errorf("GET after it: %v", v)
	}
	wants(t, "another kill", s.Dial(), "NOTBUSY", e.kill...)
	if v, err := c.Do("EVAL", "return 'next'", "0"); err != nil || v.Word() != "next" {
		t.Errorf("its client's next script: %v %v", v, err)
	}
	c.Close()
	return h
}

// start sends a call whose reply comes late, and returns when the server runs the call.
func start(t *testing.T, s *testkit.Server, call []any) *respclient.Client {
	t.Helper()
	c := s.Dial()
	c.Send(call...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(testkit.Slowly(5 * time.Millisecond)) // later requests come on another connection
	return c
}

func wants(t *testing.T, what string, c *respclient.Client, prefix string, args ...any) {
	t.Helper()
	defer c.Close()
	v, err := c.Do(args...)
	if err != nil || !strings.HasPrefix(v.Word(), prefix) {
		t.Errorf("%s: %v %v, want %s", what, v, err, prefix)
	}
}

// untilBegun waits until an endless call has begun. By then, earlier requests have their replies.
func untilBegun(t *testing.T, s *testkit.Server) {
	t.Helper()
	testkit.Until(t, 10*time.Second, "BUSY", func() error {
		c := s.Dial()
		defer c.Close()
		v, err := c.Do("GET", "k")
		if err == nil && !strings.HasPrefix(v.Word(), "BUSY") {
			err = fmt.Errorf("GET is answered with %v", v)
		}
		return err
	})
}

// TestEndlessWriter: a script or function that has written cannot be killed by SCRIPT KILL or FUNCTION KILL. SHUTDOWN
// NOSAVE ends the server without writing a file.
func TestEndlessWriter(t *testing.T) {
	for name, call := range map[string][]any{
		"script":   {"EVAL", "redis.call('SET', KEYS[1], 'half') while true do end", "1", "k"},
		"function": {"FCALL", "w", "1", "k"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Start(t, "--busy-reply-threshold", "20", "--save", "3600 1")
			s.Do("FUNCTION", "LOAD",
				"#!lua name=l\nredis.register_function('w', function(keys) redis.call('SET', keys[1], 'half') "+
					"while true do end end)")
			c := start(t, s, call)
			defer c.Close()
			testkit.Until(t, testkit.Slowly(10*time.Second), "BUSY", func() error {
				v, err := s.Ask("GET", "k")
				if err != nil {
					return err
				}
				return testkit.Equal(strings.HasPrefix(v.Word(), "BUSY"), true)
			})
			for _, kill := range [][]any{{"SCRIPT", "KILL"}, {"FUNCTION", "KILL"}} {
				wants(t, "kill", s.Dial(), "UNKILLABLE Sorry", kill...)
			}
			for _, args := range [][]any{{"SHUTDOWN"}, {"SHUTDOWN", "SAVE"}, {"MULTI"}, {"PING"}} {
				if args[0] != "MULTI" {
					wants(t, "beside it", s.Dial(), "BUSY", args...)
				}
			}
			_, _ = s.Ask("SHUTDOWN", "NOSAVE")
			if code := s.Wait(testkit.Slowly(10 * time.Second)); code != 0 {
				t.Errorf("SHUTDOWN NOSAVE: exit %d", code)
			}
			if files := s.Files(); len(files) != 0 {
				t.Errorf("not removed: %v", files)
			}
		})
	}
}

// TestRestoreOfAnEndlessLibrary: FUNCTION RESTORE of a library that never ends is refused in time, and the server
// continues. Redis hangs.
func TestRestoreOfAnEndlessLibrary(t *testing.T) {
	s := testkit.Start(t, "--rdbcompression", "no")
	s.Do("FUNCTION", "LOAD", "#!lua name=l\nwhile false do end redis.register_function('f', function() end)")
	payload := []byte(s.Do("FUNCTION", "DUMP").Text)
	s.Do("FUNCTION", "FLUSH")
	payload = bytes.Replace(payload, []byte("while false"), []byte("while  true"), 1)
	sum := len(payload) - 8
	binary.LittleEndian.PutUint64(payload[sum:], crc.Update64(0, payload[:sum]))
	v, err := s.Ask("FUNCTION", "RESTORE", payload)
	if err != nil || v.Err() == nil || !strings.Contains(v.Err().Error(), "FUNCTION LOAD timeout") {
		t.Errorf("%v %v", v, err)
	}
	if v := s.Do("FUNCTION", "LIST"); len(v.Elems) != 0 {
		t.Errorf("%v is left", v)
	}
}
