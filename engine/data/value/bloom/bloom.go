package bloom

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// A root is a chain of Bloom filters, its links. An item is in the chain if it is in one of the links. The last link
// takes new items until its capacity is reached; then another link follows it.
//
//	0        16      24       28        32      36  40     48
//	| Header | items | growth | options | links | – | held | link 0 | link 1 |       |   link: 64 bytes
//	+--------+-------+--------+---------+-------+---+------+--------+--------+-- ~ --+
//	           u64     u32      u32       u32         u64
//
// bloom.R1. items is the sum of the links' items. FromHeader checks it; a chain loaded from RDB may have another sum.
// bloom.R2. links is at least 1 and at most MaxLinks.
// bloom.R3. held is the usable size of all pages of all links.
// Check returns an error if bloom.R2 or bloom.R3 is broken; tests call it after every step.
type root struct {
	value.Header
	items   uint64
	growth  uint32 // factor of the next link's capacity
	options Options
	links   uint32
	_       uint32
	held    uint64
}

// A link is one filter. Its bits are stored in pages (pages.go).
type link struct {
	capacity uint64  // the number of items that it is made for
	error    float64 // its designed rate of false positives
	perItem  float64 // bits
	bits     uint64
	bytes    uint64
	items    uint64
	top      uint64 // the topmost page: 0, or Ref | pageShared
	hashes   uint32
	power    uint8 // if not 0, bits are numbered modulo 1<<power instead of modulo bits
	levels   uint8 // of nodes above the leaves
	_        uint16
}

const (
	rootBytes = int(unsafe.Sizeof(root{}))
	linkBytes = int(unsafe.Sizeof(link{}))
)

var (
	_ [48]byte = [rootBytes]byte{}
	_ [64]byte = [linkBytes]byte{}
)

// Options record how a chain was made. The numbers are those of the format.
type Options uint32

const (
	Exact         Options = 1 << iota // filters have as many bits as they need, not a power of two
	CapacityIsLog                     // the requested capacity was the logarithm of the number of bits
	Wide                              // items are hashed to 64 bits, not to 32
	Fixed                             // the chain does not grow: NONSCALING

	knownOptions = Exact | CapacityIsLog | Wide | Fixed
)

// The limits of every chain, wherever it comes from.
const (
	// MaxLinks is more links than any chain can reach. Each link has half the error rate of the previous one, so the
	// rate reaches 0 after about 1100 links.
	MaxLinks = 2048
	// maxHashes is more than the 1074 hashes that the smallest possible error rate needs.
	maxHashes = 1100
	// MaxHashes is more than the hashes of all links of a growing chain together. Each link has one hash more than the
	// link before, and the last one has some 1075. It limits the cost of a lookup.
	MaxHashes = 600_000
	// MaxBytes is the most bytes that all filters of a chain may have. Bits that were never set cost no memory, and few
	// bytes of a file. A Bound limits what clients may demand.
	MaxBytes = 64 << 30
)

func rootAt(ref memory.Ref) *root { return (*root)(memory.Pointer(ref)) }

func (r *root) link(i int) *link {
	return (*link)(unsafe.Add(unsafe.Pointer(r), rootBytes+i*linkBytes))
}

// bytes returns the size of all filters together.
func (r *root) bytes() (n uint64) {
	for i := range int(r.links) {
		n += r.link(i).bytes
	}
	return n
}

// last returns the link that takes new items.
func (r *root) last() *link { return r.link(int(r.links) - 1) }

// roomFor returns how many links fit in a root block.
func roomFor(ref memory.Ref) int { return (memory.UsableSize(ref) - rootBytes) / linkBytes }

// newRoot returns a root block without links, with room for n.
func newRoot(s *value.Store, n int) memory.Ref {
	return s.NewRoot(value.KindBloom, rootBytes+n*linkBytes)
}
