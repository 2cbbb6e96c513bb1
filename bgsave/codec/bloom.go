package codec

import (
	"bytes"
	"encoding/binary"
	"errors"

	"spindle/bgsave/rdb"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
)

// bloomCodec reads and writes Bloom filters, which are RedisBloom's type MBbloom--. It reads versions 1 to 4 of that
// format and writes version 4.
//
//	id | items | links | options | growth | of each link: capacity, error, hashes, bits an item, bits, power,
//	                                        the bits' bytes, items | end
//
// A number before each field gives the field's type (rdb/skip.go). Version 1 has no options. growth exists since
// version 4.
// Source: the order in which RedisBloom 2.8 saves and loads its fields.
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

// The types of a module's fields.
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

// A bloomRecord is a filter in its file form. Its bits are not expanded.
type bloomRecord struct {
	chain bloom.Chain
	links []bloom.Link
	bits  []rdb.Text
}

// size returns how many bytes the filter's bits take when expanded.
func (c *bloomRecord) size() (n uint64) {
	for i := range c.bits {
		n += uint64(c.bits[i].Size)
	}
	return n
}

// ErrFilterSize is the error for a filter larger than Env allows.
var ErrFilterSize = errors.New("the filter would be larger than bf-max-size or maxmemory")

// Errors of filters.
const (
	errBloomField  = rdb.Corrupt("a field of a Bloom filter is not what belongs there")
	errBloomChain  = rdb.Corrupt("a Bloom filter of no links, or with unknown options")
	errBloomFilter = rdb.Corrupt("the figures of a Bloom filter do not agree")
	errBloomBits   = rdb.Corrupt("the bits of a Bloom filter are not as long as they should be")
)

// A bloomReader reads a module's fields. It keeps its first error. After an error all fields are 0.
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

