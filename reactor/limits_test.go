package reactor

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
	"spindle/protocol"
	"spindle/tests/testkit"
)

func testSettings(change func(*Settings)) *Settings {
	s := &Settings{}
	s.Rows()
	change(s)
	return s
}

// An unauthenticated client is cut with little unread output, whatever the limits are. An authenticated client is not.
func TestStrangerThatDoesNotReadIsCut(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		h.strangers = true
		r, addr := serveHandler(t, h,
			Options{Backend: b, Settings: testSettings(func(s *Settings) { s.Output.Set(OutputLimits{}) })})
		p := dial(t, addr)
		p.send(command("FILL", fmt.Sprint(replySize/2)))
		p.expect(fmt.Sprintf("$%d\r\n%s\r\n", replySize/2, strings.Repeat("y", replySize/2)))
		p.send(command("FILL", fmt.Sprint(replySize+strangerOutput)))
		p.expectEnd()
		eventually(t, "cut", func() bool { return r.Stats().OutputLimitCloses == 1 && r.Stats().Open == 0 })

		friend := dial(t, addr)
		friend.send(command("NAME", "friend"))
		friend.expect("+OK\r\n")
		friend.send(command("FILL", fmt.Sprint(4*replySize)))
		friend.expect(fmt.Sprintf("$%d\r\n%s\r\n", 4*replySize, strings.Repeat("y", 4*replySize)))
	})
}

// A client that never reads is cut by its limit, and other clients do not notice.
func TestReaderThatNeverReadsIsCut(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		var cuts atomic.Int64
		r, addr := serveHandler(t, h, Options{
			Backend: b,
			Settings: testSettings(func(s *Settings) {
				s.Output.Set(OutputLimits{protocol.ClassPubSub: {Hard: 4 << 20}})
			}),
			OutputLimit: func(session any, class protocol.Class, bytes int) {
				if class == protocol.ClassPubSub && bytes >= 4<<20 && bytes < 6<<20 {
					cuts.Add(1)
				}
			},
		})
		deaf, other := dial(t, addr), dial(t, addr)
		deaf.send(command("NAME", "deaf"))
		deaf.expect("+OK\r\n")
		h.named("deaf").c.SetClass(protocol.ClassPubSub)
		message := strings.Repeat("m", 20_000)
		for range 1000 {
			other.send(command("POST", "deaf", message) + command("PING"))
			other.expect("+OK\r\n+OK\r\n")
			if cuts.Load() > 0 {
				break
			}
		}
		eventually(t, "cut", func() bool {
			return cuts.Load() == 1 && r.Stats().Open == 1 && r.Stats().OutputLimitCloses == 1
		})
		other.send(command("PING"))
		other.expect("+OK\r\n")
	})
}

func TestSoftLimitCutsAfterItsSeconds(t *testing.T) {
	eachBackendAtOnce(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b, Settings: testSettings(func(s *Settings) {
			s.Output.Set(OutputLimits{{Soft: 1 << 20, Seconds: 1}})
		})})
		p := dial(t, addr)
		start := time.Now()
		p.send(command("FILL", fmt.Sprint(24<<20)))
		eventually(t, "cut", func() bool { return r.Stats().OutputLimitCloses == 1 && h.closed.Load() == 1 })
		if took := time.Since(start); took < 900*time.Millisecond {
			t.Errorf("cut after %v", took)
		}
	})
}

// A reply that exceeds the limit of unread output stops growing while it is made, and the client is cut.
func TestHardLimitWithinOneReply(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h,
			Options{Backend: b, Settings: testSettings(func(s *Settings) { s.Output.Set(OutputLimits{{Hard: 1 << 20}}) })})
		deaf, other := dial(t, addr), dial(t, addr)
		deaf.send(command("MANY", "2000000000"))
		eventually(t, "cut", func() bool { return r.Stats().OutputLimitCloses == 1 && r.Stats().Open == 1 })
		other.send(command("PING"))
		other.expect("+OK\r\n")
	})
}

// A client whose reply lacks a part is cut, even if its limit is lifted before the batch is over.
func TestHardLimitLiftedWithinTheBatch(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h,
			Options{Backend: b, Settings: testSettings(func(s *Settings) {
				s.Output.Set(OutputLimits{protocol.ClassNormal: {Hard: 1 << 20}})
			})})
		p := dial(t, addr)
		p.send(command("MANY", "2000000000") + command("CLASS", fmt.Sprint(int(protocol.ClassPubSub))))
		eventually(t, "cut", func() bool { return r.Stats().OutputLimitCloses == 1 && r.Stats().Open == 0 })
	})
}

