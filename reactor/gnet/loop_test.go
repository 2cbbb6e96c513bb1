package gnet

import (
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/tests/testkit"
)

func start(t *testing.T, ready func(fd int, events uint32), heard func()) *Loop {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { l.Run(ready, heard); close(done) }()
	t.Cleanup(func() {
		l.Stop()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("Run continues after Stop")
		}
	})
	return l
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Await(t, 10*time.Second, what, ok)
}

// The bell is reported once for each ring after a silence, although it is never read. It is reported after earlier
// events (gnet.G1).
func TestBell(t *testing.T) {
	var heard atomic.Int64
	var order []string // the loop's
	block, blocked := make(chan struct{}), make(chan struct{}, 1)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]) }) // when the loop has ended: a close is an event
	l := start(t, func(fd int, events uint32) {
		order = append(order, "bytes")
		var b [16]byte
		unix.Read(fd, b[:])
	}, func() {
		order = append(order, "bell")
		if heard.Add(1) == 100 {
			blocked <- struct{}{}
			<-block
		}
	})
	if err := l.Add(pair[0]); err != nil {
		t.Fatal(err)
	}
	for i := range int64(100) {
		l.Ring()
		await(t, "heard", func() bool { return heard.Load() == i+1 })
	}
	<-blocked
	unix.Write(pair[1], []byte("x")) // first, so the bell comes after it
	for range 50 {
		l.Ring()
	}
	order = nil
	close(block)
	await(t, "heard again", func() bool { return heard.Load() == 101 })
	testkit.Holds(20*time.Millisecond, func() bool { return heard.Load() != 101 })
	if n := heard.Load(); n != 101 {
		t.Errorf("fifty rings while the loop was busy were heard %d times", n-100)
	}
	if len(order) != 2 || order[0] != "bytes" || order[1] != "bell" {
		t.Errorf("order %v", order)
	}
}

// There is one edge for bytes, one for the peer's end, and, if requested, one for room to write (gnet.G2).
func TestEdges(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	var seen atomic.Uint32
	var count atomic.Int64
	l := start(t, func(fd int, events uint32) { seen.Store(events); count.Add(1) }, func() {})
	if err := l.Add(pair[0]); err != nil {
		t.Fatal(err)
	}
	unix.Write(pair[1], []byte("x"))
	await(t, "bytes", func() bool { return count.Load() == 1 && seen.Load()&unix.EPOLLIN != 0 })
	testkit.Holds(20*time.Millisecond, func() bool { return count.Load() != 1 }) // the byte stays unread
	if n := count.Load(); n != 1 || seen.Load()&unix.EPOLLOUT != 0 {
		t.Errorf("%d events, the last %#x", n, seen.Load())
	}
	if err := l.AddWrites(pair[0]); err != nil {
		t.Fatal(err)
	}
	await(t, "room", func() bool { return seen.Load()&unix.EPOLLOUT != 0 })
	unix.Close(pair[1])
	await(t, "the end", func() bool { return seen.Load()&unix.EPOLLRDHUP != 0 })
}
