package reactor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/reason"
)

// A listener is one listening socket.
type listener struct {
	fd    int
	name  string // as the configuration has it
	addr  string // "127.0.0.1:6379", "[::1]:6379", or a path
	local string // LocalAddr of its connections; "": ask the socket, it listens on a wildcard
	unix  bool
	tls   bool

	closed  bool // under acceptor.mu, once it is an acceptor's
	seconds int  // tcp-keepalive of what it accepts, 0 at first; for acceptor.accept, like mixed
	mixed   bool // some that wait to be accepted may have another
}

// ErrListen is the end of a Rebind whose causes the log has already named.
var ErrListen = errors.New("an address could not be listened on")

// What ends a start is worded as monitoring already matches it.
var errNowhere = errors.New("Configured to not listen anywhere, exiting.")

// listenAll opens what the options ask for, or nothing.
func listenAll(o *Options) ([]*listener, error) {
	listeners, err := listenTCP(o, o.Bind, o.Port)
	if err != nil {
		return nil, fmt.Errorf("Failed listening on port %d (tcp), aborting.", o.Port)
	}
	secure, err := listenTLS(o, o.Bind, o.TLSPort)
	if err != nil {
		closeAll(listeners)
		return nil, fmt.Errorf("Failed listening on port %d (tls), aborting.", o.TLSPort)
	}
	listeners = append(listeners, secure...)
	if o.UnixSocket != "" {
		l, err := listenUnix(o.UnixSocket, o.UnixPerm, o.Backlog)
		if err != nil {
			closeAll(listeners)
			return nil, fmt.Errorf("Failed opening Unix socket: %s", reason.InContext(err))
		}
		listeners = append(listeners, l)
	}
	if len(listeners) == 0 {
		return nil, errNowhere
	}
	return listeners, nil
}

// listenTCP opens a socket for each address. One written with '-' may be missing from this machine; if all are, there
// is none.
//
// Errors: ErrListen.
func listenTCP(o *Options, bind []string, port int) ([]*listener, error) {
	var listeners []*listener
	if port == 0 {
		return nil, nil
	}
	for _, name := range bind {
		host, optional := strings.CutPrefix(name, "-")
		if host == "" {
			continue
		}
		l, err := listenOne(host, port, o)
		if err == nil {
			l.name = name
			listeners = append(listeners, l)
			continue
		}
		o.Logf(Warning, "Warning: Could not create server TCP listening socket %s:%d: %s", host, port, reason.InContext(err))
		if optional && errors.Is(err, unix.EADDRNOTAVAIL) || absentFamily(err) {
			continue
		}
		closeAll(listeners)
		return nil, ErrListen
	}
	return listeners, nil
}

// listenTLS is listenTCP for connections under TLS.
func listenTLS(o *Options, bind []string, port int) ([]*listener, error) {
	listeners, err := listenTCP(o, bind, port)
	for _, l := range listeners {
		l.tls = true
	}
	return listeners, err
}

// absentFamily says that the machine does not know the protocol, IPv6 as a rule.
func absentFamily(err error) bool {
	for _, e := range []error{unix.ENOPROTOOPT, unix.EPROTONOSUPPORT, unix.ESOCKTNOSUPPORT, unix.EPFNOSUPPORT,
		unix.EAFNOSUPPORT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func listenOne(host string, port int, o *Options) (*listener, error) {
	addr, err := o.resolve(host)
	if err != nil {
		return nil, err
	}
	family := unix.AF_INET
	if addr.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := prepareListener(fd, addr, port, o); err != nil {
		unix.Close(fd)
		return nil, err
	}
	l := &listener{fd: fd, addr: netip.AddrPortFrom(addr, uint16(port)).String()}
	if !addr.IsUnspecified() {
		l.local = l.addr
	}
	return l, nil
}

func prepareListener(fd int, addr netip.Addr, port int, o *Options) error {
	if o.Mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, o.Mark); err != nil {
			return fmt.Errorf("setsockopt SO_MARK: %w", err)
		}
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("setsockopt SO_REUSEADDR: %w", err)
	}
	// Inherited by every accepted socket.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("setsockopt TCP_NODELAY: %w", err)
	}
	var sa unix.Sockaddr
	if addr.Is6() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return fmt.Errorf("setsockopt IPV6_V6ONLY: %w", err)
		}
		s6 := &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
		if zone := addr.Zone(); zone != "" {
			device, err := net.InterfaceByName(zone)
			if err != nil {
				return err
			}
			s6.ZoneId = uint32(device.Index)
		}
		sa = s6
	} else {
		sa = &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(fd, o.Backlog); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// A door is where a loop accepts.
type door struct{ leads atomic.Pointer[acceptor] }

// knocked says that fd is the acceptor's, and accepts what waits.
func (d *door) knocked(fd int) bool {
	a := d.leads.Load()
	if a == nil || fd != a.poll {
		return false
	}
	a.accept()
	return true
}

// admitted gives an accepted connection to its loop: at once if that is the first, which accepts, and its handshake has
// not taken it elsewhere.
func admitted(c *conn) {
	if c.loop.id == 0 && c.tls == nil {
		c.loop.host.(opener).enter(c)
		return
	}
	c.loop.post(mail{kind: mailOpen, c: c})
}

func closeAll(listeners []*listener) {
	for _, l := range listeners {
		l.close()
	}
}

func (l *listener) close() {
	l.closed = true
	unix.Close(l.fd)
	if l.unix {
		unix.Unlink(l.addr)
	}
}

// An acceptor takes connections from the listeners and gives them to loops.
//
// It has an epoll instance that watches the listeners. A loop watches that one, as one descriptor more: so a new
// connection comes up between the events of others, and Rebind changes listeners without the loop. netpoll's is watched
// by a goroutine.
//
// reactor.A1. accept runs on one goroutine, and never after close has returned.
// reactor.A2. A listener's descriptor is closed and accepted from under mu, so that nobody accepts from another one
// that has its number.
// reactor.A3. mu is not held while a connection is opened: that may take a turn, and Rebind holds one.
type acceptor struct {
	reactor   *Reactor
	poll      int        // epoll
	accepting sync.Mutex // while accept runs (reactor.A1)
	ready     [64]unix.EpollEvent
	logged    time.Time // when an accept error was last told

	mu      sync.Mutex // before the fields below
	current []*listener
	begun   bool
	closed  bool
	damaged bool // a rebind has failed, and not all that was there could be opened again
}

// acceptPause is how long a listener rests after the process ran out of descriptors or memory: an accept that fails
// leaves its socket readable, and trying again at once would spin.
const acceptPause = 100 * time.Millisecond

// acceptedAtOnce bounds what one listener takes before the others, and the loop's connections, are looked at.
const acceptedAtOnce = 16

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

// listening is what there is, by kind.
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

// begin has connections accepted from now on.
func (a *acceptor) begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.begun {
		return nil
	}
	a.begun = true
	return a.reactor.back.accept(a)
}

