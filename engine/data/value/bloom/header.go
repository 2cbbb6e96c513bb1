package bloom

import (
	"encoding/binary"
	"errors"
	"math"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// A Chain is the description of a chain without its links.
type Chain struct {
	Items   uint64
	Growth  uint32
	Options Options
}

// A Link is the description of one filter without its bits.
type Link struct {
	Capacity uint64
	Error    float64
	PerItem  float64 // bits
	Bits     uint64
	Bytes    uint64
	Items    uint64
	Hashes   uint32
	Power    uint8 // if not 0, bits are numbered modulo 1<<Power
}

func (l *link) describe() Link {
	return Link{l.capacity, l.error, l.perItem, l.bits, l.bytes, l.items, l.hashes, l.power}
}

func (l Link) link() link {
	return link{capacity: l.Capacity, error: l.Error, perItem: l.PerItem, bits: l.Bits, bytes: l.Bytes, items: l.Items,
		hashes: l.Hashes, power: l.Power, levels: levelsFor(l.Bytes)}
}

// A header is a chain without its bits: the first piece of BF.SCANDUMP. Numbers are little endian, nothing is aligned.
//
//	items u64 | links u32 | options u32 | growth u32
//	of each link: bytes u64 | bits u64 | items u64 | error f64 | bits an item f64 | hashes u32 | capacity u64 | power u8
const (
	headerBytes     = 20
	headerLinkBytes = 53
)

// ErrHeader means that a header describes no valid chain.
var ErrHeader = errors.New("the header of a Bloom filter is damaged")

func (r Reader) HeaderLen() int { return headerBytes + r.Links()*headerLinkBytes }

func (r Reader) AppendHeader(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, r.Items())
	dst = le.AppendUint32(dst, uint32(r.Links()))
	dst = le.AppendUint32(dst, uint32(r.Options()))
	dst = le.AppendUint32(dst, r.Growth())
	for i := range r.Links() {
		l := r.Link(i)
		dst = le.AppendUint64(dst, l.Bytes)
		dst = le.AppendUint64(dst, l.Bits)
		dst = le.AppendUint64(dst, l.Items)
		dst = le.AppendUint64(dst, math.Float64bits(l.Error))
		dst = le.AppendUint64(dst, math.Float64bits(l.PerItem))
		dst = le.AppendUint32(dst, l.Hashes)
		dst = le.AppendUint64(dst, l.Capacity)
		dst = append(dst, l.Power)
	}
	return dst
}

// FromHeader returns the root of the chain that header describes, without any bit set.
//
// Errors: ErrHeader, ErrBound.
func FromHeader(s *value.Store, header []byte, b *Bound) (memory.Ref, error) {
	if len(header) < headerBytes {
		return 0, ErrHeader
	}
	le := binary.LittleEndian
	c := Chain{Items: le.Uint64(header), Options: Options(le.Uint32(header[12:])), Growth: le.Uint32(header[16:])}
	n := uint64(le.Uint32(header[8:]))
	rest := header[headerBytes:]
	if uint64(len(rest)) != n*headerLinkBytes || !Links(n) || !c.Options.Known() {
		return 0, ErrHeader
	}
	links, items, bytes := make([]Link, n), uint64(0), uint64(0)
	for i := range links {
		b := rest[i*headerLinkBytes:]
		l := Link{
			Bytes: le.Uint64(b), Bits: le.Uint64(b[8:]), Items: le.Uint64(b[16:]),
			Error:   math.Float64frombits(le.Uint64(b[24:])),
			PerItem: math.Float64frombits(le.Uint64(b[32:])), Hashes: le.Uint32(b[40:]),
			Capacity: le.Uint64(b[44:]), Power: b[52],
		}
		if bytes += min(l.Bytes, MaxBytes+1); !l.sound() || l.Items > math.MaxUint64-items || bytes > MaxBytes {
			return 0, ErrHeader
		}
		links[i] = l
		items += l.Items
	}
	if items != c.Items || Hashes(links) > MaxHashes {
		return 0, ErrHeader
	}
	if !b.allows(bytes) {
		return 0, ErrBound
	}
	var f Filling
	f.Begin(s, c, links)
	return f.Root(), nil
}

// Links reports whether a chain may have n links.
func Links(n uint64) bool { return n > 0 && n <= MaxLinks }

// Hashes returns the number of hashes of an item in all links together.
func Hashes(links []Link) (n uint64) {
	for i := range links {
		n += uint64(links[i].Hashes)
	}
	return n
}

// Known reports whether o has only known options.
func (o Options) Known() bool { return o&^knownOptions == 0 }

// Usable reports whether lookups in l are safe: they stay within its bytes and take little time.
func (l Link) Usable() bool {
	mod := modulus(l.Bits, l.Power)
	return l.Error > 0 && l.Error < 1 && l.Bytes > 0 && l.Bytes <= MaxBytes && l.Power <= 63 && l.Bits <= l.Bytes*8 &&
		mod > 0 && mod <= l.Bytes*8 && l.Hashes > 0 && l.Hashes <= maxHashes
}

// sound reports whether l is Usable and its figures agree. This holds for every filter that RedisBloom has made since
// 2.0, and BF.LOADCHUNK requires it.
func (l Link) sound() bool {
	return l.Usable() && l.Bits == l.Bytes*8 && math.Ceil(ln2*l.PerItem) == float64(l.Hashes)
}

// A Filling builds, piece by piece, a chain that is not yet in a keyspace.
type Filling struct {
	store *value.Store
	root  memory.Ref
}

// Begin begins a chain. All links must be Usable.
func (f *Filling) Begin(s *value.Store, c Chain, links []Link) {
	f.store, f.root = s, newRoot(s, len(links))
	r := rootAt(f.root)
	r.items, r.growth, r.options, r.links = c.Items, c.Growth, c.Options, uint32(len(links))
	for i, l := range links {
		*r.link(i) = l.link()
	}
}

// Root returns the chain filled so far, or 0 before Begin.
func (f *Filling) Root() memory.Ref { return f.root }

// Put writes data at byte at of link i, which must have room for it.
func (f *Filling) Put(i int, at uint64, data []byte) {
	w := writer{f.store.Heap, rootAt(f.root), true}
	w.put(w.root.link(i), at, data)
}
