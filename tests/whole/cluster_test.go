package whole

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spindle/internal/slots"
	"spindle/tests/testkit"
)

// startNodes starts n nodes of a cluster: p, r and more. It returns the bus port of p. Replicas take over only on
// command.
func (s *scene) startNodes(n int, args ...string) (bus int) {
	var nodes []*testkit.Server
	for i := range n {
		port := testkit.FreePort(s)
		if i == 0 {
			bus = port
		}
		nodes = append(nodes, testkit.Start(s, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout",
			fmt.Sprint(nodeTimeout.Milliseconds()), "--cluster-port", strconv.Itoa(port), "--cluster-allow-replica-migration",
			"no", "--cluster-replica-no-failover", "yes", "--repl-ping-replica-period", "1"}, args...)...))
	}
	s.p, s.r, s.more = nodes[0], nodes[1], nodes[2:]
	return bus
}

// clusters is a primary with all slots but one, its replica, and two more primaries. So any one of the primaries may
// fail without ending the majority. The replica takes over only on command. Otherwise, on a slow machine, the primary
// could lose its role in a column that needs it.
var clusters = &kind{name: "cluster", lanes: 3, set: func(s *scene) {
	bus := s.startNodes(4, "--cluster-require-full-coverage", "yes", "--appendonly", "no")
	primaries := append([]*testkit.Server{s.p}, s.more...)
	for i, one := range primaries {
		one.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	s.p.Do("CLUSTER", "ADDSLOTSRANGE", 0, slots.Count-3)
	s.more[0].Do("CLUSTER", "ADDSLOTS", slots.Count-2)
	s.more[1].Do("CLUSTER", "ADDSLOTS", slots.Count-1)
	testkit.Meet(s, s.p, bus, append([]*testkit.Server{s.r}, s.more...)...)
	s.agreed(4)
	s.r.Do("CLUSTER", "REPLICATE", s.id(s.p))
	testkit.Until(s, testkit.Slowly(20*time.Second), "the replica", func() error {
		return testkit.Equal(s.r.Info("replication")["master_link_status"], "up")
	})
	s.taken = map[uint16]bool{slots.Count - 1: true, slots.Count - 2: true}
	s.p.Do("FUNCTION", "LOAD", "REPLACE", library)
}}

// nodeTimeout is the silence after which a node counts as failed. It is short, because failovers wait for twice as
// long. It is not shorter, because a process on a busy host may not run for a while.
var nodeTimeout = testkit.Slowly(1500 * time.Millisecond)

// shortTimeout takes the place of nodeTimeout for one unit, whose script computes until a node has failed.
var shortTimeout = testkit.Slowly(500 * time.Millisecond)

func (s *scene) id(of *testkit.Server) string { return of.Do("CLUSTER", "MYID").Text }

// agreed waits until all nodes know each other and the cluster serves.
func (s *scene) agreed(nodes int) {
	for _, one := range s.servers() {
		testkit.Until(s, testkit.Slowly(30*time.Second), "every node sees a well cluster", func() error {
			v, err := one.Ask("CLUSTER", "INFO")
			if err == nil && (!strings.Contains(v.Text, "cluster_state:ok") ||
				!strings.Contains(v.Text, "cluster_known_nodes:"+strconv.Itoa(nodes))) {
				err = fmt.Errorf("%s: %s", one.Addr, v.Text)
			}
			return err
		})
	}
}

var clusterRows = []*row{eval, fcall, exec, sorts, restore}

var clusterColumns = []*column{
	{name: "cluster-failover", kind: clusters, weight: 25, rows: clusterRows, before: votesAgain, act: func(c *cell) {
		c.nap()
		c.takesOver("CLUSTER", "FAILOVER")
	}, after: exchanged},
	{name: "cluster-failover-force", kind: clusters, weight: 12, rows: clusterRows, mayLose: true,
		rule: "FORCE asks no primary: what its replica has not got yet is lost", before: votesAgain, act: func(c *cell) {
			c.nap()
			c.takesOver("CLUSTER", "FAILOVER", "FORCE")
		}, after: exchanged},
	{name: "cluster-takeover", kind: clusters, weight: 60, rows: clusterRows, mayLose: true,
		rule: "TAKEOVER asks no one: the primary is demoted by the greater epoch", before: lengthen, act: func(c *cell) {
			c.nap()
			c.takesOver("CLUSTER", "FAILOVER", "TAKEOVER")
		}, after: exchanged},
	{name: "slot-taken", kind: clusters, weight: 40, rows: clusterRows, mayLose: true,
		rule: "a node deletes the keys of slots that another has claimed with a greater epoch", act: func(c *cell) {
			slot := slots.Of([]byte(c.unit.tag))
			c.nap()
			c.must(c.more[0], "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(c.p))
			c.must(c.more[0], "CLUSTER", "SETSLOT", slot, "NODE", c.id(c.more[0]))
			c.taken[slot] = true
		}, after: func(c *cell) {
			c.await("the primary knows", func() error {
				v, err := c.p.Ask("GET", c.unit.key("c"))
				if err == nil && !strings.HasPrefix(v.Text, "MOVED") {
					err = fmt.Errorf("%v", v)
				}
				return err
			})
		}},
	{name: "slot-dropped", kind: clusters, weight: 10, rows: []*row{counter}, before: func(c *cell) {
		u := &c.unit
		c.p.Do("EVAL", "for i = 1, 3000 do redis.call('SET', KEYS[1] .. i, i) end", 1, u.key("filler"))
	}, act: func(c *cell) {
		// Another node claims the slot, and the primary deletes its keys in small steps, none of them inside a script.
		slot := slots.Of([]byte(c.unit.tag))
		c.must(c.more[0], "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(c.p))
		c.must(c.more[0], "CLUSTER", "SETSLOT", slot, "NODE", c.id(c.more[0]))
		c.taken[slot] = true
		c.await("an empty slot", func() error {
			if v := c.tell(c.p, counter.requests(c)[0]...); strings.Contains(v.Text, "torn") {
				c.Fatalf("a script has seen others' deletions: %v", v)
			}
			return testkit.Equal(c.p.Do("CLUSTER", "COUNTKEYSINSLOT", slot).Int, 0)
		})
	}},
	{name: "node-dies", kind: clusters, weight: 4, rows: scripts, before: func(c *cell) {
		c.unit.work = 3 * shortTimeout
		for _, one := range []*testkit.Server{c.p, c.more[0]} { // the two that vote
			one.Do("CONFIG", "SET", "cluster-node-timeout", shortTimeout.Milliseconds())
		}
	}, act: func(c *cell) {
		c.more[1].Signal(syscall.SIGSTOP)
		defer c.more[1].Signal(syscall.SIGCONT)
		c.end()
		if err := c.unit.reply.Err(); err != nil {
			c.Errorf("the cluster went down beside the unit: %v", err)
		}
	}, after: func(c *cell) {
		for _, one := range []*testkit.Server{c.p, c.more[0]} {
			one.Do("CONFIG", "SET", "cluster-node-timeout", nodeTimeout.Milliseconds())
		}
		c.agreed(4)
	}},
	{name: "reshard", kind: clusters, weight: 30, rows: clusterRows, mayLose: true,
		rule: "the keys are where MIGRATE has brought them", act: func(c *cell) {
			u, slot := &c.unit, slots.Of([]byte(c.unit.tag))
			c.nap()
			c.must(c.more[0], "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(c.p))
			c.must(c.p, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(c.more[0]))
			c.must(c.p, "MIGRATE", "127.0.0.1", c.more[0].Port, "", 0, 20_000, "KEYS",
				u.key("c"), u.key("l"), u.key("m"), u.key("k"), u.key("src"))
			c.must(c.more[0], "CLUSTER", "SETSLOT", slot, "NODE", c.id(c.more[0]))
			c.must(c.p, "CLUSTER", "SETSLOT", slot, "NODE", c.id(c.more[0]))
			c.taken[slot] = true
		}, after: func(c *cell) { c.holds(c.more[0], "the target", true) }},
	{name: "slot-moves", kind: clusters, weight: 20, rows: clusterRows, mayLose: true,
		rule: "the keys are at the slot's next owner", before: func(c *cell) {
			c.migrateSlot() // a unit would hold back the command, but not the move
			c.soon()
		}, act: func(c *cell) {
			c.await("a slot that has moved", func() error {
				v, err := c.p.Ask("GET", c.unit.key("c"))
				if err == nil && strings.HasPrefix(v.Text, "MOVED") {
					return nil
				}
				c.migrateSlot() // it is refused while the slot moves, and repeats a move that has failed
				return fmt.Errorf("%v %v", v, err)
			})
			c.taken[slots.Of([]byte(c.unit.tag))] = true
		}, after: func(c *cell) { c.holds(c.more[0], "the target", true) }},
}

// migrateSlot asks the primary to move the unit's slot to another node as a whole.
func (c *cell) migrateSlot() {
	slot := slots.Of([]byte(c.unit.tag))
	_, _ = c.p.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", c.id(c.more[0]))
}

// takesOver makes the replica take over by the given command.
func (c *cell) takesOver(words ...any) { c.must(c.r, words...) }

// lengthen makes some units last as long as an election may.
func lengthen(c *cell) {
	if c.rng.IntN(2) == 0 {
		c.unit.work *= 15
	}
}

// votesAgain waits until the other primaries may vote for this primary's replica again.
func votesAgain(c *cell) {
	lengthen(c)
	time.Sleep(time.Until(c.voted.Add(2*nodeTimeout + 100*time.Millisecond)))
}

// exchanged waits until the primary and its replica have swapped roles.
func exchanged(c *cell) {
	asked := time.Now()
	c.await("the failover", func() error {
		if time.Since(asked) > 6*time.Second { // the failover has failed: a node may have voted too late
			asked = time.Now()
			_, _ = c.r.Ask("CLUSTER", "FAILOVER")
		}
		if role := c.r.Info("replication")["role"]; role != "master" {
			return fmt.Errorf("the replica is %s", role)
		}
		return testkit.Equal(c.p.Info("replication")["role"], "slave")
	})
	c.p, c.r, c.voted = c.r, c.p, time.Now()
	c.agreed(2 + len(c.more))
	id := c.id(c.p)
	c.await("all nodes know the new primary", func() error {
		for _, s := range c.servers() {
			v, err := s.Ask("CLUSTER", "REPLICAS", id) // an error if the node knows it as a replica
			if err == nil {
				err = v.Err()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.Addr, err)
			}
		}
		return nil
	})
}