// accept takes what waits at the listeners, without waiting itself. It says whether it may be called again
// (reactor.A1).
func (a *acceptor) accept() (open bool) {
	a.accepting.Lock()
	defer a.accepting.Unlock()
	if a.isClosed() {
		return false
	}
	n, _ := epollWait(a.poll, a.ready[:], 0)
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

// take accepts what waits at l.
func (a *acceptor) take(l *listener) {
	most := acceptedAtOnce
	if l.tls {
		most = int(a.reactor.settings.TLSAccepts.Get())
	}
	for range most {
		fd, peer, err := a.acceptOne(l)
		switch err {
		case nil:
			a.reactor.admit(fd, peer, l)
		case unix.EAGAIN:
			l.mixed = false
			return
		case unix.EINTR, unix.ECONNABORTED, unix.ECONNRESET, unix.EPROTO, unix.EPERM,
			unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ENONET, unix.ENOPROTOOPT, unix.EOPNOTSUPP:
			// The one connection is gone; those behind it are not.
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

// rest takes l out of the epoll instance for acceptPause.
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

// rebind replaces the listeners of TCP and TLS. Those that stay the same are not touched.
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
	// Closed first: the same port cannot be opened twice. On an error what was there is opened again.
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

// listenAnew listens at bind, which names an address that this machine has if it names any.
func listenAnew(o *Options, bind []string, port int,
	listen func(*Options, []string, int) ([]*listener, error)) ([]*listener, error) {
	fresh, err := listen(o, bind, port)
	if len(fresh) == 0 && port != 0 && strings.Join(bind, "") != "" {
		err = ErrListen
	}
	return fresh, err
}

// reopen listens again where old listeners did.
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
	a.accepting.Lock() // until the last accept is over
	defer a.accepting.Unlock()
	if !again {
		unix.Close(a.poll)
	}
}

// Worded exactly as clients already match it.
const tooManyClients = "-ERR max number of clients reached\r\n"

// admit gives an accepted socket to a loop, or refuses it.
func (r *Reactor) admit(fd int, peer unix.Sockaddr, l *listener) {
	most := r.options.MaxClients
	if most == 0 {
		most = r.settings.MaxClients.Get()
	}
	if r.open.Add(1) > most {
		r.open.Add(-1)
		r.rejected.Add(1)
		if !l.tls { // a client that waits for a handshake can read no word of ours
			send(fd, []byte(tooManyClients))
		}
		unix.Close(fd)
		return
	}
	r.accepted.Add(1)
	r.gone.Add(1)
	c := newConn(fd, peer, l)
	c.loop = r.place()
	l.keepAlive(fd, int(r.settings.KeepAlive.Get()))
	if l.tls {
		r.shaking.begin(c)
		return
	}
	r.back.adopt(c)
}

// lost is for a connection that no loop ever opened.
func (r *Reactor) lost(err error) {
	r.options.Logf(Warning, "Giving a connection to its loop: %v", err)
	r.forget()
}

// forget counts a connection off that is closed and was never opened.
func (r *Reactor) forget() {
	r.open.Add(-1)
	r.gone.Done()
}

// newConn is a connection before its loop knows it.
func newConn(fd int, peer unix.Sockaddr, l *listener) *conn {
	c := &conn{link: link{fd: fd}, local: l.local, unix: l.unix}
	if l.unix {
		c.local = l.addr + ":0"
		c.remote = c.local
		c.loopback = true
		return c
	}
	remote := addrPort(peer)
	c.remote = remote.String()
	c.loopback = remote.Addr().IsLoopback()
	if c.local == "" {
		if sa, err := unix.Getsockname(fd); err == nil {
			c.local = addrPort(sa).String()
		}
	}
	return c
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// keepAlive has the kernel ask a silent peer after the given seconds, and give it up after as many again; 0: never.
//
// Accepted sockets inherit that from the listener, which costs nothing. After a change, those that were waiting already
// have the old value: until the queue has been empty once, it is set for each.
func (l *listener) keepAlive(fd, seconds int) {
	if l.unix {
		return
	}
	if seconds != l.seconds {
		l.seconds, l.mixed = seconds, true
		setKeepAlive(l.fd, seconds)
	}
	if l.mixed {
		setKeepAlive(fd, seconds)
	}
}

func setKeepAlive(fd, seconds int) {
	if seconds <= 0 {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0)
		return
	}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds)
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, max(1, seconds/3))
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3)
}
