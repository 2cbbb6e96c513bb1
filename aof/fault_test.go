package aof

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/internal/disk"
	"spindle/tests/testkit"
	"spindle/tests/testkit/faulty"
)

// begin returns a server with a log on a new disk.
func begin(t *testing.T, policy Policy) (*server, *faulty.Disk) {
	t.Helper()
	d := faulty.New(1)
	s := newServer(t, d)
	s.set.Fsync.Set(policy)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s, d
}

// TestSyncFailsInsideAUnit: a sync fails while a command lends the turn. The log keeps its file until the unit has
// ended, and a load finds the whole unit.
func TestSyncFailsInsideAUnit(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.do("SET", "before", "1")
	s.do("SLOW", "2")
	d.Fail(faulty.Fault{Op: faulty.Sync, Name: "incr", Err: syscall.EIO, Times: 1})
	s.waitFor("the failed sync", func() bool {
		s.aof.w.askSync()
		return s.aof.Refusal() != nil
	})
	s.Do(func() {
		s.aof.Tick(0)
		if !s.Lent() || !s.aof.attached {
			t.Errorf("lent %t, attached %t: the log let go of an open unit", s.Lent(), s.aof.attached)
		}
	})
	s.endSlow.Store(true)
	s.waitFor("the rewrite", func() bool { return !s.Lent() && s.aof.Refusal() == nil && s.aof.state == on })
	s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.Synced(s.cl) })
	loaded := newServer(t, d.Crash())
	if err := loaded.start(); err != nil {
		t.Fatal(err)
	}
	if a, b := loaded.text("a"), loaded.text("b"); a != "2" || b != "2" {
		t.Errorf("the log has a %q and b %q, want the whole unit", a, b)
	}
}

// again loads the files on the disk into another server.
func again(t *testing.T, d *faulty.Disk) (steps int) {
	t.Helper()
	s := newServer(t, d)
	if err := s.start(); err != nil {
		t.Fatalf("%v\n%s", err, d)
	}
	steps, err := s.state()
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// refused returns why writes are refused.
func (s *server) refused() (why string) {
	s.Do(func() {
		if err := s.aof.Refusal(); err != nil {
			why = err.Error()
		}
	})
	return why
}

// TestFullDisk: writes are refused while the disk is full. The file always ends with a whole unit. When there is room
// again, nothing is missing.
func TestFullDisk(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		for _, short := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/short=%t", errno, short), func(t *testing.T) {
				t.Parallel()
				s, d := begin(t, EverySecond)
				s.step(1)
				s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
				heal := d.Fail(faulty.Fault{Op: faulty.Write, Name: "incr", Err: errno, Short: short})
				s.step(2)
				s.waitFor("a refusal", func() bool { return s.aof.Refusal() != nil })
				if why := s.refused(); !strings.HasPrefix(why, "MISCONF Errors writing to the AOF file: ") {
					t.Error(why)
				}
				s.step(3) // no barrier refuses it here
				if n := again(t, d); n != 1 {
					t.Errorf("%d steps are in the file", n)
				}
				heal()
				s.waitFor("the end of the refusal", func() bool { return s.aof.Refusal() == nil })
				if !s.said("Error writing to the AOF file") || !s.said("AOF write error looks solved") {
					t.Error("the log does not say so")
				}
				s.waitFor("the file", func() bool { return s.aof.w.unwritten() == 0 })
				if n := again(t, d); n != 3 {
					t.Errorf("%d steps are in the file", n)
				}
			})
		}
	}
}

// TestAlwaysEnds: under always a failing disk ends the process, and no reply leaves before that.
func TestAlwaysEnds(t *testing.T) {
	for _, op := range []faulty.Op{faulty.Write, faulty.Sync} {
		t.Run(string(op), func(t *testing.T) {
			s, d := begin(t, Always)
			turn := s.step(1)
			s.waitFor("the first reply", func() bool { return !s.gate.Holds(turn) })
			d.Fail(faulty.Fault{Op: op, Name: "incr", Err: syscall.EIO})
			turn = s.step(2)
			s.waitFor("the end", func() bool { return false })
			if !s.gate.Holds(turn) || !s.said("Exiting...") {
				t.Error("the reply has left, or the log does not say why the process ends")
			}
		})
	}
}

