package topology

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A roleGroup is five servers. One is the primary; the others replicate it or each other.
type roleGroup struct {
	t       *testing.T
	rng     *rand.Rand
	nodes   []*testkit.Server
	above   []int // the primary of each node; -1 means none
	writers *writers
	full    int64 // full copies given before servers were restarted
}

func newRoleGroup(t *testing.T, rng *rand.Rand, other testkit.Spec) *roleGroup {
	t.Helper()
	c := &roleGroup{t: t, rng: rng}
	for i := range 5 {
		spec := []testkit.Spec{{}, other}[i%2]
		spec.Args = []string{"--repl-backlog-size", "64mb", "--propagation-error-behavior", "panic",
			"--repl-ping-replica-period", "1", "--repl-diskless-load", []string{"disabled", "swapdb"}[rng.IntN(2)]}
		c.nodes = append(c.nodes, testkit.Launch(t, spec))
		c.above = append(c.above, -1)
	}
	for i := 1; i < 5; i++ {
		c.attach(i, rng.IntN(i))
	}
	return c
}

func (c *roleGroup) primary() int {
	for i, a := range c.above {
		if a < 0 {
			return i
		}
	}
	panic("no node leads")
}

// under reports whether a replicates b, directly or through other nodes.
func (c *roleGroup) under(a, b int) bool {
	for ; a >= 0; a = c.above[a] {
		if a == b {
			return true
		}
	}
	return false
}

// randomNode returns a random node for which ok is true, or -1 if there is none.
func (c *roleGroup) randomNode(ok func(i int) bool) int {
	for _, i := range c.rng.Perm(len(c.nodes)) {
		if ok(i) {
			return i
		}
	}
	return -1
}

// tell sends REPLICAOF, which a node refuses while it loads a full copy.
func (c *roleGroup) tell(i int, words ...any) {
	testkit.Until(c.t, testkit.Slowly(30*time.Second), "REPLICAOF", func() error {
		v, err := c.nodes[i].Ask(append([]any{"REPLICAOF"}, words...)...)
		if err == nil {
			err = v.Err()
		}
		return err
	})
}

func (c *roleGroup) attach(i, to int) {
	c.tell(i, "127.0.0.1", c.nodes[to].Port)
	c.above[i] = to
}

// promote makes i the primary. The old primary then replicates i, or a node below it.
func (c *roleGroup) promote(i int) (old, to int) {
	old = c.primary()
	c.tell(i, "NO", "ONE")
	c.writers.target.Store(c.nodes[i])
	c.above[i] = -1
	to = c.randomNode(func(j int) bool { return c.under(j, i) })
	c.above[old] = to
	return old, to
}

// restart ends node i, by SIGKILL or after it has saved a file, and starts it again.
func (c *roleGroup) restart(i int, saved bool) {
	s := c.nodes[i]
	c.full += s.InfoInt("stats", "sync_full")
	if saved {
		_, _ = s.Ask("SHUTDOWN", "SAVE")
		s.Wait(testkit.Slowly(30 * time.Second))
	} else {
		s.Kill()
	}
	s.Again()
	s.AwaitReady(testkit.Slowly(60 * time.Second))
}

// change makes one random change of roles or causes one failure, and returns a description.
func (c *roleGroup) change() string {
	replica := c.randomNode(func(i int) bool { return c.above[i] >= 0 })
	switch c.rng.IntN(6) {
	case 0:
		old, to := c.promote(replica)
		c.attach(old, to)
		return fmt.Sprintf("promotion of %d, %d follows %d", replica, old, to)
	case 1, 2:
		to := c.randomNode(func(j int) bool { return !c.under(j, replica) })
		c.attach(replica, to)
		return fmt.Sprintf("%d follows %d", replica, to)
	case 3:
		saved := c.rng.IntN(2) == 0
		c.restart(replica, saved)
		c.attach(replica, c.above[replica])
		return fmt.Sprintf("restart of %d, saved %t", replica, saved)
	case 4: // the primary ends, and another node replaces it
		old, to := c.promote(replica)
		saved := c.rng.IntN(2) == 0
		c.restart(old, saved)
		c.attach(old, to)
		return fmt.Sprintf("restart of the primary %d, saved %t, promotion of %d, which follows %d", old, saved, replica, to)
	}
	c.nodes[replica].Signal(syscall.SIGSTOP)
	testkit.Moment(c.rng, 500*time.Millisecond)
	old, to := -1, -1
	if other := c.randomNode(func(i int) bool { return c.above[i] >= 0 && i != replica }); c.rng.IntN(2) == 0 {
		old, to = c.promote(other)
		c.attach(old, to)
	}
	c.nodes[replica].Signal(syscall.SIGCONT)
	return fmt.Sprintf("%d stopped for a while, %d follows %d", replica, old, to)
}

// TestChangingRoles: five nodes, of spindle and of another kind, are promoted, attached to other nodes, killed and
// restarted while clients write. In the end all have the primary's data.
func TestChangingRoles(t *testing.T) {
	t.Parallel()
	for _, other := range []string{testkit.Redis70, testkit.Redis8, testkit.Valkey9} {
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			changeRoles(t, other)
		})
	}
}

func changeRoles(t *testing.T, other string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := newRoleGroup(t, rng, testkit.Kind(t, other))
	c.writers = newLoad(t, seed, other != testkit.Redis70, other == testkit.Valkey9)
	c.writers.loses = true
	c.writers.start(c.nodes[0], 2)
	changes := 0
	for round := range 3 * testkit.Scale() {
		for range 1 + rng.IntN(3) {
			c.writers.await(int64(rng.IntN(400)))
			what := c.change()
			changes++
			t.Logf("round %d: %s", round, what)
		}
		c.writers.await(int64(1 + rng.IntN(400)))
		first := c.primary()
		nodes := []*testkit.Server{c.nodes[first]}
		for i, s := range c.nodes {
			if i != first {
				nodes = append(nodes, s)
			}
		}
		t.Logf("round %d: above %v", round, c.above)
		if !compare(t, nodes) {
			t.FailNow()
		}
	}
	c.writers.stop()
	partial := int64(0)
	for i, s := range c.nodes {
		if i != c.primary() {
			equal(t, c.nodes[c.primary()], s)
		}
		c.full += s.InfoInt("stats", "sync_full")
		partial += s.InfoInt("stats", "sync_partial_ok")
		if n := s.InfoInt("stats", "unexpected_error_replies"); n != 0 {
			t.Errorf("%s effects were errors at node %d", strconv.FormatInt(n, 10), i)
		}
	}
	t.Logf("%d changes, %d writes, %d full copies, %d partial ones since the last restarts",
		changes, c.writers.writes.Load(), c.full, partial)
}
