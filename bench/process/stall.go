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

// Stalls are what the machine does to everyone on a core: what a real-time thread that asks to be woken every half a
// millisecond, and then reads a few words of its own memory, sees of it. No server can answer within such a moment, so
// they stand beside every longest turn.
//
// Two kinds. The core runs nobody who is due: a hypervisor has it, which may or may not count as CPU time of whoever
// was on it, or, where the kernel is not preemptible, the kernel works on somebody's behalf, the server's too. Or
// memory that is resident answers late, as under a hypervisor that moves pages: that counts as CPU time of whoever
// reads it.
type Stalls struct {
	Longest  time.Duration // the core's: beyond the time it asked for
	Memory   time.Duration // CPU time of the slowest handful of reads
	Over1ms  int
	Gaps     []Gap // of the core, from gapMin on, in order
	Wakes    int
	RealTime bool // false: it had to queue with the others, so what it saw may be the server itself
}

// A Gap is when the core ran nobody who was due, in Unix µs: what is seen of it, from the watcher's time to wake on.
type Gap struct{ From, To int64 }

// gapMin is what is worth noting.
const gapMin = 50 * time.Microsecond

// StallArg is the hidden subcommand by which the bench runs itself as the watcher.
const StallArg = "stall-watch"

// A StallWatch is a watcher at work.
type StallWatch struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// WatchStalls starts a watcher on the given core. It costs that core about 2 %, and 256 MB.
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

// Stop ends the watcher and says what it saw.
func (w *StallWatch) Stop() (s Stalls, err error) {
	w.in.Close()
	err = json.NewDecoder(w.out).Decode(&s)
	if waitErr := Wait(w.cmd); err == nil {
		err = waitErr
	}
	return s, err
}

// StallMain is the watcher: it runs until its input ends.
func StallMain(in io.Reader, out io.Writer) error {
	debug.SetGCPercent(-1)
	ended := make(chan struct{})
	runtime.GOMAXPROCS(2)
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end is the message, however it ends
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

// residentMemory has its pages, small ones as most of a server's that has run for a while.
func residentMemory() ([]byte, error) {
	m, err := unix.Mmap(-1, 0, 1<<watchedBits, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE) // refused by kernels that have no huge pages: as well
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
