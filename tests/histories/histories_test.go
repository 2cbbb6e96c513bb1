package histories

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// live lets clients call while f acts on the site, and returns their history.
func (s *site) live(f func(h *history)) *history {
	s.t.Helper()
	h := &history{began: time.Now()}
	w := &crew{clients: 6, kinds: mix, servers: s.servers}
	all := s.run(h, w)
	h.load.clients, h.load.perSecond = min(4*testkit.Scale(), 16), s.plan.load
	loading := h.load.run(s)
	f(h)
	w.stop.Store(true)
	h.load.stop.Store(true)
	all.Wait()
	loading.Wait()
	h.finish(s)
	return h
}

// acks has replies wait for n replicas, and no longer than timeoutMs.
func acks(n, timeoutMs int, more ...any) []any {
	return append([]any{"min-replicas-to-ack", n, "ack-timeout", timeoutMs}, more...)
}

// randomly returns a source of chance, and logs its seed.
func randomly(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestCheckersFind: the models find lost writes; otherwise the other tests would prove nothing. Sites whose replies
// wait for no replica lose acknowledged writes when the primary is cut off with its clients. The models report it.
func TestCheckersFind(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]plan{"redis-server": {redis: true}, "Cluster": {cluster: true},
		"a redis-server among the replicas": {mixed: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.load = 2000
			s := newSite(t, randomly(t), p)
			kinds := map[byte]bool{}
			testkit.Until(t, testkit.Slowly(5*time.Minute), "findings of each kind", func() error {
				h := s.live(func(*history) { s.cut() })
				for _, f := range h.check(false) {
					kinds[f.key[0]] = true
				}
				return testkit.Equal(len(kinds), 6) // three of the clients, three of the load
			})
		})
	}
}

// TestConfirmedWritesStay: with min-replicas-to-ack 2, no acknowledged write of a primary with two replicas is lost.
// That holds whichever server is killed, suspended or cut off, and whichever disk is slow or full. Reads with a write
// are linearizable.
//
// With SPINDLE_TEST_SCALE=n it takes some n minutes. The load beside the clients is n times 2,000 writes a second then,
// but not more than 20,000. In one more site with Sentinels, replies wait for one of the two replicas.
func TestConfirmedWritesStay(t *testing.T) {
	t.Parallel()
	plans := map[string]plan{"Sentinel": {}, "Cluster": {cluster: true},
		"a redis-server among the replicas": {mixed: true}}
	if testkit.Scale() > 1 {
		plans["Sentinel, one of two replicas"] = plan{both: true}
	}
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.load = min(2000*testkit.Scale(), 20000)
			if p.more = acks(2, 500); p.both {
				p.more = acks(1, 500)
			}
			s := newSite(t, randomly(t), p)
			began, confirmed, lost := time.Now(), 0, 0
			for round := 0; round == 0 || time.Since(began) < time.Duration(testkit.Scale()-1)*time.Minute; round++ {
				h := s.live(func(*history) {
					for range 2 {
						s.suffer(s.some(), 3*time.Second)
					}
				})
				answered, unknown := h.count()
				t.Logf("%d calls were answered, %d are unknown; the load wrote %d, %.0f/s while it was connected", answered,
					unknown, h.load.confirmed(), h.load.rate())
				for _, f := range h.check(false) {
					t.Errorf("%s: %s", f.key, f.what)
					lost++
				}
				confirmed += h.confirmed()
			}
			t.Logf("count: %d failovers, %d confirmed writes, %d lost, in %v", s.failovers, confirmed, lost,
				time.Since(began).Round(time.Second))
		})
	}
}

