package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"spindle/engine/data/memory"
)

// A blockWant is the expected content of a leaf of the blocks model. The leaf stores epoch, id and version as words.
type blockWant struct {
	id, version uint64
	count       uint64
	key         Key
}

const blockUsed = 24

func blockOf(ref memory.Ref) (id, version uint64) {
	return *memory.Word(ref + 8), *memory.Word(ref + 16)
}

// A blocksModel is a tree of opaque leaves and the slice that it must equal.
type blocksModel struct {
	t      testing.TB
	h      *memory.Heap
	keyed  bool
	wide   bool
	state  State
	want   []blockWant
	ids    uint64
	frozen []frozenBlocks
	cut    bool // a cut may have removed whole subtrees and left many leaves (tree.B4)
}

type frozenBlocks struct {
	hold  *memory.Hold
	state State
	want  []blockWant
}

func (m *blocksModel) open() Blocks { return OpenBlocks(m.h, testKind, m.state, m.wide) }

func (m *blocksModel) total(want []blockWant) (n uint64) {
	for _, b := range want {
		n += b.count
	}
	return n
}

// leaf makes a block that fits in the order at index i, and its expected content. Keys ascend; some may be equal.
func (m *blocksModel) leaf(tree *Blocks, i int, count uint64, size int) (memory.Ref, blockWant) {
	m.ids++
	b := blockWant{id: m.ids, count: count}
	if m.keyed {
		low, high := Key{1, 0}, Key{}
		if i > 0 {
			low = m.want[i-1].key
		}
		if i < len(m.want) {
			high = m.want[i].key
		} else {
			high = Key{low[0] + 1000, m.ids}
		}
		b.key = Key{low[0] + (high[0]-low[0])/2, high[1]}
		if b.key[0] == low[0] && b.key[1] < low[1] {
			b.key[1] = low[1]
		}
	}
	ref := tree.NewLeaf(blockUsed + size)
	*memory.Word(ref + 8), *memory.Word(ref + 16) = b.id, b.version
	return ref, b
}

// at fails unless p leads to leaf i.
func (m *blocksModel) at(s *State, p *Path, i int, what string) {
	m.t.Helper()
	b := m.want[i]
	if id, version := blockOf(p.Leaf()); id != b.id || version != b.version {
		m.t.Fatalf("%s: leaf %d/%d, should be %d/%d", what, id, version, b.id, b.version)
	}
	if s.CountOf(p) != b.count || s.KeyOf(p) != b.key || p.Rank() != m.total(m.want[:i]) {
		m.t.Fatalf("%s: count %d, key %v, rank %d, should be %v, %d",
			what, s.CountOf(p), s.KeyOf(p), p.Rank(), b, m.total(m.want[:i]))
	}
}

// lead leads p to leaf i by one of its ranks.
func (m *blocksModel) lead(s *State, p *Path, i int, by uint64) {
	m.t.Helper()
	offset := by % m.want[i].count
	if got, ok := s.LeafAt(p, m.total(m.want[:i])+offset); !ok || got != offset {
		m.t.Fatalf("LeafAt of leaf %d: offset %d, %t, should be %d", i, got, ok, offset)
	}
	m.at(s, p, i, "LeafAt")
	n := len(m.want)
	if !s.LeafFrom(p, 1, n-1-i) {
		m.t.Fatalf("LeafFrom finds no leaf %d of %d from the tail", n-1-i, n)
	}
	m.at(s, p, i, "LeafFrom the tail")
	if s.LeafFrom(p, -1, n) || s.LeafFrom(p, 1, n) {
		m.t.Fatalf("LeafFrom finds more than %d leaves", n)
	}
	if !s.LeafFrom(p, -1, i) {
		m.t.Fatalf("LeafFrom finds no leaf %d of %d", i, n)
	}
	m.at(s, p, i, "LeafFrom the head")
}

