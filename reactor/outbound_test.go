package reactor

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/tests/testkit"
)

// A relay passes each client's requests on to a server that echoes lines, over one connection for each loop. It replies
// in the order in which the lines return.
type relay struct {
	to      Dialing
	reactor atomic.Pointer[Reactor]
	outs    map[protocol.Loop]*relayed
	ups     atomic.Int64
	downs   atomic.Int64
	last    atomic.Value // the error of the last Down
}

// A relayed is the relay's connection for one loop.
type relayed struct {
	*relay
	d       Direct
	waiting []*relayClient // in the order of the lines
	before  [][]byte       // for d, which is not up yet
	begun   []byte         // of a line
}

type relayClient struct {
	d     Direct
	owed  int
	ended bool
}

func (h *relay) Open(c protocol.Conn) (any, []byte) { return &relayClient{d: DirectOf(c)}, nil }
func (h *relay) Closed(session any)                 { session.(*relayClient).ended = true }
func (h *relay) Malformed(any, *protocol.Error) protocol.Verdict {
	return protocol.Tell
}
func (h *relay) Reserve(any, int) (*protocol.Bulk, *protocol.Error) { return nil, nil }

func (h *relay) Serve(b *protocol.Batch) {
	s := b.Session.(*relayClient)
	out := h.outs[s.d.Loop()]
	if out == nil {
		out = &relayed{relay: h}
		h.outs[s.d.Loop()] = out
		h.reactor.Load().Dial(s.d.Loop(), h.to, out)
	}
	for _, q := range b.Requests {
		line := append(bytes.Join(q.Args, []byte(" ")), '\n')
		s.owed++
		out.waiting = append(out.waiting, s)
		if out.d == nil {
			out.before = append(out.before, line)
		} else {
			out.d.Append(line)
		}
	}
	s.d.Owe(true)
	b.Done = len(b.Requests)
}

func (o *relayed) Up(d Direct) {
	o.ups.Add(1)
	o.d = d
	for _, line := range o.before {
		d.Append(line)
	}
	o.before = nil
}

func (o *relayed) Received(p []byte) {
	o.begun = append(o.begun, p...)
	for {
		i := bytes.IndexByte(o.begun, '\n')
		if i < 0 {
			return
		}
		s := o.waiting[0]
		o.waiting = o.waiting[1:]
		if !s.ended {
			s.d.Append(o.begun[:i+1])
			s.owed--
			s.d.Owe(s.owed > 0)
		}
		o.begun = append([]byte(nil), o.begun[i+1:]...)
	}
}

func (o *relayed) Down(err error) {
	o.downs.Add(1)
	o.last.Store(err.Error())
	for _, s := range o.waiting {
		if !s.ended {
			s.d.Append([]byte("down\n"))
			s.owed--
			s.d.Owe(s.owed > 0)
		}
	}
	o.waiting, o.d = nil, nil
}

// startRelay starts a relay to a server that echoes lines, under TLS if the relay's dialing asks for it.
//
// change, if not nil, may change the relay before it serves.
func startRelay(t *testing.T, b Backend, secure bool, change func(*relay)) (*relay, *Reactor, string, net.Listener) {
	t.Helper()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &relay{to: Dialing{Network: "tcp", Address: echo.Addr().String()}, outs: map[protocol.Loop]*relayed{}}
	server := echo
	if secure {
		h.to.TLS = clientTLS()
		server = tls.NewListener(echo, serverTLS())
	}
	t.Cleanup(func() { echo.Close() })
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	if change != nil {
		change(h)
	}
	r, addr := serveHandler(t, h, Options{Backend: b})
	h.reactor.Store(r)
	return h, r, addr, echo
}

// withLoops runs f for each backend whose loops are shared, with a bare server and with one under TLS.
func withLoops(t *testing.T, f func(t *testing.T, b Backend, secure bool)) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		for name, secure := range map[string]bool{"bare": false, "TLS": true} {
			t.Run(b.String()+" "+name, func(t *testing.T) { f(t, b, secure) })
		}
	}
}

// A connection that this side opens sends the requests of several clients, and brings each its replies. A client that
// sends its last request and stops sending still gets all replies (Direct.Owe).
func TestDialedConnection(t *testing.T) {
	withLoops(t, func(t *testing.T, b Backend, secure bool) {
		h, r, addr, _ := startRelay(t, b, secure, nil)
		var peers []*peer
		for range 5 {
			peers = append(peers, dial(t, addr))
		}
		long := strings.Repeat("x", 100_000)
		for i, p := range peers {
			for j := range 200 {
				word := long[:j*j%(len(long)/(i+1))]
				p.send("*2\r\n$4\r\necho\r\n$" + strconv.Itoa(len(word)) + "\r\n" + word + "\r\n")
			}
			p.Conn.(*net.TCPConn).CloseWrite()
		}
		for i, p := range peers {
			for j := range 200 {
				want := "echo " + long[:j*j%(len(long)/(i+1))] + "\n"
				if got, err := p.r.ReadString('\n'); got != want {
					t.Fatalf("client %d, reply %d: %d bytes, want %d (%v)", i, j, len(got), len(want), err)
				}
			}
			if _, err := p.r.ReadByte(); err != io.EOF {
				t.Errorf("client %d: %v after its last reply, want the end", i, err)
			}
		}
		if n := h.ups.Load(); n != 1 {
			t.Errorf("%d connections were opened, want 1", n)
		}
		if s := r.Stats(); s.Accepted != 5 || s.Open > 5 {
			t.Errorf("%d connections accepted, %d open: the dialed one is counted", s.Accepted, s.Open)
		}
		r.Stop(5 * time.Second)
		if h.downs.Load() != 1 {
			t.Errorf("Down was called %d times", h.downs.Load())
		}
	})
}

// If a server cannot be reached, or its TLS handshake fails, Down is the only call. The end of a connection calls Down
// too.
func TestDialThatFails(t *testing.T) {
	withLoops(t, func(t *testing.T, b Backend, secure bool) {
		h, _, addr, echo := startRelay(t, b, secure, func(h *relay) {
			h.to.TLS = nil
			if !secure {
				h.to.TLS = clientTLS() // the server echoes the greeting
			}
			h.to.Limit = 2 * time.Second
		})
		if secure {
			echo.Close()
		}
		p := dial(t, addr)
		p.send("PING\r\n")
		if got, err := p.r.ReadString('\n'); got != "down\n" {
			t.Fatalf("%q (%v)", got, err)
		}
		if h.ups.Load() != 0 || h.downs.Load() != 1 {
			t.Errorf("Up was called %d times, Down %d times", h.ups.Load(), h.downs.Load())
		}
		t.Log(h.last.Load())
	})
}

// A reactor that stops ends a connection that is being opened.
func TestStopDuringDial(t *testing.T) {
	withLoops(t, func(t *testing.T, b Backend, secure bool) {
		silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and sends nothing
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		h, r, addr, _ := startRelay(t, b, secure, func(h *relay) {
			h.to = Dialing{Network: "tcp", Address: silent.Addr().String(), TLS: clientTLS(), Limit: time.Hour}
		})
		p := dial(t, addr)
		p.send("PING\r\n")
		testkit.Await(t, 10*time.Second, "a handshake", func() bool {
			running, _, _ := r.Handshakes()
			return running == 1
		})
		began := time.Now()
		r.Stop(100 * time.Millisecond)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("Stop took %v", took)
		}
		if h.ups.Load() != 0 {
			t.Error("the connection came up")
		}
	})
}
