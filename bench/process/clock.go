package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the CPU time of all threads of a process, in user and kernel mode together. It includes threads that
// have ended.
//
// It reads the process's CPU clock, which counts nanoseconds. utime and stime of /proc/pid/stat have the same sum in
// units of 10 ms.
func CPUTime(pid int) (time.Duration, error) {
	var ts unix.Timespec
	const sched = 2 // CPUCLOCK_SCHED
	if err := unix.ClockGettime(int32(^pid)<<3|sched, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// Ticks returns a process's user and kernel time from /proc/pid/stat, in units of 10 ms.
func Ticks(pid int) (user, kernel time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(string(text))
}

func parseStat(text string) (user, kernel time.Duration, err error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name in brackets may contain anything
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("stat has %d fields", len(fields))
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux we run on
	u, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, 0, err
	}
	k, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(u) * tick, time.Duration(k) * tick, err
}

// RunDelay returns how long the process's threads were ready but not running, because other threads of this or other
// processes ran.
func RunDelay(pid int) (total time.Duration) {
	for _, tid := range threads(strconv.Itoa(pid)) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
		if err != nil {
			continue // the thread has just ended
		}
		if fields := strings.Fields(string(text)); len(fields) == 3 {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			total += time.Duration(n)
		}
	}
	return total
}

// Steal returns the time during which the hypervisor used our cores for others, summed over all cores.
func Steal() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if fields := strings.Fields(line); len(fields) > 8 && fields[0] == "cpu" {
		n, _ := strconv.ParseInt(fields[8], 10, 64)
		return time.Duration(n) * 10 * time.Millisecond
	}
	return 0
}

func threads(process string) (tids []int) {
	entries, err := os.ReadDir("/proc/" + process + "/task")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}
