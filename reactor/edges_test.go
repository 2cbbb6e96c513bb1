package reactor

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// modes is how many descriptors gnet's loops watch edge-triggered, and how many level-triggered, their own included.
func modes(r *Reactor) (edge, level int) {
	for _, l := range r.loops {
		for _, events := range watched(l.host.(*gnetHost).poll) {
			if events&unix.EPOLLET != 0 {
				edge++
			} else {
				level++
			}
		}
	}
	return edge, level
}

// Sockets are edge-triggered whenever their reads empty them. One that has sent more than a read takes is read to its end all the same, also when
// nothing more comes that could raise an edge.
func TestEdgesUnderGnet(t *testing.T) {
	const loops = 2
	h := newBoard()
	r, addr := serveBoard(t, h, Options{Backend: Gnet, Loops: loops})
	ownEdge, ownLevel := modes(r)
	settled := func(sockets int) func() bool {
		return func() bool {
			edge, level := modes(r)
			return edge == ownEdge+sockets && level == ownLevel
		}
	}
	var peers []*peer
	for range 4 {
		p := dial(t, addr)
		p.send(command("PING"))
		p.expect("+OK\r\n")
		peers = append(peers, p)
	}
	eventually(t, "edges", settled(len(peers)))
	for _, n := range []int{firstRead - 1, firstRead, firstRead + 1, firstRead + readBuffer, firstRead + readBuffer + 1, 9 * readBuffer, 9*readBuffer + 7} {
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
	for range shortReads {
		for _, p := range peers {
			p.send(command("PING"))
			p.expect("+OK\r\n")
		}
	}
	eventually(t, "edges again", settled(len(peers)))
	for _, p := range peers {
		p.Close()
	}
	eventually(t, "Closed", func() bool { return h.closed.Load() == int64(len(peers)) })
}

// A socket that has more than its share becomes level-triggered, and only some short reads in a row make it edge-triggered again: else a client whose
// every request is as long as a share would be changed twice a request.
func TestShortReads(t *testing.T) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(poll)
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bell)
	if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, bell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(bell)}); err != nil {
		t.Fatal(err)
	}
	h, c := &gnetHost{poll: poll}, &conn{fd: bell}
	h.suit(c, true)
	for i, read := range []struct {
		full  bool
		times int
		edges bool // afterwards
	}{{false, 100, true}, {true, 1, false}, {false, shortReads - 1, false}, {true, 1, false}, {false, shortReads - 1, false}, {false, 1, true}, {false, 100, true}, {true, 3, false}} {
		for range read.times {
			h.heed(c, read.full)
		}
		for _, events := range watched(poll) {
			if edges := events&unix.EPOLLET != 0; edges != read.edges || c.edges != edges {
				t.Errorf("step %d: edge-triggered: %t, want %t", i, edges, read.edges)
			}
		}
	}
}

// An end that comes together with the last bytes is heard, however many these are.
func TestEndBehindManyBytes(t *testing.T) {
	for _, n := range []int{1, readBuffer, 5 * readBuffer} {
		h := newBoard()
		_, addr := serveBoard(t, h, Options{Backend: Gnet})
		p := dial(t, addr)
		p.send(command("PING"))
		p.expect("+OK\r\n")
		text := strings.Repeat("x", n)
		h.mu.Lock()
		first := dial(t, addr)
		first.send(command("PING")) // the loop waits for the lock in here
		go func() {
			p.send(command("ECHO", text))
			p.Conn.(*net.TCPConn).CloseWrite()
			h.mu.Unlock()
		}()
		p.expect(fmt.Sprintf("$%d\r\n%s\r\n", n, text))
		p.expectEnd()
		eventually(t, "Closed", func() bool { return h.closed.Load() == 1 })
	}
}

// Where the kernel does not tell which epoll instance is gnet's, its sockets stay as gnet wants them.
func TestGnetWithoutProc(t *testing.T) {
	was := proc
	proc = t.TempDir()
	defer func() { proc = was }()
	h := newBoard()
	r, addr := serveBoard(t, h, Options{Backend: Gnet})
	if poll := r.loops[0].host.(*gnetHost).poll; poll != -1 {
		t.Fatalf("epoll instance %d", poll)
	}
	p := dial(t, addr)
	text := strings.Repeat("x", 3*readBuffer)
	p.send(command("PING") + command("ECHO", text))
	p.expect("+OK\r\n" + fmt.Sprintf("$%d\r\n%s\r\n", len(text), text))
	p.Conn.(*net.TCPConn).CloseWrite()
	p.expectEnd()
}
