package process

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// This file has clients whose connections change their event loops while something else happens to the server. Checked
// builds (make race, make invariants) move connections all the time, and these tests are made for them. In other builds
// most connections stay.

// A fleet is a group of clients of one server. They send pipelines until it stops. They know the reply to each request.
type fleet struct {
	*testing.T
	s       *testkit.Server
	refuses map[string]bool // codes of the errors that the server may reply
	ends    bool            // the server may end
	pauses  bool            // the server may pause clients; a client that leaves may then get no more replies
	more    func(m *member) step

	stop    chan struct{}
	working sync.WaitGroup
	members []*member
	rounds  atomic.Int64
	echoes  atomic.Int64
	others  int64        // other clients of the server; one may have left that another loop still counted
	left    atomic.Int64 // replies to increments of clients that have left
	sent    atomic.Int64 // increments that they have sent
}

// A member is a client of a fleet that stays.
type member struct {
	*respclient.Client
	id    int
	count int64 // the last value of the member's counter that is known
	sent  int64 // the value if all requests have run
	words int
	rng   *rand.Rand
}

func (m *member) counter() string { return fmt.Sprint("count:", m.id, ":", m.Conn().RemoteAddr()) }

// visits is the counter of the clients that leave.
func (c *fleet) visits() string { return "visits:" + c.s.Addr }

// A step is a request, and the check of its reply.
type step struct {
	request []any
	check   func(v respclient.Value) error
	counts  bool // it increments the counter
}

// gather begins a fleet, and returns when it is busy.
func gather(t *testing.T, s *testkit.Server, c *fleet, refuses ...string) *fleet {
	t.Helper()
	c.T, c.s, c.stop, c.refuses = t, s, make(chan struct{}), map[string]bool{}
	for _, code := range refuses {
		c.refuses[code] = true
	}
	c.others = s.InfoInt("clients", "connected_clients")
	for i := range 10 {
		m := &member{Client: s.Dial(), id: i, rng: rand.New(rand.NewPCG(uint64(i), 35))}
		c.members = append(c.members, m)
		c.working.Go(func() { c.repeat(func() error { return c.round(m) }) })
	}
	for i := range 2 {
		rng := rand.New(rand.NewPCG(uint64(i), 53))
		c.working.Go(func() { c.repeat(func() error { return c.visit(rng) }) })
	}
	c.goesOn()
	return c
}

// A lost is the end of a connection or of the server.
type lost struct{ error }

// repeat calls round until the fleet stops or a round fails.
func (c *fleet) repeat(round func() error) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		if err := round(); err != nil {
			if !c.ends || !errors.As(err, &lost{}) {
				c.Error(err)
			}
			return
		}
		c.rounds.Add(1)
	}
}

// goesOn returns after the fleet has done some rounds more.
func (c *fleet) goesOn() {
	c.Helper()
	until := c.rounds.Load() + 100
	testkit.Await(c, testkit.Slowly(20*time.Second), "the clients to get replies", func() bool {
		return c.rounds.Load() >= until || c.Failed()
	})
}

// round sends a pipeline and reads its replies.
func (c *fleet) round(m *member) error {
	var steps []step
	for range 1 + m.rng.IntN(6) {
		word := fmt.Sprintf("%d.%d", m.id, m.words)
		m.words++
		steps = append(steps,
			step{[]any{"INCR", m.counter()}, func(v respclient.Value) error {
				m.count++
				return testkit.Equal(v.String(), respclient.Value{Kind: ':', Int: m.count}.String())
			}, true},
			step{request: []any{"ECHO", word}, check: func(v respclient.Value) error { return testkit.Equal(v.Text, word) }},
			step{request: []any{"GET", m.counter()}, check: func(v respclient.Value) error {
				n, _ := strconv.ParseInt(v.Text, 10, 64)
				return testkit.Equal(n, m.count)
			}})
		if c.more != nil {
			steps = append(steps, c.more(m))
		}
	}
	for _, one := range steps {
		m.Send(one.request...)
		if one.counts {
			m.sent++
		}
	}
	for i, one := range steps {
		v, err := m.Receive()
		if err != nil {
			return lost{fmt.Errorf("client %d: %v: %w", m.id, one.request, err)}
		}
		code := codeOf(v)
		if one.request[0] == "ECHO" && (code == "" || code == "UNCONFIRMED") {
			c.echoes.Add(1)
		}
		switch {
		case !c.refuses[code]:
			if err := one.check(v); err != nil {
				return fmt.Errorf("client %d, reply %d of %d to %.80v: %v: %v", m.id, i, len(steps), one.request, v, err)
			}
		case one.counts && code == "UNCONFIRMED":
			m.count++
		case one.counts:
			m.sent--
		}
	}
	return nil
}

