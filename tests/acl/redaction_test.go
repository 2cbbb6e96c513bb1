package acl

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestPasswordsAreNotShown: the slow log and MONITOR hide passwords, names and rules in requests.
//
// redis-server 7.4 gets the same checks.
func TestPasswordsAreNotShown(t *testing.T) {
	const hidden = "(redacted)"
	steps := []struct {
		send, slow string
		unwatched  bool // MONITOR does not show administrators' commands
	}{
		{"ACL SETUSER u on >pw ~* +@all", "ACL SETUSER" + strings.Repeat(" "+hidden, 5), true},
		{"ACL SETUSER u >pw nonsense", "ACL SETUSER (redacted) (redacted) (redacted)", true},
		{"ACL GETUSER u", "ACL GETUSER (redacted)", true},
		{"ACL DELUSER secret", "ACL DELUSER (redacted)", true},
		{"ACL DRYRUN u get x", "ACL DRYRUN u get x", true},
		{"AUTH wrong", "AUTH (redacted)", false},
		{"AUTH u wrong", "AUTH (redacted) (redacted)", false},
		{"auth u pw", "auth (redacted) (redacted)", false},
		{"AUTH a b c", "AUTH a b c", false},
		{"HELLO 2 AUTH u wrong", "HELLO 2 AUTH (redacted) (redacted)", false},
		{"HELLO 2 AUTH u pw SETNAME n", "HELLO 2 AUTH (redacted) (redacted) SETNAME n", false},
		{"HELLO 2 AUTH u pw NOPE", "HELLO 2 AUTH (redacted) (redacted) NOPE", false},
		{"HELLO 9 AUTH u shown", "HELLO 9 AUTH u shown", false}, // refused before the rest is parsed
		{"CONFIG SET masterauth pw maxmemory 0", "CONFIG SET masterauth (redacted) maxmemory 0", true},
		{"CONFIG SET masteruser u", "CONFIG SET masteruser (redacted)", true},
		{"CONFIG SET tls-key-file-pass pw", "CONFIG SET tls-key-file-pass (redacted)", true},
		{"SET here x", "SET here x", false},
		{"MIGRATE 127.0.0.1 1 here 0 100 AUTH2 u pw", "MIGRATE 127.0.0.1 1 here 0 100 AUTH2 (redacted) (redacted)", false},
		{"MIGRATE 127.0.0.1 1 here 0 100 AUTH pw NOPE", "MIGRATE 127.0.0.1 1 here 0 100 AUTH (redacted) NOPE", false},
		{"MULTI", "MULTI", false},
		{"ACL SETUSER u >pw", "ACL SETUSER (redacted) (redacted)", true},
		{"AUTH u pw", "AUTH (redacted) (redacted)", false},
		{"EXEC", "", false},
		{"GET plain", "GET plain", false},
	}
	play := func(t *testing.T, s *testkit.Server) {
		watcher, c := s.Dial(), s.Dial()
		c.Must("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100")
		c.Must("SLOWLOG", "RESET")
		watcher.Must("MONITOR")
		var slow, shown []string
		for _, step := range steps {
			words := strings.Fields(step.send)
			args := make([]any, len(words))
			for i, w := range words {
				args[i] = w
			}
			if _, err := c.Do(args...); err != nil {
				t.Fatalf("%s: %v", step.send, err)
			}
			want := step.slow
			if want != "" {
				slow = append(slow, want)
			} else {
				want = step.send
			}
			if !step.unwatched {
				shown = append(shown, `"`+strings.ReplaceAll(want, " ", `" "`)+`"`)
			}
		}
		var got []string
		for _, entry := range c.Must("SLOWLOG", "GET", "100").Elems {
			got = append(got, strings.Join(entry.Elems[3].Strings(), " "))
		}
		slices.Reverse(got)
		got = slices.DeleteFunc(got, func(line string) bool {
			return strings.HasPrefix(line, "SLOWLOG") || strings.HasPrefix(line, "MONITOR")
		})
		if !slices.Equal(got, slow) {
			t.Errorf("the slow log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(slow, "\n"))
		}
		for _, want := range shown {
			if line := receive(t, watcher); !strings.HasSuffix(line, "] "+want) {
				t.Errorf("MONITOR shows %s, want %s", line, want)
			}
		}
	}
	t.Run("spindle", func(t *testing.T) { play(t, testkit.Start(t)) })
	if program := os.Getenv("REDIS_SERVER"); program != "" {
		t.Run("reference", func(t *testing.T) {
			s := testkit.Launch(t, testkit.Spec{Redis: true, Program: program})
			if !strings.HasPrefix(s.Info("server")["redis_version"], "7.4.") {
				t.Skip("REDIS_SERVER is no 7.4")
			}
			play(t, s)
		})
	}
}

func receive(t *testing.T, c *respclient.Client) string {
	t.Helper()
	v, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return v.Text
}

// TestSkipSanitizePayload: RESTORE checks the payloads of users without the flag skip-sanitize-payload. A change of the
// flag also affects clients that are already connected.
func TestSkipSanitizePayload(t *testing.T) {
	play := func(t *testing.T, s *testkit.Server) {
		admin, c := s.Dial(), s.Dial()
		admin.Must("CONFIG", "SET", "sanitize-dump-payload", "clients")
		admin.Must("RPUSH", "l", "a", "b", "c")
		payload := admin.Must("DUMP", "l").Text
		admin.Must("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all")
		c.Must("AUTH", "u", "x")
		restored := func(deep bool) {
			t.Helper()
			before := s.InfoInt("stats", "dump_payload_sanitizations")
			c.Must("RESTORE", "copy", "0", payload, "REPLACE")
			if got := s.InfoInt("stats", "dump_payload_sanitizations") != before; got != deep {
				t.Errorf("looked through: %t, want %t", got, deep)
			}
			if got := admin.Must("LRANGE", "copy", "0", "-1").Strings(); !slices.Equal(got, []string{"a", "b", "c"}) {
				t.Errorf("restored %q", got)
			}
		}
		restored(true)
		admin.Must("ACL", "SETUSER", "u", "skip-sanitize-payload")
		restored(false)
		if got := admin.Must("ACL", "LIST").String(); !strings.Contains(got, "skip-sanitize-payload") {
			t.Errorf("ACL LIST: %s", got)
		}
		admin.Must("CONFIG", "SET", "sanitize-dump-payload", "yes")
		restored(true)
		admin.Must("CONFIG", "SET", "sanitize-dump-payload", "no")
		admin.Must("ACL", "SETUSER", "u", "sanitize-payload")
		restored(false)
		admin.Must("CONFIG", "SET", "sanitize-dump-payload", "clients")
		restored(true)
	}
	t.Run("reference", func(t *testing.T) { // a server of any version, which REDIS_SERVER may name
		play(t, testkit.Launch(t, testkit.Spec{Redis: true, Program: os.Getenv("REDIS_SERVER")}))
	})
	t.Run("spindle", func(t *testing.T) {
		s := testkit.Start(t)
		play(t, s)
		// Even with the flag, a payload that is damaged inside never crashes spindle. redis-server may crash.
		admin, c := s.Dial(), s.Dial()
		admin.Must("ACL", "SETUSER", "u", "skip-sanitize-payload")
		admin.Must("HSET", "h", "f", "v", "g", "12")
		admin.Must("ZADD", "z", "1", "a", "2.5", "b")
		admin.Must("SADD", "s", "1", "2", "70000")
		admin.Must("XADD", "x", "1-1", "f", "v")
		var payloads []string
		for _, key := range []string{"l", "h", "z", "s", "x"} {
			payloads = append(payloads, admin.Must("DUMP", key).Text)
		}
		s.Do("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1")
		c.Must("AUTH", "u", "x")
		rng := rand.New(rand.NewPCG(*theSeed, 3))
		refused := 0
		for round := range 2000 {
			p := []byte(payloads[round%len(payloads)])
			for range 1 + rng.IntN(2) {
				p[1+rng.IntN(len(p)-11)] = byte(rng.Uint32())
			}
			v, err := c.Do("RESTORE", "k", "0", string(p), "REPLACE")
			if err != nil {
				t.Fatalf("%q: %v", p, err)
			}
			if v.Err() != nil {
				refused++
			}
			for _, read := range [][]any{{"DUMP", "k"}, {"LRANGE", "k", 0, -1}, {"HGETALL", "k"}, {"ZRANGE", "k", 0, -1},
				{"SMEMBERS", "k"}, {"XRANGE", "k", "-", "+"}} {
				if _, err := c.Do(read...); err != nil {
					t.Fatalf("%q, %v: %v", p, read, err)
				}
			}
		}
		if refused == 0 || refused == 2000 {
			t.Errorf("%d of 2000 refused", refused)
		}
	})
}
