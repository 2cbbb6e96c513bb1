package slotmove

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/str"
	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/internal/slots"
	"spindle/protocol"
	"spindle/tests/testkit"
)

// A conn is a connection that keeps what it is told.
type conn struct {
	mu      sync.Mutex
	posts   strings.Builder
	resumed bool
}

func (*conn) FD() int                 { return 3 }
func (*conn) LocalAddr() string       { return "127.0.0.1:6379" }
func (*conn) RemoteAddr() string      { return "127.0.0.1:4000" }
func (*conn) Unix() bool              { return false }
func (*conn) Loopback() bool          { return true }
func (*conn) LastActive() int64       { return 0 }
func (*conn) Close(bool)              {}
func (*conn) Loop() protocol.Loop     { return nil }
func (*conn) SetClass(protocol.Class) {}
func (*conn) Chunks() protocol.Chunks { return nil }
func (*conn) Usage() protocol.Usage   { return protocol.Usage{} }

func (c *conn) PostReply(uint64, *protocol.Reply) {}

func (c *conn) Post(_ uint64, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts.Write(p)
}

func (c *conn) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumed = true
}

func (c *conn) hasResumed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resumed
}

// A cluster is two nodes, "me" and "other", which owns all slots at first. Its disk is slow.
type cluster struct {
	current   slots.Current
	me, other *slots.Node
	epoch     uint64 // of other
	done      func() // a claim is decided
	kept      func() // a reclaim is decided
	saved     func() // it waits for the disk
	onDisk    bool
	left      []uint16
	leaving   bool
	here      bool           // an operator moves slots to this node by SETSLOT
	contested bool           // a replica may be elected
	atOnce    bool           // Claim decides: other has failed
	asked     func(net.Conn) // plays other; nil: it cannot be reached
}

func newCluster() *cluster {
	name := func(letter string) string { return strings.Repeat(letter, nameBytes) }
	c := &cluster{me: &slots.Node{ID: name("m")}, other: &slots.Node{ID: name("o")}}
	c.publish(nil)
	return c
}

// publish makes a map in which this node owns list.
func (c *cluster) publish(list []uint16) {
	d := slots.NewDraft(c.me)
	for slot := range uint16(slots.Count) {
		d.Assign(slot, c.other)
	}
	for _, slot := range list {
		d.Assign(slot, c.me)
	}
	c.current.Store(d.Done())
}

func (c *cluster) Me() string                              { return c.me.ID }
func (c *cluster) Shard() string                           { return cmp.Or(c.me.Primary, c.me.ID) }
func (c *cluster) Peer(string) (string, int, string, bool) { return "127.0.0.1", 1, "", true }
func (c *cluster) Manual() (away, here bool)               { return false, c.here }
func (c *cluster) Leftovers() []uint16                     { return c.left }
func (c *cluster) Leaving() bool                           { return c.leaving }
func (c *cluster) Epoch(string) uint64                     { return c.epoch }
func (c *cluster) Contested() bool                         { return c.contested }
func (c *cluster) Reclaim(_ []uint16, done func())         { c.kept = done }
func (c *cluster) Saved(done func()) bool                  { c.saved = done; return c.onDisk }

func (c *cluster) Owner(list ...uint16) string {
	m := c.current.Load()
	if slices.ContainsFunc(list, func(slot uint16) bool { return m.Owner(slot) != m.Owner(list[0]) }) {
		return ""
	}
	return m.Owner(list[0]).ID
}

func (c *cluster) Claim(list []uint16, _ string, epoch uint64, _ int64, done func()) bool {
	if epoch != c.epoch {
		return false
	}
	c.publish(list)
	c.done = done
	if c.atOnce {
		done()
	}
	return true
}
func (c *cluster) dial(context.Context, string, string) (net.Conn, error) {
	if c.asked == nil {
		return nil, io.ErrUnexpectedEOF
	}
	here, there := net.Pipe()
	go c.asked(there)
	return here, nil
}

