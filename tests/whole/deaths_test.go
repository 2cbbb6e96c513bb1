package whole

import (
	"slices"
	"strconv"
	"syscall"
	"time"

	"spindle/tests/testkit"
)

// In these columns one end of a move is killed, and starts again on its log or its saved file. Afterwards the slot has
// one owner, with whole units. The other end has no key of the slot, also after a start.
var deathColumns = []*column{
	{name: "source-dies", kind: movers, weight: 1, rows: deathRows, before: func(c *cell) { c.dooms(c.p, c.more[0]) },
		ready: (*cell).standsStill, act: func(c *cell) {
			c.meets()
			c.dies()
		}, after: (*cell).arrivedAgain, verify: (*cell).checkDeath, restore: (*cell).revive},
	{name: "target-dies", kind: movers, weight: 2, rows: deathRows, before: func(c *cell) {
		// A target that has owned the slot before would remove all keys of the slot when it starts.
		if c.rng.IntN(2) == 0 {
			c.movesAnother()
			c.unit.tag = c.tag("u", c.slot)
		}
		c.dooms(c.more[0], c.p)
	},
		ready: (*cell).standsStill, act: func(c *cell) {
			if c.meets(); c.rng.IntN(3) > 0 {
				c.savesInMove()
			}
			c.dies()
		}, after: (*cell).arrivedAgain, verify: (*cell).checkDeath, restore: (*cell).revive},
}

var deathRows = []*row{eval, exec, restore}

// A death is that of one end of a move.
type death struct {
	of    *testkit.Server
	log   bool            // it has a log, with appendfsync always; otherwise it starts on its saved file
	other *testkit.Server // the other end
	stops bool            // the other end is to stand still early in the move
	still bool            // it stands still
}

// pads is the number of keys that are in the slot before the move. They take the source several writes.
const pads = 300

// padKeys appends their names to a command.
func (c *cell) padKeys(command ...any) []any {
	for i := range pads {
		command = append(command, c.unit.key("pad:"+strconv.Itoa(i+1)))
	}
	return command
}

// dooms begins a move in which s will die. If s will have no log, it saves its data before the move.
func (c *cell) dooms(s, other *testkit.Server) {
	c.death = &death{of: s, other: other, log: c.rng.IntN(2) == 0, stops: c.rng.IntN(2) == 0}
	c.must(c.p, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', KEYS[1] .. i, string.rep(i, 500)) end", 1,
		c.unit.key("pad:"), pads)
	for _, end := range []*testkit.Server{c.p, c.more[0]} {
		end.Do("CONFIG", "SET", "appendfsync", "always")
	}
	if !c.death.log {
		s.Do("CONFIG", "SET", "appendonly", "no")
		s.Do("SAVE")
	}
	c.beginMove()
}

// meets returns at a random time, or when the source holds its clients, or when the unit was acknowledged. Until then
// it sends a refused unit again. It does not wait for an end that stands still.
func (c *cell) meets() {
	if c.death.still {
		c.soon()
		return
	}
	began, done, answered := time.Now(), c.unit.done, false
	wait, way := time.Duration(c.rng.Int64N(int64(30*time.Millisecond))), c.rng.IntN(3)
	over := func() bool {
		switch took := time.Since(began); {
		case way == 0 || took > time.Second:
			return took > wait
		case way == 1:
			return slices.Contains(append(finalStates, "failover-paused", "failover-granted"), moveState(c.p))
		}
		return answered
	}
	for !over() {
		select {
		case <-done:
			if c.refused() {
				c.resend()
				done = c.unit.done
			} else {
				done, answered = nil, true
			}
		case <-time.After(200 * time.Microsecond):
		}
	}
}

// standsStill stops the other end at a random moment early in the move. So what follows comes within the move.
func (c *cell) standsStill() {
	if d := c.death; d.stops {
		testkit.Moment(c.rng, 4*time.Millisecond)
		d.other.Signal(syscall.SIGSTOP)
		d.stops, d.still = false, true
	}
}