// codeOf returns the code of an error reply, or "".
func codeOf(v respclient.Value) string {
	var refusal respclient.ReplyError
	errors.As(v.Err(), &refusal)
	return refusal.Code()
}

// visit connects, sends a pipeline, and leaves before the replies have come. A client that closes only its own
// direction gets all replies.
func (c *fleet) visit(rng *rand.Rand) error {
	conn, err := net.Dial("tcp", c.s.Addr)
	if err != nil {
		return lost{err}
	}
	defer conn.Close()
	n := 1 + rng.IntN(20)
	c.sent.Add(int64(n))
	if _, err := io.WriteString(conn, strings.Repeat("INCR "+c.visits()+"\r\n", n)); err != nil {
		return lost{err}
	}
	if rng.IntN(2) == 0 {
		return nil
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return lost{err}
	}
	conn.SetReadDeadline(time.Now().Add(testkit.Slowly(testkit.ReplyTimeout)))
	in := respclient.New(conn)
	for range n {
		v, err := in.Receive()
		if err == io.EOF && c.pauses {
			return nil
		}
		if err != nil {
			return lost{fmt.Errorf("a client that leaves, %d requests: %w", n, err)}
		}
		switch {
		case v.Kind == ':':
			c.left.Add(1)
		case !c.refuses[codeOf(v)]:
			return fmt.Errorf("a client that leaves: %v", v)
		}
	}
	if v, err := in.Receive(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("a client that leaves got one more reply: %v %v", v, err)
	}
	return nil
}

// end stops the fleet. It compares the server's data and counters with what the clients know.
func (c *fleet) end() {
	c.Helper()
	close(c.stop)
	c.working.Wait()
	if c.Failed() {
		c.FailNow()
	}
	if !c.ends {
		calls := c.s.Info("commandstats")["cmdstat_echo"]
		if want := fmt.Sprintf("calls=%d,", c.echoes.Load()); !strings.HasPrefix(calls, want) {
			c.Errorf("ECHO: %s, want %s", calls, want)
		}
		for line := range strings.Lines(c.s.Do("CLIENT", "LIST").Text) {
			if strings.Contains(line, "cmd=get") && !(strings.Contains(line, " qbuf=0 ") && strings.Contains(line, " omem=0 ")) {
				c.Errorf("a client at rest: %s", line)
			}
		}
		for _, m := range c.members {
			m.Close()
		}
		testkit.Until(c, testkit.Slowly(20*time.Second), "the clients have left", func() error {
			if n := c.s.InfoInt("clients", "connected_clients"); n > c.others {
				return fmt.Errorf("%d, want %d", n, c.others)
			}
			return nil
		})
		if n := c.s.InfoInt("clients", "blocked_clients"); n != 0 {
			c.Errorf("%d clients are blocked", n)
		}
	}
	for _, m := range c.members {
		if n, _ := strconv.ParseInt(c.s.Do("GET", m.counter()).Text, 10, 64); n < m.count || n > m.sent {
			c.Errorf("%s is %d, and was %d to %d", m.counter(), n, m.count, m.sent)
		}
	}
	if n, _ := strconv.ParseInt(c.s.Do("GET", c.visits()).Text, 10, 64); n < c.left.Load() || n > c.sent.Load() {
		c.Errorf("visits is %d, and was %d to %d", n, c.left.Load(), c.sent.Load())
	}
}

// follows starts a replica of s.
func follows(t *testing.T, s *testkit.Server) *testkit.Server {
	t.Helper()
	r := testkit.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port))
	s.AwaitReplica(testkit.Slowly(60*time.Second), r)
	return r
}

// sameData waits until two servers have the same data.
func sameData(t *testing.T, a, b *testkit.Server) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(20*time.Second), "the same data at the replica", func() error {
		return testkit.Equal(a.Do("DEBUG", "DIGEST").Text, b.Do("DEBUG", "DIGEST").Text)
	})
}

