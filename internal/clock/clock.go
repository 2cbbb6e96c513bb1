// Package clock reads the server's clocks, as plain integers.
//
// Owner: the caller. A turn reads its [Wall] and passes the time on (command.Context.Now). Nothing below the core reads
// a clock itself.
// Never: allocates.
// Start at wall.go.
package clock

import (
	"syscall"
	"unsafe"
)

// The kernel's clocks of CPU time.
const (
	processCPU = 2 // CLOCK_PROCESS_CPUTIME_ID
	threadCPU  = 3 // CLOCK_THREAD_CPUTIME_ID
)

// ProcessCPU returns the CPU time of all the process's threads, in nanoseconds. It costs a system call.
func ProcessCPU() int64 { return cpu(processCPU) }

// ThreadCPU returns the calling thread's CPU time, in nanoseconds: the cost of a turn, whatever else the machine does.
// Only the difference of two calls on one locked thread has a meaning. It costs a system call, some 200 ns.
func ThreadCPU() int64 { return cpu(threadCPU) }

func cpu(which uintptr) int64 {
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, which, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0 // the kernel lacks this clock: all durations are 0
	}
	return t.Nano()
}
