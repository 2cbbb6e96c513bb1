package sentinel

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/internal/logging"
)

// A failoverState is the state of a failover.
type failoverState uint8

const (
	failoverNone failoverState = iota
	waitStart                  // for the votes
	selectReplica
	sendPromotion
	waitPromotion // for an INFO in which the chosen replica reports the role of a primary
	reconfReplicas
	updateConfig // the next tick switches the primary to the new server's address
)

// String returns the state's name in SENTINEL MASTER.
func (s failoverState) String() string {
	return [...]string{"none", "wait_start", "select_slave", "send_slaveof_noone", "wait_promotion", "reconf_slaves",
		"update_config"}[s]
}

func (m *Machine) enter(p *Instance, s failoverState) { p.state, p.stateSince = s, m.now }

// startFailoverIfDue starts a failover of a primary that is objectively down, unless a Sentinel has tried recently.
func (m *Machine) startFailoverIfDue(p *Instance) bool {
	if !p.is(objectivelyDown) || p.is(failingOver) {
		return false
	}
	if m.now-p.failoverStart < 2*p.failoverTimeout {
		if p.delayLogged != p.failoverStart {
			p.delayLogged = p.failoverStart
			at := time.UnixMilli(p.failoverStart + 2*p.failoverTimeout)
			m.warn("Next failover delay: I will not start a failover before %s", at.Format(time.ANSIC))
		}
		return false
	}
	m.startFailover(p)
	return true
}

// startFailover begins a new epoch, in which this Sentinel asks for votes.
func (m *Machine) startFailover(p *Instance) {
	m.epoch++
	p.flags |= failingOver
	p.failoverEpoch = m.epoch
	m.enter(p, waitStart)
	m.say(logging.LevelWarning, "+new-epoch", p, strconv.FormatUint(m.epoch, 10))
	m.emit(logging.LevelWarning, "+try-failover", p, "")
	p.failoverStart = m.now + m.rng.Int64N(desyncMs)
}

// abort ends a failover that has changed nothing yet. A replica that does not follow p yet still confirms nothing: an
// earlier failover may have replaced the primary that it follows.
func (m *Machine) abort(p *Instance, why string) {
	m.emit(logging.LevelWarning, why, p, "")
	p.flags &^= failingOver | forced
	m.enter(p, failoverNone)
	if p.chosen != nil {
		p.chosen.flags &^= promoted
		p.chosen = nil
	}
	for _, r := range p.replicas.list {
		if r.hold.sentAt != 0 && m.follows(r, p.at) {
			m.endHold(r)
		}
	}
}

// failOver continues a failover, if there is one.
func (m *Machine) failOver(p *Instance) {
	if !p.is(failingOver) {
		return
	}
	switch p.state {
	case waitStart:
		m.awaitElection(p)
	case selectReplica:
		m.choose(p)
	case sendPromotion:
		m.promote(p)
	case waitPromotion: // promotionSeen ends it
		if m.now-p.stateSince > p.failoverTimeout {
			m.abort(p, "-failover-abort-slave-timeout")
		}
	case reconfReplicas:
		m.reconfigureNext(p)
	}
}

// awaitElection waits until this Sentinel has been elected. A failover that a client asked for needs no election. The
// epoch may rise meanwhile, for another failover. The others are asked for their votes in the newest epoch, so this
// Sentinel also votes in it, and leads in it. If replies of the primary wait for replicas, a Sentinel that cannot write
// its file does not lead. It could restart and know nothing of the new primary, and make it a replica of the old one.
func (m *Machine) awaitElection(p *Instance) {
	if strings.EqualFold(m.elected(p, m.epoch), m.id) {
		p.failoverEpoch = m.epoch
	} else if !p.is(forced) {
		if m.now-p.failoverStart > min(m.election, p.failoverTimeout) {
			m.abort(p, "-failover-abort-not-elected")
		}
		return
	}
	if p.acks > 0 && m.save() != nil { // save logs the error
		m.abort(p, "-failover-abort-not-elected")
		return
	}
	m.emit(logging.LevelWarning, "+elected-leader", p, "")
	if m.crashOnElection {
		m.crash()
		return
	}
	m.enter(p, selectReplica)
	m.emit(logging.LevelWarning, "+failover-state-select-slave", p, "")
}

// crash ends the process, as SENTINEL SIMULATE-FAILURE has asked.
func (m *Machine) crash() {
	m.warn("Sentinel CRASH because of SENTINEL simulate-failure")
	m.stopped = true
	m.out.Crash()
}

