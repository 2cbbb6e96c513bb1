package tree

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"spindle/engine/data/memory"
)

const testKind = 1

func newHeap(t testing.TB) *memory.Heap {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.Register(testKind, Destroy)
	h.SetPosition(3, 5<<56)
	t.Cleanup(h.Close)
	return h
}

// reclaim runs the jobs of reclaimers and the turn's drains, a few blocks at a time.
func reclaim(h *memory.Heap) {
	for h.Drain(1 << 20) {
	}
	for {
		job, _ := h.TakeJob()
		if job == nil {
			break
		}
		for !job(7) {
		}
		h.Drain(1 << 20)
	}
}

// backwards is a tie that orders word1 from high to low. With it, a test finds code that compares numbers instead of
// calling the tie.
func backwards(a, b uint64) int { return cmp.Compare(b, a) }

// A recordsModel is a tree of records and the sorted slice that it must equal.
type recordsModel struct {
	t      testing.TB
	h      *memory.Heap
	width  int
	wide   bool
	order  func(a, b uint64) int // of ties
	state  State                 // as an owner stores it
	want   [][4]uint64
	frozen []frozenRecords
}

type frozenRecords struct {
	hold  *memory.Hold
	state State
	want  [][4]uint64
}

func (m *recordsModel) open() Records { return OpenRecords(m.h, testKind, m.state, m.width, m.wide) }

func (m *recordsModel) compare(a, b [4]uint64) int {
	if c := cmp.Compare(a[0], b[0]); c != 0 {
		return c
	}
	return m.order(a[1], b[1])
}

func (m *recordsModel) probe(r [4]uint64) Probe {
	return Probe{Word0: r[0], Word1: r[1], Tie: func(word1 uint64) int { return m.order(r[1], word1) }}
}

func (m *recordsModel) search(r [4]uint64) (int, bool) {
	return slices.BinarySearchFunc(m.want, r, m.compare)
}

func (m *recordsModel) insert(r [4]uint64) {
	if m.width == 16 {
		r[2], r[3] = 0, 0
	}
	tree := m.open()
	i, found := m.search(r)
	if got := tree.Insert(r[:m.width/8], m.probe(r).Tie); got == found {
		m.t.Fatalf("Insert(%x) says %t", r, got)
	}
	if !found {
		m.want = slices.Insert(m.want, i, r)
	}
	m.state = tree.State
}

// stands fails unless c is at record i, or after the last record if i is their number.
func (m *recordsModel) stands(c *Cursor, i int, what string) {
	m.t.Helper()
	if c.Valid() != (i < len(m.want)) {
		m.t.Fatalf("%s: valid is %t at %d of %d", what, c.Valid(), i, len(m.want))
	}
	if c.Valid() && !slices.Equal(c.Record(), m.want[i][:m.width/8]) {
		m.t.Fatalf("%s: %x, should be %x, rank %d", what, c.Record(), m.want[i], i)
	}
	if got := c.Rank(); int(got) != i {
		m.t.Fatalf("%s: rank %d, should be %d", what, got, i)
	}
}