// A node is a core with strings, a Mover and a cluster.
type node struct {
	*engine.Core
	t       testing.TB
	mover   *Mover
	cluster *cluster
	synced  func(why string) // the mover waits for the log's disk; nil: it does not
	slow    bool             // the log's disk is
	acked   []int            // numbers of replicas that the mover has waited for
	lacking bool             // replicas do not have the keys
	lacks   string           // the log's files do not hold the data set, for this reason
	patient time.Duration    // repl-timeout
	over    atomic.Bool      // ends LONG
}

func newNode(t testing.TB) *node {
	t.Helper()
	heap, err := memory.New(memory.Options{Databases: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heap.Close)
	space := keyspace.New(heap, keyspace.Options{Databases: 1, Slots: true})
	settings, common, moves := &engine.Settings{}, &command.Settings{}, &Settings{}
	settings.Rows()
	common.Rows()
	moves.Rows()
	common.MaxBulk = &setting.Int{}
	n := &node{t: t, cluster: newCluster(), patient: time.Hour}
	n.Core = engine.New(engine.Parts{Space: space, Clients: client.NewRegistry(), Settings: settings, Common: common,
		Whole: &command.Whole{}})
	n.mover = New(Parts{Core: n.Core, Space: space, Cluster: n.cluster, Settings: moves, Log: logging.New(io.Discard),
		Dial: n.cluster.dial, Source: func() string { return "" }, Login: func() (string, string) { return "", "" },
		Patience: func() time.Duration { return n.patient }, Hold: func() time.Duration { return time.Hour },
		Lacks:  func() string { return n.lacks },
		Output: func() int64 { return 0 }, Newest: func() bgsave.Version { return 0 }, Busy: func() {},
		Sync: func(done func(why string)) {
			if n.synced = done; !n.slow {
				done("")
			}
		},
		Acked: func(level int, done func(ok bool)) {
			n.acked = append(n.acked, level)
			done(!n.lacking)
		}})
	rows, err := command.NewCatalogue(str.Family, command.Family{Name: "cluster",
		Rows: []command.Spec{{Name: "cluster", Arity: -2, Subs: Subcommands(n.mover)},
			{Name: "long", Arity: 1, Run: func(ctx *command.Context) error { // lends the turn
				ctx.Core.Lend(ctx, func(*command.Context) (bool, error) { return n.over.Load(), nil })
				return nil
			}}}})
	if err != nil {
		t.Fatal(err)
	}
	n.SetCatalogue(rows)
	n.Subscribe(n.mover.Listeners())
	n.RouteBy(&n.cluster.current, func() int { return 0 })
	return n
}

// arrive returns a new client.
func (n *node) arrive() (*client.Client, *conn) {
	n.t.Helper()
	c := &conn{}
	session, refusal := n.Open(c)
	if session == nil {
		n.t.Fatalf("refused: %s", refusal)
	}
	return session.(*client.Client), c
}

// ask runs a line for a client. done: it was not held.
func (n *node) ask(cl *client.Client, line string) (reply string, done bool) {
	b := &protocol.Batch{Session: cl, Reply: &protocol.Reply{}, Requests: make([]protocol.Request, 1)}
	for _, word := range strings.Fields(line) {
		b.Requests[0].Args = append(b.Requests[0].Args, []byte(word))
	}
	n.Serve(b)
	for piece := range b.Reply.Pieces {
		reply += string(piece)
	}
	return reply, b.Done == 1
}

// TestClientsWaitForTheClaim (slotmove.T4): the target of a move has taken over. A client of the slots is held until
// the claim is decided and on disk. A client of another slot is not held.
func TestClientsWaitForTheClaim(t *testing.T) {
	for _, c := range []struct {
		name, reply, state string
		falls              bool
	}{
		{"the claim stands", "$1\r\nv\r\n", "success", false},
		{"the claim falls", "-MOVED ", "failed", true},
	} {
		t.Run(c.name, func(t *testing.T) { n := newNode(t); n.takeOver(t, c.falls, c.reply, c.state) })
	}
}

func (n *node) takeOver(t *testing.T, falls bool, want, state string) {
	source, _ := n.arrive()
	name := strings.Repeat("a", nameBytes)
	for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " + name +
		" SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK", "SET {1}key v", "CLUSTER SYNCSLOTS SNAPSHOT-EOF",
		"CLUSTER SYNCSLOTS PAUSED", "CLUSTER SYNCSLOTS FAILOVER-GRANTED"} {
		if reply, done := n.ask(source, line); !done || strings.HasPrefix(reply, "-") {
			t.Fatalf("%s: %q, done %t", line, reply, done)
		}
	}
	if n.cluster.done == nil || n.cluster.Owner(slots.Of([]byte("{1}key"))) != n.cluster.Me() {
		t.Fatal("the target has not claimed the slots")
	}
	cl, c := n.arrive()
	held := func(when string) {
		t.Helper()
		if reply, done := n.ask(cl, "GET {1}key"); done {
			t.Errorf("a client reads %q %s", reply, when)
		}
	}
	held("before the source knows of the claim")
	elsewhere, _ := n.arrive()
	if slot := slots.Of([]byte("elsewhere55")); slot <= 16000 {
		t.Fatalf("the key has slot %d", slot)
	}
	if reply, done := n.ask(elsewhere, "GET elsewhere55"); !done || !strings.HasPrefix(reply, "-MOVED ") {
		t.Errorf("another slot's client gets %q, done %t", reply, done)
	}
	if falls {
		n.cluster.publish(nil)
	}
	n.DoBetween(n.cluster.done)
	if n.cluster.saved == nil || c.hasResumed() {
		t.Fatal("the client is served before the claim is on disk")
	}
	n.cluster.onDisk = true
	n.cluster.saved()
	testkit.Await(t, time.Minute, "the client is served", c.hasResumed)
	if reply, done := n.ask(cl, "GET {1}key"); !done || !strings.HasPrefix(reply, want) {
		t.Errorf("the client reads %q, done %t", reply, done)
	}
	testkit.Await(t, time.Minute, "the move is over", func() (over bool) {
		n.Do(func() { over = n.mover.find(name).state.String() == state })
		return over
	})
	n.Do(func() {
		if keys := n.mover.parts.Space.StoredInSlot(slots.Of([]byte("{1}key"))); (keys == 0) != falls {
			t.Errorf("%d keys are here", keys)
		}
	})
}

