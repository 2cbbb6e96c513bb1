package client

import (
	"maps"
	"testing"
)

// TestCopiesInPieces: clients come and leave while a copy is made. A complete copy has every client that was connected
// all the time, and it never changes. No call copies more clients than it may.
func TestCopiesInPieces(t *testing.T) {
	r, k := NewRegistry(), NewCopies()
	add := func(n int) {
		for range n {
			r.Add(&Client{ID: r.NextID(), Conn: &socket{}, DB: 7})
		}
	}
	count := func(cl *Client) (channels, patterns, shards int) { return int(cl.ID), 2, 3 }
	add(3 * leastCopied)
	r.Add(&Client{ID: r.NextID()}) // a Fake is not copied
	empty := k.Complete
	rounds, counted := 0, 0
	for k.Complete == empty {
		before := counted
		k.Renew(r, func(cl *Client) (channels, patterns, shards int) { counted++; return count(cl) })
		if counted-before > leastCopied {
			t.Fatalf("a call has copied %d clients", counted-before)
		}
		if rounds++; rounds == 1 {
			r.Remove(r.Get(1))
			r.Remove(r.Get(300))
			add(10)
		}
	}
	first := k.Complete
	if first.Get(1) == nil || first.Get(300) != nil || first.Len() != 3*leastCopied+9 || rounds != 4 {
		t.Errorf("%d clients after %d calls; the first: %v, one that left early: %v", first.Len(), rounds, first.Get(1),
			first.Get(300))
	}
	cl := first.Get(2)
	if channels, patterns, shards := first.Subscriptions(cl); cl == r.Get(2) || cl.DB != 7 || channels != 2 ||
		patterns != 2 || shards != 3 {
		t.Errorf("%+v has %d, %d and %d subscriptions", cl, channels, patterns, shards)
	}
	was := maps.Clone(first.byID)
	r.Get(2).DB = 8
	for k.Complete == first {
		k.Renew(r, count)
	}
	if !maps.Equal(was, first.byID) || cl.DB != 7 || k.Complete.Get(2).DB != 8 || k.Complete.Get(1) != nil {
		t.Error("a complete copy has changed, or the next one is old")
	}
}