// step does one step to the tree and to the slice. op, a and b select what and where.
func (m *recordsModel) step(op byte, a, b uint64) {
	r := [4]uint64{a % 300, b % 50, a ^ b, a + b}
	tree := m.open()
	var c Cursor
	switch n := len(m.want); op % 16 {
	case 0, 1, 2, 3:
		m.insert(r)
		return
	case 4: // ascending
		base := [4]uint64{}
		if n > 0 {
			base = m.want[n-1]
		}
		for i := range b % 40 {
			m.insert([4]uint64{base[0] + 1 + i, a, b, i})
		}
		return
	case 5: // descending, below a random record
		if n > 0 {
			base := m.want[a%uint64(n)]
			for i := range min(b%40, base[0]) {
				m.insert([4]uint64{base[0] - i, a, b, i})
			}
		}
		return
	case 6, 7, 8:
		i, found := m.search(r)
		if got := tree.Find(&c, m.probe(r)); got != found {
			m.t.Fatalf("Find(%x) says %t", r, got)
		}
		m.stands(&c, i, "Find")
		if i < n {
			m.delete(&tree, &c, i)
		}
	case 9, 10:
		if n > 0 {
			i := int(a % uint64(n))
			tree.At(&c, uint64(i))
			for range b % 20 {
				if i < n {
					m.delete(&tree, &c, i)
					n--
				}
			}
		}
	case 11:
		if i, k := int(a%uint64(n+1)), int(b%(1+b>>8%4*60)); true {
			tree.At(&c, uint64(i))
			k = min(k, n-i)
			var seen [][4]uint64
			removed := tree.DeleteRange(&c, b%(1+b>>8%4*60), func(record []uint64) {
				var r [4]uint64
				copy(r[:], record)
				seen = append(seen, r)
			})
			if int(removed) != k || !slices.Equal(seen, m.want[i:i+k]) {
				m.t.Fatalf("DeleteRange at %d of %d removed %d, should be %d: %x, %x", i, n, removed, k, seen, m.want[i:i+k])
			}
			m.want = slices.Delete(m.want, i, i+k)
			if m.stands(&c, i, "DeleteRange"); b&1 == 0 { // everything off one end, as ZPOPMAX does
				for range b >> 12 % 8 {
					if n := len(m.want); tree.Last(&c) {
						m.delete(&tree, &c, n-1)
					}
				}
			}
		}
	case 12:
		if n > 0 {
			i := int(a % uint64(n))
			tree.At(&c, uint64(i))
			r := m.want[i]
			r[2], r[3] = b, a
			if m.width == 16 { // as when a member is copied: another word1 in the same place
				r[2], r[3] = 0, 0
				r[1] = b % 50
				if m.order(r[1], m.want[i][1]) != 0 && (i > 0 && m.compare(m.want[i-1], r) >= 0 ||
					i+1 < n && m.compare(r, m.want[i+1]) >= 0) {
					return
				}
			}
			tree.Replace(&c, r[:m.width/8])
			m.want[i] = r
			m.stands(&c, i, "Replace")
		}
	case 13:
		i, found := m.search(r)
		if tree.SeekGE(&c, m.probe(r)) != (i < n) {
			m.t.Fatalf("SeekGE(%x)", r)
		}
		m.stands(&c, i, "SeekGE")
		if found {
			i++
		}
		tree.seekGT(&c, m.probe(r))
		m.stands(&c, i, "seekGT")
		for range b % 100 {
			if more := c.Next(); i < n {
				if i++; more != (i < n) {
					m.t.Fatalf("Next says %t at %d of %d", more, i, n)
				}
			}
		}
		m.stands(&c, i, "Next")
		for range a % 100 {
			if more := c.Prev(); i >= 0 {
				if i--; more != (i >= 0) {
					m.t.Fatalf("Prev says %t at %d of %d", more, i, n)
				}
			}
		}
		if i >= 0 {
			m.stands(&c, i, "Prev")
		} else if c.Valid() || n > 0 && (!c.Next() || c.Rank() != 0) {
			m.t.Fatalf("before the first is %v", c)
		}
	case 14:
		if len(m.frozen) < 4 {
			m.frozen = append(m.frozen, frozenRecords{m.h.Freeze(), m.state, slices.Clone(m.want)})
		}
		return
	case 15:
		if len(m.frozen) > 0 {
			m.thaw(int(a % uint64(len(m.frozen))))
		}
		return
	}
	m.state = tree.State
}

func (m *recordsModel) delete(tree *Records, c *Cursor, i int) {
	more := tree.Delete(c)
	m.want = slices.Delete(m.want, i, i+1)
	if more != (i < len(m.want)) {
		m.t.Fatalf("Delete at %d of %d says %t", i, len(m.want), more)
	}
	m.stands(c, i, "Delete")
}

// thaw compares frozen state i with its expected content, and closes its hold.
func (m *recordsModel) thaw(i int) {
	f := m.frozen[i]
	m.equal(&f.state, f.want)
	f.hold.Close()
	m.frozen = slices.Delete(m.frozen, i, i+1)
	reclaim(m.h)
}

// equal walks s in both directions and compares it with want.
func (m *recordsModel) equal(s *State, want [][4]uint64) {
	m.t.Helper()
	var c Cursor
	i := 0
	for ok := s.First(&c); ok; ok = c.Next() {
		if i >= len(want) || !slices.Equal(c.Record(), want[i][:m.width/8]) {
			m.t.Fatalf("record %d of %d is %x", i, len(want), c.Record())
		}
		i++
	}
	if i != len(want) || int(s.Len()) != i {
		m.t.Fatalf("a walk sees %d records of %d, Len is %d", i, len(want), s.Len())
	}
	for ok := s.Last(&c); ok; ok = c.Prev() {
		i--
		if !slices.Equal(c.Record(), want[i][:m.width/8]) {
			m.t.Fatalf("backwards record %d of %d is %x", i, len(want), c.Record())
		}
	}
	if i != 0 {
		m.t.Fatalf("a walk backwards misses %d records", i)
	}
}

