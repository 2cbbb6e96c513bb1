package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// announce begins a SET of n bytes on a new connection, and sends only the first bytes.
func announce(t *testing.T, s *testkit.Server, n int, first string) net.Conn {
	t.Helper()
	conn := dial(t, s.Addr)
	t.Cleanup(func() { conn.Close() })
	// The reply shows any error: the server may refuse the request before all is sent.
	_, _ = fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s", n, first)
	return conn
}

// TestAnnouncedArgumentsCostNothing: a client that announces 512 MB and sends little uses only memory for the bytes
// sent. No key or client is evicted for it.
func TestAnnouncedArgumentsCostNothing(t *testing.T) {
	s := testkit.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--maxmemory-clients", "64mb")
	fill := s.Dial()
	testkit.Pipe(t, fill, 100_000,
		func(i int) []any { return []any{"SET", fmt.Sprint("key:", i), strings.Repeat("v", 300)} })
	before := s.InfoInt("memory", "used_memory")
	const clients, sent = 100, 100_000
	for i := range clients {
		announce(t, s, 512<<20, strings.Repeat("x", i%2*sent))
		first := dial(t, s.Addr) // an argument that is not the last goes into a buffer of the loop
		t.Cleanup(func() { first.Close() })
		fmt.Fprint(first, "*3\r\n$4000000\r\nx")
	}
	testkit.Until(t, 20*time.Second, "all that was sent has arrived", func() error {
		if in := s.InfoInt("stats", "total_net_input_bytes"); in < clients/2*sent {
			return fmt.Errorf("%d bytes arrived", in)
		}
		return nil
	})
	for range 50 {
		s.Do("SET", "key:1", "v") // each command checks whether there is room
	}
	const own = 32 << 10 // a connection and its buffers
	if grown := s.InfoInt("memory", "used_memory") - before; grown > clients/2*sent*5/4+2*clients*own {
		t.Errorf("used_memory grew by %d for %d bytes sent", grown, clients/2*sent)
	}
	if n := s.InfoInt("stats", "evicted_keys"); n != 0 {
		t.Errorf("%d keys were evicted", n)
	}
	if n := s.InfoInt("stats", "evicted_clients"); n != 0 {
		t.Errorf("%d clients were evicted", n)
	}
	if n := s.Do("DBSIZE").Int; n != 100_000 {
		t.Errorf("%d keys are left", n)
	}
}

// TestNoMoreMemory: under a limit of memory the server refuses requests that need more than there is, with an error. It
// keeps running, and accepts writes again after memory was freed.
//
// To fill the address space takes seconds. So one server is filled for several kinds of requests, and before most kinds
// some memory is freed, which the requests use up again.
func TestNoMoreMemory(t *testing.T) {
	t.Parallel()
	limited := func(t *testing.T) *testkit.Server {
		return testkit.Launch(t, testkit.Spec{Shell: "ulimit -v 4000000"})
	}
	t.Run("announced", func(t *testing.T) {
		s := limited(t)
		for range 100 {
			announce(t, s, 512<<20, "begun")
		}
		works(t, s)
	})
	if testkit.Race {
		t.Skip("a limit of memory ends the race detector: run it without -race")
	}
	key := func(i int) string { return fmt.Sprint("key:", i) }
	t.Run("small", func(t *testing.T) {
		s, freed := limited(t), 0
		room := func() { // 40 MB
			words := []any{"DEL"}
			for range 5000 {
				words = append(words, key(freed))
				freed++
			}
			s.Do(words...)
		}
		usedUp(t, s, "small", func(i int) []any { return []any{"SET", key(i), strings.Repeat("v", 8000)} })
		room()
		usedUp(t, s, "elements", func(i int) []any {
			return []any{"RPUSH", fmt.Sprint("list:", i%10), strings.Repeat("v", 7000)}
		})
		room()
		padding := strings.Repeat("a member of some length, number ", 8)
		usedUp(t, s, "many", func(i int) []any {
			args := []any{"SADD", fmt.Sprint("set:", i)}
			for j := range 10_000 {
				args = append(args, padding+strconv.Itoa(i*10_000+j))
			}
			return args
		})
		works(t, s)
	})
	// A size that a client only names is refused when not as much is left. So each kind leaves room for the next one.
	t.Run("named or long", func(t *testing.T) {
		s := limited(t)
		s.Do("SETRANGE", "source", 100<<20, "x")
		usedUp(t, s, "by bit", func(i int) []any { return []any{"SETBIT", fmt.Sprint("bit:", i), 1 << 31, "1"} })
		usedUp(t, s, "by number", func(i int) []any { return []any{"SETRANGE", key(i), 100 << 20, "x"} })
		usedUp(t, s, "copies", func(i int) []any { return []any{"COPY", "source", fmt.Sprint("copy:", i)} })
		freed := 0
		room := func() { // 40 MB
			words := []any{"DEL"}
			for range 2500 {
				words = append(words, key(freed))
				freed++
			}
			s.Do(words...)
		}
		room()
		usedUp(t, s, "medium", func(i int) []any {
			return []any{"SET", fmt.Sprint("medium:", i), strings.Repeat("v", 30_000)}
		})
		room()
		sendLong(t, s, 20<<20)
		works(t, s)
	})
	t.Run("refused by the system", func(t *testing.T) {
		const limit = 500_000                                                        // KB
		s := testkit.Launch(t, testkit.Spec{Shell: fmt.Sprint("ulimit -d ", limit)}) // as with vm.overcommit_memory=2
		usedUp(t, s, "SET", func(i int) []any { return []any{"SET", key(i), strings.Repeat("v", 3000*(1+i%2*6))} })
		if left := limit - counted(t, s); left < 32_000 {
			t.Errorf("%d KB are left for threads and the Go heap: the process ends when it needs more", left)
		}
		works(t, s)
	})
}

