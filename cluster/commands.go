package cluster

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"spindle/cluster/bus"
	"spindle/cluster/state"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/logging"
	"spindle/internal/slots"
	"spindle/protocol"
)

// Family is CLUSTER. c is nil outside cluster mode. moves are the subcommands of other packages.
func Family(c *Cluster, moves ...command.Spec) command.Family {
	const (
		shows   = command.Stale
		asks    = command.Admin | command.Stale
		changes = command.Admin | command.Stale | command.NoAsyncLoading
	)
	varies := []string{"nondeterministic_output"}
	sub := func(name string, arity int, flags command.Flags, tips []string,
		run func(*Cluster, *command.Context) error) command.Spec {
		return command.Spec{Name: name, Arity: arity, Flags: flags, Tips: tips, Run: func(ctx *command.Context) error {
			if c == nil {
				return errDisabled
			}
			return run(c, ctx)
		}}
	}
	subs := append(moves,
		sub("addslots", -3, changes, nil, (*Cluster).addSlots),
		sub("addslotsrange", -4, changes, nil, (*Cluster).addSlotsRange),
		sub("bumpepoch", 2, changes, varies, (*Cluster).bumpEpoch),
		sub("count-failure-reports", 3, asks, varies, (*Cluster).countFailureReports),
		sub("countkeysinslot", 3, shows, nil, (*Cluster).countKeysInSlot),
		sub("delslots", -3, changes, nil, (*Cluster).delSlots),
		sub("delslotsrange", -4, changes, nil, (*Cluster).delSlotsRange),
		sub("failover", -2, changes, nil, (*Cluster).failover),
		sub("flushslots", 2, changes, nil, (*Cluster).flushSlots),
		sub("forget", 3, changes, nil, (*Cluster).forget),
		sub("getkeysinslot", 4, shows, varies, (*Cluster).getKeysInSlot),
		sub("help", 2, command.Loading|command.Stale, nil, (*Cluster).help),
		sub("info", 2, shows, varies, (*Cluster).info),
		sub("keyslot", 3, shows, nil, (*Cluster).keySlot),
		sub("links", 2, shows, varies, (*Cluster).links),
		sub("meet", -4, changes, nil, (*Cluster).meet),
		sub("myid", 2, shows, nil, (*Cluster).myID),
		sub("myshardid", 2, shows, varies, (*Cluster).myShardID),
		sub("nodes", 2, shows, varies, (*Cluster).nodes),
		sub("replicas", 3, asks, varies, (*Cluster).replicas),
		sub("replicate", 3, changes, nil, (*Cluster).replicate),
		sub("reset", -2, command.Admin|command.NoScript|command.Stale, nil, (*Cluster).reset),
		sub("saveconfig", 2, changes, nil, (*Cluster).saveConfig),
		sub("set-config-epoch", 3, changes, nil, (*Cluster).setConfigEpoch),
		sub("setslot", -4, changes, nil, (*Cluster).setSlot),
		sub("shards", 2, command.Loading|command.Stale, varies, (*Cluster).shards),
		sub("slaves", 3, asks, varies, (*Cluster).replicas),
		sub("slot-stats", -4, command.Loading|command.Stale, []string{"nondeterministic_output", "request_policy:all_shards"},
			(*Cluster).slotStats),
		sub("slots", 2, command.Loading|command.Stale, varies, (*Cluster).slots),
	)
	slices.SortFunc(subs, func(a, b command.Spec) int { return strings.Compare(a.Name, b.Name) })
	return command.Family{Name: "cluster", Rows: []command.Spec{{Name: "cluster", Arity: -2, Subs: subs}}}
}

// order changes the state for a client. If the change is critical (a claim or an epoch), the reply waits until it is on
// disk. Other replies do not wait.
func (c *Cluster) order(ctx *command.Context, f func(s *state.State) error, reply func(*command.Context)) (err error) {
	critical := false
	c.with(func(s *state.State) {
		before := s.Critical()
		err = f(s)
		critical = s.Critical() != before
	})
	c.parts.Between(c.errands.run)
	if err != nil {
		return err
	}
	if reply == nil {
		reply = func(ctx *command.Context) { ctx.Reply.OK() }
	}
	if !critical {
		reply(ctx)
		return nil
	}
	if ctx.Client.Is(client.DenyBlocking) || ctx.Client.Conn == nil {
		c.saveNow()
		reply(ctx)
		return nil
	}
	cl := ctx.Client
	if c.saved(func() { go c.parts.Wake(cl) }) {
		reply(ctx)
		return nil
	}
	ctx.Core.Block(ctx, command.Wait{Busy: true, Retry: func(ctx *command.Context) error {
		reply(ctx)
		return nil
	}})
	return nil
}

