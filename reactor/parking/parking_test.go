package parking

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An instance is an epoll instance with one eventfd, which is edge-triggered.
func instance(t *testing.T) (epoll, event int) {
	t.Helper()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(epoll); unix.Close(event) })
	on := &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(event)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, event, on); err != nil {
		t.Fatal(err)
	}
	return epoll, event
}

// take removes the events of an epoll instance, and returns their number.
func take(epoll int) int {
	n, _ := unix.EpollWait(epoll, make([]unix.EpollEvent, 8), 0)
	return n
}

// TestPark: no event is missed, whether it comes before Park, while the loop parks, or while it is away.
func TestPark(t *testing.T) {
	epoll, event := instance(t)
	s := New(epoll)
	defer s.Leave()
	ring := func() { unix.Write(event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }
	for i := range 2000 {
		switch i % 3 {
		case 0:
			ring()
		case 1:
			time.AfterFunc(time.Duration(i%50)*time.Microsecond, ring)
		case 2:
			go ring()
		}
		if s.Park(); take(epoll) != 1 {
			t.Fatalf("round %d: Park has returned without an event", i)
		}
		if i%7 == 0 {
			s.Leave()
		}
	}
	if take(epoll) != 0 {
		t.Error("an event too many")
	}
}

// TestParkWithoutDescriptors: a loop that cannot park continues, and has lost nothing.
func TestParkWithoutDescriptors(t *testing.T) {
	s := New(-1)
	s.Park()
	if s.file != nil {
		t.Error("registered without a descriptor")
	}
	epoll, event := instance(t)
	s = New(epoll)
	unix.Write(event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if s.Park(); s.file == nil || take(epoll) != 1 {
		t.Error("an event was lost")
	}
	if s.Leave(); s.file != nil {
		t.Error("still registered")
	}
}
