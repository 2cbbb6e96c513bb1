package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
)

// A Server is one process and its folder. Start, Redis and Launch make them. The process is killed when the test ends.
type Server struct {
	Addr string // 127.0.0.1:port, or the path of a unix socket
	Port int
	Dir  string // its working directory, new and empty at first
	PID  int

	t       testing.TB
	name    string // spindle or redis-server
	program string
	args    []string
	shell   string // run first, in the shell that becomes the server
	logPath string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has been waited for
	exit    error
	mayFail bool

	mu     sync.Mutex
	client *respclient.Client
}

// ReplyTimeout is the time limit for each reply to Do and to Dial's clients.
const ReplyTimeout = slack * time.Minute

// Spec describes a server for Launch.
type Spec struct {
	Redis   bool     // redis-server from PATH instead of spindle
	Program string   // "" means the built spindle, or redis-server from the PATH
	Args    []string // after ours: the last of two directives counts
	Shell   string   // shell commands to run first, in the process that becomes the server: "ulimit -n 64"
	Dir     string   // "" means a new one
	Bare    bool     // the server gets only Args, none of ours
	Port    int      // 0 means a free one
	Socket  string   // the path of the server's unix socket, which Args must also have
	NoWait  bool     // do not wait for a reply, because the server may refuse to start
}

// Start starts spindle with the given directives and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return Launch(t, Spec{Args: args})
}

// Redis starts redis-server in the same way.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return Launch(t, Spec{Redis: true, Args: args})
}

// Launch starts the server of spec. Unless spec is Bare, the server saves nothing by itself, allows DEBUG from this
// host, and begins each full synchronisation at once. SPINDLE_TEST_IO_THREADS is then its number of event loops.
func Launch(t testing.TB, spec Spec) *Server {
	t.Helper()
	s := &Server{t: t, name: "spindle", Port: spec.Port, Dir: spec.Dir, shell: spec.Shell}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	switch {
	case s.Port != 0:
	case slices.Contains(spec.Args, "--cluster-enabled"):
		s.Port = FreePorts(t, 1) // the bus needs one, too
	default:
		s.Port = FreePort(t)
	}
	s.Addr = "127.0.0.1:" + strconv.Itoa(s.Port)
	if spec.Socket != "" {
		s.Addr = spec.Socket
	}
	if spec.Redis {
		s.name = "redis-server"
	}
	switch {
	case spec.Program != "":
		s.program = spec.Program
	case spec.Redis:
		s.program = Program(t, "redis-server")
	default:
		s.program = Spindle(t)
	}
	if !spec.Bare {
		s.args = []string{"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "",
			"--enable-debug-command", "local", "--repl-diskless-sync-delay", "0"}
		if loops := os.Getenv("SPINDLE_TEST_IO_THREADS"); loops != "" && !spec.Redis && spec.Program == "" {
			s.args = append(s.args, "--io-threads", loops)
		}
	}
	s.args = append(s.args, spec.Args...)
	s.logPath = filepath.Join(t.TempDir(), s.name+".log")
	s.ended = make(chan struct{})
	close(s.ended)
	t.Cleanup(s.finish)
	s.start(!spec.NoWait)
	return s
}

