package slots

import "sync/atomic"

// A Node is one node of the cluster as clients see it. It is immutable.
type Node struct {
	ID       string // 40 hex digits
	IP       string // "" while nobody knows it
	Hostname string // "" without cluster-announce-hostname
	Port     int    // for clients without TLS; 0: none
	TLSPort  int    // for clients with TLS; 0: none
	Primary  string // the ID of the primary whose replica it is; "" for a primary
	Failed   bool   // FAIL by majority
}

// An EndpointType is cluster-preferred-endpoint-type: what a redirection names a node by.
type EndpointType int

const (
	EndpointIP EndpointType = iota
	EndpointHostname
	EndpointUnknown
)

// A Map is who serves which slot, and whether this node may serve at all. It is immutable: every change makes
// another one.
//
// slots.M1. A slot has one owner at most, and an owner is a primary.
type Map struct {
	Me      *Node
	Primary *Node // whose replica Me is; nil if Me is a primary, or its primary is unknown
	Replica bool  // Me is a replica

	OK     bool   // cluster_state:ok
	Reason string // why it is not, in words for the log; "" if OK

	AllowReadsWhenDown bool // cluster-allow-reads-when-down
	AllowShardWhenDown bool // cluster-allow-pubsubshard-when-down
	Endpoints          EndpointType

	// Migrating has the slots of Me that are on their way to another node, Importing those that come to Me.
	Migrating, Importing map[uint16]*Node

	owners [Count]uint16 // index in nodes; 0 for nobody
	nodes  []*Node       // nodes[0] is nil
}

// Owner is the primary that serves a slot; nil if nobody does.
func (m *Map) Owner(slot uint16) *Node { return m.nodes[m.owners[slot]] }

// Mine says that Me is the primary that owns slot.
func (m *Map) Mine(slot uint16) bool { return m.Owner(slot) == m.Me }

// Shard says that slot belongs to Me, or to the primary whose replica Me is.
func (m *Map) Shard(slot uint16) bool {
	o := m.Owner(slot)
	return o != nil && (o == m.Me || o == m.Primary)
}

// Host is what a redirection calls a node by: its IP address, its host name ("?" if it has none), or "" for the
// address that the client uses already.
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

// ClientPort is the port of a node for a client with or without TLS; 0 if it does not listen for such.
func (n *Node) ClientPort(tls bool) int {
	if tls {
		return n.TLSPort
	}
	return n.Port
}

// A Draft is a Map that is being made.
type Draft struct {
	m     Map
	index map[*Node]uint16
	last  uint16 // whom Assign gave a slot last
}

// NewDraft begins a Map without owners.
func NewDraft(me *Node) *Draft {
	return &Draft{
		m:     Map{Me: me, OK: true, nodes: []*Node{nil}, Migrating: map[uint16]*Node{}, Importing: map[uint16]*Node{}},
		index: map[*Node]uint16{nil: 0},
	}
}

// Map is the draft's, to be filled in before Done.
func (d *Draft) Map() *Map { return &d.m }

// Assign gives slot to owner. Nodes are told apart by their pointers: each node of a Map has one.
func (d *Draft) Assign(slot uint16, owner *Node) {
	if owner == nil || d.m.nodes[d.last] != owner { // slots come in runs
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

// Done ends the draft. Nobody changes the Map from now on.
func (d *Draft) Done() *Map {
	m := d.m
	d.index = nil
	return &m
}

// A Current is where the Map of now is found. The zero value has none, as outside cluster mode.
type Current struct{ p atomic.Pointer[Map] }

// Load gives the Map of now, or nil before the first. Any goroutine. Whoever decides by it loads it once.
func (c *Current) Load() *Map { return c.p.Load() }

// Store publishes m.
func (c *Current) Store(m *Map) { c.p.Store(m) }
