package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/part"
	"spindle/protocol"
)

func (h *testCore) parkAll(n int, line string) (clients []*client.Client, conns []*fakeConn) {
	h.t.Helper()
	for range n {
		cl, conn := h.arrive()
		if answer := h.do(cl, line); answer != "" || !cl.Is(client.Blocked) {
			h.t.Fatalf("%s: %q, flags %b", line, answer, cl.Flags)
		}
		clients, conns = append(clients, cl), append(conns, conn)
	}
	return clients, conns
}

// TestFirstComeFirstServed (engine.W2): the waiting client is served before the next command of the client that made
// the key ready.
func TestFirstComeFirstServed(t *testing.T) {
	h := newTestCore(t)
	_, conns := h.parkAll(3, "PARK k k other")
	cl, _ := h.arrive()
	h.sink.take()
	h.expect("one key", h.do(cl, "SIGNAL k", "EXISTS k"), "+OK\r\n:0\r\n")
	h.expect("effects", h.sink.take(), "0:SIGNAL k | 0:DEL k | .")
	h.expect("first", conns[0].take(), "post $1\r\nk\r\n; resume")
	h.expect("second", conns[1].take()+conns[2].take(), "")
	h.expect("two more", h.do(cl, "SIGNAL other", "SIGNAL k", "SIGNAL k"), "+OK\r\n+OK\r\n+OK\r\n")
	h.expect("second", conns[1].take(), "post $5\r\nother\r\n; resume")
	h.expect("third", conns[2].take(), "post $1\r\nk\r\n; resume")
	nobody := [value.Module + 1]int{}
	if h.BlockedClients() != 0 || h.BlockingKeys() != 0 || h.TimedWaits() != 0 ||
		h.waiting.byType != nobody || !h.has("k") {
		t.Errorf("%d clients, %d keys, %d timed waits, by type %v",
			h.BlockedClients(), h.BlockingKeys(), h.TimedWaits(), h.waiting.byType)
	}
}

// TestServedMayBeSlow: a blocked command whose work takes long is in the slow log, without its waiting time. The
// command that made the key ready is not.
func TestServedMayBeSlow(t *testing.T) {
	const long = 30 * time.Millisecond
	var h *testCore
	h = newTestCore(t, command.Spec{Name: "await", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
		c.Core.Block(c, command.Wait{Keys: c.Args[1:], DeadlineMs: c.Now + 10_000,
			Timeout: func(c *command.Context) { c.Reply.NullArray() },
			Retry: func(c *command.Context) error {
				h.pass(long)
				c.Reply.OK()
				return nil
			}})
		return nil
	}})
	h.settings.SlowlogSlowerThan.Set(long.Microseconds() - 1000)
	h.parkAll(1, "AWAIT k")
	h.parkAll(1, "PARK other")
	cl, _ := h.arrive()
	h.pass(long)
	h.do(cl, "SIGNAL other")
	h.expect("slow", strings.Join(h.slow, " "), "")
	h.do(cl, "SIGNAL k")
	h.expect("slow", strings.Join(h.slow, " "), "AWAIT")
	if s := h.catalogue.Lookup([]byte("await")).Stats; s.Calls != 1 || s.Nanos != uint64(long) {
		t.Errorf("AWAIT was called %d times and took %v", s.Calls, time.Duration(s.Nanos))
	}
}