// TestReadsWithAWrite: clients that read from a primary which is cut off see old data, if no client writes to it.
// Nothing there waits for replicas. Reads that write in the same transaction are linearizable.
func TestReadsWithAWrite(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"r": true, "q": false} {
		t.Run(map[string]string{"r": "plain reads", "q": "reads with a write"}[kind], func(t *testing.T) {
			t.Parallel()
			s := newSite(t, randomly(t), plan{more: acks(1, 500)})
			stale := func() (found []string) {
				old := s.primary()
				h := &history{began: time.Now()}
				writers := &crew{clients: 2, kinds: "w", servers: s.servers}
				readers := &crew{first: 2, clients: 4, kinds: kind, servers: s.servers}
				writing, reading := s.run(h, writers), s.run(h, readers)
				answers := func(more int) {
					from, _ := h.count()
					testkit.Until(t, testkit.Slowly(60*time.Second), "calls", func() error {
						if n, _ := h.count(); n < from+more {
							return fmt.Errorf("%d", n-from)
						}
						return nil
					})
				}
				answers(50)
				writers.rest.Store(true)
				testkit.Until(t, testkit.Slowly(60*time.Second), "the last write", func() error {
					return testkit.Equal(writers.calling.Load(), 0)
				})
				s.network.Split(s.hosts[old])
				s.awaitAnother(old)
				writers.stop.Store(true)
				writing.Wait()
				later := &crew{first: 6, clients: 2, kinds: "w", servers: s.replicas(old)}
				writing = s.run(h, later)
				answers(200)
				later.stop.Store(true)
				writing.Wait()
				readers.stop.Store(true)
				reading.Wait()
				s.network.Heal()
				s.awaitWell()
				h.finish(s)
				for _, f := range h.check(true) {
					found = append(found, f.key+": "+f.what)
				}
				return found
			}
			if want {
				testkit.Until(t, testkit.Slowly(5*time.Minute), "a read of old data", func() error {
					return testkit.Equal(len(stale()) > 0, true)
				})
				return
			}
			for range testkit.Scale() {
				if found := stale(); len(found) > 0 {
					t.Error(strings.Join(found, "\n"))
				}
			}
		})
	}
}

// TestAllDie: primary and replicas are killed together while the disks of the replicas take nothing. Then a replica is
// promoted. With ack-mode disk no acknowledged write is lost. With ack-mode memory the models find lost ones.
func TestAllDie(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"memory", "disk"} {
		for _, disk := range []string{"slow", "full"} {
			t.Run(mode+", "+disk+" disks", func(t *testing.T) {
				t.Parallel()
				s := newSite(t, randomly(t), plan{cluster: true,
					more: acks(2, 1500, "ack-mode", mode, "replica-ignore-disk-write-errors", "yes")})
				kinds := map[byte]bool{}
				for round := 0; round < testkit.Scale() || mode == "memory" && len(kinds) < 3; round++ {
					h := s.live(func(h *history) { s.die(h, mode, disk) })
					for _, f := range h.check(false) {
						if kinds[f.key[0]] = true; mode == "disk" {
							t.Errorf("%s: %s", f.key, f.what)
						}
					}
				}
			})
		}
	}
}

// die kills all servers when the disks of the replicas have taken nothing for a while.
func (s *site) die(h *history, mode, disk string) {
	s.t.Helper()
	more := func(answered, unknown int) {
		wasAnswered, wasUnknown := h.count()
		testkit.Until(s.t, testkit.Slowly(60*time.Second), "calls", func() error {
			if a, u := h.count(); a < wasAnswered+answered || u < wasUnknown+unknown {
				return fmt.Errorf("%d were answered, %d are unknown", a-wasAnswered, u-wasUnknown)
			}
			return nil
		})
	}
	more(20, 0) // with ack-mode disk six a second: the replicas sync once a second
	old := s.primary()
	replicas := s.replicas(old)
	for _, one := range replicas {
		if disk == "slow" {
			s.slowDisk(one, time.Hour)
		} else {
			s.fullDisk(one)
		}
	}
	if mode == "memory" {
		more(400, 0)
	} else {
		more(0, 6)
	}
	for _, one := range s.servers {
		one.Kill()
	}
	s.again(replicas...)
	s.replaced(old)
	s.awaitWell()
	s.failovers++
}
