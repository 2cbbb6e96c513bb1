package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// rounds returns how often a test of chance plays: SPINDLE_TEST_SCALE times n in make soak.
func rounds(n int) int { return n * testkit.Scale() }

// A survivor increments keys wherever they are, while servers die. acked are the increments that were acknowledged,
// unknown those that got no reply, or that a flush may have removed.
type survivor struct {
	nodes []*testkit.Server
	stop  chan struct{}
	done  sync.WaitGroup

	mu             sync.Mutex
	acked, unknown map[string]int64
	odd            []string // errors that no client should see
	calls          int
}

const survivorKeys = 40

// survivorPace is the pause between two increments. Without it, the increments would take most of the host's time.
const survivorPace = 5 * time.Millisecond

// excused are errors of a server that is starting, is cut off, or has the slots already when it has no memory or disk.
var excused = regexp.MustCompile("^(CLUSTERDOWN|LOADING|OOM|MISCONF|UNBLOCKED|READONLY|MASTERDOWN) ")

func survive(nodes []*testkit.Server) *survivor {
	s := &survivor{nodes: nodes, stop: make(chan struct{}), acked: map[string]int64{}, unknown: map[string]int64{}}
	s.done.Add(1)
	go s.run()
	return s
}

func (s *survivor) run() {
	defer s.done.Done()
	links := map[string]*respclient.Client{}
	at := s.nodes[0].Addr
	for i := 0; ; i++ {
		select {
		case <-s.stop:
			return
		case <-time.After(survivorPace):
		}
		key := fmt.Sprintf("{%d}count", i%survivorKeys)
		link := links[at]
		if link == nil {
			var err error
			if link, err = respclient.DialTimeout(at, time.Second); err != nil {
				at = s.nodes[i%len(s.nodes)].Addr
				continue
			}
			link.SetTimeout(5 * time.Second)
			links[at] = link
		}
		v, err := link.Do("INCR", key)
		s.mu.Lock()
		s.calls++
		switch {
		case err != nil:
			s.unknown[key]++
			link.Close()
			delete(links, at)
			at = s.nodes[i%len(s.nodes)].Addr
		case v.Kind != '-':
			s.acked[key]++
		case strings.HasPrefix(v.Text, "UNCONFIRMED "): // the replica was slow
			s.unknown[key]++
		case strings.HasPrefix(v.Text, "MOVED "):
			at = v.Text[strings.LastIndexByte(v.Text, ' ')+1:]
		case !excused.MatchString(v.Text):
			s.odd = append(s.odd, v.Text)
		}
		s.mu.Unlock()
	}
}

// flushed notes that the data were emptied. Increments before that may be there, or not.
func (s *survivor) flushed(t *testing.T) {
	t.Helper()
	called := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls
	}
	before := called() // the reply of a call that was removed may still be on its way
	testkit.Until(t, testkit.Slowly(60*time.Second), "two calls are over",
		func() error { return testkit.Equal(called() > before+1, true) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.acked {
		s.unknown[key] += n
		s.acked[key] = 0
	}
}

// check compares the keys with what was acknowledged. No increment is under way.
func (s *survivor) check(t *testing.T, what string) {
	t.Helper()
	close(s.stop)
	s.done.Wait()
	for key, acked := range s.acked {
		n := int64(0)
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": "+key+" is served", func() (err error) {
			n, err = follow(s.nodes[0].Addr, key)
			return err
		})
		if n < acked || n > acked+s.unknown[key] {
			t.Errorf("%s: %s is %d; %d increments were acknowledged, %d are unknown", what, key, n, acked, s.unknown[key])
		}
		s.acked[key], s.unknown[key] = n, 0
	}
	if len(s.odd) > 0 {
		t.Errorf("%s: clients saw %q", what, s.odd[:min(len(s.odd), 3)])
	}
	s.odd = nil
	s.stop = make(chan struct{})
	s.done.Add(1)
	go s.run()
}

