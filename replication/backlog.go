package replication

import (
	"math"

	"golang.org/x/sys/unix"
)

// A backlog keeps the end of the stream, for replicas that lack a part of it. So a replica whose link broke can
// continue where it was.
//
//	blocks   [ ....#### ][ ######## ][ ###..... ]      # is kept: length bytes that end at offset end
//	           oldest                  newest
//
// replication.B1. The kept bytes are those of the stream from offset end-length up to end. They are the last limit
// bytes at most, and the bytes after floor, which a replica still needs. With a spool there may be some more: see
// replication.B3.
// replication.B2. Each block but the newest is full, and no block lies wholly before the kept bytes.
// replication.B3. While the spool is on, all bytes in blocks are kept, because they continue the spool.
//
// Blocks are mapped memory outside the Go heap. Their pages take memory only once they are written. Turn only.
type backlog struct {
	blocks []*block
	spare  *block // the block that was emptied last: in steady state no block is mapped
	limit  int64
	floor  int64 // everything after this offset is kept; noFloor: only limit counts
	length int64
	end    int64  // the stream's offset after the last byte
	spool  *spool // gets the dropped blocks; nil: they are freed
}

// blockBytes is the size of a block, which is mapped as a whole.
const blockBytes = 16 << 10

type block struct {
	memory []byte // blockBytes
	used   int
}

// noFloor is the floor if no replica lacks any bytes.
const noFloor = math.MaxInt64

// newBacklog returns an empty backlog that begins at the stream's offset at.
func newBacklog(limit, at int64) *backlog { return &backlog{limit: limit, floor: noFloor, end: at} }

// begin is the stream's offset before the first byte that is kept.
func (b *backlog) begin() int64 { return b.end - b.length }

// excess returns how many bytes are kept past the limit, for replicas that need them.
func (b *backlog) excess() int64 { return max(0, b.length-b.limit) }

// setFloor keeps the bytes after offset floor, for a replica that has the stream up to there.
func (b *backlog) setFloor(floor int64) {
	if floor == b.floor {
		return
	}
	rises := floor > b.floor
	if b.floor = floor; rises {
		b.trim()
	}
}

// bytes returns the memory of the backlog.
func (b *backlog) bytes() int64 { return int64(len(b.blocks)) * blockBytes }

// write appends p, and drops bytes past the limit. It reports whether there was memory for p. If not, the backlog keeps
// nothing, and continues after p.
func (b *backlog) write(p []byte) bool {
	if int64(len(p)) > b.limit && b.floor == noFloor && !b.spool.usable() { // these would be dropped at once
		skipped := int64(len(p)) - b.limit
		b.forget()
		b.end += skipped
		p = p[skipped:]
	}
	for len(p) > 0 {
		last := b.newest()
		if last == nil {
			b.forget()
			b.end += int64(len(p))
			return false
		}
		n := copy(last.memory[last.used:], p)
		last.used += n
		b.length += int64(n)
		b.end += int64(n)
		p = p[n:]
		b.trim()
	}
	return true
}

// newest returns the block that has room at its end, or nil if the system has no memory.
func (b *backlog) newest() *block {
	if n := len(b.blocks); n > 0 && b.blocks[n-1].used < blockBytes {
		return b.blocks[n-1]
	}
	fresh := b.spare
	b.spare = nil
	if fresh == nil {
		if memory := b.spool.memory(); memory != nil {
			fresh = &block{memory: memory}
		}
	}
	if fresh == nil {
		memory, err := unix.Mmap(-1, 0, blockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil
		}
		fresh = &block{memory: memory}
	}
	fresh.used = 0
	b.blocks = append(b.blocks, fresh)
	return fresh
}

// filled returns how many bytes lie in blocks, with those before begin.
func (b *backlog) filled() int64 {
	n := len(b.blocks)
	if n == 0 {
		return 0
	}
	return int64(n-1)*blockBytes + int64(b.blocks[n-1].used)
}

// trim drops the bytes past the limit. Blocks that replicas need go to the spool.
func (b *backlog) trim() {
	b.length = min(b.length, max(b.limit, b.end-b.floor))
	var gone []*block
	for len(b.blocks) > 0 && b.filled()-int64(b.blocks[0].used) >= b.length {
		first, offer := b.blocks[0], refused
		if b.spool != nil && b.length > 0 {
			offer = b.spool.offer(b.end-b.filled(), first.memory[:first.used])
		}
		if offer == delayed {
			break
		}
		b.blocks[0] = nil
		b.blocks = b.blocks[1:]
		switch {
		case offer == taken:
		case b.spare == nil:
			b.spare = first
		default:
			gone = append(gone, first)
		}
	}
	if b.spool.on() {
		b.length = b.filled()
	}
	unmap(gone)
}

// unmap unmaps blocks outside the turn, because many of them take milliseconds.
func unmap(gone []*block) {
	if len(gone) == 0 {
		return
	}
	go func() {
		for _, b := range gone {
			_ = unix.Munmap(b.memory)
		}
	}()
}

// forget drops all bytes, also those that a replica needs and those on disk.
func (b *backlog) forget() {
	b.spool.drop()
	b.length, b.floor = 0, noFloor
	b.trim()
}

// resize changes the limit.
func (b *backlog) resize(limit int64) {
	b.limit = limit
	b.trim()
}

// free releases all memory and files.
func (b *backlog) free() {
	b.spool.drop()
	gone := b.blocks
	if b.spare != nil {
		gone = append(gone, b.spare)
	}
	b.blocks, b.spare, b.length = nil, nil, 0
	unmap(gone)
}

// rebase moves the stream to another offset. It drops the kept bytes, which belong to another stream.
func (b *backlog) rebase(at int64) {
	b.forget()
	b.end = at
}

// read copies the bytes after offset from into p, where begin() <= from <= end. It returns how many bytes it has
// copied.
func (b *backlog) read(p []byte, from int64) (n int) {
	at := b.filled() - (b.end - from)
	for i := int(at / blockBytes); i < len(b.blocks) && n < len(p); i++ {
		n += copy(p[n:], b.blocks[i].memory[at%blockBytes:b.blocks[i].used])
		at += blockBytes - at%blockBytes
	}
	return n
}
