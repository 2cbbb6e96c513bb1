// Package bgsave writes snapshots of the keyspace on goroutines next to the core, and reads them back.
//
// Owner: savers and loader have their own goroutines. The [Scheduler] and commands.go belong to the core and are called
// in turns only.
// Elsewhere: any goroutine may call WriteTo or SaveFile with a View that it was given.
// Never: forks, makes the core wait, or touches data except through a View (saving) or inside a turn (loading).
// Start here: WriteTo turns a View into bytes. file.go makes a file of it, schedule.go decides when, load.go reads,
// commands.go replies to clients. Package rdb has the format.
//
//	View ──parts──▶ savers (encode, compress) ──buffers──▶ writer (checksum, write) ──▶ file or socket
//
// bgsave.W1. Every key of the View is written once, after its database's SELECTDB and before the next SELECTDB.
// bgsave.W2. The bytes of a record are contiguous. A buffer ends between records, or the rest of its last record
// follows directly.
// bgsave.W3. Memory is bounded by savers × saverBuffers × bufferSize, whatever the size of a value. Only a key that is
// longer than a buffer is held whole while it is written.
package bgsave

import (
	"context"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/value"
	"spindle/internal/crc"
)

// A View is the keyspace at one instant: *keyspace.View. Any goroutine may read it.
type View interface {
	DBs() []int // numbers of the databases that are not empty, ascending
	Len(db int) int
	Volatile(db int) int
	// Walk yields every key of part, one of parts parts of db.
	Walk(db, part, parts int, yield func(value.Value) bool)
	Close()
}

// Options say how a View becomes bytes.
type Options struct {
	Compress bool // LZF for strings longer than 20 bytes
	// Newest is the RDB version that readers know (rdb-version). Newer kinds are avoided where possible. 0 means the
	// newest.
	Newest   int
	Memory   bool // streams keep their memory of producers' messages, whatever Newest is
	Checksum bool // without it the checksum is 0, which readers do not check
	Savers   int  // goroutines that encode; 0: chosen by WriteTo
	Delay    int64
	Header   Header
	// Clock returns a key's idle seconds or LFU counter. rdb.None is not written. If Clock is nil, neither is written.
	// Savers call it.
	Clock    ClockFunc
	Progress *Progress // nil: no progress is shown
}

// A ClockFunc returns how long a key has been idle, and how often it was used.
type ClockFunc func(value.Value) (idle int64, freq int)

// Header holds the facts that a file states about itself and the server.
type Header struct {
	ServerVersion string // redis-ver
	CreatedUnix   int64  // ctime
	UsedMemory    int64  // used-mem
	Replication   *ReplicationState
	AOFBase       bool
	Functions     [][]byte        // library sources
	Encodings     value.Encodings // encodings in use; they decide the file's version
	Deadlines     bool            // some hash fields have deadlines; this also decides the version
	Slots         []SlotSize      // sizes of slots in cluster mode; only version 12 has them
}

// A SlotSize is the number of keys in a hash slot of a database.
type SlotSize struct {
	DB   int
	Slot uint16
	Keys int
}

// ReplicationState lets a restarted server or replica continue the replication stream.
type ReplicationState struct {
	StreamDB int
	ID       string
	Offset   int64
}

// Progress is how far a save has come. Any goroutine may read it. The caller of a save sets Total.
type Progress struct {
	Keys, Total, Bytes atomic.Int64
}

// expect adds v's keys to Total.
func (p *Progress) expect(v View) {
	for _, db := range v.DBs() {
		p.Total.Add(int64(v.Len(db)))
	}
}

// Sizes of the buffers between savers and writer.
const (
	flushAt      = rdb.SpillAt  // a buffer with this many bytes goes to the writer
	bufferSize   = rdb.SpillMax // so that one more append fits into a buffer below flushAt
	saverBuffers = 4
	politeKeys   = 256  // after so many keys (about 50 µs) a saver yields the processor to the core
	partKeys     = 4096 // about how many keys a part has
	maxParts     = 256  // the most parts of a database
)

// WriteTo writes v as an RDB file to w and returns how many bytes it wrote. It does not close v.
//
// Errors: w's first error, or ctx's cause after cancellation. The bytes written until then are not a valid file.
func WriteTo(ctx context.Context, w io.Writer, v View, o Options) (int64, error) {
	s := newSave(ctx, w, o)
	defer s.cancel(nil)
	dbs := v.DBs()
	s.put(s.header())
	for _, db := range dbs {
		if s.failed() {
			break
		}
		s.put(rdb.AppendSelectDB(nil, db, v.Len(db), v.Volatile(db)))
		if s.version() >= 12 {
			s.put(appendSlots(nil, db, s.o.Header.Slots))
		}
		s.database(v, db)
	}
	s.end()
	return s.written, s.err
}