// TestWaitsAreBookedOnce: a command that waits is counted, and shown in the slow log, when its wait ends for any
// reason. It is not counted if the client leaves.
func TestWaitsAreBookedOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(h *testCore, cl *client.Client)
		want uint64 // calls
	}{
		{"served", func(h *testCore, _ *client.Client) {
			other, _ := h.arrive()
			h.do(other, "SIGNAL k")
		}, 1},
		{"timed out", func(h *testCore, cl *client.Client) {
			h.Do(func() { h.Unblock(cl, false) })
		}, 1},
		{"unblocked", func(h *testCore, cl *client.Client) {
			h.Do(func() { h.Unblock(cl, true) })
		}, 1},
		{"gone", func(h *testCore, cl *client.Client) { h.Closed(cl) }, 0},
	} {
		h := newTestCore(t)
		h.settings.SlowlogSlowerThan.Set(0)
		clients, _ := h.parkAll(1, "PARK k")
		stats := &h.catalogue.Lookup([]byte("park")).Stats
		if stats.Calls != 0 || stats.Nanos != 0 || h.Figures().Commands != 0 || len(h.slow) != 0 {
			t.Errorf("%s: while it waits: %+v, %d commands, slow %v", c.name, stats, h.Figures().Commands, h.slow)
		}
		c.end(h, clients[0])
		slow := 0
		for _, name := range h.slow {
			if name == "PARK" {
				slow++
			}
		}
		if stats.Calls != c.want || uint64(slow) != c.want || stats.Nanos > uint64(5*time.Second) {
			took := time.Duration(stats.Nanos)
			t.Errorf("%s: %d calls in %v, %d times slow, want %d", c.name, stats.Calls, took, slow, c.want)
		}
	}
	h := newTestCore(t)
	cl, _ := h.arrive()
	h.do(cl, "PARK k")
	h.Do(func() { h.Unblock(cl, false) })
	if done, _ := h.batch(cl, "SIGNAL k", "PARK k", "PARK k", "PARK k", "PING"); done != 3 {
		t.Fatalf("%d done", done)
	}
	if s := h.catalogue.Lookup([]byte("park")).Stats; s.Calls != 2 {
		t.Errorf("%d calls, after one that waited and one that did not", s.Calls)
	}
}

// TestQueueContinuesWhenTheNextLeaves: engine.W2 also holds when serving one client closes the next one.
func TestQueueContinuesWhenTheNextLeaves(t *testing.T) {
	var h *testCore
	var doomed *client.Client
	// OUST key closes doomed when key exists.
	h = newTestCore(t, command.Spec{Name: "oust", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
		c.Core.Block(c, command.Wait{Keys: c.Args[1:], DeadlineMs: c.Now + 10_000,
			Timeout: func(c *command.Context) { c.Reply.NullArray() },
			Retry: func(c *command.Context) error {
				h.Expel(doomed, false)
				c.Reply.OK()
				return nil
			}})
		return nil
	}})
	_, first := h.parkAll(1, "OUST k")
	clients, next := h.parkAll(2, "PARK k")
	doomed = clients[0]
	cl, _ := h.arrive()
	h.do(cl, "SIGNAL k")
	h.expect("first", first[0].take(), "post +OK\r\n; resume")
	h.expect("second", next[0].take(), "close")
	h.expect("third", next[1].take(), "post $1\r\nk\r\n; resume")
	if h.BlockedClients() != 0 || h.BlockingKeys() != 0 {
		t.Errorf("%d clients, %d keys", h.BlockedClients(), h.BlockingKeys())
	}
}

