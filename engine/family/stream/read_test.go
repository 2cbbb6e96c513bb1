package stream

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/command"
	"spindle/tests/testkit/commandtest"
)

// TestEmptyNames: a group and a consumer may have the empty name. A copy of the request may turn it into nil.
func TestEmptyNames(t *testing.T) {
	for _, empty := range [][]byte{{}, nil} {
		args := commandtest.Words("XREADGROUP GROUP group consumer BLOCK 0 STREAMS s >")
		args[2], args[3] = empty, empty
		r := reading{grouped: true}
		if err := r.parse(&command.Context{Args: args}); err != nil {
			t.Errorf("%#v: %v", empty, err)
		}
	}
	r := reading{grouped: true}
	if err := r.parse(&command.Context{Args: commandtest.Words("XREADGROUP NOACK COUNT 1 BLOCK 0 STREAMS s >")}); err !=
		errNoGroup {
		t.Errorf("without GROUP: %v", err)
	}
}

// TestWaitsEndWithAnError: a request that becomes invalid while it waits gets an error when it is tried again.
func TestWaitsEndWithAnError(t *testing.T) {
	core, _ := newCore(t, defaultNodeEntries)
	var wait command.Wait
	c := &command.Context{Space: core.Space, DB: core.Space.DB(0), Now: core.Now(), Core: blocker{core, &wait},
		Client: core.Client(2)}
	c.Reply = c.Client.Out
	c.Args = commandtest.Words("XREAD BLOCK 1 STREAMS s $")
	c.Args[2] = strconv.AppendInt(nil, math.MaxInt64-c.Now, 10)
	h := &commands{settings: &Settings{}}
	if err := h.read(c); err != nil || wait.Retry == nil {
		t.Fatalf("not parked: %v", err)
	}
	c.Now++
	if err := wait.Retry(c); err != errTimeoutRange {
		t.Errorf("tried again a millisecond later: %v", err)
	}
}

// TestClaimPassesDeletedEntries: pending entries whose entry was deleted cost CLAIM with COUNT a few walks, not a walk
// each.
func TestClaimPassesDeletedEntries(t *testing.T) {
	const n = 20_000
	claim := func(count string) time.Duration {
		core, _ := newCore(t, defaultNodeEntries)
		cl := core.Client(2)
		core.Mute = true
		fill(core, "s", n)
		run(core, "XGROUP CREATE s g 0;XREADGROUP GROUP g ann STREAMS s >;XTRIM s MAXLEN 1")
		began := time.Now()
		reply := core.Do(cl, strings.Fields("XREADGROUP GROUP g bob "+count+" CLAIM 0 STREAMS s >")...)
		if want := strconv.Itoa(n) + "-0"; strings.Count(reply, "-0") != 1 || !strings.Contains(reply, want) {
			t.Errorf("%q, want %s", reply, want)
		}
		if left := core.Do(cl, "XPENDING", "s", "g"); !strings.HasPrefix(left, "*4\r\n:1\r\n") {
			t.Errorf("%q is pending", left)
		}
		return time.Since(began)
	}
	all, one := claim(""), claim("COUNT 1")
	for range 2 { // another process may use the processor
		all, one = min(all, claim("")), min(one, claim("COUNT 1"))
	}
	if one > 10*all {
		t.Errorf("one entry takes %v, all take %v", one, all)
	}
}

// A blocker records the wait.
type blocker struct {
	command.Core
	wait *command.Wait
}

func (b blocker) Block(_ *command.Context, w command.Wait) { *b.wait = w }
