// Package parking lets the goroutine of an event loop wait for its epoll instance in the Go runtime's poller.
//
// A goroutine that waits in epoll_wait keeps its processor (P) of the scheduler for some 10 ms. Meanwhile the runtime's
// monitor thread wakes some sixty times. For a loop whose requests are more than 10 ms apart that costs more CPU than
// the requests. A goroutine that parks gives its P away at once, and the monitor sleeps. Parking costs three system
// calls more each time, so it pays only where events are rare.
//
// Owner: the loop's goroutine.
// Never: reads or handles an event.
package parking

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Spot is where one loop parks. It is registered with the runtime's poller from the first Park to Leave. Each event
// of a registered instance wakes a thread of the runtime, also while the loop does not park.
type Spot struct {
	epoll   int
	file    *os.File // a duplicate of epoll that the runtime's poller watches; nil: not registered
	wait    syscall.RawConn
	isReady func(fd uintptr) bool
	poll    unix.PollFd // for isReady
}

// New returns the spot of a loop that waits in epoll. It stays unregistered.
func New(epoll int) *Spot {
	s := &Spot{epoll: epoll}
	s.isReady = func(fd uintptr) bool { return s.hasEvents(int32(fd)) }
	return s
}

// Park returns when epoll has events, which it leaves there. It also returns if the loop cannot park, for example for
// want of descriptors. The caller then waits in another way.
func (s *Spot) Park() {
	if s.file == nil && !s.register() {
		return
	}
	if s.wait.Read(s.isReady) != nil {
		s.Leave()
	}
}

// Leave ends the registration. A loop that parks no more calls it.
func (s *Spot) Leave() {
	if s.file != nil {
		s.file.Close()
		s.file, s.wait = nil, nil
	}
}

func (s *Spot) register() bool {
	fd, err := unix.FcntlInt(uintptr(s.epoll), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	if unix.SetNonblock(fd, true) != nil { // os.NewFile registers only such descriptors
		unix.Close(fd)
		return false
	}
	s.file = os.NewFile(uintptr(fd), "epoll")
	if s.wait, err = s.file.SyscallConn(); err != nil {
		s.Leave()
		return false
	}
	return true
}

// hasEvents reports whether the epoll instance has an event. RawRead calls it before each wait, and after it. The
// runtime's registration is edge-triggered, and an event between the two calls ends the wait.
func (s *Spot) hasEvents(fd int32) bool {
	s.poll = unix.PollFd{Fd: fd, Events: unix.POLLIN}
	var now unix.Timespec
	// A raw call: after another one the runtime would wake its monitor.
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.poll)), 1,
		uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	runtime.KeepAlive(s)
	return errno == 0 && n > 0
}
