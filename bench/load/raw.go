package load

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func rawRead(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}

func rawWrite(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}

// epollWait calls epoll_pwait2, whose timeout is in nanoseconds (Linux 5.11).
func epollWait(epoll int, events []unix.EpollEvent, timeout time.Duration) (int, error) {
	ts := unix.NsecToTimespec(int64(max(timeout, 0)))
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, fmt.Errorf("epoll_pwait2: %w", errno)
	}
	return int(n), nil
}

// goFirst gives the calling thread real-time priority. Without permission it has no effect; then the spread is larger.
func goFirst() {
	param := struct{ priority int32 }{1}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&param)))
}
