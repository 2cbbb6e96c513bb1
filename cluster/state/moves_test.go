package state

import (
	"cmp"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"spindle/internal/invariant"
)

// This file simulates slots that move as a whole, as cluster/slotmove does it. Only the hand-over is played, without
// keys: the target asks, the source grants, the target claims.

// A grant is a hand-over that a host has granted.
type grant struct {
	list    []uint16
	untilMs int64 // then it gives up
	ends    bool  // it reclaims the slots
}

// movers is the number of primaries in handingOver. Each has one replica, whose number is greater by that.
const movers = 5

// grantedMs is how long the source waits for the claim. claimMs is how old the target's request may be when it claims.
const (
	grantedMs = 2000
	claimMs   = 1000
)

// send carries a message of a move between two hosts. It is lost if they do not reach each other.
func (w *simulation) send(from, to *host, f func()) {
	w.net.After(1+w.rng.Int64N(20)+from.LagMs+to.LagMs, func() {
		if w.net.Reaches(from.Host, to.Host) {
			to.do(f)
		}
	})
}

// move hands some slots of one host over to another.
func (w *simulation) move(from, to *host) {
	var list []uint16
	first, most := w.rng.IntN(len(from.s.owners)), 1+w.rng.IntN(2000)
	for slot := first; slot < len(from.s.owners) && len(list) < most; slot++ {
		if from.s.owners[slot] == from.s.me {
			list = append(list, uint16(slot))
		}
	}
	id := from.s.me.ID
	if n := to.s.byID[id]; len(list) == 0 || n == nil || from == to || !to.Up() || to.Paused() || to.s.IsReplica() {
		return
	}
	epoch, until := to.s.byID[id].Epoch, to.clock()+claimMs
	w.send(to, from, func() {
		if from.s.IsReplica() || from.s.me.ID != id || from.pausedMs >= w.net.Now() || from.granted != nil {
			return
		}
		for _, slot := range list {
			if from.s.owners[slot] != from.s.me {
				return
			}
		}
		from.granted = &grant{list: list, untilMs: w.net.Now() + grantedMs}
		w.send(from, to, func() {
			s := to.s
			done := func() {
				to.claiming--
				stands := true
				for _, slot := range list {
					stands = stands && s.owners[slot] == s.me
				}
				if stands {
					to.leads = true
					w.stood++
				} else {
					w.fell++
				}
			}
			if s.Claim(list, id, epoch, until, done) {
				to.claiming++
			}
		})
	})
}

// tickGrant has the source of a move continue when it has heard of the claim, or give up.
func (h *host) tickGrant() {
	if h.granted == nil {
		return
	}
	for _, slot := range h.granted.list {
		if h.s.owners[slot] != h.s.me {
			h.granted = nil
			return
		}
	}
	g := h.granted
	if h.w.net.Now() <= g.untilMs || g.ends {
		return
	}
	g.ends = true
	kept := func() {
		if h.granted != g {
			return
		}
		h.granted = nil
		if h.s.owners[g.list[0]] != h.s.me {
			return
		}
		if o := h.heir(); o != nil {
			h.w.fail("host %d reclaims slots that host %d serves", h.at, o.at)
		}
		h.kept = h.s.me.Epoch
		h.w.reclaimed++
	}
	h.use(func() {
		if h.s.Reclaim(g.list, kept); h.w.bug == rash {
			h.s.me.Epoch = h.s.reclaims[0].epoch
			h.s.reclaims = nil
			h.s.pongAll(false)
			kept()
		}
	})
}

// heir returns a host that has won slots of this host by an election or a move, and has a lower epoch.
func (h *host) heir() *host {
	for _, o := range h.w.hosts {
		if o == h || !o.Up() || o.s.IsReplica() || !o.s.OK() || !o.leads || o.s.me.Epoch >= h.s.me.Epoch {
			continue
		}
		for slot, owner := range h.s.owners {
			if owner == h.s.me && o.s.owners[slot] == o.s.me && !o.s.unsure(slot) {
				return o
			}
		}
	}
	return nil
}

// checkHeir fails if a host that has won an election will lose its slots to a source that has reclaimed them.
func (h *host) checkHeir() {
	for _, o := range h.w.hosts {
		if o.Up() && o.kept != 0 && o.kept == o.s.me.Epoch && !o.s.IsReplica() && o.heir() == h {
			h.w.fail("host %d wins an election with epoch %d, but host %d has reclaimed the slots with %d", h.at,
				h.s.me.Epoch, o.at, o.kept)
		}
	}
}

