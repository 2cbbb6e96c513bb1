package limits

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A greeting is a connection that records the first bytes of a handshake, and never receives any.
type greeting struct {
	net.Conn
	bytes.Buffer
}

func (g *greeting) Write(p []byte) (int, error) { return g.Buffer.Write(p) }
func (g *greeting) Read([]byte) (int, error)    { return 0, io.EOF }

// TestHandshakesThatStop: connections that stop in the middle of their TLS handshake use little memory, and are closed
// at the time limit. Meanwhile clients of both ports are served, and new clients are accepted.
//
// With SPINDLE_TEST_SCALE=25 there are ten thousand such connections.
func TestHandshakesThatStop(t *testing.T) {
	t.Parallel()
	const limit, each = 10 * time.Second, 48 << 10 // the time limit and the memory of one connection
	many := 400 * testkit.Scale()
	certs, port := testkit.NewCertificates(t), testkit.FreePort(t)
	s := testkit.Start(t, append(certs.Directives(port), "--maxclients", strconv.Itoa(many+100),
		"--tls-auth-clients", "no")...)
	address := "127.0.0.1:" + strconv.Itoa(port)
	secure := func() error {
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: testkit.Slowly(time.Minute)}, "tcp", address,
			certs.Client(t, false))
		if err != nil {
			return err
		}
		defer c.Close()
		r := respclient.New(c)
		r.SetTimeout(testkit.Slowly(time.Minute))
		v, err := r.Do("PING")
		if err != nil {
			return err
		}
		return testkit.Equal(v.Text, "PONG")
	}
	if err := secure(); err != nil {
		t.Fatal(err)
	}
	var hello greeting
	_ = tls.Client(&hello, certs.Client(t, false)).Handshake() // the handshake ends after its first bytes

	others := gather(t, s, 4, 1) // a small load, because it lasts for all of limit
	// The fifth is the test kit's.
	s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "connected_clients", "5")
	sockets, rss := len(s.Sockets()), s.RSS()

	type stopped struct {
		net.Conn
		begun time.Time
	}
	clients := make([]stopped, many)
	for i := range clients {
		clients[i] = stopped{dial(t, address), time.Now()}
		t.Cleanup(func() { clients[i].Close() })
		if _, err := clients[i].Write(hello.Bytes()[:hello.Len()*(i%3)/2]); err != nil { // none, half or all bytes
			t.Fatal(err)
		}
		if i%100 == 99 {
			if err := secure(); err != nil {
				t.Errorf("a new client beside %d: %v", i+1, err)
			}
		}
	}
	if time.Since(clients[0].begun) < limit {
		if n := len(s.Sockets()); n < sockets+many {
			t.Errorf("%d sockets are held, want %d and more", n, sockets+many)
		}
		if cost := (s.RSS() - rss) / int64(many); cost > each && !testkit.Race {
			t.Errorf("each costs %d bytes", cost)
		} else {
			t.Logf("each costs %d bytes", cost)
		}
	}
	for i, c := range clients {
		c.SetDeadline(c.begun.Add(limit + testkit.Slowly(time.Minute)))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("number %d is still connected %v after its beginning", i, time.Since(c.begun))
		}
		if took := time.Since(c.begun); took < limit-2*time.Second {
			t.Fatalf("number %d was closed after %v", i, took)
		}
	}
	most := undisturbed // a loop that waits for a handshake would wait for all of limit
	if testkit.Checked {
		most = time.Second // Slowly lengthens it
	}
	others.undisturbed(t, most)
	if err := secure(); err != nil {
		t.Errorf("a new client after them: %v", err)
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "sockets as before", func() error {
		if n := len(s.Sockets()); n > sockets {
			return fmt.Errorf("%d, %d before", n, sockets)
		}
		return nil
	})
}
