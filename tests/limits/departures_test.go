package limits

import (
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