// checkFollows is called when a primary becomes a replica of heir. A host that was elected does not lose its slots to
// its predecessor (state.T4, state.T5, state.T6). A predecessor that took a greater epoch meanwhile is spared, if it
// had not heard of the election.
func (h *host) checkFollows(heir *host) {
	if heir.unheard && heir.s.me.Epoch > h.ledEpoch {
		return
	}
	if h.ledMs > heir.ledMs && heir.at%movers == h.at%movers && heir.Up() {
		h.w.fail("host %d took over at %d, and follows host %d, which did at %d", h.at, h.ledMs-simulationStart, heir.at,
			heir.ledMs-simulationStart)
	}
}

// handingOver plays a cluster of five primaries with a replica each. Slots move, replicas take over as an operator
// wants it, and messages are late. Now and then a host stops, crashes or is cut off. With force, some replicas do not
// wait for their primary.
func handingOver(seed uint64, force bool, trace func(string, ...any)) *simulation {
	const hosts = 2 * movers
	w := newSimulation(seed, hosts, func(i int) string { return nodesConf(i, hosts, movers) })
	w.moves = true
	if trace != nil {
		w.trace = trace
	}
	w.run(2500)
	any := func() *host { return w.hosts[w.rng.IntN(hosts)] }
	for range 40 {
		from, to := any(), any()
		for range 10 {
			if from.s.IsReplica() {
				from = any()
			}
			if to.s.IsReplica() {
				to = any()
			}
		}
		w.trace("%d slots move from host %d to %d", w.since(), from.at, to.at)
		w.net.After(w.rng.Int64N(100), func() { w.move(from, to) })
		for range 2 {
			h := any()
			h.LagMs = w.rng.Int64N(300)
			w.net.After(w.rng.Int64N(1000), func() { h.LagMs = 0 })
		}
		if w.rng.IntN(2) == 0 {
			w.net.After(w.rng.Int64N(200), func() {
				for _, h := range w.hosts {
					if p := h.s.me.Primary; p != nil && (p.ID == from.s.me.ID || p.ID == to.s.me.ID) && w.rng.IntN(2) == 0 {
						w.trace("%d host %d is told to fail over", w.since(), h.at)
						now := force && w.rng.IntN(2) == 0
						h.do(func() { _ = h.s.Failover(now, false) })
					}
				}
			})
		}
		switch h := any(); w.rng.IntN(12) {
		case 0:
			h.Pause()
			w.net.After(w.rng.Int64N(4000), h.Resume)
		case 1:
			if h.Up() {
				h.crash()
				w.net.After(50+w.rng.Int64N(4000), h.boot)
			}
		case 2:
			group := make([]bool, hosts)
			group[h.at] = true
			w.cut(group, true)
			w.net.After(w.rng.Int64N(6000), func() { w.cut(group, false) })
		}
		w.run(w.rng.Int64N(1500))
	}
	w.heal()
	return w
}

// cutOff plays a cluster like that of handingOver. The source of each move stops, or is cut off, when it has granted
// the hand-over. The target may crash, and the source's replica may stand still after it has asked for votes.
func cutOff(seed uint64, bug bug) *simulation {
	const hosts, primaries = 10, 5
	w := newSimulation(seed, hosts, func(i int) string { return nodesConf(i, hosts, primaries) })
	w.moves, w.bug = true, bug
	w.run(2500)
	for range 8 {
		var leaders []*host
		for _, h := range w.hosts {
			if h.s.me.NumSlots > 0 && !h.s.IsReplica() {
				leaders = append(leaders, h)
			}
		}
		w.rng.Shuffle(len(leaders), func(i, j int) { leaders[i], leaders[j] = leaders[j], leaders[i] })
		from, to := leaders[0], leaders[1]
		w.move(from, to)
		for until := w.net.Now() + 100; from.granted == nil && w.net.Now() < until; {
			w.net.Run(w.net.Now() + 1)
		}
		slow := w.hosts[w.rng.IntN(hosts)]
		slow.LagMs = w.rng.Int64N(300)
		lasts := w.rng.Int64N(6 * simulationTimeout)
		group := make([]bool, hosts)
		group[from.at] = true
		switch w.rng.IntN(3) {
		case 0:
			from.Pause()
			w.net.After(lasts, from.Resume)
			clear(group)
		case 1:
			to.crash()
			w.net.After(w.rng.Int64N(6*simulationTimeout), to.boot)
		}
		w.cut(group, true)
		if h := w.replicaOf(from); h != nil && w.rng.IntN(2) == 0 { // it stands still before it reads its votes
			for until := w.net.Now() + 6*simulationTimeout; !h.s.asked && w.net.Now() < until; {
				w.net.Run(w.net.Now() + 1)
			}
			w.net.Run(w.net.Now() + w.rng.Int64N(30))
			h.Pause()
			w.net.After(w.rng.Int64N(2*simulationTimeout), h.Resume)
			lasts = w.rng.Int64N(simulationTimeout / 2)
		}
		w.net.After(lasts, func() { w.cut(group, false) })
		w.run(3*simulationTimeout + w.rng.Int64N(5*simulationTimeout))
		w.heal()
		w.until(wellMs, func() string { return cmp.Or(w.disagreement(), w.unwell()) })
	}
	return w
}

