package slotmove

import (
	"bytes"
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// Subcommands returns the rows of CLUSTER that are about moves. m is nil outside cluster mode.
func Subcommands(m *Mover) []command.Spec {
	const changes = command.Admin | command.Stale | command.NoAsyncLoading
	sub := func(name string, arity int, flags command.Flags, run func(*Mover, *command.Context) error) command.Spec {
		return command.Spec{Name: name, Arity: arity, Flags: flags, Run: func(ctx *command.Context) error {
			if m == nil {
				return errDisabled
			}
			return run(m, ctx)
		}}
	}
	return []command.Spec{
		sub("cancelslotmigrations", 2, changes, (*Mover).cancelAll),
		sub("getslotmigrations", 2, changes, (*Mover).getAll),
		sub("migrateslots", -4, changes, (*Mover).migrate),
		sub("migration", -4, changes, (*Mover).migration),
		sub("syncslots", -3, changes|command.MayReplicate, (*Mover).sync),
	}
}

// mayBegin says why no move of the kind can begin on this node.
func (m *Mover) mayBegin() error {
	away, here := m.parts.Cluster.Manual()
	switch {
	case m.parts.Space.Replica:
		return errReplica
	case here:
		return errImporting
	case away:
		return errMigrating
	}
	return nil
}

// migrate is MIGRATESLOTS SLOTSRANGE first last [first last …] NODE id [SLOTSRANGE …]. Replies: OK; the moves run in
// the background.
func (m *Mover) migrate(ctx *command.Context) error {
	m.noteRole() // a move that begins before that would look like one of a replica
	if err := m.mayBegin(); err != nil {
		return err
	}
	var list []*job
	for args := ctx.Args[2:]; len(args) > 0; {
		// valkey-cli 9.1 sends the zero byte after the word, too, and a C string ends there.
		if !command.Is(bytes.TrimSuffix(args[0], []byte{0}), "SLOTSRANGE") {
			return protocol.ErrSyntax
		}
		r, owner, rest, err := m.parseRanges(args[1:])
		if err != nil {
			return err
		}
		if owner != m.parts.Cluster.Me() {
			return errNotServed
		}
		slots := r.list()
		if slot, any := m.moving(slots, true); any {
			return errMoving(slot)
		}
		for _, before := range list {
			if before.ranges.overlap(r) {
				return errTogether
			}
		}
		if len(rest) < 2 || !command.Is(rest[0], "NODE") {
			return protocol.ErrSyntax
		}
		if len(rest[1]) != nameBytes {
			return errNodeName(rest[1])
		}
		target := string(rest[1])
		if _, _, _, known := m.parts.Cluster.Peer(target); !known {
			return errNodeUnknown(rest[1])
		}
		if target == m.parts.Cluster.Me() {
			return errToMyself
		}
		list = append(list, &job{name: newName(), export: true, ranges: r, list: slots, source: m.parts.Cluster.Me(),
			target: target, state: exportConnecting})
		args = rest[2:]
	}
	for _, j := range list {
		m.add(j)
		m.log.Notice("Slot migration initiated through CLUSTER MIGRATESLOTS command: %s (user request from '%s')", j.what,
			ctx.Client.UserName())
		m.begin(j)
	}
	ctx.Reply.OK()
	return nil
}

// getAll is GETSLOTMIGRATIONS. Replies: a map for each move, the latest first.
func (m *Mover) getAll(ctx *command.Context) error {
	r := ctx.Reply
	r.Array(len(m.jobs))
	for _, j := range m.jobs {
		text := func(name, value string) {
			r.BulkString(name)
			r.BulkString(value)
		}
		number := func(name string, value int64) {
			r.BulkString(name)
			r.Int(value)
		}
		if j.tracking {
			r.Map(10)
		} else {
			r.Map(12)
		}
		text("name", j.name)
		text("operation", map[bool]string{true: "EXPORT", false: "IMPORT"}[j.export])
		text("slot_ranges", j.ranges.String())
		if !j.tracking {
			text("target_node", j.target)
			text("source_node", j.source)
		}
		number("create_time", j.createdAt)
		number("last_update_time", j.updatedAt)
		number("last_ack_time", j.ackedAt)
		text("state", j.state.String())
		text("message", j.message)
		number("cow_size", 0)
		left := 0
		if j.wire != nil {
			left = j.wire.waiting()
		}
		number("remaining_repl_size", int64(left))
	}
	return nil
}

// cancelAll is CANCELSLOTMIGRATIONS: it ends the moves away from this node that are not granted yet. Replies: OK.
func (m *Mover) cancelAll(ctx *command.Context) error {
	any := false
	for _, j := range append([]*job(nil), m.jobs...) {
		if j.export && j.running() && j.state != exportGranted {
			any = true
			m.end(j, cancelled, "")
		}
	}
	if !any {
		return errNoMoves
	}
	m.log.Notice("Canceled all in progress slot migrations (user request from '%s')", ctx.Client.UserName())
	ctx.Reply.OK()
	return nil
}

// sync is SYNCSLOTS: the messages of a move between its two nodes. Only ESTABLISH and FINISH have a reply.
func (m *Mover) sync(ctx *command.Context) error {
	m.noteRole()
	word := ctx.Args[2]
	switch {
	case command.Is(word, "ESTABLISH"):
		return m.establish(ctx, false)
	case command.Is(word, "FINISH"):
		return m.finish(ctx)
	}
	if command.Is(word, "DROP") && ctx.Client.Is(client.Primary) {
		return m.dropNow(ctx)
	}
	if ctx.Client.Is(client.Primary) { // of our primary's move
		return nil
	}
	var j *job
	for _, one := range m.jobs {
		if one.cl == ctx.Client && one.running() {
			j = one
		}
	}
	switch {
	case command.Is(word, "CAPA"):
		return nil // there are none yet
	case j == nil && (command.Is(word, "SNAPSHOT-EOF") || command.Is(word, "REQUEST-PAUSE") ||
		command.Is(word, "PAUSED") || command.Is(word, "REQUEST-FAILOVER") || command.Is(word, "FAILOVER-GRANTED") ||
		command.Is(word, "ACK")):
		return errNotOfMoves(strings.ToUpper(string(word)))
	case j == nil:
		return protocol.ErrSyntax
	}
	m.receive(j, word)
	return nil
}
