package reactor

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spindle/reactor/parking"
)

// The epoll backend has loops that use no library. edges.go reads their sockets.
type epollHost struct {
	sockets
	*doorbell
	epoll  int
	spot   *parking.Spot
	events []unix.EpollEvent
}

func newEpollHost(l *loop) (ownHost, error) {
	b, err := newDoorbell()
	if err != nil {
		return nil, err
	}
	h := &epollHost{doorbell: b, events: make([]unix.EpollEvent, 256)}
	h.sockets = newSockets(l, h)
	if h.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	h.spot = parking.New(h.epoll)
	// The bell is edge-triggered, so that it never has to be read.
	if err = h.watch(unix.EPOLL_CTL_ADD, h.bell, unix.EPOLLIN|unix.EPOLLET); err != nil {
		unix.Close(h.epoll)
		return nil, err
	}
	return h, nil
}

// Add registers a socket edge-triggered.
func (h *epollHost) Add(fd int) error {
	return h.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLET)
}

// AddWrites also requests events for room to write.
func (h *epollHost) AddWrites(fd int) error {
	return h.watch(unix.EPOLL_CTL_MOD, fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET)
}

// Remove ends the reports of a socket.
func (h *epollHost) Remove(fd int) { _ = h.watch(unix.EPOLL_CTL_DEL, fd, 0) }

func (h *epollHost) watch(op, fd int, events uint32) error {
	if err := unix.EpollCtl(h.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

func (h *epollHost) lead(a *acceptor) error {
	h.door.leads.Store(a)
	return h.watch(unix.EPOLL_CTL_ADD, a.poll, unix.EPOLLIN)
}

func (h *epollHost) close() {
	h.loop.end()
	h.spot.Leave()
	unix.Close(h.epoll)
}

// run is the loop. It is not locked to its thread, because that made each contended turn and each preemption a switch
// between threads and gained nothing.
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
		h.door.answer(l)
		if n == len(h.events) && n < 4096 {
			h.events = make([]unix.EpollEvent, 2*n)
		}
	}
}

// wait returns how many events there are. It sleeps only if the loop has nothing else to do.
//
// A loop whose requests are far apart parks. Otherwise the sleep is first a raw epoll_wait, which keeps the scheduler's
// processor (P). With syscall.Syscall the runtime's monitor would check every 20 µs whether it can take the P away: 8 %
// of the CPU of unpipelined requests. The raw wait is sound:
//
//   - The collector, or the monitor after 10 ms, signals the thread until the wait ends with EINTR. The second wait
//     gives the P away. An idle loop therefore holds its P for 10 ms at most,
//     and one that sleeps (chooser.go) not at all.
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
	} else if !l.isCalled() {
		if l.gap > parkFrom {
			h.spot.Park()
			n, _ = epollWait(h.epoll, h.events, 0)
		} else if h.spot.Leave(); h.raw && !l.sleeps {
			n, _ = epollWait(h.epoll, h.events, -1)
		}
		if n <= 0 {
			n, _ = unix.EpollWait(h.epoll, h.events, -1)
		}
	}
	l.armed.Store(true)
	return max(n, 0)
}

// parkFrom is the time between two requests, in nanoseconds, from which parking costs less than a raw wait. At 20
// requests a second the CPU of a request fell from 1.8 to 0.3 ms, and at 100 by a third. At 200 it was no greater.
const parkFrom = int64(4 * time.Millisecond)

// mayWaitRaw reports whether signals end a raw wait.
func mayWaitRaw() bool { return !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1") }
