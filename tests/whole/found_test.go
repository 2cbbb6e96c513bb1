package whole

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// These tests replay the bugs that led to R6, as they were found, at a smaller size.

// A call is a request without a reply yet.
type call struct {
	reply respclient.Value
	err   error
	done  chan struct{}
}

// sent sends a request over a new connection, and does not wait for the reply.
func sent(s *testkit.Server, words ...any) *call { return sentBy(s.Dial(), words...) }

// sentBy is sent for a client's connection.
func sentBy(client *respclient.Client, words ...any) *call {
	c := &call{done: make(chan struct{})}
	client.Send(words...)
	c.err = client.Flush()
	go func() {
		defer close(c.done)
		if c.err == nil {
			c.reply, c.err = client.Receive()
		}
	}()
	return c
}

// known returns a client whose connection s has accepted. So its next command comes before those of later clients, and
// a new listener does not reset the connection.
func known(t testing.TB, s *testkit.Server) *respclient.Client {
	t.Helper()
	cl := s.Dial()
	if v, err := cl.Do("PING"); err != nil || v.Text != "PONG" {
		t.Fatal(v, err)
	}
	return cl
}

// answer waits for the reply.
func (c *call) answer(t *testing.T) respclient.Value {
	t.Helper()
	<-c.done
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.reply
}

// announce is a part of a script: the log says that the script runs.
const announce = `redis.log(redis.LOG_WARNING, 'the unit runs') `

// runs waits until s runs a script that announces itself.
func runs(t *testing.T, s *testkit.Server) {
	t.Helper()
	s.AwaitLog(testkit.Slowly(20*time.Second), "the unit runs")
}

// alike waits until all servers are at the same offset. It fails the test unless their data is equal.
func alike(t *testing.T, all ...*testkit.Server) {
	t.Helper()
	s := &scene{serverSet: &serverSet{TB: t}}
	c := &cell{scene: s, draw: draw{row: &row{look: func(*cell, *testkit.Server) (state, string) { return absent, "" }}}}
	defer func() {
		if what := recover(); what != nil || s.Failed() {
			t.Error(strings.Join(s.wrong, "\n"))
		}
	}()
	c.equal(all)
}

// TestSecondCopyDuringScript: a full copy that waits for the end of another copy does not begin in the middle of a
// script. Otherwise the replica would apply the first part of the script twice. (B2)
func TestSecondCopyDuringScript(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	s.Do("DEBUG", "POPULATE", 200)
	s.Do("CONFIG", "SET", "rdb-key-save-delay", 5000)
	first, second := testkit.Start(t), testkit.Start(t)
	first.Do("REPLICAOF", "127.0.0.1", s.Port)
	s.AwaitLog(testkit.Slowly(20*time.Second), "Starting full synchronization of replica "+first.Addr)
	second.Do("REPLICAOF", "127.0.0.1", s.Port)
	s.AwaitLog(testkit.Slowly(20*time.Second), second.Addr+" waits for the next one")
	script := sent(s, "EVAL", `
		repeat
			redis.call('INCR', 'ctr') redis.call('RPUSH', 'list', 'x')
			for i = 1, 1000 do end
		`+testkit.UntilReleased+`
		return redis.call('GET', 'ctr')`, 0)
	// In the turn that logs the end of the first copy, the second one could begin.
	s.AwaitLog(testkit.Slowly(60*time.Second), "Diskless rdb transfer, done reading from pipe")
	s.Release()
	want := script.answer(t).Text
	s.Do("CONFIG", "SET", "rdb-key-save-delay", 0)
	alike(t, s, first, second)
	for _, one := range []*testkit.Server{s, first, second} {
		if got := one.Do("GET", "ctr").Text; got != want {
			t.Errorf("%s: the counter is %s, not %s", one.Addr, got, want)
		}
	}
}

// clusterPair starts a cluster of one primary, which has all slots, and its replica.
func clusterPair(t *testing.T, args ...string) (primary, replica *testkit.Server) {
	t.Helper()
	node := func() (*testkit.Server, int) {
		bus := testkit.FreePort(t)
		args := append([]string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus)}, args...)
		return testkit.Start(t, args...), bus
	}
	s, bus := node()
	r, _ := node()
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, slots.Count-1)
	testkit.Meet(t, s, bus, r)
	answered := func(one *testkit.Server, what string, args ...any) {
		testkit.Until(t, testkit.Slowly(20*time.Second), what, func() error {
			v, err := one.Ask(args...)
			if err == nil {
				err = v.Err()
			}
			return err
		})
	}
	answered(r, "the replica follows", "CLUSTER", "REPLICATE", s.Do("CLUSTER", "MYID").Text)
	r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	answered(s, "the cluster serves", "DEL", "{a}k")
	return s, r
}

