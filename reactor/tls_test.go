package reactor

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// A cutConn passes on written bytes, in pieces of at most `most` bytes, and no more than left bytes.
type cutConn struct {
	net.Conn
	most  int // 0: whole
	left  int // below 0: no end
	wrote int
	last  []byte // the last bytes read
}

var errCut = errors.New("cut here")

func (c *cutConn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		size := len(p) - n
		if c.most > 0 {
			size = min(size, 1+rand.IntN(c.most))
		}
		if c.left >= 0 && size >= c.left {
			size, err = c.left, errCut
		}
		if c.left >= 0 {
			c.left -= size
		}
		m, failed := c.Conn.Write(p[n : n+size])
		n += m
		if failed != nil {
			return n, failed
		}
	}
	c.wrote += n
	return n, err
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.last = append(c.last[:0], p[:n]...)
	}
	return n, err
}

// dialBare is dial without TLS, whatever serveHandler uses.
func dialBare(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// underTLS runs f as a subtest of each backend, with serveHandler and dial under TLS.
func underTLS(t *testing.T, f func(t *testing.T, b Backend)) {
	secured = true
	defer func() { secured = false }()
	eachBackend(t, f)
}

// A handshake that ends at any byte leaves no resources, and other connections are served.
func TestHandshakeCutAnywhere(t *testing.T) {
	underTLS(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b})
		whole := &cutConn{Conn: dialBare(t, addr), left: -1}
		if err := tls.Client(whole, clientTLS()).Handshake(); err != nil {
			t.Fatal(err)
		}
		whole.Close()
		step := 1
		if b != Gnet || invariant.Enabled {
			step = 7
		}
		for left := 0; left < whole.wrote; left += step {
			cut := &cutConn{Conn: dialBare(t, addr), left: left}
			_ = tls.Client(cut, clientTLS()).Handshake()
			cut.Close()
		}
		eventually(t, "all are gone", func() bool { return r.Stats().Open == 0 })
		if running, begun, failed := r.Handshakes(); running != 0 || begun < failed || failed == 0 {
			t.Errorf("%d handshakes run, %d begun, %d failed", running, begun, failed)
		}
		p := dial(t, addr)
		p.send(command("PING"))
		p.expect("+OK\r\n")
	})
}

// Connections that stop in their handshake count in maxclients, are closed when their time is over, and delay no other
// connection. A busy host delays a client sometimes, but a server that waits for handshakes does so always.
func TestHandshakesThatStop(t *testing.T) {
	underTLS(t, func(t *testing.T, b Backend) {
		const most, tries = 400 * time.Millisecond, 8
		limit, slowest := time.Second, time.Hour
		for try := 0; slowest > most && try < tries; {
			if took, pings := pingBesideStopped(t, b, limit); pings > 0 {
				slowest = min(slowest, took)
				try++
			} else if limit *= 4; limit > patience {
				t.Fatal("the host is too busy: no PING could be sent beside them")
			}
		}
		if slowest > most {
			t.Errorf("a PING took %v beside them", slowest)
		}
	})
}

// pingBesideStopped returns the number of PINGs that it has sent while other connections have stopped in their
// handshakes, and the longest time of one. The handshakes are ended after limit.
func pingBesideStopped(t *testing.T, b Backend, limit time.Duration) (slowest time.Duration, pings int) {
	const many = 300
	h := newTestHandler()
	r, addr := serveHandler(t, h, Options{Backend: b, HandshakeLimit: limit})
	p := dial(t, addr)
	p.send(command("PING")) // its own handshake is over, then
	p.expect("+OK\r\n")
	begun := time.Now()
	var stopped []net.Conn
	for i := range many {
		c := dialBare(t, addr)
		stopped = append(stopped, c)
		if i%3 > 0 { // a part of the greeting, or all of it
			cut := &cutConn{Conn: c, left: 100}
			if i%3 == 2 {
				cut.left = -1
			}
			go tls.Client(&onceConn{cut, t.Context().Done()}, clientTLS()).Handshake()
		}
	}
	eventually(t, "all are counted", func() bool { return r.Stats().Open == many+1 || time.Since(begun) > limit })
	for time.Since(begun) < limit {
		sent := time.Now()
		p.send(command("PING"))
		p.expect("+OK\r\n")
		slowest = max(slowest, time.Since(sent))
		pings++
	}
	defer func() {
		running, begun, failed := r.Handshakes()
		t.Logf("%d handshakes begun, %d failed, %d run; %d connections are open", begun, failed, running, r.Stats().Open)
	}()
	eventually(t, "they are gone", func() bool { return r.Stats().Open == 1 })
	for _, c := range stopped {
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
	}
	p.send(command("PING"))
	p.expect("+OK\r\n")
	return slowest, pings
}

// A onceConn stops in its first read, so its handshake ends after the client's first message.
type onceConn struct {
	net.Conn
	over <-chan struct{}
}

func (c *onceConn) Read([]byte) (int, error) { <-c.over; return 0, io.EOF }

