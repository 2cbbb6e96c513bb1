// Package uring is one io_uring with a ring of receive buffers. It deals with system calls and memory, not with
// connections.
//
// Owner: the goroutine that has called Enable, which stays on its thread. Before that, the goroutine that called New.
// Never: waits outside Enter, allocates after New, or keeps Go memory past the Enter that gives it to the kernel.
// Start at ring.go: how requests reach the kernel and completions come back. buffers.go has the memory of receives,
// requests.go the requests, kernel.go the kernel's numbers and layouts.
package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// A Ring is a pair of queues that this process shares with the kernel.
//
//	requests:      [ taken by the kernel | filled, not told | free ]     Enter tells, and runs them in this order
//	                                     ^ told             ^ filled
//	completions:   [ taken by us | there | free ]                        Completion takes the next one
//	                             ^ read  ^ the kernel's tail
//
// uring.R1. The kernel works on a request only inside Enter (DEFER_TASKRUN). So between two Enters no completion
// appears, no buffer is filled and no byte leaves a socket.
// uring.R2. Requests run in the order in which they were filled. A descriptor that is closed by CloseFile is free for
// others only after all requests filled before it have begun.
// uring.R3. A Send never waits: when its Enter returns, the socket has taken all, a part or nothing. Only a part or
// nothing makes a completion.
type Ring struct {
	fd      int
	entries uint32
	filled  uint32
	told    uint32

	queues   []byte // mapped
	places   []byte // of requests, mapped
	requests []request
	sqHead   *atomic.Uint32
	sqTail   *atomic.Uint32

	cqHead      *atomic.Uint32
	cqTail      *atomic.Uint32
	overflow    *atomic.Uint32
	completions []Completion
	read        uint32

	Buffers   Buffers
	unbounded bool // see Unbind
	name      int  // the ring's name in Enter: its index in the thread's list
}

// A Completion is the kernel's report about a request.
type Completion struct {
	User   uint64 // as the request had it
	Result int32  // below 0: an errno
	flags  uint32
}

// More reports whether the request will have more completions.
func (c *Completion) More() bool { return c.flags&completionMore != 0 }

// Buffer returns the number of the buffer that a receive has filled.
func (c *Completion) Buffer() (n int, ok bool) {
	return int(c.flags >> completionBufferShift), c.flags&completionBuffer != 0
}

// Rest reports whether the socket holds more bytes than a receive has brought.
func (c *Completion) Rest() bool { return c.flags&completionRest != 0 }

// Sizes of the queues. A full queue of requests is passed to the kernel early. The queue of completions never gets
// full. Each buffer can have one completion, and so can each request of an Enter. Enter runs 20 of the waiting
// requests.
const (
	requestEntries    = 256
	completionEntries = 4096
)

// ErrUnavailable is the error for a kernel that lacks io_uring or a needed part of it, or forbids it.
var ErrUnavailable = errors.New("io_uring is not available")

// New makes a ring on which nothing runs before Enable. Errors: ErrUnavailable, with the reason.
func New() (*Ring, error) {
	p := params{
		flags: setupCompletionEntries | setupDisabled | setupSubmitAll | setupCoopTaskrun | setupSingleIssuer |
			setupDeferTaskrun,
		cqEntries: completionEntries,
	}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, requestEntries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("%w: io_uring_setup: %w", ErrUnavailable, errno)
	}
	r := &Ring{fd: int(fd), entries: p.sqEntries, name: -1}
	unix.CloseOnExec(r.fd)
	if err := r.mapQueues(&p); err != nil {
		r.Close()
		return nil, err
	}
	if err := r.Buffers.make(r.fd); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// mapQueues maps the three areas that are shared with the kernel.
func (r *Ring) mapQueues(p *params) (err error) {
	if p.features&featureSingleMap == 0 || p.features&featureNoDrop == 0 {
		return fmt.Errorf("%w: its queues are those of an old kernel", ErrUnavailable)
	}
	size := max(p.sqOff.array+4*p.sqEntries, p.cqOff.completions+completionSize*p.cqEntries)
	if r.queues, err = mapped(r.fd, offsetQueues, int(size)); err != nil {
		return err
	}
	if r.places, err = mapped(r.fd, offsetRequests, int(requestSize*p.sqEntries)); err != nil {
		return err
	}
	at := func(offset uint32) unsafe.Pointer { return unsafe.Pointer(&r.queues[offset]) }
	for i := range p.sqEntries {
		*(*uint32)(at(p.sqOff.array + 4*i)) = i // place i has request i, always
	}
	r.requests = unsafe.Slice((*request)(unsafe.Pointer(&r.places[0])), p.sqEntries)
	r.sqHead, r.sqTail = (*atomic.Uint32)(at(p.sqOff.head)), (*atomic.Uint32)(at(p.sqOff.tail))
	r.completions = unsafe.Slice((*Completion)(at(p.cqOff.completions)), p.cqEntries)
	r.cqHead, r.cqTail = (*atomic.Uint32)(at(p.cqOff.head)), (*atomic.Uint32)(at(p.cqOff.tail))
	r.overflow = (*atomic.Uint32)(at(p.cqOff.overflow))
	return nil
}

