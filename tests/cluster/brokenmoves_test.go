package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// rounds returns the number of rounds of a random test: n times SPINDLE_TEST_SCALE, which make soak sets.
func rounds(n int) int {
	if scale, err := strconv.Atoi(os.Getenv("SPINDLE_TEST_SCALE")); err == nil {
		n *= scale
	}
	return n
}

// A survivor increments keys on whichever node has them, while servers die. acked counts the acknowledged increments,
// and unknown counts those without a reply.
type survivor struct {
	nodes []*testkit.Server
	stop  chan struct{}
	done  sync.WaitGroup

	mu             sync.Mutex
	acked, unknown map[string]int64
	odd            []string // errors that no client should see
}

const survivorKeys = 40

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
		default:
		}
		key := fmt.Sprintf("{%d}count", i%survivorKeys)
		link := links[at]
		if link == nil {
			var err error
			if link, err = respclient.DialTimeout(at, time.Second); err != nil {
				at = s.nodes[i%2].Addr
				continue
			}
			link.SetTimeout(5 * time.Second)
			links[at] = link
		}
		v, err := link.Do("INCR", key)
		s.mu.Lock()
		switch {
		case err != nil:
			s.unknown[key]++
			link.Close()
			delete(links, at)
			at = s.nodes[i%2].Addr
		case v.Kind != '-':
			s.acked[key]++
		case strings.HasPrefix(v.Text, "MOVED "):
			at = v.Text[strings.LastIndexByte(v.Text, ' ')+1:]
		// A target replies OOM if it already owns the slots and has no memory.
		case !strings.HasPrefix(v.Text, "CLUSTERDOWN") && !strings.HasPrefix(v.Text, "LOADING") &&
			!strings.HasPrefix(v.Text, "OOM "):
			s.odd = append(s.odd, v.Text)
		}
		s.mu.Unlock()
	}
}

// check compares the keys with the acknowledged increments. No increment may be under way.
func (s *survivor) check(t *testing.T, owner *testkit.Server, what string) {
	t.Helper()
	close(s.stop)
	s.done.Wait()
	for key, acked := range s.acked {
		v := owner.Do("GET", key)
		if n, _ := strconv.ParseInt(v.Text, 10, 64); n < acked || n > acked+s.unknown[key] {
			t.Errorf("%s: %s is %d; %d increments were acknowledged, %d got no reply", what, key, n, acked, s.unknown[key])
		}
		s.acked[key], _ = strconv.ParseInt(v.Text, 10, 64)
		s.unknown[key] = 0
	}
	if len(s.odd) > 0 {
		t.Errorf("%s: clients saw %q", what, s.odd[:min(len(s.odd), 3)])
	}
	s.odd = nil
	s.stop = make(chan struct{})
	s.done.Add(1)
	go s.run()
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

// ownerOf returns which of two nodes owns slot 0, once all nodes agree.
func ownerOf(t *testing.T, nodes []*testkit.Server) (owner, other *testkit.Server) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(60*time.Second), "all nodes agree about the owner", func() error {
		seen := ""
		for _, n := range nodes {
			v, err := n.Ask("CLUSTER", "SLOTS")
			if err != nil {
				return err
			}
			at := ""
			for _, run := range v.Elems {
				if run.Elems[0].Int == 0 {
					at = strconv.FormatInt(run.Elems[2].Elems[1].Int, 10)
				}
			}
			if seen != "" && at != seen {
				return fmt.Errorf("%s says %s, another node %s", n.Addr, at, seen)
			}
			seen = at
		}
		owner, other = nodes[0], nodes[1]
		if seen == strconv.Itoa(nodes[1].Port) {
			owner, other = other, owner
		}
		return nil
	})
	return owner, other
}

