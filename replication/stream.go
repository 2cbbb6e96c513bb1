package replication

import (
	"strconv"
	"sync/atomic"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/protocol"
)

// A stream is the sequence of effects, as the bytes that replicas read. They come from the core or, on a replica, from
// the primary. A backlog keeps the stream's end. It exists from the first replica until repl-backlog-ttl after the last
// one.
//
// replication.F1. offset counts every byte of the stream, also those that no replica has.
// replication.F2. A turn adds one slice of chunk. All replicas share it, and it is never written again.
//
// Turn only, except for shown and unsure.
type stream struct {
	history
	core     *engine.Core
	settings *Settings
	sink     engine.Sink        // the core's way to this stream; the core has it while there is a backlog
	deliver  func(piece []byte) // posts the new bytes to the replicas

	offset      int64
	shown       atomic.Int64 // a copy of offset, for Offset
	unsure      atomic.Bool  // the offset is not known to be in the history of the server that this one follows
	log         *backlog     // nil: no replica has followed for long
	spool       *spool       // the part of the stream that log has dropped
	idleSinceMs int64        // when the last replica left
	following   bool         // the stream is a primary's
	still       bool         // the offset must not change, because a replica takes over at it
	beginning   bool         // a file is being loaded; removals of its expired keys are the stream's first bytes
	selected    int          // the stream's database; -1: the next effect needs SELECT
	chunk       []byte       // chunkBytes at a time; bytes before sent are shared and immutable
	sent        int
}

// chunkBytes is the unit in which the stream takes memory from the Go heap. A chunk lives until the slowest replica has
// it.
const chunkBytes = 64 << 10

// Offset returns the recent length of the stream, or 0 while a full copy is being received. With min-replicas-to-ack it
// is also 0 from when this server begins to follow another until its stream has begun. Any goroutine.
func (s *stream) Offset() int64 {
	if s.unsure.Load() && s.settings.MinAck.Get() > 0 {
		return 0
	}
	return s.shown.Load()
}

// moveTo sets the offset.
func (s *stream) moveTo(offset int64) {
	s.offset = offset
	s.shown.Store(offset)
}

// open makes a backlog if there is none. The history is then a new one. Effects without a backlog have moved no offset.
// So an earlier replica has other data under the old name and offset.
func (s *stream) open() {
	if s.log != nil {
		return
	}
	s.history = newHistory()
	s.beginLog()
	s.selected, s.idleSinceMs = -1, s.core.SteadyMs()
	s.core.AddSink(s.sink, client.ToReplicas)
}

func (s *stream) beginLog() {
	s.log = newBacklog(s.settings.BacklogSize.Get(), s.offset)
	s.log.spool = s.spool
}

// first returns the offset of the first byte of the stream that is kept, in memory or on disk. There must be a backlog.
func (s *stream) first() int64 { return s.spool.first(s.log.begin()) }

// endLog frees the backlog.
func (s *stream) endLog() {
	s.log.free()
	s.log = nil
	s.noteBacklog()
}

// dropIdle ends a stream that no replica has followed for repl-backlog-ttl.
func (s *stream) dropIdle(nowMs int64) {
	ttl := s.settings.BacklogTTL.Get()
	if s.log == nil || s.following || s.beginning || ttl == 0 || nowMs-s.idleSinceMs <= ttl*1000 {
		return
	}
	s.history = newHistory()
	s.flush()
	s.endLog()
	s.core.RemoveSink(s.sink)
	s.settings.Log.Notice("Replication backlog freed after %d seconds without connected replicas.", ttl)
}

// ResizeBacklog applies repl-backlog-size.
func (s *stream) ResizeBacklog() {
	if s.log != nil {
		s.log.resize(s.settings.BacklogSize.Get())
		s.noteBacklog()
	}
}

// OnDisk reports whether a part of the stream is on disk. Turn only.
func (s *stream) OnDisk() bool { return s.spool.on() }

// ResizeSpool applies repl-backlog-disk-size.
func (s *stream) ResizeSpool() {
	if s.spool.resize(); s.log != nil {
		s.spool.given()
	}
}

// tickSpool is the spool's share of the core's duty that runs every 100 ms.
func (s *stream) tickSpool(nowMs int64) {
	s.spool.nowMs = nowMs
	if s.log == nil || !s.spool.on() && !s.spool.usable() {
		return
	}
	s.flush()
	s.spool.given()
	s.log.trim() // drops what has waited for the disk
	s.spool.tick(nowMs, s.log.begin(), s.log.excess())
	s.noteBacklog()
}

// noteBacklog reports the memory of the stream to the core.
func (s *stream) noteBacklog() {
	bytes, _ := s.StreamBytes()
	s.core.NoteStream(bytes, s.settings.BacklogSize.Get())
}

// StreamBytes returns the memory of the kept stream, and the part of it beyond repl-backlog-size, which replicas still
// lack. Turn only.
func (s *stream) StreamBytes() (all, excess int64) {
	if s.log == nil {
		return 0, 0
	}
	queued := s.spool.queued()
	return s.log.bytes() + queued + s.spool.freeBytes(), s.log.excess() + queued
}

// enter appends SELECT if the stream's database is not db.
func (s *stream) enter(db int) {
	if db == engine.AnyDB || db == s.selected {
		return
	}
	s.selected = db
	s.write(protocol.AppendCommand(nil, [][]byte{[]byte("SELECT"), []byte(strconv.Itoa(db))}))
}

// write appends p.
func (s *stream) write(p []byte) {
	s.moveTo(s.offset + int64(len(p)))
	if len(s.chunk)+len(p) > cap(s.chunk) {
		s.flush()
		s.chunk = make([]byte, 0, max(chunkBytes, len(p)))
		s.sent = 0
	}
	s.chunk = append(s.chunk, p...)
}

// flush passes the new bytes to the backlog and to the replicas.
func (s *stream) flush() {
	if s.sent == len(s.chunk) {
		return
	}
	piece := s.chunk[s.sent:len(s.chunk):len(s.chunk)]
	s.sent = len(s.chunk)
	if s.log != nil {
		s.spool.check(s.log.excess())
	}
	if s.log != nil && !s.log.write(piece) {
		s.settings.Log.Warning("The system gives no memory for the replication backlog: it begins again.")
	}
	s.deliver(piece)
	s.noteBacklog()
}

// forward appends bytes of the primary's stream that were applied here.
func (s *stream) forward(p []byte) {
	s.write(p)
	s.flush()
}

// follow switches the stream to a primary's bytes, which forward adds. The core no longer has the feed as a sink,
// because the effects of what it runs are in the stream already (replication.H1).
func (s *stream) follow() {
	if s.following {
		return
	}
	s.flush()
	if s.log == nil {
		s.beginLog()
	} else {
		s.core.RemoveSink(s.sink)
	}
	s.following = true
}

// lead switches the stream back to the effects of this server's core.
func (s *stream) lead() {
	s.following, s.selected, s.idleSinceMs = false, -1, s.core.SteadyMs()
	s.shown.Store(s.offset) // also after a full copy that has failed
	s.core.AddSink(s.sink, client.ToReplicas)
}

// branch begins a new history that continues the present one. Replicas of the present one may continue up to here.
func (s *stream) branch() { s.rename(newID(), s.offset) }
