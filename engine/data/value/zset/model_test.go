package zset_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/tests/testkit/memorytest"
)

// scores is a sorted set in the model. It is never changed in place, because views keep it.
type scores map[string]float64

type member struct {
	name  string
	score float64
}

// sorted returns the members in order, computed in the simplest way.
func (s scores) sorted() []member {
	all := make([]member, 0, len(s))
	for name, score := range s {
		all = append(all, member{name, score})
	}
	slices.SortFunc(all, func(a, b member) int {
		if a.score != b.score {
			return cmp.Compare(a.score, b.score)
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}

type model struct {
	defrag keyspace.Defrag
	t      *testing.T
	rng    *rand.Rand
	heap   *memory.Heap
	k      *keyspace.Keyspace
	keys   map[string]scores
	views  []frozen
	limits zset.Limits
	pool   int // the number of possible members
}

type frozen struct {
	view *keyspace.View
	keys map[string]scores
}

func newModel(t *testing.T, pool int) *model {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heap.Close)
	return &model{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), heap: heap,
		k:    keyspace.New(heap, keyspace.Options{Databases: 1, Seed: seed}),
		keys: map[string]scores{}, limits: zset.Limits{Entries: 24, Value: 20}, pool: pool,
	}
}

func (m *model) name() string {
	i := m.rng.IntN(m.pool)
	switch i % 7 {
	case 0:
		return strconv.Itoa(i - m.pool/2)
	case 1:
		return strings.Repeat("x", i%97) + strconv.Itoa(i) // some are too long for a listpack
	}
	return "m" + strconv.Itoa(i)
}

func (m *model) score() float64 {
	switch m.rng.IntN(8) {
	case 0:
		return []float64{math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e300, 5e-324, 1 << 53, -1 << 62}[m.rng.IntN(8)]
	case 1, 2:
		return m.rng.NormFloat64() * 10
	}
	return float64(m.rng.IntN(40) - 20)
}

// edit returns key's Edit, and the model's set. It creates the key if it does not exist.
func (m *model) edit(key string) (*value.Edit, scores) {
	db := m.k.DB(0)
	e := db.Edit([]byte(key))
	if e == nil {
		e = db.Create([]byte(key), value.ZSet, value.Listpack, listpack.EmptyLen)
		listpack.AppendEmpty(e.Packed()[:0])
	}
	s := scores{}
	maps.Copy(s, m.keys[key])
	return e, s
}

func (m *model) set(key string, s scores) {
	if len(s) == 0 {
		delete(m.keys, key)
		return
	}
	m.keys[key] = s
}

func (m *model) add(key string) {
	e, s := m.edit(key)
	for range 1 + m.rng.IntN(12) {
		name, score, flags := m.name(), m.score(), zset.Flags(0)
		if m.rng.IntN(3) == 0 {
			flags = []zset.Flags{zset.OnlyNew, zset.OnlyOld, zset.OnlyGreater, zset.OnlyLess, zset.Increment,
				zset.Increment | zset.OnlyGreater}[m.rng.IntN(6)]
		}
		if len(s) == 0 {
			flags &^= zset.OnlyOld
		}
		old, had := s[name]
		want, next := zset.Added, score
		if had {
			if next = score; flags&zset.Increment != 0 {
				next += old
			}
			switch {
			case flags&zset.OnlyNew != 0:
				want = zset.Refused
			case math.IsNaN(next):
				want = zset.NotANumber
			case flags&zset.OnlyGreater != 0 && next <= old, flags&zset.OnlyLess != 0 && next >= old:
				want = zset.Refused
			case next == old:
				want = zset.Kept
			default:
				want = zset.Updated
			}
		} else if flags&zset.OnlyOld != 0 {
			want = zset.Refused
		}
		out, now := zset.Add(e, score, []byte(name), flags, m.limits)
		if out != want || (out == zset.Added || out == zset.Updated) && now != next {
			m.t.Fatalf("Add(%q, %v, flags %d) to %v: %d %v, want %d %v", name, score, flags, old, out, now, want, next)
		}
		if out == zset.Added || out == zset.Updated {
			s[name] = next
		}
	}
	m.k.DB(0).Touched([]byte(key))
	m.set(key, s)
}

func (m *model) remove(key string) {
	e, s := m.edit(key)
	names := slices.Collect(maps.Keys(s))
	for range 1 + m.rng.IntN(8) {
		name := m.name()
		if len(names) > 0 && m.rng.IntN(3) > 0 {
			name = names[m.rng.IntN(len(names))]
		}
		_, had := s[name]
		if zset.Remove(e, []byte(name)) != had {
			m.t.Fatalf("Remove(%q) gives %t", name, !had)
		}
		if delete(s, name); len(s) == 0 {
			m.k.DB(0).Remove(e)
			break
		}
	}
	m.set(key, s)
}

// removeSpan removes a range of ranks, sometimes most of the members.
func (m *model) removeSpan(key string) {
	e, s := m.edit(key)
	all := s.sorted()
	span := zset.Span{From: m.rng.IntN(len(all) + 1)}
	span.To = span.From + m.rng.IntN(len(all)-span.From+1)
	if m.rng.IntN(4) == 0 {
		span = zset.Span{From: min(3, len(all)), To: max(len(all)-2, 0)}
	}
	if span.Len() == len(all) {
		m.k.DB(0).Remove(e)
		m.set(key, nil)
		return
	}
	zset.RemoveSpan(e, span)
	for i := span.From; i < span.To; i++ {
		delete(s, all[i].name)
	}
	m.set(key, s)
}

// store makes a set out of two others, by one of the possible functions.
func (m *model) store(key string) {
	s := scores{}
	db, k := m.k.DB(0), []byte(key)
	sources := []scores{m.keys["a"], m.keys["b"]}
	put := func(n, longest int, packed func([]byte) []byte, root func() memory.Ref, discard func()) {
		switch {
		case n == 0:
			db.Delete(k)
			discard()
		case m.limits.Holds(n, longest):
			db.PutPacked(k, value.ZSet, value.Listpack, packed(nil), 0)
			discard()
		default:
			db.PutRoot(k, value.ZSet, value.SkipList, root(), 0)
		}
	}
	if m.rng.IntN(2) == 0 {
		b := zset.NewBuilder(m.k.Store(), 0)
		for name, score := range sources[0] {
			s[name] = score
			if b.Add([]byte(name), score); b.Add([]byte(name), 1) {
				m.t.Fatal("a member twice")
			}
		}
		put(b.Len(), b.Longest(), b.AppendPacked, b.Root, b.Discard)
	} else {
		g := zset.Gather(m.k.Store())
		a, batched := zset.Aggregate(m.rng.IntN(3)), m.rng.IntN(2) == 0
		for _, source := range sources {
			batch := g.Batch(a)
			for name, score := range source {
				if old, had := s[name]; had {
					s[name] = a.Of(old, score)
				} else {
					s[name] = score
				}
				if batched {
					batch.Put([]byte(name), score)
				} else {
					g.Put([]byte(name), score, a)
				}
			}
			batch.Flush()
		}
		for name := range s {
			if m.rng.IntN(3) == 0 {
				g.Remove([]byte(name))
				delete(s, name)
			}
		}
		g.Sort(func() {})
		put(g.Len(), g.Longest(), g.AppendPacked, g.Root, g.Discard)
	}
	m.set(key, s)
}

func (m *model) step() {
	if m.rng.IntN(16) == 0 {
		m.relocate()
	}
	db := m.k.DB(0)
	key := []string{"a", "b", "c", "d"}[m.rng.IntN(4)]
	s, had := m.keys[key]
	switch op := m.rng.IntN(30); {
	case op < 14:
		m.add(key)
	case op < 19 && had:
		m.remove(key)
	case op == 19 && had:
		m.removeSpan(key)
	case op == 20:
		m.store(key)
	case op == 21 && had:
		to := []string{"a", "b", "c", "d"}[m.rng.IntN(4)]
		if db.Rename([]byte(key), []byte(to)); to != key {
			delete(m.keys, key)
			m.keys[to] = s
		}
	case op == 22 && had:
		if to := []string{"a", "b", "c", "d"}[m.rng.IntN(4)]; to != key {
			db.CopyTo([]byte(key), db, []byte(to))
			m.keys[to] = s
		}
	case op == 23 && m.rng.IntN(4) == 0:
		db.Delete([]byte(key))
		delete(m.keys, key)
	case op == 24 && had && m.rng.IntN(3) == 0:
		zset.Convert(db.Edit([]byte(key)))
	case op == 25 && len(m.views) < 3:
		m.views = append(m.views, frozen{m.k.Freeze(), maps.Clone(m.keys)})
	case op == 26 && len(m.views) > 0:
		m.leave(m.rng.IntN(len(m.views)))
	case op == 27:
		m.drain()
	case op > 27 && had:
		m.compare(db.Lookup([]byte(key)), s)
		if err := zset.Check(m.heap, db.Lookup([]byte(key))); err != nil {
			m.t.Fatal(err)
		}
	}
}

// leave compares a view with its expected content and closes it.
func (m *model) leave(i int) {
	f := m.views[i]
	n := 0
	f.view.Walk(0, 0, 1, func(v value.Value) bool {
		m.compare(v, f.keys[string(v.Key())])
		n++
		return true
	})
	if n != len(f.keys) {
		m.t.Fatalf("a view has %d keys, want %d", n, len(f.keys))
	}
	f.view.Close()
	m.views = slices.Delete(m.views, i, i+1)
}

func (m *model) drain() {
	m.heap.Drain(10_000)
	for job, _ := m.heap.TakeJob(); job != nil; job, _ = m.heap.TakeJob() {
		for !job(7) {
		}
	}
}

// compare reads v through every function and compares it with s.
func (m *model) compare(v value.Value, s scores) {
	m.t.Helper()
	want := s.sorted()
	var got []member
	zset.Each(v, 0, zset.Len(v), false, func(e listpack.Element, score float64) bool {
		got = append(got, member{string(e.Append(nil)), score})
		return true
	})
	if !slices.Equal(got, want) {
		m.t.Fatalf("%q holds %v\nwant %v", v.Key(), got, want)
	}
	if len(want) == 0 {
		return
	}
	at := m.rng.IntN(len(want))
	got = got[:0]
	zset.Each(v, at, at+5, true, func(e listpack.Element, score float64) bool {
		got = append(got, member{string(e.Append(nil)), score})
		return true
	})
	slices.Reverse(got)
	if !slices.Equal(got, want[:at+1]) {
		m.t.Fatalf("%q backwards from %d holds %v\nwant %v", v.Key(), at, got, want[:at+1])
	}
	if rank, score, ok := zset.Rank(v, []byte(want[at].name)); rank != at || score != want[at].score || !ok {
		m.t.Fatalf("%q has rank %d %v %t, want %d %v", want[at].name, rank, score, ok, at, want[at].score)
	}
	if _, _, ok := zset.Rank(v, []byte("none")); ok {
		m.t.Fatal("a rank for a missing member")
	}
	if score, ok := zset.Score(v, []byte(want[at].name)); score != want[at].score || !ok {
		m.t.Fatalf("%q has score %v %t, want %v", want[at].name, score, ok, want[at].score)
	}
	r := zset.ScoreRange{Min: m.score(), Max: m.score(), MinOut: m.rng.IntN(2) == 0, MaxOut: m.rng.IntN(2) == 0}
	in := func(x member) bool {
		return (x.score > r.Min || !r.MinOut && x.score == r.Min) && (x.score < r.Max || !r.MaxOut && x.score == r.Max)
	}
	m.sameSpan(r.Span(v), want, in)
}

func (m *model) sameSpan(s zset.Span, all []member, in func(member) bool) {
	m.t.Helper()
	from := slices.IndexFunc(all, in)
	n := 0
	for _, x := range all {
		if in(x) {
			n++
		}
	}
	if s.Len() != n || n > 0 && s.From != from {
		m.t.Fatalf("the span is %v, want %d from %d of %v", s, n, from, all)
	}
}

// TestModel takes random steps on small sets that cross the limits and on larger ones, with open views. It compares
// them with the model.
func TestModel(t *testing.T) {
	for _, pool := range []int{40, 3000} {
		t.Run(strconv.Itoa(pool), func(t *testing.T) {
			m := newModel(t, pool)
			empty := m.heap.Used()
			for range 6000 {
				m.step()
			}
			for len(m.views) > 0 {
				m.leave(0)
			}
			for key, s := range m.keys {
				m.compare(m.k.DB(0).Lookup([]byte(key)), s)
				m.k.DB(0).Delete([]byte(key))
			}
			m.drain()
			if left := m.heap.Used() - empty; left != 0 {
				t.Errorf("%d bytes are left", left)
			}
			if err := m.heap.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLexRange compares ranges by text, in both encodings, with the results of a walk.
func TestLexRange(t *testing.T) {
	m := newModel(t, 500)
	for _, n := range []int{1, 10, 400} {
		e, s := m.edit("k")
		for range n {
			name := m.name()
			zset.Add(e, 7, []byte(name), 0, m.limits)
			s[name] = 7
		}
		m.keys["k"] = s
		all := s.sorted()
		for range 400 {
			bound := func() zset.LexBound {
				return zset.LexBound{Text: []byte(m.name()), Out: m.rng.IntN(2) == 0, Edge: int8(max(m.rng.IntN(6)-3, -1) % 2)}
			}
			r := zset.LexRange{Min: bound(), Max: bound()}
			in := func(x member) bool {
				low, high := strings.Compare(x.name, string(r.Min.Text)), strings.Compare(x.name, string(r.Max.Text))
				return (r.Min.Edge < 0 || r.Min.Edge == 0 && (low > 0 || low == 0 && !r.Min.Out)) &&
					(r.Max.Edge > 0 || r.Max.Edge == 0 && (high < 0 || high == 0 && !r.Max.Out))
			}
			for _, reverse := range []bool{false, true} {
				m.sameSpan(r.Span(e.Value(), reverse), all, in)
			}
		}
	}
}

// TestMostRemoved: removing nearly all of a large set leaves the right members, and does not change views.
func TestMostRemoved(t *testing.T) {
	m := newModel(t, 0)
	b := zset.NewBuilder(m.k.Store(), 20_000)
	s := scores{}
	for i := range 20_000 {
		name := strconv.Itoa(i * 7919 % 20_000)
		b.Add([]byte(name), float64(i%100))
		s[name] = float64(i % 100)
	}
	m.k.DB(0).PutRoot([]byte("a"), value.ZSet, value.SkipList, b.Root(), 0)
	m.keys["a"] = s
	m.views = append(m.views, frozen{m.k.Freeze(), maps.Clone(m.keys)})
	e, s := m.edit("a")
	for i, x := range s.sorted() {
		if i >= 50 && i < 19_000 {
			delete(s, x.name)
		}
	}
	zset.RemoveSpan(e, zset.Span{From: 50, To: 19_000})
	m.compare(e.Value(), s)
	m.leave(0)
	m.drain()
	if err := zset.Check(m.heap, e.Value()); err != nil {
		t.Error(err)
	}
}

// TestUnderView: while a view is open, a change of one member copies only a segment, a leaf or two and the nodes above.
func TestUnderView(t *testing.T) {
	const n, most = 50_000, 40 << 10
	m := newModel(t, 0)
	b := zset.NewBuilder(m.k.Store(), n)
	for i := range n {
		b.Add(fmt.Appendf(nil, "member%06d", i), float64(i))
	}
	db := m.k.DB(0)
	db.PutRoot([]byte("k"), value.ZSet, value.SkipList, b.Root(), 0)
	for what, change := range map[string]func(e *value.Edit){
		"a score that keeps its place":  func(e *value.Edit) { zset.Add(e, 25_000.5, []byte("member025000"), 0, m.limits) },
		"a score that moves its member": func(e *value.Edit) { zset.Add(e, -1, []byte("member030000"), 0, m.limits) },
		"a new member":                  func(e *value.Edit) { zset.Add(e, 123.4, []byte("new"), 0, m.limits) },
		"a member that goes":            func(e *value.Edit) { zset.Remove(e, []byte("member040000")) },
		"the first ten":                 func(e *value.Edit) { zset.RemoveSpan(e, zset.Span{From: 0, To: 10}) },
		"nothing":                       func(e *value.Edit) { zset.Remove(e, []byte("none")) },
	} {
		view := m.k.Freeze()
		before := m.heap.Used()
		change(db.Edit([]byte("k")))
		cost := m.heap.Used() - before
		limit := int64(most)
		if what == "nothing" {
			limit = 0
		} else if what == "the first ten" {
			limit *= 10 // a segment for each of them
		}
		t.Logf("%s: %d bytes", what, cost)
		if int64(cost) > limit {
			t.Errorf("%s copies %d bytes", what, cost)
		}
		view.Close()
		m.drain()
	}
	if err := zset.Check(m.heap, db.Lookup([]byte("k"))); err != nil {
		t.Error(err)
	}
}

// TestScan: a scan yields every member that is present all the time.
func TestScan(t *testing.T) {
	m := newModel(t, 5000)
	e, _ := m.edit("k")
	want := map[string]bool{}
	for i := range 3000 {
		want["s"+strconv.Itoa(i)] = true
		zset.Add(e, float64(i), []byte("s"+strconv.Itoa(i)), 0, m.limits)
	}
	cursor := uint64(0)
	for {
		cursor = zset.Scan(e.Value(), cursor, 10, func(x listpack.Element, score float64) {
			delete(want, string(x.Append(nil)))
		})
		zset.Add(e, m.score(), []byte(m.name()), 0, m.limits)
		if cursor == 0 {
			break
		}
	}
	if len(want) != 0 {
		t.Errorf("%d members were not met", len(want))
	}
}

// TestMemory: a million members of 14 bytes take at most 60 bytes each.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a million members take long: run it without -short")
	}
	const n = 1_000_000
	m := newModel(t, 0)
	before := m.heap.Used()
	e, _ := m.edit("k")
	for i := range n {
		name := strconv.AppendInt([]byte("member"), 10_000_000+int64(i), 10)
		zset.Add(e, m.rng.Float64(), name, 0, m.limits)
	}
	if each := float64(m.heap.Used()-before) / n; each > 60 {
		t.Errorf("%.1f bytes a member", each)
	} else {
		t.Logf("%.1f bytes a member", each)
	}
}

// relocate does the next step of a walk that moves every block.
func (m *model) relocate() {
	memorytest.Relocate(m.heap, m.rng.IntN(40), func(stop func() bool) bool {
		over := m.k.Defragment(&m.defrag, stop)
		if over {
			m.defrag = keyspace.Defrag{}
		}
		return over
	})
}
