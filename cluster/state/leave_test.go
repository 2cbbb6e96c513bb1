package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/cluster/bus"
	"spindle/internal/logging"
)

// A leaver is a dropper that counts the messages sent to node D by type, and the log lines that name D.
type leaver struct {
	*dropper
	sent [bus.Types]int
	last *bus.Message // the latest message for D
	late int
}

func (l *leaver) Log(_ logging.Level, format string, args ...any) {
	if line := fmt.Sprintf(format, args...); strings.Contains(line, "Replica "+idD) &&
		strings.Contains(line, "it has not shown that it knows") {
		l.late++
	}
}

func (l *leaver) Send(to *Link, message []byte, _ uint64) {
	if to.Node.ID != idD {
		return
	}
	m, err := bus.Parse(message)
	if err != nil {
		panic(err)
	}
	l.sent[m.Type]++
	l.last = m
}

// leaving returns a primary with a replica D. B takes slots 0 to 9 from it, of which 3 and 4 have keys. Links to both
// are connected.
func leaving(t *testing.T) (s *State, out *leaver, b, d *Node) {
	t.Helper()
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-10999\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 11000-16383\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected\n" +
		idD + " 127.0.0.1:7003@17003 slave " + idA + " 0 0 1 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	out = &leaver{dropper: newDropper(map[int]int{3: 1, 4: 1, 20: 1})}
	s.out, s.ok = out, true
	b, d = s.byID[idB], s.byID[idD]
	for _, n := range []*Node{b, d} {
		n.Link = &Link{Node: n, CreatedMs: s.now}
		s.Connected(n.Link)
		pongs(s, n, n.Root().slots.Ranges()...)
	}
	out.sent = [bus.Types]int{}
	hears(s, b, 7, "0-9 11000-16383")
	return s, out, b, d
}

// pongs has a node answer a ping, with slots in the heartbeat.
func pongs(s *State, n *Node, ranges ...[2]int) {
	m := &bus.Message{Type: bus.Pong, Sender: n.ID, CurrentEpoch: s.current, ConfigEpoch: n.Root().Epoch, Flags: n.Flags,
		Slots: &bus.Bitmap{}, Port: n.Port, BusPort: n.BusPort, IP: n.IP}
	if n.Primary != nil {
		m.Primary = n.Primary.ID
	}
	for _, r := range ranges {
		for slot := r[0]; slot <= r[1]; slot++ {
			m.Slots.Add(slot)
		}
	}
	s.Receive(n.Link, m)
	s.Finish()
}

// tick lets ms pass, with a Tick at their end.
func tick(s *State, ms int64) {
	s.At(s.now + ms)
	s.Tick()
	s.Finish()
}

// TestReplicaKnowsBeforeKeysLeave (state.L1): the keys of lost slots stay until the replica answers a ping without
// these slots. It is told of the new owner, and asked again at the next tick only.
func TestReplicaKnowsBeforeKeysLeave(t *testing.T) {
	s, out, _, d := leaving(t)
	if out.sent[bus.Ping] != 1 {
		t.Errorf("%d pings for the replica at once", out.sent[bus.Ping])
	}
	pongs(s, d, [2]int{0, 10999})
	if out.sent[bus.Update] != 1 || out.sent[bus.Ping] != 1 {
		t.Errorf("the replica claims the slots: %d updates, %d pings", out.sent[bus.Update], out.sent[bus.Ping])
	}
	tick(s, TickMs)
	tick(s, TickMs)
	if out.sent[bus.Ping] != 2 {
		t.Errorf("%d pings after two ticks without an answer", out.sent[bus.Ping])
	}
	if len(out.dropped) > 0 {
		t.Fatalf("the keys of %v are removed while the replica claims them", out.dropped)
	}
	pongs(s, d, [2]int{10, 10999})
	if !slices.Equal(out.dropped, []uint16{3, 4}) || out.late > 0 {
		t.Errorf("the keys of %v are removed, want 3 and 4; %d log lines", out.dropped, out.late)
	}
	tick(s, TickMs)
	if len(out.dropped) != 2 {
		t.Errorf("a later tick removes the keys again: %v", out.dropped)
	}
}

