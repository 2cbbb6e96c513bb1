package uring

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// started returns a ring that the test's goroutine owns. The test is skipped where there is no io_uring.
func started(t *testing.T) *Ring {
	t.Helper()
	r, err := New()
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	t.Cleanup(func() {
		r.Close()
		runtime.UnlockOSThread()
	})
	if err := r.Enable(); err != nil {
		t.Fatal(err)
	}
	return r
}

// pair returns two connected sockets.
func pair(t *testing.T) (near, far int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(fds[0]) // again in TestCloseFile
		unix.Close(fds[1])
	})
	return fds[0], fds[1]
}

func write(t *testing.T, fd int, text string) {
	t.Helper()
	if n, err := unix.Write(fd, []byte(text)); n != len(text) {
		t.Fatal(n, err)
	}
}

// expect takes the next completion, which must have this user and this result.
func expect(t *testing.T, r *Ring, user uint64, result int32) Completion {
	t.Helper()
	c, ok := r.Completion()
	if !ok || c.User != user || c.Result != result {
		t.Fatalf("completion %+v, %t; want %d of %d", c, ok, result, user)
	}
	return c
}

// expectText expects the completion of a receive with this text, and returns its buffer.
func expectText(t *testing.T, r *Ring, user uint64, text string) Completion {
	t.Helper()
	c := expect(t, r, user, int32(len(text)))
	id, ok := c.Buffer()
	if !ok {
		t.Fatal("without a buffer")
	}
	if got := string(r.Buffers.Bytes(id, int(c.Result))); got != text {
		t.Fatalf("received %q, want %q", got, text)
	}
	r.Buffers.Give(id)
	return c
}

func expectNone(t *testing.T, r *Ring) {
	t.Helper()
	if c, ok := r.Completion(); ok {
		t.Fatalf("completion %+v, want none", c)
	}
}

// TestReceive: one request brings all bytes that arrive, each time within an Enter (uring.R1), and at last the end.
func TestReceive(t *testing.T) {
	r := started(t)
	near, far := pair(t)
	r.Receive(near, 7)
	r.Enter(false, false)
	for _, text := range []string{"one", "two"} {
		write(t, far, text)
		r.Submit()
		expectNone(t, r)
		r.Enter(true, false)
		if c := expectText(t, r, 7, text); !c.More() {
			t.Fatal("it says that it is over")
		}
		expectNone(t, r)
	}
	write(t, far, "last")
	unix.Shutdown(far, unix.SHUT_WR)
	r.Enter(true, true)
	expectText(t, r, 7, "last")
	r.Enter(false, false)
	if c := expect(t, r, 7, 0); c.More() {
		t.Fatal("it is not over at the end")
	}
}

// TestReceiversTakeTurns: a socket with many bytes does not delay the bytes of another one for long.
func TestReceiversTakeTurns(t *testing.T) {
	r := started(t)
	loud, far := pair(t)
	quiet, other := pair(t)
	r.Receive(loud, 1)
	r.Receive(quiet, 2)
	r.Enter(false, false)
	for range 10 { // a part of it fits
		unix.Write(far, []byte(strings.Repeat("x", BufferSize)))
	}
	write(t, other, "hello")
	heard, count := false, 0
	for !heard {
		r.Enter(true, false)
		for c, ok := r.Completion(); ok; c, ok = r.Completion() {
			id, _ := c.Buffer()
			r.Buffers.Give(id)
			if heard = heard || c.User == 2; c.User == 1 && !heard {
				count += int(c.Result)
			}
		}
	}
	if count > ReceiveMost && !r.unbounded {
		t.Errorf("%d bytes of one socket came before the other's", count)
	}
}

// TestReceiveMost: a receive ends after its share.
func TestReceiveMost(t *testing.T) {
	r := started(t)
	near, far := pair(t)
	r.Receive(near, 1)
	got := 0
	for {
		if _, err := unix.Write(far, []byte(strings.Repeat("x", 10_000))); err != nil {
			t.Fatal(err)
		}
		r.Enter(true, false)
		for c, ok := r.Completion(); ok; c, ok = r.Completion() {
			if unix.Errno(-c.Result) == unix.EINVAL {
				t.Skip("this test needs Linux 6.17: receives have no bound here")
			}
			id, _ := c.Buffer()
			r.Buffers.Give(id)
			if got += int(c.Result); !c.More() {
				if got < ReceiveMost || got >= ReceiveMost+BufferSize {
					t.Errorf("it ends after %d bytes", got)
				}
				return
			}
		}
	}
}

