package state

import (
	"strconv"
	"strings"

	"spindle/cluster/bus"
	"spindle/internal/logging"
)

func address(ip string, port int) string { return ip + " " + strconv.Itoa(port) }

// send queues a message on l, if l is a connected link.
func (s *State) send(l *Link, typ bus.Type, p []byte) {
	if l == nil || l.closed || !l.ready {
		return
	}
	s.sent[typ]++
	s.out.Send(l, p, s.critical)
}

// broadcast queues a message for every node, or for those that to selects.
func (s *State) broadcast(m *bus.Message, to func(*Node) bool) {
	p := bus.Append(nil, m)
	for _, n := range s.nodes {
		if !n.is(bus.Myself|bus.Handshake) && (to == nil || to(n)) {
			s.send(n.Link, m.Type, p)
		}
	}
}

// message returns a message with this node's header. A replica states its primary's slots and epoch.
func (s *State) message(typ bus.Type) *bus.Message {
	me, primary := s.me, s.me
	if me.isReplica() && me.Primary != nil {
		primary = me.Primary
	}
	m := &bus.Message{
		Type: typ, BusPort: me.BusPort, CurrentEpoch: s.current, ConfigEpoch: primary.Epoch, Offset: s.out.Offset(),
		Sender: me.ID, Slots: &primary.slots, IP: s.Terms.AnnounceIP, Flags: me.Flags, Down: !s.ok,
		Paused: me.isPrimary() && s.manualEnd != 0 && s.manualPaused,
	}
	m.Port, m.Port2 = s.sayPorts(me)
	if me.Primary != nil {
		m.Primary = me.Primary.ID
	}
	return m
}

// ping sends a heartbeat with gossip about some random nodes and all nodes in PFAIL.
func (s *State) ping(l *Link, typ bus.Type) {
	s.pings++
	m := s.message(typ)
	fresh := len(s.nodes) - 2 // without this node and the receiver
	wanted := min(max(len(s.nodes)/10, 3), fresh)
	m.Gossip = make([]bus.Gossip, 0, max(wanted, 0)+s.maybeFailed)
	if !l.Inbound && typ == bus.Ping {
		l.Node.PingSent = s.now
	}
	if !l.Inbound && typ != bus.Pong {
		l.Node.pinged++
	}
	for tries := wanted * 3; fresh > 0 && len(m.Gossip) < wanted && tries > 0; tries-- {
		n := s.nodes[s.rng.IntN(len(s.nodes))]
		if n == s.me || n == l.Node || n.is(bus.MaybeFailed) {
			continue
		}
		if n.is(bus.Handshake|bus.NoAddress) || n.Link == nil && n.NumSlots == 0 {
			fresh--
			continue
		}
		if n.gossiped == s.pings {
			continue
		}
		n.gossiped = s.pings
		m.Gossip = append(m.Gossip, s.gossipOf(n))
		fresh--
	}
	if left := s.maybeFailed; left > 0 {
		for _, n := range s.nodes {
			if left > 0 && n.is(bus.MaybeFailed) && !n.is(bus.Handshake|bus.NoAddress) {
				m.Gossip = append(m.Gossip, s.gossipOf(n))
				left--
			}
		}
	}
	m.Extensions = s.extensions(l)
	s.send(l, typ, bus.Append(nil, m))
}

// unix converts a time of the node's clock to Unix ms for other nodes. 0 stays 0.
func (s *State) unix(ms int64) int64 {
	if ms == 0 {
		return 0
	}
	return ms + s.WallAhead
}

func (s *State) gossipOf(n *Node) bus.Gossip {
	g := bus.Gossip{ID: n.ID, PingSent: uint32(s.unix(n.PingSent) / 1000),
		PongReceived: uint32(s.unix(n.PongReceived) / 1000), IP: n.IP,
		BusPort: n.BusPort, Flags: n.Flags}
	g.Port, g.Port2 = s.sayPorts(n)
	return g
}

// extensions returns the extensions for a heartbeat on l. Nodes before 7.2 only know the host name and log others as
// errors. So a peer gets the others only after it has shown that it knows them. Until then each heartbeat asks it for
// that, so that two spindle nodes never wait for each other.
func (s *State) extensions(l *Link) bus.Extensions {
	e := bus.Extensions{Hostname: s.me.Hostname}
	if !l.extends && (l.Node == nil || !l.Node.extends) {
		e.Asks = true
		return e
	}
	e.HumanName, e.ShardID = s.me.HumanName, s.me.ShardID
	if l.zoned || l.Node != nil && l.Node.zoned {
		e.Zone, e.HasZone = s.me.Zone, true // Redis, and Valkey before 9.1, log each message that has it
	}
	for id, until := range s.black {
		if left := until - s.now/1000; left >= 0 {
			e.Forgotten = append(e.Forgotten, bus.Forgotten{ID: id, TTLSeconds: uint64(left)})
		}
	}
	return e
}

// pongAll sends a pong at once to every node, or to those of this node's shard.
func (s *State) pongAll(shardOnly bool) {
	for _, n := range s.nodes {
		if n.Link == nil || !n.Link.ready || n == s.me || n.is(bus.Handshake) {
			continue
		}
		if shardOnly && (!n.isReplica() || n.Primary == nil || n.Primary != s.me && n.Primary != s.me.Primary) {
			continue
		}
		s.ping(n.Link, bus.Pong)
	}
}

