package slots

import "sync/atomic"

// A Node is one node of the cluster as clients see it. It is immutable.
type Node struct {
	ID       string // 40 hex digits
	IP       string // "" while unknown
	Hostname string // "" without cluster-announce-hostname
	Port     int    // for clients without TLS; 0: none
	TLSPort  int    // for clients with TLS; 0: none
	Primary  string // of a replica: its primary's ID; "" for a primary
	Failed   bool   // FAIL by majority
}

// An EndpointType is a value of cluster-preferred-endpoint-type: how a redirection names a node.
type EndpointType int

const (
	EndpointIP EndpointType = iota
	EndpointHostname
	EndpointUnknown
)

// A Map states which node serves which slot, and whether this node may serve at all. It is immutable: every change
// makes a new Map.
//
// slots.M1. A slot has at most one owner, and an owner is a primary.
type Map struct {
	Me      *Node
	Primary *Node // Me's primary; nil if Me is a primary, or its primary is unknown
	Replica bool  // Me is a replica

	OK     bool   // cluster_state:ok
	Reason string // why it is not OK, for the log; "" if OK

	AllowReadsWhenDown bool // cluster-allow-reads-when-down
	AllowShardWhenDown bool // cluster-allow-pubsubshard-when-down
	Endpoints          EndpointType

	// Migrating has the slots that move from Me to another node. Importing has the slots that move to Me.
	Migrating, Importing map[uint16]*Node

	owners [Count]uint16 // index in nodes; 0: no owner
	nodes  []*Node       // nodes[0] is nil
}

// Owner returns the primary that serves a slot, or nil if there is none.
func (m *Map) Owner(slot uint16) *Node { return m.nodes[m.owners[slot]] }

// Mine reports whether Me is the primary that owns slot.
func (m *Map) Mine(slot uint16) bool { return m.Owner(slot) == m.Me }

// Shard reports whether slot belongs to Me, or to Me's primary.
func (m *Map) Shard(slot uint16) bool {
	o := m.Owner(slot)
	return o != nil && (o == m.Me || o == m.Primary)
}

// Host returns a node's name in redirections: its IP address, its host name ("?" if it has none), or "" for the address
// that the client already uses.
func (m *Map) Host(n *Node) string {
	switch m.Endpoints {
	case EndpointHostname:
		if n.Hostname == "" {
			return "?"
		}
		return n.Hostname
	case EndpointUnknown:
		return ""
	default:
		return n.IP
	}
}

// ClientPort returns a node's port for clients with or without TLS, or 0 if it has none.
func (n *Node) ClientPort(tls bool) int {
	if tls {
		return n.TLSPort
	}
	return n.Port
}

// A Draft is a Map under construction.
type Draft struct {
	m     Map
	index map[*Node]uint16
	last  uint16 // the last owner in Assign
}

// NewDraft begins a Map without owners.
func NewDraft(me *Node) *Draft {
	return &Draft{
		m:     Map{Me: me, OK: true, nodes: []*Node{nil}, Migrating: map[uint16]*Node{}, Importing: map[uint16]*Node{}},
		index: map[*Node]uint16{nil: 0},
	}
}

// Map returns the draft's Map, which the caller fills before Done.
func (d *Draft) Map() *Map { return &d.m }

// Assign gives slot to owner. Nodes are compared by their pointers: each node of a Map has one.
func (d *Draft) Assign(slot uint16, owner *Node) {
	if owner == nil || d.m.nodes[d.last] != owner { // slots come in ranges
		i, known := d.index[owner]
		if !known {
			i = uint16(len(d.m.nodes))
			d.index[owner] = i
			d.m.nodes = append(d.m.nodes, owner)
		}
		d.last = i
	}
	d.m.owners[slot] = d.last
}

// Done ends the draft. The Map must not be changed afterwards.
func (d *Draft) Done() *Map {
	m := d.m
	d.index = nil
	return &m
}

// A Current holds the current Map. The zero value has none, as outside cluster mode.
type Current struct{ p atomic.Pointer[Map] }

// Load returns the current Map, or nil before the first. Any goroutine. A decision should load it only once.
func (c *Current) Load() *Map { return c.p.Load() }

// Store publishes m.
func (c *Current) Store(m *Map) { c.p.Store(m) }
