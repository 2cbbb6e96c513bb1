package whole

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"spindle/tests/testkit"
)

// In these columns a server must not show a part of a slot, or a key that it should no longer have. Such a server loads
// what the target of a move has saved, or is a former owner to which the slot comes back.
var saveColumns = []*column{
	// The unit runs at the source, and the target saves. The target has never owned the slot. Otherwise it would remove
	// the slot's keys when it starts, because the slot is one that it has lost.
	{name: "saves-in-move", kind: movers, weight: 30, rows: lending, before: func(c *cell) {
		c.movesAnother()
		c.unit.tag = c.tag("u", c.slot)
		c.fillSlot()
		c.await("the begin of a move", c.askMove)
	}, act: (*cell).savesThere, verify: func(c *cell) {
		c.unit.at = c.p // the slot's owner now
		c.checkMove()
	}},
	// A slot that has left as a whole comes back key by key.
	{name: "slot-returns", kind: movers, weight: 6, rows: lending, before: (*cell).leavesFirst, act: (*cell).comesBack,
		verify: func(c *cell) {
			if n := c.read(c.p, c.padKeys("EXISTS")...).Int; n != pads-1 {
				c.Errorf("%d keys are there, not %d", n, pads-1)
			}
			c.checkMove()
			c.must(c.p, c.padKeys("UNLINK")...)
		}},
}

// savesThere makes the target save at a random time. In half of the cells the source stands still meanwhile. When the
// move is over, another server loads what was saved.
func (c *cell) savesThere() {
	source, target, dir, log := c.p, c.more[0], "", c.rng.IntN(3) > 0
	owns := func() bool { return c.ownerOf(target, c.slot) == target }
	stages := func() bool { return slices.Contains(stagedStates, moveState(target)) }
	target.Do("CONFIG", "SET", "rdb-key-save-delay", pick(c.rng, 0, -10, -2, 50)) // the slot may arrive within the save
	c.await("a move that has begun", func() error {
		if stages() || owns() {
			return nil
		}
		return fmt.Errorf("not yet; asked again: %v", c.askMove())
	})
	testkit.Moment(c.rng, 12*time.Millisecond)
	if c.rng.IntN(2) == 0 {
		source.Signal(syscall.SIGSTOP)
	}
	owned, begun := owns(), stages()
	c.must(target, map[bool]any{true: "BGREWRITEAOF", false: "BGSAVE"}[log])
	if log && begun && c.rng.IntN(3) > 0 {
		dir = c.TempDir()
		files, err := c.logFiles(target), c.copyLog(target, dir)
		if err != nil || !stages() || !slices.Equal(files, c.logFiles(target)) {
			dir = "" // a rewrite may have changed the files
		}
	}
	staged := !owns()
	source.Signal(syscall.SIGCONT)
	c.end()
	c.arrived()
	target.Do("CONFIG", "SET", "rdb-key-save-delay", 0)
	c.saved(target)
	c.rewritten(target)
	if !log {
		c.shows(c.readFile(target, "dump.rdb"), "a file that was saved in a move", owned, !staged)
		return
	}
	has, args := c.p == target && dir == "", []string{"--appendonly", "yes"}
	if !has && c.rng.IntN(2) == 0 {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(c)))
	}
	c.load(func(to string) error {
		if dir == "" {
			return c.copyLog(target, to)
		}
		return os.Rename(filepath.Join(dir, "appendonlydir"), filepath.Join(to, "appendonlydir"))
	}, args, func(loaded *testkit.Server) { c.shows(loaded, "a log of a move", has, has) })
}

