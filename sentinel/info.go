package sentinel

import (
	"strconv"
	"strings"

	"spindle/internal/logging"
)

// A report holds the fields of an INFO that a Sentinel uses.
type report struct {
	runID       string
	replicas    []hostPort // of a primary
	acks        int        // of a primary: how many replicas its replies wait for
	linkDown    int64      // ms
	uptime      int64      // ms
	copying     bool       // a full copy is on its way to it
	role        string     // "master", "slave", or empty
	history     string     // the replication id
	before      string     // the replication id before this one
	until       uint64     // the offset at which before ended
	primaryHost string
	primaryPort int
	primaryUp   bool
	spindle     bool
	priority    *int64
	offset      *uint64
	announced   *bool
}

// A hostPort is a host and a port.
type hostPort struct {
	host string
	port int
}

// neverLinked is the linkDown of a replica that has had no link to its primary since it started.
const neverLinked = 1 << 50

// parseReport reads the lines of an INFO. A replica's fields count only after the line with its role. A field that
// cannot be parsed counts as absent.
func parseReport(info string) (r report) {
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, found := strings.Cut(line, ":")
		switch {
		case !found:
		case name == "run_id" && len(value) >= 40:
			r.runID = value[:40]
		case name == "spindle_version":
			r.spindle = true
		case name == "role" && strings.HasPrefix(value, "master"):
			r.role = "master"
		case name == "role" && strings.HasPrefix(value, "slave"):
			r.role = "slave"
		case name == "master_link_down_since_seconds":
			seconds, _ := strconv.ParseInt(value, 10, 64)
			if r.linkDown = seconds * 1000; seconds < 0 || seconds > 1<<40 {
				r.linkDown = neverLinked
			}
		case name == "uptime_in_seconds":
			seconds, _ := strconv.ParseInt(value, 10, 32)
			r.uptime = seconds * 1000
		case name == "master_replid":
			r.history = value
		case name == "master_replid2":
			r.before = value
		case name == "second_repl_offset":
			next, _ := strconv.ParseUint(value, 10, 64)
			r.until = max(next, 1) - 1
		case name == "ack_replicas_wanted":
			r.acks, _ = strconv.Atoi(value)
		case len(name) > 5 && strings.HasPrefix(name, "slave") && name[5] >= '0' && name[5] <= '9':
			if at, ok := parseHostPort(value); ok {
				r.replicas = append(r.replicas, at)
			}
		case r.role == "slave":
			r.ofReplica(name, value)
		}
	}
	return r
}

// ofReplica reads a line that only replicas have.
func (r *report) ofReplica(name, value string) {
	n, err := strconv.ParseInt(value, 10, 64)
	switch name {
	case "master_host":
		r.primaryHost = value
	case "master_port":
		r.primaryPort = int(n)
	case "master_link_status":
		r.primaryUp = strings.EqualFold(value, "up")
	case "master_sync_in_progress":
		r.copying = err == nil && n != 0
	case "slave_priority":
		if err == nil {
			r.priority = &n
		}
	case "slave_repl_offset":
		if offset, err := strconv.ParseUint(value, 10, 64); err == nil {
			r.offset = &offset
		}
	case "replica_announced":
		if err == nil {
			announced := n != 0
			r.announced = &announced
		}
	}
}

// parseHostPort reads a primary's line for a replica: ip=…,port=…,… or the IP,PORT,… of old servers.
func parseHostPort(value string) (p hostPort, ok bool) {
	fields := strings.Split(value, ",")
	if !strings.Contains(value, "ip=") {
		if len(fields) < 3 {
			return p, false
		}
		p.host = fields[0]
		port, err := strconv.Atoi(fields[1])
		p.port = port
		return p, err == nil && isPort(p.port) && isHost(p.host)
	}
	for _, f := range fields {
		name, text, _ := strings.Cut(f, "=")
		switch name {
		case "ip":
			p.host = text
		case "port":
			port, err := strconv.Atoi(text)
			if err != nil {
				return p, false
			}
			p.port = port
		}
	}
	return p, isPort(p.port) && isHost(p.host)
}

// informed handles an INFO, after the host names in it have been looked up. It drops the INFO if the instance has
// another address by then: that is another server.
func (m *Machine) informed(i *Instance, info string) {
	i.info, i.hasInfo = info, true
	r := parseReport(info)
	hosts := []string{r.primaryHost}
	for _, at := range r.replicas {
		hosts = append(hosts, at.host)
	}
	if i.readingDelayed {
		return // an older INFO waits for names, and a newer one will come
	}
	i.readingDelayed = true
	at, came, held := i.at, m.now, i.hold.answered
	m.withNames(func() {
		i.readingDelayed = false
		if !i.gone && i.at == at {
			i.hold.seen = held
			m.learn(i, r, came)
		}
	}, hosts...)
}

