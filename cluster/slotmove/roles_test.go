package slotmove

import (
	"io"
	"net"
	"strings"
	"testing"

	"spindle/engine"
	"spindle/internal/slots"
	"spindle/protocol"
)

// A role changes between two ticks. Commands that come before the next tick meet the new role.

// receive makes the node the target of a move of slots 0 to 16000 that has brought one key.
func (n *node) receive() (name string) {
	n.t.Helper()
	source, _ := n.arrive()
	name = strings.Repeat("a", nameBytes)
	for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " + name +
		" SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK", "SET {1}key v"} {
		if reply, done := n.ask(source, line); !done || strings.HasPrefix(reply, "-") {
			n.t.Fatalf("%s: %q, done %t", line, reply, done)
		}
	}
	return name
}

// demote makes the node a replica. No tick follows.
func (n *node) demote() { n.Do(func() { n.SetReplica(true) }) }

// follow runs a line of the primary's stream, and returns the reply.
func (n *node) follow(line string) (reply string) {
	b := &protocol.Batch{Reply: &protocol.Reply{}, Requests: make([]protocol.Request, 1)}
	n.Do(func() { b.Session = n.Adopt(&conn{}) })
	for _, word := range strings.Fields(line) {
		b.Requests[0].Args = append(b.Requests[0].Args, []byte(word))
	}
	n.Follow(b, func() {})
	for piece := range b.Reply.Pieces {
		reply += string(piece)
	}
	return reply
}

// hidden returns how many of the moved keys are stored, and whether any slot is hidden.
func (n *node) hidden() (keys int, any bool) {
	n.Do(func() {
		keys, any = n.mover.parts.Space.StoredInSlot(slots.Of([]byte("{1}key"))), n.Importing()
	})
	return keys, any
}

// TestCopyAfterDemotion: the target of a move becomes a replica, and a full copy replaces its data at once. The new
// primary has no such move, so no message of it would ever show the slots again.
func TestCopyAfterDemotion(t *testing.T) {
	n := newNode(t)
	n.receive()
	n.demote()
	n.Do(n.mover.flushed)
	if _, hidden := n.hidden(); hidden {
		t.Error("slots are hidden after the full copy")
	}
}

// TestEndAfterDemotion: the target of a move and its replica change their roles. The new primary ends the move at once.
func TestEndAfterDemotion(t *testing.T) {
	n := newNode(t)
	name := n.receive()
	n.demote()
	if reply := n.follow("CLUSTER SYNCSLOTS FINISH STATE FAILED NAME " + name); reply != "+OK\r\n" {
		t.Errorf("the primary's FINISH: %q", reply)
	}
	if keys, hidden := n.hidden(); keys != 0 || hidden {
		t.Errorf("%d keys have stayed, slots hidden: %t", keys, hidden)
	}
}

// TestEndOfUnknownMove: a replica has taken a full copy between the claim and FINISH. It has all keys of the move, and
// does not know the move.
func TestEndOfUnknownMove(t *testing.T) {
	n := newNode(t)
	n.demote()
	finish := "CLUSTER SYNCSLOTS FINISH STATE SUCCESS NAME " + strings.Repeat("a", nameBytes)
	if reply := n.follow(finish); reply != "+OK\r\n" {
		t.Errorf("the primary's FINISH: %q", reply)
	}
	cl, _ := n.arrive()
	if reply, _ := n.ask(cl, finish); reply != "-ERR No such slot migration job\r\n" {
		t.Errorf("a client's FINISH: %q", reply)
	}
}

// TestPromotionWithTheSlots: a replica takes over from its primary, which owned the slots of a move. It shows them when
// the mover hears of the new map, not at a later tick.
func TestPromotionWithTheSlots(t *testing.T) {
	n := newNode(t)
	n.receive()
	n.demote()
	n.Do(n.mover.tick)
	n.Do(func() { n.SetReplica(false) })
	n.cluster.publish(ranges{{0, 16000}}.list())
	n.Do(n.mover.Moved)
	if keys, hidden := n.hidden(); keys != 1 || hidden {
		t.Errorf("%d keys are there, slots hidden: %t", keys, hidden)
	}
}

