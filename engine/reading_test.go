package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// slowRead returns the command READ word, which reads outside the turn. It replies all keys with their values in one
// string, in the order of the keys, once the test allows it. READ wrong fails.
func slowRead(gate chan struct{}) command.Spec {
	return command.Spec{Name: "read", Arity: 2, Flags: command.ReadOnly, Run: func(c *command.Context) error {
		all := c.DB.Present()
		read := func(r *command.Reading) error {
			var pairs []string
			for v := range all {
				r.Step()
				pairs = append(pairs, describe(v))
			}
			if slices.Sort(pairs); string(r.Args[1]) == "wrong" {
				r.Reply.BulkString("half of a reply")
				return protocol.Errorf("ERR", "wrong")
			}
			r.Reply.BulkString(strings.Join(pairs, " "))
			return nil
		}
		if !c.Core.CanReadBeside(c) {
			return read(c.Inline())
		}
		return c.ReadBeside(func(r *command.Reading) error {
			<-gate
			r.Steps(1 << 20) // as a long one does
			return read(r)
		})
	}}
}

func describe(v value.Value) string { return fmt.Sprintf("%s=%s", v.Key(), v.AppendTo(nil)) }

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// unread returns the number of long reads that have not ended, and the number of open views.
func (h *testCore) unread() (jobs, views int) {
	defer h.hold()()
	f := h.reads.Figures()
	return f.Started + f.Waiting, f.Views
}

// idle waits until all long reads have ended. Then no view is open.
func (h *testCore) idle() {
	h.t.Helper()
	eventually(h.t, "the end of all long reads", func() bool { n, _ := h.unread(); return n == 0 })
	h.Do(func() { h.space.Heap().Drain(1000) })
	defer h.hold()()
	if h.space.Heap().Holding() {
		h.t.Error("a view is left")
	}
}

// said waits for the reply of a long read.
func (h *testCore) said(f *fakeConn) (reply string) {
	h.t.Helper()
	eventually(h.t, "a reply", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.log) > 0 && f.log[len(f.log)-1] == "resume"
	})
	return f.take()
}

// silent reports whether the core has done nothing with the connection since the last take.
func (f *fakeConn) silent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log) == 0
}

// TestReadBeside: a long read replies with the data of the moment of its command, whatever is written later. The
// client's next requests wait. Other clients do not.
func TestReadBeside(t *testing.T) {
	gate := make(chan struct{})
	h := newTestCore(t, slowRead(gate))
	reader, conn := h.arrive()
	writer, _ := h.arrive()
	h.do(writer, "SET a 1", "SET b 2")
	if done, answer := h.turn(reader, "PING", "READ all", "GET a"); done != 2 || answer != "+PONG\r\n" {
		t.Fatalf("%d requests were done, and answered %q", done, answer)
	}
	if h.BlockedClients() != 0 {
		t.Error("the client counts as one that waits")
	}
	h.expect("others", h.do(writer, "SET a 3", "DEL b", "SET c 4", "GET a"), "+OK\r\n:1\r\n+OK\r\n$1\r\n3\r\n")
	gate <- struct{}{}
	h.expect("the reply", h.said(conn), "post "+bulk("a=1 b=2")+"; resume")
	h.expect("afterwards", h.do(reader, "GET a"), "$1\r\n3\r\n")

	h.turn(reader, "READ wrong")
	gate <- struct{}{}
	h.expect("an error", h.said(conn), "post -ERR wrong\r\n; resume")
	h.expect("in a transaction", h.do(reader, "MULTI", "READ all", "EXEC"), "+OK\r\n+QUEUED\r\n*1\r\n"+bulk("a=3 c=4"))

	h.do(reader, "CLIENT REPLY SKIP")
	h.turn(reader, "READ all")
	gate <- struct{}{}
	h.expect("after SKIP", h.said(conn), "resume")
	h.expect("the next reply", h.do(reader, "PING"), "+PONG\r\n")
	stats := h.catalogue.Lookup([]byte("read")).Stats
	if stats.Calls != 4 {
		t.Errorf("%d calls are booked, want 4", stats.Calls)
	}
	h.idle()
}

// TestPushesAfterALongRead: a push to the client during its long read comes after the reply.
func TestPushesAfterALongRead(t *testing.T) {
	gate := make(chan struct{})
	h := newTestCore(t, slowRead(gate))
	reader, conn := h.arrive()
	h.turn(reader, "READ all")
	h.Do(func() {
		h.Push(reader, []byte(">1\r\n+one\r\n"))
		h.PushEach([]*client.Client{reader, reader}, []byte(">1\r\n+two\r\n"))
	})
	gate <- struct{}{}
	h.expect("the reply", h.said(conn), "post $0\r\n\r\n>1\r\n+one\r\n>1\r\n+two\r\n>1\r\n+two\r\n; resume")
	h.idle()
}

