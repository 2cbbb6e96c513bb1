package reactor

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
)

// The netpoll backend: netpoll reads on its pollers and runs a goroutine for a connection that has something to say.
//
// Each connection is a loop of its own: whoever has work for it (netpoll's goroutine with bytes, one started for its mail) holds
// the loop's lock while it works. Replies are written to the descriptor at the end of each such visit; nothing is gathered across connections.
// It exists for comparison: a goroutine per readiness is what most Go servers do.
type netpollBackend struct {
	reactor *Reactor
	mu      sync.Mutex
	loops   map[*loop]struct{}
	kits    sync.Pool // of *kit

	bell      int // eventfd: look whether the acceptor has closed
	accepting sync.WaitGroup

	longReplies chunkStore // of all kits: the garbage collector may drop one, and unmaps nothing
}

type netpollHost struct {
	back *netpollBackend
	loop *loop
	mu   sync.Mutex // held by whoever works for the connection
	nc   netpoll.Connection
}

func (b *netpollBackend) start(r *Reactor) error {
	b.reactor, b.bell = r, -1
	b.loops = map[*loop]struct{}{}
	netpollLogf.Store(&r.options.Logf)
	logsNetpoll.Do(func() { netpoll.Configure(netpoll.Config{LoggerOutput: netpollLog{}}) })
	netpoll.Configure(netpoll.Config{PollerNum: r.threads()})
	b.kits.New = func() any {
		k := newKit()
		k.longReplies = &b.longReplies
		return k
	}
	return nil
}

// each calls f with the loop of every connection.
func (b *netpollBackend) each(f func(*loop)) {
	b.mu.Lock()
	loops := make([]*loop, 0, len(b.loops))
	for l := range b.loops {
		loops = append(loops, l)
	}
	b.mu.Unlock()
	for _, l := range loops {
		f(l)
	}
}

// accept accepts on a goroutine: netpoll's pollers only take connections that are its own.
func (b *netpollBackend) accept(a *acceptor) (err error) {
	if b.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	wait := []unix.PollFd{{Fd: int32(a.poll), Events: unix.POLLIN}, {Fd: int32(b.bell), Events: unix.POLLIN}}
	b.accepting.Go(func() {
		for open := true; open; open = a.accept() {
			unix.Poll(wait, -1)
		}
		unix.Close(b.bell)
	})
	return nil
}

func (b *netpollBackend) adopt(c *conn) {
	l := newLoop(b.reactor, c.fd)
	h := &netpollHost{back: b, loop: l}
	l.host, c.loop, c.host = h, l, h
	nc, err := netpoll.NewFDConnection(c.fd)
	if err != nil {
		unix.Close(c.fd)
		b.reactor.lost(err)
		return
	}
	h.nc = nc
	b.mu.Lock()
	b.loops[l] = struct{}{}
	b.mu.Unlock()
	nc.AddCloseCallback(func(netpoll.Connection) error {
		h.visit(c.hangup)
		return nil
	})
	h.visit(c.open)
	nc.SetOnRequest(func(context.Context, netpoll.Connection) error {
		h.visit(func() { h.traffic(c) })
		return nil
	})
	if !nc.IsActive() { // gone before it could call back
		h.visit(func() {
			h.traffic(c)
			c.hangup()
		})
	}
}

// traffic gives the connection what netpoll has read.
func (h *netpollHost) traffic(c *conn) {
	r := h.nc.Reader()
	for n := r.Len(); n > 0 && !c.closed; n = r.Len() {
		data, err := r.Next(min(n, readBuffer))
		if err != nil {
			break
		}
		c.OnTraffic(data)
		r.Release()
	}
	if c.closed {
		r.Skip(r.Len())
		r.Release()
	}
}

// visit works for the connection.
func (h *netpollHost) visit(work func()) {
	defer h.escalate()
	l := h.loop
	for {
		h.mu.Lock()
		l.kit = h.back.kits.Get().(*kit)
		l.tally.pooled = int64(l.replies.bytes + l.chunks.bytes)
		work()
		for l.pendingTurn() {
			l.turn()
		}
		l.tell()
		h.back.kits.Put(l.kit)
		l.kit, l.nowMs = nil, 0
		h.mu.Unlock()
		if !l.waiting.Load() { // a post that came too late for turn has armed a visit of its own
			return
		}
		work = func() {}
	}
}

// escalate has a panic end the process. netpoll's pool would swallow it, with the turn held for ever: so it goes on in a goroutine
// that is nobody's, while this one stands where it was for the trace to show.
func (h *netpollHost) escalate() {
	if what := recover(); what != nil {
		go panic(what)
		select {}
	}
}

func (h *netpollHost) wake() {
	go h.visit(func() { h.loop.armed.Store(false) })
}

func (h *netpollHost) watchWrite(c *conn) {
	if err := h.back.reactor.watcher.add(c); err != nil {
		c.close()
	}
}

func (h *netpollHost) drop(c *conn) {
	b := h.back
	b.reactor.watcher.remove(c)
	b.mu.Lock()
	delete(b.loops, h.loop)
	b.mu.Unlock()
	go func() { // netpoll's Close runs the close callback, which visits
		h.nc.Close()
		h.loop.end()
	}()
}

func (b *netpollBackend) stop() {
	ringBell(b.bell)
	b.accepting.Wait()
}

// netpollLog keeps netpoll's words about peers that went away out of the operator's sight.
type netpollLog struct{}

// netpoll has one logger and reads it without a lock, so it is set once, and leads to the reactor that started last.
var (
	logsNetpoll sync.Once
	netpollLogf atomic.Pointer[func(Level, string, ...any)]
)

func (netpollLog) Write(line []byte) (int, error) {
	(*netpollLogf.Load())(Debug, "%s", bytes.TrimSpace(line))
	return len(line), nil
}
