package state

import (
	"slices"
	"strings"

	"spindle/cluster/bus"
	"spindle/internal/slots"
)

// A Node is what is known of one node of the cluster. Times are Unix ms.
type Node struct {
	ID, ShardID         string
	Flags               bus.Flags
	Epoch               uint64 // configEpoch
	IP                  string
	Hostname, HumanName string
	Port, TLSPort       int
	BusPort             int
	Primary             *Node // whose replica it is; nil if that is unknown
	Replicas            []*Node
	Offset              int64

	slots    bus.Bitmap
	NumSlots int
	slotText []byte // slots as nodes.conf has them; nil: not made since they changed

	CreatedMs      int64
	PingSent       int64 // of the ping that is not answered; 0: none
	PongReceived   int64
	dataReceived   int64
	failedMs       int64
	voteEpoch      uint64 // of the last election of this node that it has voted in
	votedMs        int64  // when this node last voted for a replica of it
	orphanedMs     int64
	gossiped       uint64 // the last ping that told of it
	reports        []report
	Link, Incoming *Link
	toldOf         map[uint16]bool // types of extensions that the log has said this version does not know
	extends        bool            // it has shown that it knows extensions beside the host name: it is of 7.2 or later
}

// A report is a primary's word that a node does not answer.
type report struct {
	by *Node
	ms int64
}

func (n *Node) is(f bus.Flags) bool { return n.Flags&f != 0 }
func (n *Node) isReplica() bool     { return n.is(bus.Replica) }
func (n *Node) isPrimary() bool     { return n.is(bus.Primary) }

// Is says whether any of f holds for the node.
func (n *Node) Is(f bus.Flags) bool { return n.is(f) }

// Has says whether the node claims slot.
func (n *Node) Has(slot int) bool { return n.slots.Has(slot) }

// Root is the primary at the end of the chain of a node's primaries: itself for a primary.
func (n *Node) Root() *Node {
	for range 1 << 10 { // a circle is possible after TAKEOVER
		if n.Primary == nil {
			return n
		}
		n = n.Primary
	}
	return n
}

// label is how log lines name a node.
func (n *Node) label() string { return n.ID + " (" + n.HumanName + ")" }

const hexDigits = "0123456789abcdef"

// NewID makes an ID by chance.
func (s *State) newID() string {
	var b [bus.IDBytes]byte
	for i := range b {
		b[i] = hexDigits[s.rng.IntN(16)]
	}
	return string(b[:])
}

// newNode makes a node, with an ID by chance if it is empty. It is not in the table yet.
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

// remove takes a node out of the table, with all that is known of it.
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

// rename gives a node of a handshake its true ID.
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

// wellReplicas counts the replicas that are not FAIL.
func (n *Node) wellReplicas() (count int) {
	for _, r := range n.Replicas {
		if !r.is(bus.Failed) {
			count++
		}
	}
	return count
}

// hangUp closes a link, if it is one.
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

// busPort0 is the default distance of the bus from the port for clients.
const busPort0 = 10000

// clientPort is the port of the kind that the cluster uses.
func (s *State) clientPort(n *Node) int {
	if s.Terms.TLS {
		return n.TLSPort
	}
	return n.Port
}

// replicationPort is the port that replicas of n connect to.
func (s *State) replicationPort(n *Node) int {
	if s.Terms.TLSReplication {
		return n.TLSPort
	}
	return n.Port
}

// ports gives the two ports of a message in the order plain, TLS.
func (s *State) ports(first, second int) (plain, tls int) {
	if s.Terms.TLS {
		return second, first
	}
	return first, second
}

// sayPorts gives a node's ports in the order of a message.
func (s *State) sayPorts(n *Node) (first, second int) {
	if s.Terms.TLS {
		return n.TLSPort, n.Port
	}
	return n.Port, n.TLSPort
}

// saneAddress says whether text from the wire can be an address: what could break nodes.conf is none.
func saneAddress(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte(".:-_%", c) < 0 {
			return false
		}
	}
	return len(text) < 46
}

// saneName says the same of a host name or a name for people.
func saneName(text string) bool {
	return len(text) < 256 && strings.IndexFunc(text, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("!#$%&()*+:;<>?@[]^{|}~,=\"'\\", r)
	}) < 0
}

// Map makes the slot map of this moment.
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
		if owner != before { // slots come in runs
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
