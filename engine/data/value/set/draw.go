package set

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// below returns a random number from 0 to n-1, each equally likely.
func below(r *rand.PCG, n int) int {
	high, _ := bits.Mul64(r.Uint64(), uint64(n))
	return int(high)
}

// Random returns a random member, each equally likely. The set must not be empty.
func (r *Reader) Random(rng *rand.PCG) Element {
	switch {
	case r.members != nil:
		t := table.Open(nil, table.Member, r.members, false)
		return listpack.OfText(table.MemberKey(t.Random(rng)))
	case r.enc == value.IntSet:
		return listpack.OfInt(intset.Random(r.packed, rng.Uint64()))
	}
	return listpack.Get(r.packed, listpack.Seek(r.packed, below(rng, listpack.Count(r.packed))))
}

// A Sampler draws several members. It reuses its buffers from call to call.
type Sampler struct {
	seen []uint64 // hash set of what was drawn: an intset's index + 1, a hashtable's block
	at   []uint32 // offsets of a listpack's entries
}

// samplesKept is the size of the largest buffers that a Sampler reuses.
const samplesKept = 16 << 10

func (s *Sampler) release() {
	if cap(s.seen) > samplesKept {
		s.seen = nil
	}
	if cap(s.at) > samplesKept {
		s.at = nil
	}
}

// Draw yields n random members of r, possibly repeated, until yield returns false. r must not be empty.
func (s *Sampler) Draw(r *Reader, rng *rand.PCG, n int, yield func(Element) bool) {
	if r.enc != value.Listpack || n < 4 {
		for ; n > 0 && yield(r.Random(rng)); n-- {
		}
		return
	}
	s.at = s.at[:0]
	for at := range listpack.All(r.packed) {
		s.at = append(s.at, uint32(at))
	}
	for ; n > 0 && yield(listpack.Get(r.packed, int(s.at[below(rng, len(s.at))]))); n-- {
	}
	s.release()
}

// manyToOne is the ratio of a set's members to wanted ones from which separate draws cost less than a walk. The draws
// must remember what they have drawn.
const manyToOne = 16

// Sample yields n different random members of r, n <= Len. Each choice of n is equally likely. The members come in no
// particular order.
//
// Cost: one walk, or about n draws if n is small compared with the set.
func (s *Sampler) Sample(r *Reader, rng *rand.PCG, n int, yield func(Element)) {
	size := r.Len()
	if r.enc == value.Listpack || n > size/manyToOne {
		choose(r, rng, n, func(e Element, chosen bool) {
			if chosen {
				yield(e)
			}
		})
		return
	}
	room := roomFor(n)
	if s.seen = s.seen[:0]; cap(s.seen) < room {
		s.seen = make([]uint64, room)
	}
	s.seen = s.seen[:room]
	clear(s.seen)
	if r.members == nil {
		for n > 0 {
			if i := below(rng, size); s.first(uint64(i) + 1) {
				yield(listpack.OfInt(intset.Get(r.packed, i)))
				n--
			}
		}
	} else {
		t := table.Open(nil, table.Member, r.members, false)
		for n > 0 {
			if ref := t.Random(rng); s.first(uint64(ref)) {
				yield(listpack.OfText(table.MemberKey(ref)))
				n--
			}
		}
	}
	s.release()
}

// roomFor returns how many cells the hash set needs for n members. It leaves between half and three quarters of them
// empty.
func roomFor(n int) int { return 1 << bits.Len(uint(2*n)) }

// first adds x, which must not be 0, and reports whether x is new.
func (s *Sampler) first(x uint64) bool {
	mask := uint64(len(s.seen) - 1)
	for at := x * 0x9E3779B97F4A7C15 >> 32 & mask; ; at = (at + 1) & mask {
		switch s.seen[at] {
		case 0:
			s.seen[at] = x
			return true
		case x:
			return false
		}
	}
}

// choose walks r, chooses n of its members at random, and calls visit for each member.
func choose(r *Reader, rng *rand.PCG, n int, visit func(e Element, chosen bool)) {
	left := r.Len()
	r.All(func(e Element) bool {
		chosen := below(rng, left) < n
		if left--; chosen {
			n--
		}
		visit(e, chosen)
		return true
	})
}

// Pop removes a random member from the set of e, each equally likely, and appends it to dst. It may leave the set
// empty.
func Pop(e *value.Edit, dst []byte) []byte {
	rng := e.Rand()
	if b := e.Packed(); b != nil {
		if e.Encoding() == value.IntSet {
			index := below(rng, intset.Len(b))
			dst = listpack.OfInt(intset.Get(b, index)).Append(dst)
			dropInteger(e, b, index)
			return dst
		}
		at := listpack.Seek(b, below(rng, listpack.Count(b)))
		dst = listpack.Get(b, at).Append(dst)
		dropText(e, b, at)
		return dst
	}
	r := rootAt(e.Root())
	t := table.Open(e.Heap(), table.Member, &r.members, e.Wide())
	dst = popRandom(&t, rng, dst)
	r.members = t.State()
	return dst
}

// popRandom removes a random member from t and appends it to dst.
func popRandom(t *table.Table, rng *rand.PCG, dst []byte) []byte {
	ref := t.Random(rng)
	key := table.MemberKey(ref)
	dst = append(dst, key...)
	p := t.Locate(table.Hash(key), ref)
	t.Release(ref, t.Remove(&p))
	return dst
}

// restIsSmall: if at least this many members are popped for each one that stays, the rest becomes a new set.
const restIsSmall = 5

// PopMany removes n members from the set of e, fewer than the set has. It calls yield for each, which must copy it.
// rest is a Builder that PopMany may use.
//
// Cost: a draw for each member; one walk if the set is packed or most of it is removed. If most of a hashtable was
// removed, the rest is encoded like a new set. Otherwise the encoding stays.
func PopMany(e *value.Edit, n int, l Limits, rest *Builder, yield func(Element)) {
	r := Read(e.Value())
	stay := r.Len() - n
	few := stay <= n/restIsSmall
	if r.members != nil && !few {
		root := rootAt(e.Root())
		t := table.Open(e.Heap(), table.Member, &root.members, e.Wide())
		var room [128]byte
		text := room[:0]
		for range n {
			text = popRandom(&t, e.Rand(), text[:0])
			yield(listpack.OfText(text))
		}
		root.members = t.State()
		return
	}
	enc := value.Listpack
	if r.enc == value.IntSet {
		enc = value.IntSet
	}
	if !few {
		l = Limits{IntSet: math.MaxInt, Entries: math.MaxInt, Value: math.MaxInt}
	}
	rest.Begin(e.Store(), l, enc, stay)
	choose(&r, e.Rand(), n, func(el Element, chosen bool) {
		if chosen {
			yield(el)
		} else {
			rest.Append(el)
		}
	})
	rest.Install(e)
}
