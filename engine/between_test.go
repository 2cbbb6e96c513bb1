package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// TestBetweenWaitsForTheUnit: while a transaction has lent the turn, functions of Between wait. They run in order in
// the turn that ends the unit, after its effects were sent. Without an open unit they run at once.
func TestBetweenWaitsForTheUnit(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	long, _ := h.arrive()
	other, _ := h.arrive()
	ran := false
	h.Do(func() { h.Between(func() { ran = true }) })
	if !ran {
		t.Error("without an open unit the function waits")
	}
	h.batch(long, "MULTI", "SET a 1", "LONG k", "EXEC")
	var mu sync.Mutex
	var order []string
	note := func(what string) func() {
		return func() {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what+" after "+strings.Trim(h.sink.take(), " .|"))
			h.Core.Freeze().Close() // asserts that no unit is open
		}
	}
	h.Do(func() { h.Between(note("first")) })
	var waits sync.WaitGroup
	waits.Go(func() { h.DoBetween(note("second")) })
	eventually(t, "the second function", func() bool { defer h.hold()(); return len(h.Core.between) == 2 })
	mu.Lock()
	if len(order) != 0 {
		t.Errorf("while the unit is open: %q", order)
	}
	mu.Unlock()
	h.do(other, "ENDLONG")
	waits.Wait()
	want := "first after MULTI | 0:SET a 1 | 0:SET k v | 0:SET k v | EXEC; second after "
	if got := strings.Join(order, "; "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestBetweenOnce: work that is asked for again while it waits runs once. Afterwards it can wait again.
func TestBetweenOnce(t *testing.T) {
	h := newTestCore(t)
	waits, ran := false, 0
	ask := func() { h.BetweenOnce(&waits, func() { ran++ }) }
	h.Do(ask)
	for unit := range 2 {
		h.Do(func() {
			h.BeginReload()
			for range 100 {
				ask()
			}
			if n := len(h.Core.between); n != 1 {
				t.Errorf("unit %d: %d functions wait", unit, n)
			}
		})
		h.Do(func() { h.EndReload(func() {}) })
	}
	if ran != 3 {
		t.Errorf("it ran %d times, want 3", ran)
	}
}

// TestBeforeReply: functions of BeforeReply run after the unit's effects were sent, and before the client has the
// reply. Those of Between run after them.
func TestBeforeReply(t *testing.T) {
	var end atomic.Bool
	var order []string
	var h *testCore
	var conn *fakeConn
	note := func(what string) func() {
		return func() {
			h.Core.Freeze().Close() // asserts that no unit is open
			order = append(order, what+" after "+strings.Trim(h.sink.take(), " .|")+", then "+conn.take())
		}
	}
	wait := command.Spec{Name: "wait", Arity: 1, Run: func(c *command.Context) error {
		h.Between(note("between"))
		h.BeforeReply(note("before"))
		c.Reply.OK()
		return nil
	}}
	h = newTestCore(t, append(lendRows(&end), wait)...)
	var long *client.Client
	long, conn = h.arrive()
	other, _ := h.arrive()
	h.Do(func() { h.BeforeReply(note("at once")) })
	h.batch(long, "MULTI", "WAIT", "LONG k", "EXEC")
	h.Do(func() { h.BeforeReply(note("also before")) })
	h.do(other, "ENDLONG")
	eventually(t, "the end", func() bool { defer h.hold()(); return len(order) == 4 })
	want := []string{"at once after , then ", "before after MULTI | 0:SET k v | 0:SET k v | EXEC, then ",
		"also before after , then ", "between after , then post *2\r\n+OK\r\n$4\r\nover\r\n; resume"}
	if !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
}

// TestReloadIsAUnit: while the data set is loaded again, functions of Between wait, also after commands that may run
// then. They run in order when the load has ended: those of BeforeReply, the reply, the others.
func TestReloadIsAUnit(t *testing.T) {
	h := newTestCore(t)
	other, _ := h.arrive()
	var order []string
	note := func(what string) func() {
		return func() {
			h.Core.Freeze().Close() // asserts that no unit is open
			order = append(order, what)
		}
	}
	h.Do(func() {
		h.BeginReload()
		h.Between(note("between"))
		h.BeforeReply(note("before"))
	})
	h.expect("another command", h.do(other, "GET k"), "-LOADING Redis is loading the dataset in memory\r\n")
	h.do(other, "NEVER")
	var waits sync.WaitGroup
	waits.Go(func() { h.DoBetween(note("also between")) })
	eventually(t, "the third function", func() bool { defer h.hold()(); return len(h.Core.between) == 3 })
	if len(order) != 0 {
		t.Errorf("during the load: %q", order)
	}
	h.Do(func() { h.EndReload(note("reply")) })
	waits.Wait()
	if want := []string{"before", "reply", "between", "also between"}; !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	h.expect("after the load", h.do(other, "GET k"), "$-1\r\n")
}

// TestOpenUnitIsFound: in checked builds, a freeze, a new sink and a change of role report the unit that is open.
func TestOpenUnitIsFound(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("needs a build that checks: -race or -tags invariants")
	}
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	long, _ := h.arrive()
	h.batch(long, "LONG k")
	find := func(unit string) {
		for what, f := range map[string]func(){
			"freeze": func() { h.Core.Freeze() }, "sink": func() { h.Core.AddSink(h.sink, client.ToLog) },
			"no sink": func() { h.Core.RemoveSink(h.sink) }, "role": func() { h.SetReplica(true) },
			"loading": func() { h.SetLoading(true) },
		} {
			h.Do(func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s in %s: nothing was found", what, unit)
					}
				}()
				f()
			})
		}
	}
	find("a lent command")
	other, _ := h.arrive()
	h.do(other, "ENDLONG")
	eventually(t, "the end", func() bool { return !h.Lent() })
	h.Do(h.BeginReload)
	find("a reload")
	h.Do(func() { h.EndReload(func() {}) })
}

