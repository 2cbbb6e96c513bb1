package codec

import (
	"cmp"
	"slices"

	"spindle/bgsave/rdb"
	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
)

// setCodec reads and writes sets: member by member, or as an intset or listpack.
var setCodec = Codec{
	Type:  value.Set,
	Kinds: []rdb.Kind{rdb.KindSet, rdb.KindSetIntset, rdb.KindSetListpack},
	Kind:  setKind,
	Write: writeSet,
	Read:  readSet,
	Start: startSet,
}

func setKind(v value.Value, newest int) rdb.Kind {
	switch {
	case v.Encoding() == value.IntSet:
		return rdb.KindSetIntset
	case v.Encoding() == value.Listpack && newest >= 11:
		return rdb.KindSetListpack
	}
	return rdb.KindSet
}

func writeSet(w *rdb.Writer, kind rdb.Kind, v value.Value) {
	if kind != rdb.KindSet {
		w.Text(v.Packed())
		return
	}
	r := set.Read(v)
	w.Length(uint64(r.Len()))
	r.All(func(e set.Element) bool {
		if e.IsInt {
			w.Int(e.Int)
		} else {
			w.Text(e.Bytes())
		}
		return !w.Stopped()
	})
}

func readSet(x *Expander, kind rdb.Kind, r *rdb.Reader) (Ready, error) {
	switch kind {
	case rdb.KindSetIntset:
		packed, n, err := x.Intset(r)
		return packedSet(value.IntSet, packed, n <= x.Limits.SetIntset), err
	case rdb.KindSetListpack:
		packed, n, err := x.Listpack(r, 1, true)
		return packedSet(value.Listpack, packed, n <= x.Limits.SetEntries), err
	}
	n, err := r.Count(1)
	switch {
	case err != nil:
		return Ready{}, err
	case n == 0:
		return Ready{}, ErrEmpty
	case n > x.Limits.SetIntset:
		return Ready{Encoding: value.HashTable}, nil
	}
	return x.fewMembers(r, n)
}

func packedSet(enc value.Encoding, packed []byte, fits bool) Ready {
	if !fits {
		enc = value.HashTable
	}
	return Ready{Encoding: enc, Packed: packed}
}

// fewMembers reads n members, few enough for an intset. It makes an intset or a listpack of them if the limits allow.
func (x *Expander) fewMembers(r *rdb.Reader, n int) (Ready, error) {
	members, integers, longest, size := x.Distinct(n), n, 0, 0
	for i := range n {
		text, err := x.readKept(r)
		if err != nil {
			return Ready{}, err
		}
		e := listpack.Of(text)
		longest, size = max(longest, len(text)), size+len(text)+listpack.MaxOverhead
		if !e.IsInt {
			integers = min(integers, i)
		}
		if integers <= i &&
			(i >= x.Limits.SetEntries || longest > x.Limits.SetValue || size > listpack.MaxBytes) {
			return Ready{Encoding: value.HashTable}, nil
		}
		if !members.AddElement(e) {
			return Ready{}, errDuplicate
		}
	}
	// The integers before the first other member form an intset until that member comes. So they are sorted.
	slices.SortFunc(members.items[:integers], func(a, b listpack.Element) int { return cmp.Compare(a.Int, b.Int) })
	if integers < n {
		lp := listpack.Begin(x.Begin())
		for _, e := range members.items {
			lp = listpack.AppendEntry(lp, e)
		}
		return Ready{Encoding: value.Listpack, Packed: x.Keep(listpack.Close(lp, 0, n))}, nil
	}
	packed := intset.AppendEmpty(x.Begin())
	for _, e := range members.items {
		packed, _ = intset.Add(packed, e.Int)
	}
	return Ready{Encoding: value.IntSet, Packed: x.Keep(packed)}, nil
}

// A setBuilder fills a hashtable from a record's members, or from a checked listpack or intset that is too long.
type setBuilder struct {
	source  Source
	r       rdb.Reader
	left    int
	at      int // in Packed: a listpack's offset or an intset's index
	filling set.Filling
	scratch []byte
}

func startSet(s Source) Builder {
	b := &setBuilder{source: s}
	switch {
	case s.Packed == nil:
		b.r = rdb.NewReader(s.Raw)
		b.left, _ = b.r.Count(1) // Read has checked it
	case s.Kind == rdb.KindSetIntset:
		b.left = intset.Len(s.Packed)
	default:
		b.left, b.at = listpack.Count(s.Packed), listpack.First(s.Packed)
	}
	return b
}

func (b *setBuilder) Root() memory.Ref { return b.filling.Root() }

func (b *setBuilder) Step(n int) (done bool, err error) {
	if b.Root() == 0 {
		b.filling.Begin(b.source.Store, b.left)
	}
	b.filling.Resume()
	for ; n > 0 && b.left > 0 && err == nil; n-- {
		var member []byte
		if member, err = b.member(); err == nil && !b.filling.Add(member) {
			err = errDuplicate
		}
		b.left--
	}
	b.filling.Pause()
	if err == nil && b.left == 0 && b.source.Packed == nil && b.r.Len() != 0 {
		err = rdb.Corrupt("bytes after the value")
	}
	return b.left == 0, err
}

// member returns the next member. It is valid until the next call.
func (b *setBuilder) member() (text []byte, err error) {
	var e listpack.Element
	switch {
	case b.source.Packed == nil:
		text, b.scratch, err = b.r.Bytes(b.scratch)
		return text, err
	case b.source.Kind == rdb.KindSetIntset:
		e = listpack.OfInt(intset.Get(b.source.Packed, b.at))
		b.at++
	default:
		e, b.at = listpack.GetNext(b.source.Packed, b.at)
	}
	if e.IsInt {
		b.scratch = e.Append(b.scratch[:0])
		return b.scratch, nil
	}
	return e.Bytes(), nil
}
