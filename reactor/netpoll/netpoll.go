// Package netpoll watches sockets with netpoll's pollers, and holds everything that is particular to that library.
//
// netpoll's own connections are not used. They read all bytes that arrive, however late the server is, into buffers of
// up to 8 MB that no limit counts. So sockets are registered directly with the pollers.
//
// Owner: any goroutine; a Socket's methods one at a time.
// Never: knows what a connection is, or reads a socket.
package netpoll

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
)

// A Poller waits for events of its sockets, on a goroutine of netpoll's.
type Poller struct{ poll netpoll.Poll }

var errHidden = errors.New("this version of netpoll hides its pollers")

// Pollers starts n pollers. debug gets netpoll's log lines, for the whole process.
//
// Errors: the system's, and one if a netpoll.Connection does not have the expected fields.
func Pollers(n int, debug func(format string, args ...any)) (pollers []Poller, err error) {
	logf.Store(&debug)
	setLogger.Do(func() { netpoll.Configure(netpoll.Config{LoggerOutput: logger{}}) })
	netpoll.Configure(netpoll.Config{PollerNum: n})
	for range n { // netpoll gives its pollers to connections in turn and exports none: ask a connection of each
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("socketpair: %w", err)
		}
		defer unix.Close(pair[1])
		nc, err := netpoll.NewFDConnection(pair[0])
		if err != nil {
			unix.Close(pair[0])
			return nil, err
		}
		defer nc.Close()
		poll := pollOf(nc)
		if poll == nil {
			return nil, errHidden
		}
		pollers = append(pollers, Poller{poll})
	}
	return pollers, nil
}

// pollOf reads the poller in nc's operator, from two fields that netpoll does not export. It returns nil if they are
// not there.
func pollOf(nc netpoll.Connection) netpoll.Poll {
	v := reflect.Indirect(reflect.ValueOf(nc))
	if v.Kind() != reflect.Struct {
		return nil
	}
	operator := v.FieldByName("operator")
	if !operator.IsValid() || operator.Type() != reflect.TypeFor[*netpoll.FDOperator]() || operator.IsNil() {
		return nil
	}
	poll := operator.Elem().FieldByName("poll")
	if !poll.IsValid() || poll.Type() != reflect.TypeFor[netpoll.Poll]() {
		return nil
	}
	return *(*netpoll.Poll)(unsafe.Pointer(poll.UnsafeAddr()))
}

// A Socket is a descriptor in a poller.
type Socket struct {
	poll     netpoll.Poll
	operator *netpoll.FDOperator
}

// Enter makes a socket, which has no events before Watch. readable runs on the poller's goroutine when bytes or the end
// have arrived, and must not wait. ended runs on another goroutine, after readable, when the peer has ended.
func (p Poller) Enter(fd int, readable func() error, ended func()) Socket {
	s := Socket{p.poll, p.poll.Alloc()}
	s.operator.FD = fd
	s.operator.OnRead = func(netpoll.Poll) error { return readable() }
	s.operator.OnHup = func(netpoll.Poll) error {
		ended()
		return nil
	}
	return s
}

// Watch makes the poller report events.
func (s Socket) Watch() error { return s.poll.Control(s.operator, netpoll.PollReadable) }

// Detach stops the events, until Watch.
func (s Socket) Detach() error { return s.poll.Control(s.operator, netpoll.PollDetach) }

// Free ends the socket. When it returns the poller does not touch the descriptor any more.
func (s Socket) Free() {
	_ = s.Detach()
	s.poll.Free(s.operator)
}

// netpoll has one logger, which it reads without a lock. So the logger is set once, and passes lines to the function of
// the last Pollers.
var (
	setLogger sync.Once
	logf      atomic.Pointer[func(format string, args ...any)]
)

type logger struct{}

func (logger) Write(line []byte) (int, error) {
	(*logf.Load())("%s", bytes.TrimSpace(line))
	return len(line), nil
}
