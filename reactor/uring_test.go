package reactor

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/reactor/uring"
	"spindle/tests/testkit"
)

// A held client that does not stop sending fills its socket, not the server's memory. Its requests get replies when it
// resumes.
func TestHeldConnectionIsReadNoFurther(t *testing.T) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			_, addr := serveHandler(t, h, Options{Backend: b})
			p := dial(t, addr)
			p.send(command("NAME", "me") + command("HOLD") + command("PING"))
			p.expect("+OK\r\n+HELD\r\n")
			c := h.named("me").c
			asks, sent := []byte(strings.Repeat(command("PING"), 10_000)), 0
			p.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			for sent < 64<<20 {
				n, err := p.Write(asks)
				if sent += n; err != nil {
					break
				}
			}
			if held, most := c.Usage().Query, heldBytes+2*uring.ReceiveMost; sent >= 64<<20 || held > most {
				t.Errorf("the client sent %d bytes, and %d are held; want %d at most", sent, held, most)
			}
			p.SetDeadline(time.Now().Add(patience))
			c.Resume()
			rest := sent % len(command("PING"))
			go p.send(command("PING")[rest:] + command("ECHO", "end"))
			p.expect(strings.Repeat("+OK\r\n", sent/len(command("PING"))+2) + "$3\r\nend\r\n")
		})
	}
}

// Short replies to a client that does not read fill its socket, and all arrive in the end.
func TestShortRepliesFillASocket(t *testing.T) {
	eachLink(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: b})
		p := dial(t, addr)
		p.send(command("NAME", "me"))
		p.expect("+OK\r\n")
		c, asked := h.named("me").c, 0
		for c.Usage().Output == 0 {
			p.send(command("FILL", "30000") + command("COUNT"))
			asked++
			eventually(t, "the request to be served", func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return h.count == asked
			})
		}
		fill := fmt.Sprintf("$30000\r\n%s\r\n", strings.Repeat("y", 30000))
		for i := range asked {
			p.expect(fill + fmt.Sprintf("#%08d\n", i+1))
		}
		p.send(command("PING"))
		p.expect("+OK\r\n")
	})
}

// Clients that leave while their replies are on the way do not harm the others.
func TestPeersThatLeaveBeforeTheirReplies(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		h := newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: b, Loops: 2})
		steady := dial(t, addr)
		var leavers sync.WaitGroup
		for range 8 {
			leavers.Go(func() {
				for range 40 {
					p := dial(t, addr)
					p.send(strings.Repeat(command("FILL", "20000"), 10))
					p.Close() // the first replies are answered by a reset
				}
			})
		}
		for i := range 200 {
			text := fmt.Sprint(i)
			steady.send(command("ECHO", text))
			steady.expect(fmt.Sprintf("$%d\r\n%s\r\n", len(text), text))
		}
		leavers.Wait()
		eventually(t, "only the steady one is left", func() bool { return r.Stats().Open == 1 })
	})
}

// While all batches stay away, their connections keep all buffers of the ring. Other clients are served all the same.
func TestConnectionsShareTheRingsBuffers(t *testing.T) {
	h := &stuckHandler{Handler: newTestHandler(), open: make(chan struct{})}
	r, err := New(Options{Handler: h, Backend: IOUring, Loops: 2, Bind: []string{"127.0.0.1"},
		Port: testkit.FreePort(t)})
	if err != nil {
		t.Fatal(err)
	}
	r.Serve()
	t.Cleanup(func() { r.Stop(2 * time.Second) })
	var peers []*peer
	for range 4 * uring.BufferCount {
		peers = append(peers, dial(t, r.Addrs()[0]))
	}
	for round := range 3 {
		for _, p := range peers {
			p.send(command("ECHO", fmt.Sprint(round)))
			p.send(command("ECHO", fmt.Sprint(round))) // it arrives while the first request is away
		}
		if round == 0 {
			eventually(t, "batches that are away", func() bool { return h.away() >= awayMost })
			close(h.open)
		}
		for _, p := range peers {
			p.expect(strings.Repeat(fmt.Sprintf("$1\r\n%d\r\n", round), 2))
		}
	}
}

// A stuckHandler publishes all batches, and runs none before open is closed.
type stuckHandler struct {
	protocol.Handler
	open  chan struct{}
	mu    sync.Mutex
	count int
}

func (h *stuckHandler) away() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

func (h *stuckHandler) Join(ring func()) *protocol.Outbox { return protocol.NewOutbox(ring) }

func (h *stuckHandler) Serve(b *protocol.Batch) {
	<-h.open
	h.Handler.Serve(b)
}

func (h *stuckHandler) Offer(b *protocol.Batch, o *protocol.Outbox) (ran bool) {
	o.Publish(b)
	h.mu.Lock()
	h.count++
	h.mu.Unlock()
	go func() {
		<-h.open
		for b := o.Take(); b != nil; {
			next := b.Next()
			h.Handler.Serve(b)
			b.Return()
			b = next
		}
		o.Ring()
	}()
	return false
}

func (h *stuckHandler) Help() {}

// TestServeWhileTheLoopWorks: Serve is called while the first loop has other work. The loop accepts afterwards.
func TestServeWhileTheLoopWorks(t *testing.T) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			path := t.TempDir() + "/socket"
			r, err := New(Options{Backend: b, Handler: newTestHandler(), UnixSocket: path})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Stop(2 * time.Second) })
			goOn := stall(r)
			r.Serve()
			goOn()
			p := dial(t, path)
			p.send(command("PING"))
			p.expect("+OK\r\n")
		})
	}
}