// A long reply arrives whole, with earlier and later replies in their places.
func TestLongReplyOfManyElements(t *testing.T) {
	const n = 120_000
	var reply strings.Builder
	for i := range n {
		fmt.Fprintf(&reply, "$7\r\n%07d\r\n", i)
	}
	reply.WriteString("+OK\r\n")
	want := "+OK\r\n" + strings.Repeat(reply.String(), 3)
	many := command("MANY", fmt.Sprint(n)) + command("PING")
	eachLink(t, func(t *testing.T, b Backend) {
		_, addr := serveHandler(t, newTestHandler(), Options{Backend: b, Settings: testSettings(func(*Settings) {})})
		p := dial(t, addr)
		p.send(command("PING") + many + many + many)
		p.expect(want)
	})
}

func TestQueryBufferLimit(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h,
			Options{Backend: b, Settings: testSettings(func(s *Settings) { s.QueryBuffer.Set(1 << 20) })})
		p := dial(t, addr)
		// These arguments of one endless request are too short to be streamed.
		fmt.Fprintf(p, "*1000000\r\n")
		arg := fmt.Sprintf("$1000\r\n%s\r\n", strings.Repeat("q", 1000))
		for range 5000 {
			if _, err := io.WriteString(p, arg); err != nil {
				break
			}
		}
		eventually(t, "closed", func() bool { return r.Stats().QueryLimitCloses == 1 && h.closed.Load() == 1 })
	})
}

// A client whose argument exceeds the limit is disconnected when it has sent the argument, or 1 MB more than allowed.
// It reads the end of the connection. A reset while it sends would look like a broken connection.
func TestArgumentPastTheQueryLimit(t *testing.T) {
	const limit = 1 << 20
	eachLink(t, func(t *testing.T, b Backend) {
		var told atomic.Pointer[string]
		h := newTestHandler()
		r, addr := serveHandler(t, h,
			Options{Backend: b, Settings: testSettings(func(s *Settings) { s.QueryBuffer.Set(limit) }),
				QueryLimit: func(session any, begin []byte) { told.Store(new(string(begin))) }})
		arg := strings.Repeat("a", 2*limit)
		cut := uint64(0)
		for _, n := range []int{limit - 2, limit - 1, limit, limit + 1, limit + limit/2} {
			for _, ask := range []string{command("LEN", arg[:n]), command("LEN", arg[:n], "1")} {
				p := dial(t, addr)
				p.sendCut(command("PING")+ask[:40], ask[40:n/2])
				p.expect("+OK\r\n")
				if open := r.Stats().Open; open != 1 {
					t.Fatalf("%d bytes: cut before they were sent", n)
				}
				p.send(ask[n/2:])
				if n == limit-2 {
					if line, err := p.r.ReadString('\n'); err != nil || line[0] != ':' {
						t.Errorf("%q, %v", line, err)
					}
				} else {
					cut++
					if rest, err := io.ReadAll(p.r); err != nil || len(rest) > 0 {
						t.Errorf("%d bytes: %q, %v; want the end", n, rest, err)
					}
					if began := told.Swap(nil); began == nil || *began != arg[:64] {
						t.Errorf("%d bytes: told of %v", n, began)
					}
				}
				p.Close()
				eventually(t, "closed", func() bool { return r.Stats().Open == 0 })
			}
		}
		if n := r.Stats().QueryLimitCloses; n != cut {
			t.Errorf("%d closed, want %d", n, cut)
		}
	})
}

// While a connection's batch is being served, no more than one buffer is read from it. Later bytes stay in the kernel,
// whose buffers are bounded, and the client has to wait.
func TestNothingIsReadAhead(t *testing.T) {
	eachLinkAtOnce(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b})
		p := dial(t, addr)
		h.mu.Lock() // the loop stays in its first batch
		asks, sent := []byte(strings.Repeat(command("PING"), 10_000)), 0
		for sent < 128<<20 {
			p.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			n, err := p.Write(asks)
			if sent += n; err != nil {
				break
			}
		}
		h.mu.Unlock()
		if sent >= 128<<20 {
			t.Errorf("%d MB were read while the first batch was served", sent>>20)
		}
		p.Close()
		eventually(t, "closed", func() bool { return r.Stats().Open == 0 })
	})
}

