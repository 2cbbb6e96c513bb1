package whole

import (
	"path/filepath"
	"strconv"
	"time"

	"spindle/tests/testkit"
)

// These columns read the past of a log: a backup of one moment, or a moment of its history.
var momentColumns = []*column{
	{name: "backup-start", kind: handovers, weight: 4, rows: all, before: func(c *cell) {
		if logOrNone(c); c.rng.IntN(2) == 0 {
			c.unit.ahead = [][]any{{"BACKUP", "START"}} // the unit runs when the rewrite takes its view
		}
	}, act: func(c *cell) {
		if c.nap(); c.unit.ahead == nil {
			c.must(c.p, "BACKUP", "START")
		}
	}, after: func(c *cell) {
		c.backup("incrementing")
		c.must(c.p, "BACKUP", "SEAL")
		c.backupHolds(true)
	}, restore: logAgain},
	{name: "backup-seal", kind: handovers, weight: 6, rows: all, before: func(c *cell) {
		// With always, SEAL may run before the unit's bytes are in the file.
		c.p.Do("CONFIG", "SET", "appendfsync", pick(c.rng, "always", "everysec"))
		logOrNone(c)
		c.p.Do("BACKUP", "START")
		c.backup("incrementing")
		switch c.rng.IntN(3) {
		case 0:
			c.unit.then = [][]any{{"BACKUP", "SEAL"}}
		case 1:
			c.sealing = sent(c.p, "BACKUP", "SEAL") // the unit runs when its files are complete
		}
	}, act: func(c *cell) {
		switch {
		case c.unit.then != nil:
			c.end()
		case c.sealing != nil:
			<-c.sealing.done
		default:
			c.nap()
			c.must(c.p, "BACKUP", "SEAL")
		}
		c.backup("sealed")
		c.backupHolds(c.unit.then != nil)
	}, restore: func(c *cell) {
		c.p.Do("CONFIG", "SET", "appendfsync", "everysec")
		logAgain(c)
	}},
	{name: "backup-within", kind: handovers, weight: 4, rows: []*row{exec}, before: func(c *cell) {
		logOrNone(c)
		c.unit.asks = []any{"BACKUP", "START"}
		if c.rng.IntN(2) == 0 {
			c.p.Do("BACKUP", "START")
			c.backup("incrementing")
			c.unit.asks = []any{"BACKUP", "SEAL"}
		}
	}, act: (*cell).end, after: func(c *cell) {
		if c.unit.asks[1] == "SEAL" {
			c.backup("sealed")
			c.backupHolds(false) // its moment is before the transaction
			return
		}
		c.backup("incrementing")
		c.must(c.p, "BACKUP", "SEAL")
		c.backupHolds(true)
	}, restore: logAgain},
	{name: "backup-abort", kind: handovers, weight: 4, rows: all, before: func(c *cell) {
		logOrNone(c)
		if c.p.Do("BACKUP", "START"); c.rng.IntN(2) == 0 {
			c.backup("incrementing")
		}
		if c.rng.IntN(2) == 0 {
			c.unit.ahead = [][]any{{"BACKUP", "ABORT"}}
		}
	}, act: func(c *cell) {
		if c.nap(); c.unit.ahead == nil {
			c.must(c.p, "BACKUP", "ABORT")
		}
	}, after: func(c *cell) {
		if logAgain(c); c.p.Do("CONFIG", "GET", "appendonly").Elems[1].Text == "yes" {
			c.logHolds(c.p)
		}
	}},
	{name: "moment", kind: handovers, weight: 4, rows: all, before: func(c *cell) {
		c.p.Do("CONFIG", "SET", "aof-keep-history", "1h", "appendfsync", "always")
		c.await("a history", func() (err error) {
			c.from, err = strconv.ParseInt(c.p.Info("persistence")["aof_history_offset"], 10, 64)
			return err
		})
	}, act: (*cell).end, after: func(c *cell) {
		// Any byte of the unit's time, its first and its last may be the end of what is restored.
		to := c.p.InfoInt("persistence", "aof_history_offset")
		if to < c.from {
			c.Fatalf("the history's offset was %d before the unit, and is %d after it", c.from, to)
		}
		at := pick(c.rng, c.from, to, c.from+c.rng.Int64N(to-c.from+1), c.from+c.rng.Int64N(to-c.from+1))
		c.restoredHolds(at == to && c.row != move, "--to-offset", strconv.FormatInt(at, 10))
	}, restore: func(c *cell) {
		c.p.Do("CONFIG", "SET", "aof-keep-history", "no", "appendfsync", "everysec")
	}},
}

// logOrNone switches the primary's log off in half of the cells. BACKUP START then switches it on for the backup.
func logOrNone(c *cell) {
	if c.rng.IntN(2) == 0 {
		c.p.Do("CONFIG", "SET", "appendonly", "no")
	}
}

// logAgain ends the backup and switches the log on.
func logAgain(c *cell) {
	_, _ = c.p.Ask("BACKUP", "CLEANUP")
	c.await("no backup", func() error { return testkit.Equal(c.p.Do("BACKUP", "STATUS").Elems[1].Text, "idle") })
	c.p.Do("CONFIG", "SET", "appendonly", "yes")
	c.rewritten(c.p)
}

// backup waits for a state of the backup. With a base it is incrementing.
func (c *cell) backup(want string) {
	c.await("a backup that is "+want, func() error {
		status := c.p.Do("BACKUP", "STATUS").Elems
		if is := status[1].Text; is != want || len(c.p.Do("BACKUP", "LIST").Elems) > 0 {
			return testkit.Equal(is+" "+status[3].Text, want+" ")
		}
		return testkit.Equal("no base", "")
	})
}

// backupHolds starts a server on the sealed backup. It must have all of the unit. If kept is false, it may also have
// none of it.
func (c *cell) backupHolds(kept bool) {
	files := c.p.Do("BACKUP", "LIST").Strings()
	if len(files) == 0 {
		c.Fatal("the backup has no files")
	}
	c.load(func(string) error { return nil }, []string{"--preload-file", "aof:" + files[len(files)-1]},
		func(loaded *testkit.Server) { c.holds(loaded, "the backup", kept) })
}

// restoredHolds is backupHolds for a moment of the primary's history.
func (c *cell) restoredHolds(kept bool, to ...string) {
	c.load(func(dir string) error {
		text, code := testkit.Run(c, testkit.Slowly(30*time.Second), "", testkit.Spindle(c),
			append(append([]string{"restore"}, to...), "--into", filepath.Join(dir, "then"), c.p.Dir)...)
		if code != 0 {
			c.Fatalf("restore %v: %d\n%s", to, code, text)
		}
		return nil
	}, []string{"--dir", "then", "--appendonly", "yes", "--aof-load-truncated", "no"}, func(loaded *testkit.Server) {
		c.holds(loaded, "what was restored", kept)
	})
}