// look reads the state for a client.
func (c *Cluster) look(f func(s *state.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	f(c.state)
}

func parseSlot(arg []byte) (int, error) {
	n, err := command.Int(arg)
	if err != nil || n < 0 || n >= slots.Count {
		return 0, errSlot
	}
	return int(n), nil
}

// A choice is the set of slots that a command names, each once.
type choice struct {
	taken   [slots.Count]bool
	list    []int
	release bool
}

func (h *choice) add(s *state.State, slot int) error {
	switch owner := s.Owner(slot); {
	case h.release && owner == nil:
		return errUnassigned(slot)
	case !h.release && owner != nil:
		return errBusy(slot)
	case h.taken[slot]:
		return errTwice(slot)
	}
	h.taken[slot] = true
	h.list = append(h.list, slot)
	return nil
}

func (h *choice) carryOut(s *state.State) {
	if h.release {
		s.Release(h.list)
	} else {
		s.Assign(h.list)
	}
}

func (c *Cluster) addSlots(ctx *command.Context) error { return c.chooseSlots(ctx, false) }
func (c *Cluster) delSlots(ctx *command.Context) error { return c.chooseSlots(ctx, true) }

// chooseSlots is ADDSLOTS and DELSLOTS slot [slot …]. Replies: OK.
func (c *Cluster) chooseSlots(ctx *command.Context, release bool) error {
	list := make([]int, 0, len(ctx.Args)-2)
	for _, arg := range ctx.Args[2:] {
		slot, err := parseSlot(arg)
		if err != nil {
			return err
		}
		list = append(list, slot)
	}
	return c.order(ctx, func(s *state.State) error {
		chosen := choice{release: release}
		for _, slot := range list {
			if err := chosen.add(s, slot); err != nil {
				return err
			}
		}
		chosen.carryOut(s)
		return nil
	}, nil)
}

func (c *Cluster) addSlotsRange(ctx *command.Context) error { return c.chooseRanges(ctx, false) }
func (c *Cluster) delSlotsRange(ctx *command.Context) error { return c.chooseRanges(ctx, true) }

// chooseRanges is ADDSLOTSRANGE and DELSLOTSRANGE from to [from to …]. Replies: OK.
func (c *Cluster) chooseRanges(ctx *command.Context, release bool) error {
	if len(ctx.Args)%2 == 1 {
		return command.ErrArity(ctx.Spec)
	}
	args := ctx.Args[2:]
	return c.order(ctx, func(s *state.State) error {
		chosen := choice{release: release}
		for i := 0; i < len(args); i += 2 {
			first, err := parseSlot(args[i])
			if err != nil {
				return err
			}
			last, err := parseSlot(args[i+1])
			if err != nil {
				return err
			}
			if first > last {
				return errRange(first, last)
			}
			for slot := first; slot <= last; slot++ {
				if err := chosen.add(s, slot); err != nil {
					return err
				}
			}
		}
		chosen.carryOut(s)
		return nil
	}, nil)
}

// flushSlots is FLUSHSLOTS: this node gives up all its slots. Replies: OK.
func (c *Cluster) flushSlots(ctx *command.Context) error {
	if !empty(ctx) {
		return errNotEmpty
	}
	return c.order(ctx, func(s *state.State) error { s.ReleaseMine(); return nil }, nil)
}

// empty reports whether this node holds no key.
func empty(ctx *command.Context) bool {
	for i := range ctx.Space.Len() {
		if ctx.Space.DB(i).Len() > 0 {
			return false
		}
	}
	return true
}

// setSlot is SETSLOT slot MIGRATING id | IMPORTING id | STABLE | NODE id. Replies: OK.
func (c *Cluster) setSlot(ctx *command.Context) error {
	args := ctx.Args
	tell := func() {}
	err := c.order(ctx, func(s *state.State) error {
		if s.IsReplica() {
			return errOnPrimary
		}
		slot, err := parseSlot(args[2])
		if err != nil {
			return err
		}
		switch word := args[3]; {
		case command.Is(word, "migrating") && len(args) == 5:
			err := s.Migrating(slot, string(args[4]))
			if err == nil && c.parts.SlotMigrating != nil {
				tell = func() { c.parts.SlotMigrating(slot) }
			}
			return err
		case command.Is(word, "importing") && len(args) == 5:
			return s.Importing(slot, string(args[4]))
		case command.Is(word, "stable") && len(args) == 4:
			s.Stable(slot)
			return nil
		case command.Is(word, "node") && len(args) == 5:
			was := s.Owner(slot)
			err := s.Bind(slot, string(args[4]))
			if now := s.Owner(slot); err == nil && was == s.Me() && now != was && c.parts.SlotMigrated != nil {
				from, to := clientAddress(was, ctx.Client), clientAddress(now, ctx.Client)
				tell = func() { c.parts.SlotMigrated(from, to, slot) }
			}
			return err
		}
		return errSetSlot
	}, nil)
	if err == nil {
		tell()
	}
	return err
}

// clientAddress is where clients reach a node: "host:port". A node that does not know its own IP yet is where cl has
// reached it.
func clientAddress(n *state.Node, cl *client.Client) string {
	port, host := n.Port, n.IP
	if host == "" && cl.Conn != nil {
		host, _, _ = net.SplitHostPort(cl.Conn.LocalAddr())
	}
	if port == 0 {
		port = n.TLSPort
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// bumpEpoch is BUMPEPOCH. Replies: BUMPED or STILL, and the epoch.
func (c *Cluster) bumpEpoch(ctx *command.Context) error {
	text := ""
	return c.order(ctx, func(s *state.State) error {
		raised, epoch := s.Bump()
		text = "STILL "
		if raised {
			text = "BUMPED "
		}
		text += strconv.FormatUint(epoch, 10)
		return nil
	}, func(ctx *command.Context) { ctx.Reply.Simple(text) })
}

// meet is MEET ip port [bus-port]. Replies: OK.
func (c *Cluster) meet(ctx *command.Context) error {
	if len(ctx.Args) > 5 {
		return command.ErrSubcommandSyntax(ctx.Args[0], ctx.Args[1])
	}
	port, err := command.Int(ctx.Args[3])
	if err != nil {
		return errPort(ctx.Args[3])
	}
	busPort := port + portDistance
	if len(ctx.Args) == 5 {
		if busPort, err = command.Int(ctx.Args[4]); err != nil {
			return errBusPort(ctx.Args[4])
		}
	}
	ip := string(ctx.Args[2])
	return c.order(ctx, func(s *state.State) error { return s.Meet(ip, port, busPort) }, nil)
}

// forget is FORGET id. Replies: OK.
func (c *Cluster) forget(ctx *command.Context) error {
	id := string(ctx.Args[2])
	return c.order(ctx, func(s *state.State) error { return s.Forget(id) }, nil)
}

// replicate is REPLICATE id. Replies: OK.
func (c *Cluster) replicate(ctx *command.Context) error {
	id, isEmpty := string(ctx.Args[2]), empty(ctx)
	return c.order(ctx, func(s *state.State) error { return s.Replicate(id, isEmpty) }, nil)
}

// failover is FAILOVER [FORCE | TAKEOVER]. Replies: OK when the failover has begun.
func (c *Cluster) failover(ctx *command.Context) error {
	force, takeover := false, false
	switch {
	case len(ctx.Args) == 5 && command.Is(ctx.Args[2], "force") && command.Is(ctx.Args[3], "replicaid") &&
		ctx.Client.Is(client.Primary): // a primary that ends has chosen its heir
		if !c.isMe(string(ctx.Args[4])) {
			ctx.Reply.OK()
			return nil
		}
		force = true
	case len(ctx.Args) > 3:
		return command.ErrSubcommandSyntax(ctx.Args[0], ctx.Args[1])
	case len(ctx.Args) == 2:
	case command.Is(ctx.Args[2], "force"):
		force = true
	case command.Is(ctx.Args[2], "takeover"):
		force, takeover = true, true
	default:
		return protocol.ErrSyntax
	}
	if c.log.Enabled(logging.LevelVerbose) {
		c.log.Verbose("CLUSTER FAILOVER from %s", ctx.Client.UserName())
	}
	return c.order(ctx, func(s *state.State) error { return s.Failover(force, takeover) }, nil)
}

// isMe reports whether id is this node's.
func (c *Cluster) isMe(id string) (is bool) {
	c.look(func(s *state.State) { is = s.Me().ID == id })
	return is
}

// ReplicaAt returns the ID of this node's replica at an address for clients; "" if there is none. Turn only.
func (c *Cluster) ReplicaAt(host string, port int) (id string) {
	c.look(func(s *state.State) {
		for _, r := range s.Me().Replicas {
			if r.IP == host && (r.Port == port || r.TLSPort == port) {
				id = r.ID
			}
		}
	})
	return id
}

// Serves reports whether this node is a primary with slots. Turn only.
func (c *Cluster) Serves() (serves bool) {
	c.look(func(s *state.State) { serves = !s.IsReplica() && s.Me().NumSlots > 0 })
	return serves
}

// setConfigEpoch is SET-CONFIG-EPOCH epoch. Replies: OK.
func (c *Cluster) setConfigEpoch(ctx *command.Context) error {
	epoch, err := command.Int(ctx.Args[2])
	if err != nil {
		return err
	}
	return c.order(ctx, func(s *state.State) error { return s.SetEpoch(epoch) }, nil)
}

// reset is RESET [HARD | SOFT]. Replies: OK.
func (c *Cluster) reset(ctx *command.Context) error {
	hard := false
	switch {
	case len(ctx.Args) > 3:
		return command.ErrSubcommandSyntax(ctx.Args[0], ctx.Args[1])
	case len(ctx.Args) == 2, command.Is(ctx.Args[2], "soft"):
	case command.Is(ctx.Args[2], "hard"):
		hard = true
	default:
		return protocol.ErrSyntax
	}
	isEmpty := empty(ctx)
	return c.order(ctx, func(s *state.State) error { return s.Reset(hard, isEmpty) }, nil)
}

// saveConfig is SAVECONFIG. Replies: OK, when nodes.conf is on disk.
func (c *Cluster) saveConfig(ctx *command.Context) error {
	return c.order(ctx, func(s *state.State) error { s.Want(); return nil }, nil)
}

// countFailureReports is COUNT-FAILURE-REPORTS id. Replies: a number.
func (c *Cluster) countFailureReports(ctx *command.Context) (err error) {
	c.look(func(s *state.State) {
		var n *state.Node
		if n, err = s.Known(string(ctx.Args[2])); err == nil {
			ctx.Reply.Int(int64(s.Reports(n)))
		}
	})
	return err
}

// keySlot is KEYSLOT key. Replies: its slot.
func (c *Cluster) keySlot(ctx *command.Context) error {
	ctx.Reply.Int(int64(slots.Of(ctx.Args[2])))
	return nil
}

// countKeysInSlot is COUNTKEYSINSLOT slot. Replies: the number of keys in the client's database.
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

// getKeysInSlot is GETKEYSINSLOT slot count. Replies: at most count keys of the client's database.
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
	mark, n := ctx.Reply.Mark(), 0
	ctx.DB.EachInSlot(uint16(slot), int(most), func(v value.Value) {
		ctx.Reply.Bulk(v.Key())
		n++
	})
	ctx.Reply.ArrayAt(mark, n)
	return nil
}

// myID is MYID. Replies: this node's ID.
func (c *Cluster) myID(ctx *command.Context) error {
	c.look(func(s *state.State) { ctx.Reply.BulkString(s.Me().ID) })
	return nil
}

// myShardID is MYSHARDID. Replies: the ID of this node's shard.
func (c *Cluster) myShardID(ctx *command.Context) error {
	c.look(func(s *state.State) { ctx.Reply.BulkString(s.Me().ShardID) })
	return nil
}

// nodes is NODES. Replies: a line for each node (state.List).
func (c *Cluster) nodes(ctx *command.Context) error {
	secure := c.wantsTLS(ctx)
	c.look(func(s *state.State) { ctx.Reply.Verbatim("txt", s.List(secure)) })
	return nil
}

// wantsTLS reports whether the client is shown nodes' TLS ports.
func (c *Cluster) wantsTLS(ctx *command.Context) bool {
	if ctx.Client.Conn == nil {
		return c.parts.TLSCluster()
	}
	return protocol.IsSecure(ctx.Client.Conn)
}

// replicas is REPLICAS id and SLAVES id. Replies: a line for each.
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

// info is INFO. Replies: name:value lines.
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

// slots is SLOTS. Replies: for each range of slots its ends, its primary and its available replicas.
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

// shards is SHARDS. Replies: for each shard its slots and its nodes. A client that called CLIENT CAPA gets the shard's
// ID too, as from Valkey 9.1. Older clients of Redis end with an error at a field that they do not know.
func (c *Cluster) shards(ctx *command.Context) error {
	r, fields := ctx.Reply, 2
	if ctx.Client.Is(client.Redirects) {
		fields++
	}
	c.look(func(s *state.State) {
		all := s.Shards()
		r.Array(len(all))
		for _, nodes := range all {
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

// links is LINKS. Replies: for each link its direction, node, age and queue.
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

// Debug is DEBUG CLUSTERLINK KILL to|from|all id. Replies: OK.
func (c *Cluster) Debug(ctx *command.Context, direction, id []byte) (err error) {
	to, from := command.Is(direction, "to"), command.Is(direction, "from")
	if command.Is(direction, "all") {
		to, from = true, true
	}
	c.with(func(s *state.State) {
		n := s.Lookup(string(id))
		switch {
		case n == nil:
			err = errUnknown(id)
		case !to && !from:
			err = errDirection(direction)
		default:
			s.Cut(n, to, from)
		}
	})
	if err == nil {
		ctx.Reply.OK()
	}
	return err
}

// Drop makes this node ignore messages of a type: DEBUG DROP-CLUSTER-PACKET-FILTER. -1: no type.
func (c *Cluster) Drop(typ int) { c.with(func(s *state.State) { s.DropType = typ }) }

// Connections and LinkBytes are for INFO: the number of the bus's sockets, and the memory of its links.
func (c *Cluster) Connections() int64 { return 2 * c.peers.Load() }
func (c *Cluster) LinkBytes() int64   { return c.memory.Load() }