func (s *State) sendUpdate(l *Link, about *Node) {
	if l == nil {
		return
	}
	m := s.message(bus.Update)
	claimed := about.slots
	for i := range claimed {
		claimed[i] &^= s.notOwn[i]
	}
	m.About, m.UpdateEpoch, m.UpdateSlots = about.ID, about.Epoch, &claimed
	s.send(l, bus.Update, bus.Append(nil, m))
}

// Publish sends a published message to every node, or to those of this node's shard.
func (s *State) Publish(channel, payload []byte, shard bool) {
	m := s.message(bus.Publish)
	m.Channel, m.Payload = channel, payload
	if !shard {
		s.broadcast(m, nil)
		return
	}
	m.Type = bus.PublishShard
	s.broadcast(m, func(n *Node) bool { return n.ShardID == s.me.ShardID })
}

// takeGossip handles the gossip in a heartbeat.
func (s *State) takeGossip(l *Link, m *bus.Message) {
	sender := l.Node
	if sender == nil {
		sender = s.byID[m.Sender]
	}
	for i := range m.Gossip {
		if !bus.ValidID(m.Gossip[i].ID) {
			s.log(logging.LevelWarning, "Received gossip about a node with invalid ID %q from %q", m.Gossip[i].ID, m.Sender)
			return
		}
	}
	for i := range m.Gossip {
		g := &m.Gossip[i]
		if !saneAddress(g.IP) {
			continue
		}
		n := s.byID[g.ID]
		switch {
		case n == s.me:
		case n != nil:
			s.takeGossipOf(n, sender, g)
		case sender != nil && g.Flags&bus.NoAddress == 0 && !s.forgotten(g.ID):
			const taken = bus.Primary | bus.Replica | bus.MaybeFailed | bus.Failed | bus.MigrateTo | bus.NoFailover
			n = s.newNode(g.ID, g.Flags&taken)
			n.IP, n.BusPort = g.IP, g.BusPort
			n.Port, n.TLSPort = s.ports(g.Port, g.Port2)
			s.add(n)
		}
	}
}

// takeGossipOf handles sender's gossip about a known node.
func (s *State) takeGossipOf(n, sender *Node, g *bus.Gossip) {
	bad := g.Flags&(bus.Failed|bus.MaybeFailed) != 0
	if sender != nil && sender.isPrimary() {
		switch {
		case bad:
			if s.addReport(n, sender) {
				s.log(logging.LevelVerbose, "Node %s reported node %s as not reachable.", sender.label(), n.label())
			}
			s.markFailed(n)
		case s.withdrawReport(n, sender):
			s.log(logging.LevelVerbose, "Node %s reported node %s is back online.", sender.label(), n.label())
		}
	}
	if !bad && n.PingSent == 0 && s.countReports(n) == 0 {
		// A pong that other nodes have received counts, unless its time is in the future.
		if pong := int64(g.PongReceived)*1000 - s.WallAhead; pong <= s.now+500 && pong > n.PongReceived {
			n.PongReceived = pong
		}
	}
	plain, tls := s.ports(g.Port, g.Port2)
	if n.is(bus.Failed|bus.MaybeFailed) && g.Flags&bus.NoAddress == 0 && !bad && g.IP != "" &&
		(!strings.EqualFold(n.IP, g.IP) || n.Port != plain || n.TLSPort != tls || n.BusPort != g.BusPort) {
		s.hangUp(n.Link)
		n.IP, n.Port, n.TLSPort, n.BusPort = g.IP, plain, tls, g.BusPort
		n.Flags &^= bus.NoAddress
		s.Changed = true
		s.save(false)
	}
}

// takeExtensions handles the extensions of a heartbeat.
func (s *State) takeExtensions(n *Node, m *bus.Message) {
	e := &m.Extensions
	for _, kind := range e.Unknown {
		if n.loggedTypes[kind] {
			continue // each heartbeat of a newer node has it
		}
		if n.loggedTypes == nil {
			n.loggedTypes = map[uint16]bool{}
		}
		n.loggedTypes[kind] = true
		s.log(logging.LevelWarning, "Received unknown extension type %d", kind)
	}
	for _, f := range e.Forgotten {
		gone := s.byID[f.ID]
		if gone == nil || gone == s.me || s.me.isReplica() && s.me.Primary == gone {
			continue
		}
		s.black[gone.ID] = s.now/1000 + int64(min(f.TTLSeconds, maxForgottenSeconds))
		s.remove(gone)
		s.save(false)
		s.todo |= todoUpdate
	}
	if s.byID[n.ID] != n {
		return
	}
	if n.Hostname != e.Hostname && saneName(e.Hostname) {
		n.Hostname = e.Hostname
		s.Changed = true
		s.save(false)
	}
	if e.HasZone && saneZone(e.Zone) {
		n.Zone = e.Zone
	}
	if e.Asks && e.ShardID == "" {
		return // the rest comes after it learns that this node knows extensions
	}
	if n.HumanName != e.HumanName && saneName(e.HumanName) {
		n.HumanName = e.HumanName
		s.save(false)
	}
	shard := e.ShardID
	if p := n.Primary; !bus.ValidID(shard) || p != nil && !p.extends {
		// The node or its primary runs an older version, in which each node would send its own shard ID.
		shard = n.Root().ShardID
	}
	s.setShard(n, shard)
}

// maxForgottenSeconds is the longest time accepted from a peer.
const maxForgottenSeconds = 24 * 3600

// forgotten reports whether id must not be added yet.
func (s *State) forgotten(id string) bool {
	for id, until := range s.black {
		if until < s.now/1000 {
			delete(s.black, id)
		}
	}
	_, is := s.black[id]
	return is
}
