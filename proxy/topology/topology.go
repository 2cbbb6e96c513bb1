// Package topology knows which server has which slot.
//
// Owner: its caller; a Finder has its own goroutine.
// Never: changes a Map that it has given out.
// Start at Finder.
//
// Seam: the proxy routes by its maps.
package topology

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
)

// A Shard is a primary and its replicas. It does not change.
type Shard struct {
	ID       string   // the primary's node ID
	Primary  string   // its address; "": there is none
	Replicas []string // addresses
}

// A Map is the shards and their slots. It does not change.
type Map struct {
	Version uint64 // grows with each other map
	Shards  []*Shard
	owners  [slots.Count]int16
}

// Owner returns the index of the shard that has a slot; -1: none has.
func (m *Map) Owner(slot int) int { return int(m.owners[slot]) }

// Slots returns the number of slots.
func (m *Map) Slots() int { return len(m.owners) }

// Options say where a Finder looks.
type Options struct {
	Seeds []string      // addresses of nodes
	Every time.Duration // how often it looks unasked
}

// A Finder keeps a Map true: it asks the nodes at intervals, when it is told to, and hears of redirects.
type Finder struct {
	options Options
	mu      sync.Mutex // of changes of current
	current atomic.Pointer[Map]
	bell    chan struct{}
	end     chan struct{}
}

// New starts a Finder. It has a map already if a seed answers.
func New(o Options) *Finder {
	f := &Finder{options: o, bell: make(chan struct{}, 1), end: make(chan struct{})}
	empty := &Map{}
	for i := range empty.owners {
		empty.owners[i] = -1
	}
	f.current.Store(empty)
	f.look()
	go f.run()
	return f
}

// Current returns the map of now. Any goroutine.
func (f *Finder) Current() *Map { return f.current.Load() }

// Refresh has the nodes asked soon. Any goroutine.
func (f *Finder) Refresh() {
	select {
	case f.bell <- struct{}{}:
	default:
	}
}

// Close ends the Finder.
func (f *Finder) Close() { close(f.end) }

// Moved tells that a server has named at as the owner of a slot. Any goroutine.
func (f *Finder) Moved(slot int, at string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.current.Load()
	i := slices.IndexFunc(old.Shards, func(s *Shard) bool { return s.Primary == at })
	if i < 0 || slot >= len(old.owners) {
		f.Refresh()
		return
	}
	if int(old.owners[slot]) != i {
		m := *old
		m.owners[slot], m.Version = int16(i), old.Version+1
		f.current.Store(&m)
		f.Refresh()
	}
}

// lookPause is the least time between two looks.
const lookPause = 50 * time.Millisecond

func (f *Finder) run() {
	timer := time.NewTicker(f.options.Every)
	defer timer.Stop()
	for {
		select {
		case <-f.end:
			return
		case <-f.bell:
		case <-timer.C:
		}
		f.look()
		time.Sleep(lookPause)
	}
}

// look asks the nodes that are known, until one answers.
func (f *Finder) look() {
	addresses := slices.Clone(f.options.Seeds)
	for _, s := range f.current.Load().Shards {
		addresses = append(addresses, s.Primary)
		addresses = append(addresses, s.Replicas...)
	}
	for _, at := range addresses {
		if m, err := ask(at); err == nil {
			f.adopt(m)
			return
		}
	}
}

// adopt makes m the current map, if it differs.
func (f *Finder) adopt(m *Map) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.current.Load()
	same := slices.EqualFunc(old.Shards, m.Shards, func(a, b *Shard) bool {
		return a.ID == b.ID && a.Primary == b.Primary && slices.Equal(a.Replicas, b.Replicas)
	})
	if same && old.owners == m.owners {
		return
	}
	m.Version = old.Version + 1
	f.current.Store(m)
}

const askLimit = 2 * time.Second

// ask reads the map of one node.
func ask(at string) (*Map, error) {
	c, err := respclient.DialTimeout(at, askLimit)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetTimeout(askLimit)
	reply, err := c.Do("CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	if err := reply.Err(); err != nil {
		return nil, err
	}
	return read(reply, at)
}

// read makes a map of a reply to CLUSTER SLOTS. A node that names no host has that of at.
func read(reply respclient.Value, at string) (*Map, error) {
	m := &Map{}
	for i := range m.owners {
		m.owners[i] = -1
	}
	lowest := map[string]int64{}
	byID := map[string]*Shard{}
	for _, e := range reply.Elems {
		if len(e.Elems) < 3 || e.Elems[0].Int < 0 || e.Elems[1].Int >= slots.Count {
			return nil, fmt.Errorf("CLUSTER SLOTS has the line %v", e)
		}
		nodes := e.Elems[2:]
		id, primary, err := node(nodes[0], at)
		if err != nil {
			return nil, err
		}
		if byID[id] == nil {
			s := &Shard{ID: id, Primary: primary}
			for _, n := range nodes[1:] {
				if _, replica, err := node(n, at); err == nil {
					s.Replicas = append(s.Replicas, replica)
				}
			}
			byID[id], lowest[id] = s, e.Elems[0].Int
			m.Shards = append(m.Shards, s)
		}
		lowest[id] = min(lowest[id], e.Elems[0].Int)
	}
	slices.SortFunc(m.Shards, func(a, b *Shard) int { return cmp.Compare(lowest[a.ID], lowest[b.ID]) })
	for _, e := range reply.Elems {
		id, _, _ := node(e.Elems[2], at)
		index := slices.IndexFunc(m.Shards, func(s *Shard) bool { return s.ID == id })
		for slot := e.Elems[0].Int; slot <= e.Elems[1].Int; slot++ {
			m.owners[slot] = int16(index)
		}
	}
	return m, nil
}

// node reads a node of CLUSTER SLOTS: host, port, ID.
func node(v respclient.Value, at string) (id, address string, err error) {
	if len(v.Elems) < 3 || v.Elems[1].Int <= 0 || v.Elems[1].Int > 65535 || v.Elems[2].Text == "" {
		return "", "", fmt.Errorf("CLUSTER SLOTS has the node %v", v)
	}
	host := v.Elems[0].Text
	if host == "" || host == "?" {
		if host, _, err = net.SplitHostPort(at); err != nil {
			return "", "", err
		}
	}
	return v.Elems[2].Text, net.JoinHostPort(host, strconv.FormatInt(v.Elems[1].Int, 10)), nil
}
