package slotmove

import (
	"cmp"
	"time"

	"spindle/protocol"
)

// The source of a move, as far as the turn has to do with it; wire.go talks to the target.
//
//	connecting ▶ sending-auth-command ▶ reading-auth-response ▶ sending-establish-command
//	  ▶ reading-establish-response ▶ waiting-to-snapshot ▶ snapshotting ▶ replicating ─REQUEST-PAUSE▶ waiting-to-pause
//	  ▶ failover-paused ─REQUEST-FAILOVER▶ failover-granted ─the target claims the slots▶ success
//
// slotmove.S1. Only the clients of the slots are held, from PAUSED until the job is over. Their units go by the map
// that admits them afterwards.
// slotmove.S2. Before the grant the source may give up, and continues as before. After it, it waits for the claim or
// for the end of the hold, and an operator cannot cancel the move. If it has to give up, it raises its epoch first, so
// that a claim which it has not heard of does not win.
// slotmove.S3. This node grants nothing while its writes are held for a failover, nor as a replica. Another node may
// serve the slots already, and the target's claim would win. After a grant it holds no writes for a failover until the
// job is over.
// slotmove.S4. The epoch is raised only when a majority of primaries knows no new owner of the slots (state.T5). A
// replica of this node may have been elected. Until then the move's state is failover-granted, and clients are held. If
// the cluster is down for this node, or another node has the slots, clients hear so at once.

// grantedFor is how long clients are held at least after the grant.
const grantedFor = 2 * time.Second

// pausesAs is by how much the hold may last longer than cluster-manual-failover-timeout.
const pausesAs = 2

// lagFloor is how many bytes of changes may always wait when the hold begins: one write takes them.
const lagFloor = 16 << 10

// begin starts the goroutines of a move.
func (m *Mover) begin(j *job) {
	j.wire = newWire(m, j)
	go j.wire.send()
	m.parts.Busy()
}

// hear handles a message of the target.
func (m *Mover) hear(j *job, word string) {
	if m.noteRole(); !j.running() {
		return
	}
	j.ackedAt, j.heardMs = m.core.Now()/1000, m.core.SteadyMs()
	unexpected := func() {
		m.log.Warning("Received CLUSTER SYNCSLOTS %s for slot migration %s in state %s. Failing migration.", word, j.what,
			j.state)
		m.end(j, failed, "Unexpected state machine transition")
	}
	switch word {
	case "ACK", "CAPA":
	case "REQUEST-PAUSE":
		if j.state != exportStreaming {
			unexpected()
			return
		}
		m.enter(j, exportWaitPause)
		m.tryPause(j)
	case "REQUEST-FAILOVER":
		switch now := m.core.SteadyMs(); {
		case j.state != exportPaused:
			unexpected()
		case m.core.FailsOver(): // slotmove.S3
			m.end(j, failed, "A failover or the shutdown of this node is under way")
		case m.ackLevel() > j.acks:
			m.end(j, failed, "Clients wait for more replicas than when the move began")
		case now > j.untilMs:
			m.log.Warning("Received CLUSTER SYNCSLOTS REQUEST-FAILOVER on slot migration %s, but we are not paused. Denying "+
				"failover.", j.what)
			m.end(j, failed, "Unpaused before failover completed")
		default:
			j.untilMs = max(j.untilMs, now+grantedFor.Milliseconds())
			j.wire.say("FAILOVER-GRANTED")
			m.enter(j, exportGranted)
		}
	default:
		m.log.Warning("Received unknown SYNCSLOTS subcommand from slot migration %s. Failing the migration.", j.what)
		m.end(j, failed, "Unknown SYNCSLOTS subcommand used")
	}
}

// tryPause holds the clients of the slots, if few enough changes wait for the target. It is called again when some have
// left.
func (m *Mover) tryPause(j *job) {
	limit := m.parts.Settings.Lag.Get()
	if j.state != exportWaitPause || limit >= 0 && int64(j.wire.waiting()) > max(limit, lagFloor) {
		return
	}
	m.core.BetweenOnce(&j.pausing, func() {
		if j.state != exportWaitPause {
			return
		}
		m.log.Notice("Pausing writes (remaining_repl_size is %d) to allow slot migration %s to finalize failover.",
			j.wire.waiting(), j.what)
		j.unlatch = m.core.LatchSlots(j.list)
		j.beganMs = m.core.SteadyMs()
		j.untilMs = j.beganMs + pausesAs*m.parts.Hold().Milliseconds()
		j.wire.say("PAUSED")
		m.enter(j, exportPaused)
	})
}

// giveUp ends the wait for the target of a move that was granted. A claim may be on its way for some time. This node
// reclaims the slots afterwards (slotmove.S2).
func (m *Mover) giveUp(j *job) {
	m.hangUp(j)
	j.untilMs = min(j.untilMs, m.core.SteadyMs()+grantedFor.Milliseconds())
}

