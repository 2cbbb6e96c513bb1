package sentinel

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/clock"
	"spindle/internal/logging"
	"spindle/protocol/respclient"
)

// A Net is the Outside of a real Machine: sockets, names, scripts and the clock. In turns, only Save blocks, and
// LookupNow while the configuration is read.
type Net struct {
	Parts
	machine *Machine

	mu       sync.Mutex
	children map[int]*os.Process // running scripts, by job
	doomed   map[int]bool        // scripts to kill as soon as they run
}

// Parts are the functions of the server that a Net needs.
type Parts struct {
	// Do runs f in a turn.
	Do func(f func())
	// Open opens a connection, with TLS if configured. It may block until ctx ends.
	Open func(ctx context.Context, address string) (net.Conn, error)
	// Write puts the state on disk.
	Write func() error
	Push  func(channel, message string)
	Line  func(level logging.Level, text string)
	Here  func() int    // the port of this Sentinel
	Pass  func() string // requirepass
}

// NewNet returns a Net; Serve sets its Machine.
func NewNet(parts Parts) *Net {
	return &Net{Parts: parts, children: map[int]*os.Process{}, doomed: map[int]bool{}}
}

// Serve sets the Machine, before its first call.
func (n *Net) Serve(m *Machine) { n.machine = m }

// nowMs is the Sentinel's clock. It starts at Unix time, and changes of the wall clock do not affect it.
func nowMs() int64 { return clock.Steady() }

func (n *Net) Save() error { return n.Write() }

func (n *Net) Publish(channel, message string) { n.Push(channel, message) }

func (n *Net) Log(level logging.Level, text string) { n.Line(level, text) }

func (n *Net) Port() int { return n.Here() }

func (n *Net) Password() string { return n.Pass() }

func (n *Net) Executable(path string) bool { return unix.Access(path, unix.X_OK) == nil }

// crashCode is the exit code of Crash.
const crashCode = 99

func (n *Net) Crash() { os.Exit(crashCode) }

// lookupPatience bounds a lookup.
const lookupPatience = 10 * time.Second

func (n *Net) LookupNow(host string) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupPatience)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(found) == 0 {
		return "", false
	}
	for _, ip := range found {
		if ip.Unmap().Is4() {
			return ip.Unmap().String(), true
		}
	}
	return found[0].String(), true
}

func (n *Net) Lookup(host string) {
	go func() {
		ip, _ := n.LookupNow(host)
		n.Do(func() { n.machine.Resolved(host, ip, nowMs()) })
	}()
}

// A wireConn is one connection to a server. One goroutine opens and reads it, another one writes.
type wireConn struct {
	n      *Net
	w      *Wire
	cancel context.CancelFunc
	local  atomic.Pointer[string]

	mu     sync.Mutex
	filled sync.Cond // out has bytes, or the connection is closed
	out    []byte
	over   bool
}

const (
	outMax   = 1 << 20  // bytes of unsent requests; beyond it the connection is closed
	replyMax = 32 << 20 // bytes of one reply
)

var errLongReply = errors.New("a reply is too long")

func (n *Net) Dial(w *Wire, ip string, port int) Conn {
	ctx, cancel := context.WithCancel(context.Background())
	c := &wireConn{n: n, w: w, cancel: cancel}
	c.filled.L = &c.mu
	go c.run(ctx, net.JoinHostPort(ip, strconv.Itoa(port)))
	return c
}

// run opens the connection and reads it.
func (c *wireConn) run(ctx context.Context, address string) {
	err := c.read(ctx, address)
	c.finish()
	c.n.Do(func() { c.n.machine.Lost(c.w, plain(err), nowMs()) })
}

func (c *wireConn) read(ctx context.Context, address string) error {
	conn, err := c.n.Open(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if host, _, err := net.SplitHostPort(conn.LocalAddr().String()); err == nil {
		c.local.Store(&host)
	}
	go c.write(conn)
	bounded := &boundedConn{Conn: conn, left: replyMax}
	in := respclient.New(bounded)
	for {
		v, err := in.Receive()
		if err != nil {
			return err
		}
		bounded.left = replyMax
		c.n.Do(func() { c.n.machine.Received(c.w, v, nowMs()) })
	}
}

// A boundedConn fails when one reply is too long.
type boundedConn struct {
	net.Conn
	left int
}

func (b *boundedConn) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongReply
	}
	k, err := b.Conn.Read(p)
	b.left -= k
	return k, err
}

// write is the loop of the writing goroutine.
func (c *wireConn) write(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.out) == 0 && !c.over {
			c.filled.Wait()
		}
		if c.over {
			return
		}
		out := c.out
		c.out = nil
		c.mu.Unlock()
		_, err := conn.Write(out)
		c.mu.Lock()
		if err != nil {
			conn.Close() // the reading goroutine sees it
			return
		}
	}
}

// finish ends both goroutines.
func (c *wireConn) finish() {
	c.mu.Lock()
	c.over = true
	c.filled.Broadcast()
	c.mu.Unlock()
	c.cancel()
}

func (c *wireConn) Send(words ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) > outMax {
		c.cancel()
		return
	}
	c.out = append(strconv.AppendInt(append(c.out, '*'), int64(len(words)), 10), '\r', '\n')
	for _, word := range words {
		c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(word)), 10), '\r', '\n')
		c.out = append(append(c.out, word...), '\r', '\n')
	}
	c.filled.Signal()
}

func (c *wireConn) Close() { c.finish() }

func (c *wireConn) LocalIP() (string, bool) {
	if ip := c.local.Load(); ip != nil {
		return *ip, true
	}
	return "", false
}

// plain returns the operating system's text of a network error.
func plain(err error) string {
	if number := syscall.Errno(0); errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}

// notRun is the exit code of a script that could not be started. It is not retried.
const notRun = 2

func (n *Net) StartScript(job int, argv []string) {
	go func() {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			n.Do(func() { n.machine.ScriptEnded(job, notRun, 0, nowMs()) })
			return
		}
		n.mu.Lock()
		n.children[job] = cmd.Process
		if n.doomed[job] {
			_ = cmd.Process.Kill() // it may have ended before
		}
		n.mu.Unlock()
		n.Do(func() { n.machine.ScriptStarted(job, cmd.Process.Pid, nowMs()) })
		_ = cmd.Wait() // ProcessState has the result
		n.mu.Lock()
		delete(n.children, job)
		delete(n.doomed, job)
		n.mu.Unlock()
		code, signal := cmd.ProcessState.ExitCode(), 0
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code, signal = 0, int(status.Signal())
		}
		n.Do(func() { n.machine.ScriptEnded(job, code, signal, nowMs()) })
	}()
}

func (n *Net) KillScript(job int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if child := n.children[job]; child != nil {
		_ = child.Kill() // it may have ended before
		return
	}
	n.doomed[job] = true
}
