package reactor

import (
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"spindle/protocol"
)

// TestGateHoldsReplies: no reply of a turn is written before the gate lets that turn pass. Then all replies are written
// in order, in whatever steps the gate opens.
func TestGateHoldsReplies(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		gate := protocol.NewGate()
		h := newTestHandler()
		var mu sync.Mutex
		durable := uint64(0)
		h.decided = func(turn uint64) { gate.Shut(turn) }
		_, addr := serveHandler(t, h, Options{Backend: backend, Gate: gate, Loops: 2})
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { // the disk
			defer close(done)
			for {
				select {
				case <-stop:
					gate.Open(math.MaxUint64)
					return
				case <-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond):
				}
				h.mu.Lock()
				mu.Lock()
				durable = max(durable, h.turn-min(h.turn, uint64(rand.IntN(3))))
				from := durable + 1
				if durable == h.turn {
					from = math.MaxUint64
				}
				mu.Unlock()
				gate.Open(from)
				h.mu.Unlock()
			}
		}()
		var clients sync.WaitGroup
		for i := range 8 {
			clients.Go(func() {
				c := dial(t, addr)
				for n := range 200 {
					c.send(command("TURN") + command("ECHO", fmt.Sprint(i, n)))
					line := make([]byte, len("+00000000\r\n"))
					if _, err := io.ReadFull(c.r, line); err != nil {
						t.Errorf("client %d, round %d: %v", i, n, err)
						return
					}
					turn, _ := strconv.ParseUint(string(line[1:9]), 10, 64)
					mu.Lock()
					if turn > durable {
						t.Errorf("the reply of turn %d came when %d was durable", turn, durable)
					}
					mu.Unlock()
					text := fmt.Sprint(i, n)
					c.expect(fmt.Sprintf("$%d\r\n%s\r\n", len(text), text))
				}
			})
		}
		clients.Wait()
		close(stop)
		<-done
	})
}

// TestHeldRepliesAfterTheEnd: a client sends requests, perhaps with QUIT, and closes its direction, and the gate holds
// the replies. The client gets them when the gate opens, and then the end.
func TestHeldRepliesAfterTheEnd(t *testing.T) {
	eachLink(t, func(t *testing.T, backend Backend) {
		for _, last := range []string{"PING", "HOLD", "QUIT"} { // HOLD waits for an event that may never come
			gate := protocol.NewGate()
			h, open := newTestHandler(), false
			h.decided = func(turn uint64) {
				if !open {
					gate.Shut(turn)
				}
			}
			r, addr := serveHandler(t, h, Options{Backend: backend, Gate: gate})
			p := dial(t, addr)
			p.send(command("ECHO", "a") + command(last))
			p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			p.expectNothing(20 * time.Millisecond)
			if n := r.Stats().Open; n != 1 {
				t.Fatalf("%d connections while the replies wait", n)
			}
			h.mu.Lock()
			open = true
			gate.Open(math.MaxUint64)
			h.mu.Unlock()
			p.expect("$1\r\na\r\n" + map[string]string{"PING": "+OK\r\n", "HOLD": "+HELD\r\n", "QUIT": "+OK\r\n"}[last])
			p.expectEnd()
			eventually(t, "Closed", func() bool { return h.closed.Load() == 1 && r.Stats().Open == 0 })
		}
	})
}

// TestHeldRepliesOfADeadPeer: while the gate holds the replies of a client, its socket breaks. The connection ends at
// once, although the gate stays shut. Before that the client may have closed its direction, or have sent QUIT.
func TestHeldRepliesOfADeadPeer(t *testing.T) {
	eachLink(t, func(t *testing.T, backend Backend) {
		for name, last := range map[string]string{"open": "", "half closed": "", "quitting": command("QUIT")} {
			gate := protocol.NewGate()
			h := newTestHandler()
			h.decided = func(turn uint64) { gate.Shut(turn) }
			r, addr := serveHandler(t, h, Options{Backend: backend, Gate: gate})
			p := dial(t, addr)
			p.send(command("ECHO", "a") + last)
			eventually(t, "the reply to be held", func() bool { return anyConn(r, func(c *conn) bool { return c.out.gated }) })
			if name == "half closed" {
				p.Conn.(interface{ CloseWrite() error }).CloseWrite()
				eventually(t, "the end of the client's direction", func() bool {
					return anyConn(r, (*conn).isClosing)
				})
			}
			if secured {
				p.Conn = p.Conn.(*tls.Conn).NetConn()
			}
			p.Conn.(*net.TCPConn).SetLinger(0)
			p.Close() // by a reset
			eventually(t, name+": Closed", func() bool { return h.closed.Load() == 1 && r.Stats().Open == 0 })
		}
	})
}

// anyConn reports whether f is true for a connection of r.
func anyConn(r *Reactor, f func(c *conn) bool) (found bool) {
	r.back.each(func(l *loop) {
		got := make(chan bool, 1)
		l.post(mail{kind: mailRun, run: func() {
			is := false
			for c := range l.conns {
				is = is || f(c)
			}
			got <- is
		}})
		select {
		case is := <-got:
			found = found || is
		case <-time.After(patience):
		}
	})
	return found
}

