package whole

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// movers is two primaries with a replica each, and a third primary that only votes. One slot moves as a whole between
// the first two, there and back. p owns it between cells, and r is its replica. more has the other primary, its replica
// and the third.
var movers = &kind{name: "mover", lanes: 1, set: func(s *scene) {
	bus := s.startNodes(5, "--appendonly", "yes")
	for i, one := range []*testkit.Server{s.p, s.more[0], s.more[2]} {
		one.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		one.Do("FUNCTION", "LOAD", "REPLACE", library)
	}
	const half = slots.Count / 2
	s.p.Do("CLUSTER", "ADDSLOTSRANGE", half+1, slots.Count-1)
	s.more[0].Do("CLUSTER", "ADDSLOTSRANGE", 1, half)
	s.more[2].Do("CLUSTER", "ADDSLOTS", 0)
	testkit.Meet(s, s.p, bus, append([]*testkit.Server{s.r}, s.more...)...)
	s.agreed(5)
	s.r.Do("CLUSTER", "REPLICATE", s.id(s.p))
	s.more[1].Do("CLUSTER", "REPLICATE", s.id(s.more[0]))
	for _, one := range []*testkit.Server{s.r, s.more[1]} {
		one.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	}
	for _, one := range []*testkit.Server{s.p, s.more[0]} {
		testkit.Until(s, testkit.Slowly(20*time.Second), "the primary knows its replica", func() error {
			return testkit.Equal(len(one.Do("CLUSTER", "REPLICAS", s.id(one)).Elems), 1)
		})
	}
	s.taken = map[uint16]bool{}
	for slot := range uint16(slots.Count) {
		s.taken[slot] = true
	}
	s.next = map[*testkit.Server]uint16{s.p: half + 1, s.more[0]: 1}
	s.movesAnother()
	// Each end always has a key, because a view leaves out empty databases.
	s.p.Do("SET", s.tag("stays", slots.Count-1), 1)
	s.more[0].Do("SET", s.tag("stays", half), 1)
}}

// movesAnother makes another slot of p the one that moves. The target has never owned it.
func (s *scene) movesAnother() {
	s.taken[s.slot] = true
	s.slot = s.next[s.p]
	s.taken[s.slot] = false
	s.next[s.p]++
}

// tag returns a new tag in a slot.
func (s *scene) tag(prefix string, slot uint16) string {
	for {
		s.units++
		if tag := prefix + strconv.Itoa(s.units); slots.Of([]byte(tag)) == slot {
			return tag
		}
	}
}

var movingColumns = []*column{
	// The unit runs at the target as soon as the slot is there.
	{name: "arrives", kind: movers, weight: 12, rows: clusterRows, before: (*cell).beginMove, act: func(c *cell) {
		for began := time.Now(); c.refused(); c.resend() {
			if time.Since(began) > patience {
				c.Fatalf("the target does not serve the slot: %s; the move is %s at the source, %s at the target", c.outcome(),
					moveState(c.p), moveState(c.more[0]))
			}
		}
		c.succeeds()
	}, after: (*cell).arrived, verify: (*cell).checkMove},
	// The unit runs at the target, and has nothing to do with the slot.
	{name: "arrives-other-slot", kind: movers, weight: 12, rows: []*row{eval, fcall, exec, restore, counter},
		before: func(c *cell) {
			c.elsewhere(c.more[0])
			c.beginMove()
			c.soon()
		}, act: func(c *cell) {
			c.nap()
			s, words := pick(c.rng, c.p, c.more[0]), pick(c.rng, []any{"PING"}, []any{"CLUSTER", "CANCELSLOTMIGRATIONS"},
				[]any{"CLIENT", "KILL", "TYPE", "normal"}, []any{"BGSAVE"}, []any{"BGREWRITEAOF"},
				[]any{"CLIENT", "KILL", "TYPE", "replica"})
			c.tell(s, words...)
			if s != c.unit.at || words[len(words)-1] != "normal" { // which kills the unit's client
				c.succeeds()
			}
		}, after: (*cell).arrived, verify: (*cell).checkMove},
	// A unit without writes runs at the target's replica.
	{name: "arrives-replica", kind: movers, weight: 6, rows: []*row{counter}, before: func(c *cell) {
		c.unit.at = c.more[1]
		c.beginMove()
		c.soon()
	}, act: (*cell).succeeds, after: (*cell).arrived, verify: (*cell).checkMove},
}

