package reactor

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// An ownBackend is a backend whose loops make their own system calls to wait: epoll or io_uring.
//
// reactor.P1. While the loop is awake armed is true, so posts cost no wake-up. Before it sleeps it clears armed and
// then looks once more at the mail and at the gate.
type ownBackend struct {
	reactor *Reactor
	make    func(l *loop) (ownHost, error)
	hosts   []ownHost
	running sync.WaitGroup
}

// An ownHost is one loop of an ownBackend.
type ownHost interface {
	host
	// lead makes the loop accept for all loops.
	lead(a *acceptor) error
	// run runs the loop, until end is called.
	run()
	// end makes run return. Any goroutine.
	end()
	// close frees the loop's resources, after run.
	close()
}

// A doorbell wakes a loop of an ownBackend. Every such loop has one.
type doorbell struct {
	bell   int // eventfd
	door   door
	raw    bool // see epollHost.wait
	ending atomic.Bool
}

func newDoorbell() (*doorbell, error) {
	b := &doorbell{raw: mayWaitRaw()}
	var err error
	if b.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	runtime.AddCleanup(b, func(fd int) { unix.Close(fd) }, b.bell) // when it can no longer be rung
	return b, nil
}

func (b *doorbell) wake() {
	ringBell(b.bell)
	runtime.KeepAlive(b)
}

func (b *doorbell) end() {
	b.ending.Store(true)
	b.wake()
}

func (b *ownBackend) start(r *Reactor) error {
	b.reactor = r
	r.makeLoops(r.threads())
	if need := int(r.active.Load()) + 1; runtime.GOMAXPROCS(0) < need {
		runtime.GOMAXPROCS(need) // see epollHost.wait
	}
	for _, l := range r.loops {
		h, err := b.make(l)
		if err != nil {
			for _, h := range b.hosts {
				h.close()
			}
			return err
		}
		l.host = h
		b.hosts = append(b.hosts, h)
	}
	for _, h := range b.hosts {
		b.running.Go(h.run)
	}
	return nil
}

// accept makes the first loop accept. It gives connections to all loops.
func (b *ownBackend) accept(a *acceptor) error { return b.hosts[0].lead(a) }

func (b *ownBackend) adopt(c *conn) { admitted(c) }

func (b *ownBackend) each(f func(*loop)) { b.reactor.eachShared(f) }

func (b *ownBackend) stop() {
	for _, h := range b.hosts {
		h.end()
	}
	b.running.Wait()
	for _, h := range b.hosts {
		h.close()
	}
}
