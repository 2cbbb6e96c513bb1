package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A bystander is a client that works continuously and records its longest wait.
type bystander struct {
	stop    chan struct{}
	done    chan struct{}
	longest time.Duration
	late    time.Duration // its own longest delay after a sleep of 1 ms: the host's fault
	served  int
}

// undisturbed is how long a client may wait on a busy host. If another client held it up by doing nothing, it would
// wait far longer. Work for another client is bounded by longestTurn.
const undisturbed = 5 * time.Second

func watch(t *testing.T, s *testkit.Server) *bystander {
	b := &bystander{stop: make(chan struct{}), done: make(chan struct{})}
	c := s.Dial()
	go func() {
		defer close(b.done)
		for {
			rested := time.Now()
			select {
			case <-b.stop:
				if b.served > 0 { // at least one request, however short the test is
					return
				}
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			b.late = max(b.late, began.Sub(rested))
			if v, err := c.Do("INCR", "bystander"); err != nil || v.Err() != nil {
				t.Errorf("a bystander was disturbed: %v %v", v, err)
				return
			}
			b.longest = max(b.longest, time.Since(began))
			b.served++
		}
	}()
	return b
}

// undisturbed ends b. It fails the test if b ever waited for more than limit plus its own delay.
func (b *bystander) undisturbed(t *testing.T, limit time.Duration) {
	t.Helper()
	close(b.stop)
	<-b.done
	if b.longest > testkit.Slowly(limit)+2*b.late || b.served == 0 {
		t.Errorf("a bystander waited %v (%d requests served), and %v for the host", b.longest, b.served, b.late)
	}
	t.Logf("a bystander waited %v at most, in %d requests, and %v for the host", b.longest, b.served, b.late)
}

// clientLine is the log line about a client that exceeds an output limit.
var clientLine = regexp.MustCompile("Client id=.* scheduled to be closed ASAP")

// TestReaderThatNeverReads: a client that never reads is disconnected at its limit, hard or soft. Other clients are not
// affected, and its memory is freed.
func TestReaderThatNeverReads(t *testing.T) {
	for _, c := range []struct{ name, limit string }{{"hard", "normal 8mb 0 0"}, {"soft", "normal 0 2mb 1"}} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.Start(t, "--client-output-buffer-limit", c.limit)
			s.Do("SET", "big", strings.Repeat("x", 1<<20))
			before := s.InfoInt("memory", "used_memory")
			b := watch(t, s)
			deaf := dial(t, s.Addr)
			defer deaf.Close()
			if err := deaf.(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			if _, err := deaf.Write(bytes.Repeat([]byte("GET big\r\n"), 100)); err != nil {
				t.Fatal(err)
			}
			s.AwaitInfo(testkit.Slowly(20*time.Second), "stats", "client_output_buffer_limit_disconnections", "1")
			s.AwaitLog(testkit.Slowly(10*time.Second), " scheduled to be closed ASAP for overcoming of output buffer limits.")
			if line := clientLine.FindString(s.Log()); !strings.Contains(line, " addr="+deaf.LocalAddr().String()+" ") ||
				strings.Contains(line, " omem=0 ") {
				t.Errorf("the log says of the client: %q", line)
			}
			b.undisturbed(t, undisturbed)
			s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "connected_clients", "2") // the bystander and the test
			testkit.Until(t, testkit.Slowly(10*time.Second), "used_memory as before", func() error {
				if n := s.InfoInt("memory", "used_memory"); n > before+1<<20 {
					return fmt.Errorf("%d, %d before", n, before)
				}
				return nil
			})
		})
	}
}

