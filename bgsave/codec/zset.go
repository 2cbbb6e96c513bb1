package codec

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"spindle/bgsave/rdb"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// zsetCodec reads and writes sorted sets: member by member, or as a listpack.
//
//	zset   | count | member | score | …   score: a byte: 255 -inf, 254 inf, 253 nan; else so many bytes of text
//	zset2  | count | member | score | …   score: float64
//
// Members are written from the last to the first, as in Redis, and read in any order.
var zsetCodec = Codec{
	Type:  value.ZSet,
	Kinds: []rdb.Kind{rdb.KindZSet, rdb.KindZSet2, rdb.KindZSetZiplist, rdb.KindZSetListpack},
	Kind:  zsetKind,
	Write: writeZSet,
	Read:  readZSet,
	Start: startZSet,
}

func zsetKind(v value.Value, _ int) rdb.Kind {
	if v.Encoding() == value.Listpack {
		return rdb.KindZSetListpack
	}
	return rdb.KindZSet2
}

func writeZSet(w *rdb.Writer, kind rdb.Kind, v value.Value) {
	if kind == rdb.KindZSetListpack {
		w.Text(v.Packed())
		return
	}
	n := zset.Len(v)
	w.Length(uint64(n))
	zset.Each(v, n-1, n, true, func(member listpack.Element, score float64) bool {
		w.Text(member.Bytes()) // a skiplist's members are always bytes
		w.Float64(score)
		return !w.Stopped()
	})
}

const errScore = rdb.Corrupt("a score is not a number")

// A scored is a member and its score, for a listpack.
type scored struct {
	member listpack.Element
	score  float64
}

func readZSet(x *Expander, kind rdb.Kind, r *rdb.Reader) (Ready, error) {
	switch kind {
	case rdb.KindZSetZiplist:
		lp, n, err := x.Ziplist(r, 2, true)
		return x.packedZSet(lp, n/2, err)
	case rdb.KindZSetListpack:
		lp, n, err := x.Listpack(r, 2, true)
		return x.packedZSet(lp, n/2, err)
	}
	n, err := countZSet(kind, r)
	switch {
	case err != nil:
		return Ready{}, err
	case n == 0:
		return Ready{}, ErrEmpty
	case n > x.Limits.ZSetEntries:
		return Ready{Encoding: value.SkipList}, nil
	}
	return x.fewScored(kind, r, n)
}

// countZSet reads the number of members.
func countZSet(kind rdb.Kind, r *rdb.Reader) (int, error) {
	if kind == rdb.KindZSet2 {
		return r.Count(1 + 8)
	}
	return r.Count(1 + 1)
}

// packedZSet checks the scores in a listpack of n pairs. Only n decides whether it stays a listpack.
func (x *Expander) packedZSet(lp []byte, n int, err error) (Ready, error) {
	if err != nil {
		return Ready{}, err
	}
	few := n <= x.Limits.ZSetEntries
	pairs, ordered := x.scored[:0], true
	for at := listpack.First(lp); at != 0; {
		member, next := listpack.GetNext(lp, at)
		text, behind := listpack.GetNext(lp, next)
		score, ok := packedScore(text)
		if !ok {
			return Ready{}, errScore
		}
		at = behind
		if !few {
			continue
		}
		pairs = append(pairs, scored{member, score})
		if i := len(pairs) - 1; i > 0 && inOrder(pairs[i-1], pairs[i]) > 0 {
			ordered = false
		}
	}
	x.scored = pairs
	switch {
	case !few:
		return Ready{Encoding: value.SkipList, Packed: lp}, nil
	case !ordered: // no known server writes unordered listpacks, but the format allows them
		lp = x.packScored()
	}
	return Ready{Encoding: value.Listpack, Packed: lp}, nil
}

// packedScore returns the score in a listpack's entry.
func packedScore(e listpack.Element) (float64, bool) {
	if e.IsInt {
		return float64(e.Int), true
	}
	return number.ParseDouble(e.Bytes())
}

// inOrder compares two members by score, then by text.
func inOrder(a, b scored) int {
	if c := cmp.Compare(a.score, b.score); c != 0 {
		return c
	}
	if !a.member.IsInt && !b.member.IsInt {
		return bytes.Compare(a.member.Bytes(), b.member.Bytes())
	}
	var room [number.MaxIntLen]byte
	return a.member.Compare(b.member.Text(room[:]))
}

