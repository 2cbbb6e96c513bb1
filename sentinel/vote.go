package sentinel

import (
	"strconv"
	"strings"

	"spindle/internal/logging"
)

// vote votes for a candidate in an epoch, unless this Sentinel has voted in that epoch or a later one. It returns the
// current vote, with its epoch.
//
// The vote is on disk when vote returns (sentinel.M2). A vote that could not be written was not given.
func (m *Machine) vote(p *Instance, epoch uint64, candidate string) (leader string, of uint64) {
	if epoch > m.epoch {
		before := m.epoch
		m.epoch = epoch
		if m.save() != nil {
			m.epoch = before
			return p.leader, p.leaderEpoch
		}
		m.say(logging.LevelWarning, "+new-epoch", p, strconv.FormatUint(m.epoch, 10))
	}
	if p.leaderEpoch >= epoch || m.epoch > epoch {
		return p.leader, p.leaderEpoch
	}
	oldLeader, oldEpoch := p.leader, p.leaderEpoch
	p.leader, p.leaderEpoch = candidate, epoch
	if m.save() != nil {
		p.leader, p.leaderEpoch = oldLeader, oldEpoch
		return oldLeader, oldEpoch
	}
	m.say(logging.LevelWarning, "+vote-for-leader", p, p.leader+" "+strconv.FormatUint(epoch, 10))
	if !strings.EqualFold(candidate, m.id) {
		// The candidate gets time to fail over before this Sentinel tries its own failover.
		p.failoverStart = m.now + m.rng.Int64N(desyncMs)
	}
	return p.leader, p.leaderEpoch
}

// elected returns the Sentinel that has won an epoch, or "". The winner has the votes of a majority of all known
// Sentinels, and at least quorum votes. If this Sentinel has not voted, it votes now, for the leader so far or for
// itself.
func (m *Machine) elected(p *Instance, epoch uint64) string {
	votes := map[string]int64{}
	winner, most := "", int64(0)
	count := func(leader string) {
		votes[leader]++
		if votes[leader] > most {
			winner, most = leader, votes[leader]
		}
	}
	for _, s := range p.sentinels.list {
		if s.leader != "" && s.leaderEpoch == epoch {
			count(s.leader)
		}
	}
	candidate := winner
	if candidate == "" {
		candidate = m.id
	}
	if mine, of := m.vote(p, epoch, candidate); mine != "" && of == epoch {
		count(mine)
	}
	voters := int64(p.sentinels.len()) + 1
	if most < voters/2+1 || most < p.quorum {
		return ""
	}
	return winner
}
