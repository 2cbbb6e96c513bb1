package process

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A waiter is a client that waits for a list.
type waiter struct {
	*respclient.Client
	t  testing.TB
	id int64
}

// await sends a blocking command from a new client, and returns when the client waits.
func (w *waitingRoom) await(args ...any) *waiter {
	w.t.Helper()
	c := w.s.Dial()
	p := &waiter{c, w.t, int64(c.Must("CLIENT", "ID").Int)}
	c.Send(args...)
	if err := c.Flush(); err != nil {
		w.t.Fatal(err)
	}
	w.n++
	w.waits(w.n)
	return p
}

// gets compares the waiter's reply with want, as one line without quotes.
func (p *waiter) gets(want string) {
	p.t.Helper()
	v, err := p.Receive()
	if err != nil {
		p.t.Fatalf("waiting for %q: %v", want, err)
	}
	if got := strings.ReplaceAll(v.String(), `"`, ""); got != want {
		p.t.Errorf("got %s, want %s", got, want)
	}
}

// A waitingRoom is a server, with the number of its waiting clients.
type waitingRoom struct {
	t testing.TB
	s *testkit.Server
	n int64
}

func (w *waitingRoom) waits(n int64) {
	w.t.Helper()
	w.n = n
	w.s.AwaitInfo(testkit.Slowly(20*time.Second), "clients", "blocked_clients", fmt.Sprint(n))
}

func (w *waitingRoom) list(key, want string) {
	w.t.Helper()
	if got := strings.Join(w.s.Do("LRANGE", key, 0, -1).Strings(), " "); got != want {
		w.t.Errorf("%s is %q, want %q", key, got, want)
	}
}