// packScored sorts x.scored and returns its listpack.
func (x *Expander) packScored() []byte {
	slices.SortFunc(x.scored, inOrder)
	lp := listpack.AppendEmpty(x.Begin())
	var room [number.MaxIntLen]byte
	for _, p := range x.scored {
		lp = zset.AppendPair(lp, 0, p.member.Text(room[:]), p.score)
	}
	clear(x.scored)
	return x.Keep(lp)
}

// fewScored reads n members into a listpack, unless one of them is too long.
func (x *Expander) fewScored(kind rdb.Kind, r *rdb.Reader, n int) (Ready, error) {
	members, longest := x.Distinct(n), 0
	limits := zset.Limits{Entries: x.Limits.ZSetEntries, Value: x.Limits.ZSetValue}
	x.scored = x.scored[:0]
	for range n {
		text, err := x.readKept(r)
		if err != nil {
			return Ready{}, err
		}
		score, err := readScore(kind, r)
		if err != nil {
			return Ready{}, err
		}
		if longest = max(longest, len(text)); !limits.Holds(n, longest) {
			return Ready{Encoding: value.SkipList}, nil
		}
		if !members.Add(text) {
			return Ready{}, errDuplicate
		}
		x.scored = append(x.scored, scored{listpack.OfText(text), score})
	}
	return Ready{Encoding: value.Listpack, Packed: x.packScored()}, nil
}

// readScore reads the score after a member.
func readScore(kind rdb.Kind, r *rdb.Reader) (score float64, err error) {
	if kind == rdb.KindZSet2 {
		score, err = r.Float64()
	} else {
		score, err = readScoreText(r)
	}
	if err == nil && math.IsNaN(score) {
		err = errScore
	}
	return score, err
}

func readScoreText(r *rdb.Reader) (float64, error) {
	n, err := r.Byte()
	switch {
	case err != nil:
		return 0, err
	case n == 255:
		return math.Inf(-1), nil
	case n == 254:
		return math.Inf(1), nil
	case n == 253:
		return 0, errScore
	}
	text, err := r.Take(int(n))
	if err != nil {
		return 0, err
	}
	score, ok := number.ParseDouble(text)
	if !ok {
		return 0, errScore
	}
	return score, nil
}

// A zsetBuilder fills a skiplist from a record's members, or from a checked listpack that is too long.
type zsetBuilder struct {
	source  Source
	r       rdb.Reader
	left    int
	at      int // offset of the next member in Packed
	filling *zset.Builder
	batch   [16]coming
}

// A coming is a member that was read but not added yet.
type coming struct {
	member, scratch []byte // scratch: memory of the member, if it is no view of the record
	score           float64
	hash            uint64
}

func startZSet(s Source) Builder {
	b := &zsetBuilder{source: s}
	if s.Packed == nil {
		b.r = rdb.NewReader(s.Raw)
		b.left, _ = countZSet(s.Kind, &b.r) // Read has checked it
		return b
	}
	b.left, b.at = listpack.Count(s.Packed)/2, listpack.First(s.Packed)
	return b
}

func (b *zsetBuilder) Root() memory.Ref {
	if b.filling == nil {
		return 0
	}
	return b.filling.Root()
}

func (b *zsetBuilder) Step(n int) (done bool, err error) {
	if b.filling == nil {
		b.filling = zset.NewBuilder(b.source.Store, b.left)
	}
	for n = min(n, b.left); n > 0; {
		batch := b.batch[:min(n, len(b.batch))]
		for i := range batch {
			c := &batch[i]
			if err := b.next(c); err != nil {
				return false, err
			}
			c.hash = b.filling.Touch(c.member)
		}
		for i := range batch {
			if c := &batch[i]; !b.filling.AddHashed(c.hash, c.member, c.score) {
				return false, errDuplicate
			}
		}
		n -= len(batch)
		b.left -= len(batch)
	}
	if b.left == 0 && b.source.Packed == nil && b.r.Len() != 0 {
		return false, rdb.Corrupt("bytes after the value")
	}
	return b.left == 0, nil
}

// next reads the next member and its score.
func (b *zsetBuilder) next(c *coming) (err error) {
	if lp := b.source.Packed; lp != nil {
		m, next := listpack.GetNext(lp, b.at)
		text, behind := listpack.GetNext(lp, next)
		c.scratch = m.Append(c.scratch[:0])
		b.at, c.member = behind, c.scratch
		c.score, _ = packedScore(text)
		return nil
	}
	if c.member, c.scratch, err = b.r.Bytes(c.scratch); err != nil {
		return err
	}
	c.score, err = readScore(b.source.Kind, &b.r)
	return err
}