// learn stores a report that came at a time, and acts on it, except in TILT.
func (m *Machine) learn(i *Instance, r report, came int64) {
	i.infoAt, i.infoOf = m.now, came
	if was := i.synced; i.kind == replica {
		defer func() {
			if i.synced != was && i.primary.acks > 0 && !i.gone {
				i.primary.unsaved = m.save() != nil // learnAcks tries again
			}
		}()
	}
	m.learnIdentity(i, r)
	if i.kind == primary {
		if r.role == "master" {
			m.learnAcks(i, r)
		}
		for _, at := range r.replicas {
			m.learnReplica(i, at)
		}
		if i.resetAt != 0 && came >= i.resetAt && r.role == "master" {
			m.forgetUnnamed(i, r)
		}
	}
	i.linkDown, i.uptime = r.linkDown, r.uptime
	switch {
	case r.role == "slave":
		m.learnFollowing(i, r)
	case i.kind == replica && r.role == "master" && i.stillSynced(r):
		i.offset, i.history = r.until, r.before
	default:
		i.synced = false
	}
	if i.kind == replica && i.primary.acks > 0 && i.saysPrimary && r.history != i.reported {
		i.roleSince = m.now // it may have been a replica since the last INFO: each promotion renames the history
	}
	i.reported = r.history
	if says := r.role == "master"; says != i.saysPrimary {
		i.saysPrimary, i.roleSince, i.hold.sentAt = says, m.now, 0
		word, role := "-role-change", "slave"
		if says {
			role = "master"
		} else {
			i.followsSince = m.now
		}
		if says == (i.kind == primary) {
			word = "+role-change"
		}
		m.emit(logging.LevelVerbose, word, i, " new reported role is %s", role)
	}
	if m.tilt || i.kind != replica {
		return // a primary that reports itself a replica will soon count as down
	}
	if r.role == "master" {
		m.replicaIsPrimary(i)
	} else if r.role == "slave" {
		m.checkFollowing(i)
	}
}

// learnAcks records for how many of its replicas a primary's replies wait. If this is new, it is written to disk: after
// a restart, this Sentinel may have to replace the primary before it has heard it.
func (m *Machine) learnAcks(p *Instance, r report) {
	changed := r.acks != p.acks || r.acks > 0 && (len(r.replicas) != p.ackers || r.history != p.history)
	if p.acks, p.ackers, p.history = r.acks, len(r.replicas), r.history; changed || p.unsaved {
		p.unsaved = m.save() != nil
	}
}

// learnIdentity records the run id. A changed run id means that the server was restarted.
func (m *Machine) learnIdentity(i *Instance, r report) {
	if r.runID == "" || r.runID == i.runID {
		return
	}
	if i.runID != "" {
		m.emit(logging.LevelNotice, "+reboot", i, "")
		i.synced = false // its disk may have older data
		if p := i.primary; p != nil && p.chosen == i && p.state == waitPromotion && p.acks > 0 {
			m.chooseAgain(p)
		}
		if i.kind == primary && i.rebootDownAfter != 0 {
			i.flags |= rebooted
			i.rebootSince = m.now
		}
	}
	i.runID = r.runID
}

// replicasMax bounds how many replicas an INFO can add.
const replicasMax = 4096

// learnReplica notes a replica that its primary names, and adds it unless it is known.
func (m *Machine) learnReplica(p *Instance, at hostPort) {
	to, err := m.address(at.host, at.port, false)
	if err != nil {
		return
	}
	if p.replicas.find(m.shownWithPort(to)) != nil || p.replicas.len() >= replicasMax {
		return
	}
	if r, err := m.create(replica, "", at.host, at.port, p.quorum, p); err == nil {
		m.emit(logging.LevelNotice, "+slave", r, "")
		_ = m.save() // save logs the error
	}
}

