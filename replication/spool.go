package replication

import (
	"sync"

	"golang.org/x/sys/unix"

	"spindle/replication/segments"
)

// A spool is the backlog's part on disk. Blocks that memory drops go there while a replica still needs them. That is a
// replica that is slow, takes a full copy, has not acknowledged them, or has left lately.
//
//	disk                              memory
//	[ segments ][ wait for the disk ][ blocks of the backlog ]
//	first                            begin()                end
//
// replication.D1. While the spool is on, its bytes end where those of the backlog in memory begin.
// replication.D2. No turn reads or writes a file. A disk that fails or is too slow ends the spool. Replicas that need
// its bytes then get a full copy.
//
// Turn only, but for what segments call.
type spool struct {
	settings *Settings
	lacks    func(from int64) int64 // roster.lacks
	given    func()                 // the spool was given up: roster.keepNeeded
	folder   *segments.Folder
	log      *segments.Log // nil: it is off

	sealed    bool  // the server ends
	restUntil int64 // by the core's steady clock: after a failure; 0: it does not rest
	nowMs     int64 // of the last tick
	idleMs    int64 // when no replica needed it any more; 0: one does
	least     int64 // the least that has waited in memory for the disk
	steps     uint64
	stepMs    int64 // when steps last grew, or nothing waited
	failures  uint64

	mu   sync.Mutex
	free [][]byte // memory of blocks that the disk has
}

const (
	// spoolAhead is how many bytes may wait for the disk. Beyond it the backlog keeps its blocks.
	spoolAhead = 32 << 20
	// spoolExcess bounds how much more memory than at the begin may wait for the disk. Beyond it the disk is too slow. A
	// higher limit of client-output-buffer-limit holds in its place: one slow replica may cost as much anyway.
	spoolExcess = 64 << 20
	// spoolPatience is how long one operation of the disk may take while bytes wait.
	spoolPatience = 60_000
	// spoolRest is how long a spool that was given up rests.
	spoolRest = 60_000
	// spoolIdle is how long a spool stays that no replica needs. A replica that is slow once is often slow again.
	spoolIdle = 10_000
	// spoolFree bounds how many blocks are kept to be used again.
	spoolFree = 128
)

// usable reports whether blocks may go to disk. If not, the backlog in memory keeps what replicas lack.
func (s *spool) usable() bool {
	return s != nil && s.settings.DiskSize.Get() > 0 && !s.sealed && s.nowMs >= s.restUntil
}

// on reports whether there is a part on disk.
func (s *spool) on() bool { return s != nil && s.log != nil }

// An offer is what became of a block.
type offer uint8

const (
	refused offer = iota // no replica needs it
	taken                // the spool owns it
	delayed              // the disk has enough to do
)

// offer offers p, a block that the backlog drops. It begins at offset at. Its capacity is all of the block's memory.
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

// begin turns the spool on. It begins at offset at.
func (s *spool) begin(at int64) {
	if dir := s.settings.Dir(); s.folder == nil || s.folder.Dir() != dir {
		s.folder = segments.NewFolder(dir, s.settings.Files)
	}
	s.start(s.folder.New(at, s.settings.DiskSize.Get(), s.release))
}

func (s *spool) start(log *segments.Log) {
	s.log, s.idleMs, s.least, s.stepMs = log, 0, spoolExcess, s.nowMs
}

// release takes back a block's memory. Any goroutine.
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

// memory returns the memory of a block, to be used again; nil: there is none.
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

// freeBytes is the memory of blocks to be used again.
func (s *spool) freeBytes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.free {
		n += int64(len(p))
	}
	return n
}

// drop turns the spool off. Its bytes are no longer needed, or are those of another stream.
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

// check gives the spool up if the disk has failed or is too slow. excess is what the backlog keeps past its limit.
func (s *spool) check(excess int64) {
	if !s.on() {
		return
	}
	f := s.log.Figures()
	waits := f.Queued + excess
	if s.least = min(s.least, waits); f.Steps != s.steps || f.Queued == 0 {
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

// first is the offset of the first byte that is kept, of a backlog in memory that begins at begin.
func (s *spool) first(begin int64) int64 {
	if s.on() {
		return min(begin, s.log.Figures().Begin)
	}
	return begin
}

// queued is how many bytes wait for the disk.
func (s *spool) queued() int64 {
	if s.on() {
		return s.log.Figures().Queued
	}
	return 0
}

// resize follows repl-backlog-disk-size.
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
