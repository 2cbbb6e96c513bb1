package server

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Answer does what a command line asks other than to serve: it says which version this is, or whether the host suits
// it. done is false if the process is to do something else.
func Answer(args Arguments, stdout, stderr io.Writer) (code int, done bool) {
	switch args.Task {
	case TaskVersion:
		_, _ = io.WriteString(stdout, VersionText())
		return 0, true
	case TaskCheckSystem:
		return checkSystem(stdout), true
	case TaskTestMemory:
		_, _ = io.WriteString(stderr,
			"spindle has no memory test: start memtest86+ instead, which also sees what the system keeps for itself.\n")
		return 1, true
	}
	return 0, false
}

// VersionText is what --version prints: a line that tools read, and our own.
func VersionText() string {
	sha, modified := Revision()
	return fmt.Sprintf("Redis server v=%s sha=%s:%d malloc=spindle bits=64 build=%s\nspindle v=%s\n",
		RedisVersion, sha, asInt(modified), BuildID(), Version)
}

// A hostCheck looks at one thing of the host. ok is false if it hurts, and text says how; otherwise text is what
// --check-system prints.
type hostCheck struct {
	name string
	run  func() (text string, ok bool)
}

// What a check says if nothing is wrong, or the host does not tell.
const (
	checkFine    = "OK"
	checkSkipped = "skipped"
)

var hostChecks = []hostCheck{
	{"slow-clocksource", checkClock},
	{"xen-clocksource", checkXenClock},
	{"overcommit", checkOvercommit},
	{"THP", checkHugePages},
}

// checkSystem prints each check and its outcome; the exit code is 1 if any found a problem.
func checkSystem(w io.Writer) (code int) {
	for _, c := range hostChecks {
		text, ok := c.run()
		if !ok {
			text = "WARNING:\n" + text
			code = 1
		}
		_, _ = fmt.Fprintf(w, "[%s]...%s\n", c.name, text)
	}
	return code
}

const clockSource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// checkClock reads the clock for 50 ms and looks at where the time went: a good clock is read without the kernel.
func checkClock() (string, bool) {
	var before, after unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &before) != nil {
		return checkSkipped, true
	}
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
	}
	if unix.Getrusage(unix.RUSAGE_SELF, &after) != nil {
		return checkSkipped, true
	}
	kernel := after.Stime.Nano() - before.Stime.Nano()
	user := after.Utime.Nano() - before.Utime.Nano()
	if kernel*10 <= kernel+user {
		return checkFine, true
	}
	source, _ := os.ReadFile(clockSource)
	return fmt.Sprintf("Reading the time goes through the kernel with the clock source %q, which costs every batch. See "+
		"available_clocksource "+
		"beside %s; tsc is the fast one where it is offered.", bytes.TrimSpace(source), clockSource), false
}

func checkXenClock() (string, bool) {
	source, err := os.ReadFile(clockSource)
	if err != nil {
		return checkSkipped, true
	}
	if string(bytes.TrimSpace(source)) == "xen" {
		return "The clock source is xen, which is slow on many hosts; see the check slow-clocksource.", false
	}
	return checkFine, true
}

// checkOvercommit: saving needs no second copy of memory, but the reservation of the heap needs the kernel to allow it.
func checkOvercommit() (string, bool) {
	mode, err := readNumber("/proc/sys/vm/overcommit_memory")
	if err != nil {
		return checkSkipped, true
	}
	if mode == 2 {
		return "vm.overcommit_memory is 2: the kernel refuses to reserve more addresses than it has memory, so the heap " +
			"may not find room to grow. " +
			"Set it to 0 or 1 in /etc/sysctl.conf.", false
	}
	return checkFine, true
}

// checkHugePages: nothing is forked, so huge pages only help.
func checkHugePages() (string, bool) {
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		return checkSkipped, true
	}
	if strings.Contains(string(enabled), "[never]") {
		return "Transparent huge pages are off: lookups among many keys cost about a tenth more. " +
			"Set /sys/kernel/mm/transparent_hugepage/enabled to madvise.", false
	}
	return checkFine, true
}