// learnFollowing records which server a replica follows, and the state of its link.
func (m *Machine) learnFollowing(i *Instance, r report) {
	if r.primaryHost != "" && !strings.EqualFold(r.primaryHost, i.primaryHost) {
		i.primaryHost, i.followsSince, i.hold.sentAt = r.primaryHost, m.now, 0
	}
	if r.primaryPort != i.primaryPort {
		i.primaryPort, i.followsSince, i.hold.sentAt = r.primaryPort, m.now, 0
	}
	i.primaryUp = r.primaryUp
	if p := i.primary; p != nil { // else i is a configured primary that has become a replica
		follows := m.follows(i, p.at)
		kept := i.synced && !i.saysPrimary && r.history == i.history // a full copy that has failed leaves another history
		i.synced = follows && !r.copying && (kept || r.hadLink(p.history))
		i.history = r.history
		if follows && p.acks > 0 && !p.is(failingOver) {
			m.endHold(i)
		}
	}
	if r.priority != nil {
		i.priority = *r.priority
	}
	if r.offset != nil {
		i.offset = *r.offset
	}
	if r.announced != nil {
		i.announced = *r.announced
	}
}

// follows reports whether an instance follows the server at an address, by its last INFO as a replica.
func (m *Machine) follows(i *Instance, at address) bool {
	return i.primaryPort == at.port && m.isAt(at, i.primaryHost)
}

// hadLink reports whether a replica has had a link to its primary since it started, and still has the primary's
// history. If the link has ended meanwhile, only a spindle shows that. A redis-server also counts the time since its
// link to an earlier primary.
func (r *report) hadLink(history string) bool {
	return r.primaryUp || r.spindle && r.linkDown != neverLinked && history != "" && r.history == history
}

// stillSynced reports whether a replica that reports itself a primary has all of its primary's data up to r.until. A
// failover that did not end has promoted it. It may be promoted again: otherwise a group of two would have no primary
// any more.
func (i *Instance) stillSynced(r report) bool {
	history := i.primary.history
	return i.synced && history != "" && r.before == history
}

// replicaIsPrimary handles a replica that reports itself a primary. Either this Sentinel has promoted it, or the
// Sentinel makes it a replica again.
func (m *Machine) replicaIsPrimary(i *Instance) {
	p := i.primary
	if i.is(promoted) && p.is(failingOver) && p.state == waitPromotion {
		if p.acks == 0 || m.now-p.stateSince <= holdFor(p)/2 { // else the others may confirm writes again
			m.promotionSeen(p, i)
		}
		return
	}
	if p.acks > 0 && p.is(failingOver) {
		return // as a replica it would confirm writes that the chosen one may lack
	}
	// Meanwhile another Sentinel may announce its failover.
	wait := 4 * m.publish
	if !i.is(promoted) && m.mayCorrect(i, i.roleSince, wait) && m.sendReplicaOf(i, &p.at) {
		m.emit(logging.LevelNotice, "+convert-to-slave", i, "")
	}
}

// checkFollowing handles a replica that follows the wrong server, and one that makes progress in a failover.
func (m *Machine) checkFollowing(i *Instance) {
	p := i.primary
	if !m.follows(i, p.at) {
		if m.mayCorrect(i, i.followsSince, p.failoverTimeout) && m.sendReplicaOf(i, &p.at) {
			m.emit(logging.LevelNotice, "+fix-slave-config", i, "")
		}
	}
	if i.is(reconfSent) && p.chosen != nil && m.follows(i, p.chosen.at) {
		i.flags = i.flags&^reconfSent | reconfUnderWay
		m.emit(logging.LevelNotice, "+slave-reconf-inprog", i, "")
	}
	if i.is(reconfUnderWay) && i.primaryUp {
		i.flags = i.flags&^reconfUnderWay | reconfDone
		m.emit(logging.LevelNotice, "+slave-reconf-done", i, "")
	}
}

// mayCorrect reports whether this Sentinel may make i a replica of its primary again. i has been something else since
// then, and that must have lasted wait ms. If replies of the primary wait for replicas, most Sentinels must have said
// hello lately. A Sentinel that hears too few may have missed a failover, whose new primary confirms writes. Nor may
// the primary have become a replica meanwhile: two servers that follow each other have no primary.
func (m *Machine) mayCorrect(i *Instance, since, wait int64) bool {
	p := i.primary
	if p.acks > 0 {
		if m.now-p.infoAt > 3*hurriedMs {
			return false
		}
		heard := 1
		for _, s := range p.sentinels.list {
			if m.now-s.heard < 3*m.publish {
				heard++
			}
		}
		if heard < (p.sentinels.len()+1)/2+1 {
			return false
		}
		wait = max(wait, 4*m.publish) // they count as heard at the start
	}
	return m.looksSane(p) && m.upFor(i, wait) && m.now-since > wait
}

// looksSane reports whether a primary also reports itself a primary, and is up.
func (m *Machine) looksSane(p *Instance) bool {
	return p.saysPrimary && !p.is(subjectivelyDown|objectivelyDown) && m.now-p.infoAt < 2*m.info
}
