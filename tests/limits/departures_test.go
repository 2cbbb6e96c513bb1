package limits

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestDepartures: a client disconnects while its pipeline runs, and its next command then blocks. The server still
// removes the client.
func TestDepartures(t *testing.T) {
	slow := "EVAL 'for i = 1, 100000 do end' 0\r\n" // a turn ends after each
	pipeline := "CLIENT REPLY OFF\r\n" + strings.Repeat(slow, 20) + "BLPOP nothing 0\r\nPING\r\n"
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			s := testkit.Start(t, "--reactor-backend", backend)
			s.Do("PING")
			opened := len(s.Sockets())
			for i := range 20 {
				c := dial(t, s.Addr)
				if _, err := io.WriteString(c, pipeline); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(i) * time.Millisecond) // some leave in the middle, on any machine
				c.Close()
			}
			settled(t, s, opened)
		})
	}
}

// TestRequestsBeforeLeaving: all requests that a client sends before it disconnects are run. That includes requests
// that are still in the socket while the client's script runs.
func TestRequestsBeforeLeaving(t *testing.T) {
	const increments = 20_000 // more than the server reads ahead for a waiting connection
	words := "CLIENT REPLY OFF\r\nEVAL 'for i = 1, 20000000 do end' 0\r\n" + strings.Repeat("INCR n\r\n", increments)
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			s := testkit.Start(t, "--reactor-backend", backend, "--busy-reply-threshold", "20")
			asks := s.Dial()
			for round := 1; round <= 2; round++ {
				c := dial(t, s.Addr)
				if _, err := io.WriteString(c, words); err != nil {
					t.Fatal(err)
				}
				if round == 2 {
					time.Sleep(50 * time.Millisecond) // usually the server has begun by now
				}
				c.Close()
				testkit.Until(t, testkit.Slowly(20*time.Second), "what was sent", func() error {
					v, err := asks.Do("GET", "n") // or BUSY
					if err != nil {
						return err
					}
					return testkit.Equal(v.Text, fmt.Sprint(round*increments))
				})
			}
		})
	}
}
