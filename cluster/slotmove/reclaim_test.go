package slotmove

import (
	"strings"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/internal/slots"
	"spindle/tests/testkit"
)

// A reclaimer is the source of a move whose hold has ended, and a client of the slots, which waits.
type reclaimer struct {
	*node
	job  *job
	cl   *client.Client
	conn *conn
}

func newReclaimer(t *testing.T) *reclaimer {
	t.Helper()
	r := &reclaimer{node: newNode(t)}
	r.cluster.publish(ranges{{0, 16000}}.list())
	r.Do(func() {
		r.job = r.export(exportGranted)
		r.job.unlatch()
		r.job.ranges, r.job.list = ranges{{0, 16000}}, ranges{{0, 16000}}.list()
		r.job.unlatch, r.job.untilMs = r.LatchSlots(r.job.list), r.SteadyMs()-1
	})
	r.cl, r.conn = r.arrive()
	r.held("at first")
	r.Do(r.mover.tick)
	if r.cluster.kept == nil {
		t.Fatal("the node does not reclaim the slots")
	}
	return r
}

// held checks that the move is granted, and that the client waits.
func (r *reclaimer) held(when string) {
	r.t.Helper()
	if reply, done := r.ask(r.cl, "GET {1}key"); done {
		r.t.Errorf("%s: the client reads %q", when, reply)
	}
	r.Do(func() {
		if r.job.state != exportGranted || !r.mover.HandsOver() {
			r.t.Errorf("%s: the move's state is %s", when, r.job.state)
		}
	})
}

// served checks what the client gets when it does not wait any more.
func (r *reclaimer) served(want string) {
	r.t.Helper()
	testkit.Await(r.t, time.Minute, "the client is served", r.conn.hasResumed)
	if reply, done := r.ask(r.cl, "GET {1}key"); !done || !strings.HasPrefix(reply, want) {
		r.t.Errorf("the client reads %q, done %t", reply, done)
	}
}

// over checks how the move has ended.
func (r *reclaimer) over(in state) {
	r.t.Helper()
	r.Do(func() {
		if r.job.state != in || r.mover.HandsOver() {
			r.t.Errorf("the move's state is %s", r.job.state)
		}
	})
}

// TestReclaimHoldsClients (slotmove.S4): the source of a move has heard of no claim in time. Clients wait until the
// cluster has decided that the node keeps the slots, and that is on disk.
func TestReclaimHoldsClients(t *testing.T) {
	r := newReclaimer(t)
	r.Do(r.mover.tick)
	r.held("while it is undecided")
	r.DoBetween(r.cluster.kept)
	r.held("before it is on disk")
	r.cluster.onDisk = true
	r.cluster.saved()
	r.served("$-1\r\n")
	r.over(failed)
}

// TestReclaimEndsAfterTheUnit (slotmove.S4): the cluster has decided that the node keeps the slots. Before that is on
// disk, a long command of another client begins. The move does not end, and clients of the slots wait, until the
// command is over.
func TestReclaimEndsAfterTheUnit(t *testing.T) {
	r := newReclaimer(t)
	r.DoBetween(r.cluster.kept)
	other, _ := r.arrive()
	r.ask(other, "LONG")
	r.cluster.onDisk = true
	r.cluster.saved()
	for range 1000 {
		if r.held("while the command runs"); t.Failed() {
			break
		}
	}
	r.node.over.Store(true)
	testkit.Await(t, time.Minute, "the move ends", func() (ends bool) {
		r.Do(func() { ends = r.job.state != exportGranted })
		return ends
	})
	r.served("$-1\r\n")
	r.over(failed)
}

// TestReclaimEndsWithTheSlots (slotmove.S4): the slots get another owner while the source reclaims them. Its clients
// are sent there at once.
func TestReclaimEndsWithTheSlots(t *testing.T) {
	for _, c := range []struct {
		name  string
		event func(r *reclaimer)
		in    state
	}{
		{"the target", func(r *reclaimer) { r.Do(r.mover.Moved) }, success},
		{"the source's replica", func(r *reclaimer) {
			r.job.target = strings.Repeat("t", nameBytes)
			r.demote()
			r.Do(r.mover.tick)
		}, failed},
		{"a third node", func(r *reclaimer) {
			r.job.target = strings.Repeat("t", nameBytes)
			r.Do(r.mover.Moved)
		}, failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReclaimer(t)
			r.cluster.publish(nil)
			c.event(r)
			r.served("-MOVED ")
			r.over(c.in)
			r.DoBetween(r.cluster.kept) // the cluster's answer comes late
			r.over(c.in)
		})
	}
}

// TestReclaimInAMinority (slotmove.S4): the cluster is down for the source, so that it cannot reclaim the slots. Its
// clients hear so. When the cluster is up again, they wait.
func TestReclaimInAMinority(t *testing.T) {
	r := newReclaimer(t)
	up := r.cluster.current.Load()
	d := slots.NewDraft(r.cluster.me)
	for slot := range uint16(slots.Count) {
		d.Assign(slot, r.cluster.me)
	}
	d.Map().OK = false
	r.cluster.current.Store(d.Done())
	r.Do(r.mover.Moved)
	r.served("-CLUSTERDOWN ")
	r.cluster.current.Store(up)
	r.Do(r.mover.Moved)
	r.held("when the cluster is up")
}

// TestFlushedAfterGrant: a source is flushed when it has granted the hand-over. The target may have claimed the slots.
// So the node waits for the claim, and reclaims them soon.
func TestFlushedAfterGrant(t *testing.T) {
	n := newNode(t)
	n.cluster.publish(ranges{{0, 9}}.list())
	n.Do(func() {
		j := n.export(exportGranted)
		n.mover.flushed()
		if left := j.untilMs - n.SteadyMs(); j.state != exportGranted || left > grantedFor.Milliseconds() || left <= 0 {
			t.Errorf("the move's state is %s, for %d ms", j.state, left)
		}
		if n.cluster.kept != nil {
			t.Error("it reclaims the slots at once")
		}
		j.untilMs = n.SteadyMs() - 1
		n.mover.tick()
		if n.cluster.kept == nil || j.message != "Data was flushed" {
			t.Errorf("it reclaims the slots: %t; the move says %q", n.cluster.kept != nil, j.message)
		}
	})
}
