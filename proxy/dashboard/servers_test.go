package dashboard

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
)

// A fakeServer is a data server whose replies a test decides.
type fakeServer struct {
	address string
	mu      sync.Mutex
	calls   []string // the requests so far, without those that only read
}

// fake starts a server. reply returns the reply to a request in the wire's form. If that is "", the server replies as a
// primary without keys.
func fake(t testing.TB, reply func(s *fakeServer, words []string) string) *fakeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := &fakeServer{address: listener.Addr().String()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, reply)
		}
	}()
	return s
}

func (s *fakeServer) serve(conn net.Conn, reply func(s *fakeServer, words []string) string) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		words, err := readRequest(in)
		if err != nil {
			return
		}
		text := reply(s, words)
		if text == "" {
			text = asPrimary(words)
		}
		switch words[0] {
		case "INFO", "ROLE", "MEMORY", "SELECT", "SCAN":
		default:
			s.mu.Lock()
			s.calls = append(s.calls, strings.Join(words, " "))
			s.mu.Unlock()
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

// readRequest reads an array of bulk strings.
func readRequest(in *bufio.Reader) (words []string, err error) {
	var n, size int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	for range n {
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, nil
}

// bulk returns a bulk string, and array an array of bulk strings.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func array(words ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += bulk(word)
	}
	return text
}

// asPrimary returns the reply of a primary without keys.
func asPrimary(words []string) string {
	switch words[0] {
	case "INFO":
		return bulk("role:master\r\nredis_version:7.0.15\r\n")
	case "ROLE":
		return array("master")
	case "SCAN":
		return "*2\r\n" + bulk("0") + "*0\r\n"
	case "MEMORY":
		return ":1\r\n"
	}
	return "+OK\r\n"
}

// asked returns the requests whose text contains part.
func (s *fakeServer) asked(part string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		if strings.Contains(call, part) {
			list = append(list, call)
		}
	}
	return list
}

// dial opens a link to a fake server.
func (s *fakeServer) dial(t testing.TB, d *Dashboard) *link {
	t.Helper()
	l, err := d.dialer.open(t.Context(), s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

func TestMain(m *testing.M) {
	dialTime, lookTime = limit, limit // on a busy host, a server that is not asked in time counts as dead
	os.Exit(m.Run())
}

// patient is a server timeout at which no busy host fails.
func patient(s *settings) { s.ServerTimeoutMs.Set(limit.Milliseconds()) }

// loseLead makes a dashboard no longer lead, as after a suspension: its work is not told yet.
func loseLead(d *Dashboard) {
	d.lead.mu.Lock()
	defer d.lead.mu.Unlock()
	d.lead.held = nil
}
