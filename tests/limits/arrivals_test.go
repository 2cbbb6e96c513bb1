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

// TestBurstWithFewDescriptors: a connection holds one descriptor from the first instant on. A burst that fits into
// maxclients loses nobody, though the process may hardly open more files than that.
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
				r.SetTimeout(testkit.Slowly(20 * time.Second))
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

// TestFirstRequestOfAConnection: while others keep the loop busy, the first request of a new connection waits little
// longer than one on a connection that is there already.
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
	// The host may be busy otherwise: that lengthens both, and not each time.
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
