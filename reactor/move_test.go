package reactor

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol"
)

// shuffled makes serveHandler move connections between at least three loops all the time.
var shuffled bool

// shuffle moves connections of r between its loops, by chance, until stop.
func shuffle(r *Reactor) (stop func()) {
	ends := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ends:
				return
			case <-time.After(time.Duration(rand.N(300)) * time.Microsecond):
			}
			moveSome(r)
		}
	})
	return func() {
		close(ends)
		running.Wait()
	}
}

// moveSome makes one loop give some of its connections to the others, by chance.
func moveSome(r *Reactor) {
	from := r.loops[rand.N(len(r.loops))]
	var to []*loop
	for _, l := range r.loops {
		if l != from {
			to = append(to, l)
		}
	}
	n := 1 + rand.N(4)
	from.post(mail{kind: mailRun, run: func() { from.giveAway(n, to) }})
}

// movingLinks runs f for the backends whose connections move, in the plain and under TLS.
func movingLinks(t *testing.T, f func(t *testing.T, b Backend)) {
	for _, secured = range []bool{false, true} {
		for _, b := range []Backend{Gnet, Epoll} {
			t.Run(fmt.Sprint(b, " TLS ", secured), func(t *testing.T) { f(t, b) })
		}
	}
	secured = false
}

// TestMovingConnections: while connections move between three loops, every reply and every message reaches its client
// once and in order, and no other client. Clients pipeline, wait, get posts of other goroutines, are closed, and leave.
// In the end no connection is counted that is not there.
func TestMovingConnections(t *testing.T) {
	movingLinks(t, func(t *testing.T, b Backend) {
		const clients, rounds = 9, 150
		h := newTestHandler()
		handler := protocol.Handler(h)
		if rand.N(2) == 0 {
			handler = newAwayHandler(h)
		}
		r, addr := serveHandler(t, handler, Options{Backend: b, Loops: 3})
		var peers []*peer
		for i := range clients {
			p := dial(t, addr)
			p.send(command("NAME", fmt.Sprint(i)))
			p.expect("+OK\r\n")
			peers = append(peers, p)
		}
		stop := shuffle(r)
		defer stop()
		var working sync.WaitGroup
		for i, p := range peers {
			s := h.named(fmt.Sprint(i))
			working.Go(func() {
				for n := range rounds {
					word := fmt.Sprintf("%d.%d", i, n)
					ask := command("ECHO", word) + command("LATER", word) + command("LEN", word)
					want := fmt.Sprintf("$%d\r\n%s\r\n:%d\r\n:%d\r\n", len(word), word, len(word), len(word))
					cut := rand.N(len(ask))
					io.WriteString(p, ask[:cut])
					runtime.Gosched() // so that a half-read request may try to move
					io.WriteString(p, ask[cut:])
					if err := resumeUntil(p, s, want); err != nil {
						t.Errorf("client %d, round %d: %v", i, n, err)
						return
					}
				}
			})
		}
		working.Wait()
		if t.Failed() {
			return
		}
		postWhileMoving(t, h, peers)
		h.mu.Lock()
		h.named0("0").c.Close(true)
		h.mu.Unlock()
		peers[0].expectEnd()
		for i, p := range peers[1:] {
			if i%2 == 0 {
				p.Close()
			}
		}
		eventually(t, "the clients that have left to be closed", func() bool { return r.Stats().Open == clients/2 })
		eventually(t, "each connection to be on one loop", func() bool { return connsOf(r) == clients/2 })
		awaitEachLoop(t, r, h.named("2"))
		r.Stop(patience)
		if open := r.Stats().Open; open != 0 {
			t.Errorf("%d connections are open after the end", open)
		}
		if opened, closed := h.opened.Load(), h.closed.Load(); opened != clients || closed != clients {
			t.Errorf("%d sessions opened, %d closed", opened, closed)
		}
	})
}

// resumeUntil reads want from p, whose session waits once in between: another goroutine resumes it.
func resumeUntil(p *peer, s *testSession, want string) error {
	done := make(chan struct{})
	var resuming sync.WaitGroup
	resuming.Go(func() {
		for {
			s.c.Resume()
			select {
			case <-done:
				return
			case <-time.After(50 * time.Microsecond):
			}
		}
	})
	got := make([]byte, len(want))
	_, err := io.ReadFull(p.r, got)
	close(done)
	resuming.Wait()
	if err == nil && string(got) != want {
		err = fmt.Errorf("read %q, want %q", got, want)
	}
	return err
}

// postWhileMoving has three goroutines post numbers to all peers, each number in its own turn.
func postWhileMoving(t *testing.T, h *testHandler, peers []*peer) {
	const posts = 900
	h.mu.Lock()
	h.count = 0
	h.mu.Unlock()
	var posting sync.WaitGroup
	for range 3 {
		posting.Go(func() {
			for range posts / 3 {
				h.mu.Lock()
				h.turn++
				p := h.next()
				for i := range peers {
					c := h.named0(fmt.Sprint(i)).c
					if h.count%3 == 0 {
						c.PostReply(h.turn, &protocol.Reply{B: append([]byte(nil), p...)})
					} else {
						c.Post(h.turn, p)
					}
				}
				h.mu.Unlock()
				runtime.Gosched()
			}
		})
	}
	var want strings.Builder
	for i := range posts {
		fmt.Fprintf(&want, "#%08d\n", i+1)
	}
	for _, p := range peers {
		p.expect(want.String())
	}
	posting.Wait()
}

// named0 is named for a caller that holds mu.
func (h *testHandler) named0(name string) *testSession { return h.byName[name] }

