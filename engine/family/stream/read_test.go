package stream

import (
	"math"
	"spindle/tests/testkit/commandtest"
	"strconv"
	"testing"

	"spindle/engine/command"
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

// A blocker records the wait.
type blocker struct {
	command.Core
	wait *command.Wait
}

func (b blocker) Block(_ *command.Context, w command.Wait) { *b.wait = w }