func (m *recordsModel) check() {
	m.t.Helper()
	tree := m.open()
	if err := tree.Check(m.order); err != nil {
		m.t.Fatal(err)
	}
	if tree.Len() != uint64(len(m.want)) {
		m.t.Fatalf("%d records, should be %d", tree.Len(), len(m.want))
	}
}

// end empties the tree, sometimes through Destroy, and checks that nothing is left in the heap.
func (m *recordsModel) end(how int) {
	m.check()
	m.equal(&m.state, m.want)
	tree := m.open()
	if how%2 == 0 {
		for len(m.frozen) > 0 { // an owner's Destroy runs when no view reads the root
			m.thaw(0)
		}
		r := m.h.Returner()
		for done := false; !done; {
			done, _ = tree.State.Destroy(r, 3)
		}
		r.Flush()
	} else {
		tree.Clear()
		for len(m.frozen) > 0 {
			m.thaw(len(m.frozen) - 1)
		}
	}
	if tree.State != (State{}) {
		m.t.Fatalf("an emptied tree is %+v", tree.State)
	}
	reclaim(m.h)
	if used := m.h.Used(); used != 0 {
		m.t.Fatalf("%d bytes leak", used)
	}
	if err := m.h.Check(); err != nil {
		m.t.Fatal(err)
	}
}

// TestRecords does the same random steps to a tree and to a sorted slice, with up to four freezes in effect.
func TestRecords(t *testing.T) {
	for seed := range uint64(12) {
		width, order := 16, cmp.Compare[uint64]
		if seed&1 != 0 {
			width = 32
		}
		if seed&2 != 0 {
			order = backwards
		}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			m := &recordsModel{t: t, h: newHeap(t), width: width, order: order, wide: seed&4 != 0}
			rng := rand.New(rand.NewPCG(seed, 1))
			steps, most := 8000, 0
			if testing.Short() {
				steps = 1500
			}
			shrinking := false
			for step := range steps {
				op := byte(rng.Uint32() % 16)
				switch {
				case shrinking && op < 6 && rng.IntN(3) > 0:
					op = 6 + op%6
				case !shrinking && op >= 6 && op < 12 && rng.IntN(3) > 0:
					op -= 6
				}
				m.step(op, rng.Uint64(), rng.Uint64())
				if n := len(m.want); n > 5000 {
					shrinking = true
				} else if n < 20 {
					shrinking = false
				}
				most = max(most, len(m.want))
				if step%16 == 0 {
					m.check()
				}
				if step%64 == 0 {
					reclaim(m.h)
				}
			}
			t.Logf("%d records at most", most)
			m.end(int(seed >> 3))
		})
	}
}

// TestRecordsFill deletes records at random from a big tree. The tree stays 40 % full, and in order until it is empty.
func TestRecordsFill(t *testing.T) {
	m := &recordsModel{t: t, h: newHeap(t), width: 16, order: cmp.Compare[uint64]}
	rng := rand.New(rand.NewPCG(1, 2))
	tree := m.open()
	n := 200_000
	for i := range n {
		tree.Insert([]uint64{rng.Uint64(), uint64(i)}, nil)
	}
	var c Cursor
	for n > 0 {
		tree.At(&c, rng.Uint64N(uint64(n)))
		tree.Delete(&c)
		n--
		if n%10_000 == 0 || n < 200 {
			if err := tree.Check(nil); err != nil {
				t.Fatal(err)
			}
		}
		if fill := float64(n) / float64(max(tree.Leaves(), 1)*mostRecords(16)); n > 1000 && n%1000 == 0 && fill < 0.4 {
			t.Errorf("%d records are left, and leaves are %.2f full", n, fill)
		}
	}
	if reclaim(m.h); tree.State != (State{}) || m.h.Used() != 0 {
		t.Fatalf("the empty tree is %+v, and %d bytes are used", tree.State, m.h.Used())
	}
}