// TestTransactionsServeBlockedClientsAfterwards: blocked clients are served after a transaction, not between its
// commands.
func TestTransactionsServeBlockedClientsAfterwards(t *testing.T) {
	h := newTestCore(t)
	_, conns := h.parkAll(1, "PARK k")
	cl, _ := h.arrive()
	h.sink.take()
	h.expect("EXEC", h.do(cl, "MULTI", "SIGNAL k", "EXISTS k", "PARK nokey", "EXEC"),
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n:1\r\n*-1\r\n")
	h.expect("who waited", conns[0].take(), "post $1\r\nk\r\n; resume")
	h.expect("effects", h.sink.take(), "0:SIGNAL k | 0:DEL k | .")
}

func TestWaitsEnd(t *testing.T) {
	h := newTestCore(t)
	clients, conns := h.parkAll(3, "PARK k")
	if done, _ := h.batch(clients[0], "PING"); done != 0 {
		t.Error("a parked client's next request was served")
	}
	h.waiting.timeouts[0].wait.DeadlineMs = 1
	h.dutySlice()
	h.expect("time is up", conns[0].take(), "post *-1\r\n; resume")
	h.Do(func() {
		if !h.Unblock(clients[1], true) || h.Unblock(clients[0], true) {
			t.Error("Unblock")
		}
	})
	h.expect("UNBLOCK", conns[1].take(), "post -UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n; resume")
	h.Closed(clients[2])
	if h.BlockedClients() != 0 || h.BlockingKeys() != 0 || h.TimedWaits() != 0 {
		t.Errorf("%d clients, %d keys, %d timed waits", h.BlockedClients(), h.BlockingKeys(), h.TimedWaits())
	}
	h.expect("goes on", h.do(clients[0], "PING"), "+PONG\r\n")
}

// TestTheBusyAreNotShownAsBlocked: a client whose command works outside the turn waits. It is neither counted nor shown
// as blocked.
func TestTheBusyAreNotShownAsBlocked(t *testing.T) {
	h := newTestCore(t, command.Spec{Name: "work", Arity: 1, Run: func(c *command.Context) error {
		c.Core.Block(c, command.Wait{Busy: true, Retry: func(c *command.Context) error {
			c.Reply.Simple("DONE")
			return nil
		}})
		return nil
	}})
	clients, conns := h.parkAll(2, "WORK")
	waiting, _ := h.parkAll(1, "PARK k")
	other, _ := h.arrive()
	flags := func(cl *client.Client) string {
		_, after, _ := strings.Cut(h.do(other, fmt.Sprint("CLIENT LIST ID ", cl.ID)), " flags=")
		letters, _, _ := strings.Cut(after, " ")
		return letters
	}
	if done, _ := h.batch(clients[0], "PING"); done != 0 {
		t.Error("its next request was served")
	}
	h.expect("flags of the busy", flags(clients[0]), "N")
	h.expect("flags of who waits", flags(waiting[0]), "b")
	if n := h.BlockedClients(); n != 1 {
		t.Errorf("%d blocked clients", n)
	}
	h.Do(func() { h.Wake(clients[0]) })
	h.expect("the end of the work", conns[0].take(), "post +DONE\r\n; resume")
	h.expect("the next", h.do(clients[0], "PING"), "+PONG\r\n")
	h.Closed(clients[1])
	if n := h.BlockedClients(); n != 1 || clients[0].Is(client.Busy) {
		t.Errorf("%d blocked clients", n)
	}
}

// TestTheKilledGetNothing: a client that is about to be closed does not take an element. A later client in the line
// gets it.
func TestTheKilledGetNothing(t *testing.T) {
	h := newTestCore(t)
	clients, conns := h.parkAll(2, "PARK k")
	cl, _ := h.arrive()
	h.do(cl, fmt.Sprint("CLIENT KILL ID ", clients[0].ID), "SIGNAL k")
	h.expect("the killed", conns[0].take(), "close")
	h.expect("the next", conns[1].take(), "post $1\r\nk\r\n; resume")
}

// TestSilentWaits: CLIENT REPLY SKIP applies to the command that waits, not to the commands after it.
func TestSilentWaits(t *testing.T) {
	h := newTestCore(t)
	cl, conn := h.arrive()
	h.do(cl, "CLIENT REPLY SKIP", "PARK k")
	other, _ := h.arrive()
	h.do(other, "SIGNAL k")
	h.expect("skipped", conn.take(), "resume")
	h.expect("the next", h.do(cl, "PING"), "+PONG\r\n")
}

// TestAnsweredWithinTheCommand: a reply to a client that the running handler has parked does not change the batch's
// reply.
func TestAnsweredWithinTheCommand(t *testing.T) {
	var h *testCore
	h = newTestCore(t, command.Spec{Name: "hasty", Arity: 1, Run: func(c *command.Context) error {
		c.Core.Block(c, command.Wait{})
		h.Answer(c.Client, func(c *command.Context) { c.Reply.Simple("LATER") })
		return nil
	}})
	cl, conn := h.arrive()
	h.expect("the batch", h.do(cl, "PING", "HASTY", "PING"), "+PONG\r\n+PONG\r\n")
	h.expect("posted", conn.take(), "post +LATER\r\n; resume")
}

// TestParkedArguments: an empty argument still exists when the command tries again, and no lent bytes are kept.
func TestParkedArguments(t *testing.T) {
	h := newTestCore(t, command.Spec{Name: "patient", Arity: 2, Run: func(c *command.Context) error {
		c.Args[1] = c.Args[1][:0]
		c.Core.Block(c, command.Wait{Keys: [][]byte{[]byte("k")}, Retry: func(c *command.Context) error {
			if c.Args[1] == nil {
				c.Reply.Simple("MISSING")
			} else {
				c.Reply.Simple("EMPTY")
			}
			return nil
		}})
		return nil
	}})
	clients, conns := h.parkAll(1, "PATIENT x")
	if keys := h.waiting.byClient[clients[0]].wait.Keys; keys != nil {
		t.Errorf("the wait keeps %q", keys)
	}
	cl, _ := h.arrive()
	h.do(cl, "SIGNAL k")
	h.expect("served", conns[0].take(), "post +EMPTY\r\n; resume")
}

// TestLineModel compares a line of waiting clients with a slice.
func TestLineModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	var l line
	var model []*stand
	for step := range 2000 {
		if rng.IntN(100) < 52 || len(model) == 0 {
			s := &stand{}
			l.add(s)
			model = append(model, s)
		} else {
			i := rng.IntN(len(model))
			l.remove(model[i])
			model = slices.Delete(model, i, i+1)
		}
		var forth, back []*stand
		for s := l.first; s != nil; s = s.next {
			forth = append(forth, s)
		}
		for s := l.last; s != nil; s = s.prev {
			back = append(back, s)
		}
		slices.Reverse(back)
		if !slices.Equal(forth, model) || !slices.Equal(back, model) {
			t.Fatalf("seed %d, step %d: %d forth, %d back, want %d", seed, step, len(forth), len(back), len(model))
		}
	}
}

