package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/reactor"
	"spindle/tests/testkit"
)

// The test program is also the server of these tests. With asServer in its environment it runs as a server. With asDeaf
// it takes signals, but never shuts down.
const (
	asServer = "SPINDLE_TEST_SERVER"
	asDeaf   = "SPINDLE_TEST_DEAF"

	nameServer = "SPINDLE_TEST_NAME_SERVER" // with asServer: the address of the name server
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asServer) != "":
		if address := os.Getenv(nameServer); address != "" {
			net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			}}
		}
		os.Exit(Run(os.Args, Manual{}))
	case os.Getenv(asDeaf) != "":
		s := &process.Settings{}
		s.Rows()
		process.WatchSignals(s, logging.New(os.Stdout), func() { fmt.Println("cleaned up") }, func() bool { return false })
		fmt.Println("Ready to accept connections")
		<-time.After(time.Minute)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for another process.
const patience = 20 * time.Second

// A started is a server process of a test.
type started struct {
	t   *testing.T
	cmd *exec.Cmd
	dir string
	out string // the file its output goes to
}

// start runs the server in a new folder, with only a Unix socket and the given options.
func start(t *testing.T, mode, stdin string, options ...string) *started {
	t.Helper()
	s := &started{t: t, dir: t.TempDir()}
	s.out = filepath.Join(s.dir, "out")
	out, err := os.Create(s.out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	options = append([]string{"--port", "0", "--unixsocket", filepath.Join(s.dir, "s"), "--save", ""}, options...)
	s.cmd = exec.Command(os.Args[0], options...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.Stdin = s.dir, out, out, strings.NewReader(stdin)
	s.cmd.Env = append(os.Environ(), mode+"=1")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	return s
}

func (s *started) log() string {
	b, _ := os.ReadFile(s.out)
	return string(b)
}

// await waits until the output holds text.
func (s *started) await(text string) {
	s.t.Helper()
	eventually(s.t, text, func() bool { return strings.Contains(s.log(), text) }, s.log)
}

// exit waits for the end and returns its status.
func (s *started) exit() syscall.WaitStatus {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		s.t.Fatalf("still running:\n%s", s.log())
	}
	return s.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func eventually(t *testing.T, what string, holds func() bool, log func() string) {
	t.Helper()
	if !testkit.Holds(patience, holds) {
		t.Fatalf("%s: not within %v\n%s", what, patience, log())
	}
}

func TestLifeAndTerm(t *testing.T) {
	s := start(t, asServer, "", "--always-show-logo", "yes", "--pidfile", "the.pid",
		"--proc-title-template", "{title} on {unixsocket} {port}",
		"--jemalloc-bg-thread", "no", "--active-defrag-max-scan-fields", "500", "--tls-dh-params-file", "dh.pem",
		"--unsupported-directives", "warn")
	s.await("Ready to accept connections")
	log, pid := s.log(), s.cmd.Process.Pid
	for _, text := range []string{
		fmt.Sprintf(" PID: %d\n", pid), "* Server initialized\n", "Redis version=7.4.1, bits=64,", "* Configuration loaded\n",
		"# WARNING: accepted, but without effect in this version: active-defrag-max-scan-fields, jemalloc-bg-thread\n",
		"# WARNING: tls-dh-params-file has no effect in this version: keys are agreed on by elliptic curves alone\n",
	} {
		if !strings.Contains(log, text) {
			t.Errorf("no %q in\n%s", text, log)
		}
	}
	if strings.Index(log, " PID: ") > strings.Index(log, "Server initialized") {
		t.Error("the logo comes after the initialization")
	}
	if n := strings.Count(log, "Ready to accept connections"); n != 1 {
		t.Errorf("ready %d times", n)
	}
	if b, err := os.ReadFile(filepath.Join(s.dir, "the.pid")); err != nil || string(b) != fmt.Sprintf("%d\n", pid) {
		t.Errorf("pid file: %q, %v", b, err)
	}
	title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if want := os.Args[0] + " on " + filepath.Join(s.dir, "s") + " 0"; err != nil ||
		string(bytes.TrimRight(title, "\x00")) != want {
		t.Errorf("title %q, want %q, %v", title, want, err)
	}
	for _, harmless := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGPIPE, syscall.SIGALRM} {
		_ = s.cmd.Process.Signal(harmless)
	}
	s.await("Received SIGALRM")
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if status := s.exit(); status.ExitStatus() != 0 {
		t.Errorf("ended with %v", status)
	}
	for _, text := range []string{"Received SIGTERM scheduling shutdown...", "User requested shutdown...", "bye bye"} {
		if !strings.Contains(s.log(), text) {
			t.Errorf("no %q in\n%s", text, s.log())
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "the.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the pid file is still there")
	}
}

// TestPidFileOfAnother: a start that fails because another server has the address leaves that server's pid file alone.
// A server that ends does not remove the file that another one has written since.
func TestPidFileOfAnother(t *testing.T) {
	first := start(t, asServer, "", "--pidfile", "the.pid")
	first.await("Ready to accept connections")
	file := filepath.Join(first.dir, "the.pid")
	second := start(t, asServer, "", "--unixsocket", filepath.Join(first.dir, "s"), "--pidfile", file)
	if status := second.exit(); status.ExitStatus() != 1 {
		t.Errorf("the second one ended with %v", status)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != fmt.Sprintf("%d\n", first.cmd.Process.Pid) {
		t.Errorf("pid file: %q, %v", b, err)
	}
	if err := os.WriteFile(file, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Process.Signal(syscall.SIGTERM)
	first.exit()
	if b, err := os.ReadFile(file); err != nil || string(b) != "1\n" {
		t.Errorf("the other one's pid file: %q, %v", b, err)
	}
}

func TestBadConfigEnds(t *testing.T) {
	s := start(t, asServer, "", "--hz", "x")
	if status := s.exit(); status.ExitStatus() != 1 {
		t.Errorf("ended with %v", status)
	}
	want := "\n*** FATAL CONFIG FILE ERROR (Redis 7.4.1) ***\nReading the configuration file, at line 5\n>>> 'hz " +
		"\"x\"'\nargument couldn't be parsed into an integer\n"
	if s.log() != want {
		t.Errorf("%q", s.log())
	}
}

func TestDaemonize(t *testing.T) {
	s := start(t, asServer, "pidfile the.pid\nlogfile log\n", "--daemonize", "yes", "--dir", ".", "-")
	if status := s.exit(); status.ExitStatus() != 0 {
		t.Fatalf("the first process ended with %v:\n%s", status, s.log())
	}
	s.out = filepath.Join(s.dir, "log")
	s.await("Ready to accept connections")
	b, err := os.ReadFile(filepath.Join(s.dir, "the.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	if session, err := unix.Getsid(pid); err != nil || session != pid || pid == s.cmd.Process.Pid {
		t.Errorf("session %d of process %d: %v", session, pid, err)
	}
	for fd := range 3 {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); to != os.DevNull {
			t.Errorf("descriptor %d is %s, %v", fd, to, err)
		}
	}
	if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); strings.Contains(string(env), process.DaemonMark) {
		t.Log("the mark is gone from os.Environ, not from the kernel's first picture of it: fine")
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	s.await("bye bye")
}

// TestTwoInterrupts: after a second interrupt the process does not wait.
func TestTwoInterrupts(t *testing.T) {
	s := start(t, asDeaf, "")
	s.await("Ready")
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	s.await("Received SIGINT scheduling shutdown...")
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	if status := s.exit(); status.ExitStatus() != 1 {
		t.Errorf("ended with %v", status)
	}
	if log := s.log(); !strings.Contains(log, "You insist... exiting now.\ncleaned up\n") {
		t.Error(log)
	}
}

// TestCrashReport: a crash signal is reported, and still ends the process.
func TestCrashReport(t *testing.T) {
	s := start(t, asDeaf, "")
	s.await("Ready")
	_ = s.cmd.Process.Signal(syscall.SIGSEGV)
	if status := s.exit(); !status.Signaled() && status.ExitStatus() != 2 {
		t.Errorf("ended with %v", status)
	}
	for _, text := range []string{"=== REDIS BUG REPORT START",
		"crashed by signal: 11", "goroutine ", "=== REDIS BUG REPORT END"} {
		if !strings.Contains(s.log(), text) {
			t.Errorf("no %q in\n%s", text, s.log())
		}
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		argv []string
		code int
		out  string // of standard output and error together
	}{
		{[]string{"s", "--version"}, 0, "Redis server v=7.4.1 sha="},
		{[]string{"s", "--check-system"}, -1, "[slow-clocksource]..."},
		{[]string{"s", "doctor", "--maxmemory", "900000gb"}, 1, "PROBLEM  memory"},
		{[]string{"s", "doctor", "--maxmemory", "900000gigs"}, 1, "argument must be a memory value"},
		{[]string{"s", "--test-memory", "5"}, 1, "memtest86"},
	} {
		var out bytes.Buffer
		code, done := answer(config.ParseArguments(c.argv), Manual{}, nil, &out, &out)
		if !done || c.code >= 0 && code != c.code || !strings.HasPrefix(out.String(), c.out) &&
			!strings.Contains(out.String(), c.out) {
			t.Errorf("%v: %d, %v, %s", c.argv, code, done, &out)
		}
	}
	if _, done := answer(config.ParseArguments([]string{"s", "--port", "1"}), Manual{}, nil, nil, nil); done {
		t.Error("a server is not started")
	}
}

// TestReservedFiles counts the descriptors that are reserved in addition to those of clients.
func TestReservedFiles(t *testing.T) {
	in, err := newInstance(logging.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	most := uint64(reactor.MostLoops())
	if n := in.own.files(&in.sockets, false); n != process.ReservedFiles+(most-1)*process.FilesPerLoop {
		t.Errorf("%d descriptors beside clients and up to %d loops", n, most)
	}
	if _, err := in.registry.Load("io-threads", []string{"1"}); err != nil {
		t.Fatal(err)
	}
	if n := in.own.files(&in.sockets, false); n != process.ReservedFiles {
		t.Errorf("%d descriptors beside clients", n)
	}
	in.sockets.Loops.Set(8)
	if n := in.own.files(&in.sockets, false); n != process.ReservedFiles+7*process.FilesPerLoop {
		t.Errorf("%d descriptors beside clients and eight loops", n)
	}
}
