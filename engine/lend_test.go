package engine

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/protocol"
)

// lendRows are commands that lend the turn. LONG key sets key in each of its steps, until it is told to end. ENDLONG
// ends it. STEPS n ends after n steps. RUN word… runs a command as a script does.
func lendRows(end *atomic.Bool) []command.Spec {
	set := func(c *command.Context, key []byte) {
		c.DB.SetString(key, []byte("v"), 0)
		c.Changed(1)
		c.Propagate([]byte("SET"), key, []byte("v"))
		c.Core.(*Core).Ready(c.Client.DB, key)
	}
	return []command.Spec{
		{Name: "long", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
			set(c, c.Args[1])
			steps, at := int64(0), c.Now
			step := func(c *command.Context) (bool, error) {
				steps++
				if c.Now != at {
					return true, protocol.Errorf("ERR", "time went on")
				}
				if end.Load() {
					c.Reply.BulkString("over")
					set(c, c.Args[1])
					return true, nil
				}
				return false, nil
			}
			if !c.Core.Lend(c, step) {
				return protocol.Errorf("ERR", "nobody to lend to")
			}
			return nil
		}},
		{Name: "endlong", Arity: 1, Flags: command.AllowBusy, Run: func(c *command.Context) error {
			end.Store(true)
			c.Reply.OK()
			return nil
		}},
		{Name: "fails", Arity: 1, Flags: command.Write, Run: func(c *command.Context) error {
			c.Core.Lend(c, func(c *command.Context) (bool, error) {
				c.Reply.BulkString("half")
				return true, protocol.Errorf("ERR", "broken")
			})
			return nil
		}},
	}
}

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within ten seconds", what)
		}
	}
}

func (h *testCore) Lent() bool { defer h.hold()(); return h.Core.Lent() }

// TestLend: while a command runs in slices, commands that are allowed on a busy server run. Others wait, and later get
// BUSY. The command's effects are sent as one unit when it ends. Only then do the others run.
func TestLend(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	h.settings.BusyReplyThreshold.Set(50)
	long, longConn := h.arrive()
	other, otherConn := h.arrive()
	waits, waitsConn := h.arrive()
	h.do(waits, "PARK k")
	h.sink.take()
	if _, answer := h.batch(long, "PING", "LONG k", "PING"); answer != "+PONG\r\n" {
		t.Fatalf("the batch answered %q", answer)
	}
	if done, answer := h.turn(other, "GET k"); done != 0 || answer != "" {
		t.Errorf("before the threshold GET answered %q", answer)
	}
	third, _ := h.arrive()
	h.expect("a command for a busy server", h.do(third, "MULTI", "DISCARD"), "+OK\r\n+OK\r\n")
	h.pass(60 * time.Millisecond)
	eventually(t, "the threshold", func() bool { return otherConn.take() == "resume" })
	h.expect("after the threshold", h.do(other, "GET k"),
		"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n")
	h.expect("in MULTI", h.do(third, "MULTI", "GET k", "DISCARD"),
		"+OK\r\n-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n+OK\r\n")
	if log := h.sink.take(); strings.Trim(log, " .|") != "" {
		t.Errorf("half of the unit has left: %s", log)
	}
	if said := waitsConn.take(); said != "" {
		t.Errorf("the client that waits for the key got %q", said)
	}
	h.expect("the end", h.do(other, "ENDLONG"), "+OK\r\n")
	eventually(t, "the command's end", func() bool { return !h.Lent() })
	if said := longConn.take(); !strings.Contains(said, "$4\r\nover\r\n") || !strings.HasSuffix(said, "resume") {
		t.Errorf("its client was told %q", said)
	}
	if said := waitsConn.take(); !strings.Contains(said, "$1\r\nk\r\n") {
		t.Errorf("the client that waited for the key got %q", said)
	}
	log := h.sink.take()
	if !strings.Contains(log, "MULTI | 0:SET k v | 0:SET k v | EXEC") || !strings.Contains(log, "DEL k") ||
		strings.Index(log, "EXEC") > strings.Index(log, "DEL k") {
		t.Errorf("the sinks got %s", log)
	}
	h.expect("afterwards", h.do(other, "GET k"), "$-1\r\n")
	h.expect("its client", h.do(long, "PING"), "+PONG\r\n")
}

