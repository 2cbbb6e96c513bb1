package reactor

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// The gnet backend: gnet's loops read and close, we accept and write.
//
// What of gnet is not used, and why: its listeners end the whole engine when accept fails for want of descriptors, and unlink whatever lies
// at a Unix socket's path, so sockets are accepted here and enrolled. Its outbound buffer has no bound and copies, so replies
// are written to the descriptor, and the watcher says when a full socket takes bytes again. Its inbound ring would
// hold what is half read: OnTraffic always takes everything, and the connection's chunk holds it.
//
// Its edge-triggered mode lets one sender hold up the others; edges.go has what is done instead.
//
// gnet has no hook at the end of an iteration, and EventLoop.Execute, which could be one, leaves two objects a call to the collector. So each
// loop has a socket of its own, the bell: the first connection that needs a turn (loop.armed) sends it a byte, which the next epoll_wait brings
// after the events of this one. That costs a send, a receive and an epoll_wait an iteration. It pays when an iteration has
// many connections ready, and costs 8 % of an unpipelined request when it has three. So every probeEvery-th event is a probe: it rings
// the bell, and the number of events gathered until it is heard decides whether the following events gather too or run turn at once.
type gnetBackend struct {
	gnet.BuiltinEventEngine
	reactor *Reactor
	client  *gnet.Client
}

// A gnetHost is one gnet loop.
type gnetHost struct {
	loop    *loop
	el      gnet.EventLoop
	reactor *Reactor
	bell    int  // what is sent here arrives on the loop, as traffic of the host
	poll    int  // the loop's epoll instance, -1 if it is not known
	gather  bool // turns wait for the other events of their iteration

	events   uint // to find the probes
	gathered int  // events since run, or since the last turn that did not wait

	yielded int64 // when yield last did so, Unix ms

	buffer []byte // for what is read beside gnet
}

// gatherFrom is how many connections an iteration must have for gathering to pay.
const gatherFrom = 8

// probeEvery is how many events lie between probes: each costs what is said above, and what it has found holds for a millisecond or two of full
// load.
const probeEvery = 256

func (b *gnetBackend) start(r *Reactor) error {
	b.reactor = r
	n := r.threads()
	client, err := gnet.NewClient(b, gnet.WithOptions(gnet.Options{
		NumEventLoop:  n,
		ReadBufferCap: firstRead,
		Logger:        gnetLog{r.options.Logf},
	}))
	if err != nil {
		return err
	}
	if err := client.Start(); err != nil {
		return err
	}
	b.client = client
	r.makeLoops(n)
	return b.meetLoops()
}

// meetLoops learns gnet's loops, each by the connection that it gets for a bell.
func (b *gnetBackend) meetLoops() error {
	for _, l := range b.reactor.loops {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socketpair: %w", err)
		}
		host := &gnetHost{loop: l, reactor: b.reactor, bell: pair[1], buffer: make([]byte, readBuffer)}
		runtime.AddCleanup(host, func(fd int) { unix.Close(fd) }, pair[1]) // when nobody can ring it any more
		nc, err := fileConn(pair[0])
		if err != nil {
			return err
		}
		gc, err := b.client.EnrollContext(nc, host) // on the loop with the fewest connections
		if err != nil {
			return err
		}
		host.el, host.poll = gc.EventLoop(), pollOf(gc.Fd())
		l.host = host
	}
	return nil
}

// fileConn makes a net.Conn of a socket, which it owns.
func fileConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	return net.FileConn(f)
}

func (b *gnetBackend) adopt(fd int, c *conn) error {
	nc, err := fileConn(fd)
	if err != nil {
		return err
	}
	if nc.RemoteAddr() == nil { // reset while it waited; gnet would stumble over it
		nc.Close()
		b.reactor.lost(nil)
		return nil
	}
	host := c.loop.host.(*gnetHost)
	enrolled, err := host.el.Enroll(gnet.NewContext(context.Background(), c), nc)
	if err != nil {
		nc.Close()
		return err
	}
	go func() {
		if result := <-enrolled; result.Err != nil || c.host == nil {
			b.reactor.lost(result.Err)
		}
	}()
	return nil
}

func (b *gnetBackend) stop() {
	for _, l := range b.reactor.loops {
		l.end()
	}
	b.client.Stop()
}