// TestFailedSync: after one failed sync, no byte of that file counts as durable. A rewrite makes a new data set, and
// writes are refused until then.
func TestFailedSync(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.step(1)
	d.Fail(faulty.Fault{Op: faulty.Sync, Name: "incr", Err: syscall.EIO, Times: 1})
	release := d.Stall(faulty.Rename) // so that the rewrite is not done yet
	s.waitFor("a refusal", func() bool {
		s.aof.w.askSync()
		return s.aof.Refusal() != nil
	})
	s.step(2)
	release()
	s.waitFor("the end of the refusal", func() bool { return s.aof.Refusal() == nil && s.aof.state == on })
	s.step(3)
	s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.Synced(s.cl) })
	if n := again(t, d.Crash()); n != 3 {
		t.Errorf("%d steps are left", n)
	}
}

// TestStall: a disk that stalls keeps no turn waiting. Past the limit, clients that write are held until the disk
// continues.
func TestStall(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.set.BufferLimit.Set(1 << 20)
	s.step(1)
	release := d.Stall(faulty.Sync)
	s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.w.isSyncing() })
	value := strings.Repeat("x", 200<<10)
	began := time.Now()
	for i := 0; i < 20 && !s.cl.Is(client.Paused); i++ {
		s.do("SET", fmt.Sprint("k", i), value)
	}
	if !s.cl.Is(client.Paused) || time.Since(began) > 10*time.Second {
		t.Fatal("writers are not held")
	}
	if !s.said("Clients that write are held until the disk takes more of the AOF: ") {
		t.Error("the log does not say so")
	}
	if most := s.aof.w.unwritten(); most > 2<<20 {
		t.Errorf("%d bytes wait in memory", most)
	}
	release()
	s.waitFor("the disk", func() bool { return s.aof.w.unwritten() == 0 && !s.cl.Is(client.Paused) })
	if reply, _ := s.do("SET", "last", "x"); reply != "+OK\r\n" {
		t.Errorf("%q", reply)
	}
}

// TestLatencyEvents: the latency monitor gets the waits for the disk, under Redis's names of events.
func TestLatencyEvents(t *testing.T) {
	const stall = 30 * time.Millisecond
	s, d := begin(t, EverySecond)
	came := func(events ...string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range events {
			if s.events[e] < stall*9/10 {
				return false
			}
		}
		clear(s.events)
		return true
	}
	heard := func(events ...string) {
		t.Helper()
		s.waitFor(strings.Join(events, " and "), func() bool { return came(events...) })
	}
	// slowWrite writes in turns while the writer sleeps. One turn is not enough if the stall ends before its write
	// begins.
	slowWrite := func(events ...string) {
		t.Helper()
		for tries := 0; !came(events...); tries++ {
			if tries == 100 {
				t.Fatalf("no %v", events)
			}
			s.waitFor("the writer's sleep", s.resting)
			release := d.Stall(faulty.Write)
			time.AfterFunc(stall, release)
			s.do("SET", "k", "v")
			s.Do(func() { s.aof.Tick(0) })
		}
	}
	slowWrite("aof-write", "aof-write-alone")
	spent := int64(0)
	if s.Do(func() { spent = s.aof.w.spentHere() }); time.Duration(spent) < stall*9/10 {
		t.Errorf("turns have written for %d ns", spent)
	}

	s.Do(func() { s.saving = true })
	slowWrite("aof-write", "aof-write-active-child")
	s.Do(func() { s.saving = false })

	release := d.Stall(faulty.Sync) // set before the SET, or its sync may be over already
	s.do("SET", "k", "v")
	s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.w.isSyncing() })
	s.do("SET", "k", "v")
	time.AfterFunc(stall, release)
	heard("aof-write", "aof-write-pending-fsync")

	release = d.Stall(faulty.Rename)
	s.Do(func() { s.aof.startRewrite() })
	s.waitFor("a rewrite", func() bool { return s.aof.Rewriting() && s.aof.rw.job.cut > 0 })
	time.AfterFunc(2*stall, release) // of the manifest
	s.waitFor("its end", func() bool { return !s.aof.Rewriting() })
	heard("aof-rename")

	s.set.Fsync.Set(Always)
	release = d.Stall(faulty.Sync)
	time.AfterFunc(stall, release)
	s.do("SET", "k", "v")
	heard("aof-fsync-always")
}