// TestManyWaitForOneKey: leaving a line costs the same, however long the line is.
func TestManyWaitForOneKey(t *testing.T) {
	h := newTestCore(t)
	clients, _ := h.parkAll(5000, "PARK k")
	if n := testing.AllocsPerRun(1, func() {
		h.take()
		for _, cl := range clients[2000:] {
			h.unpark(cl)
		}
		h.release()
	}); n > 10 {
		t.Errorf("%v allocations to take 3000 clients out of a line", n)
	}
	if h.BlockedClients() != 2000 {
		t.Errorf("%d are left", h.BlockedClients())
	}
}

// streamRows are the commands STREAM key, which makes a stream, and GROUP key, which waits as long as the stream
// exists.
var streamRows = []command.Spec{
	{Name: "stream", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
		c.DB.PutPacked(c.Args[1], value.Stream, value.Listpack, []byte("any"), 0)
		c.Changed(1)
		c.Reply.OK()
		return nil
	}},
	{Name: "group", Arity: 2, Flags: command.Write, Run: func(c *command.Context) error {
		c.Core.Block(c, command.Wait{Keys: c.Args[1:2], Gone: true, Retry: func(c *command.Context) error {
			if c.DB.LookupWrite(c.Args[1]).Type() != value.Stream {
				c.Reply.Simple("gone")
			}
			return nil
		}})
		return nil
	}},
}

// TestBlockedReadersHearOfDeletedStreams: when a stream goes, for any reason, the clients whose wait has Gone are
// served. Their place in the line does not matter. Other clients are not served.
func TestBlockedReadersHearOfDeletedStreams(t *testing.T) {
	for _, how := range []string{"DEL s", "UNLINK s", "RENAME s t", "SET s v", "FLUSHDB", "FLUSHALL", "SWAPDB 0 1",
		"MOVE s 1", "PEXPIREAT s 1"} {
		h := newTestCore(t, streamRows...)
		_, behind := h.parkAll(1, "PARK s")
		_, parked := h.parkAll(1, "GROUP s")
		if n := h.BlockingKeysOnGone(); n != 1 {
			t.Errorf("%s: %d keys whose removal is watched", how, n)
		}
		h.Do(func() {
			h.space.DB(0).PutPacked([]byte("s"), value.Stream, value.Listpack, []byte("any"), 0)
			h.waiting.ready = h.waiting.ready[:0] // a client parked for s would take it
			clear(h.waiting.isReady)
		})
		cl, _ := h.arrive()
		h.do(cl, "PING")
		h.expect(how+": too early", parked[0].take(), "")
		h.do(cl, how)
		h.expect(how, parked[0].take(), "post +gone\r\n; resume")
		if how != "SET s v" { // a string serves PARK, too
			h.expect(how+": PARK", behind[0].take(), "")
		}
		if n := h.BlockingKeysOnGone(); n != 0 {
			t.Errorf("%s: afterwards %d keys whose removal is watched", how, n)
		}
		if h.space.Blocking != h.BlockingKeys() {
			t.Errorf("%s: the keyspace believes in %d keys that are waited for, of %d", how, h.space.Blocking, h.BlockingKeys())
		}
	}
}