// replicaOf returns a replica of a host; nil: there is none.
func (w *simulation) replicaOf(primary *host) *host {
	for _, h := range w.hosts {
		if p := h.s.me.Primary; h.Up() && p != nil && p.ID == primary.s.me.ID {
			return h
		}
	}
	return nil
}

// TestReclaimSparesHeirs (state.T5): the source of a move is cut off, or stops, after it has granted the hand-over.
// Others take over its slots meanwhile. It does not take them back.
func TestReclaimSparesHeirs(t *testing.T) {
	seeds := uint64(40)
	if invariant.Enabled {
		seeds = 10
	}
	if n, err := strconv.ParseUint(os.Getenv("SPINDLE_CLUSTER_SEEDS"), 10, 32); err == nil && n > 0 {
		seeds = n
	}
	var mu sync.Mutex
	var players sync.WaitGroup
	var next atomic.Uint64
	reclaimed, elections := 0, 0
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for seed := next.Add(1) - 1; seed < seeds; seed = next.Add(1) - 1 {
				w := cutOff(seed, noBug)
				wrong := func() string { return cmp.Or(w.disagreement(), w.unwell()) }
				if took := w.until(agreedMs+wellMs, wrong); took < 0 {
					t.Errorf("seed %d: %d ms after healing:\n%s", seed, agreedMs+wellMs, wrong())
				}
				if w.wrong != "" {
					t.Errorf("seed %d: %s", seed, w.wrong)
				}
				mu.Lock()
				reclaimed, elections = reclaimed+w.reclaimed, elections+w.elections
				mu.Unlock()
			}
		})
	}
	players.Wait()
	t.Logf("%d seeds: %d times slots were kept, %d failovers", seeds, reclaimed, elections)
	if reclaimed < int(seeds)/2 || elections < int(seeds) {
		t.Error("too little has happened")
	}
}

// TestMovedSlotsHaveOneOwner (state.C3, state.T6): slots move as a whole while replicas take over, hosts fail and
// messages are late. Soon after healing all nodes agree about each slot's owner.
func TestMovedSlotsHaveOneOwner(t *testing.T) {
	t.Run("with consent", func(t *testing.T) { movedSlotsHaveOneOwner(t, false) })
	t.Run("by force", func(t *testing.T) { movedSlotsHaveOneOwner(t, true) })
}

func movedSlotsHaveOneOwner(t *testing.T, force bool) {
	from, seeds := uint64(0), uint64(40)
	if invariant.Enabled {
		seeds = 10
	}
	if n, err := strconv.ParseUint(os.Getenv("SPINDLE_CLUSTER_SEEDS"), 10, 32); err == nil && n > 0 {
		seeds = n
	}
	var mu sync.Mutex
	var players sync.WaitGroup
	var next atomic.Uint64
	stood, fell, elections := 0, 0, 0
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for seed := from + next.Add(1) - 1; seed < seeds; seed = from + next.Add(1) - 1 {
				w := handingOver(seed, force, nil)
				wrong := func() string { return cmp.Or(w.disagreement(), w.unwell()) }
				if took := w.until(agreedMs+wellMs, wrong); took < 0 {
					t.Errorf("seed %d: %d ms after healing:\n%s", seed, agreedMs+wellMs, wrong())
				}
				if w.wrong != "" {
					t.Errorf("seed %d: %s", seed, w.wrong)
				}
				mu.Lock()
				stood, fell, elections = stood+w.stood, fell+w.fell, elections+w.elections
				mu.Unlock()
			}
		})
	}
	players.Wait()
	t.Logf("%d seeds: %d claims stood, %d have fallen, %d failovers", seeds, stood, fell, elections)
	if stood < int(seeds) || fell == 0 && seeds >= 40 || elections < int(seeds) { // one claim in 80 falls
		t.Error("too little has happened")
	}
}
