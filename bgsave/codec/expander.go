package codec

import (
	"unsafe"

	"spindle/bgsave/rdb"
	"spindle/bgsave/rdb/legacy"
	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
)

// An Expander reads values on the way from a file into a keyspace. One goroutine at a time; what it hands out lives
// until Reset.
type Expander struct {
	Env
	ModuleVersion int // what Codec.Read reads of a module is in this version of the module's format

	side     []byte // what Keep keeps
	expanded int    // what the lists of this round have been expanded to: expandedAtMost at most
	text     []byte
	distinct Distinct
	fields   []hashes.Field
	scored   []scored
}

// Reset begins another round: what was handed out is overwritten.
func (x *Expander) Reset() {
	x.side, x.expanded = x.side[:0], 0
	if cap(x.text) > sideBlock {
		x.text = nil // a long element went through it
	}
}

const sideBlock = 64 << 10

// Begin is an empty slice to append to; Keep it, or forget it, before the next Begin.
func (x *Expander) Begin() []byte {
	if cap(x.side)-len(x.side) < sideBlock/16 {
		x.side = make([]byte, 0, sideBlock)
	}
	return x.side[len(x.side):]
}

// Keep makes b, which was appended to Begin, live as long as the round.
func (x *Expander) Keep(b []byte) []byte {
	tail := x.side[len(x.side):]
	if cap(b) > 0 && unsafe.SliceData(b[:1]) == unsafe.SliceData(tail[:cap(tail)]) {
		x.side = x.side[:len(x.side)+len(b)]
	}
	return b[:len(b):len(b)]
}

// Text reads the next string, until the next Text.
func (x *Expander) Text(r *rdb.Reader) (text []byte, err error) {
	text, x.text, err = r.Bytes(x.text)
	return text, err
}

// kept reads the next string, to live as long as the round.
func (x *Expander) kept(r *rdb.Reader) ([]byte, error) {
	t, err := r.Text()
	if err != nil || t.Form == rdb.Verbatim {
		return t.Bytes, err
	}
	b, err := t.Append(x.Begin())
	if err != nil {
		return nil, err
	}
	return x.Keep(b), nil
}

// errDuplicate is a set, hash or sorted set that names an element twice.
const errDuplicate = rdb.Corrupt("two elements are equal")

// errOdd is a listpack of pairs or triplets that ends within one.
const errOdd = rdb.Corrupt("the number of elements is not a multiple of what belongs together")

// Listpack reads a string that must be a listpack and proves it to the last byte: n elements, a multiple of per, of
// which, with distinct, no two of those at 0, per, 2·per … are equal. Errors: ErrEmpty.
func (x *Expander) Listpack(r *rdb.Reader, per int, distinct bool) (lp []byte, n int, err error) {
	if lp, err = x.kept(r); err != nil {
		return nil, 0, err
	}
	n, err = x.Proven(lp, per, distinct)
	return lp, n, err
}

// Proven is Listpack of bytes that were read already.
func (x *Expander) Proven(lp []byte, per int, distinct bool) (n int, err error) {
	var seen *Distinct
	if distinct {
		seen = x.Distinct(0)
	}
	twice := false
	err = listpack.Validate(lp, true, func(_ int, e listpack.Element) bool {
		if distinct && n%per == 0 && !seen.AddElement(e) {
			twice = true
			return false
		}
		n++
		return true
	})
	x.distinct.release() // RESTORE's next one may be long in coming
	switch {
	case twice:
		return n, errDuplicate
	case err != nil:
		return n, err
	case n == 0:
		return n, ErrEmpty
	case n%per != 0:
		return n, errOdd
	}
	return n, nil
}

// Ziplist reads a string that must be a ziplist, as a listpack; otherwise as Listpack.
func (x *Expander) Ziplist(r *rdb.Reader, per int, distinct bool) (lp []byte, n int, err error) {
	b, err := x.kept(r)
	if err != nil {
		return nil, 0, err
	}
	z, err := legacy.ReadZiplist(b)
	if err != nil {
		return nil, 0, err
	}
	lp = x.Keep(z.AppendListpack(x.Begin()))
	n, err = x.Proven(lp, per, distinct)
	return lp, n, err
}

// Zipmap reads a string that must be a zipmap, as a listpack of fields and values; otherwise as Listpack.
func (x *Expander) Zipmap(r *rdb.Reader) (lp []byte, n int, err error) {
	b, err := x.kept(r)
	if err != nil {
		return nil, 0, err
	}
	z, err := legacy.ReadZipmap(b)
	if err != nil {
		return nil, 0, err
	}
	lp = x.Keep(z.AppendListpack(x.Begin()))
	n, err = x.Proven(lp, 2, true)
	return lp, n, err
}

// Intset reads a string that must be an intset of n integers. Errors: ErrEmpty.
func (x *Expander) Intset(r *rdb.Reader) (set []byte, n int, err error) {
	if set, err = x.kept(r); err != nil {
		return nil, 0, err
	}
	if err = intset.Validate(set, true); err != nil {
		return nil, 0, err
	}
	if n = intset.Len(set); n == 0 {
		return nil, 0, ErrEmpty
	}
	return set, n, nil
}

// Distinct is empty, and has room for about n elements. It serves until it is asked for again.
func (x *Expander) Distinct(n int) *Distinct {
	x.distinct.reset(n)
	return &x.distinct
}

// packedEncoding says whether a value of this encoding goes in as Ready.Packed.
func packedEncoding(e value.Encoding) bool {
	return e == value.Listpack || e == value.ListpackEx || e == value.IntSet
}

// Read reads a value that is not a string to its end.
//
// Errors: ErrEmpty; any other is a value that is damaged, or of a type that Known does not know.
func (x *Expander) Read(kind rdb.Kind, raw []byte) (Ready, error) {
	c, raw, version := forRaw(kind, raw)
	if c == nil {
		return Ready{}, rdb.Corrupt("a value that cannot be read")
	}
	x.ModuleVersion = version
	r := rdb.NewReader(raw)
	ready, err := c.Read(x, kind, &r)
	if err == nil && ready.Packed != nil && r.Len() != 0 {
		err = rdb.Corrupt("bytes behind the value")
	}
	return ready, err
}

// Whole says that ready goes in as it is, without being built.
func (ready *Ready) Whole() bool { return ready.Packed != nil && packedEncoding(ready.Encoding) }

// Start begins the structure of a value that Read has not found fit to be packed.
func Start(kind rdb.Kind, raw []byte, ready Ready, store *value.Store, env *Env) Builder {
	c, raw, version := forRaw(kind, raw)
	return c.Start(Source{
		Kind: kind, Raw: raw, Packed: ready.Packed, Encoding: ready.Encoding, Store: store, Env: env, ModuleVersion: version,
	})
}

// LetGo lets go of what a Builder has built and nobody wants.
func LetGo(store *value.Store, t value.Type, b Builder) {
	if root := b.Root(); root != 0 {
		store.MoveRoot(t, root)
		store.DropRoot(t, root)
	}
}