// TestRewriteFails: a rewrite that fails leaves the log as it is. After three failures, retries become rare.
func TestRewriteFails(t *testing.T) {
	for _, name := range []string{"temp-rewrite", "manifest"} {
		t.Run(name, func(t *testing.T) {
			s, d := begin(t, EverySecond)
			heal := d.Fail(faulty.Fault{Op: faulty.Open, Name: name, Err: syscall.ENOSPC})
			for i := range 4 {
				s.step(i + 1)
				s.Do(s.aof.startRewrite)
				s.waitFor("the end of the rewrite", func() bool { return !s.aof.Rewriting() })
			}
			s.Do(func() { s.aof.rw.scheduled = true })
			s.waitFor("the limit", func() bool { return s.said("triggered the limit, will retry in 1 minutes") })
			s.Do(func() {
				if s.aof.Rewriting() || !s.aof.rw.failed || s.aof.rw.failures != 4 {
					t.Errorf("%+v", s.aof.rw)
				}
			})
			heal()
			s.step(5)
			s.Do(s.aof.startRewrite)
			s.waitFor("the end of the rewrite", func() bool { return !s.aof.Rewriting() })
			s.waitFor("the disk", func() bool { return s.aof.w.unwritten() == 0 })
			if n := again(t, d); n != 5 || s.aof.rw.failed {
				t.Errorf("%d steps, failed %t", n, s.aof.rw.failed)
			}
		})
	}
}

// TestFolderThatDoesNotSync: a manifest whose folder could not be synced may be on disk all the same. No file that this
// manifest names is removed then, so a start always finds a data set. The sync fails once, or always.
func TestFolderThatDoesNotSync(t *testing.T) {
	for after := range 4 {
		for times := range 2 {
			s, d := begin(t, EverySecond)
			s.step(1)
			heal := d.Fail(faulty.Fault{Op: faulty.SyncDir, Err: syscall.EIO, After: after, Times: times})
			s.Do(s.aof.startRewrite)
			s.waitFor("the end of the rewrite", func() bool { return !s.aof.Rewriting() })
			s.step(2)
			s.waitFor("the disk", func() bool { return s.aof.w.unwritten() == 0 })
			heal()
			if n := again(t, d); n != 2 {
				t.Errorf("after %d, times %d: %d steps of 2\n%s", after, times, n, d)
			}
		}
	}
}

// TestSwitch: a log that is switched on holds the data set once its first rewrite is done. After it is switched off, it
// does not grow.
func TestSwitch(t *testing.T) {
	d := faulty.New(1)
	s := newServer(t, d)
	s.step(1)
	s.Do(func() { s.aof.TurnOn() })
	s.step(2)
	s.waitFor("the first rewrite", func() bool { return s.aof.state == on })
	s.step(3)
	s.Do(s.aof.TurnOff)
	s.step(4)
	s.waitFor("the writer", func() bool {
		defer s.aof.w.unlock()
		return !s.aof.w.lock().filed
	})
	if n := again(t, d); n != 3 {
		t.Errorf("%d steps are in the log", n)
	}
	s.Do(func() { s.aof.TurnOn() })
	s.waitFor("the first rewrite", func() bool { return s.aof.state == on })
	if n := again(t, d); n != 4 {
		t.Errorf("%d steps are in the log", n)
	}
}

