package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"spindle/internal/slots"
	"spindle/tests/testkit"
)

// TestDatabases: in a cluster with several databases, replicas and files have the keys of all databases. When a node
// loses a slot, the slot is emptied in all databases, on the node and on its replica.
func TestDatabases(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][4]string{ // the kinds of two primaries, then of their replicas
		"ours":                  {testkit.Ours, testkit.Ours, testkit.Ours, testkit.Ours},
		"replicas of the other": {testkit.Ours, testkit.Valkey9, testkit.Valkey9, testkit.Ours},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newDatabases(t, kinds)
			for _, n := range c.nodes[:2] {
				n.Terminate()
				n.Restart()
			}
			c.well()
			c.same("after restarts")
			for at := range 2 {
				c.lose(at)
			}
			c.same("after a slot was lost")
		})
	}
}

// wide is the number of databases of each node.
const wide = 4

// databases is a cluster whose nodes have several databases: two primaries, and a replica of each.
type databases struct {
	t     *testing.T
	nodes []*testkit.Server
}

// newDatabases makes the cluster, and keys in each database.
func newDatabases(t *testing.T, kinds [4]string) *databases {
	c := &databases{t: t}
	for i, kind := range kinds {
		spec := testkit.Kind(t, kind)
		spec.Args = []string{"--cluster-enabled", "yes", "--cluster-databases", strconv.Itoa(wide), "--appendonly", "yes",
			"--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs), "--cluster-port", strconv.Itoa(testkit.FreePort(t))}
		n := testkit.Launch(t, spec)
		c.nodes = append(c.nodes, n)
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	testkit.Meet(t, c.nodes[0], busPortOf(c.nodes[0]), c.nodes[1:]...)
	c.nodes[0].Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	c.nodes[1].Do("CLUSTER", "ADDSLOTSRANGE", 8192, slots.Count-1)
	c.well()
	for i, replica := range c.nodes[2:] {
		id := c.nodes[i].Do("CLUSTER", "MYID").Text
		testkit.Until(t, testkit.Slowly(patience), "the replica follows", func() error {
			v, err := replica.Ask("CLUSTER", "REPLICATE", id)
			return errors.Join(err, v.Err())
		})
	}
	for at, n := range c.nodes[:2] {
		cl := n.Dial()
		for db := range wide {
			for i := range 300 {
				key := fmt.Sprintf("key:%d", i)
				if int(slots.Of([]byte(key)))/8192 != at {
					continue
				}
				for _, command := range [][]any{{"SELECT", db}, {"SET", key, db}, {"SADD", "{" + key + "}set", i, db}} {
					if v, err := cl.Do(command...); err != nil || v.Err() != nil {
						t.Fatal(command, v, err)
					}
				}
			}
		}
	}
	synced(t, c.nodes[2:]...)
	c.same("after the writes")
	return c
}

// well waits until all nodes see a healthy cluster.
func (c *databases) well() {
	c.t.Helper()
	for _, n := range c.nodes {
		testkit.Until(c.t, testkit.Slowly(patience), "every node sees a well cluster",
			func() error { return well(n, len(c.nodes)) })
	}
}

// same waits until each replica has the data of its primary.
func (c *databases) same(when string) {
	c.t.Helper()
	for i, n := range c.nodes[:2] {
		testkit.Until(c.t, testkit.Slowly(patience), when+" the replica has the data", func() error {
			a, err := n.Ask("DEBUG", "DIGEST")
			b, err2 := c.nodes[i+2].Ask("DEBUG", "DIGEST")
			return errors.Join(err, err2, testkit.Equal(a.Text, b.Text))
		})
	}
}

// lose moves a slot with keys from one primary to the other.
func (c *databases) lose(at int) {
	t := c.t
	t.Helper()
	from, to := c.nodes[at], c.nodes[1-at]
	slot := slots.Of([]byte("key:0"))
	for i := 1; int(slot)/8192 != at; i++ {
		slot = slots.Of(fmt.Appendf(nil, "key:%d", i))
	}
	for db := range wide {
		if n := inSlot(t, from, db, slot); n != 2 {
			t.Errorf("%d keys of the slot in database %d", n, db)
		}
	}
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID").Text)
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", to.Do("CLUSTER", "MYID").Text)
	for db := range wide {
		testkit.Until(t, testkit.Slowly(patience), "the keys of the slot are gone", func() error {
			return testkit.Equal(inSlot(t, from, db, slot), 0)
		})
	}
	for db := range wide {
		if n := keysIn(from, db); n < 200 {
			t.Errorf("database %d has %d keys left", db, n)
		}
	}
}

// inSlot returns the number of keys of a slot in a database.
func inSlot(t *testing.T, n *testkit.Server, db int, slot uint16) int64 {
	t.Helper()
	c := n.Dial()
	defer c.Close()
	_, err := c.Do("SELECT", db)
	v, err2 := c.Do("CLUSTER", "COUNTKEYSINSLOT", int(slot))
	if err := errors.Join(err, err2, v.Err()); err != nil {
		t.Fatal(err)
	}
	return v.Int
}

// keysIn returns the number of keys in a database.
func keysIn(n *testkit.Server, db int) (keys int) {
	_, _ = fmt.Sscanf(n.Info("keyspace")["db"+strconv.Itoa(db)], "keys=%d", &keys)
	return keys
}