// succeeds waits for the unit's end, and fails the cell unless the unit was acknowledged.
func (c *cell) succeeds() {
	if c.end(); !c.unit.acked() {
		c.Errorf("the unit has failed: %s", c.outcome())
	}
}

// elsewhere makes the unit run on s, with keys of a slot that stays there.
func (c *cell) elsewhere(s *testkit.Server) {
	c.unit.at = s
	for c.ownerOf(s, slots.Of([]byte(c.unit.tag))) != s {
		c.units++
		c.unit.tag = "u" + strconv.Itoa(c.units)
	}
}

// A slotMove is one move of the slot.
type slotMove struct {
	moved unit // it was acknowledged at the source before the move
	over  chan struct{}
	looks sync.WaitGroup // the clients that look at the moved unit
	acked int64          // increments that the source has acknowledged during the move

	heirs      *unit                   // the heir of an end has acknowledged it (leadsColumn); nil: none
	heirsAcked int64                   // increments that the heir has acknowledged
	logs       map[*testkit.Server]int // the lengths of the logs before the take-over
}

// end ends the clients of the move. It may be called again.
func (m *slotMove) end() {
	select {
	case <-m.over:
	default:
		close(m.over)
	}
	m.looks.Wait()
}

// lookAtMoved is a script that returns what a server has of the moved unit.
const lookAtMoved = `return {redis.call('GET', KEYS[1]) or '', tostring(redis.call('LLEN', KEYS[2])),
	redis.call('GET', KEYS[3]) or ''}`

// beginMove starts a move of the slot, after the source has acknowledged a unit in it. Meanwhile clients look at that
// unit on all nodes.
func (c *cell) beginMove() {
	c.fillSlot()
	// arrived exchanges the fields.
	source, sourceReplica, target, targetReplica := c.p, c.r, c.more[0], c.more[1]
	c.moving.looks.Go(func() { c.increments(source) })
	first := c.looker(source, "the source", false)
	c.await("a look at the moved unit, before the move", func() error {
		first.look()
		return testkit.Equal(first.seen, true)
	})
	c.moving.looks.Go(first.run)
	c.moving.looks.Go(c.looker(target, "the target", false).run)
	c.counts(target, "the target", func(n, _ int64) bool { return n >= movedKeys })
	left := c.looker(sourceReplica, "the source's replica", true)
	left.source, left.logged = source, len(source.Log())
	c.moving.looks.Go(left.run)
	heir := c.looker(targetReplica, "the target's replica", true)
	heir.part = c.mayHavePart()
	c.moving.looks.Go(heir.run)
	if c.column.name == "target-replica-leads" { // it may lack keys (mayHavePart), but none come later
		c.counts(targetReplica, "the target's heir", func(n, first int64) bool { return n <= first })
	}
	if c.unit.at == c.p {
		c.unit.at = c.more[0]
	}
	c.await("the begin of a move", c.askMove) // otherwise arrived would read the state of an earlier move
	c.lags()
}

// fillSlot makes the source acknowledge the unit that will move.
func (c *cell) fillSlot() {
	c.moving = &slotMove{moved: unit{tag: c.tag("c", c.slot), n: 100 + c.rng.IntN(400)}, over: make(chan struct{})}
	moved := &c.moving.moved
	c.must(c.p, moved.part(1, moved.n, 0, "EVAL", steps)...)
}

// askMove asks the slot's owner to move it. It is refused while the slot moves.
func (c *cell) askMove() error {
	v, err := c.p.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", c.slot, c.slot, "NODE", c.id(c.more[0]))
	if err == nil {
		err = v.Err()
	}
	return err
}

// A looker looks at the moved unit on one server.
type looker struct {
	c       *cell
	client  *respclient.Client
	name    string
	replica bool            // the server may lack the moved unit, until it has shown it
	part    bool            // it may have a part of the moved unit (mayHavePart)
	seen    bool            // the server has shown the moved unit
	source  *testkit.Server // the looker looks at its replica; nil: it does not
	logged  int             // the length of source's log before the move
}

// looker connects a looker to s.
func (c *cell) looker(s *testkit.Server, name string, replica bool) *looker {
	client := known(c, s)
	client.SetTimeout(testkit.Slowly(time.Minute))
	if replica {
		if v, err := client.Do("READONLY"); err != nil || v.Err() != nil {
			c.Fatalf("READONLY: %v %v", v, err)
		}
	}
	return &looker{c: c, client: client, name: name + ", " + s.Addr, replica: replica}
}