// TestMovesDuringScripts: connections change their loops while scripts run for long, also such whose client has left. A
// script's writes are seen together.
func TestMovesDuringScripts(t *testing.T) {
	t.Parallel()
	for limit, refuses := range map[string][]string{"60000": nil, "10": {"BUSY"}} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--busy-reply-threshold", limit)
			r := follows(t, s)
			s.Do("MSET", "a", 0, "b", 0)
			c := gather(t, s, &fleet{more: func(*member) step {
				return step{request: []any{"MGET", "a", "b"}, check: func(v respclient.Value) error {
					if len(v.Elems) != 2 {
						return errors.New("not two values")
					}
					return testkit.Equal(v.Elems[0].Text, v.Elems[1].Text)
				}}
			}}, refuses...)
			const script = `redis.call('INCR', 'a') local t = os.clock() repeat until os.clock() - t > 0.08
				return redis.call('INCR', 'b')`
			for i := range 12 {
				one := s.Dial()
				one.Send("EVAL", script, 2, "a", "b")
				if err := one.Flush(); err != nil {
					t.Fatal(err)
				}
				if i%3 == 0 {
					one.Close()
				} else if v, err := one.Receive(); err != nil || v.Kind != ':' && codeOf(v) != "BUSY" {
					t.Errorf("script %d: %v %v", i, v, err)
				}
				one.Close()
			}
			testkit.Await(t, testkit.Slowly(20*time.Second), "the last script to end", func() bool {
				v, err := s.Ask("PING")
				return err == nil && codeOf(v) == ""
			})
			c.goesOn()
			c.end()
			sameData(t, s, r)
		})
	}
}

// TestMovesDuringFailovers: connections change their loops while a primary and its replica exchange their roles.
func TestMovesDuringFailovers(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	r := follows(t, s)
	c := gather(t, s, &fleet{pauses: true}, "READONLY")
	for range 2 {
		for _, pair := range [][2]*testkit.Server{{s, r}, {r, s}} {
			pair[0].Do("FAILOVER")
			pair[0].AwaitInfo(testkit.Slowly(60*time.Second), "replication", "role", "slave")
			pair[0].AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
			c.goesOn()
		}
	}
	c.end()
	sameData(t, s, r)
}

// TestMovesAtReplica: connections of a replica change their loops while the replica leaves its primary and follows it
// again.
func TestMovesAtReplica(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	r := follows(t, s)
	at := gather(t, s, &fleet{})
	c := gather(t, r, &fleet{}, "READONLY", "LOADING")
	for range 4 {
		r.Do("REPLICAOF", "127.0.0.1", s.Port)
		r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
		c.goesOn()
	}
	at.end()
	c.end()
	sameData(t, s, r)
}

// TestMovesDuringClusterFailovers is TestMovesDuringFailovers for the nodes of a cluster.
func TestMovesDuringClusterFailovers(t *testing.T) {
	t.Parallel()
	node := func() *testkit.Server {
		return testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)),
			"--cluster-node-timeout", strconv.FormatInt(testkit.Slowly(10*time.Second).Milliseconds(), 10))
	}
	s, r := node(), node()
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, slots.Count-1)
	r.Do("CLUSTER", "MEET", "127.0.0.1", s.Port, s.Do("CONFIG", "GET", "cluster-port").Elems[1].Text)
	id := s.Do("CLUSTER", "MYID").Text
	testkit.Until(t, testkit.Slowly(30*time.Second), "the nodes know each other", func() error {
		v, err := r.Ask("CLUSTER", "REPLICATE", id)
		if err == nil {
			err = v.Err()
		}
		return err
	})
	r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
	testkit.Until(t, testkit.Slowly(30*time.Second), "the cluster serves", func() error {
		v, err := s.Ask("SET", "k", 1)
		if err == nil {
			err = v.Err()
		}
		return err
	})
	c := gather(t, s, &fleet{pauses: true}, "MOVED", "CLUSTERDOWN", "READONLY")
	for _, pair := range [][2]*testkit.Server{{s, r}, {r, s}} {
		testkit.Until(t, testkit.Slowly(60*time.Second), "the replica takes over", func() error {
			if v, err := pair[1].Ask("CLUSTER", "FAILOVER"); err != nil || v.Err() != nil {
				return errors.Join(err, v.Err())
			}
			if !testkit.Holds(5*time.Second, func() bool { return pair[1].Info("replication")["role"] == "master" }) {
				return errors.New("the failover has not ended")
			}
			return nil
		})
		pair[0].AwaitInfo(testkit.Slowly(60*time.Second), "replication", "role", "slave")
		pair[0].AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
		c.goesOn()
	}
	c.end()
	sameData(t, s, r)
}