// wakes ends standsStill.
func (c *cell) wakes() {
	c.death.other.Signal(syscall.SIGCONT)
	c.death.still = false
}

// savesInMove makes the target save its data, and then begin to rewrite its log if it has one. In some cells it then
// wakes the other end. A file that was begun before the target owned the slot must have no key of it.
func (c *cell) savesInMove() {
	s := c.death.of
	s.Do("CONFIG", "SET", "rdb-key-save-delay", pick(c.rng, 0, -10, -2, 50)) // the slot may arrive within the save
	begun := c.must(s, "BGSAVE").Text == "Background saving started"
	staged := begun && slices.Contains(stagedStates, moveState(s))
	if c.death.log {
		c.saved(s)
		c.must(s, "BGREWRITEAOF")
	}
	if c.rng.IntN(2) == 0 {
		c.wakes()
	}
	c.saved(s)
	if staged {
		moved := &c.moving.moved
		keys := c.padKeys("EXISTS", moved.key("c"), moved.key("l"), moved.key("m"), moved.key("v"))
		if n := c.readFile(s, "dump.rdb").Do(keys...).Int; n > 0 {
			c.Errorf("a file that was saved during the move has %d keys of it", n)
		}
	}
	c.meets()
}

// stagedStates has the states of a move at the target, in which the slot's keys come and are hidden.
var stagedStates = []string{"waiting-for-ack", "receiving-snapshot", "waiting-for-paused", "failover-requested"}

// dies kills the server and starts it again. The clients look at the other end in between, and at both ends afterwards.
func (c *cell) dies() {
	d, source, target := c.death, c.p, c.more[0]
	d.of.Kill()
	c.wakes()
	testkit.Moment(c.rng, 20*time.Millisecond)
	c.moving.end()
	c.startAgain(d.of)
	c.moving.over = make(chan struct{})
	c.moving.looks.Go(c.looker(source, "the source after a death", source == d.of && !d.log).run)
	c.moving.looks.Go(c.looker(target, "the target after a death", target == d.of && !d.log).run)
}

// startAgain starts a server as the cell had it.
func (c *cell) startAgain(s *testkit.Server) {
	log := "yes"
	if s == c.death.of && !c.death.log {
		log = "no"
	}
	s.Restart("--appendonly", log, "--appendfsync", "always")
}

// arrivedAgain is arrived. Then the server without the slot starts again in some cells, and has no key of the slot.
func (c *cell) arrivedAgain() {
	c.arrived()
	owner, other := c.p, c.more[0]
	if c.rng.IntN(3) == 0 {
		other.Kill()
		c.startAgain(other)
		if c.arrived(); c.p != owner {
			c.Errorf("%s has got the slot by a start", other.Addr)
		}
	}
	c.lost = owner == c.death.of && !c.death.log
}

// checkDeath is checkMove, and checks the keys from before the move. An owner without a log that has died may lack
// them, unless it is the source, which has saved them. A target without a log has nothing of the slot, or all.
func (c *cell) checkDeath() {
	n, moved := c.read(c.p, c.padKeys("EXISTS")...).Int, *c
	moved.unit = c.moving.moved
	is, detail := lookAtSteps(&moved, c.p)
	saved := c.column.name == "source-dies" && c.lost
	if n != pads && (n != 0 || saved || !c.lost) || !saved && (n == 0) != (is == absent) {
		c.Errorf("%d of %d keys from before the move are there; the moved unit is %v: %s", n, pads, is, detail)
	}
	c.checkMove()
	c.must(c.p, c.padKeys("UNLINK")...)
}

// revive brings the ends back to their first settings.
func (c *cell) revive() {
	for _, end := range []*testkit.Server{c.p, c.more[0]} {
		end.Do("CONFIG", "SET", "appendonly", "yes", "appendfsync", "everysec", "rdb-key-save-delay", 0)
	}
	c.rewritten(c.death.of)
	c.agreed(5)
}
