package engine

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/insight"
	"spindle/engine/part"
	"spindle/protocol"
)

// consult is what the user u is answered without a connection; an error is shown as a reply.
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

// TestGuest: a guest reads what its user may read, changes nothing, waits for nothing, and is counted.
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
	h.AddBarrier(barrier)
	h.Raise(barrier, true)
	if got := h.consult(nil, "GET a1"); !strings.Contains(got, "NOAUTH") {
		t.Errorf("past a barrier: %q", got)
	}
}

// TestGuestAsks: how many elements a guest's command reads at most is known from its arguments, before it runs.
func TestGuestAsks(t *testing.T) {
	const size = 20_000
	for line, want := range map[string]int64{
		"scan 0": 10, "scan 0 MATCH COUNT count 30": 30, "scan 0 COUNT 9999999": size, "scan 0 COUNT x": 10,
		"hscan COUNT 15000": 10, "hscan h 0 COUNT 100 NOVALUES": 100, "hscan h 0 COUNT 5 COUNT 15000": 15_000,
		"sscan s 0 COUNT 15000": 15_000, "zscan z 0 COUNT 15000": 15_000, "zscan z 0": 10,
		"hrandfield h": 1, "hrandfield h 15000 WITHVALUES": 15_000, "hrandfield h 9999999": size,
		"srandmember s -9999999": 9_999_999, "zrandmember z -9223372036854775808": math.MaxInt64,
		"lrange l 0 -1": size, "lrange l 0 9": 10, "lrange l -10 -1": 10, "lrange l 19990 99999999": 10,
		"lrange l 5 2": 0, "lrange l 30000 40000": 0, "lrange l -9223372036854775808 9223372036854775807": size,
		"lrange l 9223372036854775807 -9223372036854775808": 0, "lrange l 0 x": 0, "lrange l 0": 0,
		"zrange z 0 -1": size, "zrange z 5 14 REV WITHSCORES": 10, "zrevrange z 0 99": 100,
		"zrange z -inf +inf BYSCORE": size, "zrange z - + BYLEX LIMIT 10000 20": 20,
		"zrangebyscore z -inf +inf": size, "zrangebyscore z -inf +inf LIMIT 0 7": 7,
		"zrevrangebyscore z +inf -inf LIMIT 0 -1": size, "zrangebylex z - +": size, "zrevrangebylex z + - LIMIT 0 9": 9,
		"xrange x - +": size, "xrange COUNT 5 9": size, "xrange x - + COUNT 10": 10, "xrevrange x + - COUNT 15000": 15_000,
		"xread STREAMS x 0": size, "xread COUNT 10 STREAMS x 0": 10, "xread COUNT 0 STREAMS x 0": size,
		"xinfo|stream x": 10, "xinfo|stream x FULL COUNT 0": size, "lpos l v": size, "lpos l v MAXLEN 100": 100,
		"memory|usage h": 5, "memory|usage h SAMPLES 0": size,
	} {
		name, rest, _ := strings.Cut(line, " ")
		var args [][]byte
		for _, word := range append(strings.Split(name, "|"), strings.Fields(rest)...) {
			args = append(args, []byte(word))
		}
		if got := asks[name].most(args, size); got != want {
			t.Errorf("%s: %d elements, want %d", line, got, want)
		}
	}
	for name, a := range asks {
		if got := a.most([][]byte{[]byte(name)}, 0); got != 0 {
			t.Errorf("%s of a key that is not there: %d elements", name, got)
		}
		if inParts[name] != "" || a.use == "" {
			t.Errorf("%s: %q and %q", name, inParts[name], a.use)
		}
	}
}

// TestGuestStalls: a guest's command that holds the turn is named in the stall log as a client's is.
func TestGuestStalls(t *testing.T) {
	h := newTestCore(t)
	h.Do(func() {
		h.stalls.processCPU = func() int64 { return h.wall.Nanos() }
		h.stalls.limit = 0
	})
	h.consult(nil, "GET someone")
	var got []insight.Stall
	h.Do(func() { got = h.Stalls().List(-1) })
	if !slices.ContainsFunc(got, func(s insight.Stall) bool {
		return s.Kind == insight.Command && s.What == "GET someone" && s.Key == "someone"
	}) {
		t.Errorf("the stall log has %+v", got)
	}
}

// TestSampleOfManyKeys: of a command with more keys than one sample takes, each may come into it.
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
