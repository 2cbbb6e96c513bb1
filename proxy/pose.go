package proxy

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"spindle/internal/ascii"
	"spindle/internal/slots"
	"spindle/protocol"
)

// With proxy-pose-cluster clients that speak to clusters only take the proxy for one: a cluster of one node that has
// all slots. The proxy redirects nothing, so such a client sends it everything.

// A posed is the one node that a client sees.
type posed struct {
	id, host string // host is "" if the client has to use the one that it knows
	port     int
}

// pose returns the node for a client: the announced address, or the one that the client has connected to.
func (s *session) pose() posed {
	p := s.w.p
	at := p.settings.Announce.Get()
	if at == "" {
		at = s.conn.LocalAddr()
	}
	host, port, ok := cutAddress(at)
	if !ok { // a unix socket
		host, port, _ = cutAddress(p.reactor.Addrs()[0])
		if host == "0.0.0.0" || host == "::" {
			host = ""
		}
	}
	n, _ := strconv.Atoi(port) // 0 without a port, as a node says it
	sum := sha1.Sum([]byte(joinAddress(host, port)))
	return posed{id: hex.EncodeToString(sum[:]), host: host, port: n}
}

// mode is what HELLO and INFO say.
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
	word, node := strings.ToLower(string(args[1])), s.pose()
	switch word {
	case "slots":
		s.say(node.appendSlots)
	case "shards":
		s.say(node.appendShards)
	case "nodes":
		s.say(func(r *protocol.Reply) { r.Verbatim("txt", node.line()) })
	case "info":
		s.say(func(r *protocol.Reply) { r.Verbatim("txt", clusterInfo) })
	case "myid", "myshardid":
		s.say(func(r *protocol.Reply) { r.BulkString(node.id) })
	case "keyslot":
		slot := int64(slots.Of(args[2]))
		s.say(func(r *protocol.Reply) { r.Int(slot) })
	case "links":
		s.say(func(r *protocol.Reply) { r.Array(0) })
	case "replicas", "slaves":
		if !ascii.EqualFold(args[2], node.id) {
			s.refuse(errUnknownNode(args[2]))
			return true
		}
		s.say(func(r *protocol.Reply) { r.Array(0) })
	case "countkeysinslot", "getkeysinslot":
		slot, err := strconv.Atoi(string(args[2]))
		if err != nil || slot < 0 || slot > lastSlot {
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
func (n posed) appendSlots(r *protocol.Reply) {
	r.Array(1)
	r.Array(3)
	r.Int(0)
	r.Int(lastSlot)
	r.Array(4)
	r.BulkString(n.host)
	r.Int(int64(n.port))
	r.BulkString(n.id)
	r.Array(0)
}

// appendShards is the reply to CLUSTER SHARDS.
func (n posed) appendShards(r *protocol.Reply) {
	r.Array(1)
	r.Map(2)
	r.BulkString("slots")
	r.Array(2)
	r.Int(0)
	r.Int(lastSlot)
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

// line is the node's line of CLUSTER NODES.
func (n posed) line() string {
	return fmt.Sprintf("%s %s:%d@0 myself,master - 0 0 1 connected 0-%d\n", n.id, n.host, n.port, lastSlot)
}

// clusterInfo is the reply to CLUSTER INFO.
var clusterInfo = func() string {
	text := "cluster_state:ok\r\n"
	for _, name := range []string{"slots_assigned", "slots_ok"} {
		text += fmt.Sprintf("cluster_%s:%d\r\n", name, slots.Count)
	}
	for _, name := range []string{"slots_pfail", "slots_fail"} {
		text += "cluster_" + name + ":0\r\n"
	}
	for _, name := range []string{"known_nodes", "size", "current_epoch", "my_epoch"} {
		text += "cluster_" + name + ":1\r\n"
	}
	return text
}()
