package aof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/catalogue"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/conn"
	"spindle/engine/family/tx"
	parts "spindle/engine/part"
	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/protocol"
	"spindle/tests/testkit"
)

// A socket is a connection without a reader. told is called for each post to the socket.
type socket struct{ told func(turn uint64) }

func (s socket) hear(turn uint64) {
	if s.told != nil {
		s.told(turn)
	}
}

func (socket) FD() int                      { return 3 }
func (socket) LocalAddr() string            { return "127.0.0.1:6379" }
func (socket) RemoteAddr() string           { return "127.0.0.1:4000" }
func (socket) Unix() bool                   { return false }
func (socket) Loopback() bool               { return true }
func (socket) LastActive() int64            { return 0 }
func (s socket) Post(turn uint64, _ []byte) { s.hear(turn) }
func (socket) Resume()                      {}
func (socket) Close(bool)                   {}
func (socket) Loop() protocol.Loop          { return nil }
func (socket) SetClass(protocol.Class)      {}
func (socket) Chunks() protocol.Chunks      { return nil }
func (socket) Usage() protocol.Usage        { return protocol.Usage{} }

func (s socket) PostReply(turn uint64, _ *protocol.Reply) { s.hear(turn) }

// A server is a core with all data commands and a log on a disk.
type server struct {
	*engine.Core
	t     testing.TB
	heap  *memory.Heap
	space *keyspace.Keyspace
	set   *Settings
	gate  *protocol.Gate
	aof   *Log
	cl    *client.Client
	fatal atomic.Bool

	saving   bool   // what Parts.Saving returns
	freezing func() // called in the turn that freezes, before the freeze; nil: nothing
	endSlow  atomic.Bool

	mu     sync.Mutex
	lines  []string                 // the server's log
	events map[string]time.Duration // the longest of each event of the latency monitor
}

// newServer makes a server whose log is off.
func newServer(t testing.TB, d disk.System) *server {
	t.Helper()
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, heap: heap, set: &Settings{}, gate: protocol.NewGate(), events: map[string]time.Duration{}}
	s.space = keyspace.New(heap, keyspace.Options{})
	settings, common, data := &engine.Settings{}, &command.Settings{}, &catalogue.Settings{}
	settings.Rows()
	common.Rows()
	data.Rows()
	s.set.Rows()
	s.Core = engine.New(engine.Parts{
		Space: s.space, Clients: client.NewRegistry(), Settings: settings, Common: common, Whole: &command.Whole{},
	})
	s.aof = NewLog(Parts{
		Core: s.Core, Settings: s.set, Log: logging.New(s), Disk: d, Gate: s.gate, Dir: func() string { return "." },
		Fatal: func() {
			s.fatal.Store(true)
			runtime.Goexit()
		},
		Base: func() bgsave.Options {
			if s.freezing != nil {
				s.freezing()
			}
			return bgsave.Options{Compress: true, Checksum: true, Savers: 1}
		},
		Saving:  func() bool { return s.saving },
		Changed: func() {},
		Latency: func(event string, took time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events[event] = max(s.events[event], took)
		},
	})
	families := append(catalogue.Data(data), conn.Family(conn.Deps{}), tx.NewWatches(s.space).Family(), s.aof.Family(),
		s.slow(), command.Family{Name: "cluster", Rows: []command.Spec{{Name: "cluster", Arity: -2, Subs: []command.Spec{
			{Name: "syncslots", Arity: -3, Flags: command.MayReplicate,
				Run: func(*command.Context) error { return protocol.ErrSyntax }}}}}})
	rows, err := command.NewCatalogue(families...)
	if err != nil {
		t.Fatal(err)
	}
	s.SetCatalogue(rows)
	s.Subscribe(parts.Listeners{Wrote: s.aof.Wrote})
	s.AddOwnBarriers()
	s.aof.Locate()
	session, _ := s.Open(socket{})
	s.cl = session.(*client.Client)
	t.Cleanup(func() {
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Log(strings.Join(s.lines[max(0, len(s.lines)-12):], ""))
		}
	})
	return s
}

// Write implements io.Writer: the log's lines.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, string(p))
	return len(p), nil
}

// said reports whether the server's log has a line that contains text.
func (s *server) said(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.lines, ""), text)
}

// start loads the files on the disk, and begins the log.
func (s *server) start() error {
	if err := s.aof.ReadManifest(); err != nil {
		return err
	}
	s.Do(func() { s.SetLoading(true) })
	found, err := s.aof.Load(context.Background(), s.target())
	if err != nil {
		return err
	}
	s.Do(func() { s.SetLoading(false) })
	return s.aof.Open(found)
}

