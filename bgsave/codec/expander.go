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

// An Expander reads values from a file for a keyspace. Only one goroutine may use it at a time. The values it returns
// are valid until Reset.
type Expander struct {
	Env
	ModuleVersion int // the module's version of its format, for Codec.Read

	side     []byte // the memory that Keep keeps
	expanded int    // bytes to which this round's lists were expanded; at most expandedAtMost
	text     []byte
	distinct Distinct
	fields   []hashes.Field
	scored   []scored
}

// Reset begins a new round and makes the values of the last one invalid.
func (x *Expander) Reset() {
	x.side, x.expanded = x.side[:0], 0
	if cap(x.text) > sideBlock {
		x.text = nil // a long element made it grow
	}
}

const sideBlock = 64 << 10

// Begin returns an empty slice to append to. Call Keep, or drop it, before the next Begin.
func (x *Expander) Begin() []byte {
	if cap(x.side)-len(x.side) < sideBlock/16 {
		x.side = make([]byte, 0, sideBlock)
	}
	return x.side[len(x.side):]
}

// Keep makes b, which was appended to Begin's slice, valid until Reset.
func (x *Expander) Keep(b []byte) []byte {
	tail := x.side[len(x.side):]
	if cap(b) > 0 && unsafe.SliceData(b[:1]) == unsafe.SliceData(tail[:cap(tail)]) {
		x.side = x.side[:len(x.side)+len(b)]
	}
	return b[:len(b):len(b)]
}

// Text reads the next string. It is valid until the next Text.
func (x *Expander) Text(r *rdb.Reader) (text []byte, err error) {
	text, x.text, err = r.Bytes(x.text)
	return text, err
}

// readKept reads the next string. It is valid until Reset.
func (x *Expander) readKept(r *rdb.Reader) ([]byte, error) {
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

// errDuplicate is the error for a set, hash or sorted set with two equal elements.
const errDuplicate = rdb.Corrupt("two elements are equal")

// errOdd is the error for a listpack that ends within a pair or triplet.
const errOdd = rdb.Corrupt("the number of elements is not a multiple of what belongs together")

// Listpack reads a string that must be a valid listpack, and checks all of it. n, its number of elements, must be a
// multiple of per. With distinct, the elements at 0, per, 2·per and so on must differ.
// Errors: ErrEmpty.
func (x *Expander) Listpack(r *rdb.Reader, per int, distinct bool) (lp []byte, n int, err error) {
	if lp, err = x.readKept(r); err != nil {
		return nil, 0, err
	}
	n, err = x.Proven(lp, per, distinct)
	return lp, n, err
}

// Proven checks lp like Listpack.
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
	x.distinct.release() // it may be long until the next RESTORE
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

// Ziplist reads a string that must be a ziplist, and converts it to a listpack. It checks the same as Listpack.
func (x *Expander) Ziplist(r *rdb.Reader, per int, distinct bool) (lp []byte, n int, err error) {
	b, err := x.readKept(r)
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

// Zipmap reads a string that must be a zipmap, and converts it to a listpack of fields and values. It checks the same
// as Listpack.
func (x *Expander) Zipmap(r *rdb.Reader) (lp []byte, n int, err error) {
	b, err := x.readKept(r)
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
	if set, err = x.readKept(r); err != nil {
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

// Distinct returns an empty set with room for about n elements. It is valid until the next call.
func (x *Expander) Distinct(n int) *Distinct {
	x.distinct.reset(n)
	return &x.distinct
}

// packedEncoding reports whether a value of this encoding is stored as Ready.Packed.
func packedEncoding(e value.Encoding) bool {
	return e == value.Listpack || e == value.ListpackEx || e == value.IntSet
}

// Read reads a whole value that is not a string.
//
// Errors: ErrEmpty; any other error means that the value is damaged or of an unknown type.
func (x *Expander) Read(kind rdb.Kind, raw []byte) (Ready, error) {
	c, raw, version := forRaw(kind, raw)
	if c == nil {
		return Ready{}, rdb.Corrupt("a value that cannot be read")
	}
	x.ModuleVersion = version
	r := rdb.NewReader(raw)
	ready, err := c.Read(x, kind, &r)
	if err == nil && ready.Packed != nil && r.Len() != 0 {
		err = rdb.Corrupt("bytes after the value")
	}
	return ready, err
}

// Whole reports whether the value is stored as Packed and need not be built.
func (ready *Ready) Whole() bool { return ready.Packed != nil && packedEncoding(ready.Encoding) }

// Start begins to build a value that Read did not pack.
func Start(kind rdb.Kind, raw []byte, ready Ready, store *value.Store, env *Env) Builder {
	c, raw, version := forRaw(kind, raw)
	return c.Start(Source{
		Kind: kind, Raw: raw, Packed: ready.Packed, Encoding: ready.Encoding, Store: store, Env: env, ModuleVersion: version,
	})
}

// LetGo frees the unfinished structure of a Builder.
func LetGo(store *value.Store, t value.Type, b Builder) {
	if root := b.Root(); root != 0 {
		store.MoveRoot(t, root)
		store.DropRoot(t, root)
	}
}
