package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A gate is the address under which other nodes reach a node's bus. It can delay the messages between two nodes. It
// recognises the sender, because each node connects from its own source address.
type gate struct {
	g        *gated
	at       int // the node's number
	listener net.Listener
	to       string
}

// gated is a cluster whose nodes can be cut off from each other.
type gated struct {
	t     *testing.T
	nodes []*testkit.Server
	cut   atomic.Int64 // the node that is cut off; -1 means none
}

// source returns the address from which node i connects.
func source(i int) string { return fmt.Sprintf("127.0.0.%d", 100+i) }

func (g *gate) serve() {
	for {
		in, err := g.listener.Accept()
		if err != nil {
			return
		}
		from := int(in.RemoteAddr().(*net.TCPAddr).IP.To4()[3]) - 100
		go func() {
			defer in.Close()
			g.g.pass(from, g.at)
			out, err := net.Dial("tcp", g.to)
			if err != nil {
				return
			}
			defer out.Close()
			go func() { g.copy(out, in, from); _ = out.Close() }()
			g.copy(in, out, from)
		}()
	}
}

func (g *gate) copy(to, from net.Conn, peer int) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			g.g.pass(peer, g.at)
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass blocks while two nodes are cut off from each other.
func (c *gated) pass(a, b int) {
	pace := time.Tick(5 * time.Millisecond)
	for cut := c.cut.Load(); cut == int64(a) || cut == int64(b); cut = c.cut.Load() {
		<-pace
	}
}

// gatedCluster makes three primaries with a replica each. kind returns the kind of each node.
func gatedCluster(t *testing.T, kind func(i int) string) *gated {
	const primaries = 3
	for i := range 2 {
		testkit.Kind(t, kind(i)) // skips the test before any server starts
	}
	c := &gated{t: t}
	c.cut.Store(-1)
	var buses []int
	for i := range 2 * primaries {
		bus := testkit.FreePort(t)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		g := &gate{g: c, at: i, listener: listener, to: fmt.Sprintf("127.0.0.1:%d", bus)}
		go g.serve()
		announced := listener.Addr().(*net.TCPAddr).Port
		buses = append(buses, announced)
		spec := testkit.Kind(t, kind(i))
		spec.Args = []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs),
			"--protected-mode", "no", "--bind-source-addr", source(i), "--cluster-port", strconv.Itoa(bus),
			"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-bus-port", strconv.Itoa(announced)}
		c.nodes = append(c.nodes, testkit.Launch(t, spec))
	}
	for i, n := range c.nodes[:primaries] {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		n.Do("CLUSTER", "ADDSLOTSRANGE", i*slots.Count/primaries, (i+1)*slots.Count/primaries-1)
	}
	testkit.Meet(t, c.nodes[0], buses[0], c.nodes[1:]...)
	for _, n := range c.nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster", func() error {
			return well(n, 2*primaries)
		})
	}
	for i, n := range c.nodes[primaries:] {
		id := c.nodes[i].Do("CLUSTER", "MYID").Text
		testkit.Until(t, testkit.Slowly(patience), "a replica", func() error {
			v, err := n.Ask("CLUSTER", "REPLICATE", id)
			return errors.Join(err, v.Err())
		})
	}
	synced(t, c.nodes[primaries:]...)
	return c
}

// claims has the node that claimed each slot, by epoch.
type claims map[uint64]*[slots.Count]string

// note records a node's line about itself. It returns an error if another node claimed the same slot in the same
// epoch.
func (c claims) note(nodes string) error {
	for line := range strings.SplitSeq(nodes, "\n") {
		words := strings.Fields(line)
		if len(words) < 8 || !strings.Contains(words[2], "myself") || !strings.Contains(words[2], "master") {
			continue
		}
		epoch, err := strconv.ParseUint(words[6], 10, 64)
		if err != nil {
			return err
		}
		if c[epoch] == nil {
			c[epoch] = &[slots.Count]string{}
		}
		for _, word := range words[8:] {
			if word[0] == '[' {
				continue // a slot that is moving
			}
			first, last, is := strings.Cut(word, "-")
			if !is {
				last = first
			}
			from, err := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			for slot := from; slot <= to; slot++ {
				if other := c[epoch][slot]; other != "" && other != words[0] {
					return fmt.Errorf("slot %d is claimed with epoch %d by %s and by %s", slot, epoch, other, words[0])
				}
				c[epoch][slot] = words[0]
			}
		}
	}
	return nil
}

