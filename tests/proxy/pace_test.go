package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

const (
	bigSize = 32 << 20 // more than all sockets on the way keep
	patient = "600000" // of the proxy for a shard, ms: a busy host takes long for such replies
)

// slowReader is a client that has asked for the value big so many times, and reads nothing.
func slowReader(t *testing.T, p *testkit.Server, times int) *respclient.Client {
	t.Helper()
	c := p.Dial()
	c.SetTimeout(testkit.Slowly(5 * time.Minute))
	for range times {
		c.Send("GET", "big")
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return c
}

// unread is how many bytes a shard has for clients that do not read them.
func unread(t *testing.T, s *testkit.Server) (most string) {
	t.Helper()
	c := s.Dial()
	defer c.Close()
	c.SetTimeout(testkit.Slowly(5 * time.Minute)) // a busy host takes long for the memory of the replies
	for line := range strings.Lines(c.Must("CLIENT", "LIST").Text) {
		_, after, _ := strings.Cut(line, " omem=")
		if omem, _, _ := strings.Cut(after, " "); len(omem) > len(most) || len(omem) == len(most) && omem > most {
			most = omem
		}
	}
	return most
}

// TestSlowReader: a client asks for long values and does not read them. The proxy leaves them at the shard, and serves
// the others. When the client reads, it gets them all.
func TestSlowReader(t *testing.T) {
	const bigReads, most = 4, 64 << 20 // most is what the proxy may grow by
	all := startTier(t, true, 0, 0)
	for _, backend := range []string{"epoll", "gnet", "io_uring"} {
		t.Run(backend, func(t *testing.T) {
			p := startProxy(t, all.shards, "--reactor-backend", backend, "--proxy-timeout", patient)
			owner := all.ownerOf(t, "big")
			owner.Do("SETRANGE", "big", bigSize-1, "x")
			other := p.Dial()
			expect(t, other, "OK", "SET", "{big}small", "value")
			before := p.RSS()
			c := slowReader(t, p, bigReads)
			same, last := 0, ""
			testkit.Until(t, testkit.Slowly(2*time.Minute), "the shard keeps what is not read", func() error {
				if grown := p.RSS() - before; grown > most {
					t.Fatalf("the proxy has grown by %d MB", grown>>20)
				}
				now := unread(t, owner)
				if now != last || len(now) < len("100000000") {
					same, last = 0, now
					return fmt.Errorf("%s bytes", now)
				}
				if same++; same < 20 {
					return fmt.Errorf("%s bytes, seen %d times", now, same)
				}
				return nil
			})
			for range 1000 {
				expect(t, other, "value", "GET", "{big}small")
			}
			grown := p.RSS() - before
			if t.Logf("the proxy has grown by %d MB", grown>>20); grown > most {
				t.Error("the proxy keeps what its client does not read")
			}
			each := int64(len(fmt.Sprintf("$%d\r\n\r\n", bigSize)) + bigSize)
			if n, err := io.CopyN(io.Discard, c.Reader(), bigReads*each); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			expect(t, c, "value", "GET", "{big}small")
		})
	}
}

// TestSlowReaderBeforeOthers: a client that does not read is closed when another one waits for the end of too long
// replies. The log says so. The proxy keeps 1 GB for a client. Only SPINDLE_TEST_SCALE has so much.
func TestSlowReaderBeforeOthers(t *testing.T) {
	const bigReads = 6
	bigSize, limit := int64(16<<20), []string{"--client-output-buffer-limit", "normal 40mb 0 0"}
	if testkit.Scale() > 1 {
		bigSize, limit = 200<<20, nil
	}
	all := startTier(t, true, 0, 1, append(limit, "--proxy-timeout", patient)...)
	p := all.proxies[0]
	owner := all.ownerOf(t, "big")
	owner.Do("SETRANGE", "big", bigSize-1, "x")
	other := p.Dial()
	other.SetTimeout(testkit.Slowly(5 * time.Minute))
	expect(t, other, "OK", "SET", "{big}small", "value")
	before := p.RSS()
	held := owner.Dial()
	send(t, held, "DEBUG", "SLEEP", "2") // both clients' requests are on the connection before the first reply comes
	c := slowReader(t, p, bigReads)
	testkit.Until(t, testkit.Slowly(30*time.Second), "the proxy has read the requests", func() error {
		_, text, _ := strings.Cut(other.Must("INFO", "stats").Text, "total_commands_processed:")
		n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]))
		return errors.Join(err, testkit.Equal(n >= bigReads, true))
	})
	expect(t, other, "value", "GET", "{big}small")
	p.AwaitLog(testkit.Slowly(time.Minute), "bytes unread")
	if grown := p.RSS() - before; grown > 8*bigSize && !testkit.Race {
		t.Errorf("the proxy has grown by %d MB", grown>>20)
	}
	if _, err := io.Copy(io.Discard, c.Reader()); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection does not end: %v", err)
	}
	expect(t, other, "value", "GET", "{big}small")
}

