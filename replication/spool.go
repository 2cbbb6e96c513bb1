package replication

import (
	"sync"

	"golang.org/x/sys/unix"

	"spindle/replication/segments"
)

// A spool is the backlog's part on disk. It takes the blocks that the backlog drops from memory while a replica still
// needs them. Such a replica is slow, takes a full copy, has not acknowledged them, or has left lately.
//
//	disk                              memory
//	[ segments ][ wait for the disk ][ blocks of the backlog ]
//	first                            begin()                end
//
// replication.D1. While the spool is on, its bytes end where the backlog's bytes in memory begin.
// replication.D2. No turn reads or writes a file. A disk that fails or is too slow ends the spool. Replicas that need
// its bytes then get a full copy.
//
// Turn only, except for the functions that segments calls.
type spool struct {
	settings *Settings
	lacks    func(from int64) int64 // roster.lacks
	given    func()                 // called when the spool was given up: roster.keepNeeded
	log      *segments.Log          // nil: the spool is off

	sealed    bool  // the server ends
	restUntil int64 // end of the rest after a failure, by the core's steady clock; 0: none
	nowMs     int64 // of the last tick
	idleMs    int64 // when the last replica stopped needing it; 0: one needs it
	least     int64 // the least memory that has waited for the disk
	steps     uint64
	stepMs    int64 // when steps last grew, or nothing waited; 0: no tick has come since the start
	failures  uint64

	mu      sync.Mutex
	free    [][]byte                    // memory of blocks that are on disk
	folders map[string]*segments.Folder // each holds the lock of its directory until the process ends
}

const (
	// spoolAhead is how many bytes may wait for the disk. Beyond that the backlog keeps its blocks.
	spoolAhead = 32 << 20
	// spoolExcess bounds the additional memory that may wait for the disk, compared with the spool's begin. Beyond that
	// the disk is too slow. A higher limit of client-output-buffer-limit replaces spoolExcess, because one slow replica
	// may use that much anyway.
	spoolExcess = 64 << 20
	// spoolPatience is how many ms one disk operation may take while bytes wait.
	spoolPatience = 60_000
	// spoolRest is how many ms pass until a spool that was given up may begin again.
	spoolRest = 60_000
	// spoolIdle is how many ms a spool stays on while no replica needs it. A replica that was slow once is often slow
	// again.
	spoolIdle = 10_000
	// spoolFree bounds how many blocks are kept for reuse.
	spoolFree = 128
)

// usable reports whether blocks may go to disk. If not, the backlog in memory keeps the bytes that replicas lack.
func (s *spool) usable() bool {
	return s != nil && s.settings.DiskSize.Get() > 0 && !s.sealed && s.nowMs >= s.restUntil
}

// on reports whether a part of the backlog is on disk.
func (s *spool) on() bool { return s != nil && s.log != nil }

// An offer is the result of offering a block to the spool.
type offer uint8

const (
	refused offer = iota // no replica needs it
	taken                // the spool owns it
	delayed              // the disk has too much to do
)

// offer offers p, a block that the backlog drops, to the spool. p begins at the stream's offset at. Its capacity is the
// whole block.
func (s *spool) offer(at int64, p []byte) offer {
	if s.log == nil {
		if !s.usable() || s.lacks(at) >= at+int64(len(p)) {
			return refused
		}
		s.begin(at)
	}
	if s.log.Figures().Queued >= spoolAhead {
		return delayed
	}
	s.log.Append(p)
	return taken
}

// begin turns the spool on, from offset at.
func (s *spool) begin(at int64) {
	s.start(s.folder().New(at, s.settings.DiskSize.Get(), s.release))
}

// folder returns the folder of the server's present directory. There is one for each directory: a second one would find
// the directory locked by the first. Any goroutine.
func (s *spool) folder() *segments.Folder {
	dir := s.settings.Dir()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.folders[dir]
	if f == nil {
		f = segments.NewFolder(dir, s.settings.Files)
		s.folders[dir] = f
	}
	return f
}

func (s *spool) start(log *segments.Log) {
	s.log, s.idleMs, s.least, s.stepMs = log, 0, spoolExcess, s.nowMs
}

// release takes a block's memory back for reuse. Any goroutine.
func (s *spool) release(p []byte) {
	p = p[:cap(p)]
	s.mu.Lock()
	full := len(s.free) >= spoolFree
	if !full {
		s.free = append(s.free, p)
	}
	s.mu.Unlock()
	if full {
		_ = unix.Munmap(p)
	}
}

// memory returns the memory of a block for reuse, or nil if there is none.
func (s *spool) memory() []byte {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return nil
	}
	p := s.free[n-1]
	s.free = s.free[:n-1]
	return p
}

// freeBytes returns the memory of the blocks kept for reuse.
func (s *spool) freeBytes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.free {
		n += int64(len(p))
	}
	return n
}

// drop turns the spool off, because its bytes are no longer needed, or belong to another stream.
func (s *spool) drop() {
	if !s.on() {
		return
	}
	s.log.Drop()
	s.log = nil
	s.mu.Lock()
	gone := s.free
	s.free = nil
	s.mu.Unlock()
	go func() {
		for _, p := range gone {
			_ = unix.Munmap(p)
		}
	}()
}

// giveUp turns the spool off because of err.
func (s *spool) giveUp(err error) {
	f := s.log.Figures()
	s.settings.Log.Warning("The replication backlog on disk is given up: %v. Replicas that lack more than memory has "+
		"need a full synchronization.", err)
	s.failures++
	s.restUntil = s.nowMs + spoolRest
	if f.Err == nil {
		s.log.GiveUp(err)
	}
	s.drop()
	s.given()
}

// check turns the spool off if the disk has failed or is too slow. excess is how many bytes the backlog keeps past its
// limit.
func (s *spool) check(excess int64) {
	if !s.on() {
		return
	}
	f := s.log.Figures()
	waits := f.Queued + excess
	if s.least = min(s.least, waits); f.Steps != s.steps || f.Queued == 0 || s.stepMs == 0 {
		s.steps, s.stepMs = f.Steps, s.nowMs
	}
	switch {
	case f.Err != nil:
		s.giveUp(f.Err)
	case waits > s.least+max(spoolExcess, s.settings.Output().Hard), s.nowMs-s.stepMs > spoolPatience:
		s.giveUp(segments.ErrSlow)
	}
}

// tick turns the spool off when no replica has needed it for a while. begin is where the backlog in memory begins.
func (s *spool) tick(nowMs, begin, excess int64) {
	s.nowMs = nowMs
	if s.check(excess); !s.on() {
		return
	}
	need := s.lacks(s.log.Figures().Begin)
	s.log.Need(min(need, begin))
	switch {
	case need < begin:
		s.idleMs = 0
	case s.idleMs == 0:
		s.idleMs = nowMs
	case nowMs-s.idleMs >= spoolIdle:
		s.drop()
	}
}

// first returns the offset of the first byte that is kept. begin is where the backlog in memory begins.
func (s *spool) first(begin int64) int64 {
	if s.on() {
		return min(begin, s.log.Figures().Begin)
	}
	return begin
}

// queued returns how many bytes wait for the disk.
func (s *spool) queued() int64 {
	if s.on() {
		return s.log.Figures().Queued
	}
	return 0
}

// resize applies repl-backlog-disk-size.
func (s *spool) resize() {
	s.restUntil = 0 // the operator may have made room
	switch size := s.settings.DiskSize.Get(); {
	case !s.on():
	case size == 0:
		s.drop()
	default:
		s.log.Resize(size)
	}
}