// TestClaimOfFailedSource: the bus has marked the source as failed for a while, but its connection has brought the
// grant. So Claim decides before it returns, and the disk is fast. The move ends, and the keys are shown.
func TestClaimOfFailedSource(t *testing.T) {
	n := newNode(t)
	n.cluster.atOnce, n.cluster.onDisk = true, true
	source, _ := n.arrive()
	for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " +
		strings.Repeat("a", nameBytes) + " SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK", "SET {1}key v",
		"CLUSTER SYNCSLOTS SNAPSHOT-EOF", "CLUSTER SYNCSLOTS PAUSED", "CLUSTER SYNCSLOTS FAILOVER-GRANTED"} {
		n.ask(source, line)
	}
	n.Do(func() {
		if state := n.mover.jobs[0].state; state != success || n.mover.HandsOver() {
			t.Errorf("the move's state is %s", state)
		}
	})
	cl, _ := n.arrive()
	if reply, done := n.ask(cl, "GET {1}key"); !done || reply != "$1\r\nv\r\n" {
		t.Errorf("a client reads %q, done %t", reply, done)
	}
}

// TestLateGrant: between the target's request and the grant the source has raised its epoch, because it has given the
// move up. The target claims nothing.
func TestLateGrant(t *testing.T) {
	n := newNode(t)
	source, _ := n.arrive()
	for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " +
		strings.Repeat("a", nameBytes) + " SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK", "CLUSTER SYNCSLOTS SNAPSHOT-EOF",
		"CLUSTER SYNCSLOTS PAUSED"} {
		n.ask(source, line)
	}
	n.cluster.epoch = 16
	n.ask(source, "CLUSTER SYNCSLOTS FAILOVER-GRANTED")
	testkit.Await(t, time.Minute, "the move has failed", func() (over bool) {
		n.Do(func() { over = n.mover.jobs[0].state == failed })
		return over
	})
	if owner := n.cluster.Owner(0); owner != n.cluster.other.ID {
		t.Errorf("%s owns the slots", owner)
	}
}