// follow reads a number at the node to which MOVED leads; 0: there is none.
func follow(at, key string) (n int64, err error) {
	for range 5 {
		link, err := respclient.DialTimeout(at, time.Second)
		if err != nil {
			return 0, err
		}
		link.SetTimeout(5 * time.Second)
		v, err := link.Do("GET", key)
		link.Close()
		switch {
		case err != nil:
			return 0, err
		case strings.HasPrefix(v.Text, "MOVED "):
			at = v.Text[strings.LastIndexByte(v.Text, ' ')+1:]
		case v.Kind == '-':
			return 0, v.Err()
		case v.Text == "":
			return 0, nil
		default:
			return strconv.ParseInt(v.Text, 10, 64)
		}
	}
	return 0, errors.New("MOVED leads nowhere")
}

// movesOver returns an error while a move is under way on a node.
func movesOver(n *testkit.Server) error {
	v, err := n.Ask("CLUSTER", "GETSLOTMIGRATIONS")
	if err != nil {
		return err
	}
	for _, job := range v.Elems {
		for i := 0; i+1 < len(job.Elems); i += 2 {
			if job.Elems[i].Text == "state" {
				if state := job.Elems[i+1].Text; state != "success" && state != "failed" && state != "cancelled" {
					return errors.New(state)
				}
			}
		}
	}
	return nil
}

// lastMoving is the last of the slots that move. The three after it stay: a primary without slots becomes a replica.
const lastMoving = 16380

// A moving is a cluster whose slots move from one pair of nodes to another and back. Each pair is a primary and its
// replica. There is a third primary.
type moving struct {
	gated
	t   *testing.T
	rng *rand.Rand
	*survivor
}

// newMoving makes the cluster. Its buses can be cut. Replicas take over only when an operator says so.
func newMoving(t *testing.T, seed uint64) *moving {
	m := &moving{t: t, rng: rand.New(rand.NewPCG(seed, 0))}
	m.gated.t = t
	m.cut.Store(-1)
	var buses []int
	for i := range 5 {
		in, announced := listen(t)
		bus := testkit.FreePort(t)
		go (&gate{g: &m.gated, at: i, listener: in, to: net.JoinHostPort("127.0.0.1", strconv.Itoa(bus))}).serve()
		buses = append(buses, announced)
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "conf"), 0o755); err != nil {
			t.Fatal(err)
		}
		n := testkit.Launch(t, testkit.Spec{Dir: dir, Args: []string{"--cluster-enabled", "yes", "--cluster-node-timeout",
			strconv.Itoa(nodeTimeoutMs), "--protected-mode", "no", "--bind-source-addr", source(i), "--cluster-port",
			strconv.Itoa(bus), "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-bus-port", strconv.Itoa(announced),
			"--cluster-config-file", "conf/nodes.conf", "--cluster-allow-replica-migration", "no",
			"--cluster-replica-no-failover", "yes", "--appendonly", "yes", "--appendfsync", "always", "--save", "",
			"--repl-timeout", "10", "--cluster-manual-failover-timeout", "1000"}})
		n.Crashes()
		m.gated.nodes = append(m.gated.nodes, n)
	}
	nodes := m.gated.nodes
	nodes[0].Do("CLUSTER", "ADDSLOTSRANGE", 0, lastMoving)
	for i, n := range nodes[:3] {
		n.Do("CLUSTER", "ADDSLOTS", lastMoving+1+i)
	}
	for i, n := range nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	testkit.Meet(t, nodes[0], buses[0], nodes[1:]...)
	m.well("at first")
	for i, n := range nodes[3:] {
		id := nodes[i].Do("CLUSTER", "MYID").Text
		testkit.Until(t, testkit.Slowly(patience), "a replica", func() error {
			v, err := n.Ask("CLUSTER", "REPLICATE", id)
			return errors.Join(err, v.Err())
		})
	}
	synced(t, nodes[3:]...)
	m.fill()
	m.survivor = survive([]*testkit.Server{nodes[0], nodes[1], nodes[3], nodes[4]})
	return m
}

// fill gives the owner of the slots some keys that are large enough for a move to take its time.
func (m *moving) fill() {
	m.t.Helper()
	owner, _ := m.ends()
	for i := range survivorKeys {
		request := []any{"HSET", fmt.Sprintf("{%d}hash", i)}
		for field := range 50 {
			request = append(request, field, strings.Repeat("x", 100))
		}
		testkit.Until(m.t, testkit.Slowly(60*time.Second), "a key is written", func() error {
			v, err := owner.Ask(request...)
			return errors.Join(err, v.Err())
		})
	}
}

