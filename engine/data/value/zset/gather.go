package zset

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// An Aggregate is a way to combine the scores that a member has in several sets.
type Aggregate uint8

const (
	Sum Aggregate = iota
	Min
	Max
)

// Of returns the two scores combined. The sum of both infinities is 0.
func (a Aggregate) Of(x, y float64) float64 {
	switch {
	case a == Sum:
		return Whole(x + y)
	case a == Min && y < x, a == Max && y > x:
		return y
	}
	return x
}

// Whole returns f, or 0 for NaN: infinity times 0, or infinity minus infinity.
func Whole(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// A Gathering collects the members of several sets, in any order and with repeats. Sort orders them at the end. It is
// off the Go heap, except for 16 bytes a member while it is sorted.
type Gathering struct {
	store   *value.Store
	members table.Table
	sorted  []entry
	longest int
}

type entry struct {
	word uint64
	ref  memory.Ref
}

// Gather begins a Gathering.
func Gather(s *value.Store) *Gathering {
	return &Gathering{store: s, members: table.New(s.Heap, table.Scored, s.Base)}
}

// Expect announces that there will be at least n members.
func (g *Gathering) Expect(n int) { g.members.Reserve(n) }

// Len returns the number of members so far.
func (g *Gathering) Len() int { return g.members.Len() }

// Longest returns the length of the longest member so far, including members that were removed.
func (g *Gathering) Longest() int { return g.longest }

// Put adds a member. If the Gathering has it already, Put combines the scores.
func (g *Gathering) Put(member []byte, score float64, a Aggregate) {
	g.put(table.Hash(member), member, score, a)
}

func (g *Gathering) put(hash uint64, member []byte, score float64, a Aggregate) {
	if _, ref := g.members.Find(hash, member); ref != 0 {
		table.SetScore(ref, a.Of(table.Score(ref), score))
		return
	}
	g.members.Insert(hash, table.NewScored(g.store.Heap, member, score), table.Never)
	g.longest = max(g.longest, len(member))
}

// A Batch puts members into a Gathering several at a time, so that their cache misses overlap. The members' bytes must
// stay unchanged until Flush.
type Batch struct {
	g     *Gathering
	a     Aggregate
	items [16]batched
	n     int
}

type batched struct {
	member []byte
	score  float64
	hash   uint64
}

// Batch begins a Batch.
func (g *Gathering) Batch(a Aggregate) Batch { return Batch{g: g, a: a} }

// Put does the same as Gathering.Put, at once or later.
func (b *Batch) Put(member []byte, score float64) {
	if b.n == len(b.items) {
		b.Flush()
	}
	hash := table.Hash(member)
	b.g.members.TouchInsert(hash)
	b.items[b.n] = batched{member, score, hash}
	b.n++
}

// Flush puts the members that are still waiting into the Gathering.
func (b *Batch) Flush() {
	for i := range b.items[:b.n] {
		b.g.members.TouchBlock(b.items[i].hash)
	}
	for _, x := range b.items[:b.n] {
		b.g.put(x.hash, x.member, x.score, b.a)
	}
	b.n = 0
}

// Remove removes a member if the Gathering has it.
func (g *Gathering) Remove(member []byte) {
	if p, ref := g.members.Find(table.Hash(member), member); ref != 0 {
		g.members.Remove(&p)
		g.store.Heap.Free(ref, memory.Values)
	}
}

// Sort orders the members. No member may be added or removed afterwards. step is called for each comparison.
func (g *Gathering) Sort(step func()) {
	g.sorted = make([]entry, 0, g.members.Len())
	g.longest = 0
	g.members.All(func(ref memory.Ref) bool {
		g.sorted = append(g.sorted, entry{word(table.Score(ref)), ref})
		g.longest = max(g.longest, len(table.ScoredKey(ref)))
		return true
	})
	slices.SortFunc(g.sorted, func(a, b entry) int {
		step()
		if c := cmp.Compare(a.word, b.word); c != 0 {
			return c
		}
		return bytes.Compare(table.ScoredKey(a.ref), table.ScoredKey(b.ref))
	})
}

// Each yields the sorted members in order.
func (g *Gathering) Each(yield func(member []byte, score float64)) {
	for i := range g.sorted {
		if i+ahead < len(g.sorted) {
			memory.PrefetchRef(g.sorted[i+ahead].ref)
		}
		yield(table.ScoredKey(g.sorted[i].ref), table.Score(g.sorted[i].ref))
	}
}

// Root makes a skiplist of the sorted members, and ends the Gathering. keyspace.DB's PutRoot takes the result.
func (g *Gathering) Root() memory.Ref {
	o := tree.OpenRecords(g.store.Heap, value.KindTree, tree.State{}, recordBytes, false)
	i := 0
	o.Build(uint64(len(g.sorted)), func(record []uint64) {
		record[0], record[1] = g.sorted[i].word, uint64(g.sorted[i].ref)
		i++
	})
	return newRoot(g.store, &g.members, &o)
}

// AppendPacked appends the sorted members as a listpack. The caller must have checked Limits.Holds, and calls Discard
// afterwards.
func (g *Gathering) AppendPacked(dst []byte) []byte {
	from := len(dst)
	dst = listpack.AppendEmpty(dst)
	g.Each(func(member []byte, score float64) { dst = AppendPair(dst, from, member, score) })
	return dst
}

// Discard frees the members. It frees a few at once, and leaves many to a reclaimer.
func (g *Gathering) Discard() {
	var none tree.Records // destroyed without being read
	g.store.DropRoot(value.ZSet, newRoot(g.store, &g.members, &none))
}
