package aof

import (
	"golang.org/x/sys/unix"
)

// A buffer holds the bytes of the log that are not yet on disk, outside the Go heap.
//
//	chunks: [ ░░░░████ ][ ████████ ][ ███      ]
//	              ^ first               ^ end        offsets of the log, which only grow
//
// aof.B1. A chunk is chunkBytes long. chunks[0] begins at base.
// aof.B2. Bytes before end do not change while they are in the buffer. So they may be read without a lock.
type buffer struct {
	chunks [][]byte
	spare  [][]byte
	base   int64
	first  int64
	end    int64
}

const (
	chunkBytes  = 256 << 10
	spareChunks = 4
)

// add appends p.
func (b *buffer) add(p []byte) {
	for len(p) > 0 {
		at := int(b.end - b.base)
		if at == len(b.chunks)*chunkBytes {
			b.chunks = append(b.chunks, b.chunk())
		}
		n := copy(b.chunks[at/chunkBytes][at%chunkBytes:], p)
		p = p[n:]
		b.end += int64(n)
	}
}

// chunk returns an empty chunk.
func (b *buffer) chunk() []byte {
	if n := len(b.spare); n > 0 {
		c := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return c
	}
	c, err := unix.Mmap(-1, 0, chunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, chunkBytes) // the system allows no more mappings, but the heap may have room
	}
	return c
}

// appendRuns appends the buffered bytes before offset to, as runs of adjacent bytes.
//
// Lifetime: until drop passes them (aof.B2).
func (b *buffer) appendRuns(runs [][]byte, to int64) [][]byte {
	for from := b.first; from < to; {
		at := int(from - b.base)
		n := min(int(to-from), chunkBytes-at%chunkBytes)
		runs = append(runs, b.chunks[at/chunkBytes][at%chunkBytes:][:n])
		from += int64(n)
	}
	return runs
}

// drop drops the bytes before offset to, which are on disk.
func (b *buffer) drop(to int64) {
	b.first = to
	if b.first == b.end && len(b.chunks) > 0 { // the usual case: the same memory again
		b.release(b.chunks[1:])
		b.chunks, b.base = b.chunks[:1], b.end
		return
	}
	n := int(b.first-b.base) / chunkBytes
	b.release(b.chunks[:n])
	b.chunks = append(b.chunks[:0], b.chunks[n:]...)
	b.base += int64(n) * chunkBytes
}

// release keeps some chunks as spare, and unmaps the others.
func (b *buffer) release(chunks [][]byte) {
	for i, c := range chunks {
		if len(b.spare) < spareChunks {
			b.spare = append(b.spare, c)
		} else {
			_ = unix.Munmap(c) // fails for a chunk on the heap, which the collector frees
		}
		chunks[i] = nil
	}
}

// size returns how many bytes wait for the disk, memory how many bytes are mapped for them.
func (b *buffer) size() int64   { return b.end - b.first }
func (b *buffer) memory() int64 { return int64(len(b.chunks)+len(b.spare)) * chunkBytes }