// choose chooses the replica to promote. After TILT it begins again: replicas may confirm writes by now, or were not
// asked in time.
func (m *Machine) choose(p *Instance) {
	if m.tiltSince >= p.stateSince || p.stateSince > m.now {
		m.enter(p, selectReplica)
	}
	if p.acks > 0 {
		m.holdAcks(p)
	}
	r := m.best(p)
	if r == nil && p.acks > 0 {
		if m.now-p.stateSince < 5*m.Periods.ping {
			return // until replicas have been asked
		}
		r = m.successor(p)
	}
	if r == nil {
		if p.acks > 0 {
			m.warn("Too few replicas of %s are fit to keep all confirmed writes: %d, and %d of %d known ones are needed. While "+
				"the primary is up, SENTINEL RESET %s forgets those that are gone for good", p.name,
				len(m.fit(p, m.maxLinkDown(p), false)), p.needed(), p.acking(), p.name)
		}
		m.abort(p, "-failover-abort-no-good-slave")
		return
	}
	m.emit(logging.LevelWarning, "+selected-slave", r, "")
	r.flags |= promoted
	p.chosen = r
	m.enter(p, sendPromotion)
	m.emit(logging.LevelNotice, "+failover-state-send-slaveof-noone", r, "")
}

// best returns the replica to promote, or nil. The replica must have had its primary until recently.
//
// If the primary reports itself a replica, any replica will do. It takes several INFOs to believe such a report, so the
// replicas may have been without a primary for too long. In Redis such a group stays without a primary.
//
// If the primary is down, and all its replicas that are up were restarted meanwhile, one of them that has data will do.
// One that has run without a link for longer may have very old data. While one that had the primary until recently is
// only slow to answer, none is promoted. In Redis any replica that has had no link since its start may be promoted,
// also before better ones.
func (m *Machine) best(p *Instance) *Instance {
	maxLinkDown := m.maxLinkDown(p)
	r := m.bestOf(p, maxLinkDown, false)
	switch {
	case r != nil || p.acks > 0:
	case !p.saysPrimary:
		r = m.bestOf(p, math.MaxInt64, false)
	case p.is(subjectivelyDown) && !slices.ContainsFunc(p.replicas.list, func(r *Instance) bool {
		return !r.is(subjectivelyDown) && r.priority != 0 && r.linkDown <= maxLinkDown
	}):
		r = m.bestOf(p, maxLinkDown, true)
	}
	return r
}

// maxLinkDown returns for how long a replica to promote may have been without its primary, in ms.
func (m *Machine) maxLinkDown(p *Instance) int64 {
	if p.is(subjectivelyDown) {
		return 10*p.downAfter + m.now - p.downSince
	}
	return 10 * p.downAfter
}

// successor returns the replica that is the primary of p by now, or nil. p has its data, and so have p's replicas. It
// is chosen if none can be chosen by its offset. Otherwise the group would stay without a primary.
func (m *Machine) successor(p *Instance) *Instance {
	if p.saysPrimary || !p.primaryUp || m.now-p.infoAt > 3*m.info {
		return nil
	}
	for _, r := range p.replicas.list {
		if r.saysPrimary && m.follows(p, r.at) && r.priority != 0 &&
			!r.is(subjectivelyDown) && !r.link.disconnected && m.now-r.infoAt < 3*m.info {
			return r
		}
	}
	return nil
}

// bestOf returns the replica to promote, of those that fit returns. The lowest priority wins, then the largest offset,
// then the smallest run id.
//
// If replies of the primary wait for N of its R replicas, the largest offset wins among at least R-N+1 replicas. One
// of these has every confirmed write. With fewer replicas there is none to promote. Of two with the same offset, one
// that is a primary already wins. The old primary may have handed it the role, and it may have confirmed writes since.
// If the primary has restarted, offsets of before are not compared with later ones: a replica with the primary's
// history comes first.
func (m *Machine) bestOf(p *Instance, maxLinkDown int64, restarted bool) *Instance {
	fit := m.fit(p, maxLinkDown, restarted)
	if len(fit) < p.needed() {
		return nil
	}
	return slices.MinFunc(fit, func(a, b *Instance) int {
		most := 0 // which one has more confirmed writes
		if p.acks > 0 {
			most = cmp.Or(trueFirst(a.history == p.history, b.history == p.history), cmp.Compare(b.offset, a.offset),
				trueFirst(a.saysPrimary, b.saysPrimary))
		}
		return cmp.Or(most, cmp.Compare(a.priority, b.priority), cmp.Compare(b.offset, a.offset),
			compareRunIDs(a.runID, b.runID))
	})
}

