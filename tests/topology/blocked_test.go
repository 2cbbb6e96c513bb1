package topology

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestBlockedClientsAreDisconnected: a server that becomes a replica replies UNBLOCKED to blocked clients and closes
// their connections, as redis-server does. Other clients stay connected.
func TestBlockedClientsAreDisconnected(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*testkit.Server{"spindle": testkit.Start(t), "redis-server": testkit.Redis(t)} {
		other := s.Dial()
		defer other.Close()
		for _, call := range [][]any{{"BLPOP", "list", 0}, {"XREAD", "BLOCK", 0, "STREAMS", "stream", "$"}, {"WAIT", 3, 0}} {
			c := s.Dial()
			c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
			c.Send(call...)
			c.Send("PING") // arrives with the connection's end
			must2(t, c.Flush())
			testkit.Until(t, testkit.Slowly(20*time.Second), "it waits",
				func() error { return testkit.Equal(s.Info("clients")["blocked_clients"], "1") })
			s.Do("REPLICAOF", "127.0.0.1", testkit.FreePort(t))
			if v, err := c.Receive(); err != nil || !strings.HasPrefix(v.Text, "UNBLOCKED ") {
				t.Errorf("%s: %v is answered by %v, %v", name, call, v, err)
			}
			if v, err := c.Receive(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: after %v the connection is open: %v, %v", name, call, v, err)
			}
			c.Close()
			s.Do("REPLICAOF", "NO", "ONE")
		}
		if v, err := other.Do("PING"); err != nil || v.Text != "PONG" {
			t.Errorf("%s: a client that did not wait: %v, %v", name, v, err)
		}
	}
}
