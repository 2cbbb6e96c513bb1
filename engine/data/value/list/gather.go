package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// A Gatherer makes a list of elements that come one after the other. It makes a listpack if they fit one leaf,
// otherwise a quicklist with the same leaves that pushes would make. A slice holds the elements of a leaf until it is
// full, so that no leaf has to grow. The core uses a Gatherer within one turn.
type Gatherer struct {
	limits Limits
	lp     []byte // the open listpack: the whole list while !long, otherwise the next leaf
	here   int    // elements in lp
	n      int
	long   bool
	built  Builder
}

// Gather begins an empty list.
func Gather(l Limits) Gatherer { return Gatherer{limits: l, lp: listpack.Begin(nil)} }

func (g *Gatherer) Len() int { return g.n }

// Push appends an element. New leaves are allocated in s.
func (g *Gatherer) Push(s *value.Store, text []byte) {
	plain := g.limits.plain(len(text))
	if plain || g.here > 0 && !g.limits.takes(len(g.lp)+1, uint64(g.here), uint64(g.n), len(text)) {
		g.leaf(s)
	}
	if plain {
		g.built.AddPlain(text)
		g.n++
		return
	}
	at := len(g.lp)
	if n, isInt := number.ParseInt(text); isInt {
		g.reserve(listpack.EncodedIntLen(n))
		listpack.PutInt(g.lp[at:], n)
	} else {
		g.reserve(listpack.EncodedTextLen(len(text)))
		listpack.PutText(g.lp[at:], text)
	}
	g.here++
	g.n++
}

// reserve makes room in lp for an entry of n bytes.
func (g *Gatherer) reserve(n int) {
	to := len(g.lp) + n
	if to > cap(g.lp) {
		g.lp = append(g.lp[:cap(g.lp)], make([]byte, to)...) // at least doubles
	}
	g.lp = g.lp[:to]
}

// leaf makes a leaf of the gathered elements. If the list is not yet a quicklist, it becomes one first.
func (g *Gatherer) leaf(s *value.Store) {
	if !g.long {
		g.long, g.built = true, NewBuilder(s, g.limits)
	}
	if g.here > 0 {
		g.lp = listpack.Close(g.lp, 0, g.here)
		g.built.add(g.lp, g.here)
		g.lp, g.here = listpack.Begin(g.lp[:0]), 0
	}
}

// Packed returns the list as a listpack, or nil if it is too long. In that case call Root. The result of Packed or Root
// ends the Gatherer.
func (g *Gatherer) Packed() []byte {
	if g.long || !g.limits.Whole(len(g.lp)+1, g.here) {
		return nil
	}
	return listpack.Close(g.lp, 0, g.here)
}

// Root returns the list as a quicklist, for keyspace.DB.PutRoot. The caller owns the result.
func (g *Gatherer) Root(s *value.Store) memory.Ref {
	g.leaf(s)
	return g.built.Root()
}