// well waits until every node sees a well cluster.
func (m *moving) well(what string) {
	m.t.Helper()
	for _, n := range m.gated.nodes {
		testkit.Until(m.t, testkit.Slowly(60*time.Second), what+": the cluster is well",
			func() error { return well(n, len(m.gated.nodes)) })
	}
}

// pair returns the primary and the replica of a pair, when both nodes agree.
func (m *moving) pair(i int) (primary, replica *testkit.Server) {
	m.t.Helper()
	testkit.Until(m.t, testkit.Slowly(60*time.Second), "a pair has one primary", func() error {
		primary, replica = m.gated.nodes[i], m.gated.nodes[i+3]
		if is(primary, "role", "slave") == nil {
			primary, replica = replica, primary
		}
		return errors.Join(role(primary), is(replica, "role", "slave"))
	})
	return primary, replica
}

// ends returns the owner of the slots and the other primary, when all nodes agree.
func (m *moving) ends() (owner, other *testkit.Server) {
	m.t.Helper()
	testkit.Until(m.t, testkit.Slowly(60*time.Second), "all nodes agree about the owner", func() error {
		seen := 0
		for _, n := range m.gated.nodes {
			v, err := n.Ask("CLUSTER", "SLOTS")
			if err != nil {
				return err
			}
			at := 0
			for _, run := range v.Elems {
				if run.Elems[0].Int == 0 {
					at = int(run.Elems[2].Elems[1].Int)
				}
			}
			if seen != 0 && at != seen {
				return fmt.Errorf("%s says %d, another node %d", n.Addr, at, seen)
			}
			seen = at
		}
		for i := range 2 {
			if primary, _ := m.pair(i); primary.Port == seen {
				owner = primary
				other, _ = m.pair(1 - i)
				return nil
			}
		}
		return fmt.Errorf("%d is no primary of a pair", seen)
	})
	return owner, other
}

// replicaOf returns the replica of a primary.
func (m *moving) replicaOf(n *testkit.Server) *testkit.Server {
	m.t.Helper()
	for i := range 2 {
		if primary, replica := m.pair(i); primary == n {
			return replica
		}
	}
	m.t.Fatalf("%s is no primary of a pair", n.Addr)
	return nil
}

// restart kills a server, if it has not ended, and starts it again.
func (m *moving) restart(n *testkit.Server) {
	m.t.Helper()
	n.Kill()
	n.Restart()
}

// fullDisk lets no file of a server grow beyond size for a while. A server that cannot write nodes.conf ends.
func (m *moving) fullDisk(n *testkit.Server, size uint64) {
	m.t.Helper()
	limit := func(size uint64) {
		files := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
		if err := unix.Prlimit(n.PID, unix.RLIMIT_FSIZE, &files, nil); err != nil && !n.Ended() {
			m.t.Fatal(err)
		}
	}
	limit(size)
	testkit.Moment(m.rng, time.Second)
	if limit(unix.RLIM_INFINITY); n.Ended() {
		n.Restart()
	}
}

// noFolder takes away the folder of a server's nodes.conf for a while. If the server has to write the file, it ends.
func (m *moving) noFolder(n *testkit.Server) {
	m.t.Helper()
	rename := func(from, to string) {
		if err := os.Rename(n.File(from), n.File(to)); err != nil {
			m.t.Fatal(err)
		}
	}
	rename("conf", "away")
	testkit.Moment(m.rng, time.Second)
	if rename("away", "conf"); n.Ended() {
		n.Restart()
	}
}

// A fault breaks a move, or the nodes of one.
type fault struct {
	name   string
	strike func(m *moving, from, to *testkit.Server)
}