// TestLendInExec: a transaction waits for its command that has lent the turn. The replies before it are sent with the
// rest.
func TestLendInExec(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	cl, conn := h.arrive()
	if _, answer := h.batch(cl, "PING", "MULTI", "SET a 1", "LONG k", "FAILS", "GET a", "EXEC", "PING"); answer !=
		"+PONG\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n" {
		t.Fatalf("the batch answered %q", answer)
	}
	h.sink.take()
	other, _ := h.arrive()
	h.do(other, "ENDLONG")
	eventually(t, "the transaction's end", func() bool { return !h.Lent() })
	if said, want := conn.take(), "*4\r\n+OK\r\n$4\r\nover\r\n-ERR broken\r\n$1\r\n1\r\n"; !strings.Contains(said, want) {
		t.Errorf("its client was told %q, want %q", said, want)
	}
	if log := h.sink.take(); !strings.Contains(log, "MULTI | 0:SET a 1 | 0:SET k v | 0:SET k v | EXEC") {
		t.Errorf("the sinks got %s", log)
	}
	if cl.Is(client.Multi|client.DenyBlocking|client.Blocked) || h.figuresOf("exec") != 1 || h.figuresOf("long") != 1 ||
		h.figuresOf("fails") != 1 {
		t.Errorf("flags %b; calls of EXEC %d, LONG %d, FAILS %d", cl.Flags, h.figuresOf("exec"), h.figuresOf("long"),
			h.figuresOf("fails"))
	}
}

// TestBusyFunction: other clients' BUSY names the function that has lent the turn, even if a transaction runs it.
func TestBusyFunction(t *testing.T) {
	var end atomic.Bool
	rows := lendRows(&end)
	rows[0].Name, rows[0].Traits = "fcall", command.RunsFunction
	h := newTestCore(t, rows...)
	h.settings.BusyReplyThreshold.Set(0)
	cl, _ := h.arrive()
	other, _ := h.arrive()
	for _, lines := range [][]string{{"FCALL k"}, {"MULTI", "FCALL k", "EXEC"}} {
		end.Store(false)
		h.batch(cl, lines...)
		eventually(t, "the threshold", func() bool { defer h.hold()(); return h.Tardy() })
		h.expect(lines[0], h.do(other, "GET k"),
			"-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n")
		end.Store(true)
		eventually(t, "its end", func() bool { return !h.Lent() })
	}
}

func (h *testCore) figuresOf(name string) uint64 {
	defer h.hold()()
	return h.catalogue.Lookup([]byte(name)).Stats.Calls
}

// TestLenderLeaves: if a client hangs up, its command still runs to its end.
func TestLenderLeaves(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	cl, conn := h.arrive()
	h.batch(cl, "LONG k")
	h.Closed(cl)
	end.Store(true)
	eventually(t, "its end", func() bool { return !h.Lent() })
	if said := conn.take(); said != "" {
		t.Errorf("the client that is gone got %q", said)
	}
	other, _ := h.arrive()
	h.expect("its work", h.do(other, "GET k"), "$1\r\nv\r\n")
	if log := h.sink.take(); !strings.Contains(log, "MULTI | 0:SET k v | 0:SET k v | EXEC") {
		t.Errorf("the sinks got %s", log)
	}
}

// TestSilentLender: a client that wants no replies gets none from a command that lends the turn.
func TestSilentLender(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	end.Store(true)
	cl, conn := h.arrive()
	for _, how := range []string{"SKIP", "OFF"} {
		h.batch(cl, "CLIENT REPLY "+how, "LONG k")
		eventually(t, "its end", func() bool { return !h.Lent() })
		if said := conn.take(); said != "resume" {
			t.Errorf("%s: told %q", how, said)
		}
		if how == "SKIP" {
			h.expect("the next", h.do(cl, "PING"), "+PONG\r\n")
		}
	}
}

