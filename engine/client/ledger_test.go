package client

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"

	"spindle/protocol"
)

// A socket is a connection whose buffers cost what the test sets.
type socket struct {
	protocol.Conn
	usage protocol.Usage
}

func (s *socket) Usage() protocol.Usage { return s.usage }

// check checks client.C1..client.C3 against the clients of r.
func (l *Ledger) check(t *testing.T, r *Registry) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := map[standing]int64{}
	reserved, evictees := int64(0), 0
	for c := range r.All {
		a := &c.account
		sums[a.standing] += a.buffers + a.own
		reserved += a.reserved
		if a.standing == evictee {
			evictees++
		}
	}
	if l.sum.Load() != sums[spared]+sums[evictee] || l.fed.Load() != sums[feeds] || l.primary.Load() != sums[follows] ||
		l.reserved.Load() != reserved {
		t.Fatalf("client.C1: %d, %d, %d and %d; want %v and %d", l.sum.Load(), l.fed.Load(), l.primary.Load(),
			l.reserved.Load(), sums, reserved)
	}
	for i := range l.classes {
		k := &l.classes[i]
		n, bytes := 0, int64(0)
		for c := k.first; c != nil; c = c.account.neighbor {
			a := &c.account
			if int(a.class) != i || bits.Len64(uint64(a.buffers+a.own)) != i || a.standing != evictee {
				t.Fatalf("client.C2: client %d of %d bytes, standing %d, in class %d", c.ID, a.buffers+a.own, a.standing, i)
			}
			if a.neighbor == nil && k.last != c || a.neighbor != nil && a.neighbor.account.previous != c {
				t.Fatalf("client.C2: class %d is torn at client %d", i, c.ID)
			}
			n, bytes = n+1, bytes+a.buffers+a.own
		}
		if n != k.count || bytes != k.bytes || (n > 0) != (l.occupied>>i&1 == 1) {
			t.Fatalf("client.C3: class %d has %d of %d bytes, says %d of %d, occupied %b",
				i, n, bytes, k.count, k.bytes, l.occupied)
		}
		evictees -= n
	}
	if evictees != 0 {
		t.Fatalf("client.C2: %d are in no class", evictees)
	}
}

// TestLedgerModel compares the sums and classes with the clients themselves after random steps.
func TestLedgerModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	r := NewRegistry()
	var all []*Client
	roles := []Flags{0, 0, 0, NoEvict, Replica, Replica | Monitor, Primary}
	for step := range 20_000 {
		switch op := rng.IntN(8); {
		case op == 0 || len(all) == 0:
			c := &Client{ID: r.NextID(), Flags: roles[rng.IntN(len(roles))]}
			if rng.IntN(8) != 0 {
				c.Conn = &socket{usage: protocol.Usage{Total: rng.IntN(1 << 20)}}
			}
			r.Add(c)
			all = append(all, c)
		case op == 1 && rng.IntN(2) == 0:
			i := rng.IntN(len(all))
			r.Remove(all[i])
			all[i].Account(1<<30, 0) // its loop does not know yet
			all[i].Note()
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
		case op < 5:
			n := rng.IntN(1 << rng.IntN(31))
			all[rng.IntN(len(all))].Account(n, rng.IntN(n+1))
		default:
			c := all[rng.IntN(len(all))]
			c.Flags, c.FamilyBytes = roles[rng.IntN(len(roles))], rng.IntN(1<<rng.IntN(20))
			c.Queue = []*Queue{nil, {Bytes: rng.IntN(1 << 20)}}[rng.IntN(2)]
			c.Note()
		}
		if step%53 == 0 {
			r.Costs.check(t, r)
		}
	}
}

// TestLedgerEvicts: the costliest clients are evicted first, until the rest is below the limit. Clients that may not be
// evicted count, and stay.
func TestLedgerEvicts(t *testing.T) {
	r := NewRegistry()
	woken := 0
	r.Costs.OnPressure(func() { woken++ })
	add := func(flags Flags, bytes int) *Client {
		c := &Client{ID: r.NextID(), Flags: flags, Conn: &socket{usage: protocol.Usage{Total: bytes}}}
		r.Add(c)
		return c
	}
	add(NoEvict, 1<<20)
	add(Replica, 64<<20)
	small, large, middle := add(0, 100_000), add(0, 3<<20), add(0, 1<<20)
	if woken != 0 || r.Costs.Pressed() {
		t.Fatal("pressed without a limit")
	}
	r.Costs.SetLimit(3 << 20)
	if woken != 1 || !r.Costs.Pressed() {
		t.Fatalf("woken %d times by a limit below the sum", woken)
	}
	add(0, 10).Account(20, 0)
	if woken != 1 {
		t.Fatal("woken again before the first call was heard")
	}
	if c, _ := r.Costs.Costliest(); c != large {
		t.Fatalf("client %d is the costliest", c.ID)
	}
	r.Remove(large)
	if c, stuck := r.Costs.Costliest(); c != nil || stuck || r.Costs.Pressed() {
		t.Fatalf("%v, stuck %t, pressed %t, below the limit", c, stuck, r.Costs.Pressed())
	}
	middle.Account(2<<20, 0)
	if woken != 2 {
		t.Fatalf("woken %d times", woken)
	}
	r.Costs.SetLimit(1) // all clients but the spared one
	for _, want := range []*Client{middle, small} {
		c, _ := r.Costs.Costliest()
		if c != want {
			t.Fatalf("client %d is the costliest, want %d", c.ID, want.ID)
		}
		r.Remove(c)
	}
	c, _ := r.Costs.Costliest()
	r.Remove(c)
	if c, stuck := r.Costs.Costliest(); c != nil || !stuck {
		t.Fatalf("%v, stuck %t: a spared client is not evicted", c, stuck)
	}
	r.Costs.SetLimit(2)
	if woken != 2 {
		t.Errorf("woken %d times though no client can be evicted", woken)
	}
	r.Costs.check(t, r)
}

// TestLedgerOnManyLoops: loops report costs while the core enters, notes and removes clients. No report is lost, and
// the race detector finds nothing.
func TestLedgerOnManyLoops(t *testing.T) {
	r := NewRegistry()
	r.Costs.SetLimit(1)
	var wait sync.WaitGroup
	for range 500 {
		c := &Client{ID: r.NextID(), Conn: &socket{}}
		r.Add(c)
		wait.Go(func() {
			for n := range 50 {
				c.Account(1<<(n%20), n%2)
			}
		})
		c.FamilyBytes += 1000
		c.Note()
		if c.ID%3 == 0 {
			r.Remove(c)
		}
		r.Costs.Costliest()
	}
	wait.Wait()
	r.Costs.check(t, r)
}
