package proxy

import (
	"net"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestIdleClientCost: a connected client that has sent one request and is idle uses at most 4 KB of the proxy's memory.
func TestIdleClientCost(t *testing.T) {
	all := startTier(t, false, 0, 1)
	p := all.proxies[0]
	const clients = 4000
	open := func(n int) (conns []net.Conn) {
		for range n {
			c, err := net.DialTimeout("tcp", p.Addr, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if _, err := c.Write([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")); err != nil {
				t.Fatal(err)
			}
			var reply [5]byte
			c.SetReadDeadline(time.Now().Add(testkit.ReplyTimeout))
			if _, err := c.Read(reply[:]); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		return conns
	}
	open(500)
	before := p.RSS()
	open(clients)
	if each := (p.RSS() - before) / clients; each > 4096 && !testkit.Race {
		t.Errorf("%d bytes a client", each)
	} else {
		t.Logf("%d bytes a client", each)
	}
}
