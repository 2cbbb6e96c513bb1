package codec

import (
	"spindle/bgsave/rdb"
	"spindle/bgsave/rdb/legacy"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// listCodec reads and writes lists node by node, as in a quicklist. Old files have ziplists or single elements.
var listCodec = Codec{
	Type:  value.List,
	Kinds: []rdb.Kind{rdb.KindList, rdb.KindListZiplist, rdb.KindListQuicklist, rdb.KindListQuicklist2},
	Kind:  func(value.Value, int) rdb.Kind { return rdb.KindListQuicklist2 },
	Write: writeList,
	Read:  readList,
	Start: startList,
}

// The two kinds of a quicklist's nodes.
const (
	plainPiece  = 1
	packedPiece = 2
)

const errPiece = rdb.Corrupt("a piece of a list is neither plain nor packed")

func (l *Limits) list() list.Limits { return list.Limits{Fill: l.ListSize, Depth: l.ListDepth} }

func writeList(w *rdb.Writer, _ rdb.Kind, v value.Value) {
	w.Length(uint64(list.LeafCount(v)))
	list.Leaves(v, func(p list.Piece) bool {
		if p.Plain {
			w.Length(plainPiece)
		} else {
			w.Length(packedPiece)
		}
		if p.Compressed() {
			w.Compressed(p.Bytes, p.Size)
		} else {
			w.Text(p.Bytes)
		}
		return !w.Stopped()
	})
}

func readList(x *Expander, kind rdb.Kind, r *rdb.Reader) (Ready, error) {
	limits := x.Limits.list()
	if kind == rdb.KindListZiplist {
		lp, n, err := x.Ziplist(r, 1, false)
		return packedList(limits, lp, n), err
	}
	from := *r
	n, err := r.Count(1)
	switch {
	case err != nil:
		return Ready{}, err
	case n == 0:
		return Ready{}, ErrEmpty
	case kind == rdb.KindList:
		return x.fewElements(limits, r, n)
	case n == 1 && kind == rdb.KindListQuicklist:
		lp, n, err := x.Ziplist(r, 1, false)
		return packedList(limits, lp, n), err
	case kind == rdb.KindListQuicklist:
		return Ready{Encoding: value.Quicklist}, nil
	}
	return x.pieces(limits, from, r, n)
}

// expandedAtMost bounds, for each round, the memory for compressed nodes that are expanded in advance. Lists beyond it
// are expanded and checked when they are built.
const expandedAtMost = 4 << 20

// pieces checks n nodes outside the turn. If none is compressed, the builder gets the bytes of the file, starting with
// the count at from. Otherwise it gets a copy with the nodes expanded.
func (x *Expander) pieces(l list.Limits, from rdb.Reader, r *rdb.Reader, n int) (Ready, error) {
	begin, size, asIs := *r, 0, true
	for range n {
		if _, err := r.Length(); err != nil {
			return Ready{}, err
		}
		t, err := r.Text()
		if err != nil {
			return Ready{}, err
		}
		size += t.Size + 10 // room for the node's kind and length
		asIs = asIs && t.Form == rdb.Verbatim
	}
	whole := from.Rest()[:from.Len()-r.Len()]
	if !asIs {
		if size > expandedAtMost-x.expanded {
			return Ready{Encoding: value.Quicklist}, nil
		}
		x.expanded += size
		whole = rdb.AppendLength(make([]byte, 0, size+10), uint64(n))
	}
	filled := false
	for range n {
		what, _ := begin.Length()
		t, _ := begin.Text()
		p := t.Bytes
		if !asIs {
			whole = rdb.AppendLength(rdb.AppendLength(whole, what), uint64(t.Size))
			at := len(whole)
			var err error
			if whole, err = t.Append(whole); err != nil {
				return Ready{}, err
			}
			p = whole[at:]
		}
		count, err := provePiece(what, p)
		if err != nil {
			return Ready{}, err
		}
		if n == 1 && what == packedPiece && count > 0 && l.Whole(len(p), count) {
			return Ready{Encoding: value.Listpack, Packed: p}, nil
		}
		filled = filled || count > 0
	}
	if !filled {
		return Ready{}, ErrEmpty
	}
	return Ready{Encoding: value.Quicklist, Packed: whole}, nil
}

// provePiece checks a node and returns its number of elements. A packed node may be empty: old servers wrote such
// nodes.
func provePiece(what uint64, p []byte) (count int, err error) {
	switch {
	case what == plainPiece && len(p) > 0:
		return 1, nil
	case what != packedPiece:
		return 0, errPiece
	}
	if err = listpack.Validate(p, true, nil); err != nil {
		return 0, err
	}
	return listpack.Count(p), nil
}

func packedList(l list.Limits, lp []byte, n int) Ready {
	if !l.Whole(len(lp), n) {
		return Ready{Encoding: value.Quicklist, Packed: lp}
	}
	return Ready{Encoding: value.Listpack, Packed: lp}
}

// fewElements reads n elements into one listpack, if they fit.
func (x *Expander) fewElements(l list.Limits, r *rdb.Reader, n int) (Ready, error) {
	lp := listpack.Begin(x.Begin())
	for i := range n {
		text, err := x.Text(r)
		if err != nil {
			return Ready{}, err
		}
		if !l.Takes(len(lp)+1, i, len(text)) {
			return Ready{Encoding: value.Quicklist}, nil
		}
		lp = listpack.AppendEntry(lp, listpack.Of(text))
	}
	return Ready{Encoding: value.Listpack, Packed: x.Keep(listpack.Close(lp, 0, n))}, nil
}

// A listBuilder fills a quicklist from a checked listpack that is too long, or from a record's elements or nodes.
type listBuilder struct {
	source  Source
	r       rdb.Reader
	proven  bool // r has nodes that Read has checked
	left    int  // elements or nodes left in r
	at      int  // offset of the next element in a checked listpack
	begun   bool
	list    list.Builder
	scratch []byte
	lp      []byte // a ziplist converted to a listpack
}

func startList(s Source) Builder {
	b := &listBuilder{source: s, proven: s.Kind == rdb.KindListQuicklist2 && s.Packed != nil}
	if s.Packed != nil && !b.proven {
		b.at = listpack.First(s.Packed)
		return b
	}
	b.r = rdb.NewReader(s.Raw)
	if b.proven {
		b.r = rdb.NewReader(s.Packed)
	}
	b.left, _ = b.r.Count(1) // Read has checked it
	return b
}

func (b *listBuilder) Root() memory.Ref {
	if !b.begun {
		return 0
	}
	return b.list.Root()
}

// stepBytes bounds the bytes of one step if elements are long.
const stepBytes = 4 << 10

func (b *listBuilder) Step(n int) (done bool, err error) {
	if !b.begun {
		b.begun = true
		b.list = list.NewBuilder(b.source.Store, b.source.Env.Limits.list())
	}
	began, rest := b.list.Len(), b.r.Len()-stepBytes
	if b.source.Packed != nil && !b.proven {
		return b.divide(n), nil
	}
	for ; b.left > 0 && b.list.Len()-began < n && b.r.Len() > rest; b.left-- {
		if b.source.Kind == rdb.KindList {
			err = b.element()
		} else {
			err = b.piece()
		}
		if err != nil {
			return false, err
		}
	}
	switch {
	case b.left > 0:
		return false, nil
	case b.r.Len() > 0:
		return false, rdb.Corrupt("bytes after the value")
	case b.list.Len() == 0:
		return false, ErrEmpty
	}
	return true, nil
}

// divide adds a checked listpack. If it was the whole list, it adds the elements one by one, otherwise one node.
func (b *listBuilder) divide(n int) (done bool) {
	lp := b.source.Packed
	if b.source.Kind != rdb.KindListZiplist {
		b.list.AddPacked(lp)
		return true
	}
	for began := b.list.Len(); b.at != 0 && b.list.Len()-began < n; {
		var el listpack.Element
		el, b.at = listpack.GetNext(lp, b.at)
		b.list.Push(el)
	}
	return b.at == 0
}

func (b *listBuilder) element() (err error) {
	var text []byte
	if text, b.scratch, err = b.r.Bytes(b.scratch); err == nil {
		b.list.Push(listpack.Of(text))
	}
	return err
}

// piece adds one node of a quicklist. It skips an empty packed node, which old servers wrote.
func (b *listBuilder) piece() (err error) {
	what := uint64(packedPiece)
	if b.source.Kind == rdb.KindListQuicklist2 {
		if what, err = b.r.Length(); err != nil {
			return err
		}
	}
	var p []byte
	if p, b.scratch, err = b.r.Bytes(b.scratch); err != nil {
		return err
	}
	switch {
	case what == plainPiece && len(p) > 0:
		b.list.AddPlain(p)
		return nil
	case what != packedPiece:
		return errPiece
	}
	if b.source.Kind == rdb.KindListQuicklist {
		z, err := legacy.ReadZiplist(p)
		if err != nil {
			return err
		}
		b.lp = z.AppendListpack(b.lp[:0])
		p = b.lp
	}
	if !b.proven {
		if err := listpack.Validate(p, true, nil); err != nil {
			return err
		}
	}
	if listpack.First(p) != 0 {
		b.list.AddPacked(p)
	}
	return nil
}