// appendSlots appends the sizes of a database's slots. Readers may skip them.
func appendSlots(dst []byte, db int, sizes []SlotSize) []byte {
	for _, size := range sizes {
		if size.DB == db {
			dst = rdb.AppendSlotInfo(dst, int(size.Slot), size.Keys, 0)
		}
	}
	return dst
}

// save is one call of WriteTo.
type save struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	o       Options
	stopped atomic.Bool // tells savers to end: the writer failed or ctx is done
	delay   delay

	// The fields below belong to the writer.
	w       io.Writer
	written int64
	sum     uint64
	err     error
}

func newSave(ctx context.Context, w io.Writer, o Options) *save {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &save{ctx: ctx, cancel: cancel, o: o, w: w, delay: delay(o.Delay)}
	if s.o.Newest == 0 {
		s.o.Newest = codec.NewestVersion
	}
	if s.o.Savers <= 0 {
		s.o.Savers = max(1, runtime.NumCPU()-1) // one processor is left to the core
	}
	if s.delay != 0 {
		s.o.Savers = 1 // the delay applies to keys one by one
	}
	context.AfterFunc(ctx, func() { s.stopped.Store(true) })
	return s
}

// failed reports whether the save has failed or was cancelled. If so, it also stops the savers.
func (s *save) failed() bool {
	if s.err == nil && s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
	}
	if s.err != nil {
		s.stopped.Store(true)
	}
	return s.err != nil
}

// put writes p and adds it to the checksum.
func (s *save) put(p []byte) {
	if s.failed() || len(p) == 0 {
		return
	}
	if s.o.Checksum {
		s.sum = crc.Update64(s.sum, p)
	}
	n, err := s.w.Write(p)
	s.written += int64(n)
	if s.o.Progress != nil {
		s.o.Progress.Bytes.Add(int64(n))
	}
	s.err = err
}

// header returns everything before the first database.
func (s *save) header() []byte {
	h := &s.o.Header
	e := &rdb.Encoder{Compress: s.o.Compress}
	p := rdb.AppendHeader(nil, s.version())
	number := func(name string, n int64) { p = e.AppendAux(p, name, strconv.FormatInt(n, 10)) }
	p = e.AppendAux(p, "redis-ver", h.ServerVersion)
	number("redis-bits", 64)
	number("ctime", h.CreatedUnix)
	number("used-mem", h.UsedMemory)
	if r := h.Replication; r != nil {
		number("repl-stream-db", int64(r.StreamDB))
		p = e.AppendAux(p, "repl-id", r.ID)
		number("repl-offset", r.Offset)
	}
	base := int64(0)
	if h.AOFBase {
		base = 1
	}
	number("aof-base", base)
	for _, code := range h.Functions {
		p = e.AppendFunction(p, code)
	}
	return p
}

// version returns the lowest version that can hold the file's contents.
func (s *save) version() int {
	version := codec.Version(s.o.Header.Encodings, s.o.Newest, s.o.Header.Deadlines)
	if len(s.o.Header.Functions) > 0 {
		version = max(version, 10)
	}
	if s.o.Memory {
		version = max(version, codec.MemoryVersion)
	}
	return version
}

// end writes EOF and the checksum.
func (s *save) end() {
	s.put([]byte{byte(rdb.OpEOF)})
	if s.err == nil {
		s.put(rdb.AppendEOF(nil, s.sum))
	}
}

// A piece is what a saver passes to the writer at once. It holds whole records. If more is set, its last record
// continues there.
type piece struct {
	buf  *buffer
	more <-chan *buffer // the rest of buf's last record (bgsave.W2); the writer writes all of it before the next piece
}

// A buffer moves from its saver to the writer and back.
type buffer struct {
	p    []byte
	home chan<- *buffer
}

// database writes the keys of db. Savers encode its parts; this goroutine writes the encoded pieces.
func (s *save) database(v View, db int) {
	parts := max(1, min(maxParts, v.Len(db)/partKeys))
	savers := min(s.o.Savers, parts)
	pieces := make(chan piece, savers*saverBuffers)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range savers {
		wait.Go(func() {
			sv := newSaver(s, pieces)
			for !s.stopped.Load() {
				part := int(next.Add(1)) - 1
				if part >= parts {
					break
				}
				v.Walk(db, part, parts, sv.key)
			}
			sv.flush()
		})
	}
	go func() { wait.Wait(); close(pieces) }()
	for p := range pieces { // to the end, also after a failure: savers wait for their buffers
		s.writeBuffer(p.buf)
		if p.more != nil {
			for b := range p.more {
				s.writeBuffer(b)
			}
		}
	}
}

