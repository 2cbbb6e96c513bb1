package process

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestOthersAreServedBetweenSlowRequests: a pipeline of slow requests delays other clients for only a few of these
// requests, with every event loop. The replies of the pipeline keep their order.
func TestOthersAreServedBetweenSlowRequests(t *testing.T) {
	const n, each = 200, 5 * time.Millisecond
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			s := testkit.Start(t, "--reactor-backend", backend)
			busy, other := s.Dial(), s.Dial()
			busy.SetTimeout(testkit.Slowly(60 * time.Second))
			other.Must("PING")
			for i := range n {
				busy.Send("DEBUG", "SLEEP", each.Seconds())
				busy.Send("ECHO", strconv.Itoa(i))
			}
			if err := busy.Flush(); err != nil {
				t.Fatal(err)
			}
			slowest, pings := time.Duration(0), 0
			for began := time.Now(); time.Since(began) < n*each/2; pings++ {
				at := time.Now()
				other.Must("PING")
				slowest = max(slowest, time.Since(at))
			}
			if limit := testkit.Slowly(50 * each); slowest > limit {
				t.Errorf("a PING took %v, want at most %v", slowest, limit)
			}
			t.Logf("%d PINGs, the slowest %v", pings, slowest)
			for i := range n {
				if v, err := busy.Receive(); err != nil || v.String() != "OK" {
					t.Fatalf("DEBUG SLEEP %d: %v %v", i, v, err)
				}
				if v, err := busy.Receive(); err != nil || v.String() != strconv.Quote(strconv.Itoa(i)) {
					t.Fatalf("ECHO %d: %v %v", i, v, err)
				}
			}
		})
	}
}

// TestPeerEndsAfterSlowRequests: requests that were sent before the connection's end are run, with every event loop. If
// the peer still reads, it gets the replies, even though the requests take many turns.
func TestPeerEndsAfterSlowRequests(t *testing.T) {
	const n = 50
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		for _, reads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/reads=%t", backend, reads), func(t *testing.T) {
				s := testkit.Start(t, "--reactor-backend", backend)
				conn, err := net.Dial("tcp", s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write([]byte(strings.Repeat("DEBUG SLEEP 0.003\r\nINCR n\r\n", n))); err != nil {
					t.Fatal(err)
				}
				if reads {
					conn.(*net.TCPConn).CloseWrite()
					replies, err := io.ReadAll(conn)
					if have := strings.Count(string(replies), "\r\n"); err != nil || have != 2*n {
						t.Errorf("%d replies (%v), want %d", have, err, 2*n)
					}
				} else {
					conn.Close()
				}
				s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "connected_clients", "1")
				if v := s.Do("GET", "n"); v.String() != strconv.Quote(strconv.Itoa(n)) {
					t.Errorf("n is %v, want %d", v, n)
				}
			})
		}
	}
}
