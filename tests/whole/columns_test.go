package whole

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A column is one observer.
type column struct {
	name   string
	kind   *kind
	weight int // how often it is drawn, relative to others
	rows   []*row
	rule   string // why data may be lost, as in Redis; empty: acknowledged data must stay

	before  func(c *cell) // the unit has not begun
	ready   func(c *cell) // the unit's client is connected
	act     func(c *cell) // the unit runs
	after   func(c *cell) // the unit is over
	copies  func(c *cell) []*testkit.Server
	verify  func(c *cell) // if nil, cell.verify
	restore func(c *cell) // brings the serverSet back to its first state
	mayLose bool          // the rule allows loss
}

// columns has the observers of all kinds of server sets.
var columns = slices.Concat(pairColumns, replicaColumns, endColumns, loadColumns, clusterColumns, ackColumns,
	momentColumns, movingColumns, deathColumns, takeColumns, saveColumns, readerColumns)

// pairs is a primary with a log, its replica, and two independent servers.
var pairs = &kind{name: "pair", lanes: 1, set: setPair}

// handovers is like pairs, for columns that wait for ticks and for seconds.
var handovers = &kind{name: "handover", lanes: 2, set: setPair}

func setPair(s *scene) {
	s.p = testkit.Start(s, "--appendonly", "yes", "--repl-ping-replica-period", "1")
	s.r = testkit.Start(s, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.p.Port))
	s.more = []*testkit.Server{testkit.Start(s), testkit.Start(s)}
	s.fill(fillers)
	s.r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
}

// fillers is small, so that a full copy with a pause after each key lasts some tens of milliseconds.
const fillers = 15

// fill writes some data of all kinds to the primary.
func (s *scene) fill(n int) {
	s.p.Do("FUNCTION", "LOAD", "REPLACE", library)
	s.p.Do("EVAL", `for i = 1, ARGV[1] do
		redis.call('SET', 'filler:' .. i, i)
		redis.call('RPUSH', 'filler:list:' .. i % 2, i)
		redis.call('HSET', 'filler:hash:' .. i % 2, i, i)
		redis.call('ZADD', 'filler:zset:' .. i % 2, i, i)
		redis.call('XADD', 'filler:stream:' .. i % 2, '*', i, i) end`, 0, n)
}

