package server

import (
	"net"
	"strings"
	"testing"

	"spindle/protocol/respclient"
)

// TestServesWhileANameIsLookedUp: CONFIG SET bind with a name that no name server resolves delays only its own client.
// That client does not count as blocked.
func TestServesWhileANameIsLookedUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // receives requests and does not reply
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	t.Setenv(nameServer, silent.Addr().String())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	s := start(t, asServer, "", "--bind", "127.0.0.1", "--port", address[len("127.0.0.1:"):])
	s.await("Ready to accept connections")
	dial := func() *respclient.Client {
		t.Helper()
		c, err := respclient.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetTimeout(patience)
		return c
	}
	asks, other := dial(), dial()
	asks.Must("CLIENT", "SETNAME", "asks")
	replied := make(chan respclient.Value, 1)
	go func() {
		v, _ := asks.Do("CONFIG", "SET", "bind", "127.0.0.1 slow.test")
		replied <- v
	}()
	question, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if v := other.Must("PING"); v.Text != "PONG" {
		t.Errorf("PING: %v", v)
	}
	other.Must("SET", "k", "v")
	if v := dial().Must("GET", "k"); v.Text != "v" {
		t.Errorf("a new connection: GET: %v", v)
	}
	list := other.Must("CLIENT", "LIST").Text
	if _, line, _ := strings.Cut(list, " name=asks "); !strings.Contains(line, " flags=N ") {
		t.Errorf("CLIENT LIST:\n%s", list)
	}
	if info := other.Must("INFO", "clients").Text; !strings.Contains(info, "\nblocked_clients:0\r\n") {
		t.Errorf("INFO clients:\n%s", info)
	}
	select {
	case v := <-replied:
		t.Fatalf("not held up by the name: %v", v)
	default:
	}
	silent.Close() // later questions fail, and so do the earlier ones
	question.Close()
	if v := <-replied; !strings.HasPrefix(v.Text, "ERR CONFIG SET failed (possibly related to argument 'bind')") {
		t.Errorf("in the end: %v", v)
	}
}