// TestGateOfADeadOutput: a connection under TLS is in the loop's gated list when its socket breaks. It stays open,
// because its next batch will run soon. The loop does not look at it again and again meanwhile.
func TestGateOfADeadOutput(t *testing.T) {
	gate := protocol.NewGate()
	gate.Shut(1)
	l := newLoop(&Reactor{options: Options{Gate: gate}}, 0)
	if _, err := newEpollHostFor(t, l); err != nil {
		t.Fatal(err)
	}
	l.armed.Store(true)
	dead := &conn{life: lifeOrphaned, out: output{gated: true}}
	held := &conn{out: output{gated: true, bytes: 1, held: 1, marks: []mark{{turn: 1, bytes: 1}}}}
	dead.setFlow(flowMore)
	l.gated = []*conn{dead, held}
	l.passGate()
	if l.mayPass() {
		t.Error("the loop is to look at its gated connections again, and the gate has not opened")
	}
	if len(l.gated) != 1 || l.gated[0] != held || dead.out.gated {
		t.Errorf("%d connections wait for the gate", len(l.gated))
	}
}

// hear adds n bytes to an output, posted with the mark turn.
func (o *output) hear(gate *protocol.Gate, turn uint64, n int) {
	before := o.bytes
	o.bytes += n
	o.hold(gate, wait{turn: turn}, before)
}

// TestGateHoldsRepliesAfterAUnit: a reply that comes after a unit's push waits for its own turn, too. A push in front
// of a reply keeps the reply back with it.
func TestGateHoldsRepliesAfterAUnit(t *testing.T) {
	const unit, ended, later = 5, 9, 12
	t.Run("behind", func(t *testing.T) {
		for _, most := range []int{1, markMost + 10} { // with many marks, the last ones are one
			gate, o := protocol.NewGate(), &output{}
			gate.UnitOpened(unit)
			for range most {
				o.hear(gate, protocol.OfUnit(unit), 1)
			}
			gate.Shut(ended)
			gate.UnitEnded(ended)
			for turn := range uint64(most) {
				o.hear(gate, later+turn, 1)
			}
			if o.pass(gate, &bufferPool{}); o.held != 2*most {
				t.Errorf("%d of %d bytes are held when the unit has ended", o.held, 2*most)
			}
			gate.Open(later) // the unit is durable
			if o.pass(gate, &bufferPool{}); o.held != most {
				t.Errorf("%d bytes are held when the unit is durable, and %d are of later turns", o.held, most)
			}
			gate.Open(math.MaxUint64)
			if o.pass(gate, &bufferPool{}); o.held != 0 || o.marks != nil {
				t.Errorf("%d bytes are held when all is durable", o.held)
			}
		}
	})
	t.Run("in front", func(t *testing.T) {
		for _, durable := range []bool{true, false} { // whether the reply may leave by itself
			gate, o := protocol.NewGate(), &output{}
			gate.UnitOpened(unit)
			if !durable {
				gate.Shut(later)
			}
			o.hear(gate, later, 100)
			o.bytes += 10
			o.holdAhead(gate, wait{turn: protocol.OfUnit(unit)}, 10, 110)
			gate.Open(math.MaxUint64)
			if o.pass(gate, &bufferPool{}); o.held != 110 {
				t.Errorf("%d of 110 bytes are held while the unit is open", o.held)
			}
			gate.UnitEnded(later + 3)
			if o.pass(gate, &bufferPool{}); o.held != 0 {
				t.Errorf("%d bytes are held when the unit has ended", o.held)
			}
		}
	})
}

// TestGateOpensBeforeSleep: if the gate opens while a loop of epoll is about to sleep, the loop does not sleep.
func TestGateOpensBeforeSleep(t *testing.T) {
	l := newLoop(&Reactor{}, 0)
	host, err := newEpollHostFor(t, l)
	if err != nil {
		t.Fatal(err)
	}
	l.armed.Store(true)
	l.gated = []*conn{{}}
	for range 5000 {
		l.enlisted.Store(true)
		go func() { // as gatekeeper.opened does
			l.enlisted.Store(false)
			l.notify()
		}()
		for l.enlisted.Load() {
			host.wait()
		}
	}
}

// newEpollHostFor makes the host of l, which is closed after the test.
func newEpollHostFor(t *testing.T, l *loop) (*epollHost, error) {
	l.kit = newKit(1)
	host, err := newEpollHost(l)
	if err != nil {
		return nil, err
	}
	l.host = host
	t.Cleanup(host.close)
	return host.(*epollHost), nil
}

// TestGateOpensDespiteLaterUnits: a unit's pushes are sent once the unit is durable, although another unit has ended by
// then each time.
func TestGateOpensDespiteLaterUnits(t *testing.T) {
	gate, o := protocol.NewGate(), &output{}
	for turn := uint64(1); turn < 100; turn++ {
		gate.UnitOpened(turn)
		o.hear(gate, protocol.OfUnit(turn), 1)
		gate.Shut(turn)
		gate.UnitEnded(turn)
		o.pass(gate, &bufferPool{}) // the loop is woken
		if gate.Open(turn); turn > 1 {
			gate.Shut(turn)
		}
		if o.pass(gate, &bufferPool{}); o.held > 1 {
			t.Fatalf("in turn %d the units of %d turns are held", turn, o.held)
		}
	}
}

// TestStopWithAHeldUnit: pushes of a unit that never ends do not keep a reactor from stopping. They are not sent, but
// the output before them is.
func TestStopWithAHeldUnit(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		gate, h := protocol.NewGate(), newTestHandler()
		r, addr := serveHandler(t, h, Options{Backend: backend, Gate: gate})
		c := dial(t, addr)
		c.send(command("NAME", "a"))
		c.expect("+OK\r\n")
		gate.UnitOpened(5)
		h.named("a").c.Post(4, []byte("before\n"))
		h.named("a").c.Post(protocol.OfUnit(5), []byte("held\n"))
		c.expect("before\n")
		gate.Halt()
		began := time.Now()
		r.Stop(time.Minute)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v to stop", took)
		}
		c.expectEnd()
	})
}
