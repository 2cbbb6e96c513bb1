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

	"spindle/internal/logging"
)

// The test's own program is the server of these tests: with asServer in its environment it runs as one, with asDeaf it
// takes signals and never carries out a shutdown.
const (
	asServer = "SPINDLE_TEST_SERVER"
	asDeaf   = "SPINDLE_TEST_DEAF"

	nameServer = "SPINDLE_TEST_NAME_SERVER" // with asServer: the address of whom to ask for names
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
		s := &ProcessSettings{}
		s.Rows()
		WatchSignals(s, logging.New(os.Stdout), func() { fmt.Println("cleaned up") }, func() bool { return false })
		fmt.Println("Ready to accept connections")
		time.Sleep(time.Minute)
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

// start runs the server in a folder of its own, with a Unix socket alone, and the given options.
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
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: waited in vain\n%s", what, log())
		}
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
	if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); strings.Contains(string(env), daemonMark) {
		t.Log("the mark is gone from os.Environ, not from the kernel's first picture of it: fine")
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	s.await("bye bye")
}

// TestTwoInterrupts: the second one does not wait.
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

// TestCrashReport: a signal of a crash is reported, and still ends the process.
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

// TestSystemd speaks to a supervisor over a path and over an abstract name.
func TestSystemd(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "n"), fmt.Sprintf("@spindle-test-%d", os.Getpid())} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", name)
		s := &ProcessSettings{}
		s.Rows()
		s.Supervised.Set(supervisedAuto)
		v := Supervise(s, logging.New(io.Discard))
		if !v.Active() {
			t.Fatal("nobody supervises")
		}
		v.Ready()
		v.Stopping()
		for _, want := range []string{"STATUS=Redis is loading...\n",
			"STATUS=Ready to accept connections\nREADY=1\n", "STOPPING=1\n"} {
			buf := make([]byte, 100)
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			if n, err := conn.Read(buf); err != nil || string(buf[:n]) != want {
				t.Errorf("%q, %v; want %q", buf[:n], err, want)
			}
		}
		_ = conn.Close()
	}
	t.Setenv("NOTIFY_SOCKET", "")
	s := &ProcessSettings{}
	s.Rows()
	for _, mode := range []supervision{supervisedNo, supervisedAuto, supervisedSystemd, supervisedUpstart} {
		s.Supervised.Set(mode)
		if Supervise(s, nil).Active() {
			t.Errorf("mode %d: supervised by nobody", mode)
		}
	}
}

func TestTitle(t *testing.T) {
	title := Title{Program: "spindle", Bind: "1.2.3.4", Port: 5, TLSPort: 6, UnixSocket: "/s", Mode: "[x]"}
	for template, want := range map[string]string{
		"{title} {listen-addr} {server-mode}": "spindle 1.2.3.4:5 [x]",
		" {port}{tls-port} ":                  "56",
		"{config-file} {unixsocket}":          "- /s",
		"{{port} {{":                          "{port} {",
	} {
		if got, ok := title.expand(template); !ok || got != want {
			t.Errorf("%s: %q, %v", template, got, ok)
		}
	}
	for _, wrong := range []string{"{", "{title", "{nosuch}", "{}", "", "  ", "{server-mode}"} {
		if checkTitle(wrong) == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if got := (Title{UnixSocket: "/s"}).listenAddr(); got != "unixsocket:/s" {
		t.Error(got)
	}
}

func TestCPUs(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0,2-5": 5, "0-14:2": 8, "3,3": 1} {
		if set, ok := parseCPUs(list); !ok || set.Count() != want {
			t.Errorf("%s: %d processors, %v", list, set.Count(), ok)
		}
	}
	for _, wrong := range []string{"", "x", "1-", "-1", "5-2", "1:2:3", "0-9999", "0-4:0"} {
		if _, ok := parseCPUs(wrong); ok {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestOpenFiles(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := logging.New(&out)
	if fit, err := FitOpenFiles(10, reservedFiles, log); fit != 10 || err != nil || out.Len() > 0 {
		t.Errorf("%d, %v, %s", fit, err, &out)
	}
	const tooMany = 1 << 40 // past /proc/sys/fs/nr_open
	fit, err := FitOpenFiles(tooMany, reservedFiles, log)
	if err != nil || fit <= 0 || fit >= tooMany {
		t.Fatalf("%d, %v", fit, err)
	}
	for _, text := range []string{"You requested maxclients of 1099511627776 requiring at least 1099511627808 max file " +
		"descriptors.",
		fmt.Sprintf("maxclients has been reduced to %d to compensate for low ulimit", fit)} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in\n%s", text, &out)
		}
	}
	if less, err := FitOpenFiles(tooMany, reservedFiles+28, log); err != nil || less != fit-28 {
		t.Errorf("%d clients beside 28 files more, %d without, %v", less, fit, err)
	}
	in, err := newInstance(log)
	if err != nil {
		t.Fatal(err)
	}
	if n := in.filesBeside(); n != reservedFiles {
		t.Errorf("%d descriptors beside clients", n)
	}
	in.sockets.Loops.Set(8)
	if n := in.filesBeside(); n != reservedFiles+7*filesPerLoop {
		t.Errorf("%d descriptors beside clients and eight loops", n)
	}
	want := fmt.Sprintf("The operating system is not able to handle the specified number of clients, try with %d", fit)
	if err := CheckMaxClients(tooMany, reservedFiles, log); err == nil || err.Error() != want {
		t.Error(err)
	}

	// A refusal changes nothing: the limit stays below the hard one, up to which it might have been raised.
	var best, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &best); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &best)
	lower := unix.Rlimit{Cur: best.Cur - 1, Max: best.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	if err := CheckMaxClients(tooMany, reservedFiles, log); err == nil || err.Error() != want {
		t.Error(err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &after); err != nil || after != lower {
		t.Errorf("the limit is %+v after a refusal, was %+v, %v", after, lower, err)
	}
}

// TestOomScore writes and takes back; raising the score needs no right.
func TestOomScore(t *testing.T) {
	before, err := readNumber(oomFile)
	if err != nil {
		t.Fatal(err)
	}
	s := &ProcessSettings{}
	s.Rows()
	s.OomValues.Set([3]int{1, 2, 3})
	o := NewOomAdjuster(s, nil)
	expect := func(what string, replica bool, want int64) {
		t.Helper()
		if err := o.Apply(replica); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got, _ := readNumber(oomFile); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	expect("no", false, before)
	s.OomScoreAdj.Set(oomRelative)
	expect("relative", true, min(before+2, 1000))
	s.OomScoreAdj.Set(oomLeave)
	expect("back", false, before)
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		argv []string
		code int
		out  string // of standard output and error together
	}{
		{[]string{"s", "--version"}, 0, "Redis server v=7.4.1 sha="},
		{[]string{"s", "--check-system"}, -1, "[slow-clocksource]..."},
		{[]string{"s", "--test-memory", "5"}, 1, "memtest86"},
	} {
		var out bytes.Buffer
		code, done := Answer(ParseArguments(c.argv), &out, &out)
		if !done || c.code >= 0 && code != c.code || !strings.HasPrefix(out.String(), c.out) &&
			!strings.Contains(out.String(), c.out) {
			t.Errorf("%v: %d, %v, %s", c.argv, code, done, &out)
		}
	}
	if _, done := Answer(ParseArguments([]string{"s", "--port", "1"}), nil, nil); done {
		t.Error("a server is not started")
	}
}