// TestSwappedDatabasesServeBlockedClients: a value that arrives by SWAPDB, RENAME or COPY serves clients like a new
// one.
func TestSwappedDatabasesServeBlockedClients(t *testing.T) {
	for _, how := range []string{"SWAPDB 0 1", "RENAME t s", "COPY t s", "STREAM s"} {
		h := newTestCore(t, streamRows...)
		h.Do(func() {
			h.space.DB(0).PutPacked([]byte("t"), value.List, value.Listpack, listpack.Close(listpack.Begin(nil), 0, 0), 0)
			h.space.DB(1).PutPacked([]byte("s"), value.List, value.Listpack, listpack.Close(listpack.Begin(nil), 0, 0), 0)
		})
		_, parked := h.parkAll(1, "PARK s")
		cl, _ := h.arrive()
		h.do(cl, how)
		h.expect(how, parked[0].take(), "post $1\r\ns\r\n; resume")
		if h.space.Blocking != 0 {
			t.Errorf("%s: clients still wait for %d keys", how, h.space.Blocking)
		}
	}
}

// TestBarriersAskWhenServed: what refuses writes also refuses the command of a blocked client, when its key is ready or
// when it tries again by itself.
func TestBarriersAskWhenServed(t *testing.T) {
	refuses := &part.Barrier{Name: "test", Refuse: func(_ *client.Client, call part.Call) error {
		if call.Flags&command.Write == 0 || call.Spec.Name == "signal" {
			return nil
		}
		return protocol.Errorf("ERR", "no writes")
	}}
	h := newTestCore(t, command.Spec{Name: "claim", Arity: 1, Flags: command.Write, Run: func(c *command.Context) error {
		c.Core.Block(c, command.Wait{
			Again: func(c *command.Context) int64 { return c.Now + 5 },
			Retry: func(c *command.Context) error { c.Reply.OK(); return nil }})
		return nil
	}})
	h.Do(func() { h.Core.addBarrier(refuses) })
	cl, _ := h.arrive()
	_, parked := h.parkAll(1, "PARK k")
	_, claims := h.parkAll(1, "CLAIM")
	h.Raise(refuses, true)
	h.do(cl, "SIGNAL k")
	h.pass(10 * time.Millisecond)
	h.dutySlice()
	h.expect("the key's client", parked[0].take(), "post -ERR no writes\r\n; resume")
	h.expect("the other client", claims[0].take(), "post -ERR no writes\r\n; resume")
	h.expect("the key", h.do(cl, "EXISTS k"), ":1\r\n")
}

// TestBarrierHoldsWhenServed: a barrier holds the command of a blocked client during a pause. The end of the pause
// serves the client, although no key is ready again.
func TestBarrierHoldsWhenServed(t *testing.T) {
	holds := &part.Barrier{Name: "test", Refuse: func(_ *client.Client, call part.Call) error {
		if call.Spec.Name != "park" {
			return nil
		}
		return command.ErrHold
	}}
	h := newTestCore(t)
	h.Do(func() { h.Core.addBarrier(holds) })
	cl, _ := h.arrive()
	_, parked := h.parkAll(1, "PARK k")
	h.Raise(holds, true)
	h.do(cl, "MULTI", "SIGNAL k", "CLIENT PAUSE 100000 WRITE", "EXEC")
	h.expect("during the pause", parked[0].take(), "")
	h.Raise(holds, false)
	h.do(cl, "CLIENT UNPAUSE")
	h.expect("after the pause", parked[0].take(), "post $1\r\nk\r\n; resume")
}
