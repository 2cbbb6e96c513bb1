package process

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"spindle/tests/testkit"
)

// TestBackends: a server with each reactor-backend replies to clients, and INFO names the multiplexing call of the
// backend.
func TestBackends(t *testing.T) {
	for _, name := range []string{"gnet", "epoll", "io_uring", "netpoll"} {
		s := testkit.Start(t, "--reactor-backend", name)
		polls := "epoll"
		if name == "io_uring" && !strings.Contains(s.Log(), "cannot be had") {
			polls = name
		}
		if got := s.Info("server")["multiplexing_api"]; got != polls {
			t.Errorf("%s: INFO has %q, want %q", name, got, polls)
		}
		s.Terminate()
	}
}

// TestForbiddenIOUring: where io_uring is forbidden, as in containers, the log says so once, and the server uses gnet.
func TestForbiddenIOUring(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(forbidden, testkit.Spindle(t))
	s := testkit.Launch(t, testkit.Spec{Program: self, Args: []string{"--reactor-backend", "io_uring"}})
	if s.Do("PING").Text != "PONG" {
		t.Error("no answer")
	}
	log := s.Log()
	const line = "reactor-backend io_uring cannot be had: io_uring is not available: io_uring_setup: operation not permitted. " +
		"gnet serves instead."
	if n := strings.Count(log, line); n != 1 {
		t.Errorf("the log has the line %d times:\n%s", n, log)
	}
	if got := s.Info("server")["multiplexing_api"]; got != "epoll" {
		t.Errorf("INFO has %q", got)
	}
}

// forbidden is an environment variable. It names the program that this test binary becomes, without the right to use
// io_uring.
const forbidden = "TEST_WITHOUT_IO_URING"

// becomeForbidden makes the kernel refuse io_uring_setup, and replaces this process by program. It returns only on an
// error.
func becomeForbidden(program string) error {
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_IO_URING_SETUP, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return err
	}
	os.Unsetenv(forbidden)
	return unix.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
}
