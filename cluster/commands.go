package cluster

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"spindle/cluster/state"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/logging"
	"spindle/internal/slots"
	"spindle/protocol"
)

// Family returns CLUSTER. c is nil outside cluster mode. moves are the subcommands of other packages.
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

// order changes the state for a client. If the change is critical (a claim to slots or an epoch), the reply waits until
// the change is on disk. Other replies do not wait.
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

// chooseSlots runs ADDSLOTS and DELSLOTS slot [slot …]. Replies: OK.
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

// chooseRanges runs ADDSLOTSRANGE and DELSLOTSRANGE from to [from to …]. Replies: OK.
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

// flushSlots runs FLUSHSLOTS: this node gives up all its slots. Replies: OK.
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

// setSlot runs SETSLOT slot MIGRATING id | IMPORTING id | STABLE | NODE id. Replies: OK. A Valkey sends it to its
// replicas too, which learn the same from messages.
func (c *Cluster) setSlot(ctx *command.Context) error {
	args := ctx.Args
	if ctx.Client.Is(client.Primary) {
		ctx.Reply.OK()
		return nil
	}
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

// clientAddress returns the address at which clients reach a node, as "host:port". If a node does not know its own IP
// yet, that is the IP to which cl has connected.
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

// bumpEpoch runs BUMPEPOCH. Replies: BUMPED or STILL, and the epoch.
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

// meet runs MEET ip port [bus-port]. Replies: OK.
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

// forget runs FORGET id. Replies: OK.
func (c *Cluster) forget(ctx *command.Context) error {
	id := string(ctx.Args[2])
	return c.order(ctx, func(s *state.State) error { return s.Forget(id) }, nil)
}

// replicate runs REPLICATE id. Replies: OK.
func (c *Cluster) replicate(ctx *command.Context) error {
	id, isEmpty := string(ctx.Args[2]), empty(ctx)
	return c.order(ctx, func(s *state.State) error { return s.Replicate(id, isEmpty) }, nil)
}

// failover runs FAILOVER [FORCE | TAKEOVER]. Replies: OK when the failover has begun.
func (c *Cluster) failover(ctx *command.Context) error {
	force, takeover := false, false
	switch {
	case len(ctx.Args) == 5 && command.Is(ctx.Args[2], "force") && command.Is(ctx.Args[3], "replicaid") &&
		ctx.Client.Is(client.Primary): // a primary that is ending has chosen its heir
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

// isMe reports whether id is this node's ID.
func (c *Cluster) isMe(id string) (is bool) {
	c.look(func(s *state.State) { is = s.Me().ID == id })
	return is
}

// ReplicaAt returns the ID of this node's replica that has this address for clients, or "" if there is none. Turn only.
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

// setConfigEpoch runs SET-CONFIG-EPOCH epoch. Replies: OK.
func (c *Cluster) setConfigEpoch(ctx *command.Context) error {
	epoch, err := command.Int(ctx.Args[2])
	if err != nil {
		return err
	}
	return c.order(ctx, func(s *state.State) error { return s.SetEpoch(epoch) }, nil)
}

// reset runs RESET [HARD | SOFT]. Replies: OK.
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

// saveConfig runs SAVECONFIG. Replies: OK, when nodes.conf is on disk.
func (c *Cluster) saveConfig(ctx *command.Context) error {
	return c.order(ctx, func(s *state.State) error { s.Want(); return nil }, nil)
}

// Debug runs DEBUG CLUSTERLINK KILL to|from|all id. Replies: OK.
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

// Drop makes this node ignore messages of a type, for DEBUG DROP-CLUSTER-PACKET-FILTER. -1 means no type.
func (c *Cluster) Drop(typ int) { c.with(func(s *state.State) { s.DropType = typ }) }

// Replicas returns how many other nodes this primary's shard has, with those that have failed. Any goroutine.
func (c *Cluster) Replicas() int64 { return c.shard.Load() }

// Connections and LinkBytes return INFO's figures: the number of the bus's sockets, and the memory of its links.
func (c *Cluster) Connections() int64 { return 2 * c.peers.Load() }
func (c *Cluster) LinkBytes() int64   { return c.memory.Load() }
