package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A clientGroup is a set of connections that repeatedly send a request and wait for the reply, until they are stopped.
type clientGroup struct {
	stop    atomic.Bool
	wait    sync.WaitGroup
	served  atomic.Int64
	longest atomic.Int64 // ns
	late    atomic.Int64 // ns; see bystander
}

// gather keeps n connections busy, with atOnce requests at a time. If all were busy at once, they would wait for this
// machine.
func gather(t *testing.T, s *testkit.Server, n, atOnce int) *clientGroup {
	c := &clientGroup{}
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = dial(t, s.Addr)
	}
	for g := range atOnce {
		c.wait.Go(func() {
			reply := make([]byte, 64)
			for !c.stop.Load() {
				for i := g; i < n && !c.stop.Load(); i += atOnce {
					began := time.Now()
					conns[i].SetDeadline(began.Add(testkit.Slowly(20 * time.Second)))
					if _, err := fmt.Fprintf(conns[i], "INCR busy:%d\r\n", i); err != nil {
						t.Errorf("connection %d: %v", i, err)
						return
					}
					if k, err := conns[i].Read(reply); err != nil || reply[0] != ':' {
						t.Errorf("connection %d: %q, %v", i, reply[:k], err)
						return
					}
					raise(&c.longest, time.Since(began))
					c.served.Add(1)
				}
				rested := time.Now()
				time.Sleep(time.Millisecond)
				raise(&c.late, time.Since(rested))
			}
		})
	}
	t.Cleanup(func() {
		c.stop.Store(true)
		c.wait.Wait()
		for _, conn := range conns {
			conn.Close()
		}
	})
	return c
}

// raise sets most to took if took is larger.
func raise(most *atomic.Int64, took time.Duration) {
	for was := most.Load(); int64(took) > was && !most.CompareAndSwap(was, int64(took)); was = most.Load() {
	}
}

// undisturbed stops the clientGroup. It fails the test if a connection ever waited for more than limit; see bystander.
func (c *clientGroup) undisturbed(t *testing.T, limit time.Duration) {
	t.Helper()
	c.stop.Store(true)
	c.wait.Wait()
	longest, late := time.Duration(c.longest.Load()), time.Duration(c.late.Load())
	if longest > testkit.Slowly(limit)+2*late || c.served.Load() == 0 {
		t.Errorf("one of a clientGroup waited %v (%d requests served), and %v for the host", longest, c.served.Load(), late)
	}
	t.Logf("of a clientGroup one waited %v at most, in %d requests, and %v for the host", longest, c.served.Load(), late)
}

// deaf returns a connection that requests big n times and never reads.
func deaf(t *testing.T, s *testkit.Server, n int) net.Conn {
	t.Helper()
	conn := dial(t, s.Addr)
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(bytes.Repeat([]byte("GET big\r\n"), n)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// cut waits until the server has closed a connection.
func cut(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a connection past its limit is still open")
	}
}

// TestDeafAmongMany: clients that never read are disconnected by the limit for each client or by the limit for all
// clients. A thousand other clients are not affected.
func TestDeafAmongMany(t *testing.T) {
	for _, c := range []struct{ name, setting, value, counter string }{
		{"output limit", "--client-output-buffer-limit", "normal 4mb 0 0", "client_output_buffer_limit_disconnections"},
		{"maxmemory-clients", "--maxmemory-clients", "16mb", "evicted_clients"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.Start(t, c.setting, c.value, "--io-threads", "2")
			s.Do("SET", "big", strings.Repeat("x", 1<<20))
			others := gather(t, s, 1000, 8)
			used := s.InfoInt("memory", "used_memory")
			for range 6 {
				deaf(t, s, 100)
			}
			s.AwaitInfo(testkit.Slowly(20*time.Second), "stats", c.counter, "6")
			s.AwaitInfo(testkit.Slowly(20*time.Second), "clients", "connected_clients", "1001")
			testkit.Until(t, testkit.Slowly(20*time.Second), "each of the others served", func() error {
				if n := others.served.Load(); n < 3000 {
					return fmt.Errorf("%d requests", n)
				}
				return nil
			})
			others.undisturbed(t, undisturbed)
			if n := s.InfoInt("memory", "mem_clients_normal"); n > 16<<20 {
				t.Errorf("clients cost %d", n)
			}
			testkit.Until(t, testkit.Slowly(10*time.Second), "used_memory as before", func() error {
				if n := s.InfoInt("memory", "used_memory"); n > used+4<<20 {
					return fmt.Errorf("%d, %d before", n, used)
				}
				return nil
			})
		})
	}
}

