package codec

import (
	"spindle/bgsave/rdb"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	hashes "spindle/engine/data/value/hash"
)

// hashCodec reads and writes hashes: field by field, with or without deadlines, or as a listpack.
//
//	hash           | count | field | value | …
//	with deadlines | least u64 | count | ttl | field | value | …   ttl: 0 for none, else 1 + the ms after least
//	listpackex     | least u64 | listpack of triplets |            least: of the deadlines; 0 if there is none
//	of 7.4's pre-releases: without least, and ttl is the deadline itself
//	Valkey's       | count | field | value | deadline i64 | …   deadline: Unix ms; -1 for none
var hashCodec = Codec{
	Type: value.Hash,
	Kinds: []rdb.Kind{
		rdb.KindHash, rdb.KindHashZipmap, rdb.KindHashZiplist, rdb.KindHashListpack, rdb.KindHashTTL, rdb.KindHashTTLListpack,
		rdb.KindHashTTLPre, rdb.KindHashTTLPackPre, rdb.KindHash2,
	},
	Kind:  hashKind,
	Write: writeHash,
	Read:  readHash,
	Start: startHash,
}

// hashKind chooses the kind. A listpackex without deadlines is written field by field for older readers, which do not
// know that encoding.
func hashKind(v value.Value, newest int) rdb.Kind {
	if v.Encoding() != value.Listpack && rdb.DialectOf(newest) == rdb.Valkey {
		if hashes.Earliest(v) != 0 {
			return rdb.KindHash2
		}
		return rdb.KindHash
	}
	switch v.Encoding() {
	case value.Listpack:
		return rdb.KindHashListpack
	case value.ListpackEx:
		if newest >= rdb.KindHashTTLListpack.Since() || hashes.Earliest(v) != 0 {
			return rdb.KindHashTTLListpack
		}
	default:
		if hashes.Volatile(v) {
			return rdb.KindHashTTL
		}
	}
	return rdb.KindHash
}

func writeHash(w *rdb.Writer, kind rdb.Kind, v value.Value) {
	least := int64(0)
	if kind == rdb.KindHashTTL || kind == rdb.KindHashTTLListpack {
		least = hashes.Earliest(v)
		w.Uint64(uint64(least))
	}
	if kind == rdb.KindHashListpack || kind == rdb.KindHashTTLListpack {
		w.Text(v.Packed())
		return
	}
	w.Length(uint64(hashes.Len(v)))
	hashes.All(v, func(field, val listpack.Element, deadline int64) bool {
		if kind == rdb.KindHashTTL {
			ttl := int64(0)
			if deadline != 0 {
				ttl = deadline - least + 1
			}
			w.Length(uint64(ttl))
		}
		writeElement(w, field)
		writeElement(w, val)
		if kind == rdb.KindHash2 {
			if deadline == 0 {
				deadline = rdb.None
			}
			w.Uint64(uint64(deadline))
		}
		return !w.Stopped()
	})
}

// writeElement writes an element's text as a string.
func writeElement(w *rdb.Writer, e listpack.Element) {
	if e.IsInt { // a hashtable's elements are always bytes
		w.Int(e.Int)
	} else {
		w.Text(e.Bytes())
	}
}

const (
	errDeadline = rdb.Corrupt("a field's deadline is out of range")
	errOrder    = rdb.Corrupt("a listpack of fields is not in the order of their deadlines")
)

