package whole

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spindle/internal/slots"
	"spindle/tests/testkit"
)

// In these columns a unit runs at the source of a move, while the replica of one end takes over, or takes a full copy.
// Afterwards the slot has one owner, with whole units.
var takeColumns = []*column{
	leadsColumn("source-replica-leads", func(c *cell) (end, other *testkit.Server) { return c.p, c.more[0] }),
	leadsColumn("target-replica-leads", func(c *cell) (end, other *testkit.Server) { return c.more[0], c.p }),
	{name: "end-full-copy", kind: movers, weight: 1, rows: deathRows, before: func(c *cell) {
		end, other := c.p, c.more[0]
		if c.rng.IntN(2) == 0 {
			end, other = other, end
		}
		c.replicaOf(end).Do("CONFIG", "SET", "repl-diskless-load", pick(c.rng, "disabled", "on-empty-db", "swapdb"))
		end.Do("CONFIG", "SET", "repl-diskless-sync", pick(c.rng, "yes", "no"), "rdb-key-save-delay", c.rng.IntN(100))
		c.atSource(end, other)
	}, ready: (*cell).standsStill, act: func(c *cell) {
		c.meets()
		end := c.death.of
		c.saves = end.InfoInt("stats", "sync_full")
		end.Do("DEBUG", "CHANGE-REPL-ID")
		end.Do("CLIENT", "KILL", "TYPE", "replica")
		testkit.Moment(c.rng, 20*time.Millisecond)
		c.wakes()
	}, after: func(c *cell) {
		c.await("a full copy", func() error {
			if n := c.death.of.InfoInt("stats", "sync_full"); n == c.saves {
				return fmt.Errorf("%d copies", n)
			}
			return nil
		})
		c.arrived()
	}, verify: (*cell).checkTake, restore: func(c *cell) {
		c.death.of.Do("CONFIG", "SET", "rdb-key-save-delay", 0)
		c.agreed(5)
	}},
}

// leadsColumn returns a column in which the replica of an end of a move takes over.
func leadsColumn(name string, ends func(c *cell) (end, other *testkit.Server)) *column {
	return &column{name: name, kind: movers, weight: 4, rows: deathRows, before: func(c *cell) {
		c.takes, c.gives = pick(c.rng, "", "FORCE", "TAKEOVER"), false
		end, other := ends(c)
		// Voters vote about the same primary again after two node timeouts.
		testkit.Lapse(time.Until(c.replaced[end].Add(2*nodeTimeout + 100*time.Millisecond)))
		// The one of the two that loses its slots is to follow the other.
		for _, s := range []*testkit.Server{end, c.replicaOf(end)} {
			s.Do("CONFIG", "SET", "cluster-allow-replica-migration", "yes")
		}
		c.atSource(end, other)
	}, ready: (*cell).standsStill, act: func(c *cell) {
		c.meets()
		c.writesAtHeir()
		c.await("a take-over that begins", c.askTake)
		c.sleepsOn()
		c.wakes()
	}, after: (*cell).tookOver, verify: (*cell).checkTake, restore: func(c *cell) {
		c.setAll("cluster-allow-replica-migration", "no")
		c.agreed(5)
	}}
}

// sleepsOn returns at a random moment of the take-over. In some cells in which the other end stands still, that moment
// comes later. Then the old primary follows its heir, and has heard that the heir has ended the move.
func (c *cell) sleepsOn() {
	testkit.Moment(c.rng, 20*time.Millisecond)
	if !c.death.still || c.rng.IntN(2) == 0 {
		return
	}
	for began := time.Now(); time.Since(began) < nodeTimeout/3; {
		if c.death.of.Info("replication")["master_link_status"] == "up" {
			testkit.Moment(c.rng, 200*time.Millisecond)
			return
		}
		testkit.Lapse(2 * time.Millisecond)
	}
}

// replicaOf returns the replica of an end of the move.
func (c *cell) replicaOf(end *testkit.Server) *testkit.Server {
	if end == c.p {
		return c.r
	}
	return c.more[1]
}

// atSource begins a move. The unit will run at its source, and asks whether a replica has it. The source's replica has
// all that was there before.
func (c *cell) atSource(end, other *testkit.Server) {
	c.death = &death{of: end, other: other, log: true, stops: c.rng.IntN(2) == 0}
	c.must(c.p, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', KEYS[1] .. i, string.rep(i, 500)) end", 1,
		c.unit.key("pad:"), pads)
	c.beginMove()
	c.p.Do("WAIT", 1, 0)
	c.unit.at, c.unit.then = c.p, [][]any{{"WAIT", 1, 20}}
}

// askTake asks the replica of an end to take over.
func (c *cell) askTake() error {
	words := []any{"CLUSTER", "FAILOVER"}
	if c.takes != "" {
		words = append(words, c.takes)
	}
	v, err := c.replicaOf(c.death.of).Ask(words...)
	if err == nil {
		err = v.Err()
	}
	return err
}

// ownSlot returns a slot that an end has owned from the start, and that never moves.
func (c *cell) ownSlot(end *testkit.Server) uint16 {
	if c.next[end] > slots.Count/2 {
		return slots.Count - 1
	}
	return slots.Count / 2
}

