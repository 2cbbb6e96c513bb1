package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/diagnose"
	"spindle/engine/part"
	"spindle/protocol"
)

// consult returns the reply that the user u gets without a connection. An error is returned as its reply.
func (h *testCore) consult(u *acl.User, line string) (reply string) {
	h.t.Helper()
	h.Do(func() {
		var args [][]byte
		for word := range strings.FieldsSeq(line) {
			args = append(args, []byte(word))
		}
		guest := NewGuest(u)
		if err := h.Consult(guest, args); err != nil {
			reply = err.Error()
			return
		}
		reply = text(guest.Out)
	})
	return reply
}

// TestGuest: a guest reads what its user may read, changes nothing, and never waits. Its commands are counted.
func TestGuest(t *testing.T) {
	h := newTestCore(t)
	reader := h.setUser("reader", "on", "+get", "+ttl", "+set", "~a*")
	denied := h.denials()
	h.Do(func() { h.space.DB(0).SetString([]byte("a1"), []byte("v"), 0) })
	h.Do(func() { h.space.DB(0).SetString([]byte("gone"), []byte("v"), h.nowMs+1) })
	for _, c := range []struct{ line, want string }{
		{"GET a1", "$1\r\nv\r\n"}, {"GET b1", "NOPERM No permissions to access a key"},
		{"EXISTS a1", "NOPERM User reader has no permissions to run the 'exists' command"},
		{"SET a1 x", errGuestWrites.Error()}, {"GET", "wrong number of arguments"}, {"NOTHING a", "unknown command"},
	} {
		if got := h.consult(reader, c.line); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
	if got := denied(); strings.Count(got, "reader") != 2 {
		t.Errorf("told of refusals: %q", got)
	}
	var calls uint64
	h.Do(func() { calls = h.catalogue.Lookup([]byte("get")).Stats.Calls })
	if calls != 1 {
		t.Errorf("%d calls of GET are counted, want 1", calls)
	}
	h.pass(5 * time.Millisecond)
	h.sink.take()
	if got := h.consult(nil, "GET gone"); got != "_\r\n" {
		t.Errorf("a key past its deadline: %q", got)
	}
	if got := h.sink.take(); !strings.Contains(got, "gone") {
		t.Errorf("what a guest found expired was not told: %q", got)
	}
	barrier := &part.Barrier{Name: "closed", Refuse: func(*client.Client, part.Call) error { return protocol.ErrNoAuth }}
	h.addBarrier(barrier)
	h.Raise(barrier, true)
	if got := h.consult(nil, "GET a1"); !strings.Contains(got, "NOAUTH") {
		t.Errorf("past a barrier: %q", got)
	}
}

// TestGuestStalls: if a guest's command holds the turn for long, the stall log names it like a client's.
func TestGuestStalls(t *testing.T) {
	h := newTestCore(t)
	h.Do(func() {
		h.stalls.processCPU = func() int64 { return h.wall.Nanos() }
		h.stalls.limit = 0
	})
	h.consult(nil, "GET someone")
	var got []diagnose.Stall
	h.Do(func() { got = h.Stalls().List(-1) })
	if !slices.ContainsFunc(got, func(s diagnose.Stall) bool {
		return s.Kind == diagnose.Command && s.What == "GET someone" && s.Key == "someone"
	}) {
		t.Errorf("the stall log has %+v", got)
	}
}

// TestSampleOfManyKeys: if a command has more keys than one sample takes, each key may be sampled.
func TestSampleOfManyKeys(t *testing.T) {
	h := newTestCore(t)
	args := [][]byte{[]byte("DEL")}
	for i := range sampledKeys + 1 {
		args = append(args, []byte{byte(i)})
	}
	h.Do(func() {
		for range 200 {
			h.sample(NewGuest(nil), h.catalogue.Lookup([]byte("del")), args, 1, 0, 0)
		}
		if n := len(h.HotKeys().Top(2 * sampledKeys)); n != sampledKeys+1 {
			t.Errorf("%d keys have been seen, want %d", n, sampledKeys+1)
		}
	})
}