// look looks once. It reports whether the server may be asked again.
func (l *looker) look() bool {
	u := &l.c.moving.moved
	v, err := l.client.Do("EVAL_RO", lookAtMoved, 3, u.key("c"), u.key("l"), u.key("m"))
	if err != nil {
		return false // the connection was killed
	}
	if v.Err() != nil {
		return true // the node does not serve the slot
	}
	want := strings.Repeat(strconv.Itoa(u.n)+" ", 3)
	switch got := strings.Join(v.Strings(), " ") + " "; {
	case got == want:
		l.seen = true
	case l.late():
		return false
	case l.part && !l.seen:
	case got != " 0  " || !l.replica || l.seen:
		l.c.Errorf("%s, has %q of a unit that was there before the move, not %q; seen before: %t", l.name, got, want,
			l.seen)
		return false
	}
	return true
}

// late reports whether the source has removed the keys though its replica had not shown that it knows the new owner.
// The source does so after two node timeouts, for instance because the host stood still.
func (l *looker) late() bool {
	return l.source != nil && strings.Contains(l.source.Log()[l.logged:], "it has not shown that it knows")
}

// run looks until the move is over.
func (l *looker) run() {
	defer l.client.Close()
	for tick := time.Tick(300 * time.Microsecond); ; {
		select {
		case <-l.c.moving.over:
			return
		case <-tick:
		}
		if !l.look() {
			return
		}
	}
}

// movedKeys is the number of keys of a moved unit.
const movedKeys = 3

// counts has a client count the slot's keys on s, in transactions that also ask for the role and the slot's owner. If s
// owns the slot as a primary, right judges the number; first is the one when s became the owner. A transaction without
// keys is not held for the slot, and a hidden key is not counted.
func (c *cell) counts(s *testkit.Server, name string, right func(n, first int64) bool) {
	client, slot, first := known(c, s), c.slot, int64(-1)
	client.SetTimeout(testkit.Slowly(time.Minute))
	count := [][]any{{"MULTI"}, {"ROLE"}, {"CLUSTER", "SLOTS"}, {"CLUSTER", "COUNTKEYSINSLOT", slot}, {"EXEC"}}
	c.moving.looks.Go(func() {
		defer client.Close()
		for tick := time.Tick(time.Millisecond); ; {
			select {
			case <-c.moving.over:
				return
			case <-tick:
			}
			var v respclient.Value
			for _, words := range count {
				var err error
				if v, err = client.Do(words...); err != nil {
					return // the connection was killed
				}
			}
			if e := v.Elems; len(e) < 3 || e[0].Elems[0].Text != "master" || ownerIn(e[1], slot) != s.Port {
				first = -1
				continue
			}
			n := v.Elems[2].Int
			if first < 0 {
				first = n
			}
			if !right(n, first) {
				c.Errorf("%s, %s, owns the slot and shows %d keys of it, and %d at first", name, s.Addr, n, first)
				return
			}
		}
	})
}

// increments increments a key of the moved unit at the source, as long as the source has the slot.
func (c *cell) increments(source *testkit.Server) {
	client, err := respclient.Dial(source.Addr)
	if err != nil {
		return
	}
	defer client.Close()
	client.SetTimeout(testkit.Slowly(time.Minute))
	for tick := time.Tick(300 * time.Microsecond); ; {
		select {
		case <-c.moving.over:
			return
		case <-tick:
		}
		v, err := client.Do("INCR", c.moving.moved.key("v"))
		if err != nil || v.Err() != nil {
			return
		}
		c.moving.acked = v.Int
	}
}

// lags delays the target's replica. DEBUG SLEEP stops all of it, including its bus. CLIENT KILL delays only its stream,
// so that the bus may tell it of the move's end before it has the keys. Sometimes lags does nothing.
func (c *cell) lags() {
	wait, length := time.Duration(c.rng.Int64N(int64(20*time.Millisecond))), 0.001*float64(1+c.rng.IntN(100))
	words := pick(c.rng, []any{"PING"}, []any{"DEBUG", "SLEEP", length}, []any{"CLIENT", "KILL", "TYPE", "master"},
		[]any{"CLIENT", "KILL", "TYPE", "master"})
	replica := c.more[1]
	c.moving.looks.Go(func() {
		testkit.Lapse(wait)
		_, _ = replica.Ask(words...)
	})
}

