package engine

import (
	"testing"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/internal/slots"
	"spindle/protocol"
)

// These are the slots of the keys below.
const (
	slotOfFoo   = 12182
	slotOfBar   = 5061
	slotOfHello = 866
)

// newNode returns a core in cluster mode, and a function that publishes another slot map. The node owns foo and hello,
// another node owns bar, and no node has the other slots.
func newNode(t *testing.T, more ...command.Spec) (h *testCore,
	publish func(change func(d *slots.Draft, me, other *slots.Node))) {
	h = newTestCoreOf(t, keyspace.Options{Databases: 1, Slots: true}, more...)
	current := &slots.Current{}
	h.RouteBy(current, func() int { return 0 })
	publish = func(change func(d *slots.Draft, me, other *slots.Node)) {
		me, other := &slots.Node{ID: "me", IP: "10.0.0.1", Port: 7001},
			&slots.Node{ID: "other", IP: "10.0.0.2", Port: 7002, TLSPort: 7102, Hostname: "other.example"}
		d := slots.NewDraft(me)
		d.Assign(slotOfFoo, me)
		d.Assign(slotOfHello, me)
		d.Assign(slotOfBar, other)
		if change != nil {
			change(d, me, other)
		}
		current.Store(d.Done())
	}
	publish(nil)
	return h, publish
}

const (
	movedBar  = "-MOVED 5061 10.0.0.2:7002\r\n"
	cross     = "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
	tryAgain  = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
	notServed = "-CLUSTERDOWN Hash slot not served\r\n"
	isDown    = "-CLUSTERDOWN The cluster is down\r\n"
)