// TestRefusedMoveEndsItsTask: two tasks have asked for the same slots. A refused move ends its own task, and not the
// other one. A node that is a replica by now refuses a move, too.
func TestRefusedMoveEndsItsTask(t *testing.T) {
	other := func(c *cluster) string { return c.other.ID }
	for name, c := range map[string]struct {
		replica bool
		source  func(c *cluster) string
		own     int  // the number of the task whose move comes, the latest task first
		unnamed bool // the earlier task does not know the name of its move yet
	}{
		"a foreign source":           {false, (*cluster).Me, 0, false},
		"a replica":                  {true, other, 0, false},
		"a move of the earlier task": {true, other, 1, false},
		"a nameless earlier task":    {true, other, 0, true},
		"slots of two nodes":         {false, func(c *cluster) string { c.publish([]uint16{5}); return c.other.ID }, 0, false},
	} {
		n := newNode(t)
		from := c.source(n.cluster)
		names := []string{strings.Repeat("b", nameBytes), strings.Repeat("a", nameBytes)}
		n.Do(func() {
			for _, move := range names {
				n.mover.tasks = append(n.mover.tasks, &task{ranges: ranges{{0, 9}}, source: from, move: move,
					created: n.Now() + time.Hour.Milliseconds()})
			}
			n.mover.parts.Space.Replica = c.replica
			if c.unnamed {
				n.mover.tasks[1].move = ""
			}
		})
		source, _ := n.arrive()
		reply, _ := n.ask(source, "CLUSTER SYNCSLOTS ESTABLISH SOURCE "+from+" NAME "+names[c.own]+" SLOTSRANGE 0 9")
		n.Do(func() {
			own, other := n.mover.tasks[c.own], n.mover.tasks[1-c.own]
			if !strings.HasPrefix(reply, "-") || own.state() != taskFailed || other.over() {
				t.Errorf("%s: %q; its task is %s, and the other one is %s", name, reply, own.state(), other.state())
			}
		})
	}
}

// TestCancelledImport: an import is cancelled before the owner of the slots has begun to send them. The move that the
// owner has begun for it is refused. A move that an operator begins at the owner afterwards is not.
func TestCancelledImport(t *testing.T) {
	n := newNode(t)
	const ours, operators = "a", "b" // letters of the moves' names
	n.cluster.asked = func(c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		text := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
		move := func(name, operation, slots, target string) string {
			return "*8\r\n" + text("name") + text(strings.Repeat(name, nameBytes)) + text("operation") + text(operation) +
				text("slot_ranges") + text(slots) + text("target_node") + text(target)
		}
		for _, reply := range []string{"+OK\r\n", "*4\r\n" + move("x", "IMPORT", "0-9", n.cluster.Me()) +
			move("y", "EXPORT", "0-8", n.cluster.Me()) + move("z", "EXPORT", "0-9", n.cluster.other.ID) +
			move(ours, "EXPORT", "0-9", n.cluster.Me())} {
			if _, err := readMessage(in); err != nil {
				t.Errorf("a request: %v", err)
				return
			}
			if _, err := io.WriteString(c, reply); err != nil {
				t.Errorf("a reply: %v", err)
				return
			}
		}
	}
	operator, _ := n.arrive()
	n.ask(operator, "CLUSTER MIGRATION IMPORT 0 9")
	testkit.Await(t, time.Minute, "the owner has agreed", func() (agreed bool) {
		n.Do(func() { agreed = n.mover.tasks[0].move != "" })
		return agreed
	})
	other, _ := n.arrive()
	if reply, _ := n.ask(other, "CLUSTER MIGRATION CANCEL ALL"); reply != ":1\r\n" {
		t.Fatalf("CANCEL: %q", reply)
	}
	for _, c := range []struct {
		name, want string
	}{{operators, "+OK\r\n"}, {ours, "-"}} {
		source, _ := n.arrive()
		reply, done := n.ask(source, "CLUSTER SYNCSLOTS ESTABLISH SOURCE "+n.cluster.other.ID+" NAME "+
			strings.Repeat(c.name, nameBytes)+" SLOTSRANGE 0 9")
		if !done || !strings.HasPrefix(reply, c.want) {
			t.Fatalf("the move %s gets %q, done %t", c.name, reply, done)
		}
		n.Do(func() { n.mover.end(n.mover.jobs[0], cancelled, "") })
		testkit.Await(t, time.Minute, "the move is over", func() (over bool) {
			n.Do(func() { over = n.mover.jobs[0].finished() })
			return over
		})
	}
}