func (s *Server) start(wait bool) {
	s.t.Helper()
	log, err := os.OpenFile(s.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close() // the child has its own
	s.cmd = exec.Command(s.program, s.args...)
	if s.shell != "" {
		s.cmd = exec.Command("/bin/sh", append([]string{"-c", s.shell + "\n" + `exec "$0" "$@"`, s.program}, s.args...)...)
	}
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, s.Dir
	if err := startChild(s.cmd); err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	s.PID = s.cmd.Process.Pid
	ended, cmd := make(chan struct{}), s.cmd
	s.ended = ended
	go func() {
		s.exit = cmd.Wait()
		close(ended)
	}()
	if wait {
		s.AwaitReady(Slowly(30 * time.Second))
	}
}

// AwaitReady returns when the server replies to PING with anything but LOADING. After slack times limit, it fails the
// test.
func (s *Server) AwaitReady(limit time.Duration) {
	s.t.Helper()
	limit *= slack
	err := Poll(limit, func() error {
		if s.Ended() {
			return nil
		}
		return s.ping()
	})
	if s.Ended() {
		s.t.Fatalf("%s ended (%v) instead of serving:\n%s", s.name, s.exit, tail(s.Log(), 4000))
	}
	if err != nil {
		s.t.Fatalf("%s does not serve within %v: %v\n%s", s.name, limit, err, tail(s.Log(), 4000))
	}
}

func (s *Server) ping() error {
	c, err := respclient.DialTimeout(s.Addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetTimeout(5 * time.Second)
	v, err := c.Do("PING")
	if err == nil && strings.HasPrefix(v.Text, "LOADING") {
		err = v.Err()
	}
	return err
}

// Restart starts an ended server again, in the same folder and on the same port, with more directives.
func (s *Server) Restart(args ...string) {
	s.t.Helper()
	s.Again(args...)
	s.AwaitReady(Slowly(60 * time.Second))
}

// Again is Restart without waiting, because the server may refuse to start.
func (s *Server) Again(args ...string) {
	s.t.Helper()
	if !s.Ended() {
		s.t.Fatalf("%s still runs", s.name)
	}
	s.args = append(s.args, args...)
	s.start(false)
}

// Ended reports whether the process is gone.
func (s *Server) Ended() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the process, and to no other. After SIGSTOP, it returns when the process stands still.
func (s *Server) Signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatalf("%s: signal %v: %v", s.name, sig, err)
	}
	if sig == syscall.SIGSTOP {
		Until(s.t, 20*time.Second, s.name+" stands still", s.standsStill)
	}
}

// standsStill returns nil if all threads of the process are stopped. On a busy host a thread runs for some
// milliseconds after SIGSTOP was sent.
func (s *Server) standsStill() error {
	if s.Ended() {
		return nil
	}
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.PID))
	for _, path := range stats {
		// An error means that the thread has ended.
		if text, failed := os.ReadFile(path); failed == nil && !strings.Contains(string(text), ") T ") {
			err = fmt.Errorf("a thread runs: %s", text)
		}
	}
	return err
}

// Kill sends SIGKILL, and waits for the process's end.
func (s *Server) Kill() {
	s.t.Helper()
	s.hangUp()
	s.Signal(syscall.SIGKILL)
	s.Wait(10 * time.Second)
}

// Terminate sends SIGTERM and returns the exit code.
func (s *Server) Terminate() int {
	s.t.Helper()
	s.hangUp()
	s.Signal(syscall.SIGTERM)
	return s.Wait(Slowly(30 * time.Second))
}

// Wait waits for the process to end and returns its exit code, or -1 after a signal. After slack times limit, it fails
// the test.
func (s *Server) Wait(limit time.Duration) int {
	s.t.Helper()
	limit *= slack
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.t.Fatalf("%s does not end within %v:\n%s", s.name, limit, tail(s.Log(), 4000))
	}
	s.hangUp()
	return s.cmd.ProcessState.ExitCode()
}

// Crashes declares that the server is expected to crash. Then finish does not search its log for panics.
func (s *Server) Crashes() { s.mayFail = true }

var disaster = regexp.MustCompile(
	`(?m)^.*(WARNING: DATA RACE|^panic: |^fatal error: |invariant broken|goroutine \d+ \[running\]|BUG REPORT).*$`)

// finish ends the server at the end of the test. It fails the test if the log has a panic, a race or a broken
// invariant.
func (s *Server) finish() {
	s.hangUp()
	if !s.Ended() {
		s.cmd.Process.Kill()
		<-s.ended
	}
	log := s.Log()
	if !s.mayFail {
		if at := disaster.FindStringIndex(log); at != nil {
			s.t.Errorf("%s's log tells of a disaster:\n%s", s.name, log[at[0]:min(len(log), at[0]+6000)])
		}
	}
	if s.t.Failed() {
		s.t.Logf("%s's log ends:\n%s", s.name, tail(log, 3000))
	}
}

// Log returns the server's output so far, including the output before restarts.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logPath)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// AwaitLog returns when the log contains text.
func (s *Server) AwaitLog(limit time.Duration, text string) {
	s.t.Helper()
	Until(s.t, limit, fmt.Sprintf("%q in the log of %s", text, s.name), func() error {
		if log := s.Log(); !strings.Contains(log, text) {
			return fmt.Errorf("it ends:\n%s", tail(log, 2000))
		}
		return nil
	})
}