// TestWhenWritableWaitsForPauses: a function of WhenWritable runs when no unit is open and no pause is in force.
func TestWhenWritableWaitsForPauses(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.do(cl, "CLIENT PAUSE 100000 WRITE")
	done := make(chan struct{})
	go func() {
		h.DoWhenWritable(func() {})
		close(done)
	}()
	eventually(t, "the wait", func() bool { defer h.hold()(); return len(h.pause.writers) == 1 })
	h.do(cl, "CLIENT PAUSE 200000 WRITE")
	select {
	case <-done:
		t.Error("the pause was passed by")
	default:
	}
	h.do(cl, "CLIENT UNPAUSE")
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the pause is over, and nothing happened")
	}
}

// TestPushesOfAUnitWait: the gate holds the pushes of a transaction, of a guest in it and of MONITOR until the unit has
// ended (engine.O5). Pushes of a command outside a transaction wait only for its turn.
func TestPushesOfAUnitWait(t *testing.T) {
	var end atomic.Bool
	var all client.Audience
	var h *testCore
	h = newTestCore(t, append(lendRows(&end), pushRows(&h, &all)...)...)
	gate := protocol.NewGate()
	h.gate = gate
	long, _ := h.arrive()
	hears, conn := h.arrive()
	watches, sees := h.arrive()
	h.joins(&all, hears)
	h.do(watches, "MONITOR")
	h.do(long, "TELL alone")
	h.batch(long, "MULTI", "TELL a", "LONG k", "TELL b", "EXEC")
	held := func(c *fakeConn) (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, mark := range c.marks {
			if gate.Holds(mark) {
				n++
			}
		}
		return n
	}
	if n := held(conn); n != 1 || len(conn.marks) != 2 {
		t.Errorf("%d of %d messages are held, want TELL a of two", n, len(conn.marks))
	}
	if n := held(sees); n != 3 {
		t.Errorf("%d of %d lines are held, want those of EXEC and what it runs", n, len(sees.marks))
	}
	h.do(hears, "ENDLONG")
	eventually(t, "the end", func() bool { return !h.Lent() })
	if n := held(conn) + held(sees); n != 0 || len(conn.marks) != 3 {
		t.Errorf("%d are held after the unit, and %d messages have come, want 3", n, len(conn.marks))
	}
}

