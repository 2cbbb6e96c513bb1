package state

import (
	"slices"

	"spindle/internal/logging"
)

// This file lets the former owner keep slots of a move, because it has not heard of the new owner's claim in time. It
// needs a greater epoch than the claim. With that epoch it would also beat its own replica, if the others have
// elected one meanwhile. This node may have been cut off, or its process may have stood still. So it asks first.
//
//	former owner                      other primaries
//	chooses epoch 1048583
//	                 ──── ping ────▶  vote for no replica with a lower epoch from now on
//	                 ◀─── pong ─────
//	a majority has answered: waits
//	                 ◀── update ────  if another node has the slots: the former owner loses them
//	                 ──── ping ────▶
//	                 ◀─── pong ─────
//	a majority has answered: waits for updates on other connections
//	takes the epoch and saves it, clients go on
//
// state.T5. The epoch is fixed before the first ping, which tells it as the current epoch. Primaries that have answered
// give no vote for a lower one, also after a restart. If a replica has enough votes already, it wins while its votes
// count. The wait is longer than that, and this node hears of it. A replica that is elected later has a greater epoch,
// and wins. The wait counts ticks, so that news which came while this node stood still is read before its end. Until
// then this node claims no slots that move here as a whole, because such a claim has a new epoch, too. A claim that is
// not decided yet keeps its epoch: the node waits for it.

// A reclaim is an attempt to keep slots with a greater epoch.
type reclaim struct {
	slots []uint16
	epoch uint64
	step  int    // the steps that are done; see mayRaise
	ticks int    // to wait in this step
	done  func() // for the errand
}

// reclaimBy is by how much a reclaim raises the epoch. The other node of a move has raised its own with each claim
// since (state.T3), in seconds at most: those are fewer claims.
const reclaimBy = 1 << 20

// Reclaim raises this node's epoch above that of any claim to slots which was made before the call. It does so when a
// majority of primaries knows no new owner of them (state.T5). done becomes an errand when the epoch is raised, or a
// slot is lost. Owner tells which. In a minority neither happens.
func (s *State) Reclaim(list []uint16, done func()) {
	s.current = s.maxEpoch() + reclaimBy
	s.save(true)
	s.log(logging.LevelNotice, "Asking the other primaries before this node takes configEpoch %d", s.current)
	s.reclaims = append(s.reclaims, &reclaim{slots: list, epoch: s.current, done: done})
	s.tellAgain()
}

// settleReclaims ends the reclaims that may raise the epoch, or have come too late.
func (s *State) settleReclaims() {
	s.reclaims = slices.DeleteFunc(s.reclaims, func(r *reclaim) bool {
		lost := slices.ContainsFunc(r.slots, func(slot uint16) bool { return s.owners[slot] != s.me })
		if !lost && !s.mayRaise(r) {
			return false
		}
		if !lost {
			s.me.Epoch = max(s.me.Epoch, r.epoch)
			s.log(logging.LevelNotice, "New configEpoch set to %d", s.me.Epoch)
			s.save(true)
			s.pongAll(false)
		}
		s.out.Ask(Errand{Kind: Taken, Done: r.done})
		return true
	})
}

// The steps of a reclaim.
const (
	reclaimAsks   = iota // for the answers to the first pings
	reclaimWaits         // for the end of an election that began before them
	reclaimAsks2         // for the answers to the second pings
	reclaimReads         // for updates that were sent before these
	reclaimRaises        // the epoch may be raised
)

// mayRaise reports whether a reclaim may raise the epoch (state.T5). It takes the next step, if it is time.
func (s *State) mayRaise(r *reclaim) bool {
	if !s.isHeard(nil) || s.Contested() || len(s.taken) > 0 || r.ticks > 0 {
		return false
	}
	switch r.step++; r.step {
	case reclaimWaits:
		r.ticks = int(s.voting()/TickMs) + 2
	case reclaimAsks2:
		s.tellAgain()
	case reclaimReads:
		r.ticks = 2
	}
	return r.step == reclaimRaises
}

// tickReclaims lets a tick of each wait pass.
func (s *State) tickReclaims() {
	for _, r := range s.reclaims {
		r.ticks = max(r.ticks-1, 0)
	}
}
