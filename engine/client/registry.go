package client

import (
	"slices"
	"sort"
	"sync/atomic"
)

// Registry holds every client by id, and in the order of the ids. Turn only (client.H1).
//
// client.G1. byID[c.ID] == c just when list[c.index] == c.
// client.G2. list ascends by id. A client that left leaves a hole, which has no id.
// client.H1. Only the holder of the turn calls methods marked "turn only". Checked builds assert it, once HeldBy has
// set the function that asserts it.
type Registry struct {
	byID   map[int64]*Client
	list   []*Client // in order of ids; holes are nil until compacted
	newest int64     // the highest id that was ever entered
	last   atomic.Int64

	Costs Ledger // of the clients that are entered here
}

// compactFrom is the length below which holes are left alone.
const compactFrom = 128

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{byID: map[int64]*Client{}} }

// HeldBy sets the function that "turn only" methods call first in checked builds. It panics unless the caller holds the
// turn. Call HeldBy before the first client.
func (r *Registry) HeldBy(assert func()) { r.Costs.held = assert }

// NextID returns the id for the next client: 1, 2, and so on. No id is used twice. Any goroutine.
func (r *Registry) NextID() int64 { return r.last.Add(1) }

// Add enters c under c.ID. Cost: O(1). If higher ids were entered before, it adds a few ns for each of them.
func (r *Registry) Add(c *Client) {
	r.Costs.assertHeld()
	if len(r.list) == cap(r.list) && len(r.list) >= compactFrom && len(r.byID) < len(r.list)/2 {
		r.compact() // instead of growing
	}
	r.byID[c.ID] = c
	c.index = len(r.list)
	if c.ID < r.newest {
		c.index = r.after(c.ID)
		for _, behind := range r.list[c.index:] {
			if behind != nil {
				behind.index++
			}
		}
	}
	r.newest = max(r.newest, c.ID)
	r.list = slices.Insert(r.list, c.index, c)
	r.Costs.enter(c)
}

// compact closes the holes. Cost: a few ns for each place. It runs once in as many arrivals.
func (r *Registry) compact() {
	present := r.list[:0]
	for _, c := range r.list {
		if c != nil {
			c.index = len(present)
			present = append(present, c)
		}
	}
	clear(r.list[len(present):])
	r.list = present
}

// Remove removes c from the registry. O(1).
func (r *Registry) Remove(c *Client) {
	r.Costs.assertHeld()
	if r.byID[c.ID] != c {
		return
	}
	delete(r.byID, c.ID)
	r.Costs.leave(c)
	r.list[c.index] = nil
}

// Get returns the client with this id, or nil.
func (r *Registry) Get(id int64) *Client { r.Costs.assertHeld(); return r.byID[id] }

// Len returns the number of clients.
func (r *Registry) Len() int { r.Costs.assertHeld(); return len(r.byID) }

// All yields the clients in order of arrival. Clients may leave while it runs; none may arrive.
func (r *Registry) All(yield func(*Client) bool) { r.from(0, yield) }

// From yields the clients whose id is at least from, in order of arrival.
func (r *Registry) From(from int64) func(yield func(*Client) bool) {
	r.Costs.assertHeld()
	at := r.after(from - 1)
	return func(yield func(*Client) bool) { r.from(at, yield) }
}

// after returns the first index in list of a client with a higher id.
func (r *Registry) after(id int64) int {
	return sort.Search(len(r.list), func(i int) bool {
		for i < len(r.list) && r.list[i] == nil { // a hole counts as the place after it
			i++
		}
		return i == len(r.list) || r.list[i].ID > id
	})
}

func (r *Registry) from(at int, yield func(*Client) bool) {
	r.Costs.assertHeld()
	for ; at < len(r.list); at++ {
		if c := r.list[at]; c != nil && !yield(c) {
			return
		}
	}
}
