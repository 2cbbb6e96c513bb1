package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A chain is a list of servers. Each replicates the previous one through a cable.
type chain struct {
	t      *testing.T
	rng    *rand.Rand
	nodes  []*testkit.Server
	cables []*cable // cables[i] is between nodes[i] and nodes[i+1]
}

// patience is the chain's repl-timeout.
const patience = 3 * time.Second

func newChain(t *testing.T, rng *rand.Rand, specs ...testkit.Spec) *chain {
	t.Helper()
	c := &chain{t: t, rng: rng}
	for i, spec := range specs {
		spec.Args = append(spec.Args, "--repl-timeout", strconv.Itoa(int(testkit.Slowly(patience)/time.Second)),
			"--repl-backlog-size", "64mb", "--repl-ping-replica-period", "1", "--client-output-buffer-limit", "replica 0 0 0",
			"--propagation-error-behavior", "panic", "--repl-diskless-load", []string{"disabled", "swapdb"}[c.rng.IntN(2)])
		if i > 0 {
			c.cables = append(c.cables, plug(t, c.nodes[i-1]))
			spec.Args = append(spec.Args, "--replicaof", c.cables[i-1].address())
		}
		c.nodes = append(c.nodes, testkit.Launch(t, spec))
		if i > 0 {
			up(t, c.nodes[i])
		}
	}
	return c
}

// disturb breaks one link at random, and returns a description.
func (c *chain) disturb() string {
	i := c.rng.IntN(len(c.cables))
	above, below, link := c.nodes[i], c.nodes[i+1], c.cables[i]
	how := []string{"kill above", "kill below", "close", "reset", "cut in a command", "black hole", "stop"}[c.rng.IntN(7)]
	switch how {
	case "kill above":
		above.Do("CLIENT", "KILL", "TYPE", "replica")
	case "kill below":
		below.Do("CLIENT", "KILL", "TYPE", "master")
	case "close":
		link.cut(false)
	case "reset":
		link.cut(true)
	case "cut in a command":
		link.cutAfter(c.rng.Int64N(2000))
	case "black hole":
		link.deafen()
	case "stop":
		below.Signal(syscall.SIGSTOP)
		testkit.Moment(c.rng, patience*3/2)
		below.Signal(syscall.SIGCONT)
	}
	return fmt.Sprintf("%s at link %d", how, i)
}

// offset returns the offset of s in its replication stream.
func offset(s *testkit.Server) string {
	i := s.Info("replication")
	if i["role"] == "slave" {
		if i["master_link_status"] != "up" {
			return "down"
		}
		return i["master_replid"] + ":" + i["slave_repl_offset"]
	}
	return i["master_replid"] + ":" + i["master_repl_offset"]
}

// stillWithin is the time limit for replicas on a busy host to receive all writes.
const stillWithin = 4 * time.Minute

