package reactor

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The epoll backend: a loop without a library. edges.go reads its sockets.
//
// reactor.P1. While the loop is awake armed is true, so posts cost no wake-up. Before it sleeps it clears armed and
// then looks at the mail once more.
type epollBackend struct {
	reactor *Reactor
	hosts   []*epollHost
	running sync.WaitGroup
}

type epollHost struct {
	sockets
	epoll  int
	bell   int // eventfd
	door   door
	events []unix.EpollEvent
	raw    bool // see wait
	ending atomic.Bool
}

func (b *epollBackend) start(r *Reactor) error {
	b.reactor = r
	r.makeLoops(r.threads())
	if need := len(r.loops) + 1; runtime.GOMAXPROCS(0) < need {
		runtime.GOMAXPROCS(need) // see wait
	}
	for _, l := range r.loops {
		h, err := newEpollHost(l)
		if err != nil {
			return err
		}
		l.host = h
		b.hosts = append(b.hosts, h)
	}
	for _, h := range b.hosts {
		b.running.Add(1)
		go func() {
			defer b.running.Done()
			h.run()
		}()
	}
	return nil
}

func newEpollHost(l *loop) (*epollHost, error) {
	h := &epollHost{events: make([]unix.EpollEvent, 256)}
	h.sockets = newSockets(l, h)
	h.raw = mayWaitRaw()
	var err error
	if h.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if h.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	runtime.AddCleanup(h, func(fd int) { unix.Close(fd) }, h.bell) // when it can no longer be rung
	// Edge-triggered, so that it never has to be read.
	if err = h.watch(unix.EPOLL_CTL_ADD, h.bell, unix.EPOLLIN|unix.EPOLLET); err != nil {
		return nil, err
	}
	return h, nil
}

// Add enters a socket edge-triggered.
func (h *epollHost) Add(fd int) error {
	return h.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET)
}

// AddWrites has room to write reported, too.
func (h *epollHost) AddWrites(fd int) error {
	return h.watch(unix.EPOLL_CTL_MOD, fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET)
}

func (h *epollHost) watch(op, fd int, events uint32) error {
	if err := unix.EpollCtl(h.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// accept has the first loop accept, which gives connections to all of them.
func (b *epollBackend) accept(a *acceptor) error {
	h := b.hosts[0]
	h.door.leads.Store(a)
	return h.watch(unix.EPOLL_CTL_ADD, a.poll, unix.EPOLLIN)
}

func (b *epollBackend) adopt(c *conn) { admitted(c) }

func (b *epollBackend) each(f func(*loop)) { b.reactor.eachShared(f) }

func (b *epollBackend) stop() {
	for _, h := range b.hosts {
		h.ending.Store(true)
		ringBell(h.bell)
	}
	b.running.Wait()
	for _, h := range b.hosts {
		h.loop.end()
		unix.Close(h.epoll)
	}
}

// run is the loop. It is not locked to its thread. That gained nothing, and made each contended turn and each
// preemption a hand-over between threads.
func (h *epollHost) run() {
	l := h.loop
	l.armed.Store(true) // reactor.P1
	for !h.ending.Load() {
		n := h.wait()
		for i := range n {
			if ev := &h.events[i]; !h.door.knocked(int(ev.Fd)) {
				h.event(int(ev.Fd), ev.Events)
			}
			l.relieve()
		}
		l.turn()
		if n == len(h.events) && n < 4096 {
			h.events = make([]unix.EpollEvent, 2*n)
		}
	}
}

// wait returns how many events there are. It sleeps only if the loop has nothing else to do.
//
// The sleep is first a raw epoll_wait, which keeps the scheduler's processor (P). With syscall.Syscall the runtime's
// monitor would look every 20 µs whether it can take the P away: 8 % of the CPU of unpipelined requests. The raw wait
// is sound:
//
//   - The collector, or the monitor after 10 ms, signals the thread until the wait ends with EINTR. The second wait
//     gives the P away. An idle loop therefore holds its P for 10 ms at most.
//   - start makes one P more than loops, so other goroutines do not wait for those 10 ms.
//   - With GODEBUG=asyncpreemptoff=1 there are no signals, and the raw wait is not used.
func (h *epollHost) wait() int {
	l := h.loop
	if l.pendingTurn() {
		n, _ := epollWait(h.epoll, h.events, 0)
		return max(n, 0)
	}
	l.armed.Store(false) // reactor.P1
	n := 0
	if len(l.away) > 0 && !l.rest() { // reactor.Y3
		n, _ = epollWait(h.epoll, h.events, 0)
	} else if !l.waiting.Load() {
		if h.raw {
			n, _ = epollWait(h.epoll, h.events, -1)
		}
		if n <= 0 {
			n, _ = unix.EpollWait(h.epoll, h.events, -1)
		}
	}
	l.armed.Store(true)
	return max(n, 0)
}

// mayWaitRaw reports whether signals end a raw wait.
func mayWaitRaw() bool { return !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1") }

func (h *epollHost) wake() {
	ringBell(h.bell)
	runtime.KeepAlive(h)
}
