package reactor

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A watcher tells loops when a full socket takes bytes again, or when it breaks. It is for backends whose own poller
// cannot do that.
//
// It is one goroutine with its own epoll, started by the first connection that needs it. A connection is registered for
// one event after the kernel has refused its bytes. The event reaches the loop as mail.
// Price: an epoll_ctl and a wake for each time a socket fills up; nothing for connections that read. A closing
// connection whose output the gate holds costs an epoll_ctl.
//
// reactor.W1. A connection is removed before its descriptor is closed. An event names the conn by a number that is
// never used twice, so that a late event finds nothing.
type watcher struct {
	once  sync.Once
	mu    sync.Mutex
	poll  int
	err   error
	conns map[int32]*conn
	fds   map[*conn]int32
	next  int32
	bell  int
	done  chan struct{}
}

func (w *watcher) start() {
	w.conns, w.fds, w.done = map[int32]*conn{}, map[*conn]int32{}, make(chan struct{})
	if w.poll, w.err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); w.err != nil {
		return
	}
	if w.bell, w.err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); w.err != nil {
		unix.Close(w.poll)
		return
	}
	w.err = unix.EpollCtl(w.poll, unix.EPOLL_CTL_ADD, w.bell, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1})
	go w.run()
}

// add requests one mail to c's loop, at the first of events or when c's socket breaks. events is EPOLLOUT or 0. On the
// loop.
func (w *watcher) add(c *conn, events uint32) error {
	w.once.Do(w.start)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	op := unix.EPOLL_CTL_MOD
	id, known := w.fds[c]
	if !known {
		op = unix.EPOLL_CTL_ADD
		for w.next++; w.next <= 0 || w.conns[w.next] != nil; w.next++ {
			w.next = max(w.next, 0)
		}
		id = w.next
		w.conns[id], w.fds[c] = c, id
	}
	return unix.EpollCtl(w.poll, op, c.fd, &unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: id})
}

// remove forgets c, before its descriptor is closed (reactor.W1).
func (w *watcher) remove(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, known := w.fds[c]
	if !known {
		return
	}
	delete(w.fds, c)
	delete(w.conns, id)
	unix.EpollCtl(w.poll, unix.EPOLL_CTL_DEL, c.fd, nil)
}

func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(w.poll, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for i := range max(n, 0) {
			if events[i].Fd == -1 {
				return
			}
			w.mu.Lock()
			c := w.conns[events[i].Fd]
			w.mu.Unlock()
			kind := mailBroken
			if events[i].Events&unix.EPOLLOUT != 0 {
				kind = mailWritable
			}
			if c != nil {
				c.post(mail{kind: kind, c: c})
			}
		}
	}
}

// stop ends the goroutine, if it runs.
func (w *watcher) stop() {
	w.once.Do(func() { w.err = unix.EBADF })
	w.mu.Lock()
	running := w.err == nil
	w.err = unix.EBADF
	w.mu.Unlock()
	if !running {
		return
	}
	ringBell(w.bell)
	<-w.done
	unix.Close(w.bell)
	unix.Close(w.poll)
}