// watch repeatedly asks every node for its claims, until stop is closed.
func (c *gated) watch(stop <-chan struct{}, looks *atomic.Int64) error {
	all, clients := claims{}, map[string]*respclient.Client{}
	for {
		for _, n := range c.nodes {
			client := clients[n.Addr]
			if client == nil {
				var err error
				if client, err = respclient.DialTimeout(n.Addr, 200*time.Millisecond); err != nil {
					continue
				}
				client.SetTimeout(200 * time.Millisecond)
				clients[n.Addr] = client
			}
			v, err := client.Do("CLUSTER", "NODES")
			if err != nil {
				client.Close()
				delete(clients, n.Addr)
				continue
			}
			looks.Add(1)
			if err := all.note(v.Text); err != nil {
				return err
			}
		}
		select {
		case <-stop:
			for _, client := range clients {
				client.Close()
			}
			return nil
		case <-time.After(40 * time.Millisecond):
		}
	}
}

// A ledger has the writes of one client, by key. Later values of a key are greater.
type ledger struct {
	accepted atomic.Int64
	last     map[string]int // the last acknowledged value
	safe     map[string]int // the last acknowledged value that a replica had, too
}

// settle reads all keys at the end. It fails the test if a write is lost that the replica had. It returns the number of
// keys whose last writes are lost because only the old primary had them.
func (c *gated) settle(l *ledger) (behind int) {
	for key, safe := range l.safe {
		var got int
		testkit.Until(c.t, testkit.Slowly(patience), "a key's owner", func() error {
			for _, n := range c.nodes {
				if v, err := n.Ask("GET", key); err == nil && v.Err() == nil && role(n) == nil {
					got, err = strconv.Atoi(v.Text)
					return err
				}
			}
			return errors.New("no node serves " + key)
		})
		if got < safe {
			c.t.Errorf("%s is %d, and a replica had %d", key, got, safe)
		}
		if got < l.last[key] {
			behind++
		}
	}
	return behind
}

// reshard moves some slots between two primaries, and waits until all nodes agree.
func (c *gated) reshard() {
	t := c.t
	var ids []string
	for _, n := range c.nodes {
		if role(n) == nil {
			ids = append(ids, n.Do("CLUSTER", "MYID").Text)
		}
	}
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	out, code := testkit.Run(t, testkit.Slowly(2*time.Minute), "", testkit.Program(t, "redis-cli"), "--cluster", "reshard",
		c.nodes[rand.IntN(len(c.nodes))].Addr, "--cluster-from", ids[0], "--cluster-to", ids[1], "--cluster-slots", "30",
		"--cluster-yes")
	if code != 0 || !strings.Contains(out, "Moving slot") {
		t.Fatalf("the reshard ends with %d: %s", code, out)
	}
	c.agree()
}

// agree waits until all nodes see the same owner of each slot.
func (c *gated) agree() {
	testkit.Until(c.t, testkit.Slowly(patience), "all nodes agree", func() error {
		var all []string
		for _, n := range c.nodes {
			if err := well(n, len(c.nodes)); err != nil {
				return err
			}
			v, err := n.Ask("CLUSTER", "NODES")
			if err != nil {
				return err
			}
			var owners []string
			for line := range strings.SplitSeq(v.Text, "\n") {
				if words := strings.Fields(line); len(words) > 8 {
					owners = append(owners, fmt.Sprint(words[0], words[6], words[8:]))
				}
			}
			slices.Sort(owners)
			all = append(all, strings.Join(owners, "\n"))
		}
		if slices.Sort(all); len(slices.Compact(all)) > 1 {
			return fmt.Errorf("%s\nor\n%s", all[0], all[1])
		}
		return nil
	})
}