// fit returns the replicas that could be promoted. Each of them is reachable and has a fresh INFO, a link not down for
// longer than maxLinkDown, and a priority other than 0. With restarted, a replica that has data, and has had no link
// since its start, counts as without it since then.
//
// If replies of the primary wait for replicas, a replica is fit only if it has had all data of this primary. Its INFO
// must be of its present connection, and later than the primary's end. When a failover chooses, it must also be later
// than the replica's last acknowledgement. A server that was a primary before, or that a full copy has not reached, may
// lack what earlier primaries have confirmed.
func (m *Machine) fit(p *Instance, maxLinkDown int64, restarted bool) []*Instance {
	fresh := 3 * m.info
	if p.is(subjectivelyDown) {
		fresh = 5 * m.Periods.ping // its replicas are asked each second
	}
	return slices.DeleteFunc(p.replicas.each(), func(r *Instance) bool {
		away := r.linkDown
		if restarted && away == neverLinked && r.offset > 0 {
			away = r.uptime
		}
		return r.is(subjectivelyDown|objectivelyDown) || r.link.disconnected || m.now-r.link.availableAt > 5*m.Periods.ping ||
			r.priority == 0 || m.now-r.infoAt > fresh || away > maxLinkDown ||
			p.acks > 0 && (!r.synced || r.infoOf < r.link.commandsAt || p.is(subjectivelyDown) && r.infoOf < p.downSince ||
				p.state == selectReplica && !r.isHeld())
	})
}

// acking returns how many replicas may have confirmed writes of the primary. These are all known ones, since each may
// have done so before its link ended. A replica that is gone for good counts until SENTINEL RESET.
func (p *Instance) acking() int { return max(p.replicas.len(), p.ackers) }

// needed returns how many replicas must be fit, so that one of them has every confirmed write.
func (p *Instance) needed() int {
	if p.acks == 0 {
		return 1
	}
	return max(p.acking()-p.acks+1, 1)
}

// trueFirst sorts true before false.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// compareRunIDs sorts an unknown id last.
func compareRunIDs(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(b, a)
	}
	return strings.Compare(strings.ToLower(a), strings.ToLower(b))
}

// promote makes the chosen replica a primary. If the primary's replies wait for replicas, and the chosen one may have
// restarted since the choice, a replica is chosen again.
func (m *Machine) promote(p *Instance) {
	if r := p.chosen; p.acks > 0 && r != m.successor(p) &&
		(!r.synced || r.infoOf < r.link.commandsAt || m.now-p.stateSince > holdFor(p)/2) {
		m.chooseAgain(p)
		return
	}
	if !p.chosen.link.disconnected && m.sendReplicaOf(p.chosen, nil) {
		m.emit(logging.LevelNotice, "+failover-state-wait-promotion", p.chosen, "")
		m.enter(p, waitPromotion)
		return
	}
	if m.now-p.stateSince > p.failoverTimeout {
		m.abort(p, "-failover-abort-slave-timeout")
	}
}

// chooseAgain takes the choice back. The old choice may be a primary already: it then becomes a replica again, as each
// replica that reports itself a primary.
func (m *Machine) chooseAgain(p *Instance) {
	p.chosen.flags &^= promoted
	p.chosen = nil
	m.enter(p, selectReplica)
}

// sendReplicaOf makes an instance follow a server, or be a primary if to is nil. The instance also rewrites its
// configuration and closes its clients, which then ask again for the primary. sendReplicaOf reports whether it has sent
// the requests. The next INFO shows their effect.
func (m *Machine) sendReplicaOf(i *Instance, to *address) bool {
	host, port := "NO", "ONE"
	if to != nil {
		host, port = m.shown(*to), strconv.Itoa(to.port)
	}
	if w := i.link.commands; w == nil || w.conn == nil {
		return false
	}
	m.request(i, toNothing, "MULTI")
	m.request(i, toNothing, "SLAVEOF", host, port)
	m.request(i, toNothing, "CONFIG", "REWRITE")
	m.request(i, toNothing, "CLIENT", "KILL", "TYPE", "normal")
	m.request(i, toNothing, "CLIENT", "KILL", "TYPE", "pubsub")
	return m.request(i, toNothing, "EXEC")
}