// Stop does not wait for handshakes that do not end, nor for handshakes that wait for a slot.
func TestStopEndsHandshakes(t *testing.T) {
	underTLS(t, func(t *testing.T, b Backend) {
		r, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
		for range Handshakers() {
			r.shaking.slots <- struct{}{} // the handshake that computes takes for ever
		}
		for range 10 {
			go tls.Client(dialBare(t, addr), clientTLS()).Handshake()
			dialBare(t, addr)
		}
		eventually(t, "they are under way", func() bool { running, _, _ := r.Handshakes(); return running == 20 })
		done := make(chan struct{})
		go func() { r.Stop(2 * patience); close(done) }()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("Stop waits for handshakes")
		}
	})
}

// The bytes read do not depend on how the network cuts records.
func TestRecordsCutAnywhere(t *testing.T) {
	underTLS(t, func(t *testing.T, b Backend) {
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS12, tls.VersionTLS13} {
			_, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
			config := clientTLS()
			config.MinVersion, config.MaxVersion = version, version
			c := tls.Client(&cutConn{Conn: dialBare(t, addr), most: 300, left: -1}, config)
			ask, want := "", ""
			for i := range 40 {
				word := strings.Repeat("z", rand.IntN(3000)*(i%3))
				ask += command("ECHO", word)
				want += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
			}
			long := strings.Repeat("l", 200<<10)
			ask += command("LEN", long) + command("PING")
			want += fmt.Sprintf(":%d\r\n+OK\r\n", len(long))
			go io.WriteString(c, ask)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Fatalf("%x: %v, and the bytes differ: %t", version, err, string(got) != want)
			}
		}
	})
}

// A connection in its handshake counts in maxclients. A connection beyond the limit is closed without an error message,
// which it could not read.
func TestMaxClientsUnderTLS(t *testing.T) {
	underTLS(t, func(t *testing.T, b Backend) {
		r, addr := serveHandler(t, newTestHandler(), Options{Backend: b,
			Settings: testSettings(func(s *Settings) { s.MaxClients.Set(2) })})
		first := dialBare(t, addr)
		p := dial(t, addr)
		p.send(command("PING"))
		p.expect("+OK\r\n")
		if read, err := io.ReadAll(dialBare(t, addr)); len(read) > 0 || err != nil {
			t.Errorf("read %q, %v", read, err)
		}
		first.Close()
		eventually(t, "a place is free", func() bool { return r.Stats().Open == 1 })
		dial(t, addr)
		if s := r.Stats(); s.Rejected != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// The last record of a connection that the server closes is an alert. So the client can tell the end from a cut.
func TestCloseNotify(t *testing.T) {
	underTLS(t, func(t *testing.T, b Backend) {
		_, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
		cut := &cutConn{Conn: dialBare(t, addr), left: -1}
		config := clientTLS()
		config.MaxVersion = tls.VersionTLS12
		c := tls.Client(cut, config)
		io.WriteString(c, command("QUIT"))
		if read, err := io.ReadAll(c); string(read) != "+OK\r\n" || err != nil {
			t.Fatalf("read %q, %v", read, err)
		}
		const alert, overhead = 21, 5 + 8 + 2 + 16
		if n := len(cut.last); n < overhead || cut.last[n-overhead] != alert {
			t.Errorf("the last that was read: %x", cut.last)
		}
	})
}

// Requests that arrive in one segment with the end of the handshake are served, although no event announces them.
func TestRequestAfterTheHandshake(t *testing.T) {
	underTLS(t, func(t *testing.T, b Backend) {
		_, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
		for range 20 {
			held := &heldConn{Conn: dialBare(t, addr)}
			c := tls.Client(held, clientTLS())
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, command("PING"))
			held.let()
			got := make([]byte, 5)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "+OK\r\n" {
				t.Fatalf("%q, %v", got, err)
			}
		}
	})
}

// A client without TCP_NODELAY does not wait for an acknowledgement before its first request.
func TestFirstRequestByNagle(t *testing.T) {
	underTLS(t, func(t *testing.T, b Backend) {
		_, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
		fastest := time.Hour
		for try := 0; try < 10 || try < 200 && fastest > 30*time.Millisecond; try++ {
			bare := dialBare(t, addr)
			bare.(*net.TCPConn).SetNoDelay(false)
			c := tls.Client(bare, clientTLS())
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			io.WriteString(c, command("PING"))
			if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			fastest = min(fastest, time.Since(began))
		}
		if fastest > 30*time.Millisecond {
			t.Errorf("the fastest first request took %v", fastest)
		}
	})
}

// A heldConn sends its first write at once, and keeps the others until let is closed.
type heldConn struct {
	net.Conn
	wrote bool
	kept  bytes.Buffer
}

func (c *heldConn) Write(p []byte) (int, error) {
	if !c.wrote {
		c.wrote = true
		return c.Conn.Write(p)
	}
	return c.kept.Write(p)
}

func (c *heldConn) let() { c.Conn.Write(c.kept.Bytes()) }

// The server accepts new keys in the middle of a connection, and replies with its own.
func TestKeyUpdate(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed, and crypto/tls's clients cannot ask for new keys: make deps installs it")
	}
	underTLS(t, func(t *testing.T, b Backend) {
		_, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
		cmd := exec.Command(openssl, "s_client", "-connect", addr, "-tls1_3", "-noservername")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		for range 3 {
			io.WriteString(in, "ECHO here\r\n")
			for line := ""; line != "here\r\n"; {
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatalf("%v: %s", err, said.String())
				}
			}
			io.WriteString(in, "K\n")
			time.Sleep(50 * time.Millisecond) // s_client looks for its commands at the beginning of what it reads
		}
		cmd.Process.Kill()
		cmd.Wait()
		if updated := strings.Count(said.String(), "KEYUPDATE"); updated < 3 {
			t.Errorf("openssl has asked %d times", updated)
		}
	})
}