// target returns the Target of a load into s.
func (s *server) target() Target {
	var progress bgsave.Loading
	return Target{
		Replay: s.Replay, CanReplay: s.CanReplay, Turn: s.Do, DropSlots: s.DropKeysIn,
		Into:    func() bgsave.Inserter { return &bgsave.Into{Space: s.space, Turn: s.Do} },
		Options: func(string) bgsave.LoadOptions { return bgsave.LoadOptions{Progress: &progress} },
	}
}

// reload runs DEBUG LOADAOF.
func (s *server) reload() (found Loaded, err error) {
	var release func(Loaded)
	s.Do(func() {
		release = s.aof.Flush()
		(&command.Whole{}).EmptyAllKeepingSaves(s.space)
		s.BeginReload()
	})
	found, err = s.aof.Load(context.Background(), s.target())
	s.Do(func() {
		release(found)
		s.EndReload(func() {})
	})
	return found, err
}

// do runs one command, and returns its reply and its turn.
func (s *server) do(words ...string) (reply string, turn uint64) { return s.doAs(s.cl, words...) }

func (s *server) doAs(cl *client.Client, words ...string) (reply string, turn uint64) {
	b := &protocol.Batch{Session: cl, Reply: &protocol.Reply{}}
	var args [][]byte
	for _, w := range words {
		args = append(args, []byte(w))
	}
	b.Requests = []protocol.Request{{Args: args}}
	s.Serve(b)
	return string(b.Reply.B), b.Turn
}

// slow returns a family of one command: SLOW value sets a, then lends the turn until endSlow, then sets b.
func (s *server) slow() command.Family {
	set := func(c *command.Context, key, value []byte) {
		c.DB.SetString(key, value, 0)
		c.Changed(1)
		c.Propagate([]byte("SET"), key, value)
	}
	return command.Family{Name: "test", Rows: []command.Spec{{Name: "slow", Arity: 2, Flags: command.Write,
		Run: func(c *command.Context) error {
			value := bytes.Clone(c.Args[1])
			set(c, []byte("a"), value)
			c.Core.Lend(c, func(c *command.Context) (over bool, err error) {
				if !s.endSlow.Load() {
					return false, nil
				}
				set(c, []byte("b"), value)
				c.Reply.OK()
				return true, nil
			})
			return nil
		}}}}
}

// resting reports whether the writer sleeps.
func (s *server) resting() bool {
	state := s.aof.w.lock()
	defer s.aof.w.unlock()
	return !state.busy && len(state.jobs) == 0
}

// waitFor waits until done, called in turns, returns true, or until the process would have ended.
func (s *server) waitFor(what string, done func() bool) {
	s.t.Helper()
	testkit.Await(s.t, 20*time.Second, what, func() (ok bool) {
		if s.fatal.Load() {
			return true
		}
		s.Do(func() {
			s.aof.Tick(0)
			ok = done()
		})
		return ok
	})
}

func (s *server) text(key string) string {
	reply, _ := s.do("GET", key)
	_, value, _ := strings.Cut(reply, "\r\n")
	return strings.TrimSuffix(value, "\r\n")
}

// state returns how many steps the data set has had. Each step sets a and b and appends to a list, in one unit. A data
// set with a part of a step is an error.
func (s *server) state() (steps int, err error) {
	a, b := s.text("a"), s.text("b")
	length, _ := s.do("LLEN", "l")
	last, _ := s.do("LINDEX", "l", "-1")
	_, last, _ = strings.Cut(last, "\r\n")
	if a == "" && b == "" && length == ":0\r\n" {
		return 0, nil
	}
	steps, _ = strconv.Atoi(a)
	if b != a || length != fmt.Sprintf(":%d\r\n", steps) || last != a+"\r\n" {
		all, _ := s.do("LRANGE", "l", "0", "-1")
		return 0, fmt.Errorf("a is %q, b is %q, the list has %q, its last is %q, all of it is %q", a, b, length, last, all)
	}
	return steps, nil
}

// step runs the i-th step.
func (s *server) step(i int) (turn uint64) {
	n := strconv.Itoa(i)
	s.do("MULTI")
	s.do("SET", "a", n)
	s.do("RPUSH", "l", n)
	s.do("SET", "b", n)
	_, turn = s.do("EXEC")
	return turn
}

// damaged reports whether a load has failed because of a damaged end, which check-aof --fix would cut off.
func damaged(err error) bool { return errors.Is(err, ErrLoad) }