// TestRouting: a node's reply depends on where the keys of a call belong.
func TestRouting(t *testing.T) {
	h, publish := newNode(t)
	cl, _ := h.arrive()
	h.expect("own", h.do(cl, "SET foo 1", "GET foo", "PING", "MSET {foo}a 1 {foo}b 2"),
		"+OK\r\n$1\r\n1\r\n+PONG\r\n+OK\r\n")
	h.expect("others'", h.do(cl, "SET bar 1", "GET bar", "MGET foo bar", "GET a", "MGET bar bar"),
		movedBar+movedBar+cross+notServed+movedBar)
	h.expect("MULTI", h.do(cl, "MULTI", "GET bar", "EXEC"),
		"+OK\r\n"+movedBar+"-EXECABORT Transaction discarded because of previous errors.\r\n")
	h.expect("EXEC of several slots", h.do(cl, "MULTI", "GET foo", "GET hello", "EXEC", "GET foo", "EXEC"),
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n"+cross+"$1\r\n1\r\n-ERR EXEC without MULTI\r\n")

	publish(func(d *slots.Draft, _, _ *slots.Node) { d.Map().Endpoints = slots.EndpointHostname })
	h.expect("host name", h.do(cl, "GET bar"), "-MOVED 5061 other.example:7002\r\n")
	publish(func(d *slots.Draft, _, _ *slots.Node) { d.Map().Endpoints = slots.EndpointUnknown })
	h.expect("unknown endpoint", h.do(cl, "GET bar"), "-MOVED 5061 :7002\r\n")

	publish(func(d *slots.Draft, _, _ *slots.Node) { d.Map().OK = false })
	h.expect("down", h.do(cl, "GET foo", "PING"), isDown+"+PONG\r\n")
	publish(func(d *slots.Draft, _, _ *slots.Node) { d.Map().OK, d.Map().AllowReadsWhenDown = false, true })
	h.expect("down, reads allowed", h.do(cl, "GET foo", "SET foo 2"),
		"$1\r\n1\r\n-CLUSTERDOWN The cluster is down and only accepts read commands\r\n")
}

// TestRoutingOfOpenSlots: while a slot moves, its keys are served where they are.
func TestRoutingOfOpenSlots(t *testing.T) {
	h, publish := newNode(t)
	cl, _ := h.arrive()
	h.expect("before", h.do(cl, "SET foo 1"), "+OK\r\n")
	publish(func(d *slots.Draft, _, other *slots.Node) { d.Map().Migrating[slotOfFoo] = other })
	h.expect("migrating", h.do(cl, "GET foo", "GET {foo}x", "MGET foo {foo}x", "MGET {foo}x {foo}y"),
		"$1\r\n1\r\n-ASK 12182 10.0.0.2:7002\r\n"+tryAgain+"-ASK 12182 10.0.0.2:7002\r\n")
	publish(func(d *slots.Draft, _, other *slots.Node) { d.Map().Importing[slotOfBar] = other })
	h.expect("importing", h.do(cl, "GET bar", "ASKING", "SET bar 1", "GET bar", "ASKING", "GET bar", "ASKING",
		"MGET bar {bar}x", "ASKING", "MGET {bar}x {bar}x"),
		movedBar+"+OK\r\n+OK\r\n"+movedBar+"+OK\r\n$1\r\n1\r\n+OK\r\n"+tryAgain+"+OK\r\n*2\r\n$-1\r\n$-1\r\n")
	h.expect("ASKING holds for a transaction", h.do(cl, "ASKING", "MULTI", "GET bar", "EXEC", "GET bar"),
		"+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n$1\r\n1\r\n"+movedBar)
}

// TestScriptsKeepTheMapThatAdmittedThem: if a slot moves away before a script's first call, the script may still use
// it.
func TestScriptsKeepTheMapThatAdmittedThem(t *testing.T) {
	var publish func(change func(d *slots.Draft, me, other *slots.Node))
	fake := &client.Client{Flags: client.Fake | client.InScript, Authenticated: true, Protocol: 2}
	h, publish := newNode(t, command.Spec{Name: "late", Arity: 2, Flags: command.Write,
		Keys: command.FirstArg(command.KeyRW), Run: func(c *command.Context) error {
			publish(func(d *slots.Draft, _, other *slots.Node) { d.Assign(slotOfFoo, other) })
			fake.Script, fake.Out = &client.Script{Slot: client.NoSlot}, c.Reply
			return c.Core.Run(fake, [][]byte{[]byte("SET"), c.Args[1], []byte("1")})
		}})
	cl, _ := h.arrive()
	h.expect("a script's call", h.do(cl, "LATE foo"), "+OK\r\n")
	h.expect("the next command", h.do(cl, "GET foo"), "-MOVED 12182 10.0.0.2:7002\r\n")
}

// TestRoutingAtReplica: READONLY lets a replica serve reads of its primary's slots.
func TestRoutingAtReplica(t *testing.T) {
	h, publish := newNode(t)
	cl, _ := h.arrive()
	publish(func(d *slots.Draft, _, other *slots.Node) { d.Map().Replica, d.Map().Primary = true, other })
	h.expect("replica", h.do(cl, "GET bar", "READONLY", "GET bar", "SET bar 1", "READWRITE", "GET bar"),
		movedBar+"+OK\r\n$-1\r\n"+movedBar+"+OK\r\n"+movedBar)
	h.Do(func() { h.space.Hide([]uint16{slotOfBar}, true) }) // the primary owns it, and the stream still brings its keys
	h.expect("a slot that arrives", h.do(cl, "READONLY", "GET bar", "MULTI", "GET bar"),
		"+OK\r\n"+movedBar+"+OK\r\n"+movedBar)
	h.Do(func() { h.space.Hide([]uint16{slotOfBar}, false) })
	h.expect("a slot that has arrived", h.do(cl, "DISCARD", "GET bar", "MULTI", "GET bar"),
		"+OK\r\n$-1\r\n+OK\r\n+QUEUED\r\n")
	h.Do(func() { h.space.Hide([]uint16{slotOfBar}, true) })
	h.expect("EXEC in a slot that arrives", h.do(cl, "EXEC"), movedBar)
}

// TestRerouteOfBlocked: a client that waits for a key gets a redirection when the key's slot has moved away. A client
// that waits for another key does not.
func TestRerouteOfBlocked(t *testing.T) {
	h, publish := newNode(t)
	a, onA := h.arrive()
	b, onB := h.arrive()
	h.do(a, "PARK foo")
	h.do(b, "PARK hello")
	publish(func(d *slots.Draft, _, other *slots.Node) { d.Assign(slotOfFoo, other) })
	h.Do(h.Reroute)
	h.expect("gone", onA.take(), "post -MOVED 12182 10.0.0.2:7002\r\n; resume")
	h.expect("still here", onB.take(), "")
	publish(func(d *slots.Draft, _, _ *slots.Node) { d.Map().OK = false })
	h.Do(h.Reroute)
	h.expect("down", onB.take(), "post "+isDown+"; resume")
}

// TestDropSlot: the keys of a slot are deleted, and replicas get each deletion. Keys of other slots stay.
func TestDropSlot(t *testing.T) {
	h, _ := newNode(t)
	cl, _ := h.arrive()
	for i := range 40 {
		h.do(cl, "SET {foo}"+string(rune('A'+i))+" 1")
	}
	h.do(cl, "SET hello 1")
	h.sink.take()
	for more := true; more; {
		h.Do(func() { more = h.DropSlot(slotOfFoo, 0) })
	}
	if n := h.keys(); n != 1 {
		t.Errorf("%d keys are left", n)
	}
	dels := 0
	for _, word := range []byte(h.sink.take()) {
		if word == '{' {
			dels++
		}
	}
	if dels != 40 {
		t.Errorf("%d deletions were told", dels)
	}
}

// TestDropSlots: slots with few keys share a turn, but no turn continues after its slice of time. Slots for which may
// returns false are left out.
func TestDropSlots(t *testing.T) {
	h, _ := newNode(t)
	cl, _ := h.arrive()
	h.do(cl, "SET foo 1", "SET hello 1")
	list := []uint16{slotOfFoo}
	for range 20 {
		list = append(list, slotOfHello)
	}
	turns := map[int64]int{} // slots that were asked for, by the moment at which their turn began
	h.DropSlots(list, func(slot uint16) bool {
		turns[h.nanos]++
		h.pass(dropSlice / 5)
		return slot == slotOfFoo
	})
	if len(turns) < 4 {
		t.Errorf("%d slots had %d turns: %v", len(list), len(turns), turns)
	}
	if n := h.keys(); n != 1 {
		t.Errorf("%d keys are left", n)
	}
}

// TestRequestsThatRunSoon: a request that waits for a latch, or for the log's disk, runs even if its client has closed
// its direction meanwhile. A request that another pause holds back does not, because the pause may last.
func TestRequestsThatRunSoon(t *testing.T) {
	h := newTestCore(t)
	soon := func() bool {
		cl, _ := h.arrive()
		b := &protocol.Batch{Session: cl, Reply: &protocol.Reply{}, Requests: []protocol.Request{
			{Args: [][]byte{[]byte("SET"), []byte("k"), []byte("v")}}}}
		if h.Serve(b); b.Done != 0 {
			t.Errorf("the request was not held: %q", text(b.Reply))
		}
		return b.Soon
	}
	var release func()
	h.Do(func() { release = h.Latch([][]byte{[]byte("k")}) })
	if !soon() {
		t.Error("a latch")
	}
	h.Do(func() { release() })
	h.Do(func() { h.PauseFor(PauseLog, false, 60_000) })
	if !soon() {
		t.Error("the log's disk")
	}
	h.Do(func() { h.PauseFor(PauseByClient, true, 60_000) })
	if soon() {
		t.Error("a pause")
	}
}

// TestLatch: only a client that names a key with a latch waits until the latch is released.
func TestLatch(t *testing.T) {
	h := newTestCore(t)
	a, onA := h.arrive()
	b, _ := h.arrive()
	c, onC := h.arrive()
	d, onD := h.arrive()
	var release func()
	h.do(d, "PARK other k")
	h.Do(func() { release = h.Latch([][]byte{[]byte("k")}) })
	if done, _ := h.batch(a, "SET k 1"); done != 0 {
		t.Error("a command that names the key was run")
	}
	h.expect("another", h.do(b, "SET free 1", "GET free"), "+OK\r\n$1\r\n1\r\n")
	if done, _ := h.batch(c, "MULTI", "SET free 2", "GET k", "EXEC"); done != 3 {
		t.Errorf("%d of a transaction that names the key were run", done)
	}
	h.expect("makes other ready", h.do(b, "SIGNAL other"), "+OK\r\n")
	h.expect("whose command names k", onD.take(), "")
	if !a.Is(client.Blocked) || !c.Is(client.Blocked) || b.Is(client.Blocked) {
		t.Error("others wait than should")
	}
	h.Do(release)
	h.expect("asks again", onA.take()+onC.take(), "resumeresume")
	h.expect("is served", onD.take(), "post $5\r\nother\r\n; resume")
	h.expect("runs", h.do(a, "SET k 1"), "+OK\r\n")
}

// TestLatchSlots: only commands that name a key of the slots wait, until all latches of these slots are released. Then
// the present map decides about them.
func TestLatchSlots(t *testing.T) {
	h, publish := newNode(t)
	a, onA := h.arrive()
	b, _ := h.arrive()
	var first, second func()
	h.Do(func() {
		first = h.LatchSlots([]uint16{slotOfFoo, slotOfBar})
		second = h.LatchSlots([]uint16{slotOfFoo})
	})
	if done, _ := h.batch(a, "SET foo 1"); done != 0 {
		t.Error("a command that names a key of the slot was run")
	}
	h.expect("another slot", h.do(b, "SET hello 1", "GET hello"), "+OK\r\n$1\r\n1\r\n")
	for _, flush := range []string{"FLUSHALL", "FLUSHDB ASYNC"} {
		c, _ := h.arrive()
		if done, _ := h.batch(c, flush); done != 0 {
			t.Errorf("%s has removed the keys of the slots", flush)
		}
	}
	publish(func(d *slots.Draft, _, _ *slots.Node) { d.Map().OK = false })
	c, _ := h.arrive()
	h.expect("the cluster is down", h.do(c, "FLUSHALL"), "+OK\r\n")
	publish(func(*slots.Draft, *slots.Node, *slots.Node) {})
	h.Do(first)
	h.expect("asks again", onA.take(), "resume")
	if done, _ := h.batch(a, "SET foo 1"); done != 0 {
		t.Error("the second call does not hold the slot")
	}
	publish(func(d *slots.Draft, _, other *slots.Node) { d.Assign(slotOfFoo, other) })
	h.Do(second)
	h.expect("asks again", onA.take(), "resume")
	h.expect("goes by the new map", h.do(a, "SET foo 1"), "-MOVED 12182 10.0.0.2:7002\r\n")
}

// TestLatchInAPause: while a pause holds writes back, a key with a latch may be read, because MIGRATE waits for the end
// of the pause. A key of a held slot may not: the slot's next owner may serve it already.
func TestLatchInAPause(t *testing.T) {
	for _, purpose := range []PausePurpose{PauseByClient, PauseLog} {
		h, publish := newNode(t)
		a, onA := h.arrive()
		b, onB := h.arrive()
		h.do(a, "SET foo 1", "SET hello 1")
		var key, slot func()
		h.Do(func() {
			key, slot = h.Latch([][]byte{[]byte("hello")}), h.LatchSlots([]uint16{slotOfFoo})
			h.PauseFor(purpose, false, 60_000)
		})
		h.expect("a key on its way", h.do(a, "GET hello"), "$1\r\n1\r\n")
		if done, said := h.batch(a, "GET foo"); done != 0 {
			t.Errorf("a key of the slot was read: %q", said)
		}
		if done, said := h.batch(b, "MULTI", "GET foo", "EXEC"); done != 2 {
			t.Errorf("a key of the slot was read in EXEC: %q", said)
		}
		publish(func(d *slots.Draft, _, other *slots.Node) { d.Assign(slotOfFoo, other) })
		h.Do(slot)
		h.expect("asks again", onA.take()+onB.take(), "resumeresume")
		h.expect("goes by the new map", h.do(a, "GET foo"), "-MOVED 12182 10.0.0.2:7002\r\n")
		h.Do(key)
	}
}

// TestImportingClient: a client that sends keys of hidden slots may name no other keys. Its errors are reported, and it
// is exempt from the map of slots.
func TestImportingClient(t *testing.T) {
	h, _ := newNode(t)
	cl, _ := h.arrive()
	cl.Flags |= client.Importing
	h.Do(func() { h.space.Hide([]uint16{slotOfBar}, true) })
	h.expect("a key of the slot", h.do(cl, "SET bar 1"), "+OK\r\n")
	h.expect("a key of this node", h.do(cl, "SET foo 1"), "-ERR A key is in a slot that does not move here\r\n")
	other, _ := h.arrive()
	h.expect("another client", h.do(other, "GET bar"), "-MOVED 5061 10.0.0.2:7002\r\n")
	h.Do(func() {
		if !h.Importing() || h.space.DB(0).Len() != 0 {
			t.Errorf("%d keys are shown", h.space.DB(0).Len())
		}
		for h.DropSlot(slotOfBar, 0) {
		}
		if n := h.space.StoredInSlot(slotOfBar); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}
