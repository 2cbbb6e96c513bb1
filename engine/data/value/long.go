package value

import (
	"math/rand/v2"
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/internal/compress/lzf"
	"spindle/internal/invariant"
)

// A long is the root of a string that does not fit in its entry. It has a header and a word for each chunk of 64 KB.
//
//	0        8        16      20      24     32       40      48
//	+--------+--------+-------+-------+------+--------+-------+---------+---------+-- ~ --+
//	| epoch  | length | count | room  | pin  | origin | moved | chunk 0 | chunk 1 |       |
//	+--------+--------+-------+-------+------+--------+-------+---------+---------+-- ~ --+
//	  u64      u64      u32     u32     u64    u64      u64     Ref | bit 0 shared; 0: all zeros
//
// value.L1. count = ceil(length / 64 KB), at most room. Every chunk but the last holds 64 KB. The last has room for at
// least the rest.
// value.L2. A root stamped at or below heap.Frozen(), or pinned, is not written (except for pin and moved). It is
// copied, and in the copy every chunk is marked as shared.
// value.L3. A shared chunk is replaced, not written, while there is a view or a pin that may read it.
// value.L4. The newest root owns its chunks. An older root, kept for a view or a pin, owns only its root block.
// value.L5. A chunk word of 0 is a chunk of zeros that was never written. So SETRANGE far after the end costs nothing.
type long struct {
	epoch  uint64
	length uint64
	count  uint32
	room   uint32
	pin    uint64 // number of the pin that reads this root, or 0; only the core uses it
	origin uint64 // number of a pin that may read chunks shared with this root, or 0
	moved  uint64 // not 0 if the string was under another key (another position for views); only the core uses it
}

const longHeader = 48

var _ [longHeader]byte = [unsafe.Sizeof(long{})]byte{}

const (
	chunkShift = 16
	// ChunkSize is the size of each chunk of a long string except the last.
	ChunkSize = 1 << chunkShift

	chunkShared = 1
	chunkRef    = 1<<48 - 8

	// freeAtOnce is how many chunks the turn frees itself. A reclaimer frees longer strings.
	freeAtOnce = 64
)

var zeros [ChunkSize]byte

func longAt(r memory.Ref) *long { return (*long)(memory.Pointer(r)) }

func longBytes(room int) int { return longHeader + room*8 }

func chunksFor(n int) int { return (n + ChunkSize - 1) >> chunkShift }

func (l *long) chunk(i int) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(l), longHeader+i*8))
}

// used returns how many bytes of chunk i belong to the string.
func (l *long) used(i int) int { return min(int(l.length)-i<<chunkShift, ChunkSize) }

// piece returns chunk i's part of the string, for reading only.
func (l *long) piece(i int) []byte {
	w := *l.chunk(i)
	if w == 0 {
		return zeros[:l.used(i)]
	}
	return memory.Bytes(memory.Ref(w&chunkRef), l.used(i))
}

// cost returns the bytes of the root and its chunks.
func (l *long) cost() int {
	n := memory.GoodSize(longBytes(int(l.room)))
	for i := range int(l.count) {
		if w := *l.chunk(i); w != 0 {
			n += memory.UsableSize(memory.Ref(w & chunkRef))
		}
	}
	return n
}

// A Store allocates, changes and frees what values keep outside their entries.
//
// Owner: the core, in its turn. Any goroutine may call a pin's release.
type Store struct {
	Heap        *memory.Heap
	Rand        *rand.PCG // the source of random choices
	Base        int64     // Unix ms of tick 0 of deadlines
	Relocations int64     // blocks, and whole values, that Relocate has moved
	// Used is the set of encodings that collections have had since the data set was last empty. It decides the version
	// of an RDB file.
	Used Encodings
	// CountMany counts the elements of a listpack if the header cannot hold their number. Tests whose collections are
	// not real listpacks replace it.
	CountMany func(lp []byte) int

	pins    pins
	kinds   [kinds]Structure
	freeing *memory.Returner // for structures that the turn frees itself

	packer *lzf.Packer // for Compress
}

// Init prepares s.
func (s *Store) Init(h *memory.Heap) {
	s.Heap, s.CountMany = h, listpack.Count
	h.Register(KindLong, destroyLong)
	h.Measure(KindLong, longMeasure)
}

// longMeasure estimates a string's bytes without reading its chunks, as cost would.
func longMeasure(root memory.Ref) (bytes int64) {
	l := longAt(root)
	for i := range int(l.count) {
		if *l.chunk(i) != 0 { // otherwise zeros, which take nothing (value.L5)
			bytes += int64(l.used(i))
		}
	}
	return bytes
}