// TestBrokenMoves: moves of slots are interrupted at a random moment, at either end. Afterwards each slot has one
// owner, each acknowledged write exists once, no staged key is left, and the next attempt succeeds.
func TestBrokenMoves(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--appendonly", "yes", "--appendfsync", "always", "--save", "",
		"--repl-timeout", "10", "--cluster-manual-failover-timeout", "1000"}, testkit.Ours, testkit.Ours, testkit.Ours)
	a, b := nodes[0], nodes[1]
	a.Crashes()
	b.Crashes()
	for i := range 2000 {
		a.Do("HSET", fmt.Sprintf("{%d}hash", i%survivorKeys), i, strings.Repeat("x", 100))
	}
	keys := a.Do("DBSIZE").Int
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	s := survive(nodes)
	restart := func(n *testkit.Server) {
		n.Kill()
		n.Restart()
	}
	faults := []struct {
		name   string
		strike func(from, to *testkit.Server)
	}{
		{"cancel at the source", func(from, to *testkit.Server) { _, _ = from.Ask("CLUSTER", "CANCELSLOTMIGRATIONS") }},
		{"cancel at the target", func(from, to *testkit.Server) { _, _ = to.Ask("CLUSTER", "MIGRATION", "CANCEL", "ALL") }},
		{"the source dies", func(from, to *testkit.Server) { restart(from) }},
		{"the target dies", func(from, to *testkit.Server) { restart(to) }},
		{"the source stands still", func(from, to *testkit.Server) {
			from.Signal(syscall.SIGSTOP)
			testkit.Moment(rng, 2*time.Second)
			from.Signal(syscall.SIGCONT)
		}},
		{"the target stands still", func(from, to *testkit.Server) {
			to.Signal(syscall.SIGSTOP)
			testkit.Moment(rng, 4*time.Second)
			to.Signal(syscall.SIGCONT)
		}},
		{"the connection is cut", func(from, to *testkit.Server) {
			for line := range strings.SplitSeq(to.Do("CLIENT", "LIST").Text, "\n") {
				if strings.Contains(line, "flags=") && strings.Contains(line, "cmd=cluster|syncslots") {
					id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
					_, _ = to.Ask("CLIENT", "KILL", "ID", id)
				}
			}
		}},
		{"the target has no memory", func(from, to *testkit.Server) {
			_, _ = to.Ask("CONFIG", "SET", "maxmemory", 1)
			testkit.Moment(rng, 100*time.Millisecond)
			_, _ = to.Ask("CONFIG", "SET", "maxmemory", 0)
		}},
	}
	for round := range rounds(12) {
		from, to := ownerOf(t, nodes)
		f := faults[rng.IntN(len(faults))]
		what := fmt.Sprintf("seed %d, round %d, %s", seed, round, f.name)
		request := []any{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", to.Do("CLUSTER", "MYID").Text}
		at := from
		if rng.IntN(2) == 0 {
			request, at = []any{"CLUSTER", "MIGRATION", "IMPORT", 0, 16382}, to
		}
		if v, err := at.Ask(request...); err != nil || v.Kind == '-' {
			t.Fatalf("%s: the move does not begin: %+v, %v", what, v, err)
		}
		testkit.Moment(rng, 80*time.Millisecond)
		f.strike(from, to)
		for _, n := range nodes {
			testkit.Until(t, testkit.Slowly(60*time.Second), what+": no move is under way", func() error { return movesOver(n) })
			testkit.Until(t, testkit.Slowly(60*time.Second), what+": the cluster is well",
				func() error { return well(n, len(nodes)) })
		}
		owner, other := ownerOf(t, nodes)
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": no staged key is left", func() error {
			return testkit.Equal(other.Do("DBSIZE").Int, 0)
		})
		s.check(t, owner, what)
		if n := owner.Do("DBSIZE").Int; n < keys {
			t.Errorf("%s: %d keys of %d are left", what, n, keys)
		}
		testkit.Until(t, testkit.Slowly(60*time.Second), what+": the next attempt succeeds", func() error {
			v, err := owner.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", other.Do("CLUSTER", "MYID").Text)
			if err != nil || v.Kind == '-' {
				return fmt.Errorf("%+v, %v", v, err)
			}
			testkit.Until(t, testkit.Slowly(60*time.Second), what+": the attempt ends", func() error { return movesOver(owner) })
			return testkit.Equal(moveState(owner, "state"), "success")
		})
		if t.Failed() {
			return
		}
	}
	close(s.stop)
	s.done.Wait()
}