// TestScriptsCommands: a script's commands pass the same checks as a client's. redis.set_repl decides whether replicas
// and the log get their effects.
func TestScriptsCommands(t *testing.T) {
	h := newTestCore(t, command.Spec{Name: "notinscripts", Arity: 1, Flags: command.NoScript,
		Run: func(c *command.Context) error {
			c.Reply.OK()
			return nil
		}}, command.Spec{Name: "mayreplicate", Arity: 1, Flags: command.ReadOnly | command.MayReplicate,
		Run: func(c *command.Context) error {
			return nil
		}})
	cl, _ := h.arrive()
	script := &client.Script{Targets: client.ToAll}
	fake := &client.Client{Flags: client.Fake | client.InScript | client.DenyBlocking, Authenticated: true,
		Protocol: 2, Script: script}
	run := func(line string) (reply string, err error) {
		fake.Out = &protocol.Reply{}
		var args [][]byte
		for word := range strings.FieldsSeq(line) {
			args = append(args, []byte(word))
		}
		h.Do(func() {
			err = h.Run(fake, args)
			h.flushUnit() // as after the command that runs the script
		})
		for p := range fake.Out.Pieces {
			reply += string(p)
		}
		return reply, err
	}
	for _, c := range []struct {
		line, reply string
		err         error
	}{
		{"NOSUCH", "", errUnknownInScript},
		{"GET", "", errArityInScript},
		{"NOTINSCRIPTS", "", errNotInScript},
		{"CLIENT NOSUCH", "", errUnknownInScript},
		{"CLIENT", "", errArityInScript},
		{"SET k v", "+OK\r\n", nil},
		{"INCR k", "-ERR value is not an integer or out of range\r\n", nil},
	} {
		if reply, err := run(c.line); reply != c.reply || err != c.err {
			t.Errorf("%s: %q, %v", c.line, reply, err)
		}
	}
	if !script.Wrote {
		t.Error("it has not written")
	}
	script.ReadOnly = true
	for _, line := range []string{"SET k v", "MAYREPLICATE"} {
		if _, err := run(line); err != errReadOnlyScript {
			t.Errorf("%s: %v", line, err)
		}
	}
	script.ReadOnly = false
	refusing := &part.Barrier{Name: "test", Refuse: func(_ *client.Client, call part.Call) error {
		if call.Flags&command.Write != 0 {
			return protocol.ErrReadOnly
		}
		return nil
	}}
	h.addBarrier(refusing)
	h.Raise(refusing, true)
	if _, err := run("SET k v"); err != protocol.ErrReadOnly {
		t.Error(err)
	}
	h.Raise(refusing, false)
	h.settings.MaxMemory.Set(1)
	h.Do(h.ApplyMemoryLimit)
	h.do(cl, "GET k") // memory is checked for the client that calls the script
	if _, err := run("SET k v2"); err != nil {
		t.Error("it has written before:", err)
	}
	script.Wrote = false
	if _, err := run("SET k v3"); err != protocol.ErrOutOfMemory {
		t.Error(err)
	}
	script.AllowOOM = true
	if _, err := run("SET k v3"); err != nil {
		t.Error(err)
	}
	h.settings.MaxMemory.Set(0)
	h.Do(h.ApplyMemoryLimit)

	h.sink.take()
	script.Targets = client.ToLog
	h.Do(func() { h.Core.AddSink(&recorder{}, client.ToLog) })
	run("SET k nobody")
	script.Targets = client.ToReplicas
	run("SET k somebody")
	if log := fmt.Sprint(h.sink.take()); strings.Contains(log, "nobody") || !strings.Contains(log, "somebody") {
		t.Errorf("the replicas heard %s", log)
	}
}

// TestTargets: if sinks get different effects, each of them gets its own effects between MULTI and EXEC.
func TestTargets(t *testing.T) {
	h := newTestCore(t, command.Spec{Name: "two", Arity: 1, Flags: command.Write, Run: func(c *command.Context) error {
		for i, to := range []client.Targets{client.ToLog, client.ToAll, client.ToReplicas, client.ToAll} {
			c.Client.Script = &client.Script{Targets: to}
			c.Core.(*Core).stack.unit.add(0, [][]byte{[]byte(fmt.Sprint("E", i))}, to)
		}
		c.Client.Script = nil
		c.PropagateNothing()
		c.Changed(1)
		return nil
	}})
	file := &recorder{}
	h.Do(func() { h.Core.AddSink(file, client.ToLog) })
	cl, _ := h.arrive()
	h.sink.take()
	h.do(cl, "TWO")
	if got := h.sink.take(); !strings.Contains(got, "MULTI | 0:E1 | 0:E2 | 0:E3 | EXEC") {
		t.Errorf("replicas: %s", got)
	}
	if got := file.take(); !strings.Contains(got, "MULTI | 0:E0 | 0:E1 | 0:E3 | EXEC") {
		t.Errorf("log: %s", got)
	}
}