// step does one step to the tree and to the slice. op, a and b select what and where.
func (m *blocksModel) step(op byte, a, b uint64) {
	tree := m.open()
	var p Path
	n := len(m.want)
	i := -1
	if n > 0 {
		i = int(a % uint64(n))
	}
	count, size := 1+b%5, int(b%200)
	switch op %= 20; {
	case n == 0 && op < 17 || op < 3: // several in a row, as a list grows
		for range 1 + b>>8%30 {
			ref, want := m.leaf(&tree, len(m.want), count, size)
			tree.LastLeaf(&p)
			tree.InsertAfter(&p, ref, want.count, want.key)
			m.want = append(m.want, want)
			m.at(&tree.State, &p, len(m.want)-1, "append")
		}
	case op == 3:
		for range 1 + b>>8%30 {
			ref, want := m.leaf(&tree, 0, count, size)
			tree.FirstLeaf(&p)
			tree.InsertBefore(&p, ref, want.count, want.key)
			m.want = slices.Insert(m.want, 0, want)
			m.at(&tree.State, &p, 0, "prepend")
		}
	case op < 7: // several at one place
		m.lead(&tree.State, &p, i, b)
		for range 1 + b>>8%40 {
			if op&1 == 0 {
				i++
			}
			ref, want := m.leaf(&tree, i, count, size)
			if op&1 == 0 {
				tree.InsertAfter(&p, ref, want.count, want.key)
			} else {
				tree.InsertBefore(&p, ref, want.count, want.key)
			}
			m.want = slices.Insert(m.want, i, want)
			m.at(&tree.State, &p, i, "insert")
		}
	case op < 10:
		m.lead(&tree.State, &p, i, b)
		for range 1 + b>>8%30 {
			if i == len(m.want) {
				break
			}
			more := tree.Remove(&p)
			m.want = slices.Delete(m.want, i, i+1)
			if more != (i < len(m.want)) {
				m.t.Fatalf("Remove says %t at %d of %d", more, i, len(m.want))
			}
			if more {
				m.at(&tree.State, &p, i, "Remove")
			}
		}
	case op == 10:
		m.lead(&tree.State, &p, i, b)
		tree.SetCount(&p, count)
		m.want[i].count = count
		m.at(&tree.State, &p, i, "SetCount")
	case op == 11:
		m.lead(&tree.State, &p, i, b)
		ref := tree.Writable(&p, blockUsed, blockUsed+size)
		if ref != p.Leaf() || *memory.Word(ref) <= m.h.Frozen() || memory.UsableSize(ref) < blockUsed+size {
			m.t.Fatalf("Writable gives %x of epoch %d", ref, *memory.Word(ref))
		}
		*memory.Word(ref + 16) = b
		m.want[i].version = b
		m.at(&tree.State, &p, i, "Writable")
	case op == 12:
		m.lead(&tree.State, &p, i, b)
		ref, want := m.leaf(&tree, i, count, size)
		want.key = m.want[i].key
		tree.SetLeaf(&p, ref, want.count, want.key)
		m.want[i] = want
		m.at(&tree.State, &p, i, "SetLeaf")
	case op == 13:
		i = min(i, int(b%200)) // seldom everything
		m.lead(&tree.State, &p, i, b)
		m.cut = m.cut || tree.height > 1
		if got, want := tree.CutFront(&p), m.total(m.want[:i]); got != want {
			m.t.Fatalf("CutFront at %d removed %d, should be %d", i, got, want)
		}
		m.want = slices.Delete(m.want, 0, i)
		m.at(&tree.State, &p, 0, "CutFront")
		m.cut = m.cut && len(m.want) >= fewLeaves
	case op == 14:
		i = max(i, n-1-int(b%200))
		m.lead(&tree.State, &p, i, b)
		m.cut = m.cut || tree.height > 1
		if got, want := tree.CutBack(&p), m.total(m.want[i+1:]); got != want {
			m.t.Fatalf("CutBack at %d removed %d, should be %d", i, got, want)
		}
		m.want = m.want[:i+1]
		m.at(&tree.State, &p, i, "CutBack")
		m.cut = m.cut && len(m.want) >= fewLeaves
	case op < 17:
		m.lead(&tree.State, &p, i, b)
		for range b >> 8 % 100 {
			if p.Next() {
				i++
			}
		}
		m.at(&tree.State, &p, i, "Next")
		for range b >> 16 % 100 {
			if p.Prev() {
				i--
			}
		}
		m.at(&tree.State, &p, i, "Prev")
		if m.keyed {
			key := m.want[i].key
			key[1] += b % 3
			last := -1
			for j, w := range m.want {
				if slices.Compare(w.key[:], key[:]) <= 0 {
					last = j
				}
			}
			if ok := tree.LeafOf(&p, key); !ok {
				m.t.Fatalf("LeafOf(%v) finds nothing", key)
			}
			m.at(&tree.State, &p, last, "LeafOf")
			if tree.LeafOf(&p, Key{}) {
				m.t.Fatal("LeafOf finds something below the first")
			}
			m.at(&tree.State, &p, 0, "LeafOf")
		}
	case op < 19:
		if len(m.frozen) < 4 {
			m.frozen = append(m.frozen, frozenBlocks{m.h.Freeze(), m.state, slices.Clone(m.want)})
		}
	case len(m.frozen) > 0:
		m.thaw(int(a % uint64(len(m.frozen))))
	}
	m.state = tree.State
}