// TestSwitchedOnForNothing: a log that is switched on during a save, and off before its first rewrite could begin,
// leaves no file. When it is switched on again, it begins.
func TestSwitchedOnForNothing(t *testing.T) {
	for _, end := range []string{"switched off", "shutdown"} {
		d := faulty.New(1)
		s := newServer(t, d)
		s.step(1)
		s.Do(func() {
			s.saving = true
			if err := s.aof.TurnOn(); err != nil || s.aof.Rewriting() || !s.aof.rw.scheduled {
				t.Errorf("%v, rewriting: %t, scheduled: %t", err, s.aof.Rewriting(), s.aof.rw.scheduled)
			}
		})
		wait := func(time.Duration) {}
		if end == "shutdown" {
			s.Do(func() { wait = s.aof.Close() })
		} else {
			s.Do(s.aof.TurnOff)
		}
		wait(time.Minute)
		s.waitFor("the writer's sleep", s.resting)
		if files := d.String(); files != "" {
			t.Errorf("%s: it leaves %s", end, files)
		}
		if end == "shutdown" {
			continue
		}
		s.Do(func() {
			s.saving = false
			if err := s.aof.TurnOn(); err != nil {
				t.Error(err)
			}
		})
		s.waitFor("the first rewrite", func() bool { return s.aof.state == on })
		if n := again(t, d); n != 1 {
			t.Errorf("%d steps are in the log", n)
		}
	}
}

// TestRewriteWhileOff: a rewrite also makes a base while the log is off, and nothing is logged after it.
func TestRewriteWhileOff(t *testing.T) {
	d := faulty.New(1)
	s := newServer(t, d)
	s.step(1)
	s.Do(s.aof.startRewrite)
	s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
	s.step(2)
	if s.aof.attached || s.aof.state != off || s.aof.rw.failed {
		t.Errorf("attached %t, state %d, failed %t", s.aof.attached, s.aof.state, s.aof.rw.failed)
	}
	if n := again(t, d); n != 1 {
		t.Errorf("%d steps are in the base", n)
	}
}

// TestReplaced: when other data have replaced the data set, the log soon holds the new data.
func TestReplaced(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.step(1)
	s.Do(func() {
		for i := range s.space.Len() {
			s.space.DB(i).Flush()
		}
		s.aof.Replaced()
	})
	s.step(1)
	s.step(2)
	s.waitFor("the rewrite", func() bool { return s.aof.state == on && s.aof.w.unwritten() == 0 })
	if n := again(t, d); n != 2 {
		t.Errorf("%d steps are in the log", n)
	}
}

// TestSuspended: while a copy of a primary's data is loaded, and after the load has failed, the files hold the previous
// data. A copy that is loaded replaces them.
func TestSuspended(t *testing.T) {
	for i, policy := range []Policy{Always, EverySecond, Never, Always, EverySecond, Never} {
		s, d := begin(t, policy)
		held := false
		s.aof.parts.Held = func() bool { return held }
		s.step(1)
		s.Do(func() {
			s.aof.startRewrite() // calls off the running rewrite
			held = true
			s.aof.Suspend()
			for i := range s.space.Len() {
				s.space.DB(i).Flush()
			}
			if _, err := s.aof.rewrite(false); err != bgsave.ErrHeld {
				t.Errorf("BGREWRITEAOF: %v", err)
			}
		})
		s.step(1) // goes to no log, because there is no data set before it
		written := make(chan struct{})
		s.aof.w.do(0, func() { close(written) }) // after the writer's work for Suspend
		<-written
		s.Do(func() { s.aof.tickRewrite(s.aof.parts.Now().Add(time.Hour)) })
		if s.aof.Rewriting() {
			t.Error("a rewrite has begun")
		}
		if i < 3 {
			if n := again(t, d.Crash()); n != 1 {
				t.Errorf("%v: %d steps are in the log, want the one of before", policy, n)
			}
			continue
		}
		s.Do(func() { held = false; s.aof.Replaced() })
		s.step(2)
		s.waitFor("the rewrite", func() bool { return s.aof.state == on && !s.aof.Rewriting() && s.aof.w.unwritten() == 0 })
		if n := again(t, d); n != 2 {
			t.Errorf("%v: %d steps are in the new log", policy, n)
		}
		s.close()
	}
}

