package reactor

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/reason"
)

// An acceptor takes connections from the listeners and gives them to loops.
//
// It has an epoll instance that watches the listeners. A loop, or a goroutine, watches that instance as one descriptor.
// So a new connection is one event among the loop's others, and Rebind can change listeners without the loop.
//
// reactor.A1. accept runs on one goroutine, and never after close has returned.
// reactor.A2. mu is held while a listener's descriptor is closed or accepted from. So accept never uses another
// descriptor with the same number.
// reactor.A3. mu is not held while a connection is opened, because that may take a turn, and the caller of Rebind holds
// one.
// reactor.A4. A loop accepts after it has served the other events of an iteration and sent their replies. So new
// connections come after known ones, and an iteration accepts few of them.
type acceptor struct {
	reactor   *Reactor
	poll      int        // epoll
	accepting sync.Mutex // while accept runs (reactor.A1)
	ready     [64]unix.EpollEvent
	logged    time.Time // when an accept error was last logged
	until     time.Time // when accept returns to the loop

	mu      sync.Mutex // guards the fields below
	current []*listener
	begun   bool
	closed  bool
	damaged bool // a rebind has failed, and some old listeners could not be opened again
}

// acceptPause is how long a listener rests after the process ran out of descriptors or memory. A failed accept leaves
// its socket readable, so an immediate retry would spin.
const acceptPause = 100 * time.Millisecond

// acceptedAtOnce bounds how many connections one listener accepts before the other listeners and the loop's connections
// are served. acceptTime bounds how long all listeners accept, but each accepts at least one connection.
const (
	acceptedAtOnce = 16
	acceptTime     = 200 * time.Microsecond
)

func newAcceptor(r *Reactor, listeners []*listener) (*acceptor, error) {
	a := &acceptor{reactor: r}
	var err error
	if a.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	for _, l := range listeners {
		err = errors.Join(err, a.watch(l.fd))
	}
	if err != nil {
		unix.Close(a.poll)
		return nil, err
	}
	a.current = listeners
	return a, nil
}

func (a *acceptor) watch(fd int) error {
	return unix.EpollCtl(a.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (a *acceptor) addrs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var addrs []string
	for _, l := range a.current {
		addrs = append(addrs, l.addr)
	}
	return addrs
}

// listening returns the listeners, by kind.
func (a *acceptor) listening() (all []Listening) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for kind := TCP; kind <= TLS; kind++ {
		l := Listening{Kind: kind}
		for _, at := range a.current {
			if at.kind() == kind {
				l.Names = append(l.Names, at.name)
			}
		}
		switch kind {
		case TCP:
			l.Port = a.reactor.options.Port
		case TLS:
			l.Port = a.reactor.options.TLSPort
		}
		if len(l.Names) > 0 {
			all = append(all, l)
		}
	}
	return all
}

func (l *listener) kind() Kind {
	switch {
	case l.unix:
		return Unix
	case l.tls:
		return TLS
	}
	return TCP
}

// begin starts to accept connections.
func (a *acceptor) begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.begun {
		return nil
	}
	a.begun = true
	return a.reactor.back.accept(a)
}

// accept accepts the waiting connections of all listeners, and does not wait. It reports whether it may be called again
// (reactor.A1).
func (a *acceptor) accept() (open bool) {
	a.accepting.Lock()
	defer a.accepting.Unlock()
	if a.isClosed() {
		return false
	}
	n, _ := epollWait(a.poll, a.ready[:], 0)
	a.until = time.Now().Add(acceptTime)
	for i := range max(n, 0) {
		if l := a.find(int(a.ready[i].Fd)); l != nil {
			a.take(l)
		}
	}
	return true
}

func (a *acceptor) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

func (a *acceptor) find(fd int) *listener {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.current {
		if l.fd == fd {
			return l
		}
	}
	return nil
}

// take accepts the waiting connections of l.
func (a *acceptor) take(l *listener) {
	most := acceptedAtOnce
	if l.tls {
		most = int(a.reactor.settings.TLSAccepts.Get())
	}
	for range most {
		fd, peer, err := a.acceptOne(l)
		switch err {
		case nil:
			if a.reactor.admit(fd, peer, l); time.Now().After(a.until) {
				return
			}
		case unix.EAGAIN:
			l.mixed = false
			return
		case unix.EINTR, unix.ECONNABORTED, unix.ECONNRESET, unix.EPROTO, unix.EPERM,
			unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ENONET, unix.ENOPROTOOPT, unix.EOPNOTSUPP:
			// The client has closed this connection already. The next ones may be good.
		case unix.EBADF, unix.EINVAL:
			return // rebound or closing
		default:
			if time.Since(a.logged) > time.Second {
				a.logged = time.Now()
				a.reactor.options.Logf(Warning, "Accepting client connection: %s", reason.InContext(fmt.Errorf("accept: %w", err)))
			}
			a.rest(l)
			return
		}
	}
}