func readHash(x *Expander, kind rdb.Kind, r *rdb.Reader) (Ready, error) {
	switch kind {
	case rdb.KindHashZipmap:
		lp, n, err := x.Zipmap(r)
		if err == nil && longestElement(lp) > x.Limits.HashValue {
			return Ready{Encoding: value.HashTable, Packed: lp}, nil
		}
		return x.packedHash(value.Listpack, lp, n/2, err)
	case rdb.KindHashZiplist:
		lp, n, err := x.Ziplist(r, 2, true)
		return x.packedHash(value.Listpack, lp, n/2, err)
	case rdb.KindHashListpack:
		lp, n, err := x.Listpack(r, 2, true)
		return x.packedHash(value.Listpack, lp, n/2, err)
	case rdb.KindHashTTLListpack:
		if _, err := r.Uint64(); err != nil { // the triplets have the same deadline
			return Ready{}, err
		}
		fallthrough
	case rdb.KindHashTTLPackPre:
		lp, n, err := x.Listpack(r, 3, true)
		return x.packedHash(value.ListpackEx, lp, n/3, err)
	}
	head, err := readHashHead(kind, r)
	switch {
	case err != nil:
		return Ready{}, err
	case head.count == 0:
		return Ready{}, ErrEmpty
	case head.count > x.Limits.HashEntries:
		return Ready{Encoding: value.HashTable}, nil
	}
	return x.fewFields(head, r)
}

func (x *Expander) packedHash(enc value.Encoding, lp []byte, n int, err error) (ready Ready, _ error) {
	if err != nil {
		return ready, err
	}
	if enc == value.ListpackEx {
		var ok bool
		if ready.FieldsDeadline, ok = hashes.Deadlines(lp); !ok {
			return Ready{}, errOrder
		}
	}
	if ready.Packed = lp; n > x.Limits.HashEntries {
		enc = value.HashTable
	}
	ready.Encoding = enc
	return ready, nil
}

func longestElement(lp []byte) (n int) {
	for _, e := range listpack.All(lp) {
		n = max(n, e.Len())
	}
	return n
}

// hashHead holds the numbers before the fields of a hash that is written field by field.
type hashHead struct {
	kind  rdb.Kind
	least uint64
	count int
}

func readHashHead(kind rdb.Kind, r *rdb.Reader) (h hashHead, err error) {
	h.kind = kind
	if kind == rdb.KindHashTTL {
		if h.least, err = r.Uint64(); err != nil {
			return h, err
		}
		if h.least > hashes.MaxDeadline+1 { // Redis writes one more for "none"
			return h, errDeadline
		}
	}
	per := 2
	switch kind {
	case rdb.KindHashTTL, rdb.KindHashTTLPre:
		per = 3
	case rdb.KindHash2:
		per = 2 + 8
	}
	h.count, err = r.Count(per)
	return h, err
}

// before reads the bytes before a field, and returns the field's deadline if it is among them.
func (h hashHead) before(r *rdb.Reader) (int64, error) {
	if h.kind != rdb.KindHashTTL && h.kind != rdb.KindHashTTLPre {
		return 0, nil
	}
	ttl, err := r.Length()
	if err != nil {
		return 0, err
	}
	if ttl > hashes.MaxDeadline+1 {
		return 0, errDeadline
	}
	if ttl != 0 && h.kind == rdb.KindHashTTL {
		ttl += h.least - 1
	}
	if ttl > hashes.MaxDeadline {
		return 0, errDeadline
	}
	return int64(ttl), nil
}

// after reads the bytes after a value. It returns the field's deadline. The argument deadline is the result of before.
func (h hashHead) after(r *rdb.Reader, deadline int64) (int64, error) {
	if h.kind != rdb.KindHash2 {
		return deadline, nil
	}
	at, err := r.Uint64()
	switch {
	case err != nil:
		return 0, err
	case int64(at) == rdb.None:
		return 0, nil
	case int64(at) < 0:
		return 0, errDeadline
	}
	return min(max(int64(at), 1), hashes.MaxDeadline), nil // 0 means none in memory; both ends keep the meaning
}