// write runs a client that writes keys of all slots to their owners, until stop is closed. After each write it checks
// whether the replica has the write.
func (c *gated) write(stop <-chan struct{}, l *ledger) {
	l.last, l.safe = map[string]int{}, map[string]int{}
	clients := map[string]*respclient.Client{}
	defer func() {
		for _, client := range clients {
			client.Close()
		}
	}()
	rng, where := rand.New(rand.NewPCG(1, 2)), map[string]string{}
	for i := 1; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(4 * time.Millisecond):
		}
		key := fmt.Sprint("load:", rng.IntN(300))
		addr := where[key]
		if addr == "" {
			addr = c.nodes[rng.IntN(len(c.nodes))].Addr
		}
		client := clients[addr]
		if client == nil {
			var err error
			if client, err = respclient.DialTimeout(addr, 100*time.Millisecond); err != nil {
				delete(where, key)
				continue
			}
			client.SetTimeout(100 * time.Millisecond)
			clients[addr] = client
		}
		v, err := client.Do("SET", key, i)
		switch {
		case err != nil:
			client.Close()
			delete(clients, addr)
			delete(where, key)
		case strings.HasPrefix(v.Text, "MOVED "):
			where[key] = strings.Fields(v.Text)[2]
		case v.Err() == nil:
			where[key] = addr
			l.accepted.Add(1)
			l.last[key] = i
			if v, err := client.Do("WAIT", 1, 50); err != nil {
				client.Close()
				delete(clients, addr)
			} else if v.Int > 0 {
				l.safe[key] = i
			}
		}
	}
}

var granted = regexp.MustCompile(`Failover auth granted to ([0-9a-f]{40}).* for epoch ([0-9]+)`)

// mixed lists the kinds of servers that share a cluster with ours: one node of each shard is of that kind.
var mixed = []string{testkit.Redis70, testkit.Redis8, testkit.Valkey9}

// TestPrimariesThatEnd: primaries are killed, suspended and cut off under load, and slots move. Each time the replica
// takes over. No two nodes claim a slot with the same epoch. No node votes twice in an epoch. No write is lost that the
// replica had. With SPINDLE_TEST_SCALE=34 each kind of cluster, even of redis-server alone, has a hundred failovers and
// 34 reshards.
func TestPrimariesThatEnd(t *testing.T) {
	if testkit.Scale() == 1 {
		t.Parallel()
	}
	kinds := map[string]func(i int) string{"ours": func(int) string { return testkit.Ours }}
	for _, other := range mixed {
		kinds["mixed with "+other] = func(i int) string { return []string{testkit.Ours, other}[i%2] }
	}
	if testkit.Scale() > 1 {
		kinds["redis-server"] = func(int) string { return testkit.Redis70 }
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			if testkit.Scale() == 1 {
				t.Parallel()
			}
			c := gatedCluster(t, kind)
			stop, broken := make(chan struct{}), make(chan error, 1)
			var looks atomic.Int64
			var book ledger
			var working sync.WaitGroup
			working.Go(func() { broken <- c.watch(stop, &looks) })
			working.Go(func() { c.write(stop, &book) })
			took := map[string][]time.Duration{}
			for range testkit.Scale() {
				for _, harm := range []string{"killed", "stopped", "cut off"} {
					took[harm] = append(took[harm], c.failOver(harm))
				}
				c.reshard()
			}
			close(stop)
			working.Wait()
			c.agree()
			behind := c.settle(&book)
			if err := <-broken; err != nil {
				t.Error(err)
			}
			votes := 0
			for _, n := range c.nodes {
				given := map[string]string{}
				for _, m := range granted.FindAllStringSubmatch(n.Log(), -1) {
					if before := given[m[2]]; before != "" && before != m[1] {
						t.Errorf("%s has voted in epoch %s for %s and for %s", n.Addr, m[2], before, m[1])
					}
					given[m[2]] = m[1]
					votes++
				}
			}
			if votes == 0 || looks.Load() == 0 || len(book.safe) == 0 {
				t.Errorf("%d votes, %d looks at claims, %d writes: nothing was tried", votes, looks.Load(), book.accepted.Load())
			}
			for harm, times := range took {
				slices.Sort(times)
				t.Logf("%s, %s: %d failovers; until a write is accepted: median %v, longest %v", name, harm, len(times),
					times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
			}
			t.Logf("%s: %d votes, %d looks at claims, %d writes accepted beside; %d of %d keys lost the last one, which no "+
				"replica had", name, votes, looks.Load(), book.accepted.Load(), behind, len(book.last))
		})
	}
}

