package sentinel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spindle/tests/testkit/simnet"
)

// An ackSim is one run of Sentinels over servers with data, whose replies wait for replicas.
type ackSim struct {
	*sim
	servers   []*ackServer
	acks      int
	next      uint64 // the number of the last write
	confirmed map[uint64]bool
	calmAt    int64 // since when the faults are over; 0: they are not. Later, holds end in time
	late      int   // holds that ended so, because no Sentinel has ended them
	names     int
}

// name returns a new run id or replication id.
func (s *ackSim) name(kind string) string {
	s.names++
	return fmt.Sprintf("%s%039d", kind, s.names)
}

// note adds a line to what a failure shows.
func (s *ackSim) note(format string, args ...any) {
	s.history = append(s.history, fmt.Sprint(s.net.Now(), " ", fmt.Sprintf(format, args...)))
}

// waitsForAll reports whether replies wait for all replicas.
func (s *ackSim) waitsForAll() bool { return s.acks == len(s.servers)-1 }

// newAckSim makes a primary with replicas, some of which replies wait for, and three Sentinels.
func newAckSim(seed uint64, replicas, acks int) *ackSim {
	s := &ackSim{sim: newSim(seed, 3, 0, false), acks: acks, confirmed: map[uint64]bool{}}
	s.unelected[0] = true // SENTINEL MONITOR gives it
	for i := range replicas + 1 {
		server := &ackServer{sim: s, host: s.net.Host(fmt.Sprintf("10.0.0.%d", i+1)), priority: 100 + s.net.Rand.Int64N(2)}
		if i > 0 {
			server.follows = "10.0.0.1"
		}
		s.servers = append(s.servers, server)
		server.boot()
	}
	s.booted = func(h *simnet.Host) {
		for _, server := range s.servers {
			if server.host == h {
				server.boot()
			}
		}
	}
	return s
}

// run starts faults for some time, and ends them all. Then there must be one primary, which has all confirmed writes,
// and confirms more.
func (s *ackSim) run(faultsMs, calmMs int64) {
	r := s.net.Rand
	s.net.Run(s.net.Now() + 25_000) // until all know all
	for until := s.net.Now() + faultsMs; s.net.Now() < until && s.failed == ""; {
		s.net.Run(s.net.Now() + 200 + r.Int64N(4000))
		s.check()
		s.fault()
	}
	s.note("calm")
	s.calmAt = s.net.Now()
	s.net.Heal()
	for _, h := range s.net.Hosts() {
		h.Resume()
		s.restart(h)
	}
	for _, w := range s.sentinels {
		w.badDisk = false
	}
	for until := s.net.Now() + calmMs; s.net.Now() < until && s.failed == ""; {
		s.net.Run(s.net.Now() + 1000)
		s.check()
		if s.whyNot() == "" {
			break
		}
	}
	if why := s.whyNot(); s.failed == "" && why != "" {
		s.fail("%d s after the last fault: %s", calmMs/1000, why)
		return
	}
	before := len(s.confirmed)
	s.net.Run(s.net.Now() + 3000)
	if s.failed == "" && len(s.confirmed) == before {
		s.fail("nothing is confirmed any more")
	}
	lost := len(s.confirmed)
	for _, one := range s.servers {
		for _, id := range one.log {
			if one.follows == "" && s.confirmed[id] {
				lost--
			}
		}
	}
	if lost > 0 {
		s.fail("%d of %d confirmed writes are lost", lost, len(s.confirmed))
	}
}

// fault starts or ends a random fault, or runs a command of an operator. Hosts that are down start more often than with
// sim.fault, so that most of the time there are enough of them for failovers.
func (s *ackSim) fault() {
	r := s.net.Rand
	switch w := s.sentinels[r.IntN(len(s.sentinels))]; r.IntN(12) {
	case 0, 1, 2:
		down := slices.DeleteFunc(slices.Clone(s.net.Hosts()), (*simnet.Host).Up)
		if len(down) > 0 {
			s.restart(down[r.IntN(len(down))])
		}
	case 3:
		s.servers[r.IntN(len(s.servers))].priority = 100 + r.Int64N(2)
	case 4: // a replica gets no writes, but all Sentinels hear it
		one := r.IntN(len(s.servers))
		s.net.Cut(s.servers[one].host, s.servers[(one+1)%len(s.servers)].host, true)
	case 5:
		if w.host.Up() && !w.host.Paused() && !s.isFailingOver() {
			s.operate(w, r.IntN(3))
		}
	default:
		s.sim.fault()
	}
}

