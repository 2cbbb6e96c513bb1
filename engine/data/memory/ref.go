package memory

import "unsafe"

// A Ref is where a block begins: its byte offset in the region. 8-byte aligned, below 1<<48; 0 is nil.
//
// A block asked for with a size that is a multiple of 64 begins on a multiple of 64, a block larger than
// [MaxSmall] on a multiple of [RunUnit]: the low bits and the top 16 are free for the holder's tags, and
// must be masked off before the Ref is used here.
type Ref uint64

// Nil is no block.
const Nil Ref = 0

// A Purpose says what bytes are for, so that their share of used_memory is known exactly (MEMORY STATS).
// A block is freed under the purpose it was allocated under.
type Purpose uint8

const (
	Keys        Purpose = iota // entries: key with inline value
	Values                     // what hangs off an entry
	Index                      // tables, directories, deadlines
	Clients                    // query buffers and arguments outside the Go heap
	Replication                // backlog, replica buffers
	Scripts
	Retired // lists of blocks that a hold still keeps; the blocks themselves stay under their own purpose
	Other
	Purposes // their number
)

var purposeNames = [Purposes]string{"keys", "values", "index", "clients", "replication", "scripts", "retired", "other"}

// String is the purpose's name in figures.
func (p Purpose) String() string {
	if p < Purposes {
		return purposeNames[p]
	}
	return "unknown"
}

// Bytes is the n bytes at r. Lifetime: until the block is freed or retired.
func Bytes(r Ref, n int) []byte { return unsafe.Slice((*byte)(Pointer(r)), n) }

// Word is the u64 at r; r is 8-byte aligned.
func Word(r Ref) *uint64 { return (*uint64)(Pointer(r)) }

// PrefetchRef starts fetching the cache line at r; r need not be a live block.
func PrefetchRef(r Ref) { Prefetch(Pointer(r)) }