func mapped(fd int, offset int64, size int) ([]byte, error) {
	m, err := unix.Mmap(fd, offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("%w: mapping its queues: %w", ErrUnavailable, err)
	}
	return m, nil
}

// Enable starts the ring. Afterwards only the calling thread may use it. The caller has locked its goroutine to the
// thread.
func (r *Ring) Enable() error {
	if err := register(r.fd, registerEnable, nil); err != nil {
		return fmt.Errorf("enabling the ring: %w", err)
	}
	u := ringUpdate{offset: ^uint32(0), data: uint64(r.fd)}
	if register(r.fd, registerRings, unsafe.Pointer(&u)) == nil { // else Enter looks the descriptor up
		r.name = int(u.offset)
	}
	return nil
}

func register(fd, what int, arg unsafe.Pointer) error {
	count := uintptr(1)
	if arg == nil {
		count = 0
	}
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(fd), uintptr(what), uintptr(arg), count, 0,
		0); errno != 0 {
		return errno
	}
	return nil
}

// Submit passes all requests to the kernel, and runs them as far as possible without waiting. It receives nothing.
func (r *Ring) Submit() {
	for r.filled != r.told {
		r.enter(0, 0, false)
	}
}

// Enter does what Submit does, and then receives. With wait it returns when there is a completion, or after a signal.
//
// wait keeps the scheduler's processor, and giving gives the processor to other goroutines meanwhile: see the caller.
func (r *Ring) Enter(wait, giving bool) {
	least := uintptr(0)
	if wait {
		least = 1
	}
	r.enter(least, enterGetEvents, giving)
	r.Submit()
}

func (r *Ring) enter(least, flags uintptr, giving bool) {
	r.sqTail.Store(r.filled)
	name := uintptr(r.fd)
	if r.name >= 0 {
		name, flags = uintptr(r.name), flags|enterRegistered
	}
	var taken uintptr
	var errno syscall.Errno
	asked := uintptr(r.filled - r.told)
	if giving {
		taken, _, errno = syscall.Syscall6(unix.SYS_IO_URING_ENTER, name, asked, least, flags, 0, 0)
	} else {
		taken, _, errno = syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, name, asked, least, flags, 0, 0)
	}
	if errno == 0 && taken == 0 && asked > 0 { // the name is valid only on this thread: here it is another ring's
		panic("io_uring_enter: another thread uses the ring")
	}
	r.told = r.sqHead.Load()
	invariant.That(r.overflow.Load() == 0, "the kernel has %d completions too many", r.overflow.Load())
	if errno != 0 && errno != unix.EINTR && errno != unix.EAGAIN && errno != unix.EBUSY {
		panic(fmt.Errorf("io_uring_enter: %w", errno)) // only if the ring is not what New made it
	}
}

// Completion removes and returns the next completion.
func (r *Ring) Completion() (c Completion, ok bool) {
	if r.read == r.cqTail.Load() {
		r.cqHead.Store(r.read) // only now, before Enter counts the completions that are there
		return c, false
	}
	c = r.completions[r.read%uint32(len(r.completions))]
	r.read++
	if id, ok := c.Buffer(); ok {
		r.Buffers.take(id)
	}
	return c, true
}

// Ready reports whether there is a completion.
func (r *Ring) Ready() bool { return r.read != r.cqTail.Load() }

// Unread yields the completions that Completion has not returned yet. The caller may change them.
func (r *Ring) Unread(yield func(*Completion) bool) {
	for i, end := r.read, r.cqTail.Load(); i != end; i++ {
		if !yield(&r.completions[i%uint32(len(r.completions))]) {
			return
		}
	}
}

// Close frees the ring, and cancels running requests.
func (r *Ring) Close() {
	_ = unix.Close(r.fd)
	for _, m := range [][]byte{r.queues, r.places} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	r.Buffers.free()
}
