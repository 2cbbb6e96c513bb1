package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
)

// A hostCheck checks one property of the host. If the property is bad, ok is false and text says why. Otherwise
// text is the result that --check-system prints.
type hostCheck struct {
	name string
	run  func() (text string, ok bool)
}

// The texts of a check without a problem, and of one that the host does not support.
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

// CheckSystem is --check-system: it prints each check and its result. The exit code is 1 if any found a problem.
func CheckSystem(w io.Writer) (code int) {
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

// checkClock reads the clock for 50 ms and measures the time spent in the kernel. A good clock needs no kernel.
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

// checkOvercommit checks vm.overcommit_memory. Saving copies no memory, but the heap reserves addresses.
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

// checkHugePages checks for transparent huge pages. The server never forks, so they only help.
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

// WarnOfHost logs a warning about kernel settings that hurt a server.
func WarnOfHost(log *logging.Logger) {
	if text, ok := checkOvercommit(); !ok {
		log.Warning("WARNING %s", text)
	}
}
