package reactor

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// The exact text that clients match.
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
		if !l.tls { // a client that waits for a handshake cannot read a message
			send(fd, []byte(tooManyClients))
		}
		unix.Close(fd)
		return
	}
	r.accepted.Add(1)
	r.gone.Add(1)
	c := newConn(fd, peer, l)
	c.setLoop(r.place())
	l.keepAlive(fd, int(r.settings.KeepAlive.Get()))
	if l.tls {
		r.shaking.begin(c)
		return
	}
	r.back.adopt(c)
}

// lost reports the error of a connection that no loop has opened.
func (r *Reactor) lost(err error) {
	r.options.Logf(Warning, "Giving a connection to its loop: %v", err)
	r.forget()
}

// forget stops counting a connection that was closed and never opened.
func (r *Reactor) forget() {
	r.open.Add(-1)
	r.gone.Done()
}

// newConn returns a connection that no loop knows yet.
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

// keepAlive makes the kernel probe a silent peer after the given seconds, and drop it after as many again. 0 means
// never.
//
// Accepted sockets inherit the value from the listener, which costs nothing. After a change, connections that already
// wait in the queue have the old value. So until the queue has been empty once, keepAlive sets the value for each
// socket.
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