// reclaim keeps the slots of a move that was granted, if it may (slotmove.S4).
func (m *Mover) reclaim(j *job) {
	j.reclaiming = true
	m.hangUp(j)
	m.core.Between(func() {
		if j.running() { // the slots may have moved meanwhile
			m.parts.Cluster.Reclaim(j.list, func() { m.reclaimEnds(j) })
		}
	})
}

// reclaimEnds ends a move whose slots this node has kept or lost. Clients are held until the greater epoch is on disk.
// If this node died before that, its writes would be lost to the target's claim.
func (m *Mover) reclaimEnds(j *job) {
	switch m.noteRole(); {
	case !j.running(): // the slots have another owner
	case m.owner(j) != m.parts.Cluster.Me():
		m.movedExport(j)
	case m.parts.Cluster.Saved(func() { go m.core.DoBetween(func() { m.reclaimEnds(j) }) }):
		m.log.Warning("During slot migration %s, the new owner did not broadcast ownership in time. This node continues "+
			"with a greater epoch.", j.what)
		j.reclaimed = true
		m.end(j, failed, cmp.Or(j.message,
			"Unpaused before migration completed (migration may have succeeded with lost writes)"))
	}
}

// letGo ends what an export has of this server: its held clients, its part of the stream, its connection.
func (m *Mover) letGo(j *job) {
	if unlatch := j.unlatch; unlatch != nil {
		j.unlatch = nil
		j.pausedMs = m.core.SteadyMs() - j.beganMs
		unlatch()
	}
	m.hangUp(j)
}

// hangUp ends an export's part of the stream, and its connection.
func (m *Mover) hangUp(j *job) {
	if w := j.wire; w != nil {
		j.wire = nil
		w.close()
		m.core.Between(w.leave)
	}
}

// lost ends an export whose connection is gone. After the grant the target may have taken over.
func (m *Mover) lost(j *job) {
	if !j.running() || j.wire == nil {
		return
	}
	m.log.Notice("Slot migration %s connection lost", j.what)
	if j.state != exportGranted {
		m.end(j, failed, "Connection lost to target. Check CLUSTER GETSLOTMIGRATIONS on the target node for more "+
			"information.")
	}
}

// tickExport ends holds that are over, and gives up on a target that is silent.
func (m *Mover) tickExport(j *job, nowMs int64) {
	switch {
	case j.state == exportPaused && nowMs > j.untilMs:
		m.log.Warning("Slot migration %s timed out during slot failover.", j.what)
		m.end(j, failed, "Timed out before streaming completed")
	case j.state == exportGranted && nowMs > j.untilMs && !j.reclaiming:
		m.reclaim(j)
	case j.state == exportGranted:
	case j.state >= exportWaitSnapshot && nowMs-j.heardMs > m.parts.Patience().Milliseconds():
		m.log.Warning("Timing out slot migration %s after not receiving ack for too long", j.what)
		m.end(j, failed, "Timed out after too long with no interaction")
	case j.state == exportWaitPause:
		m.tryPause(j)
		fallthrough
	default:
		if hard := m.parts.Output(); hard > 0 && int64(j.wire.waiting()) > hard {
			m.log.Warning("Slot migration %s is given up: %d bytes of changes wait for the target, which is more than the "+
				"output limit of replicas", j.what, j.wire.waiting())
			m.end(j, failed, "The target does not keep up with the changes")
			return
		}
		if m.acks == 0 && j.state >= exportStreaming {
			j.wire.say("ACK")
		}
	}
}

// movedExport ends an export whose slots have another owner now.
func (m *Mover) movedExport(j *job) {
	switch m.owner(j) {
	case m.parts.Cluster.Me():
		if unlatch := j.unlatch; unlatch != nil && j.state == exportGranted { // clients ask again: the cluster may be down
			j.unlatch = m.core.LatchSlots(j.list)
			unlatch()
		}
	case j.target:
		m.log.Notice("Slot migration %s slots are now owned by target node.", j.what)
		m.end(j, success, "")
	default:
		m.log.Warning("Slot migration %s contains slots that are no longer all owned by myself", j.what)
		m.end(j, failed, "Slots are no longer owned by myself")
	}
}

// establishment returns the ESTABLISH of a job.
func (j *job) establishment() []byte {
	args := [][]byte{[]byte("CLUSTER"), []byte("SYNCSLOTS"), []byte("ESTABLISH"), []byte("SOURCE"), []byte(j.source),
		[]byte("NAME"), []byte(j.name), []byte("SLOTSRANGE")}
	for _, s := range j.ranges {
		args = append(args, number(s.first), number(s.last))
	}
	return protocol.AppendCommand(nil, args)
}

// HandsOver reports whether slots are between two owners. Either a target may have taken over, and this node has not
// heard of it. Or this node has taken over, and the source may not know. Turn only.
func (m *Mover) HandsOver() bool {
	for _, j := range m.jobs {
		if j.state == exportGranted || j.state == importGranted {
			return true
		}
	}
	return false
}
