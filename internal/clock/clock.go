// Package clock reads the times the server goes by, as plain integers.
//
// Owner: whoever calls. A turn reads its [Wall] and hands the number on (command.Context.Now); nothing below the core
// reads a clock of its own.
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

// ProcessCPU is the CPU time that all threads of the process have used, in nanoseconds. Costs a system call.
func ProcessCPU() int64 { return cpu(processCPU) }

// ThreadCPU is the CPU time the calling thread has used, in nanoseconds: what a turn cost, whoever else the machine was
// busy for. It means something between two calls on one locked thread. Costs a system call, some 200 ns.
func ThreadCPU() int64 { return cpu(threadCPU) }

func cpu(which uintptr) int64 {
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, which, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0 // a kernel without this clock: everything took no time
	}
	return t.Nano()
}
