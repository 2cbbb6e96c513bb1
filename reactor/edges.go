package reactor

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Edges under gnet. gnet enters sockets level-triggered: the kernel keeps what it has reported on its list of ready ones, and looks at each
// again in the next epoll_wait to find that nothing is left: 2 to 4 % of a request. gnet's own edge-triggered mode reads on from a socket
// whose read filled the buffer before it looks at any other, up to 16 MB an iteration: one fast sender held the others up
// (TestSendersTakeTurns). So sockets are made edge-triggered behind its back, and level-triggered again while they have more than their share of an
// iteration (read.go):
//
//	a read did not fill its buffer, shortReads times in a row ─▶ nothing is left, the next byte raises an edge ─▶ edge-triggered
//	all of them did                                           ─▶ more may be there, and has to wait for its turn ─▶ level-triggered
//
// Once is not enough: a client whose requests are just about as long as a share would be changed twice a request, which costs more than the ready
// list does.
//
// Changing a socket's mode has the kernel look at it, so nothing that came before is lost (epoll_ctl(2)). EPOLLRDHUP tells of an end that came
// with the last bytes; gnet then reads to the end at once, what the socket holds and no more.
//
// gnet's build tag poll_opt does not go with it: where an event has the descriptor, that keeps a pointer.
//
// Only TCP sockets: a read of a Unix socket ends where another process has written.

const (
	levelTriggered = unix.EPOLLIN | unix.EPOLLPRI // what gnet asks for
	edgeTriggered  = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
)

// proc is where the kernel tells of this process.
var proc = "/proc/self"

// pollOf is the epoll instance of this process that watches fd, -1 if it cannot be told: gnet does not give its own away.
func pollOf(fd int) int {
	links, _ := os.ReadDir(filepath.Join(proc, "fd"))
	for _, link := range links {
		if to, err := os.Readlink(filepath.Join(proc, "fd", link.Name())); err != nil || to != "anon_inode:[eventpoll]" {
			continue
		}
		poll, err := strconv.Atoi(link.Name())
		if err != nil {
			continue
		}
		for target := range watched(poll) {
			if target == fd {
				return poll
			}
		}
	}
	return -1
}

// watched is each descriptor that an epoll instance watches, and what for.
func watched(poll int) iter.Seq2[int, uint32] {
	return func(yield func(fd int, events uint32) bool) {
		info, _ := os.ReadFile(filepath.Join(proc, "fdinfo", strconv.Itoa(poll)))
		for line := range strings.Lines(string(info)) {
			var fd int
			var events uint32
			if n, _ := fmt.Sscanf(line, "tfd: %d events: %x", &fd, &events); n == 2 && !yield(fd, events) {
				return
			}
		}
	}
}

// shortReads in a row are believed.
const shortReads = 32

// heed changes c's mode if that no longer goes with its reads: full says that the last one filled its buffer.
func (h *gnetHost) heed(c *conn, full bool) {
	switch {
	case full && c.edges:
		h.suit(c, false)
	case full:
		c.short = 0
	case !c.edges:
		if c.short++; c.short == shortReads {
			h.suit(c, true)
		}
	}
}

// suit makes c edge-triggered, or level-triggered.
func (h *gnetHost) suit(c *conn, edges bool) {
	c.short = 0
	if h.poll < 0 || c.unix || c.closed {
		return
	}
	events := uint32(levelTriggered)
	if edges {
		events = edgeTriggered
	}
	if err := unix.EpollCtl(h.poll, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.fd)}); err != nil {
		c.close() // else nobody might hear of its bytes any more
		return
	}
	c.edges = edges
}
