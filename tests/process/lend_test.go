package process

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestPeerEndsDuringScript: requests that arrive while a script runs are run after it, with every event loop. This
// holds even if the sender has closed the connection.
func TestPeerEndsDuringScript(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"gnet", "epoll", "netpoll"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--reactor-backend", backend, "--busy-reply-threshold", "60000")
			busy := s.Dial()
			busy.Send("EVAL", `redis.log(redis.LOG_WARNING, 'the script runs')
				repeat `+testkit.UntilReleased+`return redis.call('GET', 'a')`, 0)
			if err := busy.Flush(); err != nil {
				t.Fatal(err)
			}
			s.AwaitLog(testkit.Slowly(10*time.Second), "the script runs")
			var ends []net.Conn
			for _, request := range []string{"SET a 1\r\n", "SET b 1\r\nSET c 1\r\n"} {
				conn, err := net.Dial("tcp", s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write([]byte(request)); err != nil {
					t.Fatal(err)
				}
				ends = append(ends, conn)
			}
			ends[0].(*net.TCPConn).CloseWrite()
			ends[1].Close()
			s.Release()
			if v, err := busy.Receive(); err != nil || v.String() != "(nil)" {
				t.Errorf("the script: %v %v, want nil: no client writes before it is over", v, err)
			}
			if replies, err := io.ReadAll(ends[0]); err != nil || strings.TrimSpace(string(replies)) != "+OK" {
				t.Errorf("the reply: %q %v", replies, err)
			}
			for _, key := range []string{"a", "b", "c"} {
				testkit.Until(t, testkit.Slowly(10*time.Second), key+" is written", func() error { // perhaps by another loop
					return testkit.Equal(s.Do("EXISTS", key).Int, 1)
				})
			}
		})
	}
}

// TestScriptThatAwaitsATime: a script that polls TIME ends. Its time stays constant only until other clients get BUSY.
func TestScriptThatAwaitsATime(t *testing.T) {
	s := testkit.Start(t, "--busy-reply-threshold", "20")
	c := s.Dial()
	v, err := c.Do("EVAL", `local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
		local began, steps = now(), 0
		repeat steps = steps + 1 until now() - began > 100
		return steps`, 0)
	if err != nil || v.Int < 2 {
		t.Errorf("the script: %v %v", v, err)
	}
}