// TestFileOfEarlierRewrite: a rewrite empties a file that an earlier, interrupted rewrite has left under the name of
// its increment. The old contents do not come back with a power cut.
func TestFileOfEarlierRewrite(t *testing.T) {
	for seed := range uint64(20) {
		d := faulty.New(seed)
		s := newServer(t, d)
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		s.step(1)
		s.waitFor("the disk", func() bool { s.aof.w.askSync(); return s.aof.Synced(s.cl) })
		stale, err := d.Open("appendonlydir/appendonly.aof.2.incr.aof", os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stale.Write([]byte("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n9\r\n")); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(stale.Sync(), d.SyncDir("appendonlydir")); err != nil {
			t.Fatal(err)
		}
		release := d.Stall(faulty.Remove) // the old files stay, and the cut comes when the manifest names the new file
		s.Do(s.aof.startRewrite)
		s.waitFor("the end of the rewrite", func() bool { return !s.aof.Rewriting() || s.said("Removing the history file") })
		next := d.Crash()
		release()
		s.close()
		if n := again(t, next); n != 1 {
			t.Fatalf("seed %d: %d steps\n%s", seed, n, next)
		}
	}
}

// TestSyncFailsAtTheCut: the sync with which a rewrite ends the old increment is like any other. When it fails, no byte
// of that file counts as durable. Under everysec a new data set is made, under always the process ends.
func TestSyncFailsAtTheCut(t *testing.T) {
	const old = ".1.incr"
	t.Run("everysec", func(t *testing.T) {
		s, d := begin(t, EverySecond)
		s.step(1)
		s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.Synced(s.cl) })
		s.Do(func() { s.aof.lastSync = s.aof.parts.Now().Add(time.Hour) }) // no other sync comes
		s.step(2)
		d.Fail(faulty.Fault{Op: faulty.Sync, Name: old, Err: syscall.EIO, Times: 1})
		release := sync.OnceFunc(d.Stall(faulty.Rename)) // so that the next rewrite is not done yet
		t.Cleanup(release)
		s.Do(s.aof.startRewrite)
		s.waitFor("a refusal", func() bool { return s.aof.Refusal() != nil })
		s.step(3)
		release()
		s.waitFor("the end of the refusal", func() bool { return s.aof.Refusal() == nil && s.aof.state == on })
		s.step(4)
		s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.Synced(s.cl) })
		if n := again(t, d.Crash()); n != 4 {
			t.Errorf("%d steps are left", n)
		}
	})
	t.Run("always", func(t *testing.T) {
		s, d := begin(t, Always)
		s.waitFor("the writer's sleep", s.resting)
		turn := uint64(0)
		s.freezing = func() { // in the turn of the freeze
			turn = s.TurnNumber()
			s.aof.Append([]engine.Effect{{Command: increment}})
			d.Fail(faulty.Fault{Op: faulty.Sync, Name: old, Err: syscall.EIO, Times: 1})
		}
		s.Do(s.aof.startRewrite)
		s.waitFor("the end", func() bool { return !s.aof.Rewriting() && !s.gate.Holds(turn) })
		if !s.gate.Holds(turn) || !s.said("Exiting...") {
			t.Error("the reply has left, or the log does not say why the process ends")
		}
	})
}