// newRoot returns a root without chunks, with room for room chunks.
func (s *Store) newRoot(room int) memory.Ref {
	r := s.Heap.Alloc(longBytes(room), memory.Values)
	l := longAt(r)
	*l = long{epoch: s.Heap.Epoch(), room: uint32((memory.UsableSize(r) - longHeader) / 8)}
	return r
}

// NewLong returns the root of a string with val's content.
func (s *Store) NewLong(val []byte) memory.Ref {
	r := s.newRoot(chunksFor(len(val)))
	l := longAt(r)
	for len(val) > 0 {
		n := min(len(val), ChunkSize)
		c := s.Heap.Alloc(n, memory.Values)
		copy(memory.Bytes(c, n), val[:n])
		*l.chunk(int(l.count)) = uint64(c)
		l.count++
		l.length += uint64(n)
		val = val[n:]
	}
	return r
}

// NewZeros returns the root of a string of n zeros.
func (s *Store) NewZeros(n int) memory.Ref {
	r := s.newRoot(chunksFor(n))
	s.extend(longAt(r), n)
	return r
}

// NewApart is NewZeros for a string that is written over several turns before it gets a key.
func (s *Store) NewApart(n int) memory.Ref {
	r := s.NewZeros(n)
	longAt(r).moved = 1 // set because the string has no position yet
	return r
}

// Adopt returns the root of a string whose n bytes lie in the run at ref, of purpose Values. The run is split into
// chunks, not copied.
func (s *Store) Adopt(ref memory.Ref, n int) memory.Ref {
	r := s.newRoot(chunksFor(n))
	l := longAt(r)
	l.length = uint64(n)
	for {
		*l.chunk(int(l.count)) = uint64(ref)
		l.count++
		if n <= ChunkSize {
			s.Heap.Shrink(ref, n, memory.Values)
			return r
		}
		ref = s.Heap.Split(ref, ChunkSize)
		n -= ChunkSize
	}
}

// writable returns the root to write instead of root, with room for n chunks (value.L2). If the result is a new root,
// the old root is freed.
// Cost: a compare. If a view or a pin reads the root, or there is no room left, a copy of 8 bytes a chunk.
func (s *Store) writable(root memory.Ref, n int) memory.Ref {
	l := longAt(root)
	seen := l.epoch <= s.Heap.Frozen() || l.pin != 0
	if !seen && n <= int(l.room) {
		return root
	}
	room := max(n, int(l.room))
	if n > int(l.room) {
		room = n + n/8
	}
	r := s.newRoot(room)
	dup := longAt(r)
	dup.length, dup.count, dup.origin, dup.moved = l.length, l.count, l.origin, l.moved
	mark := uint64(0)
	if seen {
		mark = chunkShared
	}
	if l.pin != 0 {
		dup.origin = l.pin
	}
	for i := range int(l.count) {
		if w := *l.chunk(i); w != 0 {
			*dup.chunk(i) = w | mark
		} else {
			*dup.chunk(i) = 0
		}
	}
	invariant.That(dup.epoch > s.Heap.Frozen(), "value.L2: root stamped %d under freeze %d", dup.epoch, s.Heap.Frozen())
	switch {
	case l.pin != 0:
		s.keep(l.pin, keptBlock{ref: root})
	case seen:
		s.retire(root, l.moved != 0)
	default:
		s.Heap.Free(root, memory.Values)
	}
	return r
}

// retire retires a block that views may still read, at the position that the caller has set.
func (s *Store) retire(r memory.Ref, moved bool) {
	if moved {
		s.Heap.RetireWide(r, memory.Values)
	} else {
		s.Heap.Retire(r, memory.Values)
	}
}

// shared reports whether a view or a pin may read a chunk of l (value.L3).
func (s *Store) shared(l *long, w uint64) bool {
	return w&chunkShared != 0 && (s.Heap.Frozen() != 0 || s.pins.alive(l.origin))
}

// releaseChunk frees or retires a chunk that was removed from l.
func (s *Store) releaseChunk(l *long, w uint64) {
	ref := memory.Ref(w & chunkRef)
	switch {
	case !s.shared(l, w):
		s.Heap.Free(ref, memory.Values)
	case s.pins.alive(l.origin):
		s.keep(l.origin, keptBlock{ref: ref})
	default:
		s.retire(ref, l.moved != 0)
	}
}