// TestMoveAfterPromotion: a replica has become the primary. An operator makes it the source of a move before the next
// tick. The move runs on.
func TestMoveAfterPromotion(t *testing.T) {
	n := newNode(t)
	n.cluster.asked = func(c net.Conn) { _, _ = io.Copy(io.Discard, c) } // the target never answers
	n.demote()
	n.Do(n.mover.tick)
	n.Do(func() { n.SetReplica(false) })
	n.cluster.publish(ranges{{0, 9}}.list())
	cl, _ := n.arrive()
	if reply, _ := n.ask(cl, "CLUSTER MIGRATESLOTS SLOTSRANGE 0 9 NODE "+n.cluster.other.ID); reply != "+OK\r\n" {
		t.Fatalf("MIGRATESLOTS: %q", reply)
	}
	n.Do(n.mover.tick)
	n.Do(func() {
		if j := n.mover.jobs[0]; !j.running() {
			t.Errorf("the move's state is %s", j.state)
		}
		n.mover.end(n.mover.jobs[0], failed, "")
	})
}

// TestSourceOfItsLastSlot: a source gives its last slot away, so it becomes a replica of the target. The move has
// succeeded, whether the mover hears of the role or of the map first.
func TestSourceOfItsLastSlot(t *testing.T) {
	for name, hears := range map[string]func(m *Mover){"role first": (*Mover).tick, "map first": (*Mover).Moved} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			var j *job
			n.Do(func() {
				j = n.export(exportGranted)
				n.cluster.publish(nil) // the other node owns all slots
				n.SetReplica(true)
				hears(n.mover)
			})
			if j.state != success {
				t.Errorf("the move's state is %s", j.state)
			}
		})
	}
}

// TestNoGrant: the source of a move has become a replica, or its replica is to take over. Another node may serve the
// slots, so it grants nothing.
func TestNoGrant(t *testing.T) {
	for _, c := range []struct {
		name string
		prev func(*node)
	}{
		{"a replica", (*node).demote},
		{"a failover", func(n *node) { n.Do(func() { n.PauseFor(engine.PauseFailover, false, 1_000_000) }) }},
		{"a shutdown", func(n *node) { n.Do(func() { n.PauseFor(engine.PauseShutdown, false, 1_000_000) }) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			n.cluster.publish(ranges{{0, 9}}.list())
			c.prev(n)
			n.asksForGrant(t)
		})
	}
}

// export adds a move of some slots to the other node. Turn only.
func (n *node) export(in state) *job {
	j := &job{name: strings.Repeat("a", nameBytes), export: true, state: in, source: n.cluster.Me(),
		target: n.cluster.other.ID, ranges: ranges{{0, 9}}, list: ranges{{0, 9}}.list()}
	j.untilMs = n.SteadyMs() + 1_000_000
	j.wire, j.unlatch = newWire(n.mover, j), n.LatchSlots(j.list)
	n.mover.add(j)
	return j
}

// asksForGrant makes the node the source of a move whose target asks for the hand-over. The move must fail.
func (n *node) asksForGrant(t *testing.T) {
	n.Do(func() {
		j := n.export(exportPaused)
		n.mover.hear(j, "REQUEST-FAILOVER")
		if j.state != failed {
			t.Errorf("the move's state is %s", j.state)
		}
	})
}

// TestEndsOfACopy: a backup is sealed in each state of a move to this node. Only the slots that the node owns then
// have keys in a server that loads the backup.
func TestEndsOfACopy(t *testing.T) {
	for _, c := range []struct {
		name string
		prev func(n *node)
		want string
	}{
		{"no move", func(*node) {}, ""},
		{"keys come", func(n *node) { n.receive() }, "FINISH STATE FAILED NAME " + strings.Repeat("a", nameBytes)},
		{"the slots are this node's", func(n *node) {
			n.receive()
			n.Do(func() { n.cluster.publish(ranges{{0, 16000}}.list()) })
		}, "FINISH STATE SUCCESS NAME " + strings.Repeat("a", nameBytes)},
		{"the slots are those of this replica's primary", func(n *node) {
			n.receive()
			n.demote()
			n.cluster.me.Primary = n.cluster.other.ID
		}, "FINISH STATE SUCCESS NAME " + strings.Repeat("a", nameBytes)},
		{"another node has taken slots", func(n *node) { n.cluster.left = []uint16{3, 4} }, "DROP SLOTSRANGE 3 3 4 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			c.prev(n)
			var got []byte
			n.Do(func() { got = n.mover.Ends() })
			text := ""
			if len(got) > 0 {
				for _, arg := range splitCommand(nil, got) {
					text += " " + string(arg)
				}
			}
			if want := " CLUSTER SYNCSLOTS " + c.want; c.want == "" && text != "" || c.want != "" && !strings.HasPrefix(text,
				want) {
				t.Errorf("the copy ends with %q, want %q", text, c.want)
			}
		})
	}
}
