package sentinel

import (
	"strconv"
	"strings"

	"spindle/internal/logging"
	"spindle/protocol/respclient"
)

// checkSubjectively decides whether this Sentinel sees the instance down. It also closes connections that seem open but
// deliver nothing.
func (m *Machine) checkSubjectively(i *Instance) {
	l := i.link
	silent := int64(0)
	switch {
	case l.pingingSince != 0:
		silent = m.now - l.pingingSince
	case l.disconnected:
		silent = m.now - l.availableAt
	}
	if l.commands != nil && m.now-l.commandsAt > m.reconnect && l.pingingSince != 0 &&
		m.now-l.pingingSince > i.downAfter/2 && m.now-l.pongAt > i.downAfter/2 {
		l.hangUp(l.commands)
	}
	if l.channel != nil && m.now-l.channelAt > m.reconnect && m.now-l.heardAt > 3*m.publish {
		l.hangUp(l.channel)
	}
	// A primary that has reported itself a replica for long enough counts as down. So does a primary that was restarted
	// and has not replied to a PING since.
	denies := i.kind == primary && !i.saysPrimary && m.now-i.roleSince > i.downAfter+2*m.info
	restarted := i.is(rebooted) && m.now-i.rebootSince > i.rebootDownAfter
	switch down := silent > i.downAfter || denies || restarted; {
	case down && !i.is(subjectivelyDown):
		m.emit(logging.LevelWarning, "+sdown", i, "")
		i.downSince = m.now
		i.flags |= subjectivelyDown
	case !down && i.is(subjectivelyDown):
		m.emit(logging.LevelWarning, "-sdown", i, "")
		i.flags &^= subjectivelyDown | scriptKilled
	}
}

// checkObjectively decides whether enough Sentinels have recently reported the primary down.
func (m *Machine) checkObjectively(p *Instance) {
	agree := int64(0)
	if p.is(subjectivelyDown) {
		agree = 1
		for _, s := range p.sentinels.list {
			if s.is(saysPrimaryDown) {
				agree++
			}
		}
	}
	switch down := agree >= p.quorum && agree > 0; {
	case down && !p.is(objectivelyDown):
		m.emit(logging.LevelWarning, "+odown", p, " #quorum %d/%d", agree, p.quorum)
		p.flags |= objectivelyDown
		p.odownSince = m.now
	case !down && p.is(objectivelyDown):
		m.emit(logging.LevelWarning, "-odown", p, "")
		p.flags &^= objectivelyDown
	}
}

// askOthers asks the other Sentinels whether they see the primary down that this Sentinel sees down. During a failover
// it also asks for their votes. With now it also asks Sentinels that have just replied.
func (m *Machine) askOthers(p *Instance, now bool) {
	for _, s := range p.sentinels.list {
		since := m.now - s.answered
		if since > 5*m.ask {
			s.flags &^= saysPrimaryDown
			s.leader = ""
		}
		if !p.is(subjectivelyDown) || s.link.disconnected || !now && since < m.ask {
			continue
		}
		candidate := "*"
		if p.state != failoverNone {
			candidate = m.id
		}
		m.request(s, toAsk, "SENTINEL", "is-master-down-by-addr",
			m.shown(p.at), strconv.Itoa(p.at.port), strconv.FormatUint(m.epoch, 10), candidate)
	}
}

// answeredDown handles another Sentinel's reply: whether it sees the primary down, and its vote.
func (m *Machine) answeredDown(s *Instance, v respclient.Value) {
	if v.Kind != '*' || len(v.Elems) != 3 || v.Elems[0].Kind != ':' || v.Elems[1].Kind != '$' || v.Elems[1].Null ||
		v.Elems[2].Kind != ':' {
		return
	}
	s.answered = m.now
	if v.Elems[0].Int == 1 {
		s.flags |= saysPrimaryDown
	} else {
		s.flags &^= saysPrimaryDown
	}
	if leader := v.Elems[1].Text; leader != "*" {
		epoch := uint64(v.Elems[2].Int)
		if s.leaderEpoch != epoch {
			m.warn("%s voted for %s %d", s.name, leader, epoch)
		}
		s.leader, s.leaderEpoch = leader, epoch
	}
}

// isDownReply returns the reply to another Sentinel. down is 1 if this Sentinel sees the primary at host:port down. If
// candidate is given, leader is this Sentinel's vote and of is the vote's epoch. leader is "*" without a vote.
func (m *Machine) isDownReply(host string, port, epoch int64, candidate string) (down int64, leader string, of uint64) {
	p := m.findPrimary(host, port)
	if p == nil {
		return 0, "*", 0
	}
	if !m.tilt && p.is(subjectivelyDown) {
		down = 1
	}
	if candidate != "" && candidate != "*" && isPlain(candidate) && epoch >= 0 {
		leader, of = m.vote(p, uint64(epoch), candidate)
	}
	if leader == "" {
		leader = "*"
	}
	return down, leader, of
}

// findPrimary returns the primary at an address.
func (m *Machine) findPrimary(host string, port int64) *Instance {
	if port < 0 || port > 65535 {
		return nil
	}
	ip, ok := m.ipOf(host)
	for _, p := range m.primaries.list {
		if p.at.port == int(port) && (ok && p.at.ip == ip || strings.EqualFold(p.at.host, host)) {
			return p
		}
	}
	return nil
}
