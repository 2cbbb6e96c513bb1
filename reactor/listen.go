package reactor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/internal/reason"
)

// A listener is one listening socket.
type listener struct {
	fd    int
	name  string // the address in the configuration
	addr  string // "127.0.0.1:6379", "[::1]:6379", or a path
	local string // LocalAddr of its connections; "": it listens on a wildcard, so ask the socket
	unix  bool
	tls   bool

	closed  bool // guarded by acceptor.mu, once it belongs to an acceptor
	seconds int  // tcp-keepalive of its accepted sockets, 0 at first; only acceptor.accept uses it, and mixed
	mixed   bool // some connections that wait to be accepted may have another value
}

// ErrListen is the error of a Rebind that has already logged the causes.
var ErrListen = errors.New("an address could not be listened on")

// The text of the error that ends a start is the one that monitoring tools match.
var errNowhere = errors.New("Configured to not listen anywhere, exiting.")

// listenAll opens all sockets that the options ask for. On an error it leaves none open.
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
		l, err := listenUnix(o.UnixSocket, o.UnixPerm, o.UnixGroup, o.Backlog)
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

// listenTCP opens a socket for each address. An address with a leading '-' may be missing from this machine. If all of
// them are missing, there is no socket.
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

// absentFamily reports whether the machine lacks the protocol, usually IPv6.
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
	// Every accepted socket inherits this option.
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

func closeAll(listeners []*listener) {
	for _, l := range listeners {
		l.close()
	}
}

func (l *listener) close() {
	l.closed = true
	if l.unix { // before the socket is closed: then it may be a successor's
		unix.Unlink(l.addr)
	}
	unix.Close(l.fd)
}
