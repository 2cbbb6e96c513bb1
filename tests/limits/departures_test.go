package limits

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestDepartures: a client that leaves while its pipeline runs, and whose next command then waits, does not stay.
func TestDepartures(t *testing.T) {
	slow := "EVAL 'for i = 1, 100000 do end' 0\r\n" // a turn ends behind each
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
				time.Sleep(time.Duration(i) * time.Millisecond) // so that some leave in the midst, on any machine
				c.Close()
			}
			settled(t, s, opened)
		})
	}
}

// TestLastWords: what a client sends before it leaves runs whole, also what lies in its socket while a script of its
// own goes on.
func TestLastWords(t *testing.T) {
	const increments = 20_000 // more than is read ahead of a connection that waits
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
					time.Sleep(50 * time.Millisecond) // the server has begun by now, mostly
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
