package reactor

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A socket with more bytes than one read takes is read to its end, also when no later byte could raise an edge.
func TestEdgesAreReadToTheEnd(t *testing.T) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			_, addr := serveHandler(t, h, Options{Backend: b, Loops: 2})
			var peers []*peer
			for range 4 {
				p := dial(t, addr)
				p.send(command("PING"))
				p.expect("+OK\r\n")
				peers = append(peers, p)
			}
			for _, n := range []int{firstRead - 1, firstRead, firstRead + 1, firstRead + readBuffer, firstRead + readBuffer + 1,
				9 * readBuffer, 9*readBuffer + 7} {
				ask := command("COUNT")
				pings, rest := n/len(ask), n%len(ask)
				h.mu.Lock() // the loops stay in their first batch until everything has been sent
				for _, p := range peers {
					go p.send(strings.Repeat(ask, pings) + command("ECHO", strings.Repeat("x", rest)))
				}
				h.mu.Unlock()
				for _, p := range peers {
					for range pings {
						if line, err := p.r.ReadString('\n'); !strings.HasPrefix(line, "#") {
							t.Fatalf("%d bytes: %q, %v", n, line, err)
						}
					}
					p.expect(fmt.Sprintf("$%d\r\n%s\r\n", rest, strings.Repeat("x", rest)))
				}
			}
		})
	}
}

// An event about a peer's end may belong to a socket that had the descriptor before. It then ends no connection
// (reactor.E3).
func TestEventOfAnEarlierSocket(t *testing.T) {
	for _, b := range []Backend{Gnet, Epoll, IOUring} {
		t.Run(b.String(), func(t *testing.T) {
			h := newTestHandler()
			r, addr := serveHandler(t, h, Options{Backend: b})
			p := dial(t, addr)
			p.send(command("NAME", "p") + command("HOLD"))
			p.expect("+OK\r\n+HELD\r\n")
			fd := h.named("p").c.(*conn).fd
			host := r.loops[0].host.(interface{ event(fd int, events uint32) })
			onLoop(t, r.loops[0], func() { host.event(fd, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP) })
			h.named("p").c.Resume()
			p.send(command("PING"))
			p.expect("+OK\r\n")
			p.Conn.(interface{ CloseWrite() error }).CloseWrite() // the real end is believed
			p.expectEnd()
		})
	}
}

// onLoop runs f on a loop's goroutine.
func onLoop(t *testing.T, l *loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	l.post(mail{kind: mailRun, run: func() { f(); close(done) }})
	<-done
}

// The end of a peer that comes together with its last bytes is noticed, however many bytes these are.
func TestEndAfterManyBytes(t *testing.T) {
	for _, n := range []int{1, readBuffer, 5 * readBuffer} {
		h := newTestHandler()
		_, addr := serveHandler(t, h, Options{Backend: Gnet})
		p := dial(t, addr)
		p.send(command("PING"))
		p.expect("+OK\r\n")
		text := strings.Repeat("x", n)
		h.mu.Lock()
		first := dial(t, addr)
		first.send(command("PING")) // the loop waits for the lock in here
		go func() {
			p.send(command("ECHO", text))
			p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			h.mu.Unlock()
		}()
		p.expect(fmt.Sprintf("$%d\r\n%s\r\n", n, text))
		p.expectEnd()
		eventually(t, "Closed", func() bool { return h.closed.Load() == 1 })
	}
}
