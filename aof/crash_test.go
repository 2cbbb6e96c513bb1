package aof

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"spindle/internal/disk"
	"spindle/tests/testkit/faulty"
)

// crashSeeds is how many seeds each policy has: SPINDLE_CRASH_SEEDS, or 150. TestFaultsAreFound logs how few find each
// planted fault.
func crashSeeds() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SPINDLE_CRASH_SEEDS"), 10, 64); err == nil {
		return n
	}
	if testing.Short() {
		return 50
	}
	return 150
}

// crashBlock is how many seeds share a test. A test keeps the lines of its servers until its end.
const crashBlock = 50

// TestPowerCuts: after a power cut, the log has what its policy promises. With always it has every step whose reply
// could leave. With everysec it has every step that a sync has confirmed. With no, only rewrites sync, so it has every
// step that a rewrite has synced. The data set is always a whole number of units, whatever was running: writes,
// rewrites, starts.
func TestPowerCuts(t *testing.T) {
	for policy, name := range map[Policy]string{Always: "always", EverySecond: "everysec", Never: "no"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for from, seeds := uint64(0), crashSeeds(); from < seeds; from += crashBlock {
				t.Run(fmt.Sprint("from ", from), func(t *testing.T) {
					t.Parallel()
					for seed := from; seed < min(from+crashBlock, seeds); seed++ {
						if problem := powerCut(t, policy, seed, none); problem != "" {
							t.Fatal(problem)
						}
					}
				})
			}
		})
	}
}

// powerCut plays three lives of a server, each ended by a power cut. It returns what was wrong.
func powerCut(t *testing.T, policy Policy, seed uint64, bug sabotage) (problem string) {
	rng := rand.New(rand.NewPCG(seed, 7))
	d := faulty.New(seed)
	promised, steps := 0, 0
	for life := range 3 {
		s := newServer(t, sabotaged(d, bug))
		s.set.Fsync.Set(policy)
		s.set.Preamble.Set(rng.IntN(3) > 0)
		s.set.Timestamps.Set(rng.IntN(3) == 0)
		s.set.Percentage.Set(0)
		err := s.start()
		if damaged(err) && !d.Off() {
			if err := Fix(d, s.aof.Path()); err != nil {
				return fmt.Sprintf("seed %d, life %d: the log cannot be mended: %v\n%s", seed, life, err, d)
			}
			s.close()
			s = newServer(t, sabotaged(d, bug))
			s.set.Fsync.Set(policy)
			err = s.start()
		}
		switch {
		case d.Off(): // in the middle of the start
		case err != nil:
			return fmt.Sprintf("seed %d, life %d: %v\n%s", seed, life, err, d)
		default:
			n, err := s.state()
			if err != nil || n < promised || n > steps {
				return fmt.Sprintf("seed %d, life %d: %d steps of %d, %d were promised, %v\n%s%s",
					seed, life, n, steps, promised, err, d, texts(d))
			}
			promised, steps = s.live(d, rng, n, bug == repliesEarly)
		}
		d = d.Crash()
		s.close()
	}
	return ""
}

// texts returns the bytes of all increments.
func texts(d *faulty.Disk) (all string) {
	for i := range 20 {
		name := fmt.Sprintf("appendonlydir/appendonly.aof.%d.incr.aof", i)
		if f, err := d.Open(name, os.O_RDONLY, 0); err == nil {
			text, _ := io.ReadAll(f)
			all += fmt.Sprintf("%s: %q\n", name, text)
		}
	}
	return all
}

// live takes steps until the power goes off. It returns how many were promised and how many were taken.
func (s *server) live(d *faulty.Disk, rng *rand.Rand, from int, early bool) (promised, steps int) {
	promised, steps = from, from
	d.CrashAfter(rng.IntN(60))
	type step struct {
		turn uint64
		end  int64
	}
	var open []step // not promised yet
	for !d.Off() && !s.fatal.Load() && steps < from+200 {
		steps++
		before := s.cl.LogOffset
		turn, end := s.step(steps), s.cl.LogOffset
		if end == before {
			end = math.MaxInt64 // a sync had failed, and the log has not taken the step: it is not promised
		}
		open = append(open, step{turn, end})
		switch rng.IntN(12) {
		case 0:
			s.Do(func() {
				if !s.aof.Rewriting() {
					s.aof.startRewrite()
				}
			})
		case 1:
			s.waitFor("the end of a rewrite", func() bool { return !s.aof.Rewriting() || d.Off() })
		case 2:
			if s.set.Fsync.Get() != Never {
				s.Do(func() { s.aof.w.askSync() })
			}
		case 3, 4, 5:
			s.waitFor("the disk", func() bool { return !s.gate.Holds(turn) || d.Off() })
		}
		for len(open) > 0 {
			synced := s.aof.w.lock().sync.synced
			s.aof.w.unlock()
			kept := synced >= open[0].end
			if s.set.Fsync.Get() == Always {
				kept = early || !s.gate.Holds(open[0].turn) && !s.fatal.Load()
			}
			if !kept {
				break
			}
			promised++
			open = open[1:]
		}
	}
	return promised, steps
}

// close ends a server whose power is off.
func (s *server) close() {
	s.Do(func() {
		s.aof.abortRewrite("")
		s.aof.detach()
	})
	s.aof.w.do(0, runtime.Goexit)
	for holding := true; holding; runtime.Gosched() { // a rewrite reads its view to the end
		s.Do(func() {
			s.heap.Drain(1000)
			holding = s.heap.Holding()
		})
	}
	s.heap.Close()
	s.Core, s.space, s.aof, s.cl, s.heap = nil, nil, nil, nil, nil // newServer keeps s until the end of the test
}

// TestFaultsAreFound: TestPowerCuts would notice a reply that leaves before the sync, and a missing sync of a file or
// of a folder.
func TestFaultsAreFound(t *testing.T) {
	for _, plant := range []struct {
		policy Policy
		bug    sabotage
	}{
		{Always, repliesEarly}, {Always, syncsNoFile}, {EverySecond, syncsNoFile}, {Always, syncsNoFolder},
		{EverySecond, syncsNoFolder},
	} {
		found, cuts := "", uint64(0)
		for ; cuts < 1000 && found == ""; cuts++ {
			found = powerCut(t, plant.policy, cuts, plant.bug)
		}
		if found == "" {
			t.Errorf("fault %d was not found within %d power cuts, policy %d", plant.bug, cuts, plant.policy)
		} else {
			first, _, _ := strings.Cut(found, "\n")
			t.Logf("fault %d, policy %d, found by power cut %d: %s", plant.bug, plant.policy, cuts, first)
		}
	}
}

// A sabotage is a fault that the test adds on purpose.
type sabotage int

const (
	none sabotage = iota
	repliesEarly
	syncsNoFile
	syncsNoFolder
)

// sabotaged returns d, with the fault if it concerns the disk's calls.
func sabotaged(d *faulty.Disk, bug sabotage) disk.System {
	switch bug {
	case syncsNoFile:
		return noFileSync{d}
	case syncsNoFolder:
		return noFolderSync{d}
	}
	return d
}

// A noFileSync disk reports success for syncs of files, and does nothing.
type noFileSync struct{ *faulty.Disk }

func (n noFileSync) Open(name string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := n.Disk.Open(name, flag, mode)
	return unsynced{f}, err
}

type unsynced struct{ disk.File }

func (unsynced) Sync() error { return nil }

// A noFolderSync disk reports success for syncs of folders, and does nothing.
type noFolderSync struct{ *faulty.Disk }

func (noFolderSync) SyncDir(string) error { return nil }