// TestPushesOfAUnitWaitForItsTurn: after a unit has ended, the gate uses the number of the turn that ended it.
func TestPushesOfAUnitWaitForItsTurn(t *testing.T) {
	gate := protocol.NewGate()
	gate.UnitOpened(5)
	early, late := protocol.OfUnit(5), protocol.OfUnit(8)
	if !gate.Holds(early) || !gate.Holds(late) || gate.Holds(4) || gate.Holds(protocol.OfUnit(4)) {
		t.Error("an open unit holds back the wrong posts")
	}
	gate.Shut(9)
	gate.UnitEnded(9)
	if !gate.Holds(early) || !gate.Holds(late) || gate.Holds(8) {
		t.Error("posts of a unit leave before its end is on disk")
	}
	gate.Open(10)
	if gate.Holds(early) || gate.Holds(late) {
		t.Error("posts of a unit stay after its end is on disk")
	}
}

// TestHaltEndsWaits: after Halt a lent command gets no more slices, and DoBetween returns.
func TestHaltEndsWaits(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	long, conn := h.arrive()
	h.batch(long, "LONG k")
	h.Do(h.Halt)
	h.DoBetween(func() { t.Error("the function has run while the unit is open") })
	end.Store(true)
	if h.slice() { // the command's own goroutine may come too late for this test
		t.Error("after Halt the command wants another slice")
	}
	if said := conn.take(); strings.Contains(said, "over") {
		t.Errorf("the command has ended: %q", said)
	}
}

// TestContinue: a command that waited outside the turns continues after the open unit, and after a pause that holds it.
// It is refused if its user has lost the right. It may wait once more.
func TestContinue(t *testing.T) {
	var end atomic.Bool
	var waits atomic.Int64
	var work func(c *command.Context) error
	work = func(c *command.Context) error {
		if waits.Add(-1) >= 0 {
			c.Core.Block(c, command.Wait{Busy: true, Retry: work})
			return nil
		}
		c.Changed(1)
		c.Reply.OK()
		return nil
	}
	h := newTestCore(t, append(lendRows(&end), command.Spec{Name: "work", Arity: 1, Flags: command.Write, Run: work})...)
	h.setUser("bob", "on", ">pw", "+work", "~*")
	other, _ := h.arrive()
	for _, one := range []struct {
		name       string
		begin, end func()
		want, sent string
	}{
		{"in time", func() {}, func() {}, "post +OK\r\n; resume", "0:WORK"},
		{"a unit", func() {
			end.Store(false)
			long, _ := h.arrive()
			h.batch(long, "LONG k")
		}, func() {
			h.do(other, "ENDLONG")
			eventually(t, "the unit's end", func() bool { return !h.Lent() })
		}, "post +OK\r\n; resume", "MULTI | 0:SET k v | 0:SET k v | EXEC | 0:WORK"},
		{"a pause", func() { h.do(other, "CLIENT PAUSE 100000 WRITE") }, func() { h.do(other, "CLIENT UNPAUSE") },
			"post +OK\r\n; resume", "0:WORK"},
		{"a right", func() { h.setUser("bob", "-work") }, func() { h.setUser("bob", "+work") },
			"post -NOPERM User bob has no permissions to run the 'work' command\r\n; resume", ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			cl, conn := h.arrive()
			h.do(cl, "AUTH bob pw")
			waits.Store(2)
			h.batch(cl, "WORK")
			h.Do(func() { h.Continue(cl) }) // it waits again
			conn.take()
			h.sink.take()
			one.begin()
			h.Do(func() { h.Continue(cl) })
			if one.sent != "" && one.name != "in time" && (conn.take() != "" || h.sink.take() != "") {
				t.Error("it continues at once")
			}
			one.end()
			h.pass(heldMs * 2 * time.Millisecond)
			h.dutySlice()
			h.expect("the client", conn.take(), one.want)
			h.expect("the stream", strings.Trim(strings.ReplaceAll(h.sink.take(), "| . ", ""), " .|"), one.sent)
			if n := h.BlockedClients(); n != 0 || len(h.waiting.byClient) != 0 || h.TimedWaits() != 0 {
				t.Errorf("%d clients are blocked, of %d, %d in time", n, len(h.waiting.byClient), h.TimedWaits())
			}
		})
	}
}
