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

// In this column a server that loads what the target of a move has saved must not show a part of the slot.
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
