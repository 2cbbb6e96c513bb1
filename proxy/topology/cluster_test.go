package topology

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/internal/logging"
	"spindle/tests/testkit"
)

// TestDeadNodesAreAskedLast: three of four primaries accept connections, and never answer. When each was asked once, a
// round asks at most one of them before the primary that answers. When the three have left the cluster, nothing is kept
// of them.
func TestDeadNodesAreAskedLast(t *testing.T) {
	t.Parallel()
	const dead = 3
	listen := func(serve func(net.Conn)) (addr string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				t.Cleanup(func() { conn.Close() })
				go serve(conn)
			}
		}()
		return l.Addr().String()
	}
	var asked atomic.Int64 // connections to dead nodes
	var nodes []string
	for range dead {
		nodes = append(nodes, listen(func(net.Conn) { asked.Add(1) }))
	}
	var slots atomic.Pointer[string]
	living := listen(func(conn net.Conn) {
		request := make([]byte, 1024)
		for n, err := conn.Read(request); err == nil; n, err = conn.Read(request) {
			reply := "-ERR unknown subcommand\r\n"
			if strings.Contains(string(request[:n]), "SLOTS") {
				reply = *slots.Load()
			}
			_, err = conn.Write([]byte(reply))
		}
	})
	show := func(primaries ...string) {
		text := fmt.Sprintf("*%d\r\n", len(primaries))
		for i, addr := range primaries {
			_, port, _ := net.SplitHostPort(addr)
			last := 4*(i+1) - 1
			if i == len(primaries)-1 {
				last = maxSlots - 1
			}
			text += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*3\r\n$9\r\n127.0.0.1\r\n:%s\r\n$2\r\nn%d\r\n", 4*i, last, port, i)
		}
		slots.Store(&text)
	}
	show(append(nodes, living)...)
	f := New(Options{Seeds: []string{living}, Access: Access{Timeout: testkit.Slowly(500 * time.Millisecond)},
		Every: time.Hour, Log: logging.New(io.Discard)})
	defer f.Close()
	if n := len(f.Current().Shards); n != dead+1 {
		t.Fatalf("%d shards", n)
	}
	for len(f.trouble) < dead {
		f.refresh()
	}
	for range 10 {
		before := asked.Load()
		if f.refresh(); asked.Load() > before+1 {
			t.Fatalf("a round asked %d dead nodes", asked.Load()-before)
		}
	}
	show(living)
	f.refresh()
	f.refresh()
	if len(f.trouble) != 0 {
		t.Errorf("it remembers %v", f.trouble)
	}
}
