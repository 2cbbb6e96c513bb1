// Package process is a server as its host sees it. It covers the daemon, the pid file, signals, the log, the title in
// ps, the supervisor, and limits of the kernel. It knows nothing about the data or commands.
//
// Owner: the main goroutine, unless a type says otherwise.
// Start at settings.go, whose rows list everything.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// defaultPidFile is the pid file of a daemon whose settings name none.
const defaultPidFile = "/var/run/redis.pid"

// DaemonMark is set in the environment of the process that Daemonize has started. Its value is the parent's PID.
const DaemonMark = "SPINDLE_DAEMON"

// startDir is the folder in which the process was started. The daemon starts there too, because the setting dir may
// have changed the working directory.
var startDir, _ = os.Getwd()

// IsDaemon reports whether Daemonize has started this process.
func IsDaemon() bool {
	parent, err := strconv.Atoi(os.Getenv(DaemonMark))
	return err == nil && parent != os.Getpid()
}

// Daemonize starts this program again in a new session, without standard input and output. The caller then exits with
// 0. A Go process cannot use fork(2) alone, because the child would lack the other threads.
//
// stdin is the configuration that came on standard input, which the new process reads again. It is nil if there was
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
		Env:   append(os.Environ(), fmt.Sprintf("%s=%d", DaemonMark, os.Getpid())),
		Stdin: input, Stdout: null, Stderr: null,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if self, err := os.Readlink("/proc/self/exe"); err == nil {
		daemon.Path = self // so that ps and the log name the program
	}
	return daemon.Start()
}

// Detach completes Daemonize in the new process: it removes the mark, which children would inherit, and closes standard
// input. In any other process it does nothing.
func Detach() error {
	if !IsDaemon() {
		return nil
	}
	if err := os.Unsetenv(DaemonMark); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	return unix.Dup2(int(null.Fd()), int(os.Stdin.Fd()))
}

func writePidFile(s *Settings, daemon bool, log *logging.Logger) (path string) {
	path = s.PidFile.Get()
	if path == "" {
		if !daemon {
			return ""
		}
		path = defaultPidFile
	}
	if full, err := filepath.Abs(path); err == nil {
		path = full // CONFIG SET dir does not move it
	}
	if err := os.WriteFile(path, []byte(pidText()), 0o666); err != nil {
		log.Warning("Failed to write PID file: %s", reason.Of(err))
	}
	return path
}

// RemovePidFile removes the file of Begun.WritePidFile, unless another process has written it since. path may be empty.
func RemovePidFile(path string) {
	if text, err := os.ReadFile(path); err == nil && string(text) == pidText() {
		_ = os.Remove(path)
	}
}

func pidText() string { return fmt.Sprintf("%d\n", os.Getpid()) }
