package codec

import (
	"errors"

	"spindle/bgsave/rdb"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
)

// bloomCodec is Bloom filters in RDB: what RedisBloom's type MBbloom-- writes, in the versions 1 to 4 of its format, of
// which we write the last.
//
//	id | items | links | options | growth | of each link: capacity, error, hashes, bits an item, bits, power,
//	                                        the bits' bytes, items | end
//
// Every field stands behind a number that says what it is (rdb/skip.go). Version 1 has no options, and growth is there
// since 4. Source: the order in which RedisBloom 2.8 saves and loads its fields.
var bloomCodec = Codec{
	Type:   value.Module,
	Module: value.BloomName,
	Root:   value.KindBloom,
	Kinds:  []rdb.Kind{rdb.KindModule2},
	Write:  writeBloom,
	Read:   readBloom,
	Start:  startBloom,
}

// bloomVersion is the version of the format that is written.
const bloomVersion = 4

// What a module's field begins with.
const (
	fieldEnd    = 0
	fieldUint   = 2
	fieldDouble = 4
	fieldString = 5
)

func writeBloom(w *rdb.Writer, _ rdb.Kind, v value.Value) {
	number := func(n uint64) {
		w.Length(fieldUint)
		w.Length(n)
	}
	double := func(f float64) {
		w.Length(fieldDouble)
		w.Float64(f)
	}
	r := bloom.Read(v)
	w.Length(rdb.ModuleID(value.BloomName, bloomVersion))
	number(r.Items())
	number(uint64(r.Links()))
	number(uint64(r.Options()))
	number(uint64(r.Growth()))
	for i := range r.Links() {
		l := r.Link(i)
		number(l.Capacity)
		double(l.Error)
		number(uint64(l.Hashes))
		double(l.PerItem)
		number(l.Bits)
		number(uint64(l.Power))
		w.Length(fieldString)
		w.Sparse(int(l.Bytes), r.Empty(i), func(yield func([]byte, int) bool) { r.Bits(i, yield) })
		number(l.Items)
		if w.Stopped() {
			return
		}
	}
	w.Length(fieldEnd)
}

// A bloomRecord is a filter as it stands in a file, without its bits expanded.
type bloomRecord struct {
	chain bloom.Chain
	links []bloom.Link
	bits  []rdb.Text
}

// size is how many bytes the filters have, set or not.
func (c *bloomRecord) size() (n uint64) {
	for i := range c.bits {
		n += uint64(c.bits[i].Size)
	}
	return n
}

// ErrFilterSize is a filter of more bytes than Env allows.
var ErrFilterSize = errors.New("the filter would be larger than bf-max-size or maxmemory")

// Errors of filters.
const (
	errBloomField  = rdb.Corrupt("a field of a Bloom filter is not what belongs there")
	errBloomChain  = rdb.Corrupt("a Bloom filter of no links, or with options nobody knows")
	errBloomFilter = rdb.Corrupt("the figures of a Bloom filter do not agree")
	errBloomBits   = rdb.Corrupt("the bits of a Bloom filter are not as long as they should be")
)

// A bloomReader reads a module's fields; after an error, which it keeps, they are 0.
type bloomReader struct {
	r   *rdb.Reader
	err error
}

func (b *bloomReader) field(kind uint64) bool {
	if b.err == nil {
		var got uint64
		if got, b.err = b.r.Length(); b.err == nil && got != kind {
			b.err = errBloomField
		}
	}
	return b.err == nil
}

func (b *bloomReader) number(limit uint64) (n uint64) {
	if b.field(fieldUint) {
		if n, b.err = b.r.Length(); n > limit {
			b.err = errBloomField
		}
	}
	return n
}

func (b *bloomReader) double() (f float64) {
	if b.field(fieldDouble) {
		f, b.err = b.r.Float64()
	}
	return f
}

func (b *bloomReader) text() (t rdb.Text) {
	if b.field(fieldString) {
		t, b.err = b.r.Text()
	}
	return t
}

const (
	max8  = 1<<8 - 1
	max32 = 1<<32 - 1
	max64 = 1<<64 - 1
)

// readBloomRecord reads what stands behind the id, to its end, and proves it but for what only expanding the bits can
// show.
func readBloomRecord(r *rdb.Reader, version int) (c bloomRecord, err error) {
	b := bloomReader{r: r}
	c.chain.Items = b.number(max64)
	n := b.number(max64)
	if version >= 2 {
		c.chain.Options = bloom.Options(b.number(max32))
	}
	c.chain.Growth = 2
	if version >= 4 {
		c.chain.Growth = uint32(b.number(max32))
	}
	switch {
	case b.err != nil:
		return c, b.err
	case version < 1 || version > bloomVersion || !bloom.Links(n) || !c.chain.Options.Known():
		return c, errBloomChain
	}
	for range n {
		l := bloom.Link{
			Capacity: b.number(max64), Error: b.double(), Hashes: uint32(b.number(max32)), PerItem: b.double(),
			Bits: b.number(max64), Power: uint8(b.number(max8)),
		}
		bits := b.text()
		l.Items = b.number(max64)
		l.Bytes = uint64(bits.Size)
		switch {
		case b.err != nil:
			return c, b.err
		case bits.Form == rdb.Integer:
			return c, errBloomBits
		case !l.Usable(): // Sound is too much to ask: what old servers wrote in their versions is written again in ours
			return c, errBloomFilter
		}
		c.links, c.bits = append(c.links, l), append(c.bits, bits)
	}
	if bloom.Hashes(c.links) > bloom.MaxHashes {
		return c, errBloomFilter
	}
	if b.field(fieldEnd) && r.Len() != 0 {
		b.err = rdb.Corrupt("bytes behind the value")
	}
	return c, b.err
}