// TestClusterFailoverDuringScript: a manual failover waits for the script that its primary runs. (B3)
func TestClusterFailoverDuringScript(t *testing.T) {
	t.Parallel()
	s, r := clusterPair(t, "--cluster-manual-failover-timeout", "20000") // a busy host needs long
	script := sent(s, "EVAL", announce+`redis.call('RPUSH', KEYS[1], 'a', 'b', 'c')
		redis.call('SET', KEYS[2], 'yes')
		repeat `+testkit.UntilReleased+`
		return 'stored'`, 2, "{a}l", "{a}done")
	runs(t, s)
	r.Do("CLUSTER", "FAILOVER")
	s.AwaitLog(testkit.Slowly(20*time.Second), "Manual failover requested by replica")
	testkit.Lapse(300 * time.Millisecond) // a failover that does not wait for the script is over by then
	s.Release()
	if v := script.answer(t); v.Text != "stored" {
		t.Errorf("the script: %v", v)
	}
	asked := time.Now()
	testkit.Until(t, testkit.Slowly(20*time.Second), "the failover", func() error {
		role := r.Info("replication")["role"]
		if role != "master" && time.Since(asked) > 6*time.Second { // an attempt lapses after 5 s
			asked = time.Now()
			r.Do("CLUSTER", "FAILOVER")
		}
		return testkit.Equal(role, "master")
	})
	s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "role", "slave")
	alike(t, r, s)
	if n, done := r.Do("LLEN", "{a}l").Int, r.Do("GET", "{a}done").Text; n != 3 || done != "yes" {
		t.Errorf("the new primary has a list of %d and %q", n, done)
	}
}

// TestFailoverDuringRestore: a failover does not lose a large RESTORE that was acknowledged. (B4)
func TestFailoverDuringRestore(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	r := testkit.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port))
	s.Do("EVAL", "for i = 1, 300000 do redis.call('HSET', 'h', 'field:' .. i, 'value:' .. i) end", 0)
	text := s.Do("DUMP", "h").Text
	s.Do("DEL", "h")
	alike(t, s, r)
	for try := range 3 {
		key := "big:" + strconv.Itoa(try)
		big := sent(s, "RESTORE", key, 0, text)
		testkit.Until(t, testkit.Slowly(time.Minute), "RESTORE is at work", func() error {
			if list := s.Do("CLIENT", "LIST").Text; !strings.Contains(list, "cmd=restore") {
				return fmt.Errorf("%s", list)
			}
			return nil
		})
		s.Do("FAILOVER")
		stored := big.answer(t).Text == "OK"
		// Both servers store the value first, which needs about a second of CPU time.
		r.AwaitInfo(testkit.Slowly(time.Minute), "replication", "role", "master")
		s.AwaitInfo(testkit.Slowly(time.Minute), "replication", "role", "slave")
		s, r = r, s
		alike(t, s, r)
		if n := s.Do("EXISTS", key).Int; stored && n == 0 {
			t.Errorf("RESTORE of %s was acknowledged, and the new primary lacks the key", key)
		}
	}
}

// TestClusterDownDuringScript: a script uses the same slot map from its start to its end. (B5)
func TestClusterDownDuringScript(t *testing.T) {
	t.Parallel()
	var nodes []*testkit.Server
	bus := 0
	for i := range 3 {
		port := testkit.FreePort(t)
		n := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(port), "--cluster-node-timeout",
			"600")
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		n.Do("CLUSTER", "ADDSLOTSRANGE", i*slots.Count/3, (i+1)*slots.Count/3-1)
		if i == 0 {
			bus = port
		} else {
			testkit.Meet(t, nodes[0], bus, n)
		}
		nodes = append(nodes, n)
	}
	state := func(want string) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(20*time.Second), "the cluster is "+want, func() error {
			for _, n := range nodes[:2] {
				v, err := n.Ask("CLUSTER", "INFO")
				if err != nil || !strings.Contains(v.Text, "cluster_state:"+want) {
					return fmt.Errorf("%s: %v %v", n.Addr, v, err)
				}
			}
			return nil
		})
	}
	state("ok")
	tag := "t"
	for slots.Of([]byte(tag)) >= slots.Count/3 {
		tag += "t"
	}
	script := sent(nodes[0], "EVAL", announce+`
		repeat
			redis.call('INCR', KEYS[1])
			for i = 1, 1000 do end
		`+testkit.UntilReleased+`
		redis.call('SET', KEYS[2], 'yes')
		return 'stored'`, 2, "{"+tag+"}c", "{"+tag+"}done")
	runs(t, nodes[0])
	nodes[2].Kill()
	testkit.Until(t, testkit.Slowly(20*time.Second), "the cluster fails during the script", func() error {
		const changes = "Cluster state changed: "
		log := nodes[0].Log()
		last, _, _ := strings.Cut(log[strings.LastIndex(log, changes)+len(changes):], "\n")
		return testkit.Equal(last, "fail")
	})
	nodes[0].Release()
	if v := script.answer(t); v.Text != "stored" {
		t.Errorf("the script: %v", v)
	}
	state("fail") // the state while the script ran
}

// TestPublishedByScript: the messages that a script publishes are sent only when its effects are on disk. (B7)
func TestPublishedByScript(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "KEA")
	c := s.Dial()
	for _, channel := range []string{"ch", "__keyevent@0__:set"} {
		if v, err := c.Do("SUBSCRIBE", channel); err != nil || v.Err() != nil {
			t.Fatal(v, err)
		}
	}
	script := sent(s, "EVAL", `redis.call('SET', 'first', '1') redis.call('PUBLISH', 'ch', 'x')
		local t = os.clock() repeat until os.clock() - t > 0.3
		redis.call('SET', 'last', '1')`, 0)
	for range 3 { // SET, PUBLISH, SET
		if v, err := c.Receive(); err != nil || len(v.Elems) != 3 {
			t.Fatal(v, err)
		}
		files, err := filepath.Glob(s.File("appendonlydir/*.incr.aof"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "last") {
			t.Fatal("a message has left before the log had what the script has written")
		}
	}
	script.answer(t)
}