// TestSlowReaderAlone: client-output-buffer-limit closes the only client of a user, in the midst of a reply. The
// connections to the shards are closed with it, and the proxy serves others.
func TestSlowReaderAlone(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 0)
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all")
	}
	p := startProxy(t, all.shards, "--io-threads", "1", "--client-output-buffer-limit", "normal 300kb 0 0")
	all.ownerOf(t, "big").Do("SETRANGE", "big", 45000, "x")
	for i := range 8 { // the limit may be reached at the end of a reply, too
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		defer c.Close()
		if _, err := fmt.Fprint(c, "AUTH reader secret\r\n"+strings.Repeat("GET big\r\n", 400)); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		testkit.Until(t, testkit.Slowly(time.Minute), "the client is closed", func() error {
			v, err := p.Ask("CLIENT", "LIST")
			if err != nil {
				t.Fatalf("client %d: the proxy does not answer: %v", i, err)
			}
			closed := p.InfoInt("stats", "client_output_buffer_limit_disconnections")
			return testkit.Equal(fmt.Sprint(closed, strings.Contains(v.Text, "user=reader")), fmt.Sprint(i+1, " false"))
		})
	}
	if v, err := p.Ask("PING"); err != nil || v.Text != "PONG" {
		t.Errorf("PING: %v (%v)", v, err)
	}
}

// TestTableBesideSlowReader: a client does not read its long reply. A slot moves all the same, for which the proxy
// confirms new tables. If the client has later calls on that connection, it is closed after proxy-timeout.
func TestTableBesideSlowReader(t *testing.T) {
	const size = 32 << 20
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 2, 1)
	p := all.proxies[0]
	p.Do("CONFIG", "SET", "proxy-timeout", patient)
	p.Do("SETRANGE", "big", size-1, "x")
	ask := func(times int) *respclient.Client {
		c := slowReader(t, p, times)
		testkit.Until(t, testkit.Slowly(time.Minute), "the shard keeps what is not read", func() error {
			kept := 0
			for _, s := range all.shards {
				n, _ := strconv.Atoi(unread(t, s))
				kept = max(kept, n)
			}
			return testkit.Equal(kept > (times-1)*size, true)
		})
		return c
	}
	moves := func(slot int) { // the proxy has to confirm each table
		d.ask("POST", "/v1/products/shop/move", map[string]any{"steps": []any{map[string]any{"from": slot, "to": slot,
			"source": "g1", "target": "g0"}}})
		testkit.Until(t, testkit.Slowly(2*time.Minute), "the slot moves", func() error {
			if m := d.ask("GET", "/v1/products/shop/move", nil); m["state"] != "done" || m["done"] != 1.0 {
				return fmt.Errorf("%v", m)
			}
			return nil
		})
	}
	c := ask(1)
	moves(16383)
	each := int64(len(fmt.Sprintf("$%d\r\n\r\n", size)) + size)
	if n, err := io.CopyN(io.Discard, c.Reader(), each); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "operator", "on", ">secret", "~*", "&*", "+@all")
	}
	operator := p.Dial() // as another user, so that its calls are not on the slow connection
	expect(t, operator, "OK", "AUTH", "operator", "secret")
	deaf := ask(4)
	defer deaf.Close() // only the proxy ends the connection before
	expect(t, operator, "OK", "CONFIG", "SET", "proxy-timeout", 5000)
	moves(16382)
	p.AwaitLog(testkit.Slowly(time.Minute), "a new table waits for its calls")
}