// operate runs a command of an operator at a Sentinel, if doc/acks.md allows it now.
func (s *ackSim) operate(w *simHost, command int) {
	m := w.machine
	m.now = s.net.Now()
	p := m.primaries.find("m")
	switch {
	case command == 0 && m.best(p) != nil:
		s.note("SENTINEL FAILOVER at %s", w.host.Name)
		m.startFailover(p)
		p.flags |= forced
	case command == 1 && s.isWhole():
		s.note("SENTINEL RESET at %s", w.host.Name)
		m.relearn(p)
	case command == 2 && s.isWhole():
		s.note("SENTINEL REMOVE and MONITOR at %s", w.host.Name)
		m.release(p)
		again, err := m.monitor("m", p.at.ip, p.at.port, p.quorum)
		if err != nil {
			s.fail("%s cannot watch the primary again: %v", w.host.Name, err)
			return
		}
		again.downAfter, again.failoverTimeout = p.downAfter, p.failoverTimeout
		_ = m.save() // a disk that fails is one of the faults
	}
}

// isFailingOver reports whether a Sentinel fails over.
func (s *ackSim) isFailingOver() bool {
	return slices.ContainsFunc(s.sentinels, func(w *simHost) bool {
		return w.host.Up() && w.machine.primaries.find("m").is(failingOver)
	})
}

// isWhole reports whether all hosts are up, and all servers have their roles and links.
func (s *ackSim) isWhole() bool {
	return s.whyNot() == "" && !slices.ContainsFunc(s.net.Hosts(), func(h *simnet.Host) bool {
		return !h.Up() || h.Paused()
	})
}

// whyNot returns what is still wrong.
func (s *ackSim) whyNot() string {
	var at string
	for _, w := range s.sentinels {
		p := w.machine.primaries.find("m")
		switch here := p.current().ip; {
		case at == "":
			at = here
		case at != here:
			return fmt.Sprintf("%s names %s, and not %s", w.host.Name, here, at)
		}
		if p.is(failingOver) {
			return w.host.Name + " still fails over"
		}
	}
	for _, server := range s.servers {
		if server.host.Name == at && server.follows != "" {
			return at + " is no primary"
		}
		if server.host.Name != at && (server.follows != at || !server.up) {
			return fmt.Sprintf("%s follows %q (up %v), and not %s", server.host.Name, server.follows, server.up, at)
		}
		if server.follows != "" && len(server.holds) > 0 { // on a primary they have no effect
			return server.host.Name + " is held"
		}
	}
	return ""
}

// TestConfirmedWritesStay: replies wait for one or both of two replicas, or for the only one. Hosts are cut off, crash
// or stop, and disks fail. Operators use Sentinels as doc/acks.md says. No confirmed write is lost. In the end all
// Sentinels agree on one primary, all other servers follow it without a hold, and it confirms writes.
func TestConfirmedWritesStay(t *testing.T) {
	failovers, confirmed, late, n := 0, 0, 0, simSeeds()/2
	for seed := range n {
		s := newAckSim(seed, [...]int{2, 2, 1}[seed%3], [...]int{1, 2, 1}[seed%3])
		s.run(90_000, 250_000)
		failovers += s.failovers
		confirmed += len(s.confirmed)
		late += s.late
		if s.failed != "" {
			t.Fatalf("seed %d: %s\n%s", seed, s.failed, strings.Join(s.history[max(0, len(s.history)-60):], "\n"))
		}
	}
	// One may be late: a Sentinel dies, and its request to confirm nothing arrives after the end from its next life.
	if late > int(n)/50+1 {
		t.Errorf("in %d seeds, %d holds ended only in time", n, late)
	}
	if failovers < int(n)*2/3 {
		t.Errorf("only %d failovers in %d seeds", failovers, n)
	}
	t.Logf("count: %d failovers, %d confirmed writes, 0 lost", failovers, confirmed)
}
