package codec

import (
	"spindle/bgsave/rdb"
	"spindle/bgsave/rdb/legacy"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/list"
)

// listCodec is lists in RDB: piece by piece as they are kept, or, in old files, ziplists, or element by element.
var listCodec = Codec{
	Type:  value.List,
	Kinds: []rdb.Kind{rdb.KindList, rdb.KindListZiplist, rdb.KindListQuicklist, rdb.KindListQuicklist2},
	Kind:  func(value.Value, int) rdb.Kind { return rdb.KindListQuicklist2 },
	Write: writeList,
	Read:  readList,
	Start: startList,
}

// What a piece of a quicklist is.
const (
	plainPiece  = 1
	packedPiece = 2
)

const errPiece = rdb.Corrupt("a piece of a list is neither plain nor packed")

func writeList(w *rdb.Writer, _ rdb.Kind, v value.Value) {
	w.Length(uint64(list.LeafCount(v)))
	list.Leaves(v, func(piece []byte, plain bool) bool {
		if plain {
			w.Length(plainPiece)
		} else {
			w.Length(packedPiece)
		}
		w.Text(piece)
		return !w.Stopped()
	})
}

func readList(x *Expander, kind rdb.Kind, r *rdb.Reader) (Ready, error) {
	limits := list.Limits{Fill: x.Limits.ListSize}
	if kind == rdb.KindListZiplist {
		lp, n, err := x.Ziplist(r, 1, false)
		return packedList(limits, lp, n), err
	}
	n, err := r.Count(1)
	switch {
	case err != nil:
		return Ready{}, err
	case n == 0:
		return Ready{}, ErrEmpty
	case kind == rdb.KindList:
		return x.fewElements(limits, r, n)
	case n > 1:
		return Ready{Encoding: value.Quicklist}, nil
	}
	if kind == rdb.KindListQuicklist {
		lp, n, err := x.Ziplist(r, 1, false)
		return packedList(limits, lp, n), err
	}
	what, err := r.Length()
	if err != nil || what != packedPiece {
		return Ready{Encoding: value.Quicklist}, err // what it is instead, the Builder sees
	}
	lp, n, err := x.Listpack(r, 1, false)
	return packedList(limits, lp, n), err
}

func packedList(l list.Limits, lp []byte, n int) Ready {
	if !l.Whole(len(lp), n) {
		return Ready{Encoding: value.Quicklist, Packed: lp}
	}
	return Ready{Encoding: value.Listpack, Packed: lp}
}

// fewElements reads n elements, which become a listpack if one takes them.
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

// A listBuilder fills a quicklist: from a listpack that is proven but too long, or from the elements or pieces of a record.
type listBuilder struct {
	source  Source
	r       rdb.Reader
	left    int // elements or pieces of r
	at      int // the next element of a proven listpack
	begun   bool
	list    list.Builder
	scratch []byte
	lp      []byte // what a ziplist is as a listpack
}

func startList(s Source) Builder {
	b := &listBuilder{source: s}
	if s.Packed == nil {
		b.r = rdb.NewReader(s.Raw)
		b.left, _ = b.r.Count(1) // Read has seen that it is right
	} else {
		b.at = listpack.First(s.Packed)
	}
	return b
}

// Root implements Builder.
func (b *listBuilder) Root() memory.Ref {
	if !b.begun {
		return 0
	}
	return b.list.Root()
}

// Step implements Builder.
func (b *listBuilder) Step(n int) (done bool, err error) {
	if !b.begun {
		b.begun = true
		b.list = list.NewBuilder(b.source.Store, list.Limits{Fill: b.source.Env.Limits.ListSize})
	}
	until := b.list.Len() + n
	if b.source.Packed != nil {
		return b.divide(until), nil
	}
	for ; b.left > 0 && b.list.Len() < until; b.left-- {
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
		return false, rdb.Corrupt("bytes behind the value")
	case b.list.Len() == 0:
		return false, ErrEmpty
	}
	return true, nil
}

// divide takes over a proven listpack: as the piece it was in the file, or, where it was the whole list, element by element.
func (b *listBuilder) divide(until int) (done bool) {
	lp := b.source.Packed
	if b.source.Kind != rdb.KindListZiplist {
		b.list.AddPacked(lp)
		return true
	}
	for b.at != 0 && b.list.Len() < until {
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

// piece takes over one piece of a quicklist. A packed one without elements is passed over: servers of old have written such.
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
	if err := listpack.Validate(p, true, nil); err != nil {
		return err
	}
	if listpack.First(p) != 0 {
		b.list.AddPacked(p)
	}
	return nil
}