// still waits until all nodes are at the same offset of the same history. No client may write meanwhile.
func still(t *testing.T, nodes []*testkit.Server) (at string) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(stillWithin), "one offset on all nodes", func() error {
		var all []string
		for _, s := range nodes {
			all = append(all, offset(s))
		}
		at = all[0]
		if all = slices.Compact(all); len(all) > 1 || at == "down" {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	return at
}

// compare pauses writes at the first node for a moment, and compares the data of all nodes. It reports whether the data
// is equal.
func compare(t *testing.T, nodes []*testkit.Server) bool {
	t.Helper()
	first := nodes[0]
	first.Do("CLIENT", "PAUSE", 600_000, "WRITE")
	defer first.Do("CLIENT", "UNPAUSE")
	for {
		at := still(t, nodes)
		var digests []string
		for _, s := range nodes {
			digests = append(digests, s.Do("DEBUG", "DIGEST").Text)
		}
		if len(slices.Compact(slices.Clone(digests))) == 1 {
			return true
		}
		if still(t, nodes) != at { // a ping has come between
			continue
		}
		equal := true
		for i, s := range nodes[1:] {
			if digests[i+1] == digests[0] || !digestsAlike(first, s) && testkit.Holds(testkit.Slowly(20*time.Second),
				func() bool { return len(differences(contents(t, first), contents(t, s))) == 0 }) {
				continue
			}
			equal = false
			t.Errorf("node %d differs at %s", i+1, at)
			for n, line := range differences(contents(t, first), contents(t, s)) {
				if n < 10 {
					t.Error(line)
				}
			}
		}
		return equal
	}
}

// squeeze makes the first node evict a few keys.
func (c *chain) squeeze() {
	s := c.nodes[0]
	s.Do("CONFIG", "SET", "maxmemory-policy", []string{"allkeys-random", "volatile-ttl", "allkeys-lru"}[c.rng.IntN(3)])
	s.Do("CONFIG", "SET", "maxmemory", max(1, s.InfoInt("memory", "used_memory")-200_000))
	before := s.InfoInt("stats", "evicted_keys")
	testkit.Holds(testkit.Slowly(time.Second), func() bool { return s.InfoInt("stats", "evicted_keys") > before })
	s.Do("CONFIG", "SET", "maxmemory", 0)
}

// spared fails the test if a replica loaded another full copy after its first one. A redis-server may lose its history
// without a broken link, namely when its link is killed during a FLUSHDB. Then the nodes that follow it need another
// copy, too.
func (c *chain) spared() {
	above := 0
	for i, s := range c.nodes[1:] {
		copies, lost := copiesIn(s.Log())
		if copies > 1+lost+above {
			c.t.Errorf("node %d loaded %d copies: the backlog could have spared that", i+1, copies)
		}
		above += copies - 1
		if lost > 0 {
			c.t.Logf("node %d gave its history up %d times", i+1, lost)
			if strings.Contains(s.Log(), "spindle") {
				c.t.Errorf("node %d is spindle", i+1)
			}
		}
	}
}

// copiesIn counts the full copies that a replica has loaded, by its log. lost is how often it asked for another one
// without a history, although the last copy was whole.
func copiesIn(log string) (copies, lost int) {
	whole := false
	for line := range strings.Lines(log) {
		switch {
		case strings.Contains(line, "sync: Finished with success"):
			copies++
			whole = true
		case strings.Contains(line, "(no cached master)"), strings.Contains(line, "(no cached primary)"):
			if whole {
				lost++
			}
			whole = false
		case strings.Contains(line, "Full resync from"):
			whole = false
		}
	}
	return copies, lost
}

// chains has the kinds of the nodes, in order from the first primary. Each kind can read the full copies of the kind
// before it.
var chains = map[string]struct {
	kinds  [4]string
	fields bool // the load has deadlines of hash fields
	// persists means that the load has HPERSIST. If a Redis replica gets HPERSIST after the field's deadline, it loses
	// the field, even from a Redis primary.
	persists bool
}{
	"spindle":      {kinds: [4]string{testkit.Ours, testkit.Redis70, testkit.Ours, testkit.Redis70}},
	"redis-server": {kinds: [4]string{testkit.Redis70, testkit.Ours, testkit.Redis70, testkit.Ours}},
	// This chain has no deadlines of fields: as a primary, 7.4.1 sends HDEL for keys that are not hashes.
	"redis-server 7.4": {kinds: [4]string{testkit.Redis74, testkit.Ours, testkit.Redis74, testkit.Ours}},
	"fields":           {kinds: [4]string{testkit.Ours, testkit.Redis74, testkit.Ours, testkit.Redis74}, fields: true},
	"redis-server 8":   {kinds: [4]string{testkit.Redis8, testkit.Ours, testkit.Valkey9, testkit.Ours}},
	"valkey-server 9":  {kinds: [4]string{testkit.Valkey9, testkit.Ours, testkit.Redis8, testkit.Ours}},
	"all kinds":        {kinds: [4]string{testkit.Ours, testkit.Valkey9, testkit.Redis8, testkit.Redis74}},
	"fields, Redis 8":  {kinds: [4]string{testkit.Ours, testkit.Redis8, testkit.Ours, testkit.Redis8}, fields: true},
	"fields, Valkey 9": {kinds: [4]string{testkit.Valkey9, testkit.Ours, testkit.Valkey9, testkit.Ours}, fields: true,
		persists: true},
	"fields, both": {kinds: [4]string{testkit.Ours, testkit.Valkey9, testkit.Ours, testkit.Redis8}, fields: true},
}

// TestChain: servers of several kinds each replicate the previous one. Clients write values of all types, and links
// fail in all ways. At equal offsets all nodes always have equal data, and no failure costs a full copy.
func TestChain(t *testing.T) {
	t.Parallel()
	for name, row := range chains {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var specs []testkit.Spec
			for _, kind := range row.kinds {
				specs = append(specs, testkit.Kind(t, kind))
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			c := newChain(t, rng, specs...)
			w := newLoad(t, seed, row.fields, row.persists)
			w.start(c.nodes[0], 2)
			moments, breaks, evicted := 0, map[string]int{}, int64(0)
			for round := range 4 * testkit.Scale() {
				for range 1 + rng.IntN(3) {
					w.await(int64(200 + rng.IntN(1000)))
					how := c.disturb()
					t.Logf("round %d: %s", round, how)
					breaks[strings.Split(how, " at ")[0]]++
				}
				c.squeeze()
				w.await(int64(200 + rng.IntN(1000)))
				if !compare(t, c.nodes) {
					t.FailNow()
				}
				moments++
			}
			w.stop()
			for _, r := range c.nodes[1:] {
				up(t, r)
				equal(t, c.nodes[0], r)
				if n := r.InfoInt("stats", "unexpected_error_replies"); n != 0 {
					t.Errorf("%d effects were errors at a replica", n)
				}
			}
			c.spared()
			if evicted = c.nodes[0].InfoInt("stats", "evicted_keys"); evicted == 0 {
				t.Error("nothing was evicted")
			}
			t.Logf("%d moments, %v, %d writes, %d evicted", moments, breaks, w.writes.Load(), evicted)
		})
	}
}