// epochOf returns the configuration epoch of the node id, according to n.
func epochOf(n *testkit.Server, id string) string {
	for line := range strings.SplitSeq(n.Do("CLUSTER", "NODES").Text, "\n") {
		if words := strings.Fields(line); len(words) > 6 && words[0] == id {
			return words[6]
		}
	}
	return ""
}

// failOver makes a primary fail in the way that harm names, until its replica has taken over. It returns the time from
// the failure to the first write that the replica accepted.
func (c *gated) failOver(harm string) time.Duration {
	t := c.t
	var primaries []int
	for i, n := range c.nodes {
		if role(n) == nil {
			primaries = append(primaries, i)
		}
	}
	at := primaries[rand.IntN(len(primaries))]
	victim := c.nodes[at]
	var heir *testkit.Server
	for _, n := range c.nodes {
		if n.Info("replication")["master_port"] == strconv.Itoa(victim.Port) {
			heir = n
		}
	}
	if heir == nil {
		t.Fatalf("%s has no replica", victim.Addr)
	}
	// If two primaries have the same epoch, one of them takes a higher epoch. Its replica gets no vote until it knows
	// that epoch.
	testkit.Until(t, testkit.Slowly(patience), "the replica knows the epoch of "+victim.Addr, func() error {
		id := victim.Do("CLUSTER", "MYID").Text
		return testkit.Equal(epochOf(heir, id), epochOf(victim, id))
	})
	key := keyOf(t, victim)
	client := heir.Dial()
	defer client.Close()
	began := time.Now()
	switch harm {
	case "killed":
		victim.Kill()
	case "stopped":
		victim.Signal(syscall.SIGSTOP)
	case "cut off":
		c.cut.Store(int64(at))
	}
	testkit.Until(t, testkit.Slowly(patience), harm+": the replica takes a write", func() error {
		v, err := client.Do("SET", key, "new")
		return errors.Join(err, v.Err())
	})
	took := time.Since(began)
	switch harm {
	case "killed":
		victim.Restart()
	case "stopped":
		victim.Signal(syscall.SIGCONT)
	case "cut off":
		testkit.Until(t, testkit.Slowly(patience), "the node that is cut off takes no more writes", func() error {
			v, err := victim.Ask("SET", key, "old")
			if err == nil && !strings.HasPrefix(v.Text, "CLUSTERDOWN") {
				err = fmt.Errorf("SET: %v", v)
			}
			return err
		})
		c.cut.Store(-1)
	}
	testkit.Until(t, testkit.Slowly(patience), harm+": it comes back as a replica", func() error {
		return is(victim, "role", "slave")
	})
	synced(t, victim)
	if v := victim.Do("READONLY"); v.Err() != nil {
		t.Error(v)
	}
	testkit.Until(t, testkit.Slowly(patience), "the write is everywhere", func() error {
		v, err := victim.Ask("GET", key)
		return errors.Join(err, testkit.Equal(v.Text, "new"))
	})
	for _, n := range c.nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster", func() error {
			return well(n, len(c.nodes))
		})
	}
	return took
}

// TestStoppedNodeIsFailed: nodes of either kind mark a node as failed if its process stands still for several timeouts,
// by SIGSTOP or DEBUG SLEEP.
func TestStoppedNodeIsFailed(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*testkit.Server){
		"SIGSTOP": func(n *testkit.Server) { n.Signal(syscall.SIGSTOP) },
		"SLEEP": func(n *testkit.Server) {
			client := n.Dial()
			t.Cleanup(func() { _ = client.Close() })
			go func() { _, _ = client.Do("DEBUG", "SLEEP", 5*nodeTimeoutMs/1000) }()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := []*testkit.Server{node(t, false), node(t, false), node(t, true)}
			create(t, nodes, 0)
			stop(nodes[0])
			for _, n := range nodes[1:] {
				testkit.Until(t, testkit.Slowly(patience), "it is called failed", func() error {
					if line := lineOf(n, nodes[0]); !strings.Contains(line, ",fail ") && !strings.Contains(line, "master,fail") {
						return errors.New(line)
					}
					return nil
				})
			}
			if name == "SIGSTOP" {
				nodes[0].Signal(syscall.SIGCONT)
			}
			for _, n := range nodes {
				testkit.Until(t, testkit.Slowly(patience), "it is well again", func() error { return well(n, 3) })
			}
		})
	}
}