// TestHandOverWaitsForTheDisk (slotmove.T5): the target asks its source to hold the clients, and then for the
// hand-over, when the log's disk has all that came before. If the disk fails, the move ends and says why.
func TestHandOverWaitsForTheDisk(t *testing.T) {
	for _, why := range []string{"", "No space left on device"} {
		t.Run(why, func(t *testing.T) {
			n := newNode(t)
			n.slow = true
			source, c := n.arrive()
			said := func(word string) bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return strings.Contains(c.posts.String(), word)
			}
			waits := func(line, word, why string) {
				t.Helper()
				n.synced = nil
				if reply, _ := n.ask(source, line); strings.Contains(reply, word) || said(word) || n.synced == nil {
					t.Fatalf("%s: %q; it waits for the disk: %t", line, reply, n.synced != nil)
				}
				n.Do(func() { n.synced(why) })
				if said(word) != (why == "") {
					t.Fatalf("the disk has said %q, and the target has said %s: %t", why, word, said(word))
				}
			}
			for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " +
				strings.Repeat("a", nameBytes) + " SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK", "SET {1}key v"} {
				n.ask(source, line)
			}
			waits("CLUSTER SYNCSLOTS SNAPSHOT-EOF", "REQUEST-PAUSE", "")
			waits("CLUSTER SYNCSLOTS PAUSED", "REQUEST-FAILOVER", why)
			if why == "" {
				return
			}
			testkit.Await(t, time.Minute, "the move has failed", func() (over bool) {
				n.Do(func() { over = n.mover.jobs[0].state == failed })
				return over
			})
			n.Do(func() {
				if message := n.mover.jobs[0].message; !strings.HasSuffix(message, why) {
					t.Errorf("the move says %q", message)
				}
			})
			if owner := n.cluster.Owner(0); owner != n.cluster.other.ID {
				t.Errorf("%s owns the slots", owner)
			}
		})
	}
}

// TestMoveIsOverBeforeTheDisk: the source leaves while the log's disk is slow. The disk's later answer changes nothing.
func TestMoveIsOverBeforeTheDisk(t *testing.T) {
	n := newNode(t)
	n.slow = true
	source, _ := n.arrive()
	for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " +
		strings.Repeat("a", nameBytes) + " SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK", "CLUSTER SYNCSLOTS SNAPSHOT-EOF"} {
		n.ask(source, line)
	}
	n.Do(func() {
		n.mover.end(n.mover.jobs[0], failed, "the source has left")
		n.synced("")
		n.synced("No space left on device")
		if j := n.mover.jobs[0]; j.message != "the source has left" {
			t.Errorf("the move says %q", j.message)
		}
	})
}