// TestBlockedOnLists: clients that wait for lists are served in order, by every command that creates a list. No other
// command serves them.
func TestBlockedOnLists(t *testing.T) {
	s := testkit.Start(t, "--enable-debug-command", "yes")
	for name, f := range map[string]func(w *waitingRoom){
		"one key, many clients": func(w *waitingRoom) {
			a, b, c := w.await("BLPOP", "k", 0), w.await("BRPOP", "k", 0), w.await("BLMPOP", 0, 1, "k", "LEFT", "COUNT", 5)
			s.Do("RPUSH", "k", 1, 2)
			a.gets(`[k 1]`)
			b.gets(`[k 2]`)
			w.waits(1)
			s.Do("RPUSH", "k", 3, 4, 5)
			c.gets(`[k [3 4 5]]`)
			w.list("k", "")
		},
		"several elements to another list": func(w *waitingRoom) {
			a := w.await("BLMOVEM", "k", "d", "LEFT", "RIGHT", 0, "EXACTLY", 3, "BULK")
			b := w.await("BLPOP", "k", 0)
			c := w.await("BLPOP", "d", 0)
			s.Do("RPUSH", "k", 1, 2) // not enough for the first client
			b.gets(`[k 1]`)
			w.waits(2)
			s.Do("RPUSH", "k", 3, 4)
			a.gets(`[2 3 4]`)
			c.gets(`[d 2]`)
			w.waits(0)
			w.list("d", "3 4")
			a = w.await("BLMOVEM", "k", "d", "LEFT", "LEFT", 0, "COUNT", 3, "OBO")
			s.Do("RPUSH", "k", 5, 6)
			a.gets(`[6 5]`)
			w.list("d", "6 5 3 4")
			w.waits(0)
			a = w.await("BLMOVEM", "k", "d", "LEFT", "LEFT", 0.01)
			a.gets(`(nil)`)
			w.waits(0)
			s.Do("DEL", "d")
		},
		"many keys, one client": func(w *waitingRoom) {
			a := w.await("BLPOP", "k1", "k2", "k1", "k3", 0)
			s.Do("MULTI")
			s.Do("RPUSH", "k3", "c")
			s.Do("RPUSH", "k2", "b")
			s.Do("EXEC")
			a.gets(`[k2 b]`)
			w.list("k3", "c")
		},
		"a key that is made something else is no reason to look at the others": func(w *waitingRoom) {
			first, second := w.await("BLPOP", "k", 0), w.await("BLPOP", "z", "k", 0)
			third := w.await("BLMOVE", "k", "to", "LEFT", "LEFT", 0)
			s.Do("MULTI")
			s.Do("ZADD", "z", 1, "x") // the second client waits for it, but not for a sorted set
			s.Do("RPUSH", "k", "a")
			s.Do("EXEC")
			first.gets(`[k a]`)
			w.waits(2)
			s.Do("RPUSH", "k", "b") // now the server also checks its first key
			second.gets(`(error) WRONGTYPE Operation against a key holding the wrong kind of value`)
			third.gets(`b`)
			s.Do("DEL", "z", "to")
		},
		"a type that no client waits for makes no key ready": func(w *waitingRoom) {
			turn := func(first, second string) {
				a, b := w.await("BLMOVE", "k1", "to", "LEFT", "RIGHT", 0), w.await("BLMOVE", "k2", "to", "LEFT", "RIGHT", 0)
				for _, args := range [][]any{{"MULTI"}, {"ZADD", "k1", 1, "x"}, {"RPUSH", "k2", "b"}, {"DEL", "k1"},
					{"RPUSH", "k1", "a"}, {"EXEC"}} {
					s.Do(args...)
				}
				a.gets("a")
				b.gets("b")
				w.n -= 2
				w.list("to", first+" "+second)
				s.Do("DEL", "to")
			}
			turn("b", "a")
			z := w.await("BZPOPMIN", "elsewhere", 0) // waits for the type that k1 had for a while
			turn("a", "b")
			s.Do("ZADD", "elsewhere", 1, "m")
			z.gets(`[elsewhere m 1]`)
			w.n--
			turn("b", "a")
		},
		"a database that is emptied serves no client": func(w *waitingRoom) {
			s.Do("SET", "other", "x")
			keys := []string{"k1", "k2", "k3", "k4", "k5", "k6"}
			for _, key := range keys {
				w.await("BLMOVE", key, "to", "RIGHT", "RIGHT", 0)
				s.Do("ZADD", key, 1, "x")
			}
			s.Do("MULTI")
			// A key that does not exist after the transaction is not ready, so it has no place in the order of ready
			// keys.
			s.Do("FLUSHALL")
			for i := range keys {
				s.Do("RPUSH", keys[len(keys)-1-i], i)
			}
			s.Do("EXEC")
			w.waits(0)
			w.list("to", "0 1 2 3 4 5")
			s.Do("DEL", "to")
		},
		"what is no request waits, too": func(w *waitingRoom) {
			c := s.Dial()
			io.WriteString(c.Conn(), "*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$1\r\n0\r\n*1\r\nPING\r\n")
			w.waits(w.n + 1)
			s.Do("RPUSH", "k", "a")
			for _, want := range []string{`["k" "a"]`, `(error) ERR Protocol error: expected '$', got 'P'`} {
				if v, err := c.Receive(); err != nil || v.String() != want {
					t.Errorf("got %s and %v, want %s", v, err, want)
				}
			}
			w.waits(0)
		},
		"a chain of moves": func(w *waitingRoom) {
			last := w.await("BLPOP", "c", 0)
			second := w.await("BLMOVE", "b", "c", "RIGHT", "LEFT", 0)
			first := w.await("BRPOPLPUSH", "a", "b", 0)
			s.Do("RPUSH", "a", "x")
			first.gets(`x`)
			second.gets(`x`)
			last.gets(`[c x]`)
		},
		"moves in a circle": func(w *waitingRoom) {
			a, b := w.await("BLMOVE", "a", "b", "LEFT", "LEFT", 0), w.await("BLMOVE", "b", "a", "LEFT", "LEFT", 0)
			s.Do("RPUSH", "a", "x")
			a.gets(`x`)
			b.gets(`x`)
			w.list("a", "x")
		},
		"another type comes": func(w *waitingRoom) {
			a := w.await("BLPOP", "k", 0)
			s.Do("SET", "k", "v")
			s.Do("SADD", "other", "m")
			s.Do("RENAME", "other", "k")
			s.Do("DEL", "k")
			w.waits(1)
			s.Do("RPUSH", "elsewhere", "x")
			s.Do("RENAME", "elsewhere", "k")
			a.gets(`[k x]`)
		},
		"the destination is no list": func(w *waitingRoom) {
			s.Do("CONFIG", "RESETSTAT")
			s.Do("SET", "string", "v")
			a, b := w.await("BLMOVE", "k", "string", "LEFT", "LEFT", 0), w.await("BLPOP", "k", 0)
			s.Do("RPUSH", "k", "x")
			a.gets("(error) WRONGTYPE Operation against a key holding the wrong kind of value")
			b.gets(`[k x]`)
			if got := s.Info("commandstats")["cmdstat_blmove"]; !strings.HasSuffix(got, "failed_calls=1") {
				t.Errorf("commandstats: %s", got)
			}
		},
		"a key before it is no list": func(w *waitingRoom) {
			a, z := w.await("BLPOP", "string", "k", 0), w.await("BZPOPMIN", "string", "z", 0)
			s.Do("SET", "string", "v")
			s.Do("RPUSH", "k", "x")
			a.gets("(error) WRONGTYPE Operation against a key holding the wrong kind of value")
			s.Do("ZADD", "z", 1, "m")
			z.gets("(error) WRONGTYPE Operation against a key holding the wrong kind of value")
			w.list("k", "x")
		},
		"unblocked and killed": func(w *waitingRoom) {
			a, b, c, d := w.await("BLPOP", "k", 0), w.await("BLPOP", "k", 0), w.await("BLPOP", "k", 0), w.await("BLPOP", "k", 0)
			s.Do("CLIENT", "UNBLOCK", a.id)
			a.gets(`(nil)`)
			s.Do("CLIENT", "UNBLOCK", b.id, "ERROR")
			b.gets("(error) UNBLOCKED client unblocked via CLIENT UNBLOCK")
			s.Do("CLIENT", "KILL", "ID", c.id)
			s.Do("RPUSH", "k", "x")
			d.gets(`[k x]`)
			if _, err := c.Receive(); err == nil {
				t.Error("the killed client was answered")
			}
			a.Must("PING")
		},
		"a transaction that takes it away again": func(w *waitingRoom) {
			a := w.await("BLPOP", "k", 0)
			s.Do("MULTI")
			s.Do("RPUSH", "k", "x")
			s.Do("DEL", "k")
			s.Do("EXEC")
			w.waits(1)
			s.Do("MULTI")
			s.Do("RPUSH", "k", "x")
			s.Do("LPUSH", "k", "y")
			s.Do("EXEC")
			a.gets(`[k y]`)
			w.list("k", "x")
		},
		"what came has expired": func(w *waitingRoom) {
			a := w.await("BLPOP", "k", 0)
			s.Do("MULTI")
			s.Do("RPUSH", "k", "x")
			s.Do("PEXPIRE", "k", 20)
			s.Do("DEBUG", "SLEEP", 0.04)
			s.Do("EXEC")
			w.waits(1)
			s.Do("RPUSH", "k", "y")
			a.gets(`[k y]`)
		},
		"time is up": func(w *waitingRoom) {
			began := time.Now()
			a := w.await("BLMOVE", "k", "l", "LEFT", "LEFT", 0.2)
			a.gets(`(nil)`)
			if took := time.Since(began); took < 200*time.Millisecond {
				t.Errorf("after %v", took)
			}
			s.Do("RPUSH", "k", "x")
			w.list("k", "x")
		},
		"all at once": func(w *waitingRoom) {
			var all []*waiter
			for i := range 20 {
				all = append(all, w.await("BLMOVE", "k", fmt.Sprint("to", i), "LEFT", "RIGHT", 0))
			}
			push := []any{"RPUSH", "k"}
			for i := range 25 {
				push = append(push, i)
			}
			s.Do(push...)
			for i, a := range all {
				a.gets(fmt.Sprint(i))
			}
			w.list("k", "20 21 22 23 24")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Do("FLUSHALL")
			w := &waitingRoom{t: t, s: s}
			f(w)
			w.waits(0)
		})
	}
}
