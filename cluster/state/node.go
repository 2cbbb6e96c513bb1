package state

import (
	"slices"
	"strings"
	"unicode"

	"spindle/cluster/bus"
	"spindle/internal/slots"
)

// A Node is this node's information about one node of the cluster. Times are Unix ms.
type Node struct {
	ID, ShardID         string
	Flags               bus.Flags
	Epoch               uint64 // configEpoch
	IP                  string
	Hostname, HumanName string
	Zone                string // availability-zone
	Port, TLSPort       int
	BusPort             int
	Primary             *Node // of a replica; nil if unknown
	Replicas            []*Node
	Offset              int64
	told, heard         uint64 // attempts of this node to take over: see state.Q2
	heardMs             int64  // when the answer came that heard is of
	pinged, ponged      uint64 // pings on Link, and their answers
	claimPing           uint64 // the ping that has told it of the latest claim or reclaim; 0: none has
	rivalEpoch          uint64 // of this node's latest claim while it was a replica of this node (state.T6)
	lossPing            uint64 // the ping that asks whether it knows all lost slots; 0: none does
	knowsLoss           bool   // it does
	toldFailedMs        int64  // when the last FAIL message about it came; 0: never

	slots    bus.Bitmap
	NumSlots int
	slotText []byte // the slots' text in nodes.conf; nil: not formatted since they changed

	stranger bool  // it may not know this node: see meetAgain
	metMs    int64 // of a stranger: when it was met last

	CreatedMs      int64
	PingSent       int64 // when the unanswered ping was sent; 0: none
	PongReceived   int64
	dataReceived   int64
	failedMs       int64
	voteEpoch      uint64 // of this node's election in which it last voted
	votedMs        int64  // when this node last voted for one of its replicas
	orphanedMs     int64
	gossiped       uint64 // the last ping whose gossip had it
	reports        []report
	Link, Incoming *Link
	loggedTypes    map[uint16]bool // unknown extension types that were logged
	extends        bool            // it knows extensions besides the host name, so it is 7.2 or later
	zoned          bool            // it knows zones: it is a spindle, or it has sent its own
}

// A report says that a primary gets no answer from a node.
type report struct {
	by *Node
	ms int64
}

func (n *Node) is(f bus.Flags) bool { return n.Flags&f != 0 }
func (n *Node) isReplica() bool     { return n.is(bus.Replica) }
func (n *Node) isPrimary() bool     { return n.is(bus.Primary) }

// Is reports whether the node has any flag of f.
func (n *Node) Is(f bus.Flags) bool { return n.is(f) }

// Has reports whether the node claims slot.
func (n *Node) Has(slot int) bool { return n.slots.Has(slot) }

// Root follows the chain of a node's primaries to its end. A primary is its own root.
func (n *Node) Root() *Node {
	for range 1 << 10 { // TAKEOVER can make a cycle
		if n.Primary == nil {
			return n
		}
		n = n.Primary
	}
	return n
}

// label is a node's name in log lines.
func (n *Node) label() string { return n.ID + " (" + n.HumanName + ")" }

const hexDigits = "0123456789abcdef"

// newID makes a random ID.
func (s *State) newID() string {
	var b [bus.IDBytes]byte
	for i := range b {
		b[i] = hexDigits[s.rng.IntN(16)]
	}
	return string(b[:])
}

// newNode makes a node, with a random ID if id is empty. It is not in the table yet.
func (s *State) newNode(id string, flags bus.Flags) *Node {
	if id == "" {
		id = s.newID()
	}
	return &Node{ID: id, ShardID: s.newID(), Flags: flags, CreatedMs: s.now}
}

func (s *State) add(n *Node) {
	s.byID[n.ID] = n
	s.nodes = append(s.nodes, n)
	s.Changed = true
}

// remove removes a node from the table, with all references to it.
func (s *State) remove(n *Node) {
	for slot := range s.owners {
		if s.owners[slot] == n {
			s.unassign(slot)
		}
	}
	for _, open := range []map[int]*Node{s.moving, s.coming} {
		for slot, with := range open {
			if with == n {
				delete(open, slot)
			}
		}
	}
	for _, other := range s.nodes {
		if other != n {
			s.withdrawReport(other, n)
		}
	}
	for _, r := range n.Replicas {
		r.Primary = nil
	}
	if n.isReplica() && n.Primary != nil {
		n.Primary.removeReplica(n)
	}
	if s.manualNode == n {
		s.resetManual()
	}
	delete(s.byID, n.ID)
	s.nodes = slices.DeleteFunc(s.nodes, func(other *Node) bool { return other == n })
	s.hangUp(n.Link)
	s.hangUp(n.Incoming)
	s.Changed = true
}