// promotionSeen continues when the chosen replica reports itself a primary. Then the failover cannot fail any more: the
// new address has the epoch that this Sentinel has won, and all others will accept it.
func (m *Machine) promotionSeen(p, r *Instance) {
	p.configEpoch = p.failoverEpoch
	m.enter(p, reconfReplicas)
	_ = m.save() // save logs the error
	m.emit(logging.LevelWarning, "+promoted-slave", r, "")
	if m.crashOnPromotion {
		m.crash()
		return
	}
	m.emit(logging.LevelWarning, "+failover-state-reconf-slaves", p, "")
	m.reconfigureClients(p, true, p.at, r.at)
	m.hurryHello(p)
}

// reconfigureNext makes replicas follow the new primary, parallel-syncs of them at a time.
func (m *Machine) reconfigureNext(p *Instance) {
	underWay := int64(0)
	for _, r := range p.replicas.list {
		if r.is(reconfSent) && m.now-r.reconfSentAt > m.reconfTimeout {
			// The replica is corrected later, like any replica that follows the wrong server. In Redis it would delay
			// the others.
			m.emit(logging.LevelNotice, "-slave-reconf-sent-timeout", r, "")
			r.flags = r.flags&^reconfSent | reconfDone
		}
		if r.is(reconfSent | reconfUnderWay) {
			underWay++
		}
	}
	for _, r := range p.replicas.list {
		if underWay >= p.parallel {
			break
		}
		if r.is(promoted|reconfDone|reconfSent|reconfUnderWay) || r.link.disconnected || p.chosen == nil {
			continue
		}
		if m.sendReplicaOf(r, &p.chosen.at) {
			r.flags |= reconfSent
			r.reconfSentAt = m.now
			m.emit(logging.LevelNotice, "+slave-reconf-sent", r, "")
			underWay++
		}
	}
	m.endFailoverIfDone(p)
}

// endFailoverIfDone ends the failover when all live replicas follow the new primary, or at the timeout. At the timeout,
// it sends REPLICAOF to all remaining replicas at once. If the new primary is down then, the next failover replaces it.
// In Redis the failover would not end before the new primary is back.
func (m *Machine) endFailoverIfDone(p *Instance) {
	if p.chosen == nil {
		return
	}
	timeout := m.now-p.stateSince > p.failoverTimeout
	if p.chosen.is(subjectivelyDown) && !timeout {
		return
	}
	if timeout {
		m.emit(logging.LevelWarning, "+failover-end-for-timeout", p, "")
	} else if slices.ContainsFunc(p.replicas.list, func(r *Instance) bool {
		return !r.is(promoted | reconfDone | subjectivelyDown)
	}) {
		return
	}
	m.emit(logging.LevelWarning, "+failover-end", p, "")
	m.enter(p, updateConfig)
	if !timeout {
		return
	}
	for _, r := range p.replicas.list {
		if !r.is(promoted|reconfDone|reconfSent) && !r.link.disconnected && m.sendReplicaOf(r, &p.chosen.at) {
			m.emit(logging.LevelNotice, "+slave-reconf-sent-be", r, "")
			r.flags |= reconfSent
		}
	}
}

// switchToPromoted switches the primary to the address of the promoted server.
func (m *Machine) switchToPromoted(p *Instance) {
	to := p.at
	if p.chosen != nil {
		to = p.chosen.at
	}
	m.switched(p, m.shown(p.at), p.at.port, m.shown(to), to.port)
	if m.changeAddress(p, to.host, to.port) != nil {
		// The failover goes to the address from when it began.
		_ = m.changeAddress(p, to.ip, to.port)
	}
}

// switched emits the event that clients wait for.
func (m *Machine) switched(p *Instance, fromHost string, fromPort int, toHost string, toPort int) {
	m.say(logging.LevelWarning, "+switch-master", p,
		p.name+" "+fromHost+" "+strconv.Itoa(fromPort)+" "+toHost+" "+strconv.Itoa(toPort))
}

// reconfigureClients runs the script that tells clients a new address.
func (m *Machine) reconfigureClients(p *Instance, leads bool, from, to address) {
	if p.reconfigure == "" {
		return
	}
	role := "observer"
	if leads {
		role = "leader"
	}
	m.schedule(p.reconfigure, p.name, role, "start",
		m.shown(from), strconv.Itoa(from.port), m.shown(to), strconv.Itoa(to.port))
}