func TestMaxClients(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b, Settings: testSettings(func(s *Settings) { s.MaxClients.Set(3) })})
		var in []*peer
		for range 3 {
			p := dial(t, addr)
			p.send(command("PING"))
			p.expect("+OK\r\n")
			in = append(in, p)
		}
		out := dial(t, addr)
		out.expect("-ERR max number of clients reached\r\n")
		out.expectEnd()
		in[0].Close()
		eventually(t, "a place is free", func() bool { return r.Stats().Open == 2 })
		p := dial(t, addr)
		p.send(command("PING"))
		p.expect("+OK\r\n")
		if s := r.Stats(); s.Accepted != 4 || s.Rejected != 1 || s.Open != 3 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRefusal(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		h.refuse = "-DENIED\r\n"
		r, addr := serveHandler(t, h, Options{Backend: b})
		p := dial(t, addr)
		p.expect("-DENIED\r\n")
		p.expectEnd()
		eventually(t, "closed", func() bool { return r.Stats().Open == 0 })
		if s := r.Stats(); s.Rejected != 1 { // as rejected_connections counts refused connections
			t.Errorf("%+v", s)
		}
		if h.closed.Load() != 0 {
			t.Error("Closed for a session that never was")
		}
	})
}

func TestManyConnections(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b, Loops: 2})
		var wg sync.WaitGroup
		each := 100
		if secured || apart { // each handshake costs more than all requests of a connection
			each = 20
		}
		peers := make([]*peer, 10*each)
		for i := range peers {
			peers[i] = dial(t, addr)
		}
		for i := range 10 {
			wg.Go(func() {
				for round := range 3 {
					for _, p := range peers[i*each : i*each+each] {
						io.WriteString(p, command("ECHO", fmt.Sprint(round))+command("PING"))
					}
					for _, p := range peers[i*each : i*each+each] {
						p.expect(fmt.Sprintf("$1\r\n%d\r\n+OK\r\n", round))
					}
				}
			})
		}
		wg.Wait()
		for _, p := range peers {
			p.Close()
		}
		eventually(t, "all closed", func() bool { return h.closed.Load() == int64(len(peers)) && r.Stats().Open == 0 })
	})
}

// Peers that always have more bytes than one read takes do not keep the other connections of their loop waiting. A busy
// host delays some of the replies, so half of them count. The senders never end.
func TestSendersTakeTurns(t *testing.T) {
	limit := 2 * time.Second
	if invariant.Enabled {
		limit *= 4 // the same work takes several times as long, the more so under the race detector
	}
	eachLink(t, func(t *testing.T, b Backend) {
		for kind, name := range []string{"small", "large"} {
			// Each backend has both kinds, and each kind of link has them at different backends.
			if (secured || apart) && kind != int(b)%2 && testkit.Scale() == 1 {
				continue
			}
			request := command("PING")
			if name == "large" {
				request = command("LEN", strings.Repeat("x", 1<<20))
			}
			_, addr := serveHandler(t, newTestHandler(), Options{Backend: b})
			steady := dial(t, addr)
			block := []byte(strings.Repeat(request, max(1, 1<<20/len(request))))
			var senders [4]*peer
			var ended sync.WaitGroup
			for i := range senders {
				sender := dial(t, addr)
				senders[i] = sender
				ended.Go(func() { io.Copy(io.Discard, sender.Conn) })
				ended.Go(func() {
					for err := error(nil); err == nil; {
						_, err = sender.Conn.Write(block)
					}
				})
			}
			time.Sleep(30 * time.Millisecond) // their sockets are full
			var took [7]time.Duration
			for i := range took {
				began := time.Now()
				steady.send(command("PING"))
				steady.expect("+OK\r\n")
				took[i] = time.Since(began)
			}
			most := limit
			if secured || apart { // the peers encrypt in this process, too, or batches wait for other goroutines
				most *= 3
			}
			if slices.Sort(took[:]); took[len(took)/2] > most {
				t.Errorf("%s: half of the PINGs took more than %v beside them", name, took[len(took)/2])
			}
			for _, sender := range senders {
				sender.Close()
			}
			ended.Wait()
		}
	})
}

