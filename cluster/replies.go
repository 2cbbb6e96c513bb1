package cluster

import (
	"strconv"
	"strings"
	"sync/atomic"

	"spindle/cluster/bus"
	"spindle/cluster/state"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/slots"
	"spindle/protocol"
)

// countFailureReports runs COUNT-FAILURE-REPORTS id. Replies: a number.
func (c *Cluster) countFailureReports(ctx *command.Context) (err error) {
	c.look(func(s *state.State) {
		var n *state.Node
		if n, err = s.Known(string(ctx.Args[2])); err == nil {
			ctx.Reply.Int(int64(s.Reports(n)))
		}
	})
	return err
}

// keySlot runs KEYSLOT key. Replies: the key's slot.
func (c *Cluster) keySlot(ctx *command.Context) error {
	ctx.Reply.Int(int64(slots.Of(ctx.Args[2])))
	return nil
}

// countKeysInSlot runs COUNTKEYSINSLOT slot. Replies: the number of the slot's keys in the client's database.
func (c *Cluster) countKeysInSlot(ctx *command.Context) error {
	slot, err := command.Int(ctx.Args[2])
	if err != nil {
		return err
	}
	if slot < 0 || slot >= slots.Count {
		return errKeySlot
	}
	ctx.Reply.Int(int64(ctx.DB.InSlot(uint16(slot))))
	return nil
}

// getKeysInSlot runs GETKEYSINSLOT slot count. Replies: at most count of the slot's keys in the client's database.
func (c *Cluster) getKeysInSlot(ctx *command.Context) error {
	slot, err := command.Int(ctx.Args[2])
	if err != nil {
		return err
	}
	most, err := command.Int(ctx.Args[3])
	if err != nil {
		return err
	}
	if slot < 0 || slot >= slots.Count || most < 0 {
		return errKeySlots
	}
	most = min(most, int64(ctx.DB.InSlot(uint16(slot))))
	if ctx.IsLong(int(most)) {
		present := ctx.DB.PresentInSlot(uint16(slot))
		return ctx.ReadBeside(func(r *command.Reading) error {
			replyKeys(r, present, int(most))
			return nil
		})
	}
	replyKeys(ctx.Inline(), func(yield func(value.Value) bool) {
		ctx.DB.EachInSlot(uint16(slot), int(most), func(v value.Value) { yield(v) })
	}, int(most))
	return nil
}

// replyKeys replies the first most keys of those that present yields.
func replyKeys(r *command.Reading, present func(yield func(value.Value) bool), most int) {
	mark, n := r.Reply.Mark(), 0
	for v := range present {
		if n == most {
			break
		}
		r.Step()
		r.Reply.Bulk(v.Key())
		n++
	}
	r.Reply.ArrayAt(mark, n)
}

// myID runs MYID. Replies: this node's ID.
func (c *Cluster) myID(ctx *command.Context) error {
	c.look(func(s *state.State) { ctx.Reply.BulkString(s.Me().ID) })
	return nil
}

// myShardID runs MYSHARDID. Replies: the ID of this node's shard.
func (c *Cluster) myShardID(ctx *command.Context) error {
	c.look(func(s *state.State) { ctx.Reply.BulkString(s.Me().ShardID) })
	return nil
}

// nodes runs NODES. Replies: a line for each node (state.List).
func (c *Cluster) nodes(ctx *command.Context) error {
	secure := c.wantsTLS(ctx)
	c.look(func(s *state.State) { ctx.Reply.Verbatim("txt", s.List(secure)) })
	return nil
}

// wantsTLS reports whether replies to the client show nodes' TLS ports.
func (c *Cluster) wantsTLS(ctx *command.Context) bool {
	if ctx.Client.Conn == nil {
		return c.parts.TLSCluster()
	}
	return protocol.IsSecure(ctx.Client.Conn)
}

// replicas runs REPLICAS id and SLAVES id. Replies: a line for each replica.
func (c *Cluster) replicas(ctx *command.Context) (err error) {
	secure := c.wantsTLS(ctx)
	c.look(func(s *state.State) {
		var n *state.Node
		if n, err = s.Known(string(ctx.Args[2])); err != nil {
			return
		}
		if n.Is(bus.Replica) {
			err = errOnReplica
			return
		}
		ctx.Reply.Array(len(n.Replicas))
		for _, r := range n.Replicas {
			ctx.Reply.BulkString(s.Line(r, secure))
		}
	})
	return err
}

