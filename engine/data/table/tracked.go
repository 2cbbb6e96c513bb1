package table

import (
	"unsafe"

	"spindle/engine/data/memory"
)

// A Tracked block is a key and the ids of the clients that may have cached it.
//
//	0          4          8     8+klen, up to a multiple of 8
//	+----------+----------+-----+---------------------+
//	| klen u32 | n    u32 | key | ids: room(n) × u64  |
//	+----------+----------+-----+---------------------+
//
// table.K1. Up to linearIDs ids stand in a row, in the smallest room that is a power of two. More ids form a hash table
// with linear probing, at most three quarters full. An empty cell is 0, which is no client's id.
// table.K2. No id occurs twice. Ids are only added; all of them are freed with the block.
const (
	trackedHeader = 8
	linearIDs     = 8
)

// TrackedKey returns the key of the block at p.
func TrackedKey(p unsafe.Pointer) []byte {
	return unsafe.Slice((*byte)(p), trackedHeader+*(*uint32)(p))[trackedHeader:]
}

// trackedRoom returns how many cells n ids need, n > 0 (table.K1).
func trackedRoom(n int) int {
	room := 1
	for room < n || n > linearIDs && 4*n > 3*room {
		room *= 2
	}
	return room
}

// trackedIDs returns the offset of the ids in a block with a key of klen bytes.
func trackedIDs(klen int) int { return trackedHeader + (klen+7)&^7 }

// trackedSize returns the bytes of a block for a key of klen bytes and n ids.
func trackedSize(klen, n int) int { return trackedIDs(klen) + 8*trackedRoom(n) }

// NewTracked returns a new block of h for a key that one client has read.
func NewTracked(h *memory.Heap, key []byte, id int64) memory.Ref {
	size := trackedSize(len(key), 1)
	ref := h.Alloc(size, memory.Other)
	p := memory.Pointer(ref)
	*(*uint32)(p), *(*uint32)(unsafe.Add(p, 4)) = uint32(len(key)), 1
	copy(memory.Bytes(ref, size)[trackedHeader:], key)
	*(*uint64)(unsafe.Add(p, trackedIDs(len(key)))) = uint64(id)
	return ref
}

// TrackedLen returns how many ids the block at ref has.
func TrackedLen(ref memory.Ref) int { return int(*(*uint32)(unsafe.Add(memory.Pointer(ref), 4))) }

// cells returns the cells in which the block's ids are stored.
func cells(ref memory.Ref) []uint64 {
	p := memory.Pointer(ref)
	at := trackedIDs(int(*(*uint32)(p)))
	return unsafe.Slice((*uint64)(unsafe.Add(p, at)), trackedRoom(TrackedLen(ref)))
}

// AppendTracked appends the ids of the block at ref, in no particular order.
func AppendTracked(into []int64, ref memory.Ref) []int64 {
	for _, id := range cells(ref) {
		if id != 0 {
			into = append(into, int64(id))
		}
	}
	return into
}

// AddTracked adds id to the block at ref, unless the block has it already. A full block is replaced by a larger one:
// then to differs from ref, and ref is freed.
// Cost: up to linearIDs compares, or some probes. A larger block has twice the room.
func AddTracked(h *memory.Heap, ref memory.Ref, id int64) (to memory.Ref, added bool) {
	n, ids := TrackedLen(ref), cells(ref)
	at, found := cellOf(ids, uint64(id))
	if found {
		return ref, false
	}
	count := (*uint32)(unsafe.Add(memory.Pointer(ref), 4))
	if trackedRoom(n+1) == len(ids) {
		ids[at] = uint64(id)
		*count++
		return ref, true
	}
	klen := int(*(*uint32)(memory.Pointer(ref)))
	size := trackedSize(klen, n+1)
	to = h.Alloc(size, memory.Other)
	head := trackedIDs(klen)
	copy(memory.Bytes(to, head), memory.Bytes(ref, head))
	*(*uint32)(unsafe.Add(memory.Pointer(to), 4)) = uint32(n + 1)
	into := cells(to)
	clear(into)
	for _, old := range ids {
		if old != 0 {
			at, _ := cellOf(into, old)
			into[at] = old
		}
	}
	at, _ = cellOf(into, uint64(id))
	into[at] = uint64(id)
	h.Free(ref, memory.Other)
	return to, true
}

// cellOf returns the cell that has the id, or to which the id would be added. It returns -1 if there is no room.
func cellOf(ids []uint64, id uint64) (at int, found bool) {
	if len(ids) <= linearIDs {
		for i, other := range ids {
			if other == id || other == 0 {
				return i, other == id
			}
		}
		return -1, false
	}
	mask := uint64(len(ids) - 1)
	for i := id * 0x9E3779B97F4A7C15 >> 32 & mask; ; i = (i + 1) & mask {
		if other := ids[i]; other == id || other == 0 {
			return int(i), other == id
		}
	}
}