// increment is a command in the format of a log.
var increment = []byte("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n")

// TestLastSyncFails: under always, the sync that ends a log or a server is like any other: if it fails, the process
// ends.
func TestLastSyncFails(t *testing.T) {
	for name, end := range map[string]func(s *server){
		"appendonly no": func(s *server) { s.aof.TurnOff() },
		"shutdown":      func(s *server) { s.aof.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s, d := begin(t, Always)
			s.waitFor("the writer's sleep", s.resting)
			d.Fail(faulty.Fault{Op: faulty.Sync, Name: "incr", Err: syscall.EIO, Times: 1})
			var turn uint64
			s.Do(func() { // the command and the end in one turn
				turn = s.TurnNumber()
				s.aof.Append([]engine.Effect{{Command: increment}})
				end(s)
			})
			s.waitFor("the end", func() bool { return !s.gate.Holds(turn) })
			if !s.gate.Holds(turn) || !s.said("Exiting...") {
				t.Error("the reply has left, or the log does not say why the process ends")
			}
		})
	}
}

// TestNameOfHistory: a new increment never takes the name of a file that is history. Otherwise the removal of history
// would remove its bytes, or old bytes would come before them.
func TestNameOfHistory(t *testing.T) {
	for _, switched := range []bool{false, true} {
		t.Run(fmt.Sprintf("switched on at run time=%t", switched), func(t *testing.T) {
			s, d := begin(t, EverySecond)
			s.step(1)
			s.Do(s.aof.TurnOff)
			s.waitFor("the writer", s.resting)
			s.set.KeepHistory.Set(true) // as if the power went off before history was removed
			s.Do(s.aof.startRewrite)
			s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })

			s = newServer(t, d)
			if !switched {
				if err := s.start(); err != nil {
					t.Fatal(err)
				}
			} else {
				s.step(1)
				s.Do(func() { s.aof.TurnOn() })
			}
			s.waitFor("the log", func() bool { return s.aof.state == on })
			s.step(2)
			s.waitFor("the disk", func() bool { return s.aof.w.unwritten() == 0 && s.resting() })
			if n := again(t, d); n != 2 {
				t.Errorf("%d steps are in the log\n%s", n, d)
			}
		})
	}
}

// TestSwitchedTwice: a rewrite that was called off before its freeze removes no file of the next rewrite.
func TestSwitchedTwice(t *testing.T) {
	d := faulty.New(1)
	s := newServer(t, d)
	s.step(1)
	prepared := func() {
		testkit.Await(t, 20*time.Second, "the writer rests", s.resting)
	}
	s.Do(func() { // in one turn: the freeze of each waits for its end
		s.aof.TurnOn()
		prepared()
		s.aof.TurnOff()
		s.aof.TurnOn()
		prepared()
	})
	s.waitFor("the first rewrite", func() bool { return s.aof.state == on })
	if s.said("terminated with error") {
		t.Error("the rewrite has failed")
	}
	s.step(2)
	s.waitFor("the disk", func() bool { return s.aof.w.unwritten() == 0 && s.resting() })
	if n := again(t, d); n != 2 {
		t.Errorf("%d steps are in the log\n%s", n, d)
	}
}

// TestEndBeforeTheBaseIsAdopted: a base that is complete, but not in the manifest when the server ends, is removed.
func TestEndBeforeTheBaseIsAdopted(t *testing.T) {
	s, d := begin(t, EverySecond)
	s.step(1)
	s.waitFor("the writer's sleep", s.resting)
	const base = "appendonlydir/appendonly.aof.2.base.rdb"
	release := func() {}
	s.freezing = func() { release = d.Stall(faulty.Rename) }
	s.Do(s.aof.startRewrite)
	s.waitFor("the freeze", func() bool { return s.aof.rw.job.cut > 0 })
	hold := d.Stall(faulty.SyncDir) // after the base's rename
	release()
	s.waitFor("the base", func() bool { return disk.Exists(d, base) })
	var wait func(time.Duration)
	s.Do(func() { wait = s.aof.Close() })
	hold()
	wait(time.Minute)
	if disk.Exists(d, base) {
		t.Errorf("the base is left\n%s", d)
	}
}

