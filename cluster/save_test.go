package cluster

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/cluster/state"
	"spindle/internal/disk"
	"spindle/tests/testkit/faulty"
)

// counting is a disk that counts the files written.
type counting struct {
	disk.System
	files atomic.Int64
}

func (c *counting) Open(name string, flag int, mode fs.FileMode) (disk.File, error) {
	if strings.Contains(name, ".tmp-") {
		c.files.Add(1)
	}
	return c.System.Open(name, flag, mode)
}

// TestSavesAreGathered (cluster.V1): uncritical saves are written now and then, and critical ones at once. A save that
// still waits when the node stops is written before it stops.
func TestSavesAreGathered(t *testing.T) {
	t.Chdir(t.TempDir())
	c, d := alone(t), &counting{System: disk.OS}
	c.parts.Disk = d
	c.stopped.Add(1)
	go c.runSaver()
	began := time.Now()
	const many = 100
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for range many {
		c.with(func(s *state.State) { s.Release(nil) })
		<-pace.C
	}
	if most := int64(time.Since(began)/saveEvery) + 2; d.files.Load() > most || d.files.Load() == 0 {
		t.Errorf("%d saves in %v were written %d times", many, time.Since(began), d.files.Load())
	}
	done := make(chan struct{})
	began = time.Now()
	c.with(func(s *state.State) { s.Assign([]int{7}) })
	if !c.saved(func() { close(done) }) {
		<-done
	}
	t.Logf("a critical save took %v", time.Since(began))
	holds(t, " 7\n")
	c.with(func(s *state.State) { s.Assign([]int{9}) })
	c.with(func(s *state.State) { s.Release([]int{7}) })
	c.saver.close()
	c.stopped.Wait()
	holds(t, " 9\n")
}

// holds checks that nodes.conf contains a text.
func holds(t *testing.T, text string) {
	t.Helper()
	file, err := os.ReadFile("nodes.conf")
	if err != nil || !strings.Contains(string(file), text) {
		t.Errorf("nodes.conf is %q, %v; want %q in it", file, err, text)
	}
}

// TestLockIsKept: another process cannot lock nodes.conf, also after a save has replaced the file.
func TestLockIsKept(t *testing.T) {
	t.Chdir(t.TempDir())
	c := alone(t)
	if err := c.lock(); err != nil {
		t.Fatal(err)
	}
	for slot := range 3 {
		c.with(func(s *state.State) { s.Assign([]int{slot}) })
		c.saveNow()
		if err := alone(t).lock(); err == nil {
			t.Fatalf("after save %d another node locks the file", slot)
		}
	}
}

// TestSavesBestEffort: with best-effort a save that fails delays nothing, and the next one is written. With sync it
// ends the process.
func TestSavesBestEffort(t *testing.T) {
	c, d := alone(t), faulty.New(1)
	c.parts.Disk = d
	ended := 0
	c.parts.Fatal = func(string) { ended++ }
	for try, behavior := range []saves{savesIfItCan, savesOrEnds} {
		c.settings.Saves.Set(behavior)
		heal := d.Fail(faulty.Fault{Op: faulty.Sync, Err: syscall.EIO})
		c.with(func(s *state.State) { s.Assign([]int{7 + 2*try}) })
		c.saveNow()
		heal()
		if saved := c.saved(func() {}); ended != try || saved != (behavior == savesIfItCan) {
			t.Errorf("behaviour %d: ended %d times, counts as saved: %v", behavior, ended, saved)
		}
		c.with(func(s *state.State) { s.Assign([]int{8 + 2*try}) })
		c.saveNow()
		if text, _ := d.Content("nodes.conf"); !strings.Contains(string(text), " 7-"+strconv.Itoa(8+2*try)+"\n") {
			t.Errorf("nodes.conf is %q", text)
		}
	}
}
