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

// A failoverState is how far a failover has come.
type failoverState uint8

const (
	failoverNone failoverState = iota
	waitStart                  // for the votes
	selectReplica
	sendPromotion
	waitPromotion // for an INFO of the chosen replica that says that it is a primary
	reconfReplicas
	updateConfig // the next tick has the primary stand for the new server
)

// String is what SENTINEL MASTER calls the state.
func (s failoverState) String() string {
	return [...]string{"none", "wait_start", "select_slave", "send_slaveof_noone", "wait_promotion", "reconf_slaves",
		"update_config"}[s]
}

func (m *Machine) enter(p *Instance, s failoverState) { p.state, p.stateSince = s, m.now }

// startFailoverIfDue begins to fail over a primary that is objectively down, unless somebody has tried lately.
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
	m.tell(logging.LevelWarning, "+try-failover", p, "")
	p.failoverStart = m.now + m.rng.Int64N(desyncMs)
}

// abort ends a failover that has changed nothing yet.
func (m *Machine) abort(p *Instance, why string) {
	m.tell(logging.LevelWarning, why, p, "")
	p.flags &^= failingOver | forced
	m.enter(p, failoverNone)
	if p.chosen != nil {
		p.chosen.flags &^= promoted
		p.chosen = nil
	}
}

// failOver goes on with a failover, if there is one.
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

// awaitElection waits until this Sentinel has been elected. A failover that a client asked for needs no election.
func (m *Machine) awaitElection(p *Instance) {
	if leader := m.elected(p, p.failoverEpoch); !strings.EqualFold(leader, m.id) && !p.is(forced) {
		if m.now-p.failoverStart > min(m.election, p.failoverTimeout) {
			m.abort(p, "-failover-abort-not-elected")
		}
		return
	}
	m.tell(logging.LevelWarning, "+elected-leader", p, "")
	if m.crashOnElection {
		m.crash()
		return
	}
	m.enter(p, selectReplica)
	m.tell(logging.LevelWarning, "+failover-state-select-slave", p, "")
}

// crash is what SENTINEL SIMULATE-FAILURE asked for.
func (m *Machine) crash() {
	m.warn("Sentinel CRASH because of SENTINEL simulate-failure")
	m.stopped = true
	m.out.Crash()
}

// choose takes the replica that is to be promoted.
func (m *Machine) choose(p *Instance) {
	r := m.best(p)
	if r == nil {
		m.abort(p, "-failover-abort-no-good-slave")
		return
	}
	m.tell(logging.LevelWarning, "+selected-slave", r, "")
	r.flags |= promoted
	p.chosen = r
	m.enter(p, sendPromotion)
	m.tell(logging.LevelNotice, "+failover-state-send-slaveof-noone", r, "")
}

// best is the replica to promote, or nil: one that had its primary until lately.
//
// A primary that calls itself a replica may have been one for longer than its replicas may be without one, because that
// takes some INFOs to believe. Then any replica will do, where in Redis there is never a primary again.
func (m *Machine) best(p *Instance) *Instance {
	maxLinkDown := 10 * p.downAfter
	if p.is(subjectivelyDown) {
		maxLinkDown += m.now - p.downSince
	}
	r := m.bestOf(p, maxLinkDown)
	if r == nil && !p.saysPrimary {
		r = m.bestOf(p, math.MaxInt64)
	}
	return r
}

// bestOf is the replica to promote among those that are there, whose INFO is fresh, whose link was not down for longer,
// and whose priority is not 0. The lowest priority comes first, then the largest offset, then the smallest run id.
func (m *Machine) bestOf(p *Instance, maxLinkDown int64) *Instance {
	fresh := 3 * m.info
	if p.is(subjectivelyDown) {
		fresh = 5 * m.Periods.ping // its replicas are asked each second
	}
	fit := slices.DeleteFunc(p.replicas.each(), func(r *Instance) bool {
		return r.is(subjectivelyDown|objectivelyDown) || r.link.disconnected || m.now-r.link.availableAt > 5*m.Periods.ping ||
			r.priority == 0 || m.now-r.infoAt > fresh || r.linkDown > maxLinkDown
	})
	if len(fit) == 0 {
		return nil
	}
	return slices.MinFunc(fit, func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(b.offset, a.offset), compareRunIDs(a.runID, b.runID))
	})
}

