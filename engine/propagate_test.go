package engine

import (
	"strings"
	"testing"

	"spindle/engine/client"
	"spindle/engine/command"
)

// TestUnits: one effect is sent as it is, several effects between MULTI and EXEC. The removal of an expired key is sent
// before the effect of the command that found it.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"one write", []string{"SET k v"}, "0:SET k v | ."},
		{"a batch of writes", []string{"SET k v", "GET k", "SET k w"}, "0:SET k v | 0:SET k w | ."},
		{"nothing changed", []string{"DEL nosuch", "GET k"}, ""},
		{"a refusal", []string{"INCR text"}, ""},
		{"another database", []string{"SELECT 3", "SET k v"}, "3:SET k v | ."},
		{"a transaction of one write", []string{"MULTI", "GET k", "SET k v", "EXEC"}, "0:SET k v | ."},
		{"a transaction of two", []string{"MULTI", "SET k v", "SELECT 1", "SET k w", "EXEC"},
			"MULTI | 0:SET k v | 1:SET k w | EXEC | ."},
		{"a transaction with an error", []string{"MULTI", "INCR text", "SET k v", "EXEC"}, "0:SET k v | ."},
		{"an expired key read", []string{"GET old"}, "0:DEL old | ."},
		{"an expired key written", []string{"SET old v"}, "MULTI | 0:DEL old | 0:SET old v | EXEC | ."},
		{"expired in a transaction", []string{"MULTI", "GET old", "SET k v", "EXEC"},
			"MULTI | 0:DEL old | 0:SET k v | EXEC | ."},
		{"several of one command", []string{"TWICE"}, "MULTI | 0:A | 0:B | EXEC | ."},
		{"kept to itself", []string{"SILENT"}, ""},
	} {
		h := newTestCore(t, command.Spec{Name: "twice", Arity: 1, Flags: command.Write, Run: func(c *command.Context) error {
			c.Propagate([]byte("A"))
			c.Propagate([]byte("B"))
			return nil
		}}, command.Spec{Name: "silent", Arity: 1, Flags: command.Write, Run: func(c *command.Context) error {
			c.Changed(1)
			c.PropagateNothing()
			return nil
		}})
		h.SetActiveExpire(false)
		cl, _ := h.arrive()
		h.do(cl, "SET text x")
		h.Do(func() { h.space.DB(0).SetString([]byte("old"), []byte("v"), h.nowMs-10) })
		h.sink.take()
		h.do(cl, c.lines...)
		h.expect(c.name, h.sink.take(), c.want)
	}
}

// TestExpiryIsNoChange: the save rules do not count expiry, and the sinks receive it in the same turn.
func TestExpiryIsNoChange(t *testing.T) {
	h := newTestCore(t)
	h.Do(func() {
		h.space.DB(2).SetString([]byte("a"), []byte("v"), h.nowMs-100)
		h.space.DB(2).SetString([]byte("b"), []byte("v"), h.nowMs-100)
	})
	before := h.Dirty()
	for range 50 {
		h.dutySlice()
	}
	// On a slow machine the keys may expire in two turns.
	got := strings.ReplaceAll(h.sink.take(), "| . | 2:DEL", "| 2:DEL")
	if got != "2:DEL a | 2:DEL b | ." && got != "2:DEL b | 2:DEL a | ." {
		t.Errorf("%q", got)
	}
	h.common.LazyfreeExpire.Set(true)
	h.Do(func() { h.space.DB(2).SetString([]byte("a"), []byte("v"), h.nowMs-100) })
	cl, _ := h.arrive()
	h.do(cl, "SELECT 2", "GET a")
	h.expect("lazily", h.sink.take(), "2:UNLINK a | .")
	if h.Dirty() != before {
		t.Errorf("%d changes", h.Dirty()-before)
	}
}

// TestDutiesOfABatch: the effects of a busy server's duties reach the sinks before the turn ends.
func TestDutiesOfABatch(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.Do(func() { h.space.DB(0).SetString([]byte("a"), []byte("v"), h.nowMs-100) })
	h.duties.at = 0
	h.do(cl, "PING")
	h.expect("expired beside a batch", h.sink.take(), "0:DEL a | .")
}

// TestWrote: Wrote is called only for a client that has added to the stream.
func TestWrote(t *testing.T) {
	h := newTestCore(t)
	var wrote []int64
	h.hooks.Wrote = func(cl *client.Client) { wrote = append(wrote, cl.ID) }
	a, _ := h.arrive()
	b, _ := h.arrive()
	h.do(a, "SET k v", "GET k")
	h.do(b, "GET k", "DEL nosuch")
	h.do(b, "MULTI", "SET k v", "SET k w", "EXEC")
	if len(wrote) != 2 || wrote[0] != a.ID || wrote[1] != b.ID {
		t.Errorf("%v", wrote)
	}
	h.RemoveSink(h.sink)
	h.do(a, "SET k v")
	if len(wrote) != 2 || h.sink.take() == "" || len(h.stack.unit.bytes) != 0 {
		t.Errorf("without a sink: %v", wrote)
	}
}

// TestLater: functions of Later run once at the end of the turn. So do functions that these pass to Later.
func TestLater(t *testing.T) {
	h := newTestCore(t)
	ran := 0
	h.Do(func() {
		h.Later(func() {
			ran++
			h.Later(func() { ran += 10 })
		})
		if ran != 0 {
			t.Error("at once")
		}
	})
	h.Do(func() {})
	if ran != 11 {
		t.Errorf("%d", ran)
	}
}