// TestLongReadIsStopped: when a client leaves or is killed, its long read ends, whether it has started or not.
func TestLongReadIsStopped(t *testing.T) {
	gate := make(chan struct{})
	h := newTestCore(t, slowRead(gate))
	const clients = 20 // more than are started at once
	var readers []*client.Client
	for range clients {
		cl, _ := h.arrive()
		h.turn(cl, "READ all")
		readers = append(readers, cl)
	}
	jobs, views := h.unread()
	if jobs != clients || views != 1 {
		t.Errorf("%d long reads share %d views, want %d and 1", jobs, views, clients)
	}
	other, _ := h.arrive()
	h.do(other, "SET k v")
	last, conn := h.arrive()
	h.turn(last, "READ all")
	if _, views := h.unread(); views != 2 {
		t.Errorf("after a write there are %d views, want 2", views)
	}
	for i, cl := range readers {
		if i%2 == 0 {
			h.do(other, fmt.Sprintf("CLIENT KILL ID %d", cl.ID))
		} else {
			h.Closed(cl)
		}
	}
	close(gate)
	h.expect("the last one", h.said(conn), "post "+bulk("k=v")+"; resume")
	h.idle()
	defer h.hold()()
	if f := h.reads.Figures(); f.Total != clients+1 || f.Stopped != clients {
		t.Errorf("%d long reads, %d of them stopped; want %d and %d", f.Total, f.Stopped, clients+1, clients)
	}
}

// TestLongReadsModel starts long reads at random moments among random writes, and ends them in any order. Each must
// reply with what a map held at that moment.
func TestLongReadsModel(t *testing.T) {
	for seed := range uint64(8) {
		modelLongReads(t, seed)
	}
}

func modelLongReads(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	gate := make(chan struct{})
	h := newTestCore(t, slowRead(gate))
	writer, _ := h.arrive()
	model := [2]map[string]string{{}, {}}
	type open struct {
		conn *fakeConn
		want string
	}
	var reading []open
	for range 3000 {
		key := fmt.Sprintf("key:%d", rng.IntN(400))
		switch n := rng.IntN(100); {
		case n < 60:
			val := strings.Repeat(fmt.Sprint(rng.IntN(1000)), 1+rng.IntN(30))
			h.do(writer, "SET "+key+" "+val)
			model[0][key] = val
		case n < 80:
			h.do(writer, "DEL "+key)
			delete(model[0], key)
		case n < 84:
			h.do(writer, "SWAPDB 0 1")
			model[0], model[1] = model[1], model[0]
		case n < 85:
			h.do(writer, "FLUSHALL ASYNC")
			model = [2]map[string]string{{}, {}}
		case n < 95 && len(reading) < 30:
			cl, conn := h.arrive()
			var pairs []string
			for _, k := range slices.Sorted(maps.Keys(model[0])) {
				pairs = append(pairs, k+"="+model[0][k])
			}
			slices.Sort(pairs)
			h.turn(cl, "READ all")
			reading = append(reading, open{conn, "post " + bulk(strings.Join(pairs, " ")) + "; resume"})
		default:
			select {
			case gate <- struct{}{}: // some long read continues
			default:
			}
			runtime.Gosched()
		}
		reading = slices.DeleteFunc(reading, func(o open) bool {
			if o.conn.silent() {
				return false
			}
			if said := h.said(o.conn); said != o.want {
				t.Fatalf("seed %d: a long read answered\n%s\nwant\n%s", seed, said, o.want)
			}
			return true
		})
	}
	close(gate)
	for _, o := range reading {
		if said := h.said(o.conn); said != o.want {
			t.Fatalf("seed %d: a long read answered\n%s\nwant\n%s", seed, said, o.want)
		}
	}
	h.idle()
}

// TestHaltStopsLongReads: Halt ends a long read.
func TestHaltStopsLongReads(t *testing.T) {
	gate := make(chan struct{})
	h := newTestCore(t, slowRead(gate))
	cl, conn := h.arrive()
	h.turn(cl, "READ all")
	h.Do(h.Halt)
	close(gate)
	h.idle()
	h.expect("the client's connection", conn.take(), "close")
}

// TestMemoryOfALongRead: the memory that a long read collects before it replies counts as its client's. Past
// maxmemory-clients the client is evicted, and the read ends.
func TestMemoryOfALongRead(t *testing.T) {
	h := newTestCore(t, command.Spec{Name: "collect", Arity: 1, Flags: command.ReadOnly,
		Run: func(c *command.Context) error {
			return c.ReadBeside(func(r *command.Reading) error {
				for r.Hold(10 << 20); ; {
					r.Steps(1 << 20) // until the client is gone
				}
			})
		}})
	h.Do(func() { h.clients.Costs.SetLimit(1 << 20) })
	cl, conn := h.arrive()
	h.turn(cl, "COLLECT")
	eventually(t, "the client is evicted", func() bool {
		h.Do(func() {})
		return !conn.silent()
	})
	h.idle()
	h.expect("the client's connection", conn.take(), "close")
}