// writeBuffer writes a buffer and returns it to its saver.
func (s *save) writeBuffer(b *buffer) {
	s.put(b.p)
	b.p = b.p[:0]
	if cap(b.p) > 2*bufferSize {
		b.p = make([]byte, 0, bufferSize) // a long key made it grow
	}
	b.home <- b
}

// A saver encodes keys into its buffers, on one goroutine. A save starts several.
type saver struct {
	s      *save
	w      rdb.Writer
	pieces chan<- piece
	free   chan *buffer
	buf    *buffer      // the buffer that w writes to
	more   chan *buffer // takes the rest of a record that the writer has begun; nil: the record is all in buf
	keys   int64        // keys since the last flush
	since  int          // keys since the saver last yielded the processor
}

func newSaver(s *save, pieces chan<- piece) *saver {
	sv := &saver{s: s, pieces: pieces, free: make(chan *buffer, saverBuffers)}
	sv.w.Compress, sv.w.Spill, sv.w.Stop = s.o.Compress, sv.spill, s.stopped.Load
	for range saverBuffers {
		sv.free <- &buffer{p: make([]byte, 0, bufferSize), home: sv.free}
	}
	sv.renew()
	return sv
}

// renew gives w an empty buffer.
func (sv *saver) renew() {
	sv.buf = <-sv.free
	sv.w.Buf = sv.buf.p
}

// spill passes the bytes of a long record so far to the writer (bgsave.W2, bgsave.W3).
func (sv *saver) spill(p []byte) []byte {
	sv.buf.p = p
	if sv.more == nil {
		sv.more = make(chan *buffer, saverBuffers)
		sv.pieces <- piece{sv.buf, sv.more}
	} else {
		sv.more <- sv.buf
	}
	sv.renew()
	runtime.Gosched()
	return sv.w.Buf
}

// key encodes one key. It returns false to end the walk.
func (sv *saver) key(v value.Value) bool {
	a := rdb.Attributes{DeadlineMs: rdb.None, Idle: rdb.None, Freq: rdb.None}
	if at := v.Deadline(); at != 0 {
		a.DeadlineMs = at
	}
	if sv.s.o.Clock != nil {
		a.Idle, a.Freq = sv.s.o.Clock(v)
	}
	kind := codec.Kind(v, sv.s.o.Newest)
	if sv.s.o.Memory && codec.Remembers(v) {
		kind = rdb.KindStream4
	}
	sv.w.Buf = sv.w.AppendKey(sv.w.Buf, a, kind, v.Key())
	codec.Write(&sv.w, kind, v)
	if sv.w.Err != nil {
		sv.s.cancel(sv.w.Err) // if it was cancelled before, the first cause stays
	}
	if sv.more != nil { // the buffer holds the end of the record: it goes before any other piece
		sv.buf.p = sv.w.Buf
		sv.more <- sv.buf
		close(sv.more)
		sv.more = nil
		sv.renew()
	}
	sv.keys++
	if len(sv.w.Buf) >= flushAt {
		sv.flush()
	}
	if sv.since++; sv.since >= politeKeys {
		sv.since = 0
		runtime.Gosched()
	}
	if sv.s.delay != 0 {
		sv.flush() // so that progress is visible
		sv.s.delay.wait(sv.s.ctx)
	}
	return !sv.s.stopped.Load()
}

// flush passes the buffer to the writer and gets an empty one.
func (sv *saver) flush() {
	if len(sv.w.Buf) > 0 {
		sv.buf.p = sv.w.Buf
		sv.pieces <- piece{buf: sv.buf}
		sv.renew()
	}
	if p := sv.s.o.Progress; p != nil {
		p.Keys.Add(sv.keys)
	}
	sv.keys = 0
}

// A delay is rdb-key-save-delay or key-load-delay. A positive delay is a pause after each key, in µs. A negative delay
// -n is a pause of 1 µs after one key in n, chosen by chance.
type delay int64

// wait sleeps, unless ctx ends first.
func (d delay) wait(ctx context.Context) {
	us := int64(d)
	if us < 0 {
		if rand.Int64N(-us) != 0 {
			return
		}
		us = 1
	}
	if us < 1000 {
		time.Sleep(time.Duration(us) * time.Microsecond)
		return
	}
	t := time.NewTimer(time.Duration(us) * time.Microsecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Wait sleeps after a key for rdb-key-save-delay, unless ctx ends first.
func Wait(ctx context.Context, saveDelay int64) {
	if saveDelay != 0 {
		delay(saveDelay).wait(ctx)
	}
}