// TestOldPrimaryKnowsBeforeKeysLeave: this node has taken over from D, which follows it, but has not said so on the bus
// yet. D may serve readers of the lost slots. So the keys stay until D answers without these slots.
func TestOldPrimaryKnowsBeforeKeysLeave(t *testing.T) {
	s, out, b, d := leaving(t)
	pongs(s, d, [2]int{10, 10999})
	out.dropped = nil
	s.me.removeReplica(d)
	d.Flags, d.Primary = d.Flags&^bus.Replica|bus.Primary, nil
	out.keys[11] = 1
	if hears(s, b, 8, "0-19 11000-16383"); len(out.dropped) > 0 {
		t.Fatalf("the keys of %v are removed before the old primary knows", out.dropped)
	}
	d.Flags, d.Primary = d.Flags&^bus.Primary|bus.Replica, s.me
	s.me.addReplica(d)
	if pongs(s, d, [2]int{10, 10999}); len(out.dropped) > 0 {
		t.Fatalf("the keys of %v are removed while the old primary shows them", out.dropped)
	}
	tick(s, TickMs)
	if pongs(s, d, [2]int{20, 10999}); !slices.Contains(out.dropped, 11) {
		t.Errorf("the keys of %v are removed, want 11", out.dropped)
	}
}

// TestLateAnswer (state.L1): the answer to an earlier ping comes after the loss. It is of a time before the replica
// knew that this node had got the slots.
func TestLateAnswer(t *testing.T) {
	s, out, _, d := leaving(t)
	d.ponged--
	pongs(s, d, [2]int{10, 10999})
	if len(out.dropped) > 0 {
		t.Fatalf("after the answer to an earlier ping the keys of %v are removed", out.dropped)
	}
	pongs(s, d, [2]int{10, 10999})
	if !slices.Equal(out.dropped, []uint16{3, 4}) {
		t.Errorf("the keys of %v are removed", out.dropped)
	}
}

// TestReplicaDoesNotAnswer (state.L2): the keys go after two node timeouts, and at once if the replica has failed. The
// log says so.
func TestReplicaDoesNotAnswer(t *testing.T) {
	s, out, _, d := leaving(t)
	tick(s, 2*s.Terms.NodeTimeout-1)
	if len(out.dropped) > 0 {
		t.Fatalf("the keys of %v are removed before two node timeouts", out.dropped)
	}
	tick(s, 1)
	if !slices.Equal(out.dropped, []uint16{3, 4}) || out.late != 1 {
		t.Errorf("after two node timeouts the keys of %v are removed, with %d log lines", out.dropped, out.late)
	}
	s, out, _, d = leaving(t)
	d.Flags |= bus.Failed
	if tick(s, TickMs); !slices.Equal(out.dropped, []uint16{3, 4}) || out.late != 1 {
		t.Errorf("the replica has failed: the keys of %v are removed, with %d log lines", out.dropped, out.late)
	}
}

// TestMoreSlotsLeave: another slot is lost before the replica knows the first loss. An answer that shows the first loss
// alone is not enough, nor is it for a later loss.
func TestMoreSlotsLeave(t *testing.T) {
	s, out, b, d := leaving(t)
	hears(s, b, 7, "0-9 20 11000-16383")
	pongs(s, d, [2]int{0, 10999})
	pongs(s, d, [2]int{10, 10999})
	if len(out.dropped) > 0 {
		t.Fatalf("the keys of %v are removed", out.dropped)
	}
	tick(s, TickMs)
	pongs(s, d, [2]int{10, 19}, [2]int{21, 10999})
	if !slices.Equal(out.dropped, []uint16{3, 4, 20}) {
		t.Errorf("the keys of %v are removed", out.dropped)
	}
	out.keys, out.dropped = map[int]int{30: 1}, nil
	hears(s, b, 7, "0-9 20 30 11000-16383")
	if len(out.dropped) > 0 {
		t.Errorf("the replica does not know the latest loss: the keys of %v are removed", out.dropped)
	}
}

