package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A liar stands between a proxy and a shard. It forwards all bytes, until a request names a key of lies. Then it
// replies to that request, and to later ones on the connection, in the shard's place.
type liar struct {
	to   string
	lies map[string]string // the bytes to send for a key; the connection is closed after them, unless they end in hold
	fill int               // the number of further bytes to send
}

const hold = "(the connection stays open)"

var filling = bytes.Repeat([]byte("x"), 64<<10)

func (l *liar) listen(t *testing.T, port int) {
	t.Helper()
	server, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go l.relay(c)
		}
	}()
}

func (l *liar) relay(c net.Conn) {
	defer c.Close()
	shard, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer shard.Close()
	var lying atomic.Bool
	go func() {
		if _, _ = io.Copy(c, shard); !lying.Load() {
			c.Close()
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if lie, lies, kept := l.lieTo(buf[:n]); lies {
			lying.Store(true)
			shard.Close()
			_, err := io.WriteString(c, lie)
			for left := l.fill; left > 0 && err == nil; left -= len(filling) {
				_, err = c.Write(filling[:min(left, len(filling))])
			}
			for kept && err == nil {
				_, err = c.Read(buf)
			}
			return
		}
		if _, err := shard.Write(buf[:n]); err != nil {
			return
		}
	}
}

// lieTo returns the reply to a request, whether the reply is a lie, and whether the connection stays open after it.
func (l *liar) lieTo(request []byte) (lie string, lies, kept bool) {
	for key, lie := range l.lies {
		if bytes.Contains(request, []byte(key)) {
			lie, kept = strings.CutSuffix(lie, hold)
			return lie, true, kept
		}
	}
	return "", false, false
}

// lies has replies of a broken or hostile shard, by the requested key.
var lies = map[string]string{
	"lie:text":     "hello there\r\n" + hold,
	"lie:kind":     "@3\r\n" + hold,
	"lie:long":     "$99999999999999999999\r\n" + hold,
	"lie:negative": "$-7\r\n" + hold,
	"lie:elements": "*999999999999\r\n" + hold,
	"lie:depth":    strings.Repeat("*1\r\n", 100_000) + hold,
	"lie:line":     "-" + strings.Repeat("x", 1<<20) + hold,
	"lie:nothing":  "",
	"lie:half":     "*2\r\n$3\r\nabc\r\n$10\r\nde",
	"lie:halfline": "-ERR so",
	"lie:end":      "$3\r\nabcdef\r\n" + hold,
	"lie:push":     ">2\r\n+message\r\n+b\r\n" + hold,
	"lie:silence":  hold,
}

// TestShardsThatAnswerNonsense: if a shard sends bytes that are not a reply, the connection to it is closed. The
// request on it fails with an error that names the shard. If the client has already got a part of the reply, its
// connection is closed. Other clients get none of these bytes, and all are served again.
func TestShardsThatAnswerNonsense(t *testing.T) {
	t.Parallel()
	p, port := lyingTier(t, &liar{lies: lies}, "--proxy-timeout", "1000")
	shard := "127.0.0.1:" + strconv.Itoa(port)
	for key := range lies {
		t.Run(key, func(t *testing.T) {
			victim, other := p.Dial(), p.Dial()
			other.Must("SET", "true", "value of other")
			send(t, victim, "GET", key)
			for range 20 {
				other.Send("GET", "true")
			}
			if err := other.Flush(); err != nil {
				t.Fatal(err)
			}
			v, err := victim.Receive()
			switch {
			case err != nil && !strings.HasPrefix(key, "lie:half") && key != "lie:end" && key != "lie:depth" &&
				key != "lie:elements":
				t.Errorf("the connection ends without a reply: %v", err)
			case err == nil && key == "lie:end":
			case err == nil && !(v.Kind == '-' && strings.Contains(v.Text, shard)):
				t.Errorf("the client reads %.200v", v)
			}
			for range 20 {
				v, err := other.Receive()
				if err != nil || v.Text != "value of other" && !(v.Kind == '-' && strings.Contains(v.Text, shard)) {
					t.Fatalf("another client reads %.200v (%v)", v, err)
				}
			}
			works(t, p)
		})
	}
}

// TestShardsThatAnswerTooMuch: a reply without a request ends the connection to the shard, and no client gets it.
func TestShardsThatAnswerTooMuch(t *testing.T) {
	t.Parallel()
	p, _ := lyingTier(t, &liar{lies: map[string]string{"lie:twice": "$1\r\na\r\n$6\r\nstrays\r\n" + hold,
		"{lie}:count": "*1\r\n$6\r\nstrays\r\n" + hold}})
	c := p.Dial()
	expect(t, c, "a", "GET", "lie:twice")
	works(t, p)
	p.AwaitInfo(testkit.Slowly(5*time.Second), "stats", "proxy_cut_connections", "1")
	v, err := c.Do("MGET", "{lie}:count", "{lie}:2", "other", "another")
	if err != nil || v.Kind != '-' {
		t.Errorf("MGET with a wrong number of values: %v (%v)", v, err)
	}
	works(t, p)
}

// TestEndlessReply: an endless reply is forwarded as fast as its client reads, and does not fill the proxy's memory.
func TestEndlessReply(t *testing.T) {
	t.Parallel()
	const size = 200 << 20
	p, _ := lyingTier(t, &liar{lies: map[string]string{"lie:endless": fmt.Sprintf("$%d\r\n", size)}, fill: size},
		"--proxy-timeout", "60000")
	before := p.RSS()
	c := p.Dial()
	send(t, c, "GET", "lie:endless")
	c.SetTimeout(testkit.Slowly(time.Minute))
	if n, err := io.CopyN(io.Discard, c.Reader(), size); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	if now := p.RSS(); now > before+100<<20 {
		t.Errorf("%d MB more than before", (now-before)>>20)
	}
	works(t, p)
}

// lyingTier starts a proxy. Its only shard is l, in front of a server.
func lyingTier(t *testing.T, l *liar, args ...string) (p *testkit.Server, port int) {
	t.Helper()
	port = testkit.FreePort(t)
	shard := testkit.Launch(t, testkit.Spec{Redis: true, Args: []string{"--cluster-enabled", "yes",
		"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(port), "--cluster-port",
		strconv.Itoa(testkit.FreePort(t))}})
	shard.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	testkit.Until(t, testkit.Slowly(10*time.Second), "the slots are served", func() error {
		if v, err := shard.Ask("CLUSTER", "INFO"); err != nil || !strings.Contains(v.Text, "cluster_state:ok") {
			return fmt.Errorf("%v (%v)", v, err)
		}
		return nil
	})
	l.to = shard.Addr
	l.listen(t, port)
	own := testkit.FreePort(t)
	return testkit.Launch(t, testkit.Spec{Bare: true, Port: own,
		Args: append([]string{"--proxy", "--port", strconv.Itoa(own),
			"--bind", "127.0.0.1", "--proxy-cluster", "127.0.0.1:" + strconv.Itoa(port)}, args...)}), port
}

// works fails the test if the proxy does not soon serve a client again.
func works(t *testing.T, p *testkit.Server) {
	t.Helper()
	var c *respclient.Client
	testkit.Until(t, testkit.Slowly(10*time.Second), "a client is served", func() error {
		if c == nil {
			c = p.Dial()
		}
		if v, err := c.Do("SET", "true", "value of other"); err != nil || v.Text != "OK" {
			return fmt.Errorf("%v (%v)", v, err)
		}
		return nil
	})
}
