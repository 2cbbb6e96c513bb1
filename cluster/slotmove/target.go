package slotmove

import (
	"strconv"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// The target of a move. The source's connection is an ordinary client, until it says ESTABLISH. Its later commands
// bring the keys of the slots, which are hidden (keyspace.Hide):
//
//	waiting-for-ack ─ACK▶ receiving-snapshot ─SNAPSHOT-EOF▶ waiting-for-paused
//	  ─PAUSED▶ failover-requested ─FAILOVER-GRANTED▶ failover-granted ─saved▶ success
//
// slotmove.T1. The keys are shown in the turn in which this node becomes the slots' owner. That holds for a promoted
// replica too.
// slotmove.T2. This node claims the slots only within claimWithin of its request: the source holds its clients for
// longer.
// slotmove.T3. Replicas and the log get ESTABLISH, then all commands, then FINISH. They hide the keys in between.
// slotmove.T4. Clients of the slots are held until the claim is on disk and the source knows of it. A node that starts
// without the claim drops the keys, and with them everything that was written. A source that has not heard of the claim
// keeps the slots after a while (slotmove.S2), and this node drops the keys.
// slotmove.T5. The log is synced before this node asks for the hand-over, whatever appendfsync says. The keys may be
// old, and the source drops its own. A sync before clients are held leaves little for the one while they are held.
// slotmove.T6. If replies wait for replicas at the source or here, as many replicas have the keys before the hand-over.
// The source says how many it is there: CLIENT ACK comes before ESTABLISH. Its clients rely on what it has confirmed.
// The greatest number of the two counts: CLIENT ACK does not make that of this node's own clients less.
// slotmove.T7. While a replica of this node may be elected, the claim would be refused (state.T4). So REQUEST-PAUSE
// waits for the end of the election, while no client is held. If an election begins later, the move ends before the
// grant. After the grant the source would hold its clients until it gives up.

// claimWithin is how long after REQUEST-FAILOVER the grant may come.
const claimWithin = time.Second

// establish is SYNCSLOTS ESTABLISH SOURCE id NAME name SLOTSRANGE first last [first last …], in any order.
// Replies: OK, then none any more. A refused move ends the task that has asked for it. waited: the move has waited for
// the log's first base (awaitReady).
func (m *Mover) establish(ctx *command.Context, waited bool) error {
	tracking := ctx.Client.Is(client.Primary)
	j := &job{state: importWaitAck, tracking: tracking}
	owner := ""
	for args := ctx.Args[3:]; len(args) > 0; {
		word := args[0]
		switch {
		case (command.Is(word, "SOURCE") || command.Is(word, "NAME")) && len(args) > 1 && len(args[1]) == nameBytes:
			into := &j.name
			if command.Is(word, "SOURCE") {
				into = &j.source
			}
			if *into != "" {
				return protocol.ErrSyntax
			}
			*into = string(args[1])
			args = args[2:]
		case command.Is(word, "SLOTSRANGE") && j.ranges == nil:
			parse := m.parseRanges
			if tracking {
				parse = parseAnyRanges
			}
			r, of, rest, err := parse(args[1:])
			if err != nil {
				j.ranges, _, _, _ = parseAnyRanges(args[1:]) // their owners may have changed since a task asked
				return m.refused(j, err)
			}
			j.ranges, j.list, owner, args = r, r.list(), of, rest
		default:
			return protocol.ErrSyntax
		}
	}
	if j.name == "" || j.ranges == nil || !tracking && j.source == "" {
		return protocol.ErrSyntax
	}
	if !tracking {
		if err := m.mayBegin(); err != nil {
			return m.refused(j, err)
		}
	}
	if _, any := m.moving(j.list, false); any {
		return m.refused(j, errComing)
	}
	if tracking {
		j.source, j.state = "", importElsewhere
	} else {
		if err := m.checkSource(j.source, owner); err != nil {
			return m.refused(j, err)
		}
		if err := m.refuses(j.name, j.source, j.ranges); err != nil {
			return err
		}
		if why := m.parts.Lacks(); waited && why != "" {
			return m.refused(j, errNoBase(why))
		}
		if left := m.leftovers(j.list); len(left) > 0 || m.parts.Lacks() != "" {
			m.awaitReady(ctx, left)
			return nil
		}
		j.target, j.cl, j.heardMs = m.parts.Cluster.Me(), ctx.Client, m.core.SteadyMs()
		j.readBefore = j.cl.InputBytes
	}
	m.hide(j.list, true)
	m.add(j)
	m.log.Notice("New slot import job created: %s.", j.what)
	if t := m.waiting(j); t != nil {
		t.job = j
	}
	if cl := ctx.Client; !tracking {
		cl.Flags |= client.Importing | client.NoEvict | client.DenyBlocking
		m.core.Later(func() { cl.Flags |= client.ReplyOff }) // this reply leaves
	}
	ctx.Propagate(ctx.Args...)
	ctx.Reply.OK()
	return nil
}

// parseAnyRanges is parseRanges of a log or a primary, which may know other owners than this node.
func parseAnyRanges(args [][]byte) (r ranges, owner string, rest [][]byte, err error) {
	for ; len(args) > 1; args = args[2:] {
		first, err := parseSlot(args[0])
		if err != nil {
			break
		}
		last, err := parseSlot(args[1])
		if err != nil || last < first {
			return nil, "", nil, errSlot
		}
		r = append(r, span{first, last})
	}
	if len(r) == 0 {
		return nil, "", nil, errNoRanges
	}
	return r, "", args, nil
}

// checkSource says why this node takes no slots of owner from source.
func (m *Mover) checkSource(source, owner string) error {
	_, _, _, known := m.parts.Cluster.Peer(source)
	switch {
	case source == m.parts.Cluster.Me():
		return errFromMe
	case !known:
		return errNoSource
	case source != owner:
		return errOwnership
	}
	return nil
}

// leftovers returns the slots that still have keys: of an earlier move, which are being removed.
func (m *Mover) leftovers(list []uint16) (left []uint16) {
	for _, slot := range list {
		if m.parts.Space.StoredInSlot(slot) > 0 {
			left = append(left, slot)
		}
	}
	return left
}

// awaitReady removes the keys of slots that this node does not own, and waits for the log's first base. Then it asks
// the client's ESTABLISH again. The keys are removed when the replicas know which slots have left. The source waits for
// repl-timeout: without a base after half of it, ESTABLISH is refused.
func (m *Mover) awaitReady(ctx *command.Context, left []uint16) {
	cl, waits := ctx.Client, true
	ctx.Core.Block(ctx, command.Wait{Busy: true, Left: func() { waits = false },
		Retry: func(ctx *command.Context) error {
			m.noteRole()
			return m.establish(ctx, true)
		}})
	until := time.Now().Add(m.parts.Patience() / 2)
	await := func(over func() bool) {
		for again := true; again; {
			if m.core.Do(func() { again = waits && !over() }); again {
				time.Sleep(readyLook)
			}
		}
	}
	go func() {
		if len(left) > 0 {
			await(func() bool { return !m.parts.Cluster.Leaving() })
			m.drop(left, func(slot uint16) bool { return waits && !m.isMine(slot) && m.mayBegin() == nil })
		}
		await(func() bool { return m.parts.Lacks() == "" || !time.Now().Before(until) })
		m.core.Do(func() {
			if waits {
				m.core.Continue(cl)
			}
		})
	}()
}

// readyLook is the time from one look of awaitReady to the next.
const readyLook = 50 * time.Millisecond

// drop removes the keys of slots in slices of turns, as long as may allows it. Not in a turn.
func (m *Mover) drop(list []uint16, may func(slot uint16) bool) {
	m.core.DropSlots(list, func(slot uint16) bool { return !m.parts.Space.Replica && may(slot) })
}

// dropNow is SYNCSLOTS DROP SLOTSRANGE first last [first last …]. A backup ends with it if other nodes had taken the
// slots, and their keys were not all removed (Ends). Replies: OK.
func (m *Mover) dropNow(ctx *command.Context) error {
	if len(ctx.Args) < 4 || !command.Is(ctx.Args[3], "SLOTSRANGE") {
		return protocol.ErrSyntax
	}
	r, _, _, err := parseAnyRanges(ctx.Args[4:])
	if err != nil {
		return err
	}
	m.dropAll(r.list())
	ctx.Reply.OK()
	return nil
}

// dropAll removes the keys of slots in this turn.
func (m *Mover) dropAll(list []uint16) {
	for _, slot := range m.leftovers(list) {
		for m.core.DropSlot(slot, time.Second) {
		}
	}
}

// clean removes the keys of an import that failed. Then its slots may move again. A slot that this node owns now keeps
// its keys: its clients write there already.
func (m *Mover) clean(j *job) {
	m.log.Notice("Cleaning up slot migration %s after %s", j.what, j.after)
	list := m.leftovers(j.list)
	go func() {
		m.drop(list, func(slot uint16) bool { return j.state == importCleaning && !m.isMine(slot) })
		m.core.DoWhenWritable(func() { // FINISH would move an offset that is promised to a replica
			if j.state == importCleaning {
				m.enter(j, j.after)
				m.ended(j)
			}
		})
	}()
}

// receive handles a message of an import's source.
func (m *Mover) receive(j *job, word []byte) {
	j.ackedAt, j.heardMs = m.core.Now()/1000, m.core.SteadyMs()
	expect := func(s state, message string) bool {
		if j.state == s {
			return true
		}
		m.log.Warning("Received unexpected CLUSTER SYNCSLOTS %s from slot migration %s in state %s. Failing migration.",
			message, j.what, j.state)
		m.end(j, failed, "Unexpected state machine transition")
		return false
	}
	switch {
	case command.Is(word, "ACK"):
		if j.state == importWaitAck {
			m.enter(j, importReceiving)
		}
	case command.Is(word, "SNAPSHOT-EOF"):
		if expect(importReceiving, "SNAPSHOT-EOF") {
			m.log.Notice("Slot migration %s successfully received slot snapshot. Beginning incremental stream...", j.what)
			m.enter(j, importWaitPaused)
			m.synced(j, func() { m.askPause(j) })
		}
	case command.Is(word, "PAUSED"):
		if expect(importWaitPaused, "PAUSED") {
			j.beganMs = j.heardMs
			m.synced(j, func() {
				if m.parts.Cluster.Contested() { // slotmove.T7
					m.end(j, failed, "A replica of the target takes over, or may be elected")
					return
				}
				j.requestedMs, j.epoch = m.core.SteadyMs(), m.parts.Cluster.Epoch(j.source)
				m.say(j, "REQUEST-FAILOVER")
				m.enter(j, importRequested)
			})
		}
	case command.Is(word, "FAILOVER-GRANTED"):
		if expect(importRequested, "FAILOVER-GRANTED") {
			m.core.AtUnitEnd(func() { m.takeOver(j) })
		}
	default:
		m.log.Warning("Received unknown SYNCSLOTS subcommand from slot migration %s. Failing the migration.", j.what)
		m.end(j, failed, "Unknown SYNCSLOTS subcommand used")
	}
}

// askPause asks the source to hold its clients. During an election it waits (slotmove.T7), and a later tick calls it
// again. After repl-timeout the move is given up.
func (m *Mover) askPause(j *job) {
	now := m.core.SteadyMs()
	switch {
	case !m.parts.Cluster.Contested():
		j.waitsMs = 0
		m.say(j, "REQUEST-PAUSE")
	case j.waitsMs == 0:
		m.log.Notice("Slot migration %s waits: a replica of this node takes over, or may be elected", j.what)
		j.waitsMs = now
	case now-j.waitsMs > m.parts.Patience().Milliseconds():
		m.end(j, failed, "An election among the replicas of the target did not end within repl-timeout")
	}
}

// synced calls then when the disk has all that the import has written to the log (slotmove.T5), and enough replicas
// have it (slotmove.T6). Otherwise the move is given up.
func (m *Mover) synced(j *job, then func()) {
	was := j.state
	m.parts.Sync(func(why string) {
		switch m.noteRole(); {
		case j.state != was: // it has ended
		case why != "":
			m.log.Warning("Slot migration %s is given up: the append-only file cannot be written: %s", j.what, why)
			m.end(j, failed, "The append-only file of the target cannot be written: "+why)
		default:
			m.acked(j, then)
		}
	})
}

// acked is the part of synced that is about replicas.
func (m *Mover) acked(j *job, then func()) {
	was, level := j.state, m.ackLevel() // it counts the source's connection too
	m.parts.Acked(level, func(ok bool) {
		switch m.noteRole(); {
		case j.state != was:
		case !ok:
			m.log.Warning("Slot migration %s is given up: fewer than %d replicas have its keys within ack-timeout", j.what,
				level)
			m.end(j, failed, "Too few replicas of the target have the keys: clients wait for "+strconv.Itoa(level))
		default:
			then()
		}
	})
}

// say sends a message to the source.
func (m *Mover) say(j *job, message string) {
	if j.cl != nil {
		m.core.Push(j.cl, appendMessage(nil, message))
	}
}

// appendMessage appends a message of the protocol.
func appendMessage(dst []byte, message string) []byte {
	return protocol.AppendCommand(dst, [][]byte{[]byte("CLUSTER"), []byte("SYNCSLOTS"), []byte(message)})
}

// takeOver makes this node the owner of an import's slots. Between only.
func (m *Mover) takeOver(j *job) {
	switch {
	case j.state != importRequested:
		return
	case m.parts.Space.Replica:
		m.track(j)
		return
	}
	unlatch := m.core.LatchSlots(j.list)
	until := j.requestedMs + claimWithin.Milliseconds()                    // slotmove.T2
	decided := func() { m.core.AtUnitEnd(func() { m.taken(j, unlatch) }) } // Claim itself calls it for a failed source
	if !m.parts.Cluster.Claim(j.list, j.source, j.epoch, until, decided) {
		unlatch()
		m.end(j, failed, "The hand-over was granted too late, the source has given it up, or a replica takes over here")
		return
	}
	m.enter(j, importGranted)
	m.show(j.list) // slotmove.T1
}

// taken ends a move when its source knows of the claim, or the claim has fallen (slotmove.T4). Between only.
func (m *Mover) taken(j *job, unlatch func()) {
	if !m.parts.Cluster.Saved(func() { go m.core.DoBetween(func() { m.taken(j, unlatch) }) }) {
		return
	}
	unlatch()
	j.pausedMs = m.core.SteadyMs() - j.beganMs
	switch {
	case j.state != importGranted:
	case m.owner(j) == m.parts.Cluster.Me():
		m.log.Notice("Slot migration %s completed successfully. This node is now the owner of the slots", j.what)
		m.end(j, success, "")
	default:
		m.release(j)
		j.message, j.after = "The source has kept the slots", failed
		m.enter(j, importCleaning)
		m.clean(j)
	}
}

// finish is SYNCSLOTS FINISH STATE success|failed NAME name [MESSAGE text]: our primary, or a log, says how an import
// ended. Replies: OK.
func (m *Mover) finish(ctx *command.Context) error {
	var word, name, message []byte
	for args := ctx.Args[3:]; len(args) > 0; args = args[2:] {
		into := &word
		switch {
		case command.Is(args[0], "STATE"):
		case command.Is(args[0], "NAME"):
			into = &name
		case command.Is(args[0], "MESSAGE"):
			into = &message
		default:
			return protocol.ErrSyntax
		}
		if *into != nil || len(args) < 2 || into == &name && len(args[1]) != nameBytes {
			return protocol.ErrSyntax
		}
		*into = args[1]
	}
	if word == nil || name == nil {
		return protocol.ErrSyntax
	}
	j := m.find(string(name))
	if j == nil && ctx.Client.Is(client.Primary) { // a copy or a base of after the claim has the keys, but not the move
		ctx.Reply.OK()
		return nil
	}
	if j == nil || !j.tracking {
		return errNoJob
	}
	end := failed
	switch {
	case command.Is(word, "SUCCESS"):
		end = success
	case !command.Is(word, "FAILED"):
		return protocol.ErrSyntax
	}
	ctx.Reply.OK()
	if j.running() {
		j.message = string(message)
		if end == failed { // the primary has removed all that it had: here there may be more, after DEBUG RELOAD there
			m.dropAll(j.list)
		}
		m.enter(j, end)
		m.show(j.list)
		ctx.Propagate(ctx.Args...)
	}
	return nil
}

// tickImport keeps the connection alive, and gives up on a source that is silent.
func (m *Mover) tickImport(j *job, nowMs int64) {
	if j.state == importGranted {
		return
	}
	if j.cl != nil && j.cl.LastMs != 0 {
		j.heardMs = max(j.heardMs, nowMs-(m.core.Now()-j.cl.LastMs))
	}
	if nowMs-j.heardMs > m.parts.Patience().Milliseconds() {
		m.log.Warning("Timing out slot migration %s after not receiving ack for too long", j.what)
		m.end(j, failed, "Timed out after too long with no interaction")
		return
	}
	if m.acks == 0 && j.state != importWaitAck {
		m.say(j, "ACK")
	}
	if j.state == importWaitPaused && j.waitsMs != 0 {
		m.askPause(j)
	}
}

// movedImport ends an import whose slots have another owner now.
func (m *Mover) movedImport(j *job) {
	switch owner := m.owner(j); {
	case j.state == importGranted || owner == j.source:
	case owner == m.parts.Cluster.Me():
		m.end(j, failed, "Slots were unexpectedly assigned to myself during import")
	default:
		m.end(j, failed, "Slots are no longer owned by source node")
	}
}