// TestHeirWaitsForOtherReplicas: this replica takes over before its primary has removed the keys of lost slots. The
// other replica still calls the old primary its own. The old primary may follow this node already.
func TestHeirWaitsForOtherReplicas(t *testing.T) {
	s, err := loaded("vars currentEpoch 6 lastVoteEpoch 0\n" +
		idA + " 127.0.0.1:7000@17000 myself,slave " + idB + " 0 0 2 connected\n" +
		idB + " 127.0.0.1:7001@17001 master - 0 0 2 connected 0-9\n" +
		idC + " 127.0.0.1:7002@17002 master - 0 0 3 connected 10-16383\n" +
		idD + " 127.0.0.1:7003@17003 slave " + idB + " 0 0 2 connected\n")
	if err != nil {
		t.Fatal(err)
	}
	out := newDropper(map[int]int{3: 1})
	s.out = out
	b, d := s.byID[idB], s.byID[idD]
	for _, n := range []*Node{b, d} {
		n.Link = &Link{Node: n, CreatedMs: s.now}
		s.Connected(n.Link)
		pongs(s, n, [2]int{0, 9})
	}
	hears(s, s.byID[idC], 7, "3 10-16383")
	if err := s.Failover(false, true); err != nil {
		t.Fatal(err)
	}
	s.Promoted()
	s.Finish()
	pongs(s, d, [2]int{0, 9})
	if len(out.dropped) > 0 {
		t.Fatalf("the keys of %v are removed while a replica claims them", out.dropped)
	}
	tick(s, TickMs)
	pongs(s, d, [2]int{0, 2}, [2]int{4, 9})
	if len(out.dropped) > 0 {
		t.Fatalf("the keys of %v are removed before the old primary knows", out.dropped)
	}
	pongs(s, b, [2]int{0, 2}, [2]int{4, 9})
	if !slices.Equal(out.dropped, []uint16{3}) {
		t.Errorf("the keys of %v are removed", out.dropped)
	}
}

// TestLeftoversStayAway: an operator wants a slot back, or a node without data, while keys of lost slots wait for their
// removal. That is refused until they are gone, even if such keys come later. Other orders do not delay the removal.
func TestLeftoversStayAway(t *testing.T) {
	returns := map[string]func(s *State) error{
		"IMPORTING": func(s *State) error { return s.Importing(3, idB) },
		"NODE":      func(s *State) error { return s.Bind(3, idA) },
		"REPLICATE": func(s *State) error {
			s.Release(ints(10, 10999))
			return s.Replicate(idB, len(s.Leftovers()) == 0)
		},
		"RESET": func(s *State) error { return s.Reset(false, len(s.Leftovers()) == 0) },
	}
	for name, order := range returns {
		s, out, _, d := leaving(t)
		for range 2 {
			if err := order(s); err != errLeaving {
				t.Errorf("%s: %v", name, err)
			}
		}
		pongs(s, d, [2]int{10, 10999})
		if !slices.Equal(out.dropped, []uint16{3, 4}) {
			t.Errorf("after %s the keys of %v are removed", name, out.dropped)
		}
		if err := order(s); err != errLeaving {
			t.Errorf("%s during the removal: %v", name, err)
		}
		if pongs(s, d, [2]int{10, 10999}); !slices.Equal(out.dropped, []uint16{3, 4, 3, 4}) {
			t.Errorf("after %s the keys that came later stay: %v", name, out.dropped)
		}
		clear(out.keys)
		if err := order(s); err != nil {
			t.Errorf("%s after the removal: %v", name, err)
		}
	}
	s, out, b, d := leaving(t)
	s.Bump()
	hears(s, s.byID[idC], 9, "3")
	s.Release([]int{4})
	// D lists slot 4, which has no owner, and a lost slot without keys.
	if pongs(s, d, [2]int{4, 5}, [2]int{10, 10999}); !slices.Equal(out.dropped, []uint16{3}) {
		t.Errorf("C has slot 3, and no node has slot 4: the keys of %v are removed", out.dropped)
	}
	hears(s, b, 10, "3-9 11000-16383")
	delete(out.keys, 4)
	if err := s.Importing(4, idB); err != nil {
		t.Fatal(err)
	}
	out.keys[4] = 1
	if s.Leftover(4) || !s.Leftover(3) {
		t.Error("a late removal takes keys of slot 4 that an operator brings back")
	}
}