// rename gives a node in handshake its real ID.
func (s *State) rename(n *Node, id string) {
	delete(s.byID, n.ID)
	n.ID = id
	s.byID[id] = n
	s.Changed = true
}

func (n *Node) removeReplica(r *Node) {
	n.Replicas = slices.DeleteFunc(n.Replicas, func(other *Node) bool { return other == r })
	if len(n.Replicas) == 0 {
		n.Flags &^= bus.MigrateTo
	}
}

func (n *Node) addReplica(r *Node) {
	if !slices.Contains(n.Replicas, r) {
		n.Replicas = append(n.Replicas, r)
		n.Flags |= bus.MigrateTo
	}
}

// wellReplicas counts the replicas that are not in FAIL.
func (n *Node) wellReplicas() (count int) {
	for _, r := range n.Replicas {
		if !r.is(bus.Failed) {
			count++
		}
	}
	return count
}

// hangUp closes a link; l may be nil.
func (s *State) hangUp(l *Link) {
	if l == nil || l.closed {
		return
	}
	s.detach(l)
	s.out.HangUp(l)
}

func (s *State) detach(l *Link) {
	l.closed = true
	if n := l.Node; n != nil {
		if n.Link == l {
			n.Link = nil
		}
		if n.Incoming == l {
			n.Incoming = nil
		}
	}
}

// busPort0 is the default distance from the client port to the bus port.
const busPort0 = 10000

// clientPort returns the port that the cluster uses (TLS or plain).
func (s *State) clientPort(n *Node) int {
	if s.Terms.TLS {
		return n.TLSPort
	}
	return n.Port
}

// replicationPort returns the port for replicas of n.
func (s *State) replicationPort(n *Node) int {
	if s.Terms.TLSReplication {
		return n.TLSPort
	}
	return n.Port
}

// ports converts a message's two ports to the order plain, TLS.
func (s *State) ports(first, second int) (plain, tls int) {
	if s.Terms.TLS {
		return second, first
	}
	return first, second
}

// sayPorts returns a node's ports in the order that messages use.
func (s *State) sayPorts(n *Node) (first, second int) {
	if s.Terms.TLS {
		return n.TLSPort, n.Port
	}
	return n.Port, n.TLSPort
}

// saneAddress reports whether text from a peer can be an address. It refuses text that would break nodes.conf.
func saneAddress(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte(".:-_%", c) < 0 {
			return false
		}
	}
	return len(text) < 46
}

// saneName reports whether text from a peer can be a host name or a human name.
func saneName(text string) bool {
	return len(text) < 256 && strings.IndexFunc(text, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("!#$%&()*+:;<>?@[]^{|}~,=\"'\\", r)
	}) < 0
}

// saneZone reports whether a zone's name can be shown to clients.
func saneZone(text string) bool {
	return len(text) < 256 && strings.IndexFunc(text, unicode.IsControl) < 0
}

// Map returns the current slot map.
func (s *State) Map() *slots.Map {
	seen := map[*Node]*slots.Node{}
	var node func(n *Node) *slots.Node
	node = func(n *Node) *slots.Node {
		if n == nil {
			return nil
		}
		if v := seen[n]; v != nil {
			return v
		}
		v := &slots.Node{ID: n.ID, IP: n.IP, Hostname: n.Hostname, Port: n.Port, TLSPort: n.TLSPort, Failed: n.is(bus.Failed)}
		if n.Primary != nil {
			v.Primary = n.Primary.ID
		}
		seen[n] = v
		return v
	}
	d := slots.NewDraft(node(s.me))
	m := d.Map()
	m.Replica, m.OK = s.me.isReplica(), s.ok
	if m.Replica {
		m.Primary = node(s.me.Primary)
	}
	if !s.ok {
		m.Reason = "cluster_state is fail"
	}
	m.AllowReadsWhenDown, m.AllowShardWhenDown, m.Endpoints = s.Terms.ReadsWhenDown, s.Terms.ShardsWhenDown,
		s.Terms.Endpoints
	var before *Node
	var owned *slots.Node
	for slot, owner := range s.owners {
		if owner == nil {
			continue
		}
		if owner != before { // slots come in ranges
			before, owned = owner, node(owner)
		}
		d.Assign(uint16(slot), owned)
	}
	for slot, to := range s.moving {
		m.Migrating[uint16(slot)] = node(to)
	}
	for slot, from := range s.coming {
		m.Importing[uint16(slot)] = node(from)
	}
	s.Changed = false
	return d.Done()
}