// TestPauseWaitsForAnElection (slotmove.T7): all keys have come, and a replica of the target may be elected. The target
// does not have its source hold clients before the election is over. It gives the move up if that takes too long, or if
// an election begins while clients are held.
func TestPauseWaitsForAnElection(t *testing.T) {
	for _, c := range []struct {
		name  string
		event func(n *node, source *client.Client)
		state state
		said  string // what it has asked for
	}{
		{"the election goes on", func(*node, *client.Client) {}, importWaitPaused, ""},
		{"the election is over", func(n *node, _ *client.Client) { n.cluster.contested = false }, importWaitPaused, "PAUSE"},
		{"the election takes too long", func(n *node, _ *client.Client) {
			n.mover.jobs[0].waitsMs -= n.patient.Milliseconds() + 1
		}, failed, ""},
		{"an election while clients are held", func(n *node, source *client.Client) {
			n.cluster.contested = false
			n.Do(n.mover.tick)
			n.cluster.contested = true
			n.ask(source, "CLUSTER SYNCSLOTS PAUSED")
		}, failed, "PAUSE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			n.cluster.contested = true
			source, conn := n.arrive()
			said := func() string {
				conn.mu.Lock()
				defer conn.mu.Unlock()
				_, word, _ := strings.Cut(conn.posts.String(), "REQUEST-")
				return strings.TrimSpace(word)
			}
			for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " +
				strings.Repeat("a", nameBytes) + " SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK",
				"CLUSTER SYNCSLOTS SNAPSHOT-EOF"} {
				if reply, _ := n.ask(source, line); strings.Contains(reply, "REQUEST") || said() != "" {
					t.Fatalf("the target has asked for %q in an election: %q", said(), reply)
				}
			}
			n.Do(func() { n.mover.acks = 0 }) // no ACK in the next ticks
			c.event(n, source)
			n.Do(n.mover.tick)
			n.Do(n.mover.tick)
			testkit.Await(t, time.Minute, "the move is "+c.state.String(), func() (is bool) {
				n.Do(func() { is = n.mover.jobs[0].state == c.state })
				return is
			})
			if got := said(); got != c.said {
				t.Errorf("the target has asked for %q, want %q", got, c.said)
			}
		})
	}
}

// TestHandOverWaitsForReplicas (slotmove.T6): the connection that brings the keys has a number of replicas, and so has
// the target itself. The target asks for the hand-over when as many have the keys as the greater number says. If they
// have not in time, the move ends.
func TestHandOverWaitsForReplicas(t *testing.T) {
	for _, c := range []struct {
		told, own int // by CLIENT ACK of the source; by min-replicas-to-ack of the target
		lacking   bool
	}{{2, 0, false}, {2, 0, true}, {1, 2, false}, {2, 1, false}} {
		n, lacking := newNode(t), c.lacking
		source, _ := n.arrive()
		n.Do(func() {
			n.SetCommonAcks(uint8(c.own))
			n.SetAcks(source, c.told)
		})
		for _, line := range []string{"CLUSTER SYNCSLOTS ESTABLISH SOURCE " + n.cluster.other.ID + " NAME " +
			strings.Repeat("a", nameBytes) + " SLOTSRANGE 0 16000", "CLUSTER SYNCSLOTS ACK",
			"CLUSTER SYNCSLOTS SNAPSHOT-EOF"} {
			n.ask(source, line)
		}
		n.lacking = lacking
		n.ask(source, "CLUSTER SYNCSLOTS PAUSED")
		if !slices.Equal(n.acked, []int{2, 2}) {
			t.Errorf("told %d, own %d: it waits for %v replicas", c.told, c.own, n.acked)
		}
		n.Do(func() {
			if j := n.mover.jobs[0]; (j.state == importRequested) == lacking {
				t.Errorf("lacking %t: the move's state is %s", lacking, j.state)
			}
		})
	}
}

