package slotmove

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/tests/testkit"
)

// A counter counts the effects of a stream.
type counter struct{ effects atomic.Int64 }

func (c *counter) Append(unit []engine.Effect) { c.effects.Add(int64(len(unit))) }
func (c *counter) TurnDone()                   {}

// stills are the times in which the stream of a node may not move. Writes are held for a failover, whose offset was
// announced. Or a command has lent the turn.
var stills = []struct {
	name       string
	begin, end func(n *node)
}{
	{"a pause", func(n *node) {
		n.Do(func() { n.PauseFor(engine.PauseFailover, false, time.Hour.Milliseconds()) })
	}, func(n *node) { n.Do(func() { n.Unpause(engine.PauseFailover) }) }},
	{"a unit", func(n *node) {
		cl, _ := n.arrive()
		n.ask(cl, "LONG")
	}, func(n *node) { n.over.Store(true) }},
}

// eachStill calls begin in each of the times. The stream must not move, although event is called. It moves after the
// time is over, when is becomes true.
func eachStill(t *testing.T, begin func(n *node) (event func(), is func() bool)) {
	for _, one := range stills {
		t.Run(one.name, func(t *testing.T) {
			n := newNode(t)
			event, is := begin(n)
			c := &counter{}
			n.Do(func() { n.AddSink(c, client.ToReplicas) })
			one.begin(n)
			stop := make(chan struct{})
			var duties sync.WaitGroup
			duties.Go(func() { n.RunDuties(stop) })
			t.Cleanup(func() { // before the heap is closed
				close(stop)
				duties.Wait()
			})
			event()
			for began := time.Now(); time.Since(began) < 200*time.Millisecond; testkit.Lapse(time.Millisecond) {
				if got := c.effects.Load(); got != 0 {
					t.Fatalf("%d effects", got)
				}
			}
			one.end(n)
			testkit.Await(t, time.Minute, "the end", is)
			if c.effects.Load() == 0 {
				t.Error("the stream has no effect afterwards")
			}
		})
	}
}

// TestStreamIsStillAtTheEndOfAMove: a move fails. Nothing has come yet, so there are no keys to remove. Replicas hear
// of the end later: one of them takes over at the offset that it was told.
func TestStreamIsStillAtTheEndOfAMove(t *testing.T) {
	eachStill(t, func(n *node) (event func(), is func() bool) {
		source, _ := n.arrive()
		for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " +
			strings.Repeat("a", nameBytes) + " SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK"} {
			if reply, done := n.ask(source, line); !done || strings.HasPrefix(reply, "-") {
				n.t.Fatalf("%s: %q, done %t", line, reply, done)
			}
		}
		return func() { n.Closed(source) }, func() (over bool) {
			n.Do(func() { over = n.mover.jobs[0].state == failed })
			return over
		}
	})
}

// TestStreamIsStillAtTheBeginOfAMove: a move waits for the log's first base, and the base comes. The move begins later.
func TestStreamIsStillAtTheBeginOfAMove(t *testing.T) {
	eachStill(t, func(n *node) (event func(), is func() bool) {
		n.lacks = "its first base is not written yet"
		source, conn := n.arrive()
		n.ask(source, "CLUSTER SYNCSLOTS ESTABLISH SOURCE "+n.cluster.other.ID+" NAME "+strings.Repeat("a", nameBytes)+
			" SLOTSRANGE 0 16000")
		return func() { n.Do(func() { n.lacks = "" }) }, conn.hasResumed
	})
}

// TestStreamIsStillAfterAPromotion: a replica has become the primary, and the owner of the slots of a move. Its own
// replica asks to take over before the next tick. The keys are shown at once in a pause, and the end is told later.
func TestStreamIsStillAfterAPromotion(t *testing.T) {
	eachStill(t, func(n *node) (event func(), is func() bool) {
		n.receive()
		n.demote()
		n.Do(n.mover.noteRole)
		n.Do(func() {
			n.SetReplica(false)
			n.cluster.publish(ranges{{0, 16000}}.list())
		})
		return func() {
				n.Do(n.mover.noteRole)
				var lent bool
				n.Do(func() { lent = n.Lent() })
				if _, hidden := n.hidden(); hidden != lent {
					n.t.Errorf("slots are hidden: %t", hidden)
				}
			}, func() (over bool) {
				n.Do(func() { over = n.mover.jobs[0].state == success })
				return over
			}
	})
}