// In a storm, connections come, send something or nothing, and leave, most of them without closing properly.
func TestConnectionStorm(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b, Loops: 2})
		steady := dial(t, addr)
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 150 {
					c, err := net.Dial("tcp", addr)
					if err != nil {
						t.Error(err)
						return
					}
					switch (i + worker) % 4 {
					case 0: // says nothing
					case 1:
						io.WriteString(c, command("PING"))
						io.ReadFull(c, make([]byte, 5))
					case 2: // leaves in the middle, with a reset
						io.WriteString(c, command("BIG", "100000")+"*3\r\n$3\r\nSET")
						c.(*net.TCPConn).SetLinger(0)
					case 3:
						io.WriteString(c, command("LEN", strings.Repeat("x", 50_000))[:40_000])
					}
					c.Close()
				}
			})
		}
		for range 50 {
			steady.send(command("PING"))
			steady.expect("+OK\r\n")
		}
		wg.Wait()
		eventually(t, "only the steady one is left",
			func() bool { return r.Stats().Open == 1 && h.closed.Load() == h.opened.Load()-1 })
		eventually(t, "nothing leaked", func() bool {
			return h.lent.Load() == h.lentFreed.Load() && h.reserved.Load() == h.bulkFreed.Load()
		})
		steady.send(command("PING"))
		steady.expect("+OK\r\n")
	})
}

// A peer that shut down its sending side gets the replies to all that it sent, then the end.
func TestHalfClosedPeer(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: b})
		p := dial(t, addr)
		p.send(command("PING") + command("ECHO", "bye"))
		p.Conn.(interface{ CloseWrite() error }).CloseWrite()
		p.expect("+OK\r\n$3\r\nbye\r\n")
		p.expectEnd()
		eventually(t, "Closed", func() bool { return h.closed.Load() == 1 })
	})
}

func TestUnixSocket(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		path := filepath.Join(t.TempDir(), "s")
		// A stale socket file lies at the path.
		fd, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		h := newTestHandler()
		r, err := New(Options{Handler: h, Backend: b, UnixSocket: path, UnixPerm: 0o600,
			UnixGroup: strconv.Itoa(os.Getgid())})
		if err != nil {
			t.Fatal(err)
		}
		r.Serve()
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		p := dial(t, path)
		p.send(command("NAME", "u") + command("FILL", "3000000"))
		p.expect("+OK\r\n$3000000\r\n" + strings.Repeat("y", 3000000) + "\r\n")
		if c := h.named("u").c; !c.Unix() || !c.Loopback() || c.RemoteAddr() != path+":0" {
			t.Errorf("%v %v %q", c.Unix(), c.Loopback(), c.RemoteAddr())
		}
		if _, err := New(Options{Handler: h, Backend: b, UnixSocket: path}); err == nil {
			t.Error("a living server's socket was taken")
		}
		other := path + "2"
		if _, err := New(Options{Handler: h, Backend: b, UnixSocket: other, UnixGroup: "no such"}); err == nil {
			t.Error("an unknown group was taken")
		}
		if _, err := os.Stat(other); err == nil {
			t.Error("the socket without its group is still there")
		}
		r.Stop(time.Second)
		if _, err := os.Stat(path); err == nil {
			t.Error("the socket file is still there")
		}
	})
}

func TestAddresses(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		port, other := testkit.FreePort(t), testkit.FreePort(t)
		r, err := New(Options{Handler: h, Backend: b, Port: port, Bind: []string{"127.0.0.1", "-::1", "-192.0.2.77"}})
		if err != nil {
			t.Fatal(err)
		}
		r.Serve()
		defer r.Stop(time.Second)
		p := dial(t, fmt.Sprintf("127.0.0.1:%d", port))
		p.send(command("NAME", "v4"))
		p.expect("+OK\r\n")
		c := h.named("v4").c
		if c.LocalAddr() != fmt.Sprintf("127.0.0.1:%d", port) || c.RemoteAddr() != p.LocalAddr().String() || !c.Loopback() {
			t.Errorf("%q %q %v", c.LocalAddr(), c.RemoteAddr(), c.Loopback())
		}
		if len(r.Addrs()) == 2 {
			p := dial(t, fmt.Sprintf("[::1]:%d", port))
			p.send(command("NAME", "v6"))
			p.expect("+OK\r\n")
			if c := h.named("v6").c; c.LocalAddr() != fmt.Sprintf("[::1]:%d", port) || c.RemoteAddr() != p.LocalAddr().String() {
				t.Errorf("%q %q", c.LocalAddr(), c.RemoteAddr())
			}
		}
		// First the same port again, then another: connections stay.
		if err := r.Rebind([]string{"127.0.0.1"}, other, 0); err != nil {
			t.Fatal(err)
		}
		p2 := dial(t, fmt.Sprintf("127.0.0.1:%d", other))
		for _, p := range []*peer{p, p2} {
			p.send(command("PING"))
			p.expect("+OK\r\n")
		}
		if err := r.Rebind([]string{"192.0.2.77"}, port, 0); err == nil {
			t.Error("an address that is not ours was accepted")
		}
		dial(t, fmt.Sprintf("127.0.0.1:%d", other)).send(command("PING"))
	})
}