// usedUp sends requests of one kind. It fails the test unless the server serves some, and then refuses them.
func usedUp(t *testing.T, s *testkit.Server, what string, ask func(i int) []any) {
	t.Helper()
	const batch, wanted = 10, 30 // requests, refusals
	served(t, s)
	done, refused, c := 0, 0, s.Dial()
	defer c.Close()
	for i := 0; i < 1_000_000 && refused < wanted; i += batch {
		for j := range batch {
			c.Send(ask(i + j)...)
		}
		for j := range batch {
			v, err := c.Receive()
			switch {
			case err != nil:
				t.Fatalf("%s: request %d: %v", what, i+j, err)
			case strings.Contains(v.Text, "OOM"):
				refused++
			default:
				done++
			}
		}
	}
	if done == 0 || refused < wanted {
		t.Errorf("%s: %d were served, %d refused", what, done, refused)
	}
	t.Logf("%s: %d were served, then %d refused", what, done, refused)
}

// sendLong sends eight arguments of n bytes, but not their ends. The server has room for less than half of them, and
// must refuse the others.
func sendLong(t *testing.T, s *testkit.Server, n int) {
	t.Helper()
	served(t, s)
	waiting := map[net.Conn]bool{}
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range 8 {
		conn := announce(t, s, n, "")
		for range n/len(piece) - 1 {
			conn.SetDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
			if _, err := conn.Write(piece); err != nil {
				break
			}
		}
		waiting[conn] = true
	}
	testkit.Until(t, testkit.Slowly(20*time.Second), "refusals", func() error {
		for conn := range waiting {
			conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
			var reply [4]byte
			if n, err := conn.Read(reply[:]); n > 0 && string(reply[:n]) == "-OOM" || err != nil && !isTimeout(err) {
				delete(waiting, conn)
			}
		}
		if len(waiting) > 4 {
			return fmt.Errorf("%d of 8 were refused", 8-len(waiting))
		}
		return nil
	})
}

// served returns when writes are served again.
func served(t *testing.T, s *testkit.Server) {
	t.Helper()
	testkit.Until(t, 30*time.Second, "writes are served again", func() error {
		v, err := s.Ask("SET", "k", "v")
		if err != nil {
			return err
		}
		return testkit.Equal(v.Text, "OK")
	})
}

// works fails the test unless small and large writes are served after a FLUSHALL.
func works(t *testing.T, s *testkit.Server) {
	t.Helper()
	s.Do("FLUSHALL")
	served(t, s)
	testkit.Until(t, 30*time.Second, "large ones too", func() error {
		conn := announce(t, s, 8<<20, strings.Repeat("x", 8<<20)+"\r\n")
		reply := make([]byte, 3)
		conn.SetDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
		_, err := io.ReadFull(conn, reply)
		conn.Close()
		return errors.Join(err, testkit.Equal(string(reply), "+OK"))
	})
}

// counted returns the size of the process, in KB, that the limit of data (ulimit -d) applies to.
func counted(t *testing.T, s *testkit.Server) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(status), "VmData:")
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatalf("VmData in %q: %v", status, err)
	}
	return n
}

// TestLazyFreeCountsValues: after the reply, values to be freed count as pending, as in Redis. When no value is
// pending, their memory has been freed.
func TestLazyFreeCountsValues(t *testing.T) {
	s := testkit.Start(t)
	empty := s.InfoInt("memory", "used_memory")
	c := s.Dial()
	large := func(key string, n int) {
		testkit.Pipe(t, c, n, func(i int) []any { return []any{"SADD", key, fmt.Sprint("element:", i)} })
	}
	// counted sends the command and INFO in one pipeline, so that the server has no time in between.
	counted := func(want int, args ...any) {
		t.Helper()
		s.Do("CONFIG", "RESETSTAT")
		conn := dial(t, s.Addr)
		defer conn.Close()
		words := fmt.Sprintln(args...)
		if _, err := io.WriteString(conn, words+"INFO memory\r\nQUIT\r\n"); err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, field := range []string{"lazyfree_pending_objects:", "lazyfreed_objects:"} {
			_, text, _ := strings.Cut(string(reply), field)
			n := 0
			if _, err := fmt.Sscan(text, &n); err != nil {
				t.Fatalf("%s in %q: %v", field, reply, err)
			}
			sum += n
		}
		if sum != want {
			t.Errorf("%s: %d objects are pending or freed, want %d", strings.TrimSpace(words), sum, want)
		}
		testkit.Until(t, 20*time.Second, "nothing is pending", func() error {
			return testkit.Equal(s.InfoInt("memory", "lazyfree_pending_objects"), 0)
		})
		if n := s.InfoInt("memory", "lazyfreed_objects"); n != int64(want) {
			t.Errorf("%s: %d objects were freed, want %d", strings.TrimSpace(words), n, want)
		}
	}
	large("a", 20_000)
	large("b", 20_000)
	large("small", 20)
	counted(2, "UNLINK", "a", "b", "small")
	if used := s.InfoInt("memory", "used_memory"); used > empty+200_000 {
		t.Errorf("%d bytes are in use when nothing is pending, %d at first", used, empty)
	}
	testkit.Pipe(t, c, 50_000, func(i int) []any { return []any{"SET", i, i} })
	large("a", 20_000)
	counted(50_001, "FLUSHALL", "ASYNC")
	if used := s.InfoInt("memory", "used_memory"); used > empty+200_000 {
		t.Errorf("%d bytes are in use when nothing is pending, %d at first", used, empty)
	}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}
