package reactor

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// System calls that never wait, made without telling the scheduler.
//
// syscall.Syscall lets the runtime take the processor away while the kernel works, which costs more than a nonblocking
// read does. A raw call may therefore only be one that returns at once: sockets here are nonblocking, and epoll_wait
// is raw only with a timeout of zero.

func read(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	runtime.KeepAlive(p)
	return int(n), errno
}

func write(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	runtime.KeepAlive(p)
	return int(n), errno
}

func writev(fd int, iov []unix.Iovec) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov)))
	runtime.KeepAlive(iov)
	return int(n), errno
}

// epollPoll is epoll_wait without waiting.
func epollPoll(fd int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), 0, 0, 0)
	runtime.KeepAlive(events)
	return int(n), errno
}