func (m *blocksModel) thaw(i int) {
	f := m.frozen[i]
	m.equal(&f.state, f.want)
	f.hold.Close()
	m.frozen = slices.Delete(m.frozen, i, i+1)
	reclaim(m.h)
}

func (m *blocksModel) equal(s *State, want []blockWant) {
	m.t.Helper()
	var p Path
	i := 0
	for ok := s.FirstLeaf(&p); ok; ok = p.Next() {
		id, version := blockOf(p.Leaf())
		if got := (blockWant{id, version, s.CountOf(&p), s.KeyOf(&p)}); i >= len(want) || got != want[i] {
			m.t.Fatalf("leaf %d of %d is %v", i, len(want), got)
		}
		i++
	}
	if i != len(want) || s.Leaves() != i || s.Len() != m.total(want) {
		m.t.Fatalf("a walk sees %d leaves of %d, Leaves is %d, Len %d", i, len(want), s.Leaves(), s.Len())
	}
}

func (m *blocksModel) check() {
	m.t.Helper()
	tree := m.open()
	if err := tree.Check(); err != nil {
		m.t.Fatal(err)
	}
	if want := weightOf(&tree.State); !m.cut && tree.Bytes() != want {
		m.t.Fatalf("tree.B4: %d leaves are said to take %d bytes, they take %d", len(m.want), tree.Bytes(), want)
	}
}

// weightOf returns the value that Bytes should have.
func weightOf(s *State) (sum int64) {
	var p Path
	for ok := s.FirstLeaf(&p); ok; ok = p.Next() {
		sum += weight(p.Leaf())
	}
	return sum
}

func (m *blocksModel) end(clear bool) {
	m.check()
	m.equal(&m.state, m.want)
	tree := m.open()
	if clear {
		tree.Clear()
	}
	for len(m.frozen) > 0 {
		m.thaw(0)
	}
	r := m.h.Returner()
	for done := false; !done; {
		done, _ = tree.State.Destroy(r, 3)
	}
	r.Flush()
	reclaim(m.h)
	if used := m.h.Used(); used != 0 || tree.State != (State{}) {
		m.t.Fatalf("%d bytes leak, the State is %+v", used, tree.State)
	}
	if err := m.h.Check(); err != nil {
		m.t.Fatal(err)
	}
}

// TestBlocks does the same random steps to a tree of opaque leaves and to a slice, with up to four freezes in effect.
func TestBlocks(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			m := &blocksModel{t: t, h: newHeap(t), keyed: seed&1 != 0, wide: seed&2 != 0}
			rng := rand.New(rand.NewPCG(seed, 1))
			steps, most := 1500, 0
			if testing.Short() {
				steps = 400
			}
			for step := range steps {
				op := byte(rng.Uint32())
				if len(m.want) < 8000 && (op%20 == 13 || op%20 == 14) && rng.IntN(30) > 0 {
					op = 0 // otherwise cuts keep it small
				}
				m.step(op, rng.Uint64(), rng.Uint64())
				most = max(most, len(m.want))
				if step%16 == 0 {
					m.check()
				}
				if step%64 == 0 {
					reclaim(m.h)
				}
			}
			t.Logf("%d leaves at most", most)
			m.end(seed&4 != 0)
		})
	}
}

