package proxy

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/topology"
)

// slotMoves remembers when slots changed their shard, and shards their primary, for SCAN (proxy.N1). Any goroutine.
type slotMoves struct {
	mu        sync.Mutex
	begun     int64 // Unix seconds; nothing is known of the time before
	of        *topology.Map
	slots     []changes // nil: no slot has moved yet
	primaries map[string]changes
}

// changes are the times of the last ones, the latest first, in Unix seconds.
type changes [passMost]int64

func (c *changes) add(now int64) {
	copy(c[1:], c[:])
	c[0] = now
}

// countSince counts them.
func (c *changes) countSince(then int64) (n int) {
	for _, at := range c {
		if at >= then && at > 0 {
			n++
		}
	}
	return n
}

// now returns the time in Unix seconds. The proxy's first seconds, up to the next unit of scans, count as that unit's
// beginning. Otherwise a scan that begins in them would seem to have begun before the proxy.
func (l *slotMoves) now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time()
}

// time is now for a caller that holds mu.
func (l *slotMoves) time() int64 {
	now := time.Now().Unix()
	if l.begun == 0 {
		l.begun = (now/stampUnit + 1) * stampUnit
	}
	return max(now, l.begun)
}

// note compares m with the map before.
func (l *slotMoves) note(m *topology.Map) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, before := l.time(), l.of
	if l.of = m; before == nil || len(before.Shards) == 0 {
		return
	}
	for _, s := range m.Shards {
		for _, old := range before.Shards {
			if old.ID == s.ID && old.Primary != s.Primary {
				if l.primaries == nil {
					l.primaries = map[string]changes{}
				}
				c := l.primaries[s.ID]
				c.add(now)
				l.primaries[s.ID] = c
			}
		}
	}
	for slot := range m.Slots() {
		a, b := before.Shard(slot), m.Shard(slot)
		if a != b && b != nil && (a == nil || a.ID != b.ID) {
			l.change(slot, m, now)
		}
	}
}

// change notes that keys of a slot have gone to another shard. The caller holds mu.
func (l *slotMoves) change(slot int, m *topology.Map, now int64) {
	if l.slots == nil {
		l.slots = make([]changes, m.Slots())
	}
	l.slots[slot].add(now)
}

// noteStates notes slots whose keys are on their way, or were until now.
func (l *slotMoves) noteStates(before, after *slotStates) {
	if before == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.time()
	for slot, from := range before.source {
		if after.source[slot] != from && l.of != nil {
			l.change(slot, l.of, now)
		}
	}
}

// since returns the indexes of shards of m: those to which slots have moved n times at least since a scan began. A new
// primary counts as a move of all slots of its shard. gets are those that are getting keys now, which counts too.
func (l *slotMoves) since(stamp, n int, m *topology.Map, gets map[int]bool) map[int]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	then := began(stamp, l.time())
	visit := map[int]bool{}
	unknown := 0
	if then < l.begun {
		unknown = 1
	}
	for i, s := range m.Shards {
		c := l.primaries[s.ID]
		if unknown+c.countSince(then) >= n || gets[i] && n == 1 {
			visit[i] = true
		}
	}
	for slot := range l.slots {
		if i := m.Owner(slot); i >= 0 && !visit[i] {
			count := unknown + l.slots[slot].countSince(then)
			if gets[i] {
				count++
			}
			visit[i] = count >= n
		}
	}
	return visit
}

// askMoves asks the shards which of them are getting keys of slots now, or have slots that the map gives to another
// one. It calls do with their indexes. The map may not know yet of what has just moved, and never knows what moves.
//
// Errors: a shard does not answer.
func (w *worker) askMoves(s *session, do func(gets map[int]bool, err *protocol.Error)) {
	gets := map[int]bool{}
	if w.states != nil {
		for slot := range w.states.source {
			if i := w.topology.Owner(slot); i >= 0 {
				gets[i] = true
			}
		}
	}
	if !w.p.hub.isBus {
		do(gets, nil)
		return
	}
	m, left, failed := w.topology, len(w.topology.Shards), (*protocol.Error)(nil)
	s.retries++ // nothing else is served meanwhile
	for i, shard := range m.Shards {
		took := func(p []byte, err *protocol.Error) {
			switch {
			case err != nil:
				failed = err
			case isGetting(p, m, i):
				gets[i] = true
			}
			if left--; left == 0 {
				s.retries--
				do(gets, failed)
				if !s.closed {
					s.goOn()
				}
			}
		}
		if shard.Primary == "" || w.breaker(shard.Primary).isOpen(w.now()) {
			took(nil, errNoPrimary(shard.ID))
			continue
		}
		w.mover().to(shard.Primary)[0].push(call{to: taking(took), slot: -1, fixed: true}, nodesRequest)
	}
}

var nodesRequest = encode("CLUSTER", "NODES")

// A taking is a taker that is a function. A refusal is no reply, and no error.
type taking func(p []byte, err *protocol.Error)

func (f taking) take(_ *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	if refusal != scan.NotRefused {
		p = nil
	}
	f(p, err)
}

// isGetting reads a node's own line in CLUSTER NODES: the ranges of its slots, and [slot-<-ID] for one that it imports.
func isGetting(p []byte, m *topology.Map, shard int) bool {
	for line := range strings.SplitSeq(string(p), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		for _, f := range fields[8:] {
			if strings.Contains(f, "-<-") {
				return true
			}
			first, last, isRange := strings.Cut(f, "-")
			from, err := strconv.Atoi(first)
			to := from
			if isRange && err == nil {
				to, err = strconv.Atoi(last)
			}
			for slot := from; err == nil && slot <= to && slot < m.Slots(); slot++ {
				if m.Owner(slot) != shard {
					return true
				}
			}
		}
	}
	return false
}