var faults = []fault{
	{"cancel at the source", func(_ *moving, from, _ *testkit.Server) {
		_, _ = from.Ask("CLUSTER", "CANCELSLOTMIGRATIONS")
	}},
	{"cancel at the target", func(_ *moving, _, to *testkit.Server) {
		_, _ = to.Ask("CLUSTER", "MIGRATION", "CANCEL", "ALL")
	}},
	{"the source dies", func(m *moving, from, _ *testkit.Server) { m.restart(from) }},
	{"the target dies", func(m *moving, _, to *testkit.Server) { m.restart(to) }},
	{"the source stands still", func(m *moving, from, _ *testkit.Server) {
		from.Signal(syscall.SIGSTOP)
		testkit.Moment(m.rng, 2*time.Second)
		from.Signal(syscall.SIGCONT)
	}},
	{"the target stands still", func(m *moving, _, to *testkit.Server) {
		to.Signal(syscall.SIGSTOP)
		testkit.Moment(m.rng, 4*time.Second)
		to.Signal(syscall.SIGCONT)
	}},
	{"the connection is cut", func(_ *moving, _, to *testkit.Server) {
		for line := range strings.SplitSeq(to.Do("CLIENT", "LIST").Text, "\n") {
			if strings.Contains(line, "flags=") && strings.Contains(line, "cmd=cluster|syncslots") {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				_, _ = to.Ask("CLIENT", "KILL", "ID", id)
			}
		}
	}},
	{"the target has no memory", func(m *moving, _, to *testkit.Server) {
		_, _ = to.Ask("CONFIG", "SET", "maxmemory", 1)
		testkit.Moment(m.rng, 100*time.Millisecond)
		_, _ = to.Ask("CONFIG", "SET", "maxmemory", 0)
	}},
	{"the source has no memory", func(m *moving, from, _ *testkit.Server) {
		_, _ = from.Ask("CONFIG", "SET", "maxmemory", 1)
		testkit.Moment(m.rng, 100*time.Millisecond)
		_, _ = from.Ask("CONFIG", "SET", "maxmemory", 0)
	}},
	{"the source's disk is full", func(m *moving, from, _ *testkit.Server) { m.fullDisk(from, moreThanNodesConf) }},
	{"the target's disk is full", func(m *moving, _, to *testkit.Server) { m.fullDisk(to, moreThanNodesConf) }},
	{"the source's disk takes nothing", func(m *moving, from, _ *testkit.Server) { m.fullDisk(from, 1) }},
	{"the target's disk takes nothing", func(m *moving, _, to *testkit.Server) { m.fullDisk(to, 1) }},
	{"the target cannot write nodes.conf", func(m *moving, _, to *testkit.Server) { m.noFolder(to) }},
	{"the source is emptied", func(m *moving, from, _ *testkit.Server) { m.flush(from) }},
	{"the target is emptied", func(m *moving, _, to *testkit.Server) { m.flush(to) }},
	{"the source fails over", func(m *moving, from, _ *testkit.Server) {
		_, _ = m.replicaOf(from).Ask("CLUSTER", "FAILOVER")
	}},
	{"the target fails over", func(m *moving, _, to *testkit.Server) {
		_, _ = m.replicaOf(to).Ask("CLUSTER", "FAILOVER")
	}},
	{"the source's bus is cut", func(m *moving, from, _ *testkit.Server) { m.cutBus(from) }},
	{"the target's bus is cut", func(m *moving, _, to *testkit.Server) { m.cutBus(to) }},
}

// flush empties a node.
func (m *moving) flush(n *testkit.Server) {
	m.t.Helper()
	_, _ = n.Ask("FLUSHALL")
	m.flushed(m.t)
}

// cutBus delays all messages between a node and the others for a while.
func (m *moving) cutBus(n *testkit.Server) {
	m.cut.Store(int64(slices.Index(m.gated.nodes, n)))
	testkit.Moment(m.rng, 3*time.Second)
	m.cut.Store(-1)
}

// await waits for a moment of the move: any, or one in which clients are held at the source, if it comes.
func (m *moving) await(from *testkit.Server) (state string) {
	held := m.rng.IntN(2) == 0
	if !held {
		testkit.Moment(m.rng, 80*time.Millisecond)
	}
	return awaitState(m.t, from, func(state string) bool {
		return !held || slices.Contains([]string{"failover-paused", "failover-granted", "success", "failed", "cancelled"},
			state)
	})
}

