package process

import (
	"bufio"
	"encoding/json"
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

// Stalls are the moments in which a core was taken from everyone: what a real-time thread that asks to be woken every millisecond sees
// of it. No server can answer within such a moment, so they stand beside every longest turn.
type Stalls struct {
	Longest  time.Duration // beyond the time it asked for
	Over1ms  int
	Wakes    int
	RealTime bool // false: it had to queue with the others, so what it saw may be the server itself
}

// StallArg is the hidden subcommand by which the bench runs itself as the watcher.
const StallArg = "stall-watch"

// A StallWatch is a watcher at work.
type StallWatch struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// WatchStalls starts a watcher on the given core. It costs that core about 0.3 %.
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
	return &StallWatch{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
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
	var s Stalls
	param := struct{ priority int32 }{1}
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, unix.SCHED_FIFO, uintptr(unsafe.Pointer(&param)))
	s.RealTime = errno == 0
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("timer slack: %w", err)
	}
	begin := time.Now()
	for {
		select {
		case <-ended:
			return json.NewEncoder(out).Encode(s)
		default:
		}
		before := time.Since(begin)
		ts := unix.NsecToTimespec(int64(time.Millisecond))
		unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
		late := time.Since(begin) - before - time.Millisecond
		s.Wakes++
		s.Longest = max(s.Longest, late)
		if late > time.Millisecond {
			s.Over1ms++
		}
	}
}