// TestQueue appends at one end and cuts at the other many times. Neither height nor memory may grow.
func TestQueue(t *testing.T) {
	h := newHeap(t)
	tree := OpenBlocks(h, testKind, State{}, false)
	var p Path
	most, height := int64(0), uint64(0)
	for i := range 60_000 {
		tree.LastLeaf(&p)
		tree.InsertAfter(&p, tree.NewLeaf(64), 10, Key{})
		if over := tree.Len() - min(tree.Len(), 5000); over > 0 {
			tree.LeafAt(&p, over)
			tree.CutFront(&p)
		}
		height = max(height, uint64(tree.height))
		if reclaim(h); i == 10_000 {
			most = h.Used()
		}
	}
	if err := tree.Check(); err != nil {
		t.Fatal(err)
	}
	if h.Used() > most*5/4 || height > 3 || tree.Leaves() != 500 {
		t.Errorf("%d bytes after a while, %d at the end; height %d; %d leaves", most, h.Used(), height, tree.Leaves())
	}
}

// TestEdge: a stored Edge changes the right counts. Find does not reuse the Edge for the other end, for another State,
// after a freeze, or after Forget.
func TestEdge(t *testing.T) {
	h := newHeap(t)
	grow := func(s *State) {
		tree := OpenBlocks(h, testKind, *s, false)
		var p Path
		for range 200 {
			tree.LastLeaf(&p)
			tree.InsertAfter(&p, tree.NewLeaf(64), 10, Key{})
		}
		*s = tree.State
	}
	var one, other State
	grow(&one)
	grow(&other)
	var e Edge
	bump := func(s *State, side int) {
		t.Helper()
		leaf, count := s.Edge(side)
		all := s.Len()
		for range 2 {
			if !e.Find(s, h.Frozen(), side) || e.Leaf != leaf {
				t.Fatalf("found %v, want %v", e.Leaf, leaf)
			}
			e.Bump(1)
		}
		if _, now := s.Edge(side); now != count+2 || e.Count() != now || s.Len() != all+2 {
			t.Fatalf("%d elements of %d, want %d of %d", now, s.Len(), count+2, all+2)
		}
	}
	bump(&one, 1)
	bump(&one, -1)
	bump(&other, -1)
	bump(&one, -1)
	e.Forget()
	grow(&one)
	bump(&one, 1)
	moved := one
	bump(&moved, 1)
	hold := h.Freeze()
	if e.Find(&moved, h.Frozen(), 1) {
		t.Error("a leaf that a view reads may be written to")
	}
	hold.Close()
	for _, s := range []State{moved, other} {
		tree := OpenBlocks(h, testKind, s, false)
		if err := tree.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestBytesAfterCuts: a cut that removes whole subtrees reduces Bytes in proportion to the elements. Once few leaves
// are left, Bytes is exact again, whatever their sizes.
func TestBytesAfterCuts(t *testing.T) {
	h := newHeap(t)
	tree := OpenBlocks(h, testKind, State{}, false)
	var p Path
	for i := range 10_000 {
		size := 16
		if i%1000 < 20 {
			size = 4096
		}
		tree.InsertAfter(&p, tree.NewLeaf(size), 1, Key{})
	}
	if got, want := tree.Bytes(), weightOf(&tree.State); got != want {
		t.Errorf("uncut: %d bytes, should be %d", got, want)
	}
	tree.LeafAt(&p, 3000)
	tree.CutFront(&p)
	tree.LeafAt(&p, 3999)
	tree.CutBack(&p)
	if got, want := tree.Bytes(), weightOf(&tree.State); got < want*8/10 || got > want*12/10 {
		t.Errorf("%d leaves: %d bytes, should be about %d", tree.Leaves(), got, want)
	}
	tree.LeafAt(&p, 30)
	tree.CutBack(&p)
	if got, want := tree.Bytes(), weightOf(&tree.State); got != want {
		t.Errorf("%d leaves: %d bytes, should be %d", tree.Leaves(), got, want)
	}
	tree.Clear()
	reclaim(h)
}

// TestTall grows a tree of four levels by insertion at random places, and empties it again.
func TestTall(t *testing.T) {
	n := 300_000
	if testing.Short() {
		n = 20_000
	}
	h := newHeap(t)
	tree := OpenBlocks(h, testKind, State{}, false)
	rng := rand.New(rand.NewPCG(4, 4))
	var p Path
	check := func(leaves int) {
		t.Helper()
		if err := tree.Check(); err != nil {
			t.Fatal(err)
		}
		if tree.Leaves() != leaves || tree.Len() != 2*uint64(leaves) {
			t.Fatalf("%d leaves, %d elements, should be %d leaves", tree.Leaves(), tree.Len(), leaves)
		}
	}
	for i := range n {
		tree.LeafAt(&p, rng.Uint64N(max(tree.Len(), 1)))
		if ref := tree.NewLeaf(16); i&1 == 0 {
			tree.InsertAfter(&p, ref, 2, Key{})
		} else {
			tree.InsertBefore(&p, ref, 2, Key{})
		}
		if i%(n/10) == 0 {
			check(i + 1)
		}
	}
	if want := uint64(3); !testing.Short() && uint64(tree.height) <= want {
		t.Errorf("a height of %d", tree.height)
	}
	hold, then := h.Freeze(), tree.State
	for i := range n {
		tree.LeafAt(&p, rng.Uint64N(tree.Len()))
		tree.Remove(&p)
		if i%(n/10) == 0 || n-i < 50 {
			check(n - i - 1)
		}
	}
	if then.Leaves() != n {
		t.Errorf("the view has %d leaves", then.Leaves())
	}
	hold.Close()
	if reclaim(h); h.Used() != 0 {
		t.Errorf("%d bytes leak", h.Used())
	}
}

// TestClear empties trees of every height, with and without a view. The view can read them until it closes.
func TestClear(t *testing.T) {
	for _, n := range []int{0, 1, 50, 5000} {
		for _, view := range []bool{false, true} {
			m := &blocksModel{t: t, h: newHeap(t), wide: n > 1000}
			tree := m.open()
			var p Path
			for i := range n {
				ref, want := m.leaf(&tree, i, 1, 0)
				tree.InsertAfter(&p, ref, want.count, want.key)
				m.want = append(m.want, want)
			}
			then := tree.State
			if view {
				hold := m.h.Freeze()
				tree.Clear()
				reclaim(m.h)
				m.equal(&then, m.want)
				hold.Close()
			} else {
				tree.Clear()
			}
			if reclaim(m.h); m.h.Used() != 0 || tree.State != (State{}) {
				t.Errorf("%d leaves, view %t: %d bytes leak, the State is %+v", n, view, m.h.Used(), tree.State)
			}
		}
	}
}

// TestPosition: blocks and subtrees that a view's walker has passed are freed, except those retired wide.
func TestPosition(t *testing.T) {
	for name, change := range map[string]func(tree *Blocks, p *Path){
		"copy":  func(tree *Blocks, p *Path) { tree.Writable(p, 16, 16) },
		"clear": func(tree *Blocks, p *Path) { tree.Clear() },
	} {
		for _, wide := range []bool{false, true} {
			h := newHeap(t)
			tree := OpenBlocks(h, testKind, State{}, wide)
			var p Path
			for range 10_000 {
				tree.InsertAfter(&p, tree.NewLeaf(16), 1, Key{})
			}
			before := h.UsedBy(memory.Values)
			hold := h.Freeze()
			tree.LeafAt(&p, 5000)
			change(&tree, &p)
			after := int64(0)
			if tree.Len() > 0 {
				after = before
			}
			reclaim(h)
			if kept := h.UsedBy(memory.Values) - after; kept == 0 {
				t.Fatalf("%s: nothing is kept for the view", name)
			}
			hold.Passed(3, 5)
			reclaim(h)
			if kept := h.UsedBy(memory.Values) - after; kept > 0 != wide {
				t.Errorf("%s, wide %t: %d bytes are kept from a view that has passed", name, wide, kept)
			}
			hold.Close()
			tree.Clear()
			if reclaim(h); h.Used() != 0 {
				t.Errorf("%d bytes leak", h.Used())
			}
		}
	}
}
