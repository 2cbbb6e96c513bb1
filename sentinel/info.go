package sentinel

import (
	"strconv"
	"strings"

	"spindle/internal/logging"
)

// A report is what an INFO says, as far as a Sentinel asks.
type report struct {
	runID       string
	replicas    []place // of a primary
	linkDown    int64   // ms
	role        string  // "master", "slave", or empty
	primaryHost string
	primaryPort int
	primaryUp   bool
	priority    *int64
	offset      *uint64
	announced   *bool
}

// A place is a host and a port.
type place struct {
	host string
	port int
}

// parseReport reads the lines of an INFO. Fields of a replica count from the line on that says that it is one. What
// cannot be read counts as absent.
func parseReport(info string) (r report) {
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, found := strings.Cut(line, ":")
		switch {
		case !found:
		case name == "run_id" && len(value) >= 40:
			r.runID = value[:40]
		case name == "role" && strings.HasPrefix(value, "master"):
			r.role = "master"
		case name == "role" && strings.HasPrefix(value, "slave"):
			r.role = "slave"
		case name == "master_link_down_since_seconds":
			seconds, _ := strconv.ParseInt(value, 10, 64)
			if r.linkDown = seconds * 1000; seconds < 0 || seconds > 1<<40 {
				r.linkDown = 1 << 50 // it never stood, or for longer than any limit
			}
		case len(name) > 5 && strings.HasPrefix(name, "slave") && name[5] >= '0' && name[5] <= '9':
			if at, ok := parsePlace(value); ok {
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

// parsePlace reads a primary's line of a replica: ip=…,port=…,… or the IP,PORT,… of old servers.
func parsePlace(value string) (p place, ok bool) {
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

// informed takes an INFO: when the host names in it have been looked up.
func (m *Machine) informed(i *Instance, info string) {
	i.info, i.hasInfo = info, true
	r := parseReport(info)
	hosts := []string{r.primaryHost}
	for _, at := range r.replicas {
		hosts = append(hosts, at.host)
	}
	if i.readingDelayed {
		return // an older one waits for names, and a newer one comes
	}
	i.readingDelayed = true
	m.withNames(func() {
		i.readingDelayed = false
		if !i.gone {
			m.learn(i, r)
		}
	}, hosts...)
}

// learn takes in a report, and then acts on it, unless in TILT.
func (m *Machine) learn(i *Instance, r report) {
	m.learnIdentity(i, r)
	if i.kind == primary {
		for _, at := range r.replicas {
			m.learnReplica(i, at)
		}
	}
	i.linkDown = r.linkDown
	if r.role == "slave" {
		m.learnFollowing(i, r)
	}
	i.infoAt = m.now
	if says := r.role == "master"; says != i.saysPrimary {
		i.saysPrimary, i.roleSince = says, m.now
		word, role := "-role-change", "slave"
		if says {
			role = "master"
		} else {
			i.followsSince = m.now
		}
		if says == (i.kind == primary) {
			word = "+role-change"
		}
		m.tell(logging.LevelVerbose, word, i, " new reported role is %s", role)
	}
	if m.tilt || i.kind != replica {
		return // a primary that says that it is a replica is soon taken for down
	}
	if r.role == "master" {
		m.replicaIsPrimary(i)
	} else if r.role == "slave" {
		m.checkFollowing(i)
	}
}

// learnIdentity notes the run id. Another one means that the server was started anew.
func (m *Machine) learnIdentity(i *Instance, r report) {
	if r.runID == "" || r.runID == i.runID {
		return
	}
	if i.runID != "" {
		m.tell(logging.LevelNotice, "+reboot", i, "")
		if i.kind == primary && i.rebootDownAfter != 0 {
			i.flags |= rebooted
			i.rebootSince = m.now
		}
	}
	i.runID = r.runID
}

// replicasMax bounds what an INFO can make a Sentinel watch.
const replicasMax = 4096

// learnReplica enters a replica of the primary's, unless it is known.
func (m *Machine) learnReplica(p *Instance, at place) {
	to, err := m.address(at.host, at.port, false)
	if err != nil || p.replicas.find(m.shownWithPort(to)) != nil || p.replicas.len() >= replicasMax {
		return
	}
	if r, err := m.create(replica, "", at.host, at.port, p.quorum, p); err == nil {
		m.tell(logging.LevelNotice, "+slave", r, "")
		_ = m.save() // it has told the log
	}
}

// learnFollowing notes whom a replica follows, and how.
func (m *Machine) learnFollowing(i *Instance, r report) {
	if r.primaryHost != "" && !strings.EqualFold(r.primaryHost, i.primaryHost) {
		i.primaryHost, i.followsSince = r.primaryHost, m.now
	}
	if r.primaryPort != i.primaryPort {
		i.primaryPort, i.followsSince = r.primaryPort, m.now
	}
	i.primaryUp = r.primaryUp
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

// replicaIsPrimary acts on a replica that says that it is a primary: it was promoted by us, or it has to be told.
func (m *Machine) replicaIsPrimary(i *Instance) {
	p := i.primary
	if i.is(promoted) && p.is(failingOver) && p.state == waitPromotion {
		m.promotionSeen(p, i)
		return
	}
	// It gets some time, in which the news of another Sentinel's failover may arrive.
	wait := 4 * m.publish
	if !i.is(promoted) && m.looksSane(p) && m.upFor(i, wait) && m.now-i.roleSince > wait && m.sendReplicaOf(i, &p.at) {
		m.tell(logging.LevelNotice, "+convert-to-slave", i, "")
	}
}

// checkFollowing acts on a replica that follows another server than it should, or that has come further in being
// reconfigured.
func (m *Machine) checkFollowing(i *Instance) {
	p := i.primary
	if i.primaryPort != p.at.port || !m.isAt(p.at, i.primaryHost) {
		wait := p.failoverTimeout
		if m.looksSane(p) && m.upFor(i, wait) && m.now-i.followsSince > wait && m.sendReplicaOf(i, &p.at) {
			m.tell(logging.LevelNotice, "+fix-slave-config", i, "")
		}
	}
	if i.is(reconfSent) && p.chosen != nil && i.primaryPort == p.chosen.at.port && m.isAt(p.chosen.at, i.primaryHost) {
		i.flags = i.flags&^reconfSent | reconfUnderWay
		m.tell(logging.LevelNotice, "+slave-reconf-inprog", i, "")
	}
	if i.is(reconfUnderWay) && i.primaryUp {
		i.flags = i.flags&^reconfUnderWay | reconfDone
		m.tell(logging.LevelNotice, "+slave-reconf-done", i, "")
	}
}

// looksSane says whether a primary is one by its own word, too, and is up.
func (m *Machine) looksSane(p *Instance) bool {
	return p.saysPrimary && !p.is(subjectivelyDown|objectivelyDown) && m.now-p.infoAt < 2*m.info
}
