package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Plan is what a configuration needs from the host.
type Plan struct {
	MaxMemory  uint64 // bytes; 0: no limit
	MaxClients int64
	Files      uint64 // open files in addition to those of clients
	Backlog    int64  // tcp-backlog
	Folder     string // of dump.rdb and the append-only file
	Persists   bool   // it saves or logs
	Syncs      bool   // it logs and syncs, at least each second
}

// Doctor checks the host for a server with this plan. It writes a file into the folder to measure a sync, and removes
// it.
func Doctor(p Plan) []Finding { return thisHost().examine(p) }

func (h host) examine(p Plan) (all []Finding) {
	source := checkClock(h)
	source.Name = "clock source"
	all = append(all, source, checkTime(h), checkHugePages(h), checkOvercommit(h), checkAddresses(h),
		checkMemory(h, p), checkSwap(h), checkFiles(h, p), checkBacklog(h, p), checkProcessors(h))
	return append(all, checkFolder(p)...)
}

// Print writes findings, and returns 1 if one of them is a problem.
func Print(w io.Writer, findings []Finding) (code int) {
	for _, f := range findings {
		fmt.Fprintf(w, "%-8s %-17s %s\n", f.Verdict, f.Name, f.Sees)
		if f.Change != "" {
			fmt.Fprintf(w, "%-26s change: %s\n%-26s why:    %s\n", "", f.Change, "", f.Why)
		}
		if f.Verdict == Problem {
			code = 1
		}
	}
	return code
}

// checkTime checks that the host keeps its clock right.
func checkTime(h host) Finding {
	f := Finding{Name: "time", Verdict: Fine, Sees: "the kernel says that the clock is synchronised"}
	const unsynchronised = 5 // TIME_ERROR
	state, err := h.clock()
	switch {
	case err != nil:
		f.Verdict, f.Sees = Unknown, "the kernel does not say whether the clock is synchronised"
	case state == unsynchronised:
		f.Verdict, f.Sees = Advice, "no service keeps the clock right"
		f.Change = "run chrony or systemd-timesyncd"
		f.Why = "keys expire by the clock, and a primary and its replicas must agree on it"
	}
	return f
}

// checkAddresses checks the limits of the address space, because the heap reserves more than it uses.
func checkAddresses(h host) Finding {
	f := Finding{Name: "address space", Verdict: Fine, Sees: "no limit"}
	for _, l := range []struct {
		resource int
		name     string
	}{{unix.RLIMIT_AS, "ulimit -v (LimitAS)"}, {unix.RLIMIT_DATA, "ulimit -d (LimitDATA)"}} {
		limit, err := h.limit(l.resource)
		if err == nil && limit.Cur != unix.RLIM_INFINITY {
			f.Verdict, f.Sees = Problem, fmt.Sprintf("%s is %s", l.name, bytesText(limit.Cur))
			f.Change = "set it to unlimited for the server, and limit the memory by maxmemory"
			f.Why = "the heap reserves many more addresses than it uses memory"
		}
	}
	return f
}

// checkMemory compares maxmemory with the memory that the host and the control group allow.
func checkMemory(h host, p Plan) Finding {
	f := Finding{Name: "memory", Verdict: Unknown, Sees: "the size of the memory cannot be read"}
	total, holder := h.memory()
	if total == 0 {
		return f
	}
	f.Sees = fmt.Sprintf("maxmemory is %s, %s has %s", bytesText(p.MaxMemory), holder, bytesText(total))
	switch {
	case p.MaxMemory == 0:
		f.Verdict, f.Sees = Advice, fmt.Sprintf("maxmemory is not set, %s has %s", holder, bytesText(total))
		f.Change = fmt.Sprintf("set maxmemory, such as %dmb", total/10*7>>20)
		f.Why = "data that grow without a limit end with the kernel killing the server"
	case p.MaxMemory > total:
		f.Verdict = Problem
		f.Change = fmt.Sprintf("set maxmemory to %dmb or less", total/10*7>>20)
		f.Why = "the kernel kills the server before maxmemory has an effect"
	case p.MaxMemory > total/10*8:
		f.Verdict = Advice
		f.Change = fmt.Sprintf("set maxmemory to %dmb or less", total/10*8>>20)
		f.Why = "buffers of clients, saves and full synchronisations need memory beside the data"
	default:
		f.Verdict = Fine
	}
	return f
}