// TestNoBuffers: a receive ends when no buffer is free, and its bytes stay in the socket.
func TestNoBuffers(t *testing.T) {
	r := started(t)
	near, far := pair(t)
	r.Receive(near, 1)
	r.Enter(false, false)
	var ids []int
	for {
		write(t, far, "x")
		r.Enter(true, false)
		c, _ := r.Completion()
		id, ok := c.Buffer()
		if !ok {
			if errno := unix.Errno(-c.Result); errno != unix.ENOBUFS || c.More() || len(ids) != BufferCount {
				t.Fatalf("after %d buffers: %v, %+v", len(ids), errno, c)
			}
			break
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		r.Buffers.Give(id)
	}
	r.Receive(near, 2)
	r.Enter(true, false)
	expectText(t, r, 2, "x")
}

// TestSend: there is no completion if a socket takes all. If it takes a part, or nothing, there is one before Submit
// returns (uring.R3).
func TestSend(t *testing.T) {
	r := started(t)
	near, far := pair(t)
	r.Send(near, []byte("hello"), 1)
	r.Submit()
	expectNone(t, r)
	got := make([]byte, 8<<20)
	if n, err := unix.Read(far, got); string(got[:n]) != "hello" {
		t.Fatal(n, err)
	}
	long := []byte(strings.Repeat("0123456789", len(got)/10))
	r.Send(near, long, 2)
	r.Send(near, long, 3)
	r.Submit()
	part, ok := r.Completion()
	if !ok || part.User != 2 || part.Result <= 0 || int(part.Result) >= len(long) {
		t.Fatalf("%+v, %t", part, ok)
	}
	expect(t, r, 3, -int32(unix.EAGAIN))
	taken := 0
	for taken < int(part.Result) {
		n, err := unix.Read(far, got[taken:])
		if err != nil {
			t.Fatalf("%d of %d bytes, then %v", taken, part.Result, err)
		}
		taken += n
	}
	if string(got[:taken]) != string(long[:taken]) {
		t.Fatal("other bytes have arrived")
	}
	unix.Shutdown(far, unix.SHUT_RD)
	r.Send(near, long, 4)
	r.Submit()
	expect(t, r, 4, -int32(unix.EPIPE))
}

// TestPoll: Poll reports once, also an event that came before, and PollEdges reports each time.
func TestPoll(t *testing.T) {
	r := started(t)
	near, far := pair(t)
	write(t, far, "x")
	r.Poll(near, unix.POLLIN, 1)
	r.Enter(true, false)
	if c := expect(t, r, 1, unix.POLLIN); c.More() {
		t.Error("it is not over")
	}
	r.PollEdges(near, unix.POLLIN|unix.POLLRDHUP, 2)
	for range 3 {
		r.Enter(true, false)
		if c := expect(t, r, 2, unix.POLLIN); !c.More() {
			t.Error("it is over")
		}
		r.Enter(false, false)
		expectNone(t, r)
		write(t, far, "x")
	}
}

// TestCloseFile: a descriptor is closed after the requests that were filled before. The peer reads the end, although a
// receive was armed.
func TestCloseFile(t *testing.T) {
	r := started(t)
	own, far := pair(t)
	r.Receive(own, 1)
	r.Enter(false, false)
	r.Send(own, []byte("bye"), 2)
	r.Cancel(1)
	r.CloseFile(own)
	r.Enter(true, false)
	if c := expect(t, r, 1, -int32(unix.ECANCELED)); c.More() {
		t.Error("it is not over")
	}
	r.Enter(false, false)
	expectNone(t, r)
	got := make([]byte, 10)
	if n, err := unix.Read(far, got); string(got[:n]) != "bye" {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err := unix.Read(far, got); n != 0 || err != nil {
		t.Fatalf("%d, %v; want the end", n, err)
	}
}

// TestManyRequests: a full queue of requests is passed to the kernel early.
func TestManyRequests(t *testing.T) {
	r := started(t)
	near, far := pair(t)
	const n = requestEntries + 20
	for range n {
		r.Send(near, []byte("x"), 1)
	}
	r.Submit()
	expectNone(t, r)
	got := make([]byte, 2*n)
	if m, err := unix.Read(far, got); m != n {
		t.Fatalf("%d of %d bytes, %v", m, n, err)
	}
}

// TestAnotherThread: a ring refuses another thread after Enable.
func TestAnotherThread(t *testing.T) {
	r := started(t)
	refused := make(chan any)
	go func() {
		runtime.LockOSThread()
		defer func() { refused <- recover() }()
		r.Poll(0, unix.POLLIN, 1)
		r.Submit()
	}()
	if <-refused == nil {
		t.Error("another thread may use the ring")
	}
}
