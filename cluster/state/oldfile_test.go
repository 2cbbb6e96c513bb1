package state

import (
	"cmp"
	"fmt"
	"testing"
)

// roles names a node whose core and state have different roles.
func (w *simulation) roles() string {
	for _, h := range w.hosts {
		if h.Up() && h.follows != h.find(h.s.Me().Primary) {
			return fmt.Sprintf("host %d follows host %d, and is %s", h.at, h.follows, h.line(h.s.Me()))
		}
	}
	return ""
}

// TestOldFile: a node starts with a nodes.conf of before a failover. Soon all nodes agree again, and each core has the
// role that its node has.
func TestOldFile(t *testing.T) {
	for try := range 8 {
		old := []int{0, 1, 3, 4}[try/2] // the old primary, another one, the new primary, another replica
		t.Run(fmt.Sprintf("host %d, acks %d", old, try%2), func(t *testing.T) {
			w := newSimulation(uint64(old), 6, func(i int) string { return nodesConf(i, 6, 3) })
			if w.acks = int64(try % 2); w.acks > 0 {
				w.kept = map[int]*write{}
				for _, h := range w.hosts {
					h.do(func() { h.s.Apply(h.terms()) })
				}
			}
			all := func() string { return cmp.Or(w.unwell(), w.disagreement(), w.roles()) }
			w.run(2500)
			h, disk := w.hosts[old], w.hosts[old].disk
			w.hosts[3].do(func() { _ = w.hosts[3].s.Failover(true, false) })
			w.run(1000)
			if w.until(wellMs, all) < 0 || w.hosts[3].s.IsReplica() {
				t.Fatalf("no failover: %s", all())
			}
			h.crash()
			h.disk = disk
			h.boot()
			w.run(1000)
			if patience := wellMs + h.s.unownedFor(); w.until(patience, all) < 0 || w.wrong != "" {
				t.Errorf("%d ms after the start: %s%s", patience, all(), w.wrong)
			}
		})
	}
}