// ints returns the numbers from first to last.
func ints(first, last int) (list []int) {
	for n := first; n <= last; n++ {
		list = append(list, n)
	}
	return list
}

// TestEachLossHasItsTime (state.L2): a replica that does not answer lets the keys go after two node timeouts. Slots
// that are lost just before wait as long: another replica may not know of them.
func TestEachLossHasItsTime(t *testing.T) {
	s, out, b, _ := leaving(t)
	tick(s, 2*s.Terms.NodeTimeout-1)
	hears(s, b, 7, "0-9 20 11000-16383")
	tick(s, 2*s.Terms.NodeTimeout-1)
	if len(out.dropped) > 0 {
		t.Fatalf("the keys of %v are removed", out.dropped)
	}
	tick(s, 1)
	if !slices.Equal(out.dropped, []uint16{3, 4, 20}) {
		t.Errorf("after two node timeouts the keys of %v are removed", out.dropped)
	}
}

// TestLossOutlivesFailovers: D takes over before A has removed the keys of lost slots, and fails before it has. A takes
// over again, and removes them.
func TestLossOutlivesFailovers(t *testing.T) {
	s, out, _, d := leaving(t)
	out.keys[10] = 1
	hears(s, d, 8, "10-10999")
	if s.me.Primary != d {
		t.Fatal("A does not follow D")
	}
	d.Flags |= bus.Failed
	if err := s.Failover(true, true); err != nil {
		t.Fatal(err)
	}
	s.Promoted()
	if s.Finish(); !slices.Equal(out.dropped, []uint16{3, 4}) {
		t.Errorf("the keys of %v are removed", out.dropped)
	}
	if err := s.Importing(3, idB); err != errLeaving {
		t.Errorf("IMPORTING: %v", err)
	}
}

// TestReturnIsOnDiskBeforeItsReply: an operator begins to bring a lost slot back. nodes.conf calls it lost no longer
// before the operator has the reply. A restart would remove the keys that come otherwise.
func TestReturnIsOnDiskBeforeItsReply(t *testing.T) {
	s, out, _, _ := leaving(t)
	out.keys[3] = 0
	before := s.critical
	if err := s.Importing(3, idB); err != nil || s.critical == before {
		t.Errorf("IMPORTING: %v, and %d saves come before the reply", err, s.critical-before)
	}
}

// TestPrimaryHearsAtOnce (state.L1): a node that becomes a replica tells its new primary. The primary would not wait
// for an unknown replica.
func TestPrimaryHearsAtOnce(t *testing.T) {
	s, out, _, d := leaving(t)
	s.lost = bus.Bitmap{}
	s.me.slots, s.me.NumSlots = bus.Bitmap{}, 0
	d.Flags, d.Primary = bus.Primary, nil
	out.sent = [bus.Types]int{}
	if err := s.Replicate(idD, true); err != nil {
		t.Fatal(err)
	}
	if out.sent[bus.Pong] != 1 || out.last.Primary != idD {
		t.Errorf("%d pongs for the new primary, the last one of a replica of %q", out.sent[bus.Pong], out.last.Primary)
	}
}