// fewFields reads the fields into a listpack, unless one of them is too long.
func (x *Expander) fewFields(h hashHead, r *rdb.Reader) (ready Ready, err error) {
	ready.Encoding = value.Listpack
	if h.kind != rdb.KindHash {
		ready.Encoding = value.ListpackEx
	}
	names := x.Distinct(h.count)
	fields := x.fields[:0]
	size := 0
	for i := range h.count {
		deadline, err := h.before(r)
		if err != nil {
			return Ready{}, err
		}
		field, err := x.readKept(r)
		if err != nil {
			return Ready{}, err
		}
		val, err := x.readKept(r)
		if err != nil {
			return Ready{}, err
		}
		if deadline, err = h.after(r, deadline); err != nil {
			return Ready{}, err
		}
		size += len(field) + len(val) + 3*listpack.MaxOverhead
		if len(field) > x.Limits.HashValue || len(val) > x.Limits.HashValue || size > listpack.MaxBytes {
			return Ready{Encoding: value.HashTable}, nil
		}
		if !names.Add(field) {
			return Ready{}, errDuplicate
		}
		if deadline != 0 && (ready.FieldsDeadline == 0 || deadline < ready.FieldsDeadline) {
			ready.FieldsDeadline = deadline
		}
		fields = append(fields, hashes.NewField(i, field, val, deadline))
	}
	ready.Packed = x.Keep(hashes.AppendPacked(x.Begin(), fields, ready.Encoding == value.ListpackEx))
	clear(fields)
	x.fields = fields[:0]
	return ready, nil
}

// A hashBuilder fills a hashtable from a record's fields, or from a checked listpack that is too long.
type hashBuilder struct {
	source     Source
	head       hashHead
	r          rdb.Reader
	left, at   int // at: offset of the next field in Packed
	triplets   bool
	filling    hashes.Builder
	name, text []byte
	a, b       []byte // memory for compressed strings
}

func startHash(s Source) Builder {
	b := &hashBuilder{source: s}
	if s.Packed == nil {
		b.r = rdb.NewReader(s.Raw)
		b.head, _ = readHashHead(s.Kind, &b.r) // Read has checked it
		b.left = b.head.count
		return b
	}
	b.triplets = s.Kind == rdb.KindHashTTLListpack || s.Kind == rdb.KindHashTTLPackPre
	b.left, b.at = listpack.Count(s.Packed)/2, listpack.First(s.Packed)
	if b.triplets {
		b.left = listpack.Count(s.Packed) / 3
	}
	return b
}

func (b *hashBuilder) Root() memory.Ref { return b.filling.Root() }

func (b *hashBuilder) PartsDeadline() int64 { return b.filling.Least() }

func (b *hashBuilder) Step(n int) (done bool, err error) {
	if b.Root() == 0 {
		b.filling = hashes.NewBuilder(b.source.Store, b.left)
	}
	for ; n > 0 && b.left > 0; n-- {
		deadline, err := b.next()
		if err != nil {
			return false, err
		}
		if !b.filling.Add(b.name, b.text, deadline) {
			return false, errDuplicate
		}
		b.left--
	}
	if b.left == 0 && b.source.Packed == nil && b.r.Len() != 0 {
		return false, rdb.Corrupt("bytes after the value")
	}
	return b.left == 0, nil
}

// next reads the next field into name and text. They are valid until the next call.
func (b *hashBuilder) next() (deadline int64, err error) {
	if lp := b.source.Packed; lp != nil {
		var e listpack.Element
		e, b.at = listpack.GetNext(lp, b.at)
		b.a = e.Append(b.a[:0])
		e, b.at = listpack.GetNext(lp, b.at)
		b.b = e.Append(b.b[:0])
		if b.triplets {
			e, b.at = listpack.GetNext(lp, b.at)
			deadline = e.Int
		}
		b.name, b.text = b.a, b.b
		return deadline, nil
	}
	if deadline, err = b.head.before(&b.r); err != nil {
		return 0, err
	}
	if b.name, b.a, err = b.r.Bytes(b.a); err != nil {
		return 0, err
	}
	if b.text, b.b, err = b.r.Bytes(b.b); err != nil {
		return 0, err
	}
	return b.head.after(&b.r, deadline)
}