// TestQueryBufferLimit: a client whose request never ends is disconnected. A request that is too long for its form gets
// an error.
func TestQueryBufferLimit(t *testing.T) {
	s := testkit.Start(t, "--client-query-buffer-limit", "1mb")
	b := watch(t, s)
	c := dial(t, s.Addr)
	defer c.Close()
	fmt.Fprintf(c, "*100000\r\n")
	piece := []byte("$10000\r\n" + strings.Repeat("y", 10_000) + "\r\n")
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		c.SetDeadline(time.Now().Add(testkit.Slowly(time.Minute)))
		_, err = c.Write(piece)
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("10 MB of an unfinished request: %v", err)
	}
	s.AwaitInfo(testkit.Slowly(10*time.Second), "stats", "client_query_buffer_limit_disconnections", "1")
	s.AwaitLog(testkit.Slowly(10*time.Second), "Closing client that reached max query buffer length: id=")
	long := dial(t, s.Addr) // an argument that is slightly too long is read to its end; then the connection closes
	defer long.Close()
	long.SetDeadline(time.Now().Add(testkit.Slowly(time.Minute)))
	if _, err := fmt.Fprintf(long, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1048576\r\n%s\r\n",
		strings.Repeat("z", 1<<20)); err != nil {
		t.Errorf("sending an argument of 1 MB: %v", err)
	}
	if n, err := long.Read(make([]byte, 16)); n != 0 || err != io.EOF {
		t.Errorf("after an argument of 1 MB: %d bytes, %v; want the end", n, err)
	}
	s.AwaitLog(testkit.Slowly(10*time.Second), "(qbuf initial bytes: \"zzz")
	s.AwaitLog(testkit.Slowly(10*time.Second), " qbuf=1048578 ")
	for text, want := range map[string]string{
		strings.Repeat("a", 70_000):       "ERR Protocol error: too big inline request",
		"*" + strings.Repeat("1", 70_000): "ERR Protocol error: too big mbulk count string",
		"*1\r\n$600000000\r\n":            "ERR Protocol error: invalid bulk length",
		"*2000000000000\r\n":              "ERR Protocol error: invalid multibulk length",
		"*1\r\nGET\r\n":                   "ERR Protocol error: expected '$', got 'G'",
	} {
		c := s.Dial()
		c.SendRaw([]byte(text))
		if v, err := c.Receive(); err != nil || v.Text != want {
			t.Errorf("%.30q…: %v %v, want %q", text, v, err, want)
		}
		if _, err := c.Receive(); err == nil {
			t.Errorf("%.30q…: not let go", text)
		}
	}
	b.undisturbed(t, undisturbed)
}

// TestStorms: thousands of connections come and go in every abrupt way, and leave nothing in the server.
func TestStorms(t *testing.T) {
	s := testkit.Start(t)
	s.Do("PING")
	s.Do("SET", "big", strings.Repeat("x", 1<<20))
	sockets := len(s.Sockets())
	b := watch(t, s)
	rude := []struct {
		name string
		do   func(c *net.TCPConn) error
	}{
		{"leaves at once", func(c *net.TCPConn) error { return c.Close() }},
		{"resets at once", func(c *net.TCPConn) error { return c.SetLinger(0) }},
		{"half a request, then leaves", func(c *net.TCPConn) error {
			_, err := c.Write([]byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nhalf"))
			return err
		}},
		{"half a request, then resets", func(c *net.TCPConn) error {
			_, err := c.Write([]byte("*2\r\n$3\r\nGE"))
			return errors.Join(err, c.SetLinger(0))
		}},
		{"asks and leaves without reading",
			func(c *net.TCPConn) error { _, err := c.Write([]byte("GET big\r\nPING\r\n")); return err }},
		{"asks and resets without reading", func(c *net.TCPConn) error {
			_, err := c.Write([]byte("GET big\r\n"))
			return errors.Join(err, c.SetLinger(0))
		}},
		{"asks, says it is done, and reads", func(c *net.TCPConn) error {
			if _, err := c.Write([]byte("PING\r\n")); err != nil {
				return err
			}
			if err := c.CloseWrite(); err != nil {
				return err
			}
			c.SetReadDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
			text, err := io.ReadAll(c)
			if err == nil && string(text) != "+PONG\r\n" {
				err = fmt.Errorf("%q", text)
			}
			return err
		}},
		{"starts a transaction and leaves",
			func(c *net.TCPConn) error { _, err := c.Write([]byte("MULTI\r\nSET k v\r\n")); return err }},
		{"waits and leaves", func(c *net.TCPConn) error { _, err := c.Write([]byte("WAIT 1 0\r\n")); return err }},
		{"watches MONITOR and resets", func(c *net.TCPConn) error {
			_, err := c.Write([]byte("MONITOR\r\n"))
			return errors.Join(err, c.SetLinger(0))
		}},
		{"asks to become a replica and leaves",
			func(c *net.TCPConn) error { _, err := c.Write([]byte("PSYNC ? -1\r\n")); return err }},
	}
	total := 6000 * testkit.Scale()
	if testkit.Checked {
		total /= 4
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= total {
					return
				}
				r := rude[i%len(rude)]
				if strings.Contains(r.name, "replica") && i%(8*len(rude)) != len(rude)-1 {
					continue // each costs a copy of all data
				}
				conn, err := net.DialTimeout("tcp", s.Addr, testkit.Slowly(20*time.Second))
				if err != nil {
					t.Error(err)
					return
				}
				err = r.do(conn.(*net.TCPConn))
				conn.Close()
				if err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("one that %s: %v", r.name, err)
				}
			}
		})
	}
	wait.Wait()
	b.undisturbed(t, undisturbed)
	s.AwaitInfo(testkit.Slowly(20*time.Second), "clients", "connected_clients", "2") // the bystander is still connected
	s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "connected_slaves", "0")
	s.AwaitInfo(testkit.Slowly(20*time.Second), "memory", "memory_kept_by_views", "0")
	closed(t, s, sockets+1)
	if v := s.Do("EXISTS", "k"); v.Int != 0 {
		t.Error("half a request, or a transaction without EXEC, was carried out")
	}
}