// awaitState waits until a node's latest move has a state of those that holds accepts. It looks so often that it sees
// a state that lasts a millisecond.
func awaitState(t *testing.T, n *testkit.Server, holds func(state string) bool) (state string) {
	t.Helper()
	for deadline := time.Now().Add(testkit.Slowly(5 * time.Minute)); ; {
		if state = moveState(n, "state"); holds(state) {
			return state
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: the move is still %q", n.Addr, state)
		}
		testkit.Lapse(200 * time.Microsecond)
	}
}

// tell logs a round, and what each node thinks of the cluster and of its moves.
func (m *moving) tell(round string) {
	m.t.Log(round)
	for _, n := range m.gated.nodes {
		for _, line := range strings.SplitAfter(n.Log(), "\n") {
			if strings.Contains(line, "Slot migration") && strings.Contains(line, "finished") || strings.Contains(line, "poch") {
				m.t.Logf("%s: %s", n.Addr, line)
			}
		}
		for _, word := range []string{"NODES", "SLOTS", "GETSLOTMIGRATIONS"} {
			v, err := n.Ask("CLUSTER", word)
			m.t.Logf("%s: CLUSTER %s: %v %v %s", n.Addr, word, err, v, v.Text)
		}
	}
}

// TestBrokenMoves: moves of slots are broken at a random moment, at either end. Afterwards each slot has one owner, all
// acknowledged writes are there once, no staged key is left, and the next attempt succeeds.
func TestBrokenMoves(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	m := newMoving(t, seed)
	last := "" // the latest round
	t.Cleanup(func() {
		if t.Failed() {
			m.tell(last)
		}
	})
	struck := map[string]int{} // rounds by fault and state
	for round := range rounds(8) {
		var from, to *testkit.Server
		f, asksTarget := faults[m.rng.IntN(len(faults))], m.rng.IntN(2) == 0
		what := fmt.Sprintf("seed %d, round %d, %s", seed, round, f.name)
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": the move begins", func() error {
			from, to = m.ends()
			before := moveState(from, "name")
			request := []any{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, lastMoving, "NODE", to.Do("CLUSTER", "MYID").Text}
			at := from
			if asksTarget {
				request, at = []any{"CLUSTER", "MIGRATION", "IMPORT", 0, lastMoving}, to
			}
			v, err := at.Ask(request...)
			return errors.Join(err, v.Err(), testkit.Equal(moveState(from, "name") != before, true))
		})
		state := m.await(from)
		last = fmt.Sprintf("%s in %s, from %s to %s", what, state, from.Addr, to.Addr)
		struck[f.name+" in "+state]++
		f.strike(m, from, to)
		for _, n := range m.gated.nodes {
			testkit.Until(t, testkit.Slowly(60*time.Second), what+": no move is under way", func() error {
				for _, any := range m.gated.nodes { // n may wait for another one
					if any.Ended() { // of a disk that it found full, after the fault was over
						any.Restart()
					}
				}
				return movesOver(n)
			})
		}
		m.well(what)
		_, other := m.ends()
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": no staged key is left", func() error {
			return errors.Join(testkit.Equal(other.Do("DBSIZE").Int, 0),
				testkit.Equal(m.replicaOf(other).Do("DBSIZE").Int, 0))
		})
		m.check(t, what)
		if owner, _ := m.ends(); strings.HasSuffix(f.name, "is emptied") {
			m.fill()
		} else if n := owner.Do("DBSIZE").Int; n < survivorKeys {
			t.Errorf("%s: %d keys are left, and %d are large", what, n, survivorKeys)
		}
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": the next attempt succeeds", func() error {
			owner, other := m.ends()
			id := other.Do("CLUSTER", "MYID").Text
			v, err := owner.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, lastMoving, "NODE", id)
			if err := errors.Join(err, v.Err()); err != nil {
				return err
			}
			testkit.Until(t, testkit.Slowly(60*time.Second), what+": the attempt ends",
				func() error { return movesOver(owner) })
			return testkit.Equal(moveState(owner, "state"), "success")
		})
		if t.Failed() {
			break
		}
	}
	close(m.stop)
	m.done.Wait()
	for _, kind := range slices.Sorted(maps.Keys(struck)) {
		t.Logf("%4d %s", struck[kind], kind)
	}
}
