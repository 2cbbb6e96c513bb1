package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spindle/cluster/state"
	"spindle/internal/disk"
	"spindle/internal/reason"
)

// A saver writes nodes.conf on its own goroutine. A slow disk delays only messages that depend on a save, not
// heartbeats.
//
// cluster.V1. A critical save is written at once. Other saves are collected for saveEvery.
type saver struct {
	mu      sync.Mutex
	more    sync.Cond
	next    *state.Save // the save to write; nil: none
	no      uint64      // number of next
	urgent  bool        // next, or a save that it replaced, is critical
	closed  bool
	waiting []waiter
	settled uint64 // number of the last save on disk

	writing sync.Mutex // held during a write
	written uint64     // like settled, but guarded by writing
}

// A waiter waits until the save with number no is on disk.
type waiter struct {
	no   uint64
	done func()
}

func (s *saver) init() { s.more.L = &s.mu }

func (s *saver) offer(save *state.Save, no uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.no, s.urgent = save, no, s.urgent || save.Sync
	s.more.Signal()
}

// saveEvery is the shortest time between two uncritical writes. Without it, a move of many slots would sync the disk
// for each slot.
const saveEvery = 25 * time.Millisecond

// await waits for a save to write. It returns nil if the saver is closed. began is when the last write began.
func (s *saver) await(began time.Time) (save *state.Save, no uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next == nil && !s.closed {
		s.more.Wait()
	}
	if rest := saveEvery - time.Since(began); rest > 0 && !s.urgent {
		over := false
		timer := time.AfterFunc(rest, func() {
			s.mu.Lock()
			over = true
			s.mu.Unlock()
			s.more.Signal()
		})
		for !over && !s.urgent && !s.closed {
			s.more.Wait()
		}
		timer.Stop()
	}
	save, no = s.next, s.no
	s.next, s.urgent = nil, false
	return save, no
}

func (s *saver) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.more.Broadcast()
}

// runSaver is the loop of the saver's goroutine.
func (c *Cluster) runSaver() {
	defer c.stopped.Done()
	var began time.Time
	for {
		save, no := c.saver.await(began)
		if save == nil {
			return
		}
		began = time.Now()
		c.write(save, no)
	}
}

// write writes nodes.conf, unless a newer save was written, and calls the waiters of this save. With best-effort, a
// save that cannot be written counts as written.
func (c *Cluster) write(save *state.Save, no uint64) {
	s := &c.saver
	s.writing.Lock()
	if no > s.written {
		if err := c.writeFile(save.Text); err != nil {
			c.log.Warning("Could not write the cluster config file: %s", reason.Of(err))
			if c.settings.Saves.Get() == savesOrEnds {
				s.writing.Unlock()
				c.parts.Fatal("Fatal: can't update cluster config file.")
				return
			}
		}
		s.written = no
		c.durable.Store(max(c.durable.Load(), save.Count))
	}
	s.writing.Unlock()
	s.mu.Lock()
	s.settled = max(s.settled, no)
	var done []waiter
	kept := s.waiting[:0]
	for _, w := range s.waiting {
		if w.no <= no {
			done = append(done, w)
		} else {
			kept = append(kept, w)
		}
	}
	s.waiting = kept
	s.mu.Unlock()
	for _, w := range done {
		w.done()
	}
	c.poke()
}

// writeFile replaces the file: it writes and syncs a temporary file, renames it, and syncs the folder. Then it locks
// the new file instead of the old one.
func (c *Cluster) writeFile(text []byte) error {
	name := c.settings.File.Get()
	err := disk.WriteWhole(c.parts.Disk, name, fmt.Sprintf("%s.tmp-%d-%d", name, os.Getpid(), nowMs()), text)
	if old := c.locked; err == nil && old != 0 {
		if locking := c.lock(); locking != nil {
			c.log.Warning("%s", locking)
		} else {
			_ = unix.Close(old)
		}
	}
	return err
}

// saved reports whether all decisions so far are on disk. If they are not, done is called once they are.
func (c *Cluster) saved(done func()) bool {
	s := &c.saver
	c.mu.Lock()
	no := c.saveNo
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled >= no {
		return true
	}
	s.waiting = append(s.waiting, waiter{no, done})
	return false
}

// saveNow writes all decisions so far before it returns.
func (c *Cluster) saveNow() {
	c.mu.Lock()
	save, no := c.saves, c.saveNo
	c.mu.Unlock()
	if save != nil {
		c.write(save, no)
	}
}

// lock locks nodes.conf against other processes.
func (c *Cluster) lock() error {
	name := c.settings.File.Get()
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("Can't open %s in order to acquire a lock: %s", name, reason.Of(err))
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("Sorry, the cluster configuration file %s is already used by a different Redis Cluster node. "+
				"Please make sure that different nodes use different cluster configuration files.", name)
		}
		return fmt.Errorf("Impossible to lock %s: %s", name, reason.Of(err))
	}
	c.locked = fd // the descriptor, and with it the lock, lasts until the file is replaced, or the process ends
	return nil
}

// load reads nodes.conf, or writes the first one.
func (c *Cluster) load() error {
	name := c.settings.File.Get()
	file, err := c.parts.Disk.Open(name, os.O_RDONLY, 0)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(file)
		_ = file.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("Loading the cluster node config from %s: %s", name, reason.Of(err))
	}
	if len(text) == 0 {
		c.state.Begin()
		save := c.state.Finish()
		if err := c.writeFile(save.Text); err != nil {
			return fmt.Errorf("Fatal: can't update cluster config file: %s", reason.Of(err))
		}
		c.durable.Store(save.Count)
		return nil
	}
	return c.state.Load(string(text))
}
