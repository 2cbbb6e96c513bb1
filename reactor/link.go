package reactor

import (
	"golang.org/x/sys/unix"
)

// A link is where a connection's bytes arrive and leave: its socket, bare or under TLS (tls.go). Nothing else reads or
// writes the descriptor.
//
//	         event            a short read
//	quiet ───────────▶ readable ───────────▶ quiet     (reactor.E1)
//	  │                   │ end or error, and nothing waits to run
//	  └───── close ───────┴────────────────▶ closed    the host closes the descriptor (drop)
//
// reactor.K1. One goroutine at a time uses a link.
type link struct {
	fd  int
	tls *tlsLink // nil: the socket is bare

	readable bool // not netpoll: the socket may hold bytes that no event will announce again (reactor.E1)
	hungUp   bool // not netpoll: the peer is gone
	broken   bool // the socket takes no more bytes
	writes   bool // gnet, epoll: the poller also reports room to write
}

// read reads once into p. full means that more bytes may be there. 0 bytes without an error mean that the peer has
// ended.
func (l *link) read(p []byte) (n int, full bool, errno unix.Errno) {
	if l.tls != nil {
		return l.tls.read(p)
	}
	n, errno = receive(l.fd, p)
	return n, n == len(p), errno
}

// readTwo reads into first and then into second; neither is empty. Under TLS it does not use second.
func (l *link) readTwo(first, second []byte) (n int, full bool, errno unix.Errno) {
	if l.tls != nil {
		return l.tls.read(first)
	}
	var iov [2]unix.Iovec
	iov[0].Base, iov[1].Base = &first[0], &second[0]
	iov[0].SetLen(len(first))
	iov[1].SetLen(len(second))
	n, errno = readv(l.fd, iov[:])
	return n, n == len(first)+len(second), errno
}

// tell sends p, the only output of a connection, if the socket takes it at once.
func (l *link) tell(p []byte) {
	if l.tls == nil {
		send(l.fd, p)
		return
	}
	_ = l.tls.encrypt(p[:min(len(p), recordSize)])
}

// announced notes that the socket may hold bytes.
func (l *link) announced() {
	l.readable = true
	if l.tls != nil {
		l.tls.drained = false
	}
}

// holdsOutput reports whether the link holds bytes that have left the output but not the process.
func (l *link) holdsOutput() bool { return l.tls != nil && len(l.tls.unsent) > 0 }