// writesAtHeir has a client send a unit to the heir, in a slot that does not move, from before the take-over until the
// heir serves. Then the client increments a key there.
func (c *cell) writesAtHeir() {
	old, heir, m := c.death.of, c.replicaOf(c.death.of), c.moving
	m.logs = map[*testkit.Server]int{old: len(old.Log()), heir: len(heir.Log())}
	u := unit{tag: c.tag("h", c.ownSlot(old)), n: 2 + c.rng.IntN(30)}
	client := known(c, heir)
	client.SetTimeout(testkit.Slowly(time.Minute))
	m.looks.Go(func() {
		defer client.Close()
		for tick := time.Tick(300 * time.Microsecond); ; {
			select {
			case <-m.over:
				return
			case <-tick:
			}
			words := u.part(1, u.n, 0, "EVAL", steps)
			if m.heirs != nil {
				words = []any{"INCR", u.key("v")}
			}
			switch v, err := client.Do(words...); {
			case err != nil || v.Err() != nil && m.heirs != nil:
				return
			case v.Err() != nil: // it does not serve yet
			case m.heirs == nil:
				u.reply = v
				m.heirs = &u
			default:
				m.heirsAcked = v.Int
			}
		}
	})
}

// collided reports whether one of the two primaries of a shard says that both had one epoch. A claim of the old primary
// may get the epoch of an election that it has not heard of (state.T6).
func (c *cell) collided(old, heir *testkit.Server) bool {
	says := func(one, of *testkit.Server) bool {
		return strings.Contains(one.Log()[c.moving.logs[one]:], "configEpoch collision with node "+c.id(of))
	}
	return says(old, heir) || says(heir, old)
}

// tookOver waits for the take-over and for the end of the move. If the heir does not wait for the old primary, a claim
// may get the epoch of its election. Then each of them may have some slots. Here, as an operator would, the one without
// the slot that stays gives the other its slot and follows it. After FORCE that is the old primary: an elected heir
// stays the primary. After TAKEOVER it may be the heir, without one epoch too. Then the heir takes over afterwards.
func (c *cell) tookOver() {
	old, heir, asked, both := c.death.of, c.replicaOf(c.death.of), time.Now(), time.Time{}
	led := false
	c.await("the take-over", func() error {
		role := heir.Info("replication")["role"]
		roles := role + " " + old.Info("replication")["role"]
		if led = led || role == "master"; led && role == "slave" && c.takes != "TAKEOVER" {
			c.Fatalf("the heir, %s, has become a replica again; one epoch: %t", heir.Addr, c.collided(old, heir))
		}
		switch {
		case roles != "master master":
			both = time.Time{}
		case both.IsZero():
			both = time.Now()
		case time.Since(both) > 2*time.Second && (c.takes == "TAKEOVER" || c.takes == "FORCE" && c.collided(old, heir)):
			lead, other := heir, old
			if c.takes == "TAKEOVER" && c.ownerOf(c.more[2], c.ownSlot(old)) == old {
				lead, other = old, heir
			}
			v, err := other.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", c.slot, c.slot, "NODE", c.id(lead))
			c.gives = c.gives || other == old && err == nil && v.Err() == nil
			_, _ = other.Ask("CLUSTER", "REPLICATE", c.id(lead)) // refused unless it is empty
		}
		if time.Since(asked) > 6*time.Second { // a node may have voted too late
			asked = time.Now()
			_ = c.askTake()
		}
		if roles != "master slave" {
			return fmt.Errorf("after %q the heir, %s, and %s are %s", c.takes, heir.Addr, old.Addr, roles)
		}
		return nil
	})
	if c.replaced == nil {
		c.replaced = map[*testkit.Server]time.Time{}
	}
	c.replaced[old] = time.Now()
	c.next[heir] = c.next[old]
	if old == c.p {
		c.p, c.r = heir, old
	} else {
		c.more[0], c.more[1] = heir, old
	}
	c.arrived()
}

// mayHavePart reports whether a replica of the target takes over without waiting for its primary. The stream brings the
// keys of a move one by one. So the replica may have some of them when it hears on the bus that the slot is its
// shard's.
func (c *cell) mayHavePart() bool { return c.takes != "" && c.column.name == "target-replica-leads" }

// checkTake is checkMove, and checks the keys from before the move. A replica of the target that does not wait for its
// primary may lack some, unless the old primary has given it the slot. One of the source has all that it has confirmed.
func (c *cell) checkTake() {
	c.unit.at, c.lost = c.p, c.takes != ""
	n, moved := c.read(c.p, c.padKeys("EXISTS")...).Int, *c
	moved.unit = c.moving.moved
	is, detail := lookAtSteps(&moved, c.p)
	if c.part = c.mayHavePart() && c.r == c.death.of && !c.gives; !c.part {
		if n != pads || is != whole {
			c.Errorf("%d of %d keys from before the move are there; the moved unit is %v: %s", n, pads, is, detail)
		}
		c.holds(c.p, "the slot's owner, of a confirmed unit,", len(c.unit.after) > 0 && c.unit.after[0].Int > 0)
	}
	c.checkHeir()
	c.checkMove()
	c.must(c.p, c.padKeys("UNLINK")...)
}

// checkHeir checks what the heir has acknowledged as soon as it was the primary. After TAKEOVER it may have lost that:
// a claim with a greater epoch beats it.
func (c *cell) checkHeir() {
	m := c.moving
	if m.heirs == nil {
		return
	}
	heir, other, kept := c.heirNow(), *c, c.takes != "TAKEOVER"
	other.unit, other.row = *m.heirs, eval
	other.holds(heir, "the heir, of a unit in a slot that stays,", kept)
	if n, _ := strconv.ParseInt(c.read(heir, "GET", other.unit.key("v")).Text, 10, 64); n < m.heirsAcked && kept {
		c.Errorf("the heir has %d increments, and has acknowledged %d", n, m.heirsAcked)
	}
	other.clean()
}

// heirNow returns the server that has replaced the end, after the take-over.
func (c *cell) heirNow() *testkit.Server {
	if c.r == c.death.of {
		return c.p
	}
	return c.more[0]
}
