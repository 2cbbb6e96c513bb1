package reactor

import (
	"golang.org/x/sys/unix"
)

// A link is where a connection's bytes come in and leave: its socket. Nothing else reads or writes the descriptor.
//
//	         event            a short read
//	quiet ───────────▶ readable ───────────▶ quiet     (reactor.E1)
//	  │                   │ end or error, and nothing waits to run
//	  └───── close ───────┴────────────────▶ closed    the host closes the descriptor (drop)
//
// reactor.K1. The loop's goroutine alone uses a link. netpoll's poller may receive while nobody visits the connection.
type link struct {
	fd int

	readable bool // gnet, epoll: the socket may hold bytes that no event will announce again (reactor.E1)
	hungUp   bool // gnet, epoll: the peer is gone
	writes   bool // gnet, epoll: the poller tells of room to write, too
}

// read reads once into p. full says that more may be there. With 0 bytes and no error the peer has ended.
func (l *link) read(p []byte) (n int, full bool, errno unix.Errno) {
	n, errno = receive(l.fd, p)
	return n, n == len(p), errno
}

// readTwo is read into first, and behind it into second; neither is empty.
func (l *link) readTwo(first, second []byte) (n int, full bool, errno unix.Errno) {
	var iov [2]unix.Iovec
	iov[0].Base, iov[1].Base = &first[0], &second[0]
	iov[0].SetLen(len(first))
	iov[1].SetLen(len(second))
	n, errno = readv(l.fd, iov[:])
	return n, n == len(first)+len(second), errno
}

// tell sends p to a peer that gets nothing else, if the socket takes it at once.
func (l *link) tell(p []byte) { send(l.fd, p) }
