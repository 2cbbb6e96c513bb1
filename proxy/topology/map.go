package topology

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// None is the index of the shard of a slot that no shard serves.
const None = 0xffff

// A Map says which shard serves each slot.
type Map struct {
	Version uint64
	Shards  []*Shard

	owners []uint16 // the index in Shards of each slot's shard, or None
}

// Slots returns the number of slots.
func (m *Map) Slots() int { return len(m.owners) }

// Owner returns the index of a slot's shard, or -1 if no shard serves the slot.
func (m *Map) Owner(slot int) int {
	if i := m.owners[slot]; i != None {
		return int(i)
	}
	return -1
}

// Shard returns the shard of a slot, or nil if no shard serves the slot.
func (m *Map) Shard(slot int) *Shard {
	if i := m.owners[slot]; i != None {
		return m.Shards[i]
	}
	return nil
}

// Owners returns the index of each slot's shard, or None. The caller must not change the slice.
func (m *Map) Owners() []uint16 { return m.owners }

// Uncovered returns the number of slots that no shard serves.
func (m *Map) Uncovered() (n int) {
	for _, i := range m.owners {
		if i == None {
			n++
		}
	}
	return n
}

// Find returns the shard that has the server at addr, or nil if there is none.
func (m *Map) Find(addr string) *Shard {
	for _, s := range m.Shards {
		if s.Primary == addr || s.replica(addr) != nil {
			return s
		}
	}
	return nil
}

// A Shard is a primary with its replicas. It does not change, except for its replicas' lag.
type Shard struct {
	ID       string // of the node that was the primary when the shard was first seen, or its address, or its name
	Primary  string // host:port
	Failed   bool   // the cluster or the Sentinels regard the primary as down
	Replicas []*Replica

	nodes []string // the IDs of its present and former nodes, if they have IDs; the primary's is first
}

func (s *Shard) replica(addr string) *Replica {
	for _, r := range s.Replicas {
		if r.Addr == addr {
			return r
		}
	}
	return nil
}

// equal reports whether two shards look the same to a reader of the Map.
func (s *Shard) equal(o *Shard) bool {
	return s.ID == o.ID && s.Primary == o.Primary && s.Failed == o.Failed &&
		slices.EqualFunc(s.Replicas, o.Replicas, func(a, b *Replica) bool { return a.Addr == b.Addr })
}

// A Replica is one replica of a shard. Successive Maps share it.
type Replica struct {
	Addr string

	lag atomic.Int64 // nanoseconds plus one; 0 means unknown
}

// Lag returns an upper bound of the age of the replica's data. known is false if its link is down, or if its lag is not
// measured.
func (r *Replica) Lag() (lag time.Duration, known bool) {
	n := r.lag.Load()
	return time.Duration(n - 1), n > 0
}

func (r *Replica) setLag(lag time.Duration, known bool) {
	n := int64(0)
	if known {
		n = max(int64(lag), 0) + 1
	}
	if r.lag.Load() != n {
		r.lag.Store(n)
	}
}

// A keeper holds the current Map and reports changes.
type keeper struct {
	current atomic.Pointer[Map]

	mu        sync.Mutex // serializes changes and calls of both kinds of listeners
	early     []func(*Map)
	listeners []func(*Map)
	ready     chan struct{} // closed with the first Map
	closed    bool
}

// newKeeper begins with a Map without shards, of version 0.
func newKeeper(slots int) *keeper {
	k := &keeper{ready: make(chan struct{})}
	k.current.Store(&Map{owners: emptySlots(slots)})
	return k
}

// Current returns the newest Map. It has no shards until the first reply has come. Current does not block.
func (k *keeper) Current() *Map { return k.current.Load() }

// Ready returns a channel that is closed when the first Map with shards exists.
func (k *keeper) Ready() <-chan struct{} { return k.ready }

// OnChange calls f with the current Map, and with each later one. The goroutine that changed the Map calls f. f must be
// short and must not call the Finder.
func (k *keeper) OnChange(f func(*Map)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners = append(k.listeners, f)
	f(k.current.Load())
}

// BeforeChange calls f with the current Map, and with each later one before it is the current one. So no goroutine uses
// a Map that f does not know. f must be short and must not call the Finder.
func (k *keeper) BeforeChange(f func(*Map)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.early = append(k.early, f)
	f(k.current.Load())
}

func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
}

// publish makes m the current Map, unless k is closed. The caller holds mu.
func (k *keeper) publish(m *Map) {
	if k.closed {
		return
	}
	for _, f := range k.early {
		f(m)
	}
	before := k.current.Swap(m)
	for _, f := range k.listeners {
		f(m)
	}
	if before.Version == 0 {
		close(k.ready)
	}
}