// writableChunk returns chunk i of l, writable and with n bytes. The first used bytes hold the string's present
// content.
func (s *Store) writableChunk(l *long, i, used, n int) []byte {
	p := l.chunk(i)
	w := *p
	if w != 0 && !s.shared(l, w) {
		if ref := memory.Ref(w & chunkRef); n <= memory.UsableSize(ref) {
			return memory.Bytes(ref, n)
		}
	}
	size := n
	if w != 0 && n > used && n < ChunkSize { // the string grows by appends, so leave room for more
		size = min(n+n/2, ChunkSize)
	}
	ref := s.Heap.Alloc(size, memory.Values)
	b := memory.Bytes(ref, n)
	if w == 0 {
		clear(b[:used])
	} else {
		copy(b[:used], memory.Bytes(memory.Ref(w&chunkRef), used))
	}
	*p = uint64(ref)
	if w != 0 {
		s.releaseChunk(l, w)
	}
	return b
}

// WriteLong writes data at byte off of the string at root, and returns the root that replaces it. If the string is
// shorter than off, it grows with zeros up to off. New chunks that are all zeros are not allocated (value.L5).
func (s *Store) WriteLong(root memory.Ref, off int, data []byte) memory.Ref {
	end := off + len(data)
	root = s.writable(root, chunksFor(max(end, int(longAt(root).length))))
	l := longAt(root)
	if end > int(l.length) {
		s.extend(l, end)
	}
	for len(data) > 0 {
		i, at := off>>chunkShift, off&(ChunkSize-1)
		n := min(len(data), ChunkSize-at)
		used := l.used(i)
		copy(s.writableChunk(l, i, used, used)[at:], data[:n])
		data, off = data[n:], off+n
	}
	return root
}

// extend makes the string end bytes long. The new bytes read as zeros.
func (s *Store) extend(l *long, end int) {
	count := chunksFor(end)
	if l.count > 0 { // the old last chunk
		i := int(l.count) - 1
		used := l.used(i)
		n := min(end-i<<chunkShift, ChunkSize)
		if n > used && *l.chunk(i) != 0 {
			clear(s.writableChunk(l, i, used, n)[used:])
		}
	}
	for i := int(l.count); i < count; i++ {
		*l.chunk(i) = 0
	}
	l.count, l.length = uint32(count), uint64(end)
}

// copyLong returns the root of a string with the same content.
func (s *Store) copyLong(root memory.Ref) memory.Ref {
	from := longAt(root)
	r := s.newRoot(int(from.count))
	l := longAt(r)
	l.length, l.count = from.length, from.count
	for i := range int(l.count) {
		*l.chunk(i) = 0
		if *from.chunk(i) != 0 {
			p := from.piece(i)
			c := s.Heap.Alloc(len(p), memory.Values)
			copy(memory.Bytes(c, len(p)), p)
			*l.chunk(i) = uint64(c)
		}
	}
	return r
}

// Move records that the value at root has moved to another key.
func (s *Store) Move(root memory.Ref) {
	if s.Heap.Frozen() != 0 { // views know its blocks, or those shared with an older root, by the old position
		longAt(root).moved = 1
	}
}

// DropLong frees the string at root, which no longer has a key.
// Cost: O(1); it frees up to 64 chunks itself.
func (s *Store) DropLong(root memory.Ref) {
	l := longAt(root)
	switch {
	case l.pin != 0:
		s.keep(l.pin, keptBlock{ref: root, tree: true})
	case s.pins.alive(l.origin):
		s.keep(l.origin, keptBlock{ref: root, tree: true})
	case s.Heap.Frozen() == 0 && l.count <= freeAtOnce:
		for i := range int(l.count) {
			if w := *l.chunk(i); w != 0 {
				s.Heap.Free(memory.Ref(w&chunkRef), memory.Values)
			}
		}
		s.Heap.Free(root, memory.Values)
	default:
		s.retireTree(root, l.moved != 0)
	}
}

func (s *Store) retireTree(root memory.Ref, moved bool) {
	if moved {
		s.Heap.RetireTreeWide(root, KindLong, 1)
	} else {
		s.Heap.RetireTree(root, KindLong, 1)
	}
}

// destroyLong frees a string, budget chunks at a time, beginning at the end.
func destroyLong(r *memory.Returner, root memory.Ref, budget int) (rest memory.Ref, spent int) {
	l := longAt(root)
	for l.count > 0 {
		if spent >= budget {
			return root, spent
		}
		l.count--
		if w := *l.chunk(int(l.count)); w != 0 {
			r.Free(memory.Ref(w&chunkRef), memory.Values)
		}
		spent++
	}
	r.Free(root, memory.Values)
	return 0, spent + 1
}
