package segments

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"
)

// A log is stored in segments. Each is a file with a head and blocks, which hold the stream in order.
//
//	head   0        8        16       24        block   0        8        12       20
//	       +--------+--------+--------+                 +--------+--------+--------+-- ~ --+
//	       | magic  | nonce  | begin  |                 | offset | length | sum    | bytes |
//	       +--------+--------+--------+                 +--------+--------+--------+-- ~ --+
//	         text     u64      i64                        i64      u32      u64      length
//
// Integers are little endian. offset is the stream's before the block. sum covers the bytes. Its seed covers the nonce
// and the offset. So a block of another log, or of another place, counts as damage too.
const (
	magic     = "SPBKLG01"
	headLen   = 24
	blockHead = 20
	blockMost = 1 << 20 // the longest block that a reader accepts
)

// appendHead appends the head of a segment.
func appendHead(dst []byte, nonce uint64, begin int64) []byte {
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint64(dst, nonce)
	return binary.LittleEndian.AppendUint64(dst, uint64(begin))
}

// appendBlock appends a block of the bytes p, which come after offset.
func appendBlock(dst []byte, nonce uint64, offset int64, p []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(offset))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p)))
	dst = binary.LittleEndian.AppendUint64(dst, sum(nonce, offset, p))
	return append(dst, p...)
}

func sum(nonce uint64, offset int64, p []byte) uint64 {
	return xxh3.HashSeed(p, nonce^uint64(offset)*0x9E3779B97F4A7C15)
}

// Errors of a log.
var (
	// ErrMoved is the error for bytes that the log has dropped, because its size is bounded.
	ErrMoved = errors.New("the backlog on disk has moved past it")
	// ErrDamaged is the error for a block that differs from the one that was written.
	ErrDamaged = errors.New("a block of the backlog on disk is damaged")
	// ErrClosed is the error of a log that was dropped or sealed.
	ErrClosed = errors.New("the backlog on disk was closed")
	// ErrSlow is the error of a log whose disk is too slow for the stream.
	ErrSlow = errors.New("the disk does not take the stream fast enough")
	// ErrShared is the error for a folder whose files another server uses.
	ErrShared = errors.New("another server keeps its backlog in this folder")
)

// A Log is a part of a stream, in segments.
type Log struct {
	folder  *Folder
	nonce   uint64
	release func(p []byte) // takes back the memory given to Append
	done    chan struct{}  // closed when the writer has ended

	mu       sync.Mutex
	moved    *sync.Cond // signals changes of the fields below
	limit    int64      // of the bytes in files
	segments []segment  // in order; together they are the stream from begin to written
	inFiles  int64      // their bytes
	queue    []piece    // the stream from written to end, less the batch that the writer is writing
	queued   int64      // bytes from written to end
	begin    int64
	written  int64
	end      int64
	need     int64 // no reader will ask for bytes before this offset
	steps    uint64
	seal     *Note
	err      error
}

// A segment is a file of a log: the stream from Begin to End.
type segment struct {
	Begin, End int64
	Bytes      int64 // of the file
}

// A piece holds bytes that were appended and are not written yet.
type piece struct {
	at int64
	p  []byte
}

// leastLimit is the smallest limit of a log.
const leastLimit = 1 << 20

// segmentBytes returns how many bytes of the stream one file holds, for a limit.
func segmentBytes(limit int64) int64 { return min(limit/8, 32<<20) }

// New begins a log at the stream's offset at. It keeps up to limit bytes in files, and at least 1 MB. release is called
// once for each p that Append has accepted, from any goroutine.
func (f *Folder) New(at, limit int64, release func(p []byte)) *Log {
	l := f.newLog(random(), limit, release)
	l.begin, l.written, l.end, l.need = at, at, at, at
	go l.run()
	return l
}

func (f *Folder) newLog(nonce uint64, limit int64, release func(p []byte)) *Log {
	l := &Log{folder: f, nonce: nonce, release: release, limit: max(limit, leastLimit), done: make(chan struct{})}
	l.moved = sync.NewCond(&l.mu)
	return l
}

// Append adds p to the end. The log owns p until it calls release. Append never waits for the disk; Figures.Queued
// tells how much memory the log holds.
func (l *Log) Append(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.seal != nil {
		l.release(p)
		return
	}
	l.queue = append(l.queue, piece{l.end, p})
	l.queued += int64(len(p))
	l.end += int64(len(p))
	l.moved.Broadcast()
}

// Figures are a log's state at one moment.
type Figures struct {
	Begin, End int64  // offsets of the stream that it has
	Queued     int64  // bytes that wait for the disk, in memory
	InFiles    int64  // bytes of its files
	Steps      uint64 // grows with each completed disk operation
	Err        error  // why it was given up; nil: it was not
}

// Figures returns the log's state.
func (l *Log) Figures() Figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Figures{Begin: l.begin, End: l.end, Queued: l.queued, InFiles: l.inFiles, Steps: l.steps, Err: l.err}
}

// Resize changes the limit.
func (l *Log) Resize(limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = max(limit, leastLimit)
	l.moved.Broadcast()
}

// Need promises that no reader will ask for bytes before offset at. The log removes the segments before it.
func (l *Log) Need(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at != l.need {
		l.need = at
		l.moved.Broadcast()
	}
}

// GiveUp ends the log because of err. Its files are removed as soon as the disk allows. Readers get err.
func (l *Log) GiveUp(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err)
}

// Drop ends the log, which is no longer needed.
func (l *Log) Drop() { l.GiveUp(ErrClosed) }

// fail records the first error. The caller holds mu.
func (l *Log) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	for _, q := range l.queue {
		l.release(q.p)
	}
	l.queue, l.queued = nil, 0
	l.moved.Broadcast()
}

// Done returns a channel that is closed when the log has ended and its files are removed, or have their note.
func (l *Log) Done() <-chan struct{} { return l.done }

// Seal ends the log in order. When all bytes are in the files, it writes a note for the next process, with the caller's
// part n. done is closed after that, or when the log has failed.
func (l *Log) Seal(n Note) (done <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seal = &n
	l.moved.Broadcast()
	return l.done
}

// locate returns the segment that has the byte after offset at. It waits for the writer.
//
// Errors: io.EOF if the log ends there; ErrMoved; the reason why the log was given up.
func (l *Log) locate(at int64) (segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && at >= l.written && at < l.end {
		l.moved.Wait()
	}
	switch {
	case l.err != nil:
		return segment{}, l.err
	case at < l.begin:
		return segment{}, ErrMoved
	case at >= l.written:
		return segment{}, io.EOF
	}
	i, _ := slices.BinarySearchFunc(l.segments, at, func(s segment, at int64) int {
		if s.End <= at {
			return -1
		}
		return 1
	})
	return l.segments[i], nil
}