// memory returns how many bytes the process may use, or 0 if that is unknown. holder is what sets this limit.
func (h host) memory() (total uint64, holder string) {
	for line := range strings.Lines(h.text("proc/meminfo")) {
		if rest, is := strings.CutPrefix(line, "MemTotal:"); is {
			kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				total, holder = kb<<10, "the host"
			}
		}
	}
	for _, path := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if most, err := strconv.ParseUint(h.text(path), 10, 64); err == nil && (total == 0 || most < total) {
			total, holder = most, "the control group"
		}
	}
	return total, holder
}

// checkSwap checks whether the kernel uses swap before it must.
func checkSwap(h host) Finding {
	f := Finding{Name: "swap", Verdict: Fine, Sees: "none"}
	var kb uint64
	for i, line := range strings.Split(h.text("proc/swaps"), "\n") {
		if fields := strings.Fields(line); i > 0 && len(fields) > 2 {
			size, _ := strconv.ParseUint(fields[2], 10, 64)
			kb += size
		}
	}
	if kb == 0 {
		return f
	}
	readiness, _ := h.number("proc/sys/vm/swappiness")
	f.Sees = fmt.Sprintf("%s, vm.swappiness is %d", bytesText(kb<<10), readiness)
	if readiness > 10 {
		f.Verdict = Advice
		f.Change = "set vm.swappiness to 1 in /etc/sysctl.d"
		f.Why = "a command that meets data on the disk holds all clients until they are read"
	}
	return f
}

// checkFiles compares the limit of open files with the number that clients need.
func checkFiles(h host, p Plan) Finding {
	f := Finding{Name: "open files", Verdict: Unknown, Sees: "the limit cannot be read"}
	limit, err := h.limit(unix.RLIMIT_NOFILE)
	if err != nil {
		return f
	}
	need := uint64(p.MaxClients) + p.Files
	f.Verdict, f.Sees = Fine, fmt.Sprintf("%d are allowed, %d clients need %d", limit.Max, p.MaxClients, need)
	if limit.Max == unix.RLIM_INFINITY {
		f.Sees = "no limit"
	}
	switch {
	case limit.Max >= need:
	case h.root:
		f.Sees += "; root raises the limit"
	default:
		f.Verdict = Advice
		f.Change = fmt.Sprintf("raise LimitNOFILE of the unit (ulimit -Hn) to %d", need)
		f.Why = "the server otherwise takes fewer clients than maxclients says"
	}
	return f
}

// checkBacklog compares tcp-backlog with the kernel's limit.
func checkBacklog(h host, p Plan) Finding {
	f := Finding{Name: "backlog", Verdict: Unknown, Sees: "net.core.somaxconn cannot be read"}
	most, known := h.number("proc/sys/net/core/somaxconn")
	if !known {
		return f
	}
	f.Verdict, f.Sees = Fine, fmt.Sprintf("net.core.somaxconn is %d, tcp-backlog is %d", most, p.Backlog)
	if most < p.Backlog {
		f.Verdict = Advice
		f.Change = fmt.Sprintf("set net.core.somaxconn to %d in /etc/sysctl.d", p.Backlog)
		f.Why = "in a burst of connections the kernel drops those that find the queue full"
	}
	return f
}

// checkProcessors checks for a control group that allows less than one processor.
func checkProcessors(h host) Finding {
	f := Finding{Name: "processors", Verdict: Fine, Sees: "no quota"}
	quota, period, _ := strings.Cut(h.text("sys/fs/cgroup/cpu.max"), " ")
	if quota == "" {
		quota, period = h.text("sys/fs/cgroup/cpu/cpu.cfs_quota_us"), h.text("sys/fs/cgroup/cpu/cpu.cfs_period_us")
	}
	used, err := strconv.ParseFloat(quota, 64)
	of, wrong := strconv.ParseFloat(period, 64)
	if errors.Join(err, wrong) != nil || used <= 0 || of <= 0 {
		return f
	}
	f.Sees = fmt.Sprintf("the control group allows %.3g processors", used/of)
	if used < 2*of {
		f.Verdict = Advice
		f.Change = "allow two processors, or set no quota"
		f.Why = "a server that has used up its share stops until the next period, and saving runs beside the clients' commands"
	}
	return f
}

