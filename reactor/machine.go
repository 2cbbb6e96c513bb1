package reactor

import (
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A machine measures the CPUs that this process may use.
type machine struct {
	at        time.Time
	idle, own time.Duration // so far: of these CPUs, and used by this process
}

// allotted is the number of CPUs that the Go runtime found at start. It knows affinity, cgroups and GOMAXPROCS.
var allotted = runtime.GOMAXPROCS(0)

// mostLoops bounds the number of loops that is chosen without io-threads. Commands run one at a time, so more loops
// gain nothing.
const mostLoops = 16

// MostLoops returns how many loops may be chosen for this process: one for each CPU that it may use, at most mostLoops.
func MostLoops() int { return max(1, min(len(ownCPUs()), int(quota()), mostLoops)) }

// ownCPUs returns the numbers of the CPUs on which this process may run.
func ownCPUs() (cpus []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return []int{0}
	}
	for i := range 64 * len(set) {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// quota returns how many CPUs' time this process may use.
func quota() float64 {
	most := float64(allotted)
	file, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(file)) {
		group, is := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		for ; is; group = path.Dir(group) {
			text, _ := os.ReadFile(path.Join("/sys/fs/cgroup", group, "cpu.max"))
			most = min(most, quotaOf(string(text)))
			is = group != "." && group != "/" && group != ""
		}
	}
	return most
}

// quotaOf returns the CPUs that the text of a cpu.max allows: "150000 100000" is 1.5, and "max 100000" is no limit.
func quotaOf(text string) float64 {
	words := strings.Fields(text)
	if len(words) != 2 {
		return math.Inf(1)
	}
	time, err := strconv.ParseFloat(words[0], 64)
	period, bad := strconv.ParseFloat(words[1], 64)
	if err != nil || bad != nil || period <= 0 {
		return math.Inf(1)
	}
	return time / period
}

// measure returns the CPUs that were idle since the last call, and those that other programs used. ok is false at the
// first call, and if the kernel does not tell.
func (m *machine) measure(now time.Time) (idle, others float64, ok bool) {
	cpus := ownCPUs()
	text, err := os.ReadFile("/proc/stat")
	var used unix.Rusage
	if err != nil || unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0, 0, false
	}
	was := *m
	*m = machine{now, idleTime(string(text), cpus), time.Duration(used.Utime.Nano() + used.Stime.Nano())}
	took := now.Sub(was.at).Seconds()
	if was.at.IsZero() || took <= 0 {
		return 0, 0, false
	}
	idle = min(float64(len(cpus)), (m.idle-was.idle).Seconds()/took)
	own := (m.own - was.own).Seconds() / took
	return max(0, min(idle, quota()-own)), max(0, float64(len(cpus))-idle-own), true
}

// idleTime returns how long the given CPUs have been idle, from the text of /proc/stat:
//
//	cpu0 user nice system idle iowait …    in hundredths of a second
func idleTime(stat string, cpus []int) (idle time.Duration) {
	of := map[string]bool{}
	for _, n := range cpus {
		of["cpu"+strconv.Itoa(n)] = true
	}
	for line := range strings.Lines(stat) {
		words := strings.Fields(line)
		if len(words) < 6 || !of[words[0]] {
			continue
		}
		for _, word := range words[4:6] {
			n, _ := strconv.ParseInt(word, 10, 64)
			idle += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return idle
}
