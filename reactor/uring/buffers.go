package uring

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// Buffers are the memory that receives fill, outside the Go heap. The kernel uses them in the order in which they were
// given.
//
// uring.B1. A buffer belongs to the kernel from Give until a completion names it. Then it belongs to the caller until
// Give.
type Buffers struct {
	memory  []byte
	entries []bufferEntry
	ring    []byte // the mapped entries
	given   uint16
	ours    []bool // in builds with checks: whether the caller has it
}

const (
	// BufferSize is the greatest size of one completion. Longer buffers would hold the bytes of more requests, but few
	// reads bring that much, and long arguments are read elsewhere.
	BufferSize = 16 << 10
	// BufferCount is the number of buffers, a power of two.
	BufferCount = 64
)

func (b *Buffers) make(ring int) (err error) {
	const private = unix.MAP_PRIVATE | unix.MAP_ANON
	if b.memory, err = unix.Mmap(-1, 0, BufferSize*BufferCount, unix.PROT_READ|unix.PROT_WRITE, private); err != nil {
		return fmt.Errorf("%w: memory for its buffers: %w", ErrUnavailable, err)
	}
	size := BufferCount * int(unsafe.Sizeof(bufferEntry{}))
	if b.ring, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, private); err != nil {
		return fmt.Errorf("%w: memory for its buffers: %w", ErrUnavailable, err)
	}
	b.entries = unsafe.Slice((*bufferEntry)(unsafe.Pointer(&b.ring[0])), BufferCount)
	reg := bufferRing{address: uint64(uintptr(unsafe.Pointer(&b.ring[0]))), entries: BufferCount}
	if err := register(ring, registerBufferRing, unsafe.Pointer(&reg)); err != nil {
		return fmt.Errorf("%w: registering its buffers: %w", ErrUnavailable, err)
	}
	if invariant.Enabled {
		b.ours = make([]bool, BufferCount)
	}
	for i := range BufferCount {
		b.take(i)
		b.Give(i)
	}
	return nil
}

// Bytes returns the first n bytes of a buffer. They belong to the caller until Give.
func (b *Buffers) Bytes(id, n int) []byte { return b.memory[id*BufferSize:][:n:n] }

// take notes that a completion has named a buffer.
func (b *Buffers) take(id int) {
	if invariant.Enabled {
		b.ours[id] = true
	}
}

// Give returns a buffer to the kernel. The kernel sees that at the next Enter, so no barrier is needed (uring.R1).
func (b *Buffers) Give(id int) {
	if invariant.Enabled {
		invariant.That(b.ours[id], "uring.B1: buffer %d is given twice", id)
		b.ours[id] = false
		fill(b.memory[id*BufferSize:][:BufferSize])
	}
	e := &b.entries[b.given%BufferCount]
	e.address = uint64(uintptr(unsafe.Pointer(&b.memory[id*BufferSize])))
	e.length, e.id = BufferSize, uint16(id)
	b.given++
	b.entries[0].tail = b.given
}

// fill overwrites memory that does not belong to the caller any more.
func fill(p []byte) {
	for i := range p {
		p[i] = 0xDB
	}
}

func (b *Buffers) free() {
	for _, m := range [][]byte{b.memory, b.ring} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
}