func readBloom(x *Expander, _ rdb.Kind, r *rdb.Reader) (Ready, error) {
	c, err := readBloomRecord(r, x.ModuleVersion)
	if most := x.Env.MaxFilter; err == nil && most != 0 && c.size() > most {
		err = ErrFilterSize
	}
	return Ready{Encoding: value.Raw}, err
}

// A bloomBuilder fills the pages of a filter from a record that readBloom has proven.
type bloomBuilder struct {
	source  Source
	record  bloomRecord
	filling bloom.Filling
	link    int
	at      uint64 // of link's bits
	lzf     unpacker
}

func startBloom(s Source) Builder {
	r := rdb.NewReader(s.Raw)
	b := &bloomBuilder{source: s}
	b.record, _ = readBloomRecord(&r, s.ModuleVersion)
	return b
}

func (b *bloomBuilder) Root() memory.Ref { return b.filling.Root() }

// perPage is how many elements of other types a page counts as.
const perPage = 4

func (b *bloomBuilder) Step(n int) (done bool, err error) {
	if b.Root() == 0 {
		b.filling.Begin(b.source.Store, b.record.chain, b.record.links)
	}
	for ; b.link < len(b.record.bits) && n > 0; n -= perPage {
		bits := &b.record.bits[b.link]
		piece, err := b.piece(bits)
		if err != nil {
			return false, err
		}
		b.filling.Put(b.link, b.at, piece)
		if b.at += uint64(len(piece)); b.at == uint64(bits.Size) {
			b.link, b.at, b.lzf = b.link+1, 0, unpacker{room: b.lzf.room}
		}
	}
	return b.link == len(b.record.bits), nil
}

// piece is the next bytes of bits, at most a page of them, until the next call.
func (b *bloomBuilder) piece(bits *rdb.Text) ([]byte, error) {
	n := min(bloom.PageBytes, bits.Size-int(b.at))
	if bits.Form == rdb.Verbatim {
		return bits.Bytes[b.at:][:n], nil
	}
	piece, ok := b.lzf.next(&bits.Bytes, n)
	if !ok {
		return nil, rdb.Corrupt("invalid LZF compressed string")
	}
	if int(b.at)+n == bits.Size && (len(bits.Bytes) != 0 || b.lzf.pending()) {
		return nil, errBloomBits
	}
	return piece, nil
}

// An unpacker expands LZF a piece at a time: what a reference may reach back to is kept, not the whole. rdb.Text.Append
// is for what is short.
// Source: the format of Marc Lehmann's LibLZF: a byte below 32 is followed by that many and one literal bytes; any
// other has the length of a reference in its upper three bits, in the next byte too if they are all set, and how far
// back it goes in its lower five and the byte behind that.
type unpacker struct {
	room []byte // room[:held] is expanded; what is before given has been given away
	held int
	sent int
}

const (
	lzfReach = 1 << 13 // how far back a reference goes at most
	lzfRun   = 264     // the longest one
)

// next is the next n bytes, n at most a page; in is moved on over what was used of it. false: in is not LZF, or ends
// too early.
func (u *unpacker) next(in *[]byte, n int) (piece []byte, ok bool) {
	if u.room == nil {
		u.room = make([]byte, 2*lzfReach+bloom.PageBytes+lzfRun)
	}
	if u.sent > 2*lzfReach-bloom.PageBytes { // keep what can be reached
		keep := u.sent - lzfReach
		u.held = copy(u.room, u.room[keep:u.held])
		u.sent = lzfReach
	}
	for u.held-u.sent < n {
		rest, ok := u.step(*in)
		if !ok {
			return nil, false
		}
		*in = rest
	}
	piece = u.room[u.sent : u.sent+n]
	u.sent += n
	return piece, true
}

// pending says that more has been expanded than given.
func (u *unpacker) pending() bool { return u.held != u.sent }

// step expands one run or reference.
func (u *unpacker) step(in []byte) (rest []byte, ok bool) {
	if len(in) == 0 {
		return nil, false
	}
	control, in := int(in[0]), in[1:]
	if control < 32 {
		n := control + 1
		if len(in) < n {
			return nil, false
		}
		u.held += copy(u.room[u.held:], in[:n])
		return in[n:], true
	}
	n := control >> 5
	if n == 7 {
		if len(in) == 0 {
			return nil, false
		}
		n += int(in[0])
		in = in[1:]
	}
	if len(in) == 0 {
		return nil, false
	}
	from := u.held - (control&31<<8 | int(in[0])) - 1
	if from < 0 {
		return nil, false
	}
	for range n + 2 { // one by one: it may read what it has just written
		u.room[u.held] = u.room[from]
		u.held++
		from++
	}
	return in[1:], true
}