var pairColumns = []*column{
	{name: "bgsave", kind: pairs, weight: 60, rows: all, act: func(c *cell) {
		c.nap()
		c.tell(c.p, "BGSAVE")
	}, after: func(c *cell) {
		c.saved(c.p)
		c.fileHolds(c.p, "dump.rdb", false)
	}},
	{name: "save", kind: pairs, weight: 40, rows: all, act: func(c *cell) {
		c.nap()
		c.must(c.p, "SAVE")
	}, after: func(c *cell) { c.fileHolds(c.p, "dump.rdb", false) }},
	{name: "rewrite", kind: pairs, weight: 60, rows: all, act: func(c *cell) {
		c.nap()
		c.must(c.p, "BGREWRITEAOF")
	}, after: func(c *cell) {
		c.rewritten(c.p)
		c.logHolds(c.p)
	}},
	{name: "bgsave-within", kind: pairs, weight: 20, rows: []*row{exec}, before: func(c *cell) {
		c.unit.asks, c.saves = []any{"BGSAVE"}, c.p.InfoInt("persistence", "rdb_saves")
	}, act: (*cell).end, after: func(c *cell) {
		c.await("the save that was scheduled", func() error { // a tick after the transaction starts it
			return testkit.Equal(c.p.InfoInt("persistence", "rdb_saves"), c.saves+1)
		})
		c.saved(c.p)
		c.fileHolds(c.p, "dump.rdb", true)
	}},
	{name: "rewrite-within", kind: pairs, weight: 20, rows: []*row{exec}, before: func(c *cell) {
		c.unit.asks = []any{"BGREWRITEAOF"}
	}, act: (*cell).end, after: func(c *cell) {
		c.rewritten(c.p)
		c.logHolds(c.p)
	}},
	{name: "rewrite-ahead", kind: pairs, weight: 40, rows: append(lending, reload), before: func(c *cell) {
		c.unit.ahead = [][]any{{"BGREWRITEAOF"}}
	}, act: (*cell).end, after: func(c *cell) {
		c.rewritten(c.p)
		c.logHolds(c.p)
	}},
	{name: "log-on", kind: pairs, weight: 50, rows: all, before: func(c *cell) {
		c.p.Do("CONFIG", "SET", "appendonly", "no")
	}, act: func(c *cell) {
		c.nap()
		c.must(c.p, "CONFIG", "SET", "appendonly", "yes")
	}, after: func(c *cell) {
		c.rewritten(c.p)
		c.logHolds(c.p)
	}},
	{name: "copy", kind: pairs, weight: 60, rows: append(all, reload), before: ways, act: func(c *cell) {
		c.nap()
		c.must(c.more[0], "REPLICAOF", "127.0.0.1", c.p.Port)
	}, copies: withMore(1), restore: apart},
	{name: "second-copy", kind: pairs, weight: 100, rows: append(scripts, reload), before: func(c *cell) {
		// One copy is running, and another waits for its end. The unit must still be running at that end.
		ways(c)
		c.p.Do("CONFIG", "SET", "rdb-key-save-delay", 20+c.rng.IntN(300)) // the timer makes it at least a millisecond
		c.more[0].Do("REPLICAOF", "127.0.0.1", c.p.Port)
		c.enlisted(c.more[0])
		c.more[1].Do("REPLICAOF", "127.0.0.1", c.p.Port)
		c.enlisted(c.more[1])
		c.unit.work += 15 * time.Millisecond
	}, act: (*cell).end, copies: withMore(2), restore: apart},
	{name: "failover", kind: handovers, weight: 40, rows: all, act: func(c *cell) {
		c.nap()
		words := []any{"FAILOVER"}
		if c.rng.IntN(2) == 0 {
			words = append(words, "TO", "127.0.0.1", c.r.Port)
		}
		c.must(c.p, words...)
	}, after: func(c *cell) {
		c.await("the failover", func() error {
			if role := c.r.Info("replication")["role"]; role != "master" {
				return fmt.Errorf("the replica is %s", role)
			}
			return testkit.Equal(c.p.Info("replication")["master_failover_state"], "no-failover")
		})
		c.p, c.r = c.r, c.p
		c.r.Do("CONFIG", "SET", "appendonly", "no")
		c.p.Do("CONFIG", "SET", "appendonly", "yes")
		c.rewritten(c.p)
	}},
	{name: "promote-replica", kind: handovers, weight: 20, rows: lending, mayLose: true,
		rule: "REPLICAOF asks no primary: what its replica has not got yet is lost", act: func(c *cell) {
			c.nap()
			c.must(c.r, "REPLICAOF", "NO", "ONE")
			c.must(c.p, "REPLICAOF", "127.0.0.1", c.r.Port)
		}, after: func(c *cell) {
			c.p, c.r = c.r, c.p
			c.r.Do("CONFIG", "SET", "appendonly", "no")
			c.p.Do("CONFIG", "SET", "appendonly", "yes")
			c.rewritten(c.p)
		}},
	{name: "replicaof", kind: handovers, weight: 20, rows: scripts, mayLose: true,
		rule: "a replica has its primary's data, and its own are lost", act: func(c *cell) {
			c.nap()
			c.must(c.p, "REPLICAOF", "127.0.0.1", c.more[1].Port)
		}, copies: func(c *cell) []*testkit.Server { return []*testkit.Server{c.more[1], c.p, c.r} },
		restore: func(c *cell) {
			c.p.Do("REPLICAOF", "NO", "ONE")
			c.fill(fillers)
			c.still([]*testkit.Server{c.p, c.r})
		}},
	{name: "psync", kind: pairs, weight: 60, rows: append(all, reload), act: func(c *cell) {
		c.nap()
		c.must(c.r, "CLIENT", "KILL", "TYPE", "master")
	}},
	{name: "wait", kind: pairs, weight: 60, rows: lending, before: func(c *cell) {
		c.unit.then = [][]any{{"WAIT", 1, 5000}}
	}, act: (*cell).end, after: func(c *cell) {
		if len(c.unit.after) == 1 && c.unit.after[0].Int > 0 {
			c.holds(c.r, "the replica that WAIT has counted", true)
		}
	}},
	{name: "wait-beside", kind: pairs, weight: 30, rows: lending, act: func(c *cell) {
		c.nap()
		other, err := respclient.Dial(c.p.Addr)
		if err != nil {
			c.Fatal(err)
		}
		defer other.Close()
		if v, _ := other.Do("SET", "filler:1", c.rng.IntN(100)); v.Err() != nil {
			return
		}
		seen := c.p.Do("EXISTS", c.unit.key("m")).Int
		if v, _ := other.Do("WAIT", 1, 5000); v.Int > 0 && c.r.Do("EXISTS", c.unit.key("m")).Int < seen {
			c.Errorf("the replica lacks what WAIT has counted")
		}
	}},
	{name: "waitaof", kind: handovers, weight: 20, rows: lending, before: func(c *cell) {
		c.p.Do("CONFIG", "SET", "appendfsync", pick(c.rng, "always", "always", "everysec"))
		c.unit.then = [][]any{{"WAITAOF", 1, 0, 5000}}
	}, act: (*cell).end, after: func(c *cell) {
		if len(c.unit.after) != 1 || len(c.unit.after[0].Elems) != 2 || c.unit.after[0].Elems[0].Int < 1 {
			c.Fatalf("WAITAOF: %v", c.unit.after)
		}
		c.logHolds(c.p)
	}, restore: func(c *cell) { c.p.Do("CONFIG", "SET", "appendfsync", "everysec") }},
	{name: "published", kind: pairs, weight: 40, rows: scripts, before: func(c *cell) {
		c.p.Do("CONFIG", "SET", "appendfsync", "always")
		var err error
		if c.listener, err = respclient.Dial(c.p.Addr); err != nil {
			c.Fatal(err)
		}
		c.listener.SetTimeout(testkit.Slowly(20 * time.Second))
		if _, err := c.listener.Do("SUBSCRIBE", c.unit.key("ch")); err != nil {
			c.Fatal(err)
		}
	}, act: func(c *cell) {
		// When the unit's first message arrives, the log must have the unit's last write.
		defer c.listener.Close()
		if v, err := c.listener.Receive(); err != nil || len(v.Elems) != 3 {
			c.Fatalf("a message: %v %v", v, err)
		}
		c.isLogged("a message")
	}, restore: func(c *cell) { c.p.Do("CONFIG", "SET", "appendfsync", "everysec") }},
	{name: "flushall", kind: pairs, weight: 40, rows: all, mayLose: true, rule: "FLUSHALL may come after the unit",
		act: func(c *cell) {
			c.nap()
			c.must(c.p, pick(c.rng, []any{"FLUSHALL"}, []any{"FLUSHDB", "ASYNC"})...)
		}, restore: func(c *cell) { c.fill(fillers) }},
	{name: "flushall-within", kind: pairs, weight: 20, rows: []*row{flush}, before: func(c *cell) {
		c.p.Do("CONFIG", "SET", "save", "3600 1")
	}, act: (*cell).end, after: func(c *cell) {
		// FLUSHALL saves if there are save rules. Inside a unit it saves in the turn that ends the unit. A reply in a
		// later turn shows that this turn is over.
		c.p.Do("DBSIZE")
		c.fileHolds(c.p, "dump.rdb", true)
	}, restore: func(c *cell) {
		c.p.Do("CONFIG", "SET", "save", "")
		c.fill(fillers)
	}},
	{name: "swapdb", kind: pairs, weight: 30, rows: []*row{eval, fcall, exec, sorts, restore}, before: func(c *cell) {
		c.p.Do("COPY", c.unit.key("src"), c.unit.key("src"), "DB", 9) // SWAPDB may run before the unit
	}, act: func(c *cell) {
		c.nap()
		c.must(c.p, "SWAPDB", 0, 9)
	}, after: func(c *cell) {
		c.p.Do("SWAPDB", 0, 9)
		if is, _ := c.row.look(c, c.p); is == absent { // the read ran between the two
			c.p.Do("SWAPDB", 0, 9)
		}
		c.still([]*testkit.Server{c.p, c.r})
	}, restore: func(c *cell) {
		if c.p.Do("EXISTS", "filler:1").Int == 0 {
			c.p.Do("SWAPDB", 0, 9)
		}
		c.p.Do("EVAL", "redis.call('SELECT', 9) redis.call('FLUSHDB')", 0)
	}},
	{name: "take-key", kind: pairs, weight: 60, rows: []*row{eval, fcall, exec, sorts}, mayLose: true,
		rule: "the keys are where MIGRATE has brought them", act: func(c *cell) {
			c.nap()
			u := &c.unit
			c.must(c.p, "MIGRATE", "127.0.0.1", c.more[0].Port, "", 0, 20_000, "KEYS", u.key("c"), u.key("l"), u.key("m"))
		}, after: func(c *cell) {
			here, detail := c.row.look(c, c.p)
			there, other := c.row.look(c, c.more[0])
			if here == torn || there == torn || c.unit.acked() && here == there {
				c.Errorf("here %s, at the target %s (%s)", detail, other, c.outcome())
			}
		}},
	{name: "kill-client", kind: pairs, weight: 40, rows: lending, act: func(c *cell) {
		c.nap()
		c.tell(c.p, "CLIENT", "KILL", "ID", c.unit.id)
	}},
	{name: "client-leaves", kind: pairs, weight: 40, rows: all, act: func(c *cell) {
		c.nap()
		_ = c.unit.client.Close()
		<-c.unit.done
		c.tell(c.p, "SET", "filler:1", 1) // the command is held until the unit is over
		c.await("the client's departure", func() error {
			return testkit.Equal(c.p.Do("CLIENT", "LIST", "ID", c.unit.id).Text, "")
		})
	}},
	{name: "kill-script", kind: pairs, weight: 60, rows: []*row{eval, fcall}, // in EXEC the other commands remain
		act: func(c *cell) {
			c.nap()
			for _, word := range []string{"SCRIPT", "FUNCTION"} {
				_, _ = c.p.Ask(word, "KILL")
			}
		}},
	{name: "config-set", kind: pairs, weight: 40, rows: lending, act: func(c *cell) {
		c.nap()
		c.must(c.p, append([]any{"CONFIG", "SET"}, pick(c.rng,
			[]any{"hz", 50}, []any{"appendfsync", "no"}, []any{"maxmemory", "100gb"}, []any{"repl-backlog-size", "2mb"},
			[]any{"busy-reply-threshold", 3}, []any{"min-replicas-to-write", 2}, []any{"maxclients", 100},
			[]any{"list-max-listpack-size", 5}, []any{"notify-keyspace-events", "KEA"}, []any{"activedefrag", "yes"},
			[]any{"aof-use-rdb-preamble", "no"}, []any{"appendonly", "no"})...)...)
	}, restore: func(c *cell) {
		c.p.Do("CONFIG", "SET", "hz", 10, "appendfsync", "everysec", "maxmemory", 0, "repl-backlog-size", "1mb",
			"busy-reply-threshold", 5000, "min-replicas-to-write", 0, "maxclients", 10_000, "list-max-listpack-size", -2,
			"notify-keyspace-events", "", "activedefrag", "no", "aof-use-rdb-preamble", "yes", "appendonly", "yes")
		c.rewritten(c.p)
	}},
	{name: "replica-leaves", kind: handovers, weight: 20, rows: []*row{exec, exec, eval, fcall, restore},
		before: func(c *cell) {
			c.unit.work *= 4 // the primary must learn of it within the unit
			c.p.Do("CONFIG", "SET", "min-replicas-to-write", 1)
		}, act: func(c *cell) {
			c.nap()
			c.must(c.r, "REPLICAOF", "NO", "ONE")
		}, after: func(c *cell) {
			c.p.Do("CONFIG", "SET", "min-replicas-to-write", 0)
			c.r.Do("REPLICAOF", "127.0.0.1", c.p.Port)
			c.r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
		}},
	{name: "save-fails", kind: pairs, weight: 20, rows: []*row{exec, exec, eval, fcall, restore}, before: func(c *cell) {
		// A folder has the file's name, so the save fails at its end. In most cells the unit runs by then.
		file := c.p.File("dump.rdb")
		if err := os.RemoveAll(file); err != nil {
			c.Fatal(err)
		}
		if err := os.Mkdir(file, 0o755); err != nil {
			c.Fatal(err)
		}
		c.unit.work *= 4
		c.p.Do("CONFIG", "SET", "save", "3600 1", "rdb-key-save-delay", 20+c.rng.IntN(300))
		c.p.Do("BGSAVE")
		c.nap()
	}, act: (*cell).end, after: func(c *cell) {
		c.await("the failure of the save", func() error {
			return testkit.Equal(c.p.Info("persistence")["rdb_last_bgsave_status"], "err")
		})
		if err := os.Remove(c.p.File("dump.rdb")); err != nil {
			c.Fatal(err)
		}
		c.p.Do("CONFIG", "SET", "save", "", "rdb-key-save-delay", 0)
		c.p.Do("BGSAVE")
		c.saved(c.p)
	}},
	{name: "config-waits", kind: handovers, weight: 20, rows: lending, before: func(c *cell) {
		c.setter = known(c, c.p)
	}, ready: func(c *cell) {
		// The command looks a name up outside the turns, and sets the others when the name is there. The unit runs by then.
		words := append([]any{"CONFIG", "SET", "bind", "localhost"}, pick(c.rng, []any{"appendonly", "no"},
			[]any{"min-replicas-to-write", 2}, []any{"maxmemory", 1})...)
		c.setting = sentBy(c.setter, words...)
	}, act: (*cell).end, after: func(c *cell) {
		<-c.setting.done
		if err := c.setting.err; err != nil || c.setting.reply.Err() != nil {
			c.Fatalf("CONFIG SET: %v %v", c.setting.reply, err)
		}
		_ = c.setter.Close()
		c.p.Do("CONFIG", "SET", "bind", "127.0.0.1", "appendonly", "yes", "min-replicas-to-write", 0, "maxmemory", 0)
		c.rewritten(c.p)
	}},
	{name: "expiry", kind: pairs, weight: 60, rows: scripts, before: func(c *cell) {
		c.p.Do("SET", c.unit.key("v"), "x", "PX", 1+c.rng.Int64N(c.unit.work.Milliseconds()+1))
		c.p.Do("EVAL", "for i = 1, 20 do redis.call('SET', 'lapses:' .. i, i, 'PX', ARGV[1] * i) end", 0, 1+c.rng.IntN(3))
	}, act: (*cell).end, restore: func(c *cell) {
		// A reload drops expired keys and sends no DEL to replicas, as in Redis.
		c.p.Do("EVAL", "for i = 1, 20 do redis.call('DEL', 'lapses:' .. i) end", 0)
	}},
	{name: "eviction", kind: pairs, weight: 40, rows: all, before: func(c *cell) {
		c.p.Do("EVAL", "for i = 1, 500 do redis.call('SET', 'evicted:' .. i, string.rep('x', 1000), 'EX', 1000) end", 0)
		c.p.Do("CONFIG", "SET", "maxmemory-policy", pick(c.rng, "volatile-lru", "volatile-random", "volatile-ttl"))
		used := c.p.InfoInt("memory", "used_memory")
		c.p.Do("CONFIG", "SET", "maxmemory", used+int64(c.rng.IntN(100_000)))
	}, act: func(c *cell) {
		c.nap()
		for i := range 20 {
			c.tell(c.p, "SET", "evicted:more:"+strconv.Itoa(i), strings.Repeat("y", 5000), "EX", 1000)
		}
	}, after: func(c *cell) { c.p.Do("CONFIG", "SET", "maxmemory", 0, "maxmemory-policy", "noeviction") },
		restore: func(c *cell) {
			c.p.Do("EVAL", `for _, k in ipairs(redis.call('KEYS', 'evicted:*')) do redis.call('DEL', k) end`, 0)
		}},
	{name: "pause", kind: pairs, weight: 30, rows: all, act: func(c *cell) {
		c.nap()
		c.tell(c.p, "CLIENT", "PAUSE", 1+c.rng.IntN(20), pick(c.rng, "WRITE", "ALL"))
	}},
	{name: "pause-writes", kind: pairs, weight: 60, rows: []*row{exec, restore, restore, move, move}, act: func(c *cell) {
		c.soon()
		c.noWritePasses(time.Duration(10+c.rng.IntN(10)) * time.Millisecond)
	}},
	{name: "reload", kind: pairs, weight: 20, rows: all, act: func(c *cell) {
		c.nap()
		c.must(c.p, pick(c.rng, []any{"DEBUG", "RELOAD"}, []any{"DEBUG", "LOADAOF"})...)
	}},
}