// OnOpen comes for a socket that gnet has taken over.
func (b *gnetBackend) OnOpen(gc gnet.Conn) ([]byte, gnet.Action) {
	c, ok := gc.Context().(*conn)
	if !ok {
		return nil, gnet.None // a bell
	}
	forgetZone(gc.LocalAddr())
	forgetZone(gc.RemoteAddr())
	c.fd = gc.Fd()
	c.host = gc
	c.open()
	h := c.loop.host.(*gnetHost)
	h.suit(c, true)
	h.after()
	return nil, gnet.None
}

// forgetZone keeps gnet from putting a zone's name, which is net's, into its pool of buffers when the connection closes.
func forgetZone(a net.Addr) {
	if tcp, ok := a.(*net.TCPAddr); ok {
		tcp.Zone = ""
	}
}

// OnTraffic comes when bytes have arrived.
func (b *gnetBackend) OnTraffic(gc gnet.Conn) gnet.Action {
	data, _ := gc.Next(-1)
	c, ok := gc.Context().(*conn)
	if !ok {
		gc.Context().(*gnetHost).run()
		return gnet.None
	}
	c.traffic(data)
	h := c.loop.host.(*gnetHost)
	h.heed(c, len(data) == firstRead && c.readOn(h.buffer))
	h.after()
	return gnet.None
}

// OnClose comes before gnet closes the descriptor, whoever wanted it.
func (b *gnetBackend) OnClose(gc gnet.Conn, err error) gnet.Action {
	if c, ok := gc.Context().(*conn); ok && !c.closed {
		c.hangup()
		c.loop.host.(*gnetHost).after()
	}
	return gnet.None
}

// after is the end of an event: turn comes after the other events of this iteration.
func (h *gnetHost) after() {
	l, now := h.loop, h.loop.nowMs
	if !l.pendingTurn() {
		l.nowMs = 0
		h.yield(now)
		return
	}
	h.gathered++
	l.relieve()
	if !h.gather && !l.armed.Load() {
		if h.events++; h.events%probeEvery != 0 || len(l.conns) == 1 {
			l.turn()
			h.gathered = 0
			if !l.pendingTurn() {
				h.yield(now)
				return
			}
		}
	}
	l.notify()
}

// run is the bell being heard, once per iteration that rang it.
func (h *gnetHost) run() {
	l, now := h.loop, h.loop.nowMs
	l.armed.Store(false)
	h.gather, h.gathered = h.gathered >= gatherFrom, 0
	l.turn()
	if l.pendingTurn() {
		l.notify()
	}
	h.yield(now)
}

// yield lets other goroutines run, once a millisecond. gnet does so before it waits; but while there is always something to read it does not
// wait, and where each loop has one thread the acceptor, the watcher and reclaimers had their share only when the runtime stopped the loop:
// every 10 ms.
func (h *gnetHost) yield(now int64) {
	if now != 0 && now != h.yielded {
		h.yielded = now
		runtime.Gosched()
	}
}

// wake rings the bell. There is never more than one byte on the way (T2), so it always finds room; but the kernel may have no memory for it.
func (h *gnetHost) wake() {
	if _, errno := send(h.bell, bellSound[:]); errno != 0 {
		h.el.Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { h.run(); return nil }))
	}
}

var bellSound [1]byte

func (h *gnetHost) watchWrite(c *conn) {
	if err := h.reactor.watcher.add(c); err != nil {
		c.close()
	}
}

func (h *gnetHost) drop(c *conn) {
	h.reactor.watcher.remove(c)
	gc := c.host.(gnet.Conn)
	h.el.Close(gc)
}

// gnetLog tells the operator what gnet finds wrong and keeps the rest to itself.
type gnetLog struct {
	logf func(Level, string, ...any)
}

func (gnetLog) Debugf(string, ...any)               {}
func (gnetLog) Infof(string, ...any)                {}
func (g gnetLog) Warnf(format string, args ...any)  { g.logf(Verbose, format, args...) }
func (g gnetLog) Errorf(format string, args ...any) { g.logf(Verbose, format, args...) }
func (g gnetLog) Fatalf(format string, args ...any) { g.logf(Warning, format, args...) }
