package sentinel

import (
	"fmt"
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
	for i := range replicas + 1 {
		server := &ackServer{sim: s, host: s.net.Host(fmt.Sprintf("10.0.0.%d", i+1))}
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
		if len(server.holds) > 0 {
			return server.host.Name + " is held"
		}
	}
	return ""
}

// TestConfirmedWritesStay: replies wait for one or both of two replicas, or for the only one. Hosts are cut off, crash
// or stop, and disks fail. No confirmed write is lost. In the end all Sentinels agree on one primary, all other servers
// follow it, and it confirms writes.
func TestConfirmedWritesStay(t *testing.T) {
	failovers, confirmed, n := 0, 0, simSeeds()/2
	for seed := range n {
		s := newAckSim(seed, [...]int{2, 2, 1}[seed%3], [...]int{1, 2, 1}[seed%3])
		s.run(90_000, 250_000)
		failovers += s.failovers
		confirmed += len(s.confirmed)
		if s.failed != "" {
			t.Fatalf("seed %d: %s\n%s", seed, s.failed, strings.Join(s.history[max(0, len(s.history)-60):], "\n"))
		}
	}
	if failovers < int(n)/3 {
		t.Errorf("only %d failovers in %d seeds", failovers, n)
	}
	t.Logf("count: %d failovers, %d confirmed writes, 0 lost", failovers, confirmed)
}