// readBloomRecord reads the fields after the id, to the end. It makes all checks that need no expanded bits.
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
		case !l.Usable(): // Sound would refuse filters of older versions
			return c, errBloomFilter
		}
		c.links, c.bits = append(c.links, l), append(c.bits, bits)
	}
	if bloom.Hashes(c.links) > bloom.MaxHashes {
		return c, errBloomFilter
	}
	if b.field(fieldEnd) && r.Len() != 0 {
		b.err = rdb.Corrupt("bytes after the value")
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

// A bloomBuilder fills a filter's pages from a record that readBloom has checked.
type bloomBuilder struct {
	source  Source
	record  bloomRecord
	filling bloom.Filling
	link    int
	at      uint64 // position in link's bits
	lzf     unpacker
}

func startBloom(s Source) Builder {
	r := rdb.NewReader(s.Raw)
	b := &bloomBuilder{source: s}
	b.record, _ = readBloomRecord(&r, s.ModuleVersion)
	return b
}

func (b *bloomBuilder) Root() memory.Ref { return b.filling.Root() }

// perPage is how many elements of other types one call of piece counts as.
const perPage = 4

func (b *bloomBuilder) Step(n int) (done bool, err error) {
	if b.Root() == 0 {
		b.filling.Begin(b.source.Store, b.record.chain, b.record.links)
	}
	for ; b.link < len(b.record.bits) && n > 0; n -= perPage {
		bits := &b.record.bits[b.link]
		if err := b.piece(bits); err != nil {
			return false, err
		}
		if b.at == uint64(bits.Size) {
			b.link, b.at, b.lzf = b.link+1, 0, unpacker{room: b.lzf.room}
		}
	}
	return b.link == len(b.record.bits), nil
}

// piece adds the next bytes of bits. It skips zeros, because a new filter is all zeros.
//
// Cost: it writes or reads about one page, and expands at most two pages of LZF.
func (b *bloomBuilder) piece(bits *rdb.Text) error {
	var piece []byte
	zeros := 0
	if bits.Form == rdb.Verbatim {
		piece = bits.Bytes[b.at:][:min(bloom.PageBytes, bits.Size-int(b.at))]
	} else {
		var ok bool
		if piece, zeros, ok = b.lzf.next(&bits.Bytes); !ok {
			return rdb.Corrupt("invalid LZF compressed string")
		}
	}
	after := int(b.at) + len(piece) + zeros
	if bits.Form != rdb.Verbatim && (after > bits.Size || after == bits.Size && len(bits.Bytes) != 0) {
		return errBloomBits
	}
	b.filling.Put(b.link, b.at, piece)
	b.at = uint64(after)
	return nil
}

// An unpacker expands LZF in pieces. It keeps only the bytes that references can reach, not the whole text. For short
// strings rdb.Text.Append is simpler.
// Source: the format of Marc Lehmann's LibLZF. A control byte n below 32 is followed by n+1 literal bytes. Any other
// control byte begins a reference. Its upper three bits are the length; if all are set, the next byte is added to it.
// Its lower five bits and the last byte are the distance.
type unpacker struct {
	room []byte // room[:held] is the end of the text so far
	held int
	tail int // the text so far ends with at least this many zeros
}

const (
	lzfReach = 1 << 13 // the longest distance of a reference
	lzfLook  = 64      // how many bytes at a piece's end are checked for zeros
)

// next expands the next bytes and moves in past the bytes that it has read. It returns a piece, or a number of zeros.
// ok is false if in is empty or not LZF.
//
// Lifetime: the piece is valid until the next call. Its length is at most a page and one reference.
func (u *unpacker) next(in *[]byte) (piece []byte, zeros int, ok bool) {
	if u.room == nil {
		u.room = make([]byte, 3*lzfReach)
	}
	if u.held > 2*lzfReach {
		u.held = copy(u.room, u.room[u.held-lzfReach:u.held])
	}
	if zeros = u.zeros(in); zeros > 0 {
		u.keepZeros(zeros)
		return nil, zeros, true
	}
	from := u.held
	for len(*in) > 0 && u.held-from < bloom.PageBytes {
		if *in, ok = u.step(*in); !ok {
			return nil, 0, false
		}
	}
	piece = u.room[from:u.held]
	end := piece[max(0, len(piece)-lzfLook):]
	u.tail = len(end) - len(bytes.TrimRight(end, "\x00"))
	return piece, 0, len(piece) > 0
}

// zeros moves in past the bytes that expand only to zeros, and returns how many zeros they make. It reads at most one
// page of in.
//
// Cost: where one reference repeats, only the comparison of bytes of in.
func (u *unpacker) zeros(in *[]byte) (n int) {
	rest := (*in)[:min(len(*in), bloom.PageBytes)]
	read := 0
	for {
		item, size, distance := lzfItem(rest[read:])
		switch {
		case item == 0 || distance > u.tail+n || distance == 0 && !allZero(rest[read+1:][:size]):
			*in = (*in)[read:]
			return n
		case distance == 0:
			read, n = read+item, n+size
			continue
		}
		same := item // bytes of rest[read:] that repeat the item
		for more := rest[read:]; same+8 <= len(more); same += 8 {
			if binary.LittleEndian.Uint64(more[same:]) != binary.LittleEndian.Uint64(more[same-item:]) {
				break
			}
		}
		times := same / item
		read, n = read+times*item, n+times*size
	}
}

func allZero(p []byte) bool { return len(bytes.TrimLeft(p, "\x00")) == 0 }

// keepZeros appends n zeros to the bytes that references can reach.
func (u *unpacker) keepZeros(n int) {
	if n >= lzfReach {
		u.held, n = 0, lzfReach
		u.tail = 0
	}
	clear(u.room[u.held:][:n])
	u.held += n
	u.tail += n
}

// step expands one run of literal bytes, or one reference.
func (u *unpacker) step(in []byte) (rest []byte, ok bool) {
	item, size, distance := lzfItem(in)
	from, end := u.held-distance, u.held+size
	switch {
	case item == 0 || from < 0:
		return nil, false
	case distance == 0:
		copy(u.room[u.held:end], in[1:])
		u.held = end
	}
	for u.held < end { // a reference may overlap its own output; each copy then doubles the bytes available
		u.held += copy(u.room[u.held:end], u.room[from:u.held])
	}
	return in[item:], true
}

// lzfItem reads the first item of in: a run of literal bytes (distance 0) or a reference. item is its length in in, or
// 0 if in ends too early. size is the length of the expanded item.
func lzfItem(in []byte) (item, size, distance int) {
	if len(in) == 0 {
		return 0, 0, 0
	}
	control := int(in[0])
	if control < 32 {
		item, size = control+2, control+1
		if len(in) < item {
			return 0, 0, 0
		}
		return item, size, 0
	}
	item, size = 2, control>>5+2
	if size == 9 {
		item = 3
	}
	if len(in) < item {
		return 0, 0, 0
	}
	if item == 3 {
		size += int(in[1])
	}
	return item, size, (control&31<<8 | int(in[item-1])) + 1
}