// acceptOne accepts one connection from l, unless l has been closed (reactor.A2).
func (a *acceptor) acceptOne(l *listener) (fd int, peer unix.Sockaddr, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.closed {
		return -1, nil, unix.EBADF
	}
	return unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
}

// rest removes l from the epoll instance for acceptPause.
func (a *acceptor) rest(l *listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || l.closed {
		return
	}
	unix.EpollCtl(a.poll, unix.EPOLL_CTL_DEL, l.fd, nil)
	time.AfterFunc(acceptPause, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.closed && !l.closed {
			a.watch(l.fd)
		}
	})
}

// rebind replaces the listeners of TCP and TLS. It keeps listeners whose address stays the same.
func (a *acceptor) rebind(bind []string, port, tlsPort int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errors.New("the reactor is stopping")
	}
	o := &a.reactor.options
	moved := !slices.Equal(bind, o.Bind) || a.damaged
	var kept, old []*listener
	for _, l := range a.current {
		now, was := port, o.Port
		if l.tls {
			now, was = tlsPort, o.TLSPort
		}
		if l.unix || !moved && now == was {
			kept = append(kept, l)
		} else {
			old = append(old, l)
		}
	}
	// The old listeners are closed first, because a port cannot be opened twice. On an error they are opened again.
	closeAll(old)
	var fresh []*listener
	var err error
	if moved || port != o.Port {
		fresh, err = listenAnew(o, bind, port, listenTCP)
	}
	if err == nil && (moved || tlsPort != o.TLSPort) {
		var secure []*listener
		secure, err = listenAnew(o, bind, tlsPort, listenTLS)
		fresh = append(fresh, secure...)
	}
	if err != nil {
		closeAll(fresh)
		fresh = a.reopen(old)
		a.damaged = len(fresh) < len(old)
	} else {
		o.Bind, o.Port, o.TLSPort, a.damaged = bind, port, tlsPort, false
	}
	for _, l := range fresh {
		if unwatched := a.watch(l.fd); unwatched != nil {
			err, a.damaged = errors.Join(err, unwatched), true
		}
	}
	a.current = append(kept, fresh...)
	return err
}

// listenAnew listens at bind. If bind names any addresses, at least one of them must be an address of this machine.
func listenAnew(o *Options, bind []string, port int,
	listen func(*Options, []string, int) ([]*listener, error)) ([]*listener, error) {
	fresh, err := listen(o, bind, port)
	if len(fresh) == 0 && port != 0 && strings.Join(bind, "") != "" {
		err = ErrListen
	}
	return fresh, err
}

// reopen listens again at the addresses of old.
func (a *acceptor) reopen(old []*listener) []*listener {
	var again []*listener
	for _, l := range old {
		host, port, _ := net.SplitHostPort(l.addr)
		n, _ := strconv.Atoi(port)
		if r, err := listenOne(host, n, &a.reactor.options); err == nil {
			r.name, r.tls = l.name, l.tls
			again = append(again, r)
		}
	}
	return again
}

// close stops accepting and closes the listeners. Nothing is admitted after it returns.
func (a *acceptor) close() {
	a.mu.Lock()
	again := a.closed
	a.closed = true
	closeAll(a.current)
	a.current = nil
	a.mu.Unlock()
	a.accepting.Lock() // waits until the last accept is over
	defer a.accepting.Unlock()
	if !again {
		unix.Close(a.poll)
	}
}

// A door lets a loop accept connections, after an iteration's other events (reactor.A4).
type door struct {
	leads   atomic.Pointer[acceptor]
	waiting bool // connections wait to be accepted; only the loop's goroutine touches it
}

// knocked reports whether fd belongs to the acceptor. If so, the loop has to call answer at the end of the iteration.
func (d *door) knocked(fd int) bool {
	a := d.leads.Load()
	if a == nil || fd != a.poll {
		return false
	}
	d.waiting = true
	return true
}

// answer accepts connections if some wait, and ends l's iteration. It reports whether the acceptor is to be watched
// further.
func (d *door) answer(l *loop) (open bool) {
	if !d.waiting {
		return false
	}
	d.waiting = false
	open = d.leads.Load().accept()
	l.endIteration() // opening a connection reads the clock
	return open
}

// admitted gives an accepted connection to its loop. It does so at once if that is the first loop, on which accept
// runs. A connection that had a TLS handshake comes from another goroutine, so it goes by mail.
func admitted(c *conn) {
	if c.loop.id == 0 && c.tls == nil {
		c.loop.host.(opener).enter(c)
		return
	}
	c.loop.post(mail{kind: mailOpen, c: c})
}
