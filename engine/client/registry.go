package client

// Registry is every client by id and in order of arrival. Owner: the core.
type Registry struct {
	byID map[int64]*Client
	list []*Client // arrival order; holes are nil until compacted
	gone int
	last int64
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{byID: map[int64]*Client{}} }

// NextID is the id for the next client: 1, 2, … never used twice.
func (r *Registry) NextID() int64 { r.last++; return r.last }

// Add enters c under c.ID.
func (r *Registry) Add(c *Client) {
	r.byID[c.ID] = c
	r.list = append(r.list, c)
}

// Remove forgets c.
func (r *Registry) Remove(c *Client) {
	if _, ok := r.byID[c.ID]; !ok {
		return
	}
	delete(r.byID, c.ID)
	r.gone++
	if r.gone > 64 && r.gone > len(r.list)/2 {
		kept := r.list[:0]
		for _, x := range r.list {
			if x != nil && r.byID[x.ID] == x {
				kept = append(kept, x)
			}
		}
		clear(r.list[len(kept):])
		r.list, r.gone = kept, 0
	}
}

// Get finds a client by id; nil if there is none.
func (r *Registry) Get(id int64) *Client { return r.byID[id] }

// Len counts the clients.
func (r *Registry) Len() int { return len(r.byID) }

// All yields the clients in order of arrival. The registry may change while it runs.
func (r *Registry) All(yield func(*Client) bool) {
	for i := 0; i < len(r.list); i++ {
		if c := r.list[i]; c != nil && r.byID[c.ID] == c && !yield(c) {
			return
		}
	}
}

// From yields the clients whose id is at least from, in order of arrival.
func (r *Registry) From(from int64) func(yield func(*Client) bool) {
	return func(yield func(*Client) bool) {
		for i := 0; i < len(r.list); i++ {
			if c := r.list[i]; c != nil && c.ID >= from && r.byID[c.ID] == c && !yield(c) {
				return
			}
		}
	}
}
