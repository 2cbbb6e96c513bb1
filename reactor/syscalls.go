package reactor

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has system calls that never wait. They do not tell the scheduler.
//
// syscall.Syscall lets the runtime take the processor away while the kernel works, which costs more than a nonblocking
// read. So only a call that returns at once may be raw. The one exception is epollWait's.

// receive is recv(2). For a socket it does the same as read(2), without the layer for files. receive and send save 2 %
// of the CPU of an unpipelined request (TestPongServer under redis-benchmark).
func receive(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)),
		unix.MSG_DONTWAIT, 0, 0)
	runtime.KeepAlive(p)
	return int(n), errno
}

func send(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	runtime.KeepAlive(p)
	return int(n), errno
}

// ringBell wakes the goroutine that waits for an eventfd.
func ringBell(fd int) {
	one := [8]byte{1}
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
}

func readv(fd int, iov []unix.Iovec) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(iov))),
		uintptr(len(iov)))
	runtime.KeepAlive(iov)
	return int(n), errno
}

func writev(fd int, iov []unix.Iovec) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(iov))),
		uintptr(len(iov)))
	runtime.KeepAlive(iov)
	return int(n), errno
}

// epollWait is epoll_wait. A timeout of -1 waits until an event or a signal. See epollHost.wait for when that is sound.
func epollWait(fd int, events []unix.EpollEvent, timeoutMs int) (int, unix.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(timeoutMs), 0, 0)
	runtime.KeepAlive(events)
	return int(n), errno
}