// connsOf returns how many connections the loops of r have.
func connsOf(r *Reactor) (n int) {
	for _, l := range r.loops {
		got := make(chan int, 1)
		l.post(mail{kind: mailRun, run: func() { got <- len(l.conns) }})
		n += <-got
	}
	return n
}

// awaitEachLoop waits until the session's connection has been on every loop.
func awaitEachLoop(t *testing.T, r *Reactor, s *testSession) {
	seen := map[protocol.Loop]bool{}
	eventually(t, "a connection to come to each loop", func() bool {
		seen[s.c.Loop()] = true
		return len(seen) == len(r.loops)
	})
}

// TestStopWhileConnectionsMove: Stop closes connections that are between two loops.
func TestStopWhileConnectionsMove(t *testing.T) {
	movingLinks(t, func(t *testing.T, b Backend) {
		for range 20 {
			h := newTestHandler()
			r, addr := serveHandler(t, h, Options{Backend: b, Loops: 3})
			const clients = 8
			for range clients {
				p := dial(t, addr)
				p.send(command("PING"))
				p.expect("+OK\r\n")
			}
			stop := shuffle(r)
			for range rand.N(40) {
				moveSome(r)
			}
			r.Stop(patience)
			stop()
			if h.closed.Load() != clients || r.Stats().Open != 0 {
				t.Fatalf("%d of %d sessions closed, %d connections open", h.closed.Load(), clients, r.Stats().Open)
			}
		}
	})
}

// TestSeatedConnectionsStay: a session that may not move stays on its loop, and so does one for which mail waits.
func TestSeatedConnectionsStay(t *testing.T) {
	h := newTestHandler()
	r, addr := serveHandler(t, h, Options{Backend: Epoll, Loops: 2})
	joinReceivers(t, h, addr, 4)
	for name := range 4 {
		c := h.named(fmt.Sprint("p", name)).c.(*conn)
		from, to := c.home.Load(), r.loops[0]
		if from == to {
			to = r.loops[1]
		}
		for range 20 {
			done := make(chan struct{})
			from.post(mail{kind: mailRun, run: func() { from.giveAway(4, []*loop{to}); close(done) }})
			<-done
			for moving := true; moving; {
				still := make(chan bool)
				from.post(mail{kind: mailRun, run: func() { still <- from.moving != nil }})
				moving = <-still
			}
			if c.Loop() != protocol.Loop(from) {
				t.Fatal("a connection has left its loop")
			}
		}
	}
	some := &conn{}
	for _, m := range []mail{{kind: mailResume, c: some}, {kind: mailPostAll, to: []protocol.Conn{&conn{}, some}},
		{kind: mailPostAll, to: make([]protocol.Conn, mostCompared+1)}} {
		if !m.isFor(some) {
			t.Errorf("mail of kind %d is not for its connection", m.kind)
		}
	}
	if (&mail{kind: mailRun}).isFor(some) || (&mail{kind: mailPostAll, to: []protocol.Conn{&conn{}}}).isFor(some) {
		t.Error("mail for others is for a connection")
	}
}

// A restingHost is a mover whose connections have no sockets.
type restingHost struct{ host }

func (restingHost) wake()         {}
func (restingHost) release(*conn) {}
func (restingHost) arrive(*conn)  {}

// resting returns a loop with n connections at rest, which shall give all of them to another loop.
func resting(n int) (from, to *loop) {
	r := &Reactor{handler: newTestHandler()}
	r.loops = []*loop{newLoop(r, 0), newLoop(r, 1)}
	for _, l := range r.loops {
		l.host = restingHost{}
	}
	from, to = r.loops[0], r.loops[1]
	for range n {
		c := &conn{session: &testSession{}}
		c.setLoop(from)
		from.conns[c] = struct{}{}
	}
	from.giveAway(n, []*loop{to})
	return from, to
}

// TestNoMovesBesideFullMailboxes: while many mails wait for a loop, none of its connections moves. Each would be
// compared with all those mails, and the core's turn would take seconds.
func TestNoMovesBesideFullMailboxes(t *testing.T) {
	const conns = 100
	from, _ := resting(conns)
	for range 100_000 {
		from.mail = append(from.mail, mail{kind: mailResume, c: &conn{}})
	}
	from.moveSome()
	if len(from.conns) != conns || from.moving == nil {
		t.Fatalf("%d of %d connections have stayed; more shall move: %t", len(from.conns), conns, from.moving != nil)
	}
	from.mail = nil
	from.moveSome()
	if left := len(from.conns); left != conns-movedAtOnce {
		t.Errorf("%d of %d connections have stayed when no mail waits", left, conns)
	}
}

// BenchmarkMoves moves some of 10,000 connections in one turn of the core, beside as many mails as may wait then. The
// mails are for others, or for receivers that are compared with each connection. Watch the time: a turn should stay
// below a millisecond.
func BenchmarkMoves(b *testing.B) {
	many := make([]protocol.Conn, mostCompared)
	for i := range many {
		many[i] = &conn{}
	}
	for name, m := range map[string]mail{"none": {}, "resumes": {kind: mailResume, c: &conn{}},
		"messages": {kind: mailPostAll, to: many}} {
		b.Run(name, func(b *testing.B) {
			from, to := resting(10_000)
			if name != "none" {
				for range mailsBesideMoves {
					from.mail = append(from.mail, m)
				}
			}
			for b.Loop() {
				if from.moving == nil || len(from.moving.conns) < movedLook {
					b.StopTimer()
					mails := from.mail
					from, to = resting(10_000)
					from.mail = mails
					b.StartTimer()
				}
				from.moveSome()
				to.mail = to.mail[:0]
			}
		})
	}
}
