// Package gnet runs one event loop on gnet's poller, and holds everything that is particular to gnet. DESIGN.md has the
// reasons.
//
// Owner: the goroutine in Run. Others may call Ring, Stop, Watch and LogTo.
// Never: knows what a connection is, or touches a socket's bytes.
// Start at loop.go; gather.go decides when an iteration's replies are sent.
package gnet

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"
)

// A Loop waits for events and passes them on. DESIGN.md numbers the rules.
type Loop struct {
	poller  *netpoll.Poller
	bell    int // an eventfd, edge-triggered (gnet.G1)
	ending  atomic.Bool
	yielded int64 // when Yield last yielded, Unix ms
}

// New makes a loop. It reports no events before Run.
func New() (*Loop, error) {
	p, err := netpoll.OpenPoller()
	if err != nil {
		return nil, err
	}
	l := &Loop{poller: p}
	if l.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		p.Close()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	runtime.AddCleanup(l, func(fd int) { unix.Close(fd) }, l.bell) // when it can no longer be rung
	if err := p.AddRead(&netpoll.PollAttachment{FD: l.bell}, true); err != nil {
		p.Close()
		return nil, err
	}
	return l, nil
}

// Run calls ready for each descriptor that has events, with epoll's bits. It calls heard after a ring. It returns after
// Stop.
func (l *Loop) Run(ready func(fd int, events uint32), heard func()) {
	defer l.poller.Close()
	err := l.poller.Polling(func(fd int, events netpoll.IOEvent, _ netpoll.IOFlags) error {
		if fd != l.bell {
			ready(fd, events)
			return nil
		}
		if l.ending.Load() {
			return gneterrors.ErrEngineShutdown
		}
		heard()
		return nil
	})
	if !errors.Is(err, gneterrors.ErrEngineShutdown) {
		panic(fmt.Errorf("gnet's poller: %w", err)) // epoll_wait fails only if its descriptor is not the one made here
	}
}

// Stop makes Run return. A later ring has no effect.
func (l *Loop) Stop() {
	l.ending.Store(true)
	l.Ring()
}

// Add registers a socket edge-triggered, for bytes and for the peer's end.
func (l *Loop) Add(fd int) error {
	return l.poller.AddRead(&netpoll.PollAttachment{FD: fd}, true)
}

// AddWrites makes the loop also report when a full socket takes bytes again.
func (l *Loop) AddWrites(fd int) error {
	return l.poller.ModReadWrite(&netpoll.PollAttachment{FD: fd}, true)
}

// Remove ends the reports of a socket, except those of the present iteration.
func (l *Loop) Remove(fd int) { _ = l.poller.Delete(fd) }

// Watch registers a descriptor level-triggered: it has an event in each iteration in which it is readable.
func (l *Loop) Watch(fd int) error {
	return l.poller.AddRead(&netpoll.PollAttachment{FD: fd}, false)
}

// Ring makes Run call heard soon. Several rings before that call cause only one call.
func (l *Loop) Ring() {
	one := [8]byte{1}
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(l.bell), uintptr(unsafe.Pointer(&one)), 8)
	runtime.KeepAlive(l)
}

// Yield lets other goroutines run, once a millisecond (gnet.G4). nowMs is the time of this iteration in Unix ms, or 0
// if it was not read.
func (l *Loop) Yield(nowMs int64) {
	if nowMs != 0 && nowMs != l.yielded {
		l.yielded = nowMs
		runtime.Gosched()
	}
}

// LogTo sends gnet's log lines to warn, for the whole process.
func LogTo(warn func(format string, args ...any)) {
	logging.SetDefaultLoggerAndFlusher(logger(warn), nil)
}

// A logger passes on gnet's warnings and errors, and drops its other lines.
type logger func(format string, args ...any)

func (logger) Debugf(string, ...any)               {}
func (logger) Infof(string, ...any)                {}
func (l logger) Warnf(format string, args ...any)  { l(format, args...) }
func (l logger) Errorf(format string, args ...any) { l(format, args...) }
func (l logger) Fatalf(format string, args ...any) { l(format, args...) }