// chunkCounter provides chunks and counts them.
type chunkCounter struct{ lent, back atomic.Int64 }

func (k *chunkCounter) Chunk(n, _ int) ([]byte, func()) {
	k.lent.Add(1)
	return make([]byte, 0, n), func() { k.back.Add(1) }
}

func (*chunkCounter) Outgrown([]byte) {}

// TestLentReplySpills: the long reply of a command that has lent the turn is in chunks. All chunks are sent with it, or
// are freed when its client has left.
func TestLentReplySpills(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		var end atomic.Bool
		h := newTestCore(t, append(lendRows(&end), command.Spec{Name: "wide", Arity: 1, Run: func(c *command.Context) error {
			c.Core.Lend(c, func(c *command.Context) (bool, error) {
				if !end.Load() {
					return false, nil
				}
				for range 100_000 {
					c.Reply.BulkString("an element")
				}
				return true, nil
			})
			return nil
		}})...)
		cl, conn := h.arrive()
		other, _ := h.arrive()
		chunks := &chunkCounter{}
		conn.chunks = chunks
		h.batch(cl, "WIDE")
		if leaves {
			h.Closed(cl)
		}
		h.do(other, "ENDLONG")
		eventually(t, "the end", func() bool { return !h.Lent() })
		if n := chunks.lent.Load(); n < 5 {
			t.Errorf("leaves=%t: a reply of 1.6 MB took %d chunks", leaves, n)
		}
		if said := conn.take(); leaves == strings.Contains(said, "an element") {
			t.Errorf("leaves=%t: its client was told %.50q", leaves, said)
		}
		if lent, back := chunks.lent.Load(), chunks.back.Load(); leaves && back != lent || !leaves && back != 0 {
			t.Errorf("leaves=%t: %d chunks of %d are back", leaves, back, lent)
		}
	}
}

// TestLendOutlivesItsClient: a client leaves while a command of its transaction has lent the turn. A later command of
// the transaction subscribes the client, and the core forgets it once more.
func TestLendOutlivesItsClient(t *testing.T) {
	var end atomic.Bool
	subscribed := map[*client.Client]bool{}
	h := newTestCore(t, append(lendRows(&end), command.Spec{Name: "subscribe", Arity: 1,
		Run: func(c *command.Context) error {
			subscribed[c.Client] = true
			return nil
		}})...)
	h.Subscribe(part.Listeners{Gone: func(cl *client.Client) { delete(subscribed, cl) }})
	cl, _ := h.arrive()
	other, _ := h.arrive()
	h.batch(cl, "MULTI", "LONG k", "SUBSCRIBE", "EXEC")
	h.Closed(cl)
	h.do(other, "ENDLONG")
	eventually(t, "the transaction's end", func() bool { return !h.Lent() })
	defer h.hold()()
	if len(subscribed) != 0 {
		t.Error("a client that has left is subscribed")
	}
}

// TestLendInExecWithMoreRequests: a client sends another request while a command of its transaction has lent the turn.
// The request waits, and the transaction's replies stay together.
func TestLendInExecWithMoreRequests(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	cl, conn := h.arrive()
	other, _ := h.arrive()
	h.batch(cl, "MULTI", "LONG k", "GET k", "EXEC")
	if done, answer := h.turn(cl, "PING"); done != 0 || answer != "" {
		t.Fatalf("%d done: %q", done, answer)
	}
	h.do(other, "ENDLONG")
	eventually(t, "the transaction's end", func() bool { return !h.Lent() })
	if said, want := conn.take(), "*2\r\n$4\r\nover\r\n$1\r\nv\r\n"; !strings.Contains(said, want) {
		t.Errorf("its client was told %q, want %q", said, want)
	}
}