// Stop sends all output, then connections close, then no goroutine of the reactor runs.
func TestStopFlushes(t *testing.T) {
	eachLinkAtOnce(t, func(t *testing.T, b Backend) {
		h, r, addr, all := withOutput(t, b, "p", "other")
		p, other := all[0], all[1]
		stopped := make(chan struct{})
		go func() { r.Stop(2 * patience); close(stopped) }()
		p.expect(fmt.Sprintf("+OK\r\n$%d\r\n%s\r\n", longOutput, strings.Repeat("y", longOutput)))
		other.Close() // nothing waits any more
		p.expectEnd()
		<-stopped
		if h.closed.Load() != 2 || r.Stats().Open != 0 {
			t.Errorf("closed %d, open %d", h.closed.Load(), r.Stats().Open)
		}
		if _, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			t.Error("still accepting")
		}
	})
}

// Stop waits for a connection that does not read only for the given patience.
func TestStopBesideTheDeaf(t *testing.T) {
	eachLinkAtOnce(t, func(t *testing.T, b Backend) {
		h, r, _, _ := withOutput(t, b, "deaf")
		r.Stop(100 * time.Millisecond)
		if h.closed.Load() != 1 || r.Stats().Open != 0 {
			t.Errorf("closed %d, open %d", h.closed.Load(), r.Stats().Open)
		}
	})
}

// longOutput is more than the sockets of a narrow peer hold.
const longOutput = 6 << 20

// withOutput starts a reactor with connections of these names, each with output that waits.
func withOutput(t *testing.T, b Backend, names ...string) (h *testHandler, r *Reactor, addr string, all []*peer) {
	t.Helper()
	h = newTestHandler()
	r, addr = serveHandler(t, h, Options{Backend: b})
	for _, name := range names {
		p := dialNarrow(t, addr)
		all = append(all, p)
		p.send(command("NAME", name) + command("FILL", fmt.Sprint(longOutput)))
	}
	for _, name := range names {
		eventually(t, "output waits", func() bool { s := h.named(name); return s != nil && s.c.Usage().Output > 0 })
	}
	return h, r, addr, all
}

// Idle connections have no buffers.
func TestIdleConnectionsAreCheap(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	eachBackend(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b})
		const n = 2000
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		fds := make([]int, n) // raw sockets: only the server's side shall cost Go memory
		for i := range fds {
			fds[i] = rawDial(t, addr)
			ask := []byte(command("PING"))
			unix.Write(fds[i], ask)
			unix.Read(fds[i], make([]byte, 5))
		}
		defer func() {
			for _, fd := range fds {
				unix.Close(fd)
			}
		}()
		eventually(t, "open", func() bool { return r.Stats().Open == n })
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := (int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)) / n
		t.Logf("%s: %d bytes a connection", b, each)
		if bound := map[Backend]int64{Gnet: 1200, Epoll: 1200, Netpoll: 4000, IOUring: 1200}[b]; each > bound {
			t.Errorf("%d bytes a connection, more than %d", each, bound)
		}
	})
}

func rawDial(t *testing.T, addr string) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var port int
	fmt.Sscanf(addr, "127.0.0.1:%d", &port)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// tcp-keepalive holds for connections accepted after it was set, also for those that already waited to be accepted.
func TestKeepAlive(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		s := testSettings(func(s *Settings) {})
		_, addr := serveHandler(t, h, Options{Backend: b, Settings: s})
		for round, seconds := range []int64{300, 60, 60, 0, 0, 7} {
			s.KeepAlive.Set(seconds)
			h.mu.Lock() // a loop stays in the first one's batch while the others wait to be accepted
			var peers []*peer
			for i := range 3 {
				p := dial(t, addr)
				p.send(command("NAME", fmt.Sprint(round, i)))
				peers = append(peers, p)
			}
			h.mu.Unlock()
			for i, p := range peers {
				p.expect("+OK\r\n")
				fd := h.named(fmt.Sprint(round, i)).c.(*conn).fd
				on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
				idle, err2 := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
				if err != nil || err2 != nil || (on != 0) != (seconds != 0) || on != 0 && int64(idle) != seconds {
					t.Errorf("round %d, connection %d: on %d after %d s, want %d s (%v, %v)", round, i, on, idle, seconds, err, err2)
				}
			}
		}
	})
}