// Encrypted output is bounded: a peer that makes crypto/tls reply, and reads nothing, is closed.
func TestUnsentIsBounded(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	l := &tlsLink{of: &link{fd: pair[0]}}
	answer := make([]byte, 1000)
	for i := 0; ; i++ {
		if _, err := l.Write(answer); err == io.ErrShortWrite {
			break
		} else if err != nil || i > 10_000 {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if len(l.unsent) > unsentMost || l.sendUnsent() != flushedFull {
		t.Errorf("%d bytes wait", len(l.unsent))
	}
	for l.sendUnsent() == flushedFull {
		var b [64 << 10]byte
		unix.Read(pair[1], b[:])
	}
	if len(l.unsent) != 0 {
		t.Errorf("%d bytes wait though the peer reads", len(l.unsent))
	}
}

// TestIdleTLSConnectionCost measures an idle TLS connection. Both ends are in this process, and cost about the same.
func TestIdleTLSConnectionCost(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	secured = true
	defer func() { secured = false }()
	h := newTestHandler()
	_, addr := serveHandler(t, h, Options{})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	const many = 200
	config := clientTLS()
	clients := make([]*tls.Conn, 0, many)
	connect := func() {
		c := tls.Client(dialBare(t, addr), config)
		io.WriteString(c, command("NAME", "p"))
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	connect()
	before := heap()
	for range many {
		connect()
	}
	each := (heap() - before) / many / 2
	if each > 12<<10 {
		t.Errorf("an idle TLS connection costs %d bytes", each)
	}
	t.Logf("%d bytes", each)
	runtime.KeepAlive(clients)
}

// FuzzTLS has three peers. The first sends bytes that are not TLS, and gets only an end. The second has its records
// changed on their way. The third is cut off and comes in pieces. Both get the right replies or an end. Other clients
// are always served.
func FuzzTLS(f *testing.F) {
	secured = true
	f.Cleanup(func() { secured = false })
	_, addr := serveHandler(f, newTestHandler(), Options{HandshakeLimit: 2 * time.Second}) // time for the witness
	var seed bytes.Buffer
	_ = tls.Client(&recorder{w: &seed}, clientTLS()).Handshake()
	f.Add(seed.Bytes(), uint16(0), byte(1))
	f.Add([]byte("PING\r\n"), uint16(600), byte(0x80))
	f.Add([]byte{0x16, 3, 1, 0xff, 0xff}, uint16(400), byte(0xff))
	witness := dial(f, addr)
	f.Fuzz(func(t *testing.T, raw []byte, at uint16, change byte) {
		c := dialBare(t, addr)
		c.Write(raw)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
		bent, torn := dialBare(t, addr), dialBare(t, addr)
		for _, way := range []struct{ bare, bad net.Conn }{
			{bent, &benderConn{Conn: bent, at: int(at) % 1500, change: change}},
			{torn, &cutConn{Conn: torn, most: int(change), left: int(at) % 1500}},
		} {
			secure := tls.Client(way.bad, clientTLS())
			want := ""
			for range 8 {
				io.WriteString(secure, command("ECHO", "hello"))
				want += "$5\r\nhello\r\n"
			}
			way.bare.(*net.TCPConn).CloseWrite()
			got, _ := io.ReadAll(secure)
			if !strings.HasPrefix(want, string(got)) {
				t.Errorf("%q", got)
			}
			secure.Close()
		}
		witness.t = t
		witness.SetDeadline(time.Now().Add(patience))
		witness.send(command("PING"))
		witness.expect("+OK\r\n")
	})
}

// A recorder keeps the bytes written to it and has nothing to read.
type recorder struct {
	net.Conn
	w io.Writer
}

func (r *recorder) Write(p []byte) (int, error) { return r.w.Write(p) }
func (r *recorder) Read([]byte) (int, error)    { return 0, io.EOF }

// A benderConn changes one byte of the bytes written to it.
type benderConn struct {
	net.Conn
	mu     sync.Mutex
	at     int
	change byte
	wrote  int
}

func (c *benderConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.at - c.wrote; i >= 0 && i < len(p) {
		p = bytes.Clone(p)
		p[i] ^= c.change
	}
	c.wrote += len(p)
	return c.Conn.Write(p)
}
