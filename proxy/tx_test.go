package proxy

import (
	"testing"

	"spindle/protocol/scan"
	"spindle/proxy/route"
	"spindle/proxy/topology"
)

// TestMoveBeforeMULTI: a transaction is sent again, with EXEC, and its slot moves before the shard has answered MULTI.
// Nothing of it goes to that shard: the transaction starts again.
func TestMoveBeforeMULTI(t *testing.T) {
	const slot = 3
	for _, moved := range []bool{false, true} {
		c := newPacing(t)
		s, u := c.s, c.dial(c.s.access)
		primary := u.at
		if moved {
			primary = "127.0.0.1:3"
		}
		owners := make([]uint16, 16)
		static := topology.NewStatic(len(owners))
		if err := static.Set([]*topology.Shard{{ID: "g", Primary: primary}}, owners); err != nil {
			t.Fatal(err)
		}
		c.w.topology = static.Current()
		u.owner, s.pin, s.pinned = s, u, slot
		s.tx = &transaction{placed: true, ended: true, exec: s.expect(), requests: []step{{raw: encode("SET", "k", "v"),
			slot: slot, answered: true}}}
		sent := u.d.Buffered()
		(&opened{s, s.tx}).take(u, nil, replyOK, scan.NotRefused, nil)
		if again := s.tx.starts == 1; again != moved || (u.d.Buffered() == sent) != moved || (u.state == down) != moved {
			t.Errorf("moved: %v; sent again: %v, %d bytes to the shard", moved, again, u.d.Buffered()-sent)
		}
	}
}

// TestLongTransaction: a transaction that would cost the proxy too much memory is refused.
func TestLongTransaction(t *testing.T) {
	c := newPacing(t)
	c.s.tx = &transaction{bytes: clientMost - 100}
	pl := &c.w.plan
	pl.Row, pl.Class, pl.Slot = &route.Row{Name: "ping"}, route.Forward, -1
	for _, size := range []int{50, 100} {
		c.s.queue(pl, nil, make([]byte, size))
		if refused := size == 100; c.s.tx.broken != refused || len(c.s.tx.requests) != 1 {
			t.Errorf("%d bytes: refused is %v, %d requests are kept", size, c.s.tx.broken, len(c.s.tx.requests))
		}
	}
	c.s.tx = &transaction{bytes: clientMost - 1000, requests: make([]step, 10)}
	if c.s.queue(pl, nil, make([]byte, 10)); !c.s.tx.broken {
		t.Error("the memory of many short requests does not count")
	}
}

// TestDataBeforeUnblock: a blocked command gets data while CLIENT UNBLOCK is on its way to the server. The connection
// serves no other client's command, which that would end.
func TestDataBeforeUnblock(t *testing.T) {
	for _, way := range []struct {
		name string
		end  func(s *session)
	}{
		{"no CLIENT UNBLOCK", nil},
		{"the slot has moved", (*session).unblock},
		{"a client has said it", func(s *session) { s.endWait(false, s.w.now(), func(int64) {}) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			c := newPacing(t)
			s, u, mover := c.s, c.dial(c.s.access), c.w.mover()
			mover.shared[u.at] = []*upstream{c.dial(mover)}
			s.access.sessions, u.clientID = 1, 7
			u.owner, s.pin, s.pinned, s.unpinning, s.isBlocked = s, u, 3, true, true
			u.push(call{s: s, number: s.expect(), slot: 3, patient: true, to: (*unblocked)(s)}, encode("BLPOP", "k", "0"))
			if way.end != nil {
				way.end(s)
			}
			u.Received([]byte("*2\r\n$1\r\nk\r\n$1\r\nx\r\n"))
			if (u.state == down) != (way.end != nil) || s.owed.n > 0 || s.pin != nil {
				t.Errorf("closed: %v, %d replies are owed", u.state == down, s.owed.n)
			}
		})
	}
}

// TestEndOfWAIT: the connections on which a client's WAIT has run serve other clients later. One for which CLIENT
// UNBLOCK was sent does not: that could end another client's command. One on which WAIT was refused is closed.
func TestEndOfWAIT(t *testing.T) {
	for _, way := range []struct {
		reply    string
		unblocks bool
		spare    bool
	}{{":1\r\n", false, true}, {":1\r\n", true, false}, {"-BUSY a script runs\r\n", false, false}} {
		c := newPacing(t)
		u, mover := c.dial(c.s.access), c.w.mover()
		mover.shared[u.at] = []*upstream{c.dial(mover)}
		c.s.access.sessions, u.clientID, u.owner = 1, 7, c.s
		wait := &replicaWait{s: c.s, own: []*upstream{u}, want: []int64{1}, missing: 1, number: c.s.expect()}
		c.s.replicas, c.s.isBlocked = wait, true
		u.push(call{to: wait, slot: -1, fixed: true, patient: true}, encode("WAIT", "1", "0"))
		if way.unblocks {
			c.s.endWait(false, c.w.now(), func(int64) {})
		}
		u.Received([]byte(way.reply))
		if spare := len(c.s.access.spare[u.at]) == 1; spare != way.spare || spare == (u.state == down) || c.s.owed.n > 0 {
			t.Errorf("%v: spare: %v, closed: %v, %d replies are owed", way, spare, u.state == down, c.s.owed.n)
		}
	}
}
