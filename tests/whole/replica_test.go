package whole

import (
	"fmt"
	"strconv"
	"time"

	"spindle/tests/testkit"
)

// replicas is a primary with a writable replica. The units run on the replica.
var replicas = &kind{name: "replica", lanes: 1, set: func(s *scene) {
	s.p = testkit.Start(s)
	s.r = testkit.Start(s, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.p.Port), "--replica-read-only", "no",
		"--appendonly", "yes")
	s.more = []*testkit.Server{testkit.Start(s)}
	s.fill(fillers)
	s.r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
}}

var ownRows = []*row{eval, exec, restore, reader}

var replicaColumns = withVerify((*cell).equalButOwn,
	&column{name: "copy-taken", kind: replicas, weight: 100, rows: ownRows, mayLose: true,
		rule: "a full copy takes the place of the replica's own writes", before: func(c *cell) {
			onReplica(c)
			c.r.Do("CONFIG", "SET", "repl-diskless-load", pick(c.rng, "disabled", "on-empty-db", "swapdb"))
			c.p.Do("CONFIG", "SET", "repl-diskless-sync", pick(c.rng, "yes", "no"))
			size := 0
			if c.rng.IntN(2) == 0 {
				size = 200_000 // too large to be read in one turn
			}
			c.p.Do("EVAL", "redis.call('SET', KEYS[1], '') redis.call('SETRANGE', KEYS[1], ARGV[1], 'x')", 1, "filler:big", size)
		}, act: func(c *cell) {
			testkit.Moment(c.rng, c.unit.work)
			c.p.Do("DEBUG", "CHANGE-REPL-ID")
			c.p.Do("CLIENT", "KILL", "TYPE", "replica")
		}},
	&column{name: "copy-of-another", kind: replicas, weight: 40, rows: ownRows, mayLose: true,
		rule: "a full copy takes the place of the replica's own writes", before: onReplica, act: func(c *cell) {
			c.nap()
			c.tell(c.r, "REPLICAOF", "127.0.0.1", c.more[0].Port)
		}, after: func(c *cell) {
			c.r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
			c.holds(c.r, "the replica of another", false)
			c.r.Do("REPLICAOF", "127.0.0.1", c.p.Port)
		}},
	&column{name: "promoted", kind: replicas, weight: 40, rows: ownRows, before: onReplica, act: func(c *cell) {
		c.nap()
		c.tell(c.r, "REPLICAOF", "NO", "ONE")
	}, after: func(c *cell) {
		c.holds(c.r, "the new primary", true)
		c.r.Do("REPLICAOF", "127.0.0.1", c.p.Port)
	}},
	&column{name: "link-cut", kind: replicas, weight: 40, rows: ownRows, before: onReplica, act: func(c *cell) {
		c.nap()
		c.p.Do("CLIENT", "KILL", "TYPE", "replica")
		c.p.Do("SET", "filler:1", c.rng.IntN(1000))
	}, after: func(c *cell) { c.still([]*testkit.Server{c.p, c.r}); c.holds(c.r, "the replica", true) }},
	&column{name: "stream-beside", kind: replicas, weight: 40, rows: ownRows, before: onReplica, act: func(c *cell) {
		for i := range 20 {
			c.p.Do("SET", "filler:"+strconv.Itoa(1+i%2), c.rng.IntN(1000))
			c.p.Do("SET", "filler:new:"+strconv.Itoa(i), 1, "PX", 20)
			testkit.Moment(c.rng, 2*time.Millisecond)
		}
	}, after: func(c *cell) { c.still([]*testkit.Server{c.p, c.r}); c.holds(c.r, "the replica", true) }},
	&column{name: "replica-save", kind: replicas, weight: 30, rows: ownRows, before: onReplica, act: func(c *cell) {
		c.nap()
		c.tell(c.r, "BGSAVE")
	}, after: func(c *cell) {
		c.saved(c.r)
		c.fileHolds(c.r, "dump.rdb", false)
	}},
	&column{name: "replica-rewrite", kind: replicas, weight: 30, rows: ownRows, before: onReplica, act: func(c *cell) {
		c.nap()
		c.tell(c.r, "BGREWRITEAOF")
	}, after: func(c *cell) {
		c.still([]*testkit.Server{c.p, c.r})
		c.rewritten(c.r)
		c.load(func(dir string) error { return c.copyLog(c.r, dir) }, []string{"--appendonly", "yes"},
			func(loaded *testkit.Server) { c.holds(loaded, "the log", true) })
	}},
)

func withVerify(f func(c *cell), all ...*column) []*column {
	for _, c := range all {
		c.verify = f
	}
	return all
}

// onReplica makes the unit run on the replica.
func onReplica(c *cell) { c.unit.at = c.r }

// equalButOwn removes the keys that the replica's own clients have written, and compares the data of the two servers.
func (c *cell) equalButOwn() {
	u := &c.unit
	c.still([]*testkit.Server{c.p, c.r})
	c.holds(c.r, "the replica", false)
	c.r.Do("DEL", u.key("c"), u.key("l"), u.key("m"), u.key("k"))
	c.equal([]*testkit.Server{c.p, c.r})
	if c.unit.at != c.r {
		panic(fmt.Sprintf("%v has not run on the replica", c.draw))
	}
}
