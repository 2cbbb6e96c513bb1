// Package clock reads the three times the server goes by, as plain integers.
//
// Owner: whoever calls. A turn reads the wall clock once and hands the number on (command.Context.Now); nothing
// below the core reads a clock of its own.
// Never: allocates.
// Start here.
package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// started anchors Mono: the first instant it counts from.
var started = time.Now()

// Unix is the wall clock in milliseconds: deadlines, CLIENT LIST. It may jump.
func Unix() int64 { return time.Now().UnixMilli() }

// UnixUs is the wall clock in microseconds: TIME, command times.
func UnixUs() int64 { return time.Now().UnixMicro() }

// Mono is nanoseconds since the process began, never going back: durations, waits, pacing.
func Mono() int64 { return int64(time.Since(started)) }

// ThreadCPU is the CPU time the calling thread has used, in nanoseconds: what a turn cost, whoever else the machine was busy for.
// It means something between two calls on one locked thread. Costs a system call, some 200 ns.
func ThreadCPU() int64 { return read(3) } // CLOCK_THREAD_CPUTIME_ID

// ProcessCPU is the CPU time all threads have used, in nanoseconds.
func ProcessCPU() int64 { return read(2) } // CLOCK_PROCESS_CPUTIME_ID

func read(clock uintptr) int64 {
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0 // a kernel without this clock: everything took no time
	}
	return t.Nano()
}

// LRU is the 24-bit clock a key is stamped with under an LRU policy: seconds, wrapping after 194 days.
func LRU(unixMs int64) uint32 { return uint32(unixMs/1000) & (1<<24 - 1) }

// LRUIdle is how long ago stamp was, in milliseconds, one wrap at most considered.
func LRUIdle(unixMs int64, stamp uint32) int64 {
	return int64((LRU(unixMs)-stamp)&(1<<24-1)) * 1000
}

// Minutes is the 16-bit clock of the LFU policies: minutes, wrapping after 45 days.
func Minutes(unixMs int64) uint16 { return uint16(unixMs / 60_000) }
