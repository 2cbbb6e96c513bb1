package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// next returns an empty request for user. If the queue is full, its requests are first passed to the kernel.
func (r *Ring) next(op uint8, fd int, user uint64) *request {
	if r.filled-r.told == r.entries {
		r.Submit()
	}
	q := &r.requests[r.filled%r.entries]
	r.filled++
	*q = request{op: op, fd: int32(fd), user: user}
	return q
}

// ReceiveMost bounds the bytes of a receive, which may exceed it by less than a buffer. So a client that sends without
// a pause leaves buffers and time to others.
const ReceiveMost = 64 << 10

// Receive starts to receive the bytes of a socket into buffers. There is one completion for each buffer, until one
// without More. That last one has a result above 0 after ReceiveMost bytes, 0 at the peer's end, or an errno. ENOBUFS
// means that no buffer was free.
func (r *Ring) Receive(fd int, user uint64) {
	q := r.next(opRecv, fd, user)
	q.flags, q.ioprio = requestSelectBuffer, recvMultishot
	if !r.unbounded {
		q.total = ReceiveMost
	}
}

// Unbind removes the bound of later receives. Linux knows no bound before 6.17 and refuses a bounded receive with
// EINVAL. Without a bound half a megabyte may arrive at once. Unbind returns false if it was called before.
func (r *Ring) Unbind() (fresh bool) {
	fresh, r.unbounded = !r.unbounded, true
	return fresh
}

// Send sends as much of p as the socket takes without waiting (uring.R3). There is a completion only if the socket did
// not take all. Its result is how many bytes were taken, or an errno. p must stay until the next Enter or Submit
// returns.
func (r *Ring) Send(fd int, p []byte, user uint64) {
	q := r.next(opSend, fd, user)
	q.flags = requestSkipSuccess
	q.address, q.length = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))), uint32(len(p))
	q.opFlags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL | unix.MSG_WAITALL // WAITALL: a part is a failure
}

// Poll reports once that a descriptor has one of events (poll(2)'s bits), now or later. It also reports the end and
// errors.
func (r *Ring) Poll(fd int, events uint32, user uint64) {
	r.next(opPoll, fd, user).opFlags = events
}

// PollEdges reports events each time they occur, until a completion without More.
func (r *Ring) PollEdges(fd int, events uint32, user uint64) {
	q := r.next(opPoll, fd, user)
	q.opFlags, q.length = events, pollMultishot
}

// Cancel ends the request with this user. Its last completion has the result ECANCELED, unless the request was over
// already.
func (r *Ring) Cancel(user uint64) {
	q := r.next(opCancel, -1, 0)
	q.flags, q.address = requestSkipSuccess, user
}

// CloseFile closes a descriptor, after all earlier requests for it (uring.R2). Requests that still run keep the file
// open, so they must be cancelled before.
func (r *Ring) CloseFile(fd int) {
	r.next(opClose, fd, 0).flags = requestSkipSuccess
}
