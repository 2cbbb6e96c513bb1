package acl

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A listener is a user's connection with a subscription.
type listener struct {
	net.Conn
	in *bufio.Reader
}

func listen(t *testing.T, addr string, commands ...string) *listener {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
	l := &listener{conn, bufio.NewReader(conn)}
	for _, c := range commands {
		fmt.Fprintf(conn, "%s\r\n", c)
		lines := 1
		if strings.Contains(c, "SUBSCRIBE") {
			lines = 6
		}
		for range lines {
			if line, err := l.in.ReadString('\n'); err != nil || line[0] == '-' {
				t.Fatal(c, line, err)
			}
		}
	}
	return l
}

// TestRightsToChannelsWithdrawn: when a user loses the right to a channel, the clients of that user that are subscribed
// to it are disconnected. This holds for every kind of subscription. Other clients stay connected. A pattern must be
// allowed exactly as it is written.
func TestRightsToChannelsWithdrawn(t *testing.T) {
	s := testkit.Start(t, "--io-threads", "2")
	s.Do("ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*", "allchannels")
	s.Do("ACL", "SETUSER", "v", "on", "nopass", "+@all", "~*", "allchannels")
	const auth, other = "AUTH u x", "AUTH v x"
	closed := []*listener{
		listen(t, s.Addr, auth, "SUBSCRIBE news"),
		listen(t, s.Addr, auth, "SUBSCRIBE ok", "SUBSCRIBE news"),
		listen(t, s.Addr, auth, "PSUBSCRIBE o?"),
		listen(t, s.Addr, auth, "SSUBSCRIBE shard"),
		listen(t, s.Addr, auth, "PSUBSCRIBE *"),
	}
	kept := []*listener{
		listen(t, s.Addr, auth),
		listen(t, s.Addr, auth, "SUBSCRIBE ok"),
		listen(t, s.Addr, auth, "PSUBSCRIBE o*"),
		listen(t, s.Addr, auth, "SUBSCRIBE news", "UNSUBSCRIBE news"),
		listen(t, s.Addr, other, "SUBSCRIBE news"),
		listen(t, s.Addr, other, "PSUBSCRIBE *"),
	}
	s.Do("ACL", "SETUSER", "u", "resetchannels", "&ok", "&o*")
	for i, l := range closed {
		if line, err := l.in.ReadString('\n'); err == nil {
			t.Errorf("client %d of those to be closed reads %q", i, line)
		}
	}
	for i, l := range kept {
		fmt.Fprintf(l, "PING\r\n")
		if line, err := l.in.ReadString('\n'); err != nil || line[0] != '+' && line[0] != '*' {
			t.Errorf("client %d of those to stay: %q, %v", i, line, err)
		}
	}
	if got := s.Do("PUBLISH", "news", "x").Int; got != 2 {
		t.Errorf("%d clients heard, want 2", got)
	}

	self := listen(t, s.Addr, other) // a client that takes the right from itself reads the reply first
	fmt.Fprint(self, "HELLO 3\r\nSUBSCRIBE news\r\nACL SETUSER v resetchannels\r\n")
	if said, _ := io.ReadAll(self.in); !strings.HasSuffix(string(said), ":1\r\n+OK\r\n") {
		t.Errorf("the client that took the right from itself read %q", said)
	}
}
