package process

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// A Finding is the result of one check of the host.
type Finding struct {
	Name    string // of the check, such as "swap"
	Verdict Verdict
	Sees    string // the facts that were found
	Change  string // what to change. Empty: nothing
	Why     string // why to change it
}

// A Verdict says how well the host suits the server.
type Verdict int

const (
	Fine    Verdict = iota
	Unknown         // the host does not say
	Advice          // the server would run better with a change
	Problem         // the server would fail, or lose data
)

var verdicts = [...]string{Fine: "ok", Unknown: "unknown", Advice: "advice", Problem: "PROBLEM"}

func (v Verdict) String() string { return verdicts[v] }

// A host is what checks read. A test can pass another one.
type host struct {
	files fs.FS // the root: "proc/sys/vm/swappiness"
	limit func(resource int) (unix.Rlimit, error)
	clock func() (state int, err error) // as adjtimex returns it
	root  bool                          // the process may raise limits
}

// thisHost returns the host on which the process runs.
func thisHost() host {
	return host{
		files: os.DirFS("/"),
		limit: func(resource int) (limit unix.Rlimit, err error) {
			err = unix.Getrlimit(resource, &limit)
			return limit, err
		},
		clock: func() (int, error) { return unix.Adjtimex(&unix.Timex{}) },
		root:  os.Getuid() == 0,
	}
}

// text returns the contents of a file without the white space around them, or "" if it cannot be read.
func (h host) text(path string) string {
	b, _ := fs.ReadFile(h.files, path)
	return string(bytes.TrimSpace(b))
}

// number returns the number in a file. known is false if there is none.
func (h host) number(path string) (n int64, known bool) {
	n, err := strconv.ParseInt(h.text(path), 10, 64)
	return n, err == nil
}

// CheckSystem runs --check-system: it prints redis-server's checks and their results. The exit code is 1 if any check
// found a problem.
func CheckSystem(w io.Writer) (code int) {
	h := thisHost()
	for _, f := range []Finding{checkClock(h), checkXenClock(h), checkOvercommit(h), checkHugePages(h)} {
		result := "OK"
		switch {
		case f.Change != "":
			result = "WARNING:\n" + f.sentences()
			code = 1
		case f.Verdict == Unknown:
			result = "skipped"
		}
		_, _ = fmt.Fprintf(w, "[%s]...%s\n", f.Name, result)
	}
	return code
}

// sentences returns a finding as a line of the log.
func (f Finding) sentences() string { return f.Sees + ": " + f.Why + ". What to do: " + f.Change + "." }

// WarnOfHost logs a warning about kernel settings that hurt a server.
func WarnOfHost(log *logging.Logger) {
	if f := checkOvercommit(thisHost()); f.Change != "" {
		log.Warning("WARNING %s", f.sentences())
	}
}

// WarnOfFolder logs a warning if this process may not create files in the current folder, which has the data set.
func WarnOfFolder(log *logging.Logger) {
	if err := unix.Faccessat(unix.AT_FDCWD, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		name, _ := os.Getwd()
		log.Warning("WARNING No file can be created in the folder %s: %s. Saves will fail, and writes are refused then. "+
			"Let the user of this server write to it, or set dir", name, reason.Of(err))
	}
}

const clockFolder = "sys/devices/system/clocksource/clocksource0/"

// checkClock reads the clock for 50 ms and measures the time spent in the kernel. A good clock needs no kernel.
func checkClock(h host) Finding {
	f := Finding{Name: "slow-clocksource", Verdict: Unknown, Sees: "the kernel does not say what reading the time costs"}
	var before, after unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &before) != nil {
		return f
	}
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
	}
	if unix.Getrusage(unix.RUSAGE_SELF, &after) != nil {
		return f
	}
	kernel := after.Stime.Nano() - before.Stime.Nano()
	user := after.Utime.Nano() - before.Utime.Nano()
	source := h.text(clockFolder + "current_clocksource")
	f.Sees = fmt.Sprintf("the clock source is %q", source)
	if source == "tsc" || kernel*10 <= kernel+user { // on a busy host interrupts are time in the kernel, too
		f.Verdict = Fine
		return f
	}
	f.Verdict = Advice
	f.Change = "choose one of " + h.text(clockFolder+"available_clocksource") + "; tsc is the fast one"
	f.Why = "reading the time goes through the kernel, and each batch of requests reads it"
	return f
}

func checkXenClock(h host) Finding {
	f := Finding{Name: "xen-clocksource", Verdict: Unknown}
	switch h.text(clockFolder + "current_clocksource") {
	case "":
	case "xen":
		f.Verdict, f.Sees = Advice, "the clock source is xen"
		f.Change, f.Why = "see the check slow-clocksource", "it is slow on many hosts"
	default:
		f.Verdict = Fine
	}
	return f
}

// checkOvercommit checks vm.overcommit_memory. Saving copies no memory, but the heap reserves addresses.
func checkOvercommit(h host) Finding {
	f := Finding{Name: "overcommit", Verdict: Unknown, Sees: "vm.overcommit_memory cannot be read"}
	mode, known := h.number("proc/sys/vm/overcommit_memory")
	if !known {
		return f
	}
	f.Verdict, f.Sees = Fine, fmt.Sprintf("vm.overcommit_memory is %d", mode)
	if mode == 2 {
		f.Verdict = Problem
		f.Change = "set vm.overcommit_memory to 0 or 1 in /etc/sysctl.d"
		f.Why = "the kernel refuses to reserve more addresses than it has memory, so the heap may find no room to grow"
	}
	return f
}

// checkHugePages tells of transparent huge pages. The server uses none unless disable-thp is no.
func checkHugePages(h host) Finding {
	const path = "sys/kernel/mm/transparent_hugepage/enabled"
	f := Finding{Name: "THP", Verdict: Unknown, Sees: "the kernel has no transparent huge pages"}
	_, mode, found := strings.Cut(h.text(path), "[")
	if !found {
		return f
	}
	mode, _, _ = strings.Cut(mode, "]")
	f.Verdict, f.Sees = Fine, "transparent huge pages: "+mode
	return f
}
