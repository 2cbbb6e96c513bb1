package set_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
	"spindle/internal/invariant"
	"spindle/tests/testkit/memorytest"
)

type members map[string]bool

// model has a Go map for each set. The map is copied before each change, so that views keep the old one.
type model struct {
	defrag keyspace.Defrag
	t      *testing.T
	rng    *rand.Rand
	heap   *memory.Heap
	k      *keyspace.Keyspace
	want   map[string]members
	views  []frozen
	build  set.Builder
	draws  set.Sampler
	limit  set.Limits
}

type frozen struct {
	v    *keyspace.View
	want map[string]members
}

func open(t testing.TB) (*memory.Heap, *keyspace.Keyspace) {
	h, err := memory.New(memory.Options{Databases: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	k := keyspace.New(h, keyspace.Options{Databases: 1, StartMs: 1_000_000, Seed: 1})
	k.SetNow(1_000_000)
	return h, k
}

func seed(t testing.TB) uint64 {
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		n, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("SEED=%d replays it", n)
	return n
}

// word returns a member: an integer of any width, or a text, sometimes too long for a listpack.
func (m *model) word() []byte {
	i := m.rng.IntN(400)
	switch i % 5 {
	case 0, 1:
		n := int64(i - 200)
		if i%7 == 0 {
			n *= 1_000_000_007
		}
		return strconv.AppendInt(nil, n, 10)
	case 2:
		return fmt.Appendf(nil, "%0*d", 1+i%90, i)
	}
	return fmt.Appendf(nil, "member:%d", i)
}

func (m *model) words() (list [][]byte) {
	for range 1 + m.rng.IntN(1+m.rng.IntN(60)) {
		list = append(list, m.word())
	}
	return list
}

func (m *model) key() []byte { return fmt.Appendf(nil, "key%d", m.rng.IntN(6)) }

func text(v value.Value) (members, error) {
	got := members{}
	r := set.Read(v)
	var err error
	r.All(func(e set.Element) bool {
		text := string(e.Append(nil))
		if got[text] {
			err = fmt.Errorf("%q twice", text)
		}
		got[text] = true
		return true
	})
	if len(got) != r.Len() && err == nil {
		err = fmt.Errorf("%d members, Len is %d", len(got), r.Len())
	}
	return got, err
}

func (m *model) check(key string, v value.Value, want members) {
	m.t.Helper()
	if !v.Exists() {
		if len(want) != 0 {
			m.t.Fatalf("%s is not there, want %d members", key, len(want))
		}
		return
	}
	got, err := text(v)
	if err != nil || !maps.Equal(got, want) {
		m.t.Fatalf("%s (%s): %v; %d members, want %d:\n%q\n%q", key, v.Encoding(), err, len(got), len(want),
			slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// put makes the set that was built the value of key.
func (m *model) put(key []byte) {
	db := m.k.DB(0)
	switch b := m.build.Packed(); {
	case m.build.Len() == 0:
		m.build.Discard()
		db.Delete(key)
	case b != nil:
		db.PutPacked(key, value.Set, m.build.Encoding(), b, 0)
	default:
		db.PutRoot(key, value.Set, value.HashTable, m.build.Root(), 0)
	}
}

func (m *model) step() {
	if m.rng.IntN(16) == 0 {
		m.relocate()
	}
	db, key := m.k.DB(0), m.key()
	had := m.want[string(key)]
	next := maps.Clone(had)
	if next == nil {
		next = members{}
	}
	e := db.Edit(key)
	if (e != nil) != (len(had) > 0) {
		m.t.Fatalf("%s: edit %v, want %d members", key, e, len(had))
	}
	switch op := m.rng.IntN(20); {
	case op < 6:
		list, added := m.words(), 0
		for _, w := range list {
			if !next[string(w)] {
				next[string(w)] = true
				added++
			}
		}
		got := 0
		if e != nil {
			got = set.Add(e, list, m.limit)
			db.Touched(key)
		} else {
			m.build.Begin(m.k.Store(), m.limit, m.limit.First(list[0], len(list)), len(list))
			for _, w := range list {
				if m.build.Add(set.ElementOf(w)) {
					got++
				}
			}
			m.put(key)
		}
		if got != added {
			m.t.Fatalf("%d added, want %d", got, added)
		}
	case op < 10 && e != nil:
		list, removed := m.words(), 0
		for _, w := range list {
			if next[string(w)] {
				delete(next, string(w))
				removed++
			}
		}
		if got := set.Remove(e, list); got != removed {
			m.t.Fatalf("%d removed, want %d", got, removed)
		}
		if set.Len(e) == 0 {
			db.Remove(e)
		}
	case op == 10 && e != nil:
		w := set.Pop(e, nil)
		m.gone(next, w)
		if len(next) == 0 {
			db.Remove(e)
		}
	case op < 13 && len(had) > 1:
		n := 1 + m.rng.IntN(len(had)-1)
		set.PopMany(e, n, m.limit, &m.build, func(el set.Element) {
			m.gone(next, el.Append(nil))
			n--
		})
		if n != 0 {
			m.t.Fatalf("%d popped too few", n)
		}
	case op == 13 && e != nil:
		to := m.key()
		if bytes.Equal(key, to) {
			return
		}
		if m.rng.IntN(2) == 0 {
			db.Rename(key, to)
			delete(m.want, string(key))
		} else {
			db.CopyTo(key, db, to)
		}
		m.want[string(to)] = had
		return
	case op == 14 && m.rng.IntN(4) == 0:
		db.Delete(key)
		next = members{}
	case op < 17:
		m.combine(key, next)
	case op == 17 && e != nil:
		m.draw(e.Value(), had)
	case op == 18:
		m.limit = set.Limits{IntSet: m.rng.IntN(60), Entries: m.rng.IntN(60), Value: m.rng.IntN(100)}
	}
	if len(next) == 0 {
		delete(m.want, string(key))
	} else {
		m.want[string(key)] = next
	}
	m.check(string(key), db.Peek(key), next)
}

func (m *model) gone(next members, w []byte) {
	if !next[string(w)] {
		m.t.Fatalf("%q was popped", w)
	}
	delete(next, string(w))
}

// combine stores in key the result of a Filter of a second key against a third.
func (m *model) combine(key []byte, next members) {
	db, from, by, in := m.k.DB(0), m.key(), m.key(), m.rng.IntN(2) == 0
	clear(next)
	for w := range m.want[string(from)] {
		if m.want[string(by)][w] == in {
			next[w] = true
		}
	}
	r, other := set.Read(db.Peek(from)), set.Read(db.Peek(by))
	enc := value.Listpack
	if m.rng.IntN(2) == 0 {
		enc = value.IntSet
	}
	m.build.Begin(m.k.Store(), m.limit, enc, 0)
	r.Filter([]set.Reader{other}, in, nil, func(e set.Element) bool {
		m.build.Append(e)
		return true
	})
	if m.rng.IntN(2) == 0 {
		m.build.Compact()
	}
	m.put(key)
}

// draw checks all functions that draw.
func (m *model) draw(v value.Value, had members) {
	r := set.Read(v)
	if w := string(r.Random(m.k.Rand()).Append(nil)); !had[w] {
		m.t.Fatalf("%q was drawn", w)
	}
	n := m.rng.IntN(len(had) + 1)
	seen := members{}
	m.draws.Sample(&r, m.k.Rand(), n, func(e set.Element) {
		w := string(e.Append(nil))
		if !had[w] || seen[w] {
			m.t.Fatalf("%q was drawn", w)
		}
		seen[w] = true
	})
	if len(seen) != n {
		m.t.Fatalf("%d of %d drawn", len(seen), n)
	}
	m.draws.Draw(&r, m.k.Rand(), 20, func(e set.Element) bool {
		if w := string(e.Append(nil)); !had[w] {
			m.t.Fatalf("%q was drawn", w)
		}
		n++
		return true
	})
	if n != len(seen)+20 {
		m.t.Fatal("not all were drawn")
	}
	for w := range had {
		if !r.Contains([]byte(w)) {
			m.t.Fatalf("%q is not contained", w)
		}
	}
	scanned := members{}
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		cursor = r.Scan(cursor, 5, func(e set.Element) { scanned[string(e.Append(nil))] = true })
	}
	if !maps.Equal(scanned, had) {
		m.t.Fatalf("%d members scanned, want %d", len(scanned), len(had))
	}
}

// checkView compares a view with its expected content.
func (m *model) checkView(f frozen) {
	if m.rng.IntN(2) == 0 {
		f.v.Keep()
		for key, want := range f.want {
			m.check(key, f.v.Get(0, []byte(key)), want)
		}
	} else { // the walk frees memory that it has passed
		n := 0
		f.v.Walk(0, 0, 1, func(v value.Value) bool {
			m.heap.Drain(100)
			key := string(v.Key())
			m.check(key, v, f.want[key])
			n++
			return true
		})
		if n != len(f.want) {
			m.t.Fatalf("%d keys in the view, want %d", n, len(f.want))
		}
	}
	f.v.Close()
}

// reclaim does the work of reclaimers and that of the core between turns, until nothing is left to do.
func (m *model) reclaim() {
	for more := true; more; {
		more = m.heap.Drain(1000)
		if job, _ := m.heap.TakeJob(); job != nil {
			more = true
			for !job(50) {
			}
		}
	}
}

// TestModel: sets of every encoding are changed, combined, copied and renamed at random, with open views. They equal Go
// maps, and no memory leaks.
func TestModel(t *testing.T) {
	steps := 40_000
	if invariant.Enabled {
		steps = 8_000
	}
	h, k := open(t)
	empty := h.Used()
	s := seed(t)
	m := &model{t: t, rng: rand.New(rand.NewPCG(s, 2)), heap: h, k: k, want: map[string]members{},
		limit: set.Limits{IntSet: 30, Entries: 20, Value: 40}}
	for i := range steps {
		m.step()
		if m.rng.IntN(100) == 0 && len(m.views) < 3 {
			m.views = append(m.views, frozen{k.Freeze(), maps.Clone(m.want)})
		}
		if m.rng.IntN(150) == 0 && len(m.views) > 0 {
			at := m.rng.IntN(len(m.views))
			m.checkView(m.views[at])
			m.views = slices.Delete(m.views, at, at+1)
		}
		if i%10 == 0 {
			m.reclaim()
		}
		if i%500 == 0 {
			for key := range m.want {
				if err := set.Check(h, k.DB(0).Peek([]byte(key))); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
			}
		}
	}
	for _, f := range m.views {
		m.checkView(f)
	}
	for key := range m.want {
		k.DB(0).Delete([]byte(key))
	}
	m.reclaim()
	if used := h.Used(); used != empty {
		t.Errorf("%d bytes are used when all is gone, %d at first", used, empty)
	}
}

// TestMemory: a set of a million members of 14 bytes costs at most 34 bytes per member.
func TestMemory(t *testing.T) {
	n := 1_000_000
	if invariant.Enabled {
		n = 100_000
	}
	h, k := open(t)
	before := h.Used()
	args := make([][]byte, 1)
	limits := set.Limits{IntSet: 512, Entries: 128, Value: 64}
	var b set.Builder
	b.Begin(k.Store(), limits, value.Listpack, 1)
	b.Append(set.ElementOf([]byte("first")))
	k.DB(0).PutPacked([]byte("set"), value.Set, b.Encoding(), b.Packed(), 0)
	for i := 1; i < n; i++ {
		args[0] = fmt.Appendf(args[0][:0], "member:%07d", i)
		set.Add(k.DB(0).Edit([]byte("set")), args, limits)
	}
	each := float64(h.Used()-before) / float64(n)
	t.Logf("%.1f bytes a member", each)
	if each > 34 {
		t.Errorf("%.1f bytes a member", each)
	}
	if cost := float64(k.MemoryUsage(k.DB(0).Peek([]byte("set")), 5)) / float64(n); cost < each*0.8 || cost > each*1.2 {
		t.Errorf("MEMORY USAGE says %.1f bytes a member, it is %.1f", cost, each)
	}
}

// TestLimits tests sets at each limit of each encoding, and one past it.
func TestLimits(t *testing.T) {
	l := set.Limits{IntSet: 3, Entries: 2, Value: 4}
	for _, c := range []struct {
		members string
		want    value.Encoding
	}{
		{"1", value.IntSet}, {"1 2 3", value.IntSet}, {"1 2 3 4", value.HashTable}, {"1 2 3 3", value.IntSet},
		{"a", value.Listpack}, {"a b", value.Listpack}, {"a b c", value.HashTable}, {"a b b", value.Listpack},
		{"abcd", value.Listpack}, {"abcde", value.HashTable}, {"1 a", value.Listpack}, {"1 2 a", value.HashTable},
		{"a 1", value.Listpack},
		{"12345 a", value.HashTable}, {"-123 a", value.Listpack}, {"-1234 a", value.HashTable}, {"1 abcde", value.HashTable},
		{"a 12345", value.HashTable},
	} {
		_, k := open(t)
		var b set.Builder
		key := []byte("k")
		for _, edit := range []bool{false, true} {
			words := bytes.Fields([]byte(c.members))
			built := words
			if edit {
				built = words[:1]
			}
			b.Begin(k.Store(), l, l.First(words[0], 1), 0)
			for _, w := range built {
				b.Add(set.ElementOf(w))
			}
			if p := b.Packed(); p != nil {
				k.DB(0).PutPacked(key, value.Set, b.Encoding(), p, 0)
			} else {
				k.DB(0).PutRoot(key, value.Set, b.Encoding(), b.Root(), 0)
			}
			if edit {
				set.Add(k.DB(0).Edit(key), words[1:], l)
			}
			if got := k.DB(0).Peek(key).Encoding(); got != c.want {
				t.Errorf("%s, edited %t: %s, want %s", c.members, edit, got, c.want)
			}
		}
	}
}

// TestFair: each member is drawn about equally often, in every encoding and by every function that draws. Chi-square of
// 49 degrees of freedom is above 100 once in 40 000 times; the seed is fixed.
func TestFair(t *testing.T) {
	const n, rounds = 50, 20_000
	for _, l := range []set.Limits{{IntSet: 100}, {Entries: 100, Value: 100}, {}} {
		_, k := open(t)
		var b set.Builder
		var s set.Sampler
		b.Begin(k.Store(), l, l.First([]byte("0"), n), 0)
		for i := range n {
			b.Add(set.ElementOf(strconv.AppendInt(nil, int64(i), 10)))
		}
		r := b.Reader()
		count := func(what string, want int, draw func(hit func(set.Element))) {
			hits := map[string]int{}
			draw(func(e set.Element) { hits[string(e.Append(nil))]++ })
			chi := 0.0
			for i := range n {
				d := float64(hits[strconv.Itoa(i)] - want)
				chi += d * d / float64(want)
			}
			if chi > 2*n || len(hits) != n {
				t.Errorf("%s, %s: chi-square %.1f, %d different", b.Encoding(), what, chi, len(hits))
			}
		}
		count("Random", rounds*2/n, func(hit func(set.Element)) {
			for range 2 * rounds {
				hit(r.Random(k.Rand()))
			}
		})
		count("Draw", rounds*2/n, func(hit func(set.Element)) {
			s.Draw(&r, k.Rand(), 2*rounds, func(e set.Element) bool { hit(e); return true })
		})
		for _, few := range []int{2, 25} {
			count(fmt.Sprint("Sample of ", few), rounds*few/n, func(hit func(set.Element)) {
				for range rounds {
					s.Sample(&r, k.Rand(), few, hit)
				}
			})
		}
		b.Discard()
	}
}

// TestSampleRoom: when few members are drawn out of many, the buffer has at most four cells for each drawn member.
func TestSampleRoom(t *testing.T) {
	for _, l := range []set.Limits{{IntSet: 1 << 20}, {}} {
		_, k := open(t)
		var b set.Builder
		b.Begin(k.Store(), l, l.First([]byte("0"), 1<<15), 0)
		for i := range 1 << 15 {
			b.Add(set.ElementOf(strconv.AppendInt(nil, int64(i), 10)))
		}
		r := b.Reader()
		for _, n := range []int{1, 3, 100, 1024, 2048} {
			var s set.Sampler
			drawn := members{}
			s.Sample(&r, k.Rand(), n, func(e set.Element) { drawn[string(e.Append(nil))] = true })
			if len(drawn) != n || s.Room() > 4*n || s.Room() <= n {
				t.Errorf("%s: %d of %d are drawn with room for %d", b.Encoding(), len(drawn), n, s.Room())
			}
		}
		b.Discard()
	}
}

func TestBigMembers(t *testing.T) {
	_, k := open(t)
	l := set.Limits{IntSet: 512, Entries: 128, Value: 1 << 20}
	key := []byte("k")
	var b set.Builder
	b.Begin(k.Store(), l, value.Listpack, 0)
	for i := range 40 {
		b.Add(set.ElementOf([]byte(strings.Repeat(string(rune('a'+i%26)), 1+i*1000))))
	}
	k.DB(0).PutPacked(key, value.Set, b.Encoding(), b.Packed(), 0)
	e := k.DB(0).Edit(key)
	long := [][]byte{bytes.Repeat([]byte("z"), 300_000)}
	if set.Add(e, long, l) != 1 || set.Add(e, long, l) != 0 || set.Len(e) != 41 || set.Remove(e, long) != 1 {
		t.Error("a member of 300 kB")
	}
	for set.Len(e) > 1 {
		set.Pop(e, nil)
	}
	if err := set.Check(k.Heap(), e.Value()); err != nil {
		t.Error(err)
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