// isLogged fails the cell unless the primary's log has the unit's last write. what names the event that has just
// arrived.
func (c *cell) isLogged(what string) {
	text := ""
	for _, path := range c.logFiles(c.p) {
		part, _ := os.ReadFile(path)
		text += string(part)
	}
	if mark := c.unit.key("m"); !strings.Contains(text, mark) {
		c.Errorf("%s came before the log had %s", what, mark)
	}
}

// noWritePasses pauses writes. During the pause, no write of the unit may become visible.
func (c *cell) noWritePasses(length time.Duration) {
	u := &c.unit
	ask := func() string {
		v := c.must(c.p, "EXISTS", u.key("c"), u.key("l"), u.key("m"), u.key("k"))
		return fmt.Sprintf("%d keys of the unit", v.Int)
	}
	var began time.Time
	var paused respclient.Value
	testkit.Until(c, testkit.Slowly(30*time.Second), "a pause", func() (err error) { // a busy server refuses it
		began = time.Now()
		if paused, err = c.p.Ask("CLIENT", "PAUSE", length.Milliseconds(), "WRITE"); err == nil {
			err = paused.Err()
		}
		return err
	})
	first := ask()
	for {
		now := ask()
		if time.Since(began) >= length { // the pause may have ended before this answer
			return
		}
		if now != first {
			c.Errorf("a write passed %v after the begin of a pause of %v: %s, then %s", time.Since(began), length, first, now)
			return
		}
	}
}

