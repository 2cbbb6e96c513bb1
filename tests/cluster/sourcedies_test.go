package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestSourceDiesAtHandOver: the source of a move dies at the hand-over, and its replica is elected. The slots have one
// owner afterwards, and it has all acknowledged writes. Writes are acknowledged when a replica has them. In some rounds
// the target's bus is cut for a while, so that the others hear of its claim late.
func TestSourceDiesAtHandOver(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	m := newMoving(t, seed)
	configure := func(n *testkit.Server) {
		n.Do("CONFIG", "SET", "cluster-replica-no-failover", "no", "min-replicas-to-ack", 1)
	}
	for _, i := range []int{0, 1, 3, 4} { // the third primary has no replica
		configure(m.gated.nodes[i])
	}
	for round := range rounds(2) {
		from, to := m.ends()
		heir := m.replicaOf(from)
		what := fmt.Sprintf("seed %d, round %d", seed, round)
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": the move begins", func() error {
			v, err := from.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, lastMoving, "NODE", to.Do("CLUSTER", "MYID").Text)
			return errors.Join(err, v.Err())
		})
		isCut := round%2 == 1
		awaitState(t, from, func(state string) bool {
			if state == "failover-paused" && isCut {
				m.cut.Store(int64(slices.Index(m.gated.nodes, to)))
			}
			if state == "failed" {
				t.Fatalf("%s: %s", what, moveState(from, "message"))
			}
			return state == "failover-granted" || state == "success"
		})
		from.Kill()
		if isCut {
			testkit.Moment(m.rng, 3*time.Second)
			m.cut.Store(-1)
		}
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": the source's replica takes over",
			func() error { return role(heir) })
		from.Restart()
		configure(from)
		// A primary whose slots went to two nodes stays one, without slots, if the target's claim comes last.
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": the source becomes a replica again", func() error {
			if is(from, "role", "slave") == nil {
				return nil
			}
			v, err := from.Ask("CLUSTER", "REPLICATE", heir.Do("CLUSTER", "MYID").Text)
			return errors.Join(err, v.Err())
		})
		for _, n := range m.gated.nodes {
			testkit.Until(t, testkit.Slowly(60*time.Second), what+": no move is under way",
				func() error { return movesOver(n) })
		}
		m.well(what)
		owner, other := m.ends()
		t.Logf("%s: the bus is cut %t, the target has the slots %t", what, isCut, owner == to)
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": the other primary has no key", func() error {
			return errors.Join(testkit.Equal(other.Do("DBSIZE").Int, 0), testkit.Equal(m.replicaOf(other).Do("DBSIZE").Int, 0))
		})
		m.check(t, what)
		if t.Failed() {
			break
		}
	}
	close(m.stop)
	m.done.Wait()
}
