package proxy

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/internal/ascii"
	"spindle/internal/slots"
	"spindle/protocol"
)

// With proxy-pose-cluster clients that speak to clusters only take the proxy for one. Its nodes are the proxies of the
// product, or this proxy alone. Each has an equal part of the slots. A proxy serves any slot, and redirects nothing. So
// a client with an old view gets right answers.

// A posed is a node that a client sees.
type posed struct {
	id, host    string // host is "" if the client has to use the one that it knows
	port        int
	first, last int // its slots
	self        bool
}

// pose returns the nodes for a client.
func (s *session) pose() []posed {
	p := s.w.p
	if p.product != nil {
		if peers := p.product.peers.Load(); peers != nil {
			return *peers
		}
	}
	at := p.settings.Announce.Get()
	if at == "" {
		at = s.conn.LocalAddr()
	}
	host, port, ok := cutAddress(at)
	if !ok { // a unix socket
		host, port, _ = cutAddress(p.reactor.Addrs()[0])
		if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
			host = ""
		}
	}
	n, _ := strconv.Atoi(port) // cutAddress has read it
	return []posed{{id: nodeID(joinAddress(host, port)), host: host, port: n, last: lastSlot, self: true}}
}

// nodeID makes a node's ID of its address or name.
func nodeID(of string) string {
	sum := sha1.Sum([]byte(of))
	return hex.EncodeToString(sum[:])
}

// findPeers keeps the proxies of the product known while the proxy poses as a cluster.
func (r *product) findPeers(p *Proxy) {
	for {
		if p.settings.Pose.Get() {
			if nodes, err := r.readPeers(); err == nil { // otherwise the last ones stay
				r.peers.Store(nodes)
			}
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(time.Duration(p.settings.Refresh.Get()) * time.Millisecond):
		}
	}
}

// readPeers returns the proxies as nodes; nil: this proxy is not among them. Proxies without an address that others can
// use are left out.
func (r *product) readPeers() (*[]posed, error) {
	peers, err := r.client.Peers(r.ctx)
	if err != nil {
		return nil, err
	}
	var nodes []posed
	for _, peer := range peers {
		host, port, ok := cutAddress(peer.Address)
		if ip := net.ParseIP(host); !ok || host == "" || ip != nil && ip.IsUnspecified() {
			continue
		}
		n, _ := strconv.Atoi(port) // cutAddress has read it
		nodes = append(nodes, posed{id: nodeID(peer.ID), host: host, port: n, self: peer.ID == r.id})
	}
	if !slices.ContainsFunc(nodes, func(n posed) bool { return n.self }) {
		return nil, nil
	}
	for i := range nodes {
		nodes[i].first, nodes[i].last = i*slots.Count/len(nodes), (i+1)*slots.Count/len(nodes)-1
	}
	return &nodes, nil
}

// mode is what HELLO says.
func (p *Proxy) mode() string {
	if p.settings.Pose.Get() {
		return "cluster"
	}
	return "standalone"
}

const lastSlot = slots.Count - 1

// cluster is CLUSTER.
func (s *session) cluster(args [][]byte, raw []byte) bool {
	if !s.w.p.settings.Pose.Get() {
		s.refuse(errNoCluster)
		return true
	}
	word, nodes := strings.ToLower(string(args[1])), s.pose()
	switch word {
	case "keyslot", "replicas", "slaves", "countkeysinslot", "getkeysinslot":
		if len(args) < 3 { // servers before Redis 7 do not tell the number
			s.refuse(errSubcommandSyntax(args))
			return true
		}
	}
	switch word {
	case "slots":
		s.say(func(r *protocol.Reply) { appendSlots(r, nodes) })
	case "shards":
		s.say(func(r *protocol.Reply) { appendShards(r, nodes) })
	case "nodes":
		s.say(func(r *protocol.Reply) { r.Verbatim("txt", nodeLines(nodes)) })
	case "info":
		s.say(func(r *protocol.Reply) { r.Verbatim("txt", clusterInfo(len(nodes))) })
	case "myid", "myshardid":
		self := nodes[slices.IndexFunc(nodes, func(n posed) bool { return n.self })]
		s.say(func(r *protocol.Reply) { r.BulkString(self.id) })
	case "keyslot":
		slot := int64(slots.Of(args[2]))
		s.say(func(r *protocol.Reply) { r.Int(slot) })
	case "links":
		s.say(func(r *protocol.Reply) { r.Array(0) })
	case "replicas", "slaves":
		if !slices.ContainsFunc(nodes, func(n posed) bool { return ascii.EqualFold(args[2], n.id) }) {
			s.refuse(errUnknownNode(args[2]))
			return true
		}
		s.say(func(r *protocol.Reply) { r.Array(0) })
	case "countkeysinslot", "getkeysinslot":
		slot, err := strconv.Atoi(string(args[2]))
		if err != nil || slot < 0 || slot >= s.w.topology.Slots() {
			s.refuse(errSlot)
			return true
		}
		return s.forward(slot, raw)
	default:
		s.refuse(errNotServed("cluster " + word))
	}
	return true
}

// appendSlots is the reply to CLUSTER SLOTS.
func appendSlots(r *protocol.Reply, nodes []posed) {
	r.Array(len(nodes))
	for _, n := range nodes {
		r.Array(3)
		r.Int(int64(n.first))
		r.Int(int64(n.last))
		r.Array(4)
		r.BulkString(n.host)
		r.Int(int64(n.port))
		r.BulkString(n.id)
		r.Array(0)
	}
}

// appendShards is the reply to CLUSTER SHARDS.
func appendShards(r *protocol.Reply, nodes []posed) {
	r.Array(len(nodes))
	for _, n := range nodes {
		r.Map(2)
		r.BulkString("slots")
		r.Array(2)
		r.Int(int64(n.first))
		r.Int(int64(n.last))
		r.BulkString("nodes")
		r.Array(1)
		r.Map(7)
		for _, field := range [][2]string{{"id", n.id}, {"ip", n.host}, {"endpoint", n.host}, {"role", "master"},
			{"health", "online"}} {
			r.BulkString(field[0])
			r.BulkString(field[1])
		}
		r.BulkString("port")
		r.Int(int64(n.port))
		r.BulkString("replication-offset")
		r.Int(0)
	}
}

// nodeLines is the reply to CLUSTER NODES.
func nodeLines(nodes []posed) string {
	var b strings.Builder
	for _, n := range nodes {
		flags := "master"
		if n.self {
			flags = "myself,master"
		}
		fmt.Fprintf(&b, "%s %s:%d@0 %s - 0 0 1 connected %d-%d\n", n.id, n.host, n.port, flags, n.first, n.last)
	}
	return b.String()
}

// clusterInfo is the reply to CLUSTER INFO, of so many nodes.
func clusterInfo(nodes int) string {
	return fmt.Sprintf("cluster_state:ok\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\ncluster_slots_pfail:0\r\n"+
		"cluster_slots_fail:0\r\ncluster_known_nodes:%d\r\ncluster_size:%d\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n",
		slots.Count, slots.Count, nodes, nodes)
}