// File returns the path of a file in the server's folder.
func (s *Server) File(name string) string { return filepath.Join(s.Dir, name) }

// Files returns the names in the server's folder, sorted.
func (s *Server) Files() []string {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		s.t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	slices.Sort(names)
	return names
}

// Dial opens a connection, which is closed when the test ends.
func (s *Server) Dial() *respclient.Client {
	s.t.Helper()
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	c.SetTimeout(Slowly(ReplyTimeout))
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Ask sends one request on the server's own connection. An error reply is returned as a Value.
func (s *Server) Ask(args ...any) (respclient.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		c, err := respclient.Dial(s.Addr)
		if err != nil {
			return respclient.Value{}, err
		}
		s.client = c
		c.SetTimeout(Slowly(ReplyTimeout))
	}
	v, err := s.client.Do(args...)
	if err != nil {
		s.client.Close()
		s.client = nil
	}
	return v, err
}

// Do is Ask, but any error or error reply fails the test.
func (s *Server) Do(args ...any) respclient.Value {
	s.t.Helper()
	v, err := s.Ask(args...)
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		s.t.Fatalf("%s: %.200v: %v", s.name, args, err)
	}
	return v
}

// hangUp closes the connection of Ask and Do.
func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// Info returns the fields of one section of INFO, or of all sections.
func (s *Server) Info(section string) map[string]string {
	s.t.Helper()
	fields := map[string]string{}
	for line := range strings.Lines(s.Do("INFO", section).Text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// InfoInt returns one field of INFO as an integer.
func (s *Server) InfoInt(section, field string) int64 {
	s.t.Helper()
	text, ok := s.Info(section)[field]
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		s.t.Fatalf("%s: INFO %s: %s:%s", s.name, section, field, text)
	}
	return n
}

// AwaitInfo returns when a field of INFO has the value want.
func (s *Server) AwaitInfo(limit time.Duration, section, field, want string) {
	s.t.Helper()
	Until(s.t, limit, s.name+": INFO "+section+": "+field, func() error { return Equal(s.Info(section)[field], want) })
}

// AwaitOnline returns when the server lists n replicas as online. Until then, it refuses FAILOVER TO one of them. A
// replica's own link is up before that with spindle and Redis, and may be up only later with Valkey.
func (s *Server) AwaitOnline(limit time.Duration, n int) {
	s.t.Helper()
	Until(s.t, limit, fmt.Sprintf("%s: %d online replicas", s.name, n), func() error {
		if text := s.Do("INFO", "replication").Text; strings.Count(text, ",state=online,") != n {
			return errors.New(text)
		}
		return nil
	})
}

// AwaitReplica returns when the link of r is up and the server lists r as online. A replica whose link is up may not
// have acknowledged its copy yet. If it is suspended then, it does not become online, and the throttle ignores it.
func (s *Server) AwaitReplica(limit time.Duration, r *Server) {
	s.t.Helper()
	r.AwaitInfo(limit, "replication", "master_link_status", "up")
	Until(s.t, limit, fmt.Sprintf("%s: %s is an online replica", s.name, r.name), func() error {
		text := s.Do("INFO", "replication").Text
		if !strings.Contains(text, fmt.Sprintf(",port=%d,state=online,", r.Port)) {
			return errors.New(text)
		}
		return nil
	})
}

// CLI runs redis-cli against the server with text as its input.
func (s *Server) CLI(text string, args ...string) (out string, code int) {
	s.t.Helper()
	return Run(s.t, 5*time.Minute, text, Program(s.t, "redis-cli"),
		append([]string{"-p", strconv.Itoa(s.Port)}, args...)...)
}

// RSS returns the process's current resident memory in bytes.
func (s *Server) RSS() int64 {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.PID))
	if err != nil {
		s.t.Fatal(err)
	}
	words := strings.Fields(string(text))
	if len(words) < 2 {
		s.t.Fatalf("%s: statm: %q", s.name, text)
	}
	pages, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// Sockets returns the process's sockets, by their numbers: its listeners and connections.
func (s *Server) Sockets() (sockets []string) {
	s.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", s.PID)
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		// An error means that the socket was closed in the meantime.
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			sockets = append(sockets, to)
		}
	}
	return sockets
}
