package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stalls has the machine's stalls on one core. A real-time thread observes them. It wakes up every half a millisecond
// and then reads a few words of its memory. No server can reply during a stall, so stalls are shown next to every
// longest turn.
//
// There are two kinds. In the first, no thread runs that should run. A hypervisor uses the core, or a kernel that is
// not preemptible works for some process, perhaps for the server. This may or may not count as CPU time of the thread
// that was running. In the second, reads of resident memory take long, as under a hypervisor that moves pages. That
// counts as CPU time of the reading thread.
type Stalls struct {
	Longest  time.Duration // on the core: the delay after the wake-up time
	Memory   time.Duration // CPU time of the slowest few reads
	Over1ms  int
	Gaps     []Gap // of the core, at least gapMin long, in order
	Wakes    int
	RealTime bool // if false, the watcher had no priority, and the server may have caused its stalls
}

// A Gap is a time, in Unix µs, in which no thread ran that should run. The watcher measures it from its wake-up time.
type Gap struct{ From, To int64 }

// gapMin is the length of the shortest gap that is recorded.
const gapMin = 50 * time.Microsecond

// StallArg is the hidden subcommand with which the bench runs itself as the watcher.
const StallArg = "stall-watch"

// A StallWatch is a running watcher.
type StallWatch struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// WatchStalls starts a watcher on the given core. The watcher uses about 2 % of that core, and 256 MB.
func WatchStalls(cpus CPUs) (*StallWatch, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, StallArg)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := Start(cmd, cpus); err != nil {
		return nil, err
	}
	w := &StallWatch{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if _, err := w.out.ReadString('\n'); err != nil {
		in.Close()
		return nil, fmt.Errorf("the watcher of stalls did not begin: %w", errors.Join(err, Wait(cmd)))
	}
	return w, nil
}

// Stop ends the watcher and returns its stalls.
func (w *StallWatch) Stop() (s Stalls, err error) {
	w.in.Close()
	err = json.NewDecoder(w.out).Decode(&s)
	if waitErr := Wait(w.cmd); err == nil {
		err = waitErr
	}
	return s, err
}

// StallMain runs the watcher until its input ends.
func StallMain(in io.Reader, out io.Writer) error {
	debug.SetGCPercent(-1)
	ended := make(chan struct{})
	runtime.GOMAXPROCS(2)
	go func() {
		_, _ = io.Copy(io.Discard, in) // the end of the input is the signal to stop
		close(ended)
	}()
	runtime.LockOSThread()
	memory, err := residentMemory()
	if err != nil {
		return err
	}
	var s Stalls
	param := struct{ priority int32 }{1}
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&param)))
	s.RealTime = errno == 0
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("timer slack: %w", err)
	}
	if _, err := fmt.Fprintln(out, "watching"); err != nil {
		return err
	}
	begin, at := time.Now(), uint64(1)
	for {
		select {
		case <-ended:
			return json.NewEncoder(out).Encode(s)
		default:
		}
		before := time.Since(begin)
		ts := unix.NsecToTimespec(int64(wakeEvery))
		unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
		woken := time.Now()
		late := woken.Sub(begin) - before - wakeEvery
		if late >= gapMin {
			s.Gaps = append(s.Gaps, Gap{From: woken.Add(-late).UnixMicro(), To: woken.UnixMicro()})
		}
		s.Wakes++
		s.Longest = max(s.Longest, late)
		if late > time.Millisecond {
			s.Over1ms++
		}
		cpu := threadCPU()
		for range readsAtOnce {
			at = at*6364136223846793005 + 1442695040888963407 // Knuth's MMIX, for its high bits
			touched += memory[at>>(64-watchedBits)]
		}
		s.Memory = max(s.Memory, threadCPU()-cpu)
	}
}

const (
	wakeEvery   = 500 * time.Microsecond
	watchedBits = 28 // 256 MB
	readsAtOnce = 64 // some 10 µs
)

var touched byte // so that the reads are not optimized away

// residentMemory returns resident memory in small pages, like most of a server's memory.
func residentMemory() ([]byte, error) {
	m, err := unix.Mmap(-1, 0, 1<<watchedBits, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE) // an error means a kernel without huge pages, which is fine
	for i := 0; i < len(m); i += 4096 {
		m[i] = 1
	}
	return m, nil
}

func threadCPU() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // cannot fail
	return time.Duration(ts.Nano())
}