// TestLendInExecLeavesNoAcks: after a transaction that has lent the turn, an EXEC that fails because of a WATCH still
// waits for replicas. Its reply shows that the key has changed.
func TestLendInExecLeavesNoAcks(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	cl, _ := h.arrive()
	other, _ := h.arrive()
	h.Do(func() {
		h.SetAcks(cl, 1)
		h.SetAcks(other, 1)
	})
	h.do(other, "WATCH k")
	h.batch(cl, "MULTI", "LONG k", "GET k", "EXEC")
	third, _ := h.arrive()
	h.do(third, "ENDLONG")
	eventually(t, "the transaction's end", func() bool { return !h.Lent() })
	h.do(other, "MULTI")
	b := &protocol.Batch{Session: other, Reply: &protocol.Reply{}, Requests: []protocol.Request{
		{Args: [][]byte{[]byte("EXEC")}}}}
	h.Serve(b)
	if b.Level != 1 {
		t.Errorf("%q waits for %d replicas", text(b.Reply), b.Level)
	}
}

// TestLendInExecOfAClientThatEndsItself: a client closes itself in a transaction that has lent the turn, or lends it
// later. First it gets the replies up to that of CLIENT KILL, as in Redis.
func TestLendInExecOfAClientThatEndsItself(t *testing.T) {
	for kill, want := range map[int]string{2: "$4\r\nover\r\n:1\r\n", 1: ":1\r\n"} {
		var end atomic.Bool
		h := newTestCore(t, lendRows(&end)...)
		cl, conn := h.arrive()
		other, _ := h.arrive()
		lines := []string{"MULTI", "LONG k", "GET k", "EXEC"}
		h.batch(cl, slices.Insert(lines, kill, fmt.Sprint("CLIENT KILL SKIPME no ID ", cl.ID))...)
		if said := conn.take(); said != "" {
			t.Errorf("before the reply: %s", said)
		}
		h.do(other, "ENDLONG")
		eventually(t, "the transaction's end", func() bool { return !h.Lent() })
		if said, want := conn.take(), "post *3\r\n"+want+"; close after output"; !strings.HasPrefix(said, want) {
			t.Errorf("its client got %q, want %q", said, want)
		}
	}
}

// TestLendInExecOfThePrimary: a command of our primary's transaction lends the turn. Follow returns when the
// transaction has ended. applied runs once, after the effects were sent and before any function of Between. The batch's
// reply has nothing of the transaction's later commands.
func TestLendInExecOfThePrimary(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	var primary *client.Client
	h.Do(func() { primary = h.Adopt(&fakeConn{}) })
	b := &protocol.Batch{Session: primary, Reply: &protocol.Reply{}}
	for _, line := range []string{"PING", "MULTI", "LONG k", "GET k", "EXEC"} {
		b.Requests = append(b.Requests, protocol.Request{Args: bytes.Fields([]byte(line))})
	}
	var order []string
	note := func(what string) func() {
		return func() { order = append(order, what+" after "+strings.Trim(h.sink.take(), " .|")) }
	}
	ran := make(chan bool)
	go func() { ran <- h.Follow(b, note("applied")) }()
	eventually(t, "the lent command", func() bool { return h.Lent() })
	h.Do(func() {
		h.BeforeReply(note("before"))
		if len(order) != 0 {
			t.Errorf("%q before the end", order)
		}
	})
	end.Store(true)
	if !<-ran {
		t.Error("Follow says that applied has not run")
	}
	want := []string{"applied after MULTI | 0:SET k v | 0:SET k v | EXEC", "before after "}
	h.Do(func() { // the turn that has run applied is over
		if !slices.Equal(order, want) {
			t.Errorf("got %q, want %q", order, want)
		}
	})
	if said, want := text(b.Reply), "+PONG\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n"; said != want {
		t.Errorf("the reply is %q, want %q", said, want)
	}
	end.Store(false)
	go func() {
		ran <- h.Follow(&protocol.Batch{Session: primary, Reply: &protocol.Reply{},
			Requests: []protocol.Request{{Args: [][]byte{[]byte("LONG"), []byte("k")}}}}, note("applied"))
	}()
	eventually(t, "the lent command", func() bool { return h.Lent() })
	h.Do(h.Halt)
	if <-ran || len(order) != 2 {
		t.Errorf("after Halt: %q", order)
	}
}
