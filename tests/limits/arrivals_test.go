package limits

import (
	"bufio"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestBurstWithFewDescriptors: a connection needs one descriptor from its first instant. If a burst fits into
// maxclients, every client is served, even though the process may open hardly any more files.
func TestBurstWithFewDescriptors(t *testing.T) {
	const burst = 1000
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			s := testkit.Start(t, "--reactor-backend", backend, "--maxclients", strconv.Itoa(burst+50))
			s.Do("PING")
			held, err := os.ReadDir("/proc/" + strconv.Itoa(s.PID) + "/fd")
			if err != nil {
				t.Fatal(err)
			}
			files := unix.Rlimit{Cur: uint64(len(held) + burst + 20), Max: uint64(len(held) + burst + 20)}
			if err := unix.Prlimit(s.PID, unix.RLIMIT_NOFILE, &files, nil); err != nil {
				t.Fatal(err)
			}
			conns := make([]net.Conn, burst)
			var wait sync.WaitGroup
			for first := range 8 {
				wait.Go(func() {
					for i := first; i < burst; i += 8 {
						conns[i] = dial(t, s.Addr)
					}
				})
			}
			wait.Wait()
			lost := 0
			for _, c := range conns {
				r := respclient.New(c)
				r.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
				if v, err := r.Do("PING"); err != nil || v.Text != "PONG" {
					lost++
				}
				defer c.Close()
			}
			if lost > 0 {
				t.Errorf("%d of %d connections were lost", lost, burst)
			}
		})
	}
}

// TestFirstRequestOfAConnection: while other clients keep the loop busy, the first request on a new connection waits
// hardly longer than one on an old connection.
func TestFirstRequestOfAConnection(t *testing.T) {
	s := testkit.Start(t)
	var ended atomic.Bool
	var wait sync.WaitGroup
	defer wait.Wait()
	defer ended.Store(true)
	ask := []byte(strings.Repeat("SET key:000000000001 xxx\r\n", 64))
	for range 32 {
		c := dial(t, s.Addr)
		wait.Go(func() {
			defer c.Close()
			r := bufio.NewReader(c)
			for !ended.Load() {
				if _, err := c.Write(ask); err != nil {
					return
				}
				for range 64 {
					r.ReadSlice('\n')
				}
			}
		})
	}
	old := dial(t, s.Addr)
	defer old.Close()
	ping := func(c net.Conn) {
		c.SetDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
		c.Write([]byte("PING\r\n"))
		if n, err := c.Read(make([]byte, 16)); err != nil || n != len("+PONG\r\n") {
			t.Fatal(n, err)
		}
	}
	// Other work on the host lengthens both waits, but not in each round.
	testkit.Until(t, testkit.Slowly(20*time.Second), "a first request that waits no longer than others", func() error {
		var first, other []time.Duration
		for range 100 {
			begin := time.Now()
			ping(old)
			other = append(other, time.Since(begin))
			begin = time.Now()
			c := dial(t, s.Addr)
			ping(c)
			first = append(first, time.Since(begin))
			c.Close()
		}
		slices.Sort(first)
		slices.Sort(other)
		a, b := first[90], other[90]
		t.Logf("p90 of a first request %v, of others %v", a, b)
		if a > 2*b+time.Millisecond {
			return errFirstWaits
		}
		return nil
	})
}

var errFirstWaits = errors.New("a first request waits longer")

// TestOutOfDescriptors: a server that cannot open another file still serves its clients, and does not use CPU in a busy
// loop. It accepts the waiting clients when it can.
func TestOutOfDescriptors(t *testing.T) {
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			s := testkit.Start(t, "--reactor-backend", backend)
			s.Do("PING")
			held, err := os.ReadDir("/proc/" + strconv.Itoa(s.PID) + "/fd")
			if err != nil {
				t.Fatal(err)
			}
			var was unix.Rlimit
			if err := unix.Prlimit(s.PID, unix.RLIMIT_NOFILE, nil, &was); err != nil {
				t.Fatal(err)
			}
			few := unix.Rlimit{Cur: uint64(len(held) + 3), Max: was.Max}
			if err := unix.Prlimit(s.PID, unix.RLIMIT_NOFILE, &few, nil); err != nil {
				t.Fatal(err)
			}
			var conns []*respclient.Client
			for range 20 {
				c := respclient.New(dial(t, s.Addr)) // the kernel completes the connection
				c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
				defer c.Close()
				conns = append(conns, c)
			}
			s.AwaitLog(testkit.Slowly(10*time.Second), "Accepting client connection: accept: Too many open files")
			pace := time.Tick(time.Millisecond)
			// A file that the server had open for a moment, when they were counted, lets it accept one client more.
			testkit.Until(t, testkit.Slowly(10*time.Second), "no more connections", func() error {
				before := s.InfoInt("stats", "total_connections_received")
				for range 100 {
					s.Do("PING")
					<-pace
				}
				return testkit.Equal(s.InfoInt("stats", "total_connections_received"), before)
			})
			if n := strings.Count(s.Log(), "Too many open files"); n > 10 {
				t.Errorf("the log tells %d times of files", n)
			}
			if err := unix.Prlimit(s.PID, unix.RLIMIT_NOFILE, &was, nil); err != nil {
				t.Fatal(err)
			}
			for i, c := range conns {
				if v, err := c.Do("PING"); err != nil || v.Text != "PONG" {
					t.Errorf("connection %d: %v %v", i, v, err)
				}
			}
		})
	}
}