// refused waits for the unit's end. It reports whether the unit's server did not serve the slot yet.
func (c *cell) refused() bool {
	if c.end(); !c.unit.refused() {
		return false
	}
	_ = c.askMove() // the move may have failed; it is refused if not
	testkit.Moment(c.rng, 2*time.Millisecond)
	return true
}

// refused reports whether the unit's server did not serve the slot.
func (u *unit) refused() bool {
	err := u.reply.Err()
	return u.err == nil && err != nil && slices.ContainsFunc([]string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"},
		func(word string) bool { return strings.HasPrefix(err.Error(), word) })
}

// arrived waits until the move is over, and makes the slot's owner the primary of the next cell.
func (c *cell) arrived() {
	var owner *testkit.Server
	c.await("no move, and one owner of the slot", func() error {
		// The source is asked first, and both before the owner. A move that ended early may never have reached the target. A
		// source that was started again knows of no move.
		if state := moveState(c.p); (state != "none" || c.death == nil) && !slices.Contains(finalStates, state) {
			return fmt.Errorf("the move's state at the source is %s", state)
		}
		if state := moveState(c.more[0]); state != "none" && !slices.Contains(finalStates, state) {
			return fmt.Errorf("the move's state at the target is %s", state)
		}
		for _, s := range []*testkit.Server{c.r, c.more[1]} {
			if state := moveState(s); state != "none" && !slices.Contains(finalStates, state) {
				return fmt.Errorf("the move's state at a replica, %s, is %s", s.Addr, state)
			}
		}
		owner = c.ownerOf(c.p, c.slot)
		for _, s := range c.servers() {
			if own := c.ownerOf(s, c.slot); own == nil || own != owner {
				return fmt.Errorf("%s knows another owner", s.Addr)
			}
		}
		return nil
	})
	if owner == c.more[0] {
		c.p, c.r, c.more[0], c.more[1] = c.more[0], c.more[1], c.p, c.r
	}
	c.await("no key of the slot at the other primary", func() error {
		return testkit.Equal(c.more[0].Do("CLUSTER", "COUNTKEYSINSLOT", c.slot).Int, 0)
	})
	c.moving.end()
}

// finalStates has the states of a move that is over.
var finalStates = []string{"success", "failed", "cancelled"}

// moveState returns the state of a node's latest move, or "none" if the node has had no move.
func moveState(s *testkit.Server) string {
	v, err := s.Ask("CLUSTER", "GETSLOTMIGRATIONS")
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		return "unknown: " + err.Error()
	}
	if len(v.Elems) == 0 {
		return "none"
	}
	for i, e := range v.Elems[0].Elems {
		if e.Text == "state" {
			return v.Elems[0].Elems[i+1].Text
		}
	}
	return "unknown"
}

// ownerOf returns the primary that owns a slot, as s knows it; nil if s does not know.
func (c *cell) ownerOf(s *testkit.Server, slot uint16) *testkit.Server {
	v, err := s.Ask("CLUSTER", "SLOTS")
	if err != nil {
		return nil
	}
	for _, one := range c.servers() {
		if one.Port == ownerIn(v, slot) {
			return one
		}
	}
	return nil
}

// ownerIn returns the port of a slot's owner in a reply of CLUSTER SLOTS; 0 if it has none.
func ownerIn(v respclient.Value, slot uint16) int {
	for _, e := range v.Elems {
		if e.Elems[0].Int <= int64(slot) && int64(slot) <= e.Elems[1].Int {
			return int(e.Elems[2].Elems[1].Int)
		}
	}
	return 0
}

// checkMove checks both primaries and their replicas. The slot's owner must have the moved unit. The unit's server must
// have the unit, if it was acknowledged. An owner that died without a log may have none of them.
func (c *cell) checkMove() {
	c.equal([]*testkit.Server{c.p, c.r})
	c.equal(c.more[:2])
	other := *c
	other.unit, other.row = c.moving.moved, eval
	if !c.part {
		other.holds(c.p, "the slot's owner, of the moved unit,", !c.lost)
	}
	if n, _ := strconv.ParseInt(c.read(c.p, "GET", other.unit.key("v")).Text, 10, 64); n < c.moving.acked && !c.lost {
		c.Errorf("the slot's owner has %d increments, and the source has acknowledged %d", n, c.moving.acked)
	}
	if c.unit.at == c.more[0] {
		c.holds(c.more[0], "the unit's server", true)
	} else if !c.part {
		c.holds(c.p, "the slot's owner", !c.lost)
	}
	other.clean()
}