// TestMoveWaitsForTheBase: the target's log waits for its first base. The move begins when the base is there. If it
// comes too late, the move is refused, and the task that has asked for it fails.
func TestMoveWaitsForTheBase(t *testing.T) {
	for _, late := range []bool{false, true} {
		n := newNode(t)
		n.lacks = "its first base is not written yet"
		if late {
			n.patient = time.Millisecond
		}
		all := ranges{{0, 16000}}
		n.Do(func() {
			later := n.Now() + time.Hour.Milliseconds() // the tick must not give the task up
			n.mover.tasks = []*task{{ranges: all, source: n.cluster.other.ID, created: later}}
		})
		source, c := n.arrive()
		begun := func() (begun bool) {
			n.Do(func() { begun = len(n.mover.jobs) > 0 })
			return begun
		}
		n.ask(source, "CLUSTER SYNCSLOTS ESTABLISH SOURCE "+n.cluster.other.ID+" NAME "+strings.Repeat("a", nameBytes)+
			" SLOTSRANGE 0 16000")
		if begun() {
			t.Fatal("the move has begun without a base")
		}
		if !late {
			n.Do(func() { n.lacks = "" })
		}
		testkit.Await(t, time.Minute, "the move begins, or is refused", c.hasResumed)
		if begun() == late {
			t.Errorf("late %t: the move has begun: %t", late, begun())
		}
		n.Do(func() {
			if task := n.mover.tasks[0]; (task.job == nil) != late || late && !strings.Contains(task.message, "base") {
				t.Errorf("late %t: the task is %s: %q", late, task.state(), task.message)
			}
		})
	}
}

// moveBack has a slot move straight back to a node whose replicas do not know yet that it had left. ESTABLISH waits.
// The slot has one old key. stored returns how many keys it has.
func moveBack(t *testing.T) (n *node, c *conn, slot uint16, stored func() int) {
	n, slot = newNode(t), slots.Of([]byte("old"))
	writer, _ := n.arrive()
	n.cluster.publish([]uint16{slot})
	n.ask(writer, "SET old 1")
	n.cluster.publish(nil)
	n.Do(func() { n.cluster.leaving = true })
	source, c := n.arrive()
	n.ask(source, fmt.Sprintf("CLUSTER SYNCSLOTS ESTABLISH SOURCE %s NAME %s SLOTSRANGE %d %d", n.cluster.other.ID,
		strings.Repeat("a", nameBytes), slot, slot))
	return n, c, slot, func() (stored int) {
		n.Do(func() { stored = n.mover.parts.Space.StoredInSlot(slot) })
		return stored
	}
}

// TestMoveBackWaitsForReplicas: the old keys stay until the replicas know that the slot had left.
func TestMoveBackWaitsForReplicas(t *testing.T) {
	n, c, _, stored := moveBack(t)
	for range 20 {
		if testkit.Lapse(time.Millisecond); stored() != 1 || c.hasResumed() {
			t.Fatal("the keys are removed, or the move begins, before the replicas know")
		}
	}
	n.Do(func() { n.cluster.leaving = false })
	testkit.Await(t, time.Minute, "the move begins", c.hasResumed)
	if stored() != 0 {
		t.Error("the move begins with old keys")
	}
}

// TestMoveBackSparesKeys: while ESTABLISH waits, an operator begins to bring slots back, or gives the slot to this
// node. So the slot's keys are to stay.
func TestMoveBackSparesKeys(t *testing.T) {
	for name, order := range map[string]func(c *cluster, slot uint16){
		"SETSLOT IMPORTING": func(c *cluster, _ uint16) { c.here = true },
		"SETSLOT NODE":      func(c *cluster, slot uint16) { c.publish([]uint16{slot}) },
	} {
		t.Run(name, func(t *testing.T) {
			n, c, slot, stored := moveBack(t)
			n.Do(func() {
				order(n.cluster, slot)
				n.cluster.leaving = false
			})
			testkit.Await(t, time.Minute, "ESTABLISH is asked again", c.hasResumed)
			if stored() != 1 {
				t.Error("the key is removed")
			}
		})
	}
}