func pick[T any](rng interface{ IntN(int) int }, from ...T) T { return from[rng.IntN(len(from))] }

// ways chooses at random how full copies are made and received.
func ways(c *cell) {
	c.p.Do("CONFIG", "SET", "repl-diskless-sync", pick(c.rng, "yes", "no"), "rdb-key-save-delay", c.rng.IntN(2))
	for _, s := range c.more {
		s.Do("CONFIG", "SET", "repl-diskless-load", pick(c.rng, "disabled", "on-empty-db", "swapdb"))
	}
}

// withMore returns the primary, its replica and n more servers.
func withMore(n int) func(c *cell) []*testkit.Server {
	return func(c *cell) []*testkit.Server { return append([]*testkit.Server{c.p, c.r}, c.more[:n]...) }
}

// enlisted waits until the primary knows the replica r. The replica may still wait for its full copy.
func (c *cell) enlisted(r *testkit.Server) {
	c.await("a replica that has asked", func() error {
		if text := c.p.Do("INFO", "replication").Text; !strings.Contains(text, fmt.Sprintf("port=%d,", r.Port)) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}

// apart makes all further servers independent again.
func apart(c *cell) {
	c.p.Do("CONFIG", "SET", "rdb-key-save-delay", 0)
	for _, s := range c.more {
		s.Do("REPLICAOF", "NO", "ONE")
		s.Do("FLUSHALL")
	}
}

// saved waits for the end of a BGSAVE.
func (c *cell) saved(s *testkit.Server) {
	c.await("the end of the save", func() error {
		i := s.Info("persistence")
		return testkit.Equal(i["rdb_bgsave_in_progress"]+" "+i["rdb_last_bgsave_status"], "0 ok")
	})
}

// rewritten waits for the end of a rewrite of the log.
func (c *cell) rewritten(s *testkit.Server) {
	c.await("the end of the rewrite", func() error {
		i := s.Info("persistence")
		return testkit.Equal(i["aof_rewrite_in_progress"]+i["aof_rewrite_scheduled"]+" "+i["aof_last_bgrewrite_status"],
			"00 ok")
	})
}

// restarts reports whether a server starts on the files of this cell. A start costs as much as a whole cell otherwise.
// So in most cells of make test a running server loads them.
func (c *cell) restarts() bool { return testkit.Scale() > 1 || c.rng.IntN(5) == 0 }

// fileHolds loads a server's RDB file into another server. That server must have all of the unit. If kept is false, it
// may also have none of it.
func (c *cell) fileHolds(s *testkit.Server, name string, kept bool) {
	if c.restarts() {
		c.load(func(dir string) error { return copyFile(s.File(name), filepath.Join(dir, "dump.rdb")) }, nil,
			func(loaded *testkit.Server) { c.holds(loaded, name, kept) })
		return
	}
	c.holds(c.readFile(s, name), name, kept)
}

// readFile loads a server's RDB file into a running server, which it returns.
func (c *cell) readFile(s *testkit.Server, name string) *testkit.Server {
	if c.reader == nil {
		c.reader = testkit.Start(c.serverSet)
	}
	if err := copyFile(s.File(name), c.reader.File("dump.rdb")); err != nil {
		c.Fatal(err)
	}
	c.reader.Do("DEBUG", "RELOAD", "NOSAVE")
	return c.reader
}

// logHolds loads a server's log into another server, or into the server itself. The data must then be equal.
func (c *cell) logHolds(s *testkit.Server) {
	want := s.Do("DEBUG", "DIGEST").Text
	if !c.restarts() {
		s.Do("DEBUG", "LOADAOF")
		c.holds(s, "the log", true)
		if got := s.Do("DEBUG", "DIGEST").Text; got != want {
			is, detail := c.row.look(c, s)
			c.Errorf("the log holds something else than the server did: the unit is %v: %s (%s)\n%s", is, detail, c.outcome(),
				difference(s, c.r))
		}
		return
	}
	c.load(func(dir string) error { return c.copyLog(s, dir) }, []string{"--appendonly", "yes"},
		func(loaded *testkit.Server) {
			c.holds(loaded, "the log", true)
			if got := loaded.Do("DEBUG", "DIGEST").Text; got != want {
				is, detail := c.row.look(c, loaded)
				c.Errorf("the log holds something else than the server: the unit is %v: %s (%s)\n%s", is, detail, c.outcome(),
					difference(s, loaded))
			}
		})
}

// difference returns the keys that differ between two servers.
func difference(a, b *testkit.Server) string {
	sums := func(s *testkit.Server) map[string]string {
		sums := map[string]string{}
		for _, key := range s.Do("KEYS", "*").Strings() {
			sums[key] = s.Do("DEBUG", "DIGEST-VALUE", key).Strings()[0] + " " + s.Do("PEXPIRETIME", key).Word()
		}
		return sums
	}
	text, one, other := "", sums(a), sums(b)
	for key, sum := range one {
		if other[key] != sum {
			text += fmt.Sprintf("  %s: %s, %s\n", key, sum, other[key])
		}
	}
	for key, sum := range other {
		if one[key] == "" {
			text += fmt.Sprintf("  %s: missing, %s\n", key, sum)
		}
	}
	return text
}

// load starts a server on files. put copies these files to the server's folder, and look checks the server.
func (c *cell) load(put func(dir string) error, args []string, look func(loaded *testkit.Server)) {
	inner := &serverSet{TB: c.serverSet}
	defer func() {
		if wrong, notes := inner.close(); wrong != "" {
			c.Errorf("%s", wrong)
			c.Logf("%s", notes)
		}
	}()
	dir := inner.TempDir()
	if err := put(dir); err != nil {
		c.Fatal(err)
	}
	if c.loader == 0 {
		c.loader = testkit.FreePort(c)
	}
	look(testkit.Launch(inner, testkit.Spec{Dir: dir, Port: c.loader, Args: args}))
}

// logFiles returns the files of a server's log.
func (c *cell) logFiles(s *testkit.Server) []string {
	files, err := filepath.Glob(s.File("appendonlydir/*"))
	if err != nil {
		c.Fatal(err)
	}
	return files
}

// copyLog copies a server's log once all its bytes are in the files. With everysec a reply does not wait for that:
// bytes stay in memory while a sync takes long.
func (c *cell) copyLog(s *testkit.Server, dir string) error {
	c.await("the log to be written", func() error {
		return testkit.Equal(s.Info("persistence")["aof_buffer_length"], "0")
	})
	if err := os.Mkdir(filepath.Join(dir, "appendonlydir"), 0o755); err != nil {
		return err
	}
	for _, path := range c.logFiles(s) {
		if err := copyFile(path, filepath.Join(dir, "appendonlydir", filepath.Base(path))); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
