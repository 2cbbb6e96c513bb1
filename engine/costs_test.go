package engine

import (
	"slices"
	"testing"

	"spindle/engine/client"
)

// evicting makes h record the ids of evicted clients, and how often no client could be evicted.
func (h *testCore) evicting() (evicted *[]int64, stuck *int) {
	evicted, stuck = new([]int64), new(int)
	h.hooks.EvictingClient = func(cl *client.Client) { *evicted = append(*evicted, cl.ID) }
	h.hooks.Stuck = func() { *stuck++ }
	return evicted, stuck
}

// limit runs CONFIG SET maxmemory-clients.
func (h *testCore) limit(bytes int64) {
	h.settings.ClientsMemory.Set(bytes)
	h.Do(h.ApplyClientLimit)
}

// TestClientsAreEvicted: clients are evicted after a lower limit, when buffers grow, and when a command keeps memory.
// The costliest go first, and at once.
func TestClientsAreEvicted(t *testing.T) {
	h := newTestCore(t)
	evicted, _ := h.evicting()
	asks, _ := h.arrive()
	one, first := h.arrive()
	two, second := h.arrive()
	three, third := h.arrive()
	four, fourth := h.arrive()
	one.Account(1<<20, 0)
	two.Account(3<<20, 0)
	three.Account(150_000, 0)
	h.do(four, "MULTI")
	h.do(asks, "PING")
	if len(*evicted) != 0 {
		t.Fatalf("%v are evicted without a limit", *evicted)
	}
	h.limit(2 << 20)
	h.expect("the costliest", second.take(), "close")
	h.expect("the next", first.take(), "")
	if h.knows(two) || h.connected() != 4 {
		t.Error("the evicted client is still listed")
	}
	one.Account(2<<20, 0) // its loop reports this outside the turn
	if done, answer := h.batch(one, "SET k v"); done != 0 || answer != "" {
		t.Errorf("the client to evict runs a command: %d, %q", done, answer)
	}
	h.expect("by its buffers", first.take(), "close")
	h.limit(200_000)
	h.do(four, "SET k 1")
	h.expect("below", third.take(), "")
	for n := 0; len(*evicted) == 2 && n < 5_000; n++ {
		h.do(four, "SET k 12345678901234567890")
	}
	h.expect("who costs most, not whose transaction grew", third.take()+"|"+fourth.take(), "close|")
	for n := 0; !four.Is(client.CloseASAP) && n < 5_000; n++ {
		h.do(four, "SET k 12345678901234567890")
	}
	h.expect("by its transaction", fourth.take(), "close")
	if h.Figures().EvictedClients != uint64(len(*evicted)) || len(*evicted) != 4 {
		t.Errorf("evicted_clients is %d, evicted %v", h.Figures().EvictedClients, *evicted)
	}
	for _, cl := range []*client.Client{one, two} { // their loops close them
		h.Closed(cl)
	}
	h.expect("the others live on", h.do(asks, "PING"), "+PONG\r\n")
}

// TestWatchedKeysCount: the keys of WATCH count as the client's cost until the watch ends, whichever client ends it.
func TestWatchedKeysCount(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	other, _ := h.arrive()
	h.do(cl, "PING")
	h.do(other, "PING")
	before := h.clients.Costs.Sum()
	h.do(cl, "WATCH a b "+string(slices.Repeat([]byte("c"), 1000)))
	if grown := h.clients.Costs.Sum() - before; grown < 1000 {
		t.Errorf("three watched keys cost %d bytes", grown)
	}
	h.do(other, "SET a 1") // spoils the transaction: nothing is watched any more
	h.Do(func() { h.tick(h.nanos + int64(1e9)) })
	if now := h.clients.Costs.Sum(); now != before {
		t.Errorf("%d bytes, %d before the watch", now, before)
	}
}

// TestClientsThatAreNotEvicted: a NO-EVICT client counts and stays. Replicas do not even count. When no client may be
// evicted, the log says so once.
func TestClientsThatAreNotEvicted(t *testing.T) {
	h := newTestCore(t)
	evicted, stuck := h.evicting()
	spared, first := h.arrive()
	replica, second := h.arrive()
	h.do(spared, "CLIENT NO-EVICT ON")
	h.Do(func() { replica.Flags |= client.Replica; replica.Note() })
	replica.Account(64<<20, 0)
	usual, _ := h.arrive()
	h.limit(1 << 20)
	h.do(usual, "PING")
	if len(*evicted) != 0 {
		t.Fatalf("evicted %v for a replica's buffers", *evicted)
	}
	spared.Account(2<<20, 0)
	h.Do(func() {})
	h.expect("spared", first.take(), "")
	h.expect("replica", second.take(), "")
	if !slices.Equal(*evicted, []int64{usual.ID}) || *stuck != 1 {
		t.Errorf("evicted %v, want %d alone; stuck %d times", *evicted, usual.ID, *stuck)
	}
	h.do(spared, "CLIENT NO-EVICT OFF")
	h.expect("no longer spared", first.take(), "close")
}

// TestClientLimitIsAShare: a percentage is a share of maxmemory. The limit is never so low that no client can connect.
func TestClientLimitIsAShare(t *testing.T) {
	for _, c := range []struct {
		clients int64
		memory  uint64
		cost    int
		stays   bool
	}{
		{-10, 10 << 20, 1<<20 - 100_000, true}, {-10, 10 << 20, 1 << 20, false}, {-10, 0, 1 << 30, true},
		{1, 0, 100_000, true}, {1, 0, 128 << 10, false}, {0, 1 << 20, 1 << 30, true}, {-100, 1 << 62, 1 << 40, true},
	} {
		h := newTestCore(t)
		h.settings.MaxMemory.Set(c.memory)
		cl, _ := h.arrive()
		h.limit(c.clients)
		cl.Account(c.cost, 0)
		h.Do(func() {})
		if stays := h.knows(cl); stays != c.stays {
			t.Errorf("%+v: stays %t", c, stays)
		}
	}
}

// TestReservedMemoryCountsOnce: an argument that is arriving is in the keyspace's memory. Its client's cost includes
// the part that has arrived. At no instant does the argument count as data.
func TestReservedMemoryCountsOnce(t *testing.T) {
	h := newTestCore(t)
	cl, _ := h.arrive()
	before, clients := h.UsedMemory(), h.clients.Costs.Sum()
	b, err := h.Reserve(cl, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if h.UsedMemory() != before {
		t.Errorf("used_memory grew by %d for what was announced", h.UsedMemory()-before)
	}
	cl.Account(1000, 1<<20)
	if h.UsedMemory() != before+1000 || h.clients.Costs.Sum() != clients+1000 {
		t.Errorf("used_memory grew by %d, the clients' cost by %d, for 1000 bytes",
			h.UsedMemory()-before, h.clients.Costs.Sum()-clients)
	}
	cl.Account(1<<20, 1<<20)
	if grown := h.UsedMemory() - before; grown < 1<<20 || grown > 1<<20+64<<10 {
		t.Errorf("used_memory grew by %d", grown)
	}
	if grown := h.clients.Costs.Sum() - clients; grown != 1<<20 {
		t.Errorf("the clients' cost grew by %d", grown)
	}
	b.Release(b)
	cl.Account(0, 0)
	if h.UsedMemory() != before {
		t.Errorf("used_memory is %d, was %d", h.UsedMemory(), before)
	}
}
