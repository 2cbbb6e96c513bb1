// Package process starts the bench's children, pins them to cores and reads the kernel's data about them.
//
// Owner: the bench's main goroutine and its samplers; any goroutine may call every function.
// Never: ends a process that it did not start, or finds a process by name.
// Start here; clock.go, memory.go and stall.go read /proc.
package process

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// CPUs is a set of core numbers. An empty set means no pinning.
type CPUs []int

// ParseCPUs parses "0", "0,2" or "0-3". "" and "any" give the empty set.
func ParseCPUs(text string) (CPUs, error) {
	if text == "" || text == "any" {
		return nil, nil
	}
	var cpus CPUs
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil || first < 0 {
			return nil, fmt.Errorf("%q is no list of cores", text)
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil || last < first {
				return nil, fmt.Errorf("%q is no list of cores", text)
			}
		}
		for n := first; n <= last; n++ {
			cpus = append(cpus, n)
		}
	}
	return cpus, nil
}

func (c CPUs) String() string {
	if len(c) == 0 {
		return "any"
	}
	words := make([]string, len(c))
	for i, n := range c {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// set returns the mask of c. For the empty set it returns the mask that this process had at its start.
func (c CPUs) set() unix.CPUSet {
	if len(c) == 0 {
		return everywhere
	}
	var set unix.CPUSet
	for _, n := range c {
		set.Set(n)
	}
	return set
}

var everywhere = func() (set unix.CPUSet) {
	if unix.SchedGetaffinity(0, &set) != nil {
		for n := range runtime.NumCPU() {
			set.Set(n)
		}
	}
	return set
}()

// Available returns the number of cores that this process could use at its start.
func Available() int { return everywhere.Count() }

// Holds reports whether this process may use every core of c.
func (c CPUs) Holds() bool {
	for _, n := range c {
		if !everywhere.IsSet(n) {
			return false
		}
	}
	return true
}

var (
	mu       sync.Mutex
	children = map[int]*exec.Cmd{}
	starts   chan func()
)

// Start starts cmd on the given cores. The kernel kills cmd when this process ends.
//
// The kernel copies the affinity of the starting thread, and sends the death signal when that thread ends. So a single
// thread, which lives as long as the process, starts all children. Every thread of a child inherits its cores.
func Start(cmd *exec.Cmd, cpus CPUs) error {
	mu.Lock()
	if starts == nil {
		starts = make(chan func())
		go starter(starts)
	}
	mu.Unlock()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true // the terminal's ^C is for us: we end the children in order
	done := make(chan error)
	starts <- func() {
		set := cpus.set()
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			done <- fmt.Errorf("pinning %s to core %s: %w", cmd.Path, cpus, err)
			return
		}
		err := cmd.Start()
		if err == nil {
			mu.Lock()
			children[cmd.Process.Pid] = cmd
			mu.Unlock()
		}
		done <- err
	}
	return <-done
}

func starter(starts <-chan func()) {
	runtime.LockOSThread()
	for start := range starts {
		start()
	}
}

// Wait is cmd.Wait for a child that Start has started.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	mu.Lock()
	delete(children, cmd.Process.Pid)
	mu.Unlock()
	return err
}

// KillAll kills every child. It does not wait for their ends.
func KillAll() {
	mu.Lock()
	defer mu.Unlock()
	for _, cmd := range children {
		_ = cmd.Process.Kill() // the child may have just ended
	}
}

// PinSelf pins every current and later thread of this process to cpus.
func PinSelf(cpus CPUs) error {
	if len(cpus) == 0 {
		return nil
	}
	set := cpus.set()
	for range 3 { // a thread created while the list is read is bound in the next round
		for _, tid := range threads("self") {
			if err := unix.SchedSetaffinity(tid, &set); err != nil && err != unix.ESRCH {
				return err
			}
		}
	}
	return nil
}