// compareRunIDs puts an id that is not known last.
func compareRunIDs(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(b, a)
	}
	return strings.Compare(strings.ToLower(a), strings.ToLower(b))
}

// promote tells the chosen replica to be a primary.
func (m *Machine) promote(p *Instance) {
	if !p.chosen.link.disconnected && m.sendReplicaOf(p.chosen, nil) {
		m.tell(logging.LevelNotice, "+failover-state-wait-promotion", p.chosen, "")
		m.enter(p, waitPromotion)
		return
	}
	if m.now-p.stateSince > p.failoverTimeout {
		m.abort(p, "-failover-abort-slave-timeout")
	}
}

// sendReplicaOf has an instance follow a server, or, without one, be a primary. It also has it write that down, and
// close its clients, which then ask anew who the primary is. It says whether the requests have left; what comes of them
// the next INFO shows.
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

// promotionSeen goes on when the chosen replica says that it is a primary. From here on the failover cannot fail: the
// new address has the epoch that this Sentinel has won, and all others will take it.
func (m *Machine) promotionSeen(p, r *Instance) {
	p.configEpoch = p.failoverEpoch
	m.enter(p, reconfReplicas)
	_ = m.save() // it has told the log
	m.tell(logging.LevelWarning, "+promoted-slave", r, "")
	if m.crashOnPromotion {
		m.crash()
		return
	}
	m.tell(logging.LevelWarning, "+failover-state-reconf-slaves", p, "")
	m.reconfigureClients(p, true, p.at, r.at)
	m.hurryHello(p)
}

// reconfigureNext tells replicas of the new primary, parallel-syncs of them at a time.
func (m *Machine) reconfigureNext(p *Instance) {
	underWay := int64(0)
	for _, r := range p.replicas.list {
		if r.is(reconfSent) && m.now-r.reconfSentAt > m.reconfTimeout {
			// It is put right later, as any replica that follows the wrong server. Here Redis lets it hold up the
			// others.
			m.tell(logging.LevelNotice, "-slave-reconf-sent-timeout", r, "")
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
			m.tell(logging.LevelNotice, "+slave-reconf-sent", r, "")
			underWay++
		}
	}
	m.endFailoverIfDone(p)
}

// endFailoverIfDone ends the failover when all replicas that are up follow the new primary, or when it took too long.
// In that case those that were not told are told without further ado.
func (m *Machine) endFailoverIfDone(p *Instance) {
	if p.chosen == nil || p.chosen.is(subjectivelyDown) {
		return
	}
	timeout := m.now-p.stateSince > p.failoverTimeout
	if timeout {
		m.tell(logging.LevelWarning, "+failover-end-for-timeout", p, "")
	} else if slices.ContainsFunc(p.replicas.list, func(r *Instance) bool {
		return !r.is(promoted | reconfDone | subjectivelyDown)
	}) {
		return
	}
	m.tell(logging.LevelWarning, "+failover-end", p, "")
	m.enter(p, updateConfig)
	if !timeout {
		return
	}
	for _, r := range p.replicas.list {
		if !r.is(promoted|reconfDone|reconfSent) && !r.link.disconnected && m.sendReplicaOf(r, &p.chosen.at) {
			m.tell(logging.LevelNotice, "+slave-reconf-sent-be", r, "")
			r.flags |= reconfSent
		}
	}
}

// switchToPromoted has the primary stand for the server that was promoted.
func (m *Machine) switchToPromoted(p *Instance) {
	to := p.at
	if p.chosen != nil {
		to = p.chosen.at
	}
	m.switched(p, m.shown(p.at), p.at.port, m.shown(to), to.port)
	if m.changeAddress(p, to.host, to.port) != nil {
		// The name was resolved when the failover began. Its address from then will do.
		_ = m.changeAddress(p, to.ip, to.port)
	}
}

// switched makes the event that clients wait for.
func (m *Machine) switched(p *Instance, fromHost string, fromPort int, toHost string, toPort int) {
	m.say(logging.LevelWarning, "+switch-master", p,
		p.name+" "+fromHost+" "+strconv.Itoa(fromPort)+" "+toHost+" "+strconv.Itoa(toPort))
}

// reconfigureClients runs the script that tells clients of a new address.
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