// TestRewriteOnAFullDisk: a rewrite makes the log whole again when its file cannot grow. The base has the effects that
// the file lacks.
func TestRewriteOnAFullDisk(t *testing.T) {
	full := func(t *testing.T, d *faulty.Disk) (s *server, heal func()) {
		s = newServer(t, d)
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		s.step(1)
		s.waitFor("a sync", func() bool { s.aof.w.askSync(); return s.aof.Synced(s.cl) })
		heal = d.Fail(faulty.Fault{Op: faulty.Write, Name: ".1.incr", Err: syscall.ENOSPC, Short: true})
		s.step(2)
		s.waitFor("a refusal", func() bool { return s.aof.Refusal() != nil })
		return s, heal
	}
	t.Run("it goes on in the next file", func(t *testing.T) {
		d := faulty.New(1)
		s, _ := full(t, d)
		s.Do(s.aof.startRewrite)
		s.waitFor("the end of the rewrite", func() bool { return !s.aof.Rewriting() })
		s.step(3)
		s.waitFor("the end of the refusal", func() bool { return s.aof.Refusal() == nil && s.aof.w.unwritten() == 0 })
		if n := again(t, d); n != 3 || s.aof.rw.failed {
			t.Errorf("%d steps, failed %t\n%s", n, s.aof.rw.failed, d)
		}
	})
	t.Run("there is room again before the base is done", func(t *testing.T) {
		d := faulty.New(1)
		s, heal := full(t, d)
		release := func() {}
		s.freezing = func() { release = d.Stall(faulty.Rename) }
		s.Do(s.aof.startRewrite)
		s.waitFor("the freeze", func() bool { return s.aof.rw.job.cut > 0 })
		s.step(3)
		heal()
		s.waitFor("the disk", func() bool { return s.aof.w.unwritten() == 0 })
		s.freezing = nil
		release()
		s.waitFor("the end of the rewrite", func() bool { return !s.aof.Rewriting() })
		s.step(4)
		s.waitFor("the disk", func() bool { return s.aof.w.unwritten() == 0 && s.resting() })
		if n := again(t, d); n != 4 || disk.Exists(d, "appendonlydir/appendonly.aof.2.incr.aof") && s.aof.rw.failed {
			t.Errorf("%d steps, failed %t\n%s", n, s.aof.rw.failed, d)
		}
	})
	t.Run("the power goes off meanwhile", func(t *testing.T) {
		for seed := range uint64(60) {
			d := faulty.New(seed)
			s, _ := full(t, d)
			d.CrashAfter(int(seed % 30))
			s.Do(s.aof.startRewrite)
			s.waitFor("the end of the rewrite", func() bool { return !s.aof.Rewriting() || d.Off() })
			s.step(3)
			next := d.Crash()
			s.close()
			if n := again(t, next); n < 1 || n > 3 {
				t.Errorf("seed %d: %d steps\n%s", seed, n, next)
			}
		}
	})
}

// TestIdleSyncFails: under always the process also ends when a sync fails for which no reply waits. Otherwise a reply
// made before a turn hears of the failure would look like one whose bytes are on disk.
func TestIdleSyncFails(t *testing.T) {
	s, d := begin(t, Always)
	s.waitFor("the writer's sleep", s.resting)
	d.Fail(faulty.Fault{Op: faulty.Sync, Name: ".1.incr", Err: syscall.EIO, Times: 1})
	s.Do(s.aof.startRewrite)
	s.waitFor("the end", func() bool { return s.aof.Refusal() != nil })
	if !s.fatal.Load() {
		t.Error("the server continues")
	}
}