// TestMovesWhileDiskIsFull: connections change their loops while the append-only file cannot grow. Writes are refused,
// or, with appendfsync always, the server ends. After a restart all writes are there whose replies have come.
func TestMovesWhileDiskIsFull(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"always", "everysec"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", policy)
			c := gather(t, s, &fleet{ends: policy == "always"}, "MISCONF")
			for range 3 {
				limit := unix.Rlimit{Cur: 1000, Max: unix.RLIM_INFINITY}
				if err := unix.Prlimit(s.PID, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
					t.Fatal(err)
				}
				if policy == "always" {
					s.Wait(20 * time.Second)
					break
				}
				s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_last_write_status", "err")
				c.goesOn()
				limit.Cur = unix.RLIM_INFINITY
				if err := unix.Prlimit(s.PID, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
					t.Fatal(err)
				}
				s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_last_write_status", "ok")
				c.goesOn()
			}
			if policy == "always" {
				s.Restart()
			}
			c.end()
		})
	}
}

// TestMovesWhileRepliesWait: connections change their loops while replies wait for a replica that stands still.
func TestMovesWhileRepliesWait(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--repl-timeout", "600")
	r := follows(t, s)
	s.Do("CONFIG", "SET", "min-replicas-to-ack", 1, "ack-timeout", 600_000)
	c := gather(t, s, &fleet{}, "UNCONFIRMED")
	rng := rand.New(rand.NewPCG(35, 35))
	for _, timeout := range []int{600_000, 30} {
		s.Do("CONFIG", "SET", "ack-timeout", timeout)
		for range 3 {
			r.Signal(syscall.SIGSTOP)
			testkit.Moment(rng, 200*time.Millisecond)
			r.Signal(syscall.SIGCONT)
			c.goesOn()
		}
	}
	c.end()
	sameData(t, s, r)
}

// TestMovesDuringEviction: connections change their loops while keys are evicted. A client that has cached keys hears
// of each.
func TestMovesDuringEviction(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--maxmemory-policy", "volatile-random", "--enable-debug-command", "yes")
	r := follows(t, s)
	cached := s.Dial()
	heard := map[string]int{}
	cached.OnPush = func(v respclient.Value) {
		if len(v.Elems) == 2 && len(v.Elems[1].Elems) == 1 {
			heard[v.Elems[1].Elems[0].Text]++
		}
	}
	for _, request := range [][]any{{"HELLO", 3}, {"CLIENT", "TRACKING", "ON"}} {
		if v, err := cached.Do(request...); err != nil || v.Err() != nil {
			t.Fatal(v, err)
		}
	}
	const keys = 500
	for i := range keys {
		s.Do("SET", fmt.Sprint("cached:", i), strings.Repeat("x", 1000), "EX", 10_000)
		if _, err := cached.Do("GET", fmt.Sprint("cached:", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Do("CONFIG", "SET", "maxmemory", s.InfoInt("memory", "used_memory")+3_000_000)
	value := strings.Repeat("v", 2000)
	c := gather(t, s, &fleet{more: func(m *member) step {
		return step{request: []any{"SET", fmt.Sprint("filler:", m.id, ":", m.words), value, "EX", 10_000},
			check: func(v respclient.Value) error { return testkit.Equal(v.Text, "OK") }}
	}})
	testkit.Until(t, testkit.Slowly(30*time.Second), "many keys are evicted", func() error {
		if n := s.InfoInt("stats", "evicted_keys"); n < 2000 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	c.end()
	s.Do("CONFIG", "SET", "maxmemory", 0)
	if v, err := cached.Do("PING"); err != nil || v.Text != "PONG" {
		t.Fatal(v, err)
	}
	gone := 0
	for i := range keys {
		key := fmt.Sprint("cached:", i)
		evicted := int(1 - s.Do("EXISTS", key).Int)
		gone += evicted
		if heard[key] != evicted {
			t.Errorf("%s: evicted %d times, %d messages", key, evicted, heard[key])
		}
	}
	if len(heard) != gone || gone == 0 {
		t.Errorf("%d of the cached keys were evicted, and messages came for %d", gone, len(heard))
	}
	sameData(t, s, r)
}
