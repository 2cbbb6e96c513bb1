package engine

import (
	"strings"
	"sync/atomic"
	"testing"

	"spindle/engine/client"
	"spindle/engine/command"
)

// TestThrottle: calls that may write pass at the throttle's rate, in the order in which they came. Reads pass always. A
// client that leaves is forgotten, and the end lets all continue.
func TestThrottle(t *testing.T) {
	h := newTestCore(t)
	a, connA := h.arrive()
	b, connB := h.arrive()
	leaver, _ := h.arrive()
	h.Do(func() { h.Throttle(ThrottleMost) })
	if done, _ := h.batch(a, "SET k 1", "SET k 2"); done != 2 {
		t.Fatalf("%d writes at the highest rate", done)
	}
	h.Do(func() {
		h.Throttle(0.001) // a token is kept for longer than the test lasts
		h.throttle.tokens = 1
	})
	done, answer := h.batch(a, "SET k 3", "GET k", "SET k 4", "GET k")
	if done != 2 || answer != "+OK\r\n$1\r\n3\r\n" || !a.Is(client.Throttled|client.Blocked) {
		t.Fatalf("%d done, %q, flags %b", done, answer, a.Flags)
	}
	if done, _ := h.batch(leaver, "SET k 5"); done != 0 {
		t.Error("a write without a token")
	}
	if done, _ := h.batch(b, "GET k", "SET k 6"); done != 1 {
		t.Errorf("%d of a read and a write", done)
	}
	now := Throttled{}
	h.Do(func() { now = h.Throttled() })
	if !now.On || now.Clients != 3 || now.Calls != 3 {
		t.Errorf("%+v", now)
	}
	h.Do(func() { h.forget(leaver) })
	h.Do(func() {
		h.throttle.tokens = 1
		h.throttle.release(h.throttle.filledAt, false)
	})
	h.expect("the first", connA.take(), "resume")
	h.expect("the second", connB.take(), "")
	if done, answer := h.batch(a, "SET k 4", "SET k 7"); done != 1 || answer != "+OK\r\n" {
		t.Errorf("%d done, %q", done, answer)
	}
	h.Do(func() { h.EndThrottle() })
	h.expect("the first, at the end", connA.take(), "resume")
	h.expect("the second, at the end", connB.take(), "resume")
	if done, _ := h.batch(b, "SET k 6", "SET k 8"); done != 2 || h.raised != 0 || b.Is(client.Blocked) {
		t.Errorf("%d done, %d barriers", done, h.raised)
	}
}

// TestThrottleCountsWrites: queued commands need no token, and EXEC needs one if its queue has a write. A call that
// declares that it only reads needs none.
func TestThrottleCountsWrites(t *testing.T) {
	h := newTestCore(t, command.Spec{Name: "script", Arity: 2, Flags: command.MayReplicate,
		Means: func(args [][]byte, flags command.Flags) command.Flags {
			if string(args[1]) == "no-writes" {
				return flags &^ command.MayReplicate
			}
			return flags
		},
		Run: func(c *command.Context) error {
			c.Reply.OK()
			return nil
		}})
	a, _ := h.arrive()
	b, _ := h.arrive()
	h.Do(func() {
		h.Throttle(0.001) // a token is kept for longer than the test lasts
		h.throttle.tokens = 1
	})
	if done, answer := h.batch(a, "MULTI", "SET k 1", "SET k 2", "EXEC", "MULTI", "SET k 3", "GET k", "EXEC"); done != 7 {
		t.Errorf("%d done, %q", done, answer)
	}
	if !a.Is(client.Throttled) {
		t.Error("the second EXEC took no token")
	}
	if done, answer := h.batch(b, "MULTI", "GET k", "EXEC", "SCRIPT no-writes", "SCRIPT any"); done != 4 ||
		!b.Is(client.Throttled) {
		t.Errorf("%d done, %q", done, answer)
	}
}

// TestThrottleBesideALentTurn: a command that lends the turn takes one token, however much it writes. Clients that come
// meanwhile wait for its end, and then for tokens.
func TestThrottleBesideALentTurn(t *testing.T) {
	var end atomic.Bool
	h := newTestCore(t, lendRows(&end)...)
	long, longConn := h.arrive()
	other, otherConn := h.arrive()
	operator, _ := h.arrive()
	h.Do(func() {
		h.Throttle(0.001)
		h.throttle.tokens = 1
	})
	if done, answer := h.batch(long, "LONG k"); done != 1 || !h.Lent() {
		t.Fatalf("%d done, %q", done, answer)
	}
	if done, _ := h.batch(other, "SET k 1"); done != 0 || other.Is(client.Throttled) {
		t.Errorf("%d done, flags %b", done, other.Flags)
	}
	h.expect("the end", h.do(operator, "ENDLONG"), "+OK\r\n")
	eventually(t, "the command's end", func() bool { return !h.Lent() })
	if said := longConn.take(); !strings.Contains(said, "over") {
		t.Errorf("its client was told %q", said)
	}
	eventually(t, "the other client continues", func() bool { return otherConn.take() == "resume" })
	if done, _ := h.batch(other, "SET k 1"); done != 0 || !other.Is(client.Throttled) {
		t.Errorf("%d done, flags %b", done, other.Flags)
	}
	h.Do(h.EndThrottle)
	h.expect("the other client, at the end", otherConn.take(), "resume")
}