// shows fails the cell unless a server shows all keys of the move, or none. If has is set, it must show them. If may is
// not, it must not.
func (c *cell) shows(loaded *testkit.Server, what string, has, may bool) {
	moved, own, scene := *c, *c, *c.scene
	moved.unit, moved.row = c.moving.moved, eval
	keys := loaded.Do("KEYS", moved.unit.key("*")).Strings()
	keys = append(keys, loaded.Do("KEYS", own.unit.key("*")).Strings()...)
	switch {
	case !may && len(keys) > 0:
		c.Errorf("%s has keys of it: %q", what, keys)
	case has || len(keys) > 0:
		scene.taken = nil // loaded is in no cluster
		moved.scene, own.scene, moved.unit.reply.Text = &scene, &scene, "OK"
		moved.holds(loaded, what+", of the moved unit,", true)
		own.holds(loaded, what, true)
	}
}

// leavesFirst moves the slot away as a whole. When its former owner has removed the keys, they may come back.
func (c *cell) leavesFirst() {
	c.must(c.p, "EVAL", "for i = 1, ARGV[1] do redis.call('SET', KEYS[1] .. i, i) end", 1, c.unit.key("pad:"), pads)
	c.fillSlot()
	c.await("a slot that has left", func() error {
		if c.ownerOf(c.p, c.slot) == c.more[0] {
			return nil
		}
		return fmt.Errorf("the move is %s; asked again: %v", moveState(c.p), c.askMove())
	})
	c.setSlot(c.p, "IMPORTING", c.more[0])
	c.must(c.more[0], "DEL", c.unit.key("pad:1")) // the former owner must not have it any more
	c.unit.at = pick(c.rng, c.p, c.more[0])
}

// comesBack brings the slot back to its former owner. In half of the cells a replica takes over from that in between.
func (c *cell) comesBack() {
	from := c.more[0]
	c.nap()
	c.setSlot(from, "MIGRATING", c.p)
	for left := c.rng.IntN(6) - 2; ; left-- {
		if left == 0 {
			c.end()
			c.still([]*testkit.Server{c.p, c.r}) // a takeover loses what the replica has not got
			c.takesOver("CLUSTER", "FAILOVER", "TAKEOVER")
			exchanged(c)
			c.next[c.p] = c.next[c.r]
			c.setSlot(c.p, "IMPORTING", from)
			c.setSlot(from, "MIGRATING", c.p)
		}
		words := []any{"MIGRATE", "127.0.0.1", c.p.Port, "", 0, 20_000, "KEYS"}
		keys := c.must(from, "CLUSTER", "GETKEYSINSLOT", c.slot, 1+c.rng.IntN(pads/2)).Elems
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			words = append(words, key.Text)
		}
		c.must(from, words...)
		c.sendsAgain(pick(c.rng, c.p, from))
	}
	c.setSlot(c.p, "NODE", c.p)
	c.setSlot(from, "NODE", c.p)
	c.await("a unit, and one owner of the slot", func() error {
		c.sendsAgain(c.p)
		if c.end(); !c.unit.acked() {
			return fmt.Errorf("%s", c.outcome())
		}
		for _, s := range c.servers() {
			if c.ownerOf(s, c.slot) != c.p {
				return fmt.Errorf("%s knows another owner", s.Addr)
			}
		}
		return testkit.Equal(from.Do("CLUSTER", "COUNTKEYSINSLOT", c.slot).Int, 0)
	})
	c.unit.at = c.p
}

// setSlot runs CLUSTER SETSLOT. It is refused while old keys are there, or while s does not know the other's role.
func (c *cell) setSlot(s *testkit.Server, how string, other *testkit.Server) {
	id := c.id(other)
	c.await("SETSLOT "+how, func() error {
		v, err := s.Ask("CLUSTER", "SETSLOT", c.slot, how, id)
		if err == nil {
			err = v.Err()
		}
		return err
	})
}

// sendsAgain sends a unit that was refused to s.
func (c *cell) sendsAgain(s *testkit.Server) {
	select {
	default:
	case <-c.unit.done:
		if c.unit.refused() {
			c.unit.at, c.unit.ahead = s, pick(c.rng, nil, [][]any{{"ASKING"}})
			c.resend()
		} else if !c.unit.acked() {
			c.Fatalf("the unit has failed: %s", c.outcome())
		}
	}
}