// TestMaxmemoryClients: an argument that is arriving, an argument of an incomplete request, a transaction, and watched
// keys all count toward the limit. The log names the evicted client.
func TestMaxmemoryClients(t *testing.T) {
	s := testkit.Start(t, "--maxmemory-clients", "2mb")
	half := strings.Repeat("v", 1<<20)
	many := func(n int, line string) string { return strings.Repeat(line, n) }
	for i, c := range []struct{ name, bytes string }{
		{"a long last argument", "*2\r\n$3\r\nGET\r\n$3000000\r\n" + half + half + half[:900_000]},
		{"a long first argument", "*3\r\n$3000000\r\n" + half + half + half[:900_000]},
		{"many arguments", "*100000\r\n" + many(300, "$10000\r\n"+strings.Repeat("v", 10_000)+"\r\n")},
		{"a transaction", "MULTI\r\n" + many(3, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n"+half+"\r\n")},
		{"watched keys", many(60_000, "WATCH a b c\r\n") + numbered(60_000, "WATCH %d\r\n")},
	} {
		conn := dial(t, s.Addr)
		go conn.Write([]byte(c.bytes)) // the server may close the connection before it is all sent
		s.AwaitInfo(testkit.Slowly(20*time.Second), "stats", "evicted_clients", fmt.Sprint(i+1))
		cut(t, conn)
		conn.Close()
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
	s.AwaitLog(testkit.Slowly(5*time.Second), "Evicting client: id=")
	conn := dial(t, s.Addr)
	defer conn.Close()
	fmt.Fprintf(conn, "CLIENT NO-EVICT ON\r\n")
	fmt.Fprintf(conn, "*2\r\n$3000000\r\n%s", half+half)
	s.AwaitLog(testkit.Slowly(20*time.Second), "Over client maxmemory after evicting all evictable clients")
}

// TestLimitOfOneBeforeThatOfAll: a client beyond its own output limit is closed for that limit. Its memory causes no
// eviction of another client before that.
func TestLimitOfOneBeforeThatOfAll(t *testing.T) {
	s := testkit.Start(t, "--maxmemory-clients", "10mb", "--client-output-buffer-limit", "normal 3mb 0 0")
	s.Do("SET", "big", strings.Repeat("x", 4<<20))
	const waiting = 6<<20 + 512<<10
	patient := dial(t, s.Addr)
	defer patient.Close()
	fmt.Fprintf(patient, "CLIENT SETNAME patient\r\n*2\r\n$%d\r\n%s", waiting, strings.Repeat("v", waiting))
	testkit.Until(t, testkit.Slowly(20*time.Second), "all of the long argument is there", func() error {
		if n := s.InfoInt("memory", "mem_clients_normal"); n < waiting {
			return fmt.Errorf("clients cost %d", n)
		}
		return nil
	})
	for i := range 4 {
		cut(t, deaf(t, s, 1))
		s.AwaitInfo(testkit.Slowly(20*time.Second), "stats", "client_output_buffer_limit_disconnections", fmt.Sprint(i+1))
	}
	if n := s.InfoInt("stats", "evicted_clients"); n != 0 {
		t.Errorf("%d clients were evicted", n)
	}
	if list := s.Do("CLIENT", "LIST").Text; !strings.Contains(list, "name=patient") {
		t.Errorf("the client that waits for the rest of its argument has gone: %s", list)
	}
}

func numbered(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

// TestQueryBufferOfSlowSenders: the bytes of unfinished requests count in used_memory at once. They no longer count
// when the requests end. Announced lengths do not count.
func TestQueryBufferOfSlowSenders(t *testing.T) {
	s := testkit.Start(t)
	before := s.InfoInt("memory", "used_memory")
	var conns []net.Conn
	for i := range 20 {
		conn := dial(t, s.Addr)
		conns = append(conns, conn)
		request := "*2\r\n$3\r\nGET\r\n$1000000\r\n" // streamed into the keyspace's memory
		if i%2 == 0 {
			request = "*3\r\n$1000000\r\n"
		}
		request += strings.Repeat("v", 950_000)
		fmt.Fprint(conn, request)
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "19 MB in use", func() error {
		clients, used := s.InfoInt("memory", "mem_clients_normal"), s.InfoInt("memory", "used_memory")-before
		if clients < 19_000_000 || clients > 21_000_000 || used < 19_000_000 || used > 21_000_000 {
			return fmt.Errorf("clients cost %d, used_memory grew by %d", clients, used)
		}
		return nil
	})
	if over, data := s.InfoInt("memory", "used_memory_overhead"), s.InfoInt("memory",
		"used_memory_dataset"); over < 19_000_000 || data > before {
		t.Errorf("overhead %d, dataset %d", over, data)
	}
	for _, conn := range conns {
		conn.Close()
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "memory as before", func() error {
		if n := s.InfoInt("memory", "used_memory"); n > before+100_000 {
			return fmt.Errorf("%d, %d before", n, before)
		}
		return nil
	})
}