// fileSystems are the file systems that are bad for data, by their magic number.
var fileSystems = map[int64]struct {
	name    string
	verdict Verdict
	why     string
}{
	unix.TMPFS_MAGIC:           {"tmpfs", Problem, "its files are gone when the host starts again"},
	unix.RAMFS_MAGIC:           {"ramfs", Problem, "its files are gone when the host starts again"},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", Advice, "its files are gone with the container"},
	unix.NFS_SUPER_MAGIC:       {"NFS", Advice, "a sync waits for another host, and two servers may write the same files"},
	unix.SMB2_SUPER_MAGIC:      {"SMB", Advice, "a sync waits for another host, and two servers may write the same files"},
	unix.CIFS_SUPER_MAGIC: {"CIFS", Advice,
		"a sync waits for another host, and two servers may write the same files"},
	unix.FUSE_SUPER_MAGIC: {"FUSE", Advice, "what a sync promises depends on a program"},
}

// checkFolder checks the folder of the files: that files can be made in it, its file system, its room, and the time of
// a sync.
func checkFolder(p Plan) []Finding {
	if !p.Persists {
		return []Finding{{Name: "folder", Sees: "nothing is saved or logged"}}
	}
	name := p.Folder
	room := Finding{Name: "folder", Verdict: Problem, Change: "create it, or set dir",
		Why: "the server does not start without it"}
	probe, err := os.CreateTemp(name, "temp-doctor-*")
	if err != nil {
		room.Sees = err.Error()
		if errors.Is(err, fs.ErrPermission) {
			room.Change, room.Why = "let this user write to it, or run spindle doctor as the server's user",
				"saves and the log fail"
		}
		return []Finding{room}
	}
	defer func() {
		_ = probe.Close()
		_ = os.Remove(probe.Name())
	}()
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(probe.Fd()), &s); err != nil {
		return []Finding{{Name: "folder", Verdict: Unknown, Sees: name + ": " + err.Error()}}
	}
	free, used := s.Bavail*uint64(s.Bsize), sizeOf(name)
	room = Finding{Name: "folder", Sees: fmt.Sprintf("%s has %s free, its files take %s", name, bytesText(free),
		bytesText(used))}
	if need := max(used, p.MaxMemory); free < need {
		room.Verdict = Advice
		room.Change = fmt.Sprintf("make room for %s", bytesText(need))
		room.Why = "a save and a rewrite write whole new files before they remove the old ones"
	}
	all := []Finding{room}
	if kind, bad := fileSystems[int64(s.Type)]; bad {
		all = append(all, Finding{Name: "file system", Verdict: kind.verdict, Sees: name + " lies on " + kind.name,
			Change: "set dir to a folder on a local disk", Why: kind.why})
	}
	if p.Syncs {
		all = append(all, checkSync(probe))
	}
	return all
}

// sizeOf returns the bytes of the files in folder and one level below it.
func sizeOf(folder string) (sum uint64) {
	for _, pattern := range []string{"*", "*/*"} {
		paths, _ := filepath.Glob(filepath.Join(folder, pattern))
		for _, path := range paths {
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
				sum += uint64(info.Size())
			}
		}
	}
	return sum
}

// checkSync measures how long a sync of a small write takes: the median of 21.
func checkSync(f *os.File) Finding {
	times := make([]time.Duration, 0, 21)
	for range cap(times) {
		began := time.Now()
		_, err := f.Write(make([]byte, 512))
		if err = errors.Join(err, f.Sync()); err != nil {
			return Finding{Name: "sync", Verdict: Problem, Sees: err.Error(), Change: "look at the kernel's log (dmesg)",
				Why: "a log that cannot be synced stops all writes"}
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	median, longest := times[len(times)/2], times[len(times)-1]
	result := Finding{Name: "sync", Sees: fmt.Sprintf("%.2g ms, at most %.2g ms", ms(median), ms(longest))}
	if median > 10*time.Millisecond {
		result.Verdict = Advice
		result.Change = "use a disk with a safe write cache"
		result.Why = "with appendfsync always each group of replies waits for a sync"
	}
	return result
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bytesText returns n with a unit of 1024, such as "7.8 GB".
func bytesText(n uint64) string {
	units := []string{"bytes", "KB", "MB", "GB", "TB", "PB", "EB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.3g %s", value, units[unit])
}
