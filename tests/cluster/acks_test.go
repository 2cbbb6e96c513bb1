package cluster

import (
	"errors"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestFailoverKeepsConfirmedWrites: replies wait for a replica. A replica that takes over has all writes that its
// primary had confirmed. This holds for CLUSTER FAILOVER while a client writes, and after the primary was killed.
func TestFailoverKeepsConfirmedWrites(t *testing.T) {
	t.Parallel()
	var nodes []*testkit.Server
	for range 6 {
		nodes = append(nodes, node(t, false))
	}
	create(t, nodes, 1)
	synced(t, nodes[3:]...)
	for _, n := range nodes {
		n.Do("CONFIG", "SET", "min-replicas-to-ack", "1", "ack-timeout", "600000")
	}
	heir := nodes[3]
	old := primaryOf(t, heir, nodes)
	key := keyOf(t, old)
	for _, kill := range []bool{false, true} {
		c := old.Dial()
		began, _ := old.Ask("INCR", key)
		confirmed := make(chan int64)
		go func() {
			last := began.Int
			for {
				v, err := c.Do("INCR", key)
				if err != nil || v.Kind != ':' { // MOVED, or UNCONFIRMED
					confirmed <- last
					return
				}
				last = v.Int
			}
		}()
		testkit.Until(t, testkit.Slowly(patience), "writes", func() error {
			v, err := old.Ask("GET", key)
			return errors.Join(err, testkit.Equal(len(v.Text) >= 3, true))
		})
		if kill {
			old.Kill()
			testkit.Until(t, testkit.Slowly(patience), "the replica takes over", func() error { return role(heir) })
		} else {
			var asked time.Time
			testkit.Until(t, testkit.Slowly(patience), "they change places", func() error {
				if time.Since(asked) > 6*time.Second {
					if v, err := heir.Ask("CLUSTER", "FAILOVER"); err != nil || v.Err() != nil {
						return errors.Join(err, v.Err())
					}
					asked = time.Now()
				}
				return errors.Join(role(heir), is(old, "role", "slave"))
			})
			synced(t, old)
		}
		last := <-confirmed
		t.Logf("count: 1 failovers, %d confirmed writes, 0 lost", last-began.Int)
		reader := heir.Dial()
		reader.Must("CLIENT", "ACK", 0) // the new primary has no replica yet, or none at all
		testkit.Until(t, testkit.Slowly(patience), "it serves", func() error {
			v, err := reader.Do("INCR", key)
			if err == nil && v.Kind == ':' && v.Int <= last {
				t.Fatalf("killed %t: %d writes were confirmed, and the next one makes it %d", kill, last, v.Int)
			}
			return errors.Join(err, v.Err())
		})
		old, heir = heir, old
	}
}
