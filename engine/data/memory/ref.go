package memory

import "unsafe"

// A Ref is the address of a block: its byte offset in the region. It is 8-byte aligned and below 1<<48; 0 is nil.
//
// A block whose requested size is a multiple of 64 begins on a multiple of 64. A block larger than [MaxSmall] begins on
// a multiple of [RunUnit]. Code that holds a Ref may use its low bits and its top 16 bits for tags. It masks the tags
// off before each call of this package.
type Ref uint64

const Nil Ref = 0

// A Purpose is the use of a block, so that each use's share of used_memory is known exactly (MEMORY STATS). A block is
// freed under the same purpose under which it was allocated.
type Purpose uint8

const (
	Keys        Purpose = iota // entries: key with inline value
	Values                     // blocks that belong to an entry
	Index                      // tables, directories, deadlines
	Clients                    // query buffers and arguments outside the Go heap
	Replication                // backlog, replica buffers
	Scripts
	Retired // lists of blocks that a hold still keeps; the blocks themselves stay under their own purpose
	Other
	Purposes // the number of purposes
)

var purposeNames = [Purposes]string{"keys", "values", "index", "clients", "replication", "scripts", "retired", "other"}

// String returns the purpose's name as MEMORY STATS shows it.
func (p Purpose) String() string {
	if p < Purposes {
		return purposeNames[p]
	}
	return "unknown"
}

// Bytes returns the n bytes at r. Lifetime: until the block is freed or retired.
func Bytes(r Ref, n int) []byte { return unsafe.Slice((*byte)(Pointer(r)), n) }

// Word returns the u64 at r; r is 8-byte aligned.
func Word(r Ref) *uint64 { return (*uint64)(Pointer(r)) }

// PrefetchRef starts fetching the cache line at r. r need not be a live block.
func PrefetchRef(r Ref) { Prefetch(Pointer(r)) }
