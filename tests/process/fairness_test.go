package process

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestOthersAreServedBetweenSlowRequests: a pipeline of slow requests delays other clients for only a few of these
// requests, with every event loop. The replies of the pipeline keep their order. The test counts requests, because a
// busy host lengthens each of them.
func TestOthersAreServedBetweenSlowRequests(t *testing.T) {
	const n = 200
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			s := testkit.Start(t, "--reactor-backend", backend)
			busy, other := s.Dial(), s.Dial()
			busy.SetTimeout(testkit.Slowly(60 * time.Second))
			other.Must("PING")
			for range n {
				busy.Send("DEBUG", "SLEEP", 0.005)
				busy.Send("INCR", "slow")
			}
			if err := busy.Flush(); err != nil {
				t.Fatal(err)
			}
			var waits []int64 // for each reply, the number of slow requests since the last one
			for last := int64(0); last < n; {
				now := other.Must("INCRBY", "slow", 0).Int
				waits = append(waits, now-last)
				last = now
			}
			slices.Sort(waits)
			half, most := waits[len(waits)/2], waits[len(waits)-1]
			if half > n/10 || most > n/2 {
				t.Errorf("half of %d requests waited for %d slow ones or more, one for %d of %d", len(waits), half, most, n)
			}
			t.Logf("%d requests; half waited for at most %d slow ones, and all for at most %d", len(waits), half, most)
			for i := range n {
				if v, err := busy.Receive(); err != nil || v.String() != "OK" {
					t.Fatalf("DEBUG SLEEP %d: %v %v", i, v, err)
				}
				if v, err := busy.Receive(); err != nil || v.Int != int64(i+1) {
					t.Fatalf("INCR %d: %v %v", i, v, err)
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
				// Another loop may answer before the connection is accepted.
				testkit.Until(t, testkit.Slowly(10*time.Second), "all requests", func() error {
					return testkit.Equal(s.Do("GET", "n").String(), strconv.Quote(strconv.Itoa(n)))
				})
				s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "connected_clients", "1")
			})
		}
	}
}
