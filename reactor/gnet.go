package reactor

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// The gnet backend: gnet's loops read and close, we accept and write.
//
// What of gnet is not used, and why: its listeners end the whole engine when accept fails for want of descriptors, and unlink whatever lies
// at a Unix socket's path, so sockets are accepted here and enrolled. Its outbound buffer has no bound and copies, so replies
// are written to the descriptor, and the watcher says when a full socket takes bytes again. Its inbound ring would
// hold what is half read: OnTraffic always takes everything, and the connection's chunk holds it.
//
// gnet has no hook at the end of an iteration. EventLoop.Execute is one: its task runs after the events of an epoll_wait. Armed by the first
// connection that needs it (loop.armed) it costs an eventfd write and an epoll_wait an iteration. That pays when an iteration has
// many connections ready, and costs 8 % of an unpipelined request when it has three. So every 64th event is a probe: it arms the
// task, and the number of events gathered until it runs decides whether the following events gather too or run turn at once.
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
	task    gnet.Runnable
	gather  bool // turns wait for the other events of their iteration

	events   uint // to find every 64th
	gathered int  // events since run, or since the last turn that did not wait
}

// gatherFrom is how many connections an iteration must have for gathering to pay.
const gatherFrom = 8

func (b *gnetBackend) start(r *Reactor) error {
	b.reactor = r
	n := r.threads()
	client, err := gnet.NewClient(b, gnet.WithOptions(gnet.Options{
		NumEventLoop:  n,
		ReadBufferCap: readBuffer,
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

// readBuffer is what one read may bring.
const readBuffer = 64 << 10

// meetLoops learns gnet's loops: each is known only by a connection on it, so each gets one that never says anything, for as long as it
// takes all of them to have one.
func (b *gnetBackend) meetLoops() error {
	var met []gnet.Conn
	var ends []int
	defer func() {
		for i, c := range met {
			c.Close()
			unix.Close(ends[i])
		}
	}()
	for _, l := range b.reactor.loops {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socketpair: %w", err)
		}
		nc, err := fileConn(pair[0])
		if err != nil {
			unix.Close(pair[1])
			return err
		}
		gc, err := b.client.EnrollContext(nc, l) // on the loop with the fewest connections
		if err != nil {
			unix.Close(pair[1])
			return err
		}
		met, ends = append(met, gc), append(ends, pair[1])
		host := &gnetHost{loop: l, el: gc.EventLoop(), reactor: b.reactor}
		host.task = gnet.RunnableFunc(host.run)
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
		return nil, gnet.None // one of meetLoops
	}
	forgetZone(gc.LocalAddr())
	forgetZone(gc.RemoteAddr())
	c.fd = gc.Fd()
	c.host = gc
	c.open()
	c.loop.host.(*gnetHost).after()
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
	c, ok := gc.Context().(*conn)
	if !ok {
		return gnet.None
	}
	data, _ := gc.Next(-1)
	c.OnTraffic(data)
	if invariant.Enabled {
		poison(data[:len(data):len(data)])
	}
	c.loop.host.(*gnetHost).after()
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
	l := h.loop
	if !l.pendingTurn() {
		l.nowMs = 0
		return
	}
	h.gathered++
	l.relieve()
	if !h.gather && !l.armed.Load() {
		if h.events++; h.events%64 != 0 || len(l.conns) == 1 {
			l.turn()
			h.gathered = 0
			if !l.pendingTurn() {
				return
			}
		}
	}
	l.notify()
}

// run is the task that gnet executes once per iteration that needs it.
func (h *gnetHost) run(context.Context) error {
	l := h.loop
	l.armed.Store(false)
	h.gather, h.gathered = h.gathered >= gatherFrom, 0
	l.turn()
	if l.pendingTurn() {
		l.notify()
	}
	return nil
}

func (h *gnetHost) wake() { h.el.Execute(context.Background(), h.task) }

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
