package sentinel

import (
	"errors"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestFailoverKeepsConfirmedWrites: replies wait for a replica. The primary is killed while a client writes. The new
// primary has all writes that the old primary had confirmed. It confirms writes as soon as the other replica follows
// it.
func TestFailoverKeepsConfirmedWrites(t *testing.T) {
	t.Parallel()
	const ours, redis = testkit.Ours, testkit.Redis70
	for name, kinds := range map[string][]string{"ours": {ours, ours, ours}, "redis's": {redis, redis, redis}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, []string{ours, ours, ours}, kinds)
			for _, s := range g.servers {
				s.Do("CONFIG", "SET", "min-replicas-to-ack", "1", "ack-timeout", "600000")
			}
			old := g.servers[0]
			for _, s := range g.sentinels {
				testkit.Until(t, patience, "a Sentinel to see all well", func() error {
					return s.whyNotWell(len(g.servers)-1, len(g.sentinels)-1)
				})
			}
			c := old.Dial()
			confirmed := make(chan int64)
			go func() { confirmed <- countUp(c) }()
			testkit.Until(t, patience, "writes", func() error {
				v, err := old.Ask("GET", "n")
				return errors.Join(err, testkit.Equal(len(v.Text) >= 3, true))
			})
			old.Kill()
			last := <-confirmed
			t.Logf("count: 1 failovers, %d confirmed writes, 0 lost", last)
			promoted := g.awaitSwitch(t, old.Addr)
			await(t, promoted, "role", "master")
			testkit.Until(t, patience, "the new primary to confirm a write", func() error {
				v, err := promoted.Ask("INCR", "n")
				if err == nil && v.Kind == ':' && v.Int <= last {
					t.Fatalf("%d writes were confirmed, and the next one makes it %d", last, v.Int)
				}
				return errors.Join(err, v.Err())
			})
		})
	}
}

// countUp increments a key until the connection ends. It returns the last value that was confirmed.
func countUp(c *respclient.Client) (last int64) {
	for {
		v, err := c.Do("INCR", "n")
		if err != nil || v.Kind != ':' {
			return last
		}
		last = v.Int
	}
}