// TestGarbage: very many connections send random bytes, and requests with random mistakes. The server keeps running,
// and their memory is freed.
func TestGarbage(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := testkit.Start(t)
	s.Do("PING")
	sockets, used := len(s.Sockets()), s.InfoInt("memory", "used_memory")
	total := 2000 * testkit.Scale()
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i := next.Add(1); i <= int64(total); i = next.Add(1) {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				conn, err := net.DialTimeout("tcp", s.Addr, testkit.Slowly(20*time.Second))
				if err != nil {
					t.Errorf("seed %d, connection %d: %v", seed, i, err)
					return
				}
				go io.Copy(io.Discard, conn)
				for range 1 + rng.IntN(20) {
					conn.SetWriteDeadline(time.Now().Add(testkit.Slowly(time.Minute)))
					if _, err := conn.Write(garbage(rng)); err != nil {
						break // cut off, as expected
					}
				}
				conn.Close()
			}
		})
	}
	wait.Wait()
	settled(t, s, sockets)
	s.Do("FLUSHALL")
	testkit.Until(t, testkit.Slowly(20*time.Second), "used_memory as before", func() error {
		if n := s.InfoInt("memory", "used_memory"); n > used+256<<10 {
			return fmt.Errorf("%d, %d before", n, used)
		}
		return nil
	})
}

// garbage returns random bytes, or a request with bytes changed, added, removed or cut off.
func garbage(rng *rand.Rand) []byte {
	if rng.IntN(4) == 0 {
		p := make([]byte, rng.IntN(2000))
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		return p
	}
	requests := []string{
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
		"SET k \"quoted \\x00\"\r\n", "*1\r\n$4\r\nPING\r\n",
		"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n",
		"*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$3\r\nmore\r\n", "HELLO 3\r\n", "*0\r\n", "*-1\r\n",
		"MULTI\r\nINCR n\r\nEXEC\r\n", "SCAN 123456789 COUNT 10\r\n",
		"*2\r\n$4\r\nKEYS\r\n$9\r\n[a-\\*?]^x\r\n", "RESTORE k 0 \"\\x00\\x05hello\\x0b\\x00\"\r\n",
		"*4\r\n$8\r\nSETRANGE\r\n$1\r\nk\r\n$7\r\n1000000\r\n$1\r\nx\r\n", "DEBUG JMAP\r\n",
		"CLIENT NO-EVICT on\r\n", "OBJECT FREQ k\r\n",
	}
	var p []byte
	for range 1 + rng.IntN(8) {
		p = append(p, requests[rng.IntN(len(requests))]...)
	}
	for range rng.IntN(4) {
		switch at := rng.IntN(len(p)); rng.IntN(4) {
		case 0:
			p[at] = byte(rng.Uint32())
		case 1:
			p = append(p[:at], p[min(len(p), at+1+rng.IntN(5)):]...)
		case 2:
			p = append(p[:at], append([]byte("999999999"), p[at:]...)...)
		default:
			p = p[:at]
		}
		if len(p) == 0 {
			return p
		}
	}
	return p
}