// info runs INFO. Replies: name:value lines.
func (c *Cluster) info(ctx *command.Context) error {
	var b strings.Builder
	line := func(name string, value any) {
		b.WriteString(name)
		b.WriteByte(':')
		switch v := value.(type) {
		case string:
			b.WriteString(v)
		case int:
			b.WriteString(strconv.Itoa(v))
		case int64:
			b.WriteString(strconv.FormatInt(v, 10))
		case uint64:
			b.WriteString(strconv.FormatUint(v, 10))
		}
		b.WriteString("\r\n")
	}
	c.look(func(s *state.State) {
		word := "fail"
		if s.OK() {
			word = "ok"
		}
		assigned, well, maybe, failed := s.SlotCounts()
		current, _ := s.Epochs()
		mine := s.Me().Epoch
		if p := s.Me().Primary; p != nil && s.IsReplica() {
			mine = p.Epoch
		}
		line("cluster_state", word)
		line("cluster_slots_assigned", assigned)
		line("cluster_slots_ok", well)
		line("cluster_slots_pfail", maybe)
		line("cluster_slots_fail", failed)
		failing := s.CountFailing()
		line("cluster_nodes_pfail", failing.MaybeFailed)
		line("cluster_nodes_fail", failing.Failed)
		line("cluster_voting_nodes_pfail", failing.VotingMaybeFailed)
		line("cluster_voting_nodes_fail", failing.VotingFailed)
		line("cluster_known_nodes", len(s.Nodes()))
		line("cluster_size", s.Size())
		line("cluster_current_epoch", current)
		line("cluster_my_epoch", mine)
		sent, received := s.Counts()
		for _, way := range []struct {
			name   string
			counts [bus.Types]int64
		}{{"sent", sent}, {"received", received}} {
			sum := int64(0)
			for t, n := range way.counts {
				if n != 0 {
					line("cluster_stats_messages_"+bus.Type(t).String()+"_"+way.name, n)
					sum += n
				}
			}
			line("cluster_stats_messages_"+way.name, sum)
		}
		for _, bytes := range []struct {
			name           string
			sent, received *atomic.Int64
		}{
			{"", &c.sent.all, &c.received.all},
			{"pubsub_", &c.sent.pubsub, &c.received.pubsub},
			{"module_", &c.sent.module, &c.received.module},
		} {
			line("cluster_stats_"+bytes.name+"bytes_sent", bytes.sent.Load())
			line("cluster_stats_"+bytes.name+"bytes_received", bytes.received.Load())
		}
		line("total_cluster_links_buffer_limit_exceeded", s.LimitExceeded)
	})
	ctx.Reply.Verbatim("txt", b.String())
	return nil
}

// slots runs SLOTS. Replies: for each range of slots, its first and last slot, its primary and its available replicas.
func (c *Cluster) slots(ctx *command.Context) error {
	secure := c.wantsTLS(ctx)
	c.look(func(s *state.State) {
		mark, runs := ctx.Reply.Mark(), 0
		for slot := 0; slot < slots.Count; slot++ {
			n, first := s.Owner(slot), slot
			if n == nil {
				continue
			}
			for slot+1 < slots.Count && s.Owner(slot+1) == n {
				slot++
			}
			runs++
			var readable []*state.Node
			for _, r := range n.Replicas {
				if !r.Is(bus.Failed) && c.offsetOf(s, r) != 0 {
					readable = append(readable, r)
				}
			}
			ctx.Reply.Array(3 + len(readable))
			ctx.Reply.Int(int64(first))
			ctx.Reply.Int(int64(slot))
			c.describeEndpoint(ctx.Reply, n, secure)
			for _, r := range readable {
				c.describeEndpoint(ctx.Reply, r, secure)
			}
		}
		ctx.Reply.ArrayAt(mark, runs)
	})
	return nil
}

// offsetOf returns a node's replication offset.
func (c *Cluster) offsetOf(s *state.State, n *state.Node) int64 {
	if n == s.Me() {
		return c.parts.Offset()
	}
	return n.Offset
}

// describeEndpoint writes how clients reach a node: the preferred address, the port, the ID, and the other addresses.
func (c *Cluster) describeEndpoint(r *protocol.Reply, n *state.Node, secure bool) {
	r.Array(4)
	kind := c.settings.Endpoint.Get()
	switch {
	case kind == slots.EndpointIP:
		r.BulkString(n.IP)
	case kind == slots.EndpointUnknown:
		r.Null()
	case n.Hostname == "":
		r.BulkString("?")
	default:
		r.BulkString(n.Hostname)
	}
	port := n.Port
	if secure {
		port = n.TLSPort
	}
	r.Int(int64(port))
	r.BulkString(n.ID)
	var others []string
	if kind != slots.EndpointIP {
		others = append(others, "ip", n.IP)
	}
	if kind != slots.EndpointHostname && n.Hostname != "" {
		others = append(others, "hostname", n.Hostname)
	}
	if n.Zone != "" {
		others = append(others, "availability-zone", n.Zone)
	}
	r.Map(len(others) / 2)
	for _, text := range others {
		r.BulkString(text)
	}
}

