package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// defaultPidFile is where a daemon writes its PID if pidfile names no place.
const defaultPidFile = "/var/run/redis.pid"

// daemonMark is set in the environment of the process that daemonize has started. Its value is the PID that started it.
const daemonMark = "SPINDLE_DAEMON"

// startDir is where the process was started: dir changes the working directory, and the daemon begins again from here.
var startDir, _ = os.Getwd()

// IsDaemon says that this process is the one Daemonize has started.
func IsDaemon() bool {
	parent, err := strconv.Atoi(os.Getenv(daemonMark))
	return err == nil && parent != os.Getpid()
}

// Daemonize starts this program again in a session of its own, with nothing to read or write but what is configured,
// and leaves the caller to exit with 0. A Go process cannot go on after fork(2) alone: its other threads would be
// missing.
//
// stdin is the configuration that was read from standard input, which the new process reads again; nil if there was
// none.
func Daemonize(argv []string, stdin []byte) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	input := null
	if stdin != nil {
		fd, err := unix.MemfdCreate("configuration", unix.MFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("memfd_create: %w", err)
		}
		input = os.NewFile(uintptr(fd), "configuration")
		defer func() { _ = input.Close() }()
		if _, err := input.Write(stdin); err != nil {
			return err
		}
		if _, err := input.Seek(0, 0); err != nil {
			return err
		}
	}
	daemon := exec.Cmd{
		Path: "/proc/self/exe", Args: argv, Dir: startDir,
		Env:   append(os.Environ(), fmt.Sprintf("%s=%d", daemonMark, os.Getpid())),
		Stdin: input, Stdout: null, Stderr: null,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if self, err := os.Readlink("/proc/self/exe"); err == nil {
		daemon.Path = self // so that ps and the log name the program
	}
	return daemon.Start()
}

// Settle finishes what Daemonize began, in the new process: no child of ours shall take itself for a daemon, and
// standard input is nothing.
func Settle() error {
	if !IsDaemon() {
		return nil
	}
	if err := os.Unsetenv(daemonMark); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	return unix.Dup2(int(null.Fd()), int(os.Stdin.Fd()))
}

// WritePidFile writes the PID where the settings say, or at the default place for a daemon. A place that cannot be
// written is a warning, no more. The path it returns is what removePidFile takes; empty if none is asked for.
func WritePidFile(s *ProcessSettings, daemon bool, log *logging.Logger) string {
	path := s.PidFile.Get()
	if path == "" {
		if !daemon {
			return ""
		}
		path = defaultPidFile
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o666); err != nil {
		log.Warning("Failed to write PID file: %s", reason.Of(err))
	}
	return path
}

// removePidFile takes away what WritePidFile wrote. path may be empty.
func removePidFile(path string) {
	if path != "" {
		_ = os.Remove(path)
	}
}

// Supervisor is who watches over the process, if anyone does: an init system that wants to hear of its state.
// Any goroutine may tell it something.
type Supervisor struct {
	mode supervision
	log  *logging.Logger

	mu     sync.Mutex
	status string // what the server is about, beside what is under way; behind STATUS=
}

// Supervise finds the supervisor that the settings name, or that is there if they say auto. A supervised process does
// not daemonize.
func Supervise(s *ProcessSettings, log *logging.Logger) *Supervisor {
	v := &Supervisor{mode: s.Supervised.Get(), log: log}
	if v.mode == supervisedAuto {
		switch {
		case os.Getenv("UPSTART_JOB") != "":
			v.mode = supervisedUpstart
		case os.Getenv("NOTIFY_SOCKET") != "":
			v.mode = supervisedSystemd
		default:
			v.mode = supervisedNo
		}
	}
	switch v.mode {
	case supervisedUpstart:
		if os.Getenv("UPSTART_JOB") == "" {
			log.Warning("upstart supervision requested, but UPSTART_JOB not found!")
			v.mode = supervisedNo
			break
		}
		log.Notice("supervised by upstart, will stop to signal readiness.")
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		_ = os.Unsetenv("UPSTART_JOB")
	case supervisedSystemd:
		if os.Getenv("NOTIFY_SOCKET") == "" {
			log.Warning("systemd supervision requested or auto-detected, but Redis is compiled without libsystemd support or " +
				"NOTIFY_SOCKET not found!")
			v.mode = supervisedNo
			break
		}
		log.Notice("Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and " +
			"TimeoutStopSec in your service unit.")
		v.Status("Redis is loading...", "")
	}
	return v
}

// Active says that somebody supervises.
func (v *Supervisor) Active() bool { return v != nil && v.mode != supervisedNo }

// Ready tells that clients are welcome.
func (v *Supervisor) Ready() { v.Status("Ready to accept connections", "READY=1\n") }

// Stopping tells that a shutdown has begun.
func (v *Supervisor) Stopping() { v.Tell("STOPPING=1\n") }

// Status tells what the server is about from now on. more are further lines.
func (v *Supervisor) Status(text, more string) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.status = text
	v.Tell("STATUS=" + text + "\n" + more)
}

// Underway tells how far something long has come. Empty: it is over, and the status before holds again.
// moves says that it came further since the last time: systemd then waits for another stallTime.
func (v *Supervisor) Underway(text string, moves bool) {
	if !v.Active() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if text == "" {
		text = v.status
	}
	text = "STATUS=" + text + "\n"
	if moves {
		text += fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\n", stallTime.Microseconds())
	}
	v.Tell(text)
}

// stallTime is how long a load or a last save may stand still before systemd gives the process up.
const stallTime = time.Minute

// Tell sends lines of systemd's notification protocol: STATUS=text, READY=1, STOPPING=1.
func (v *Supervisor) Tell(state string) {
	if v == nil || v.mode != supervisedSystemd {
		return
	}
	if err := notify(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		v.log.Warning("systemd supervision error: sd_notify: %s", reason.Of(err))
	}
}

// notify sends state as one datagram. A path that begins with @ is an abstract socket.
func notify(path, state string) error {
	if path == "" {
		return errors.New("NOTIFY_SOCKET not found!")
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}

// PinProcess keeps every thread of the process, and those to come, on the processors of server-cpulist: "0,2-5,8-14:2".
func PinProcess(s *ProcessSettings, log *logging.Logger) {
	list := s.ServerCPUs.Get()
	if list == "" {
		return
	}
	set, ok := parseCPUs(list)
	if !ok {
		log.Warning("server-cpulist '%s' is not a list of processors such as 0,2-5,8-14:2", list)
		return
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		log.Warning("Can't set the processors of server-cpulist: %s", reason.Of(err))
		return
	}
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			log.Warning("Can't set the processors of server-cpulist: %s", reason.Of(err))
			return
		}
	}
}

// parseCPUs reads comma-separated processors and ranges; a range may have a step.
func parseCPUs(list string) (set unix.CPUSet, ok bool) {
	for part := range strings.SplitSeq(list, ",") {
		span, stepText, hasStep := strings.Cut(part, ":")
		firstText, lastText, isRange := strings.Cut(span, "-")
		first, err := strconv.Atoi(firstText)
		last, step := first, 1
		if isRange && err == nil {
			last, err = strconv.Atoi(lastText)
		}
		if hasStep && err == nil {
			step, err = strconv.Atoi(stepText)
		}
		if err != nil || first < 0 || last < first || last > 1023 || step < 1 {
			return set, false
		}
		for cpu := first; cpu <= last; cpu += step {
			set.Set(cpu)
		}
	}
	return set, true
}