// TestRecordsOrdered inserts in ascending and in descending order, and calls Build. The leaves must be full.
func TestRecordsOrdered(t *testing.T) {
	const n = 50_000
	for name, fill := range map[string]func(tree *Records){
		"up": func(tree *Records) {
			for i := range uint64(n) {
				tree.Insert([]uint64{i, 0}, nil)
			}
		},
		"down": func(tree *Records) {
			for i := range uint64(n) {
				tree.Insert([]uint64{n - 1 - i, 0}, nil)
			}
		},
		"build": func(tree *Records) {
			i := uint64(0)
			tree.Build(n, func(r []uint64) { r[0], r[1] = i, 0; i++ })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeap(t)
			tree := OpenRecords(h, testKind, State{}, 16, false)
			fill(&tree)
			if err := tree.Check(nil); err != nil {
				t.Fatal(err)
			}
			if full := float64(n) / float64(tree.Leaves()*mostRecords(16)); full < 0.98 {
				t.Errorf("leaves are %.2f full", full)
			}
			nodes := 0
			for i, top := 0, nodeAt(tree.root); i < int(top.n); i++ {
				if nodes++; top.level != 2 {
					t.Fatalf("the root is of level %d", top.level)
				}
			}
			if nodes > tree.Leaves()/maxFan+1 {
				t.Errorf("%d nodes lead to %d leaves", nodes, tree.Leaves())
			}
			if each := float64(h.Used()) / n; each > 17.3 {
				t.Errorf("a record costs %.2f bytes", each)
			}
			var c Cursor
			i := uint64(0)
			for ok := tree.First(&c); ok; ok = c.Next() {
				if c.Record()[0] != i {
					t.Fatalf("record %d is %x", i, c.Record())
				}
				i++
			}
			if i != n {
				t.Fatalf("%d records", i)
			}
		})
	}
}

// TestProbes seeks with ties that name a position between records instead of a record, and by tie alone.
func TestProbes(t *testing.T) {
	tree := OpenRecords(newHeap(t), testKind, State{}, 16, false)
	for i := range uint64(5000) {
		tree.Insert([]uint64{i / 500, i}, nil)
	}
	var c Cursor
	low := func(uint64) int { return -1 }
	high := func(uint64) int { return 1 }
	for score := range uint64(12) {
		if ok := tree.SeekGE(&c, Probe{Word0: score, Tie: low}); ok != (score < 10) || c.Rank() != min(score*500, 5000) {
			t.Errorf("the first of %d is at %d, %t", score, c.Rank(), ok)
		}
		if ok := tree.SeekGE(&c, Probe{Word0: score, Tie: high}); ok != (score < 9) || c.Rank() != min((score+1)*500, 5000) {
			t.Errorf("the first above %d is at %d, %t", score, c.Rank(), ok)
		}
	}
	for _, at := range []uint64{0, 1, 62, 63, 64, 2500, 4999} {
		p := Probe{TieOnly: true, Tie: func(word1 uint64) int { return cmp.Compare(at, word1) }}
		if !tree.SeekGE(&c, p) || c.Rank() != at {
			t.Errorf("SeekGE(%d) is at %d", at, c.Rank())
		}
		if tree.seekGT(&c, p); c.Rank() != at+1 {
			t.Errorf("seekGT(%d) is at %d", at, c.Rank())
		}
	}
}

// TestReaders walks frozen states on other goroutines while the tree changes. The race detector watches.
func TestReaders(t *testing.T) {
	h := newHeap(t)
	tree := OpenRecords(h, testKind, State{}, 16, false)
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range uint64(3000) {
		tree.Insert([]uint64{rng.Uint64(), i}, nil)
	}
	var readers sync.WaitGroup
	for range 6 {
		hold, s := h.Freeze(), tree.State
		readers.Add(1)
		go func() {
			defer readers.Done()
			defer hold.Close()
			var c Cursor
			n, last := uint64(0), uint64(0)
			for ok := s.First(&c); ok; ok = c.Next() {
				if r := c.Record(); r[0] < last {
					t.Errorf("%x after %x", r[0], last)
				} else {
					last = r[0]
				}
				n++
			}
			if n != s.Len() {
				t.Errorf("a walk sees %d of %d", n, s.Len())
			}
			for rank := uint64(0); rank < n; rank += 97 {
				if s.At(&c, rank); c.Rank() != rank {
					t.Errorf("rank %d is %d", rank, c.Rank())
				}
			}
		}()
		var c Cursor
		for i := range uint64(1500) {
			tree.Insert([]uint64{rng.Uint64(), i}, nil)
			tree.At(&c, rng.Uint64N(tree.Len()))
			tree.Delete(&c)
			if i%100 == 0 {
				reclaim(h)
			}
		}
	}
	readers.Wait()
	if err := tree.Check(nil); err != nil {
		t.Fatal(err)
	}
	tree.Clear()
	reclaim(h)
	if h.Used() != 0 {
		t.Fatalf("%d bytes leak", h.Used())
	}
}