// shards runs SHARDS. Replies: for each shard its slots and its nodes. A client that has called CLIENT CAPA also gets
// the shard's ID, as in Valkey 9.1. Older client libraries of Redis fail at a field that they do not know.
func (c *Cluster) shards(ctx *command.Context) error {
	r, fields := ctx.Reply, 2
	if ctx.Client.Is(client.Redirects) {
		fields++
	}
	c.look(func(s *state.State) {
		all := s.Shards()
		r.Array(len(all))
		for _, nodes := range all {
			ownerFirst(nodes)
			r.Map(fields)
			r.BulkString("slots")
			ranges := nodes[0].Root().Ranges()
			r.Array(2 * len(ranges))
			for _, run := range ranges {
				r.Int(int64(run[0]))
				r.Int(int64(run[1]))
			}
			r.BulkString("nodes")
			r.Array(len(nodes))
			for _, n := range nodes {
				c.describeMember(s, r, n)
			}
			if fields > 2 {
				r.BulkString("id")
				r.BulkString(nodes[0].ShardID)
			}
		}
	})
	return nil
}

// ownerFirst moves the node that has the shard's slots to the front. An old primary stays a primary, without slots,
// until it is heard of as a replica. Clients take the first primary of a shard for the slots' owner.
func ownerFirst(shard []*state.Node) {
	for i, n := range shard {
		if n.NumSlots > 0 {
			copy(shard[1:], shard[:i])
			shard[0] = n
			return
		}
	}
}

// describeMember writes a node of a shard.
func (c *Cluster) describeMember(s *state.State, r *protocol.Reply, n *state.Node) {
	mark, fields := r.Mark(), 0
	text := func(name, value string) {
		r.BulkString(name)
		r.BulkString(value)
		fields++
	}
	number := func(name string, value int64) {
		r.BulkString(name)
		r.Int(value)
		fields++
	}
	text("id", n.ID)
	if n.Port != 0 {
		number("port", int64(n.Port))
	}
	if n.TLSPort != 0 {
		number("tls-port", int64(n.TLSPort))
	}
	text("ip", n.IP)
	endpoint := n.IP
	switch c.settings.Endpoint.Get() {
	case slots.EndpointHostname:
		if endpoint = n.Hostname; endpoint == "" {
			endpoint = "?"
		}
	case slots.EndpointUnknown:
		endpoint = ""
	}
	text("endpoint", endpoint)
	if n.Hostname != "" {
		text("hostname", n.Hostname)
	}
	offset, role := c.offsetOf(s, n), "master"
	if n.Is(bus.Replica) {
		role = "replica"
	}
	text("role", role)
	number("replication-offset", offset)
	switch {
	case n.Is(bus.Failed):
		text("health", "fail")
	case n.Is(bus.Replica) && offset == 0:
		text("health", "loading")
	default:
		text("health", "online")
	}
	if n.Zone != "" {
		text("availability-zone", n.Zone)
	}
	r.MapAt(mark, fields)
}

// links runs LINKS. Replies: for each link its direction, node, age and queue.
func (c *Cluster) links(ctx *command.Context) error {
	r := ctx.Reply
	c.look(func(s *state.State) {
		mark, count := r.Mark(), 0
		for _, n := range s.Nodes() {
			for _, l := range []*state.Link{n.Link, n.Incoming} {
				if l == nil {
					continue
				}
				count++
				direction, queued, events := "to", l.Queued(), "r"
				if l.Inbound {
					direction = "from"
				}
				if queued > queueBytes {
					events = "rw"
				}
				r.Map(6)
				for _, text := range []string{"direction", direction, "node", n.ID, "create-time"} {
					r.BulkString(text)
				}
				r.Int(l.CreatedMs + s.WallAhead)
				r.BulkString("events")
				r.BulkString(events)
				r.BulkString("send-buffer-allocated")
				r.Int(queued)
				r.BulkString("send-buffer-used")
				r.Int(queued)
			}
		}
		r.ArrayAt(mark, count)
	})
	return nil
}
