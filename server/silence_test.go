package server

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestSilence checks which replies a client does not get, byte by byte until its connection ends.
func TestSilence(t *testing.T) {
	const noRequest = "*1\r\nPING\r\n"
	const noRequestText = "-ERR Protocol error: expected '$', got 'P'\r\n"
	s := start(t, asServer, "")
	c := s.dial()
	for _, w := range []struct{ name, sent, want, counter string }{
		{"an error without CLIENT REPLY", noRequest, noRequestText, ""},
		{"an error after OFF", "CLIENT REPLY OFF\r\n" + noRequest, "", ""},
		{"an error after SKIP", "CLIENT REPLY SKIP\r\n" + noRequest, "", ""},
		{"an error one later", "CLIENT REPLY SKIP\r\nPING\r\n" + noRequest, noRequestText, ""},
		{"an error after ON", "CLIENT REPLY OFF\r\nCLIENT REPLY ON\r\n" + noRequest, "+OK\r\n" + noRequestText, ""},
		// The rest of the transaction runs. Requests after it do not.
		{"the replies after the client's own end",
			"MULTI\r\nINCR counter\r\nCLIENT KILL SKIPME no TYPE normal\r\nINCR counter\r\nLRANGE counter 0 1\r\nEXEC\r\nINCR " +
				"counter\r\n",
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:1\r\n:2\r\n", "2"},
	} {
		conn, err := net.Dial("unix", filepath.Join(s.dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write([]byte(w.sent)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != w.want {
			t.Errorf("%s: %q, %v, want %q", w.name, got, err, w.want)
		}
		conn.Close()
		if w.counter != "" {
			c.Close()
			c = s.dial()
			if v := c.Must("GET", "counter"); v.Text != w.counter {
				t.Errorf("%s: counter is %v, want %s", w.name, v, w.counter)
			}
		}
	}
}
