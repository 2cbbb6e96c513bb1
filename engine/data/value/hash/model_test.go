package hash_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/hash"
	"spindle/tests/testkit/memorytest"
)

// entry is a field in the model.
type entry struct {
	val      string
	deadline int64
}

type fields map[string]entry

// model has a Go map for each hash. The map is copied whole for each view and before each change.
type model struct {
	defrag keyspace.Defrag
	t      *testing.T
	rng    *rand.Rand
	heap   *memory.Heap
	k      *keyspace.Keyspace
	hashes map[string]fields
	views  []view
	now    int64
	words  int
}

type view struct {
	v      *keyspace.View
	hashes map[string]fields
}

func newModel(t *testing.T, words int) *model {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay with SEED=%d", seed)
	h, err := memory.New(memory.Options{Databases: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 1)), heap: h, now: 1_000_000, words: words,
		hashes: map[string]fields{}}
	m.k = keyspace.New(h, keyspace.Options{Databases: 1, StartMs: m.now, Seed: seed})
	m.k.SetNow(m.now)
	m.k.Hooks.FieldExpired = func(_ int, key, field []byte) bool {
		at := m.hashes[string(key)][string(field)].deadline
		if at == 0 || at >= m.now {
			t.Fatalf("field %q of %q expires at %d; the model says %d", field, key, m.now, at)
		}
		delete(m.hashes[string(key)], string(field))
		return false
	}
	m.k.Hooks.FieldsExpired = func(_ int, key []byte, _ [][]byte, emptied bool) {
		if emptied != (len(m.hashes[string(key)]) == 0) {
			t.Fatalf("%q has %d fields left, emptied %t", key, len(m.hashes[string(key)]), emptied)
		}
		if emptied {
			delete(m.hashes, string(key))
		}
	}
	return m
}

func (m *model) key() []byte { return fmt.Appendf(nil, "k%d", m.rng.IntN(12)) }

// word returns a field or value: numbers, short texts, and sometimes one too long for a listpack.
func (m *model) word(n int) []byte {
	i := m.rng.IntN(n)
	switch {
	case i%3 == 0:
		return strconv.AppendInt(nil, int64(i)*int64(i)*int64(i)-500, 10)
	case i%97 == 1:
		return []byte("long" + strconv.Itoa(i) + strings.Repeat("x", i%300))
	}
	return []byte("w" + strconv.Itoa(i))
}

func (m *model) limits() hash.Limits {
	if m.rng.IntN(30) == 0 {
		return hash.Limits{Entries: 5, Value: 5}
	}
	return hash.Limits{Entries: 128, Value: 250}
}

// set does what HSET does for one field.
func (m *model) set(key, field, val []byte, keep bool) {
	db := m.k.DB(0)
	e := db.Edit(key)
	limits := m.limits()
	_, there := m.hashes[string(key)][string(field)]
	if e == nil {
		pairs := [][]byte{field, val}
		for range m.rng.IntN(4) {
			pairs = append(pairs, m.word(8), m.word(100))
		}
		f := fields{}
		for i := 0; i < len(pairs); i += 2 {
			f[string(pairs[i])] = entry{val: string(pairs[i+1])}
		}
		m.hashes[string(key)] = f
		if !limits.Holds(pairs) {
			b := hash.NewBuilder(m.k.Store(), 0)
			b.Add([]byte("to be thrown away"), nil, 0)
			b.Discard()
			b = hash.NewBuilder(m.k.Store(), 1)
			e = db.CreateRoot(key, value.Hash, value.HashTable, b.Root())
			for i := 0; i < len(pairs); i += 2 {
				hash.Set(e, pairs[i], pairs[i+1], false, limits)
			}
			return
		}
		e = db.Create(key, value.Hash, value.Listpack, hash.FillBytes(pairs))
		if got := hash.Fill(e, pairs, limits); got != len(f) {
			m.t.Fatalf("Fill makes %d fields of %q", got, pairs)
		}
		return
	}
	was := m.hashes[string(key)][string(field)].deadline
	created, freed := hash.Set(e, field, val, keep, limits)
	if created == there || freed != (was != 0 && !keep) {
		m.t.Fatalf("Set of %q in %q: created %t freed %t; there %t until %d", field, key, created, freed, there, was)
	}
	if !keep {
		was = 0
	}
	m.hashes[string(key)][string(field)] = entry{string(val), was}
	m.tellDeadline(key, e)
}

func (m *model) tellDeadline(key []byte, e *value.Edit) {
	m.k.DB(0).SetFieldsDeadline(key, hash.Least(e.Value()))
}

func (m *model) step() {
	if m.rng.IntN(16) == 0 {
		m.relocate()
	}
	key := m.key()
	db := m.k.DB(0)
	f, had := m.hashes[string(key)]
	if had && len(m.views) > 0 { // the model of a view must not change
		f = maps.Clone(f)
		m.hashes[string(key)] = f
	}
	switch op := m.rng.IntN(40); {
	case op < 16:
		for range 1 + m.rng.IntN(12) {
			m.set(key, m.word(m.words), m.word(200), m.rng.IntN(4) == 0)
		}
	case op < 20 && had:
		e := db.Edit(key)
		for range 1 + m.rng.IntN(6) {
			field := m.word(m.words)
			was, there := f[string(field)]
			deleted, freed := hash.Delete(e, field)
			if deleted != there || freed != (was.deadline != 0) {
				m.t.Fatalf("Delete of %q: %t %t", field, deleted, freed)
			}
			if delete(f, string(field)); len(f) == 0 {
				db.Remove(e)
				delete(m.hashes, string(key))
				return
			}
		}
		m.tellDeadline(key, e)
	case op < 26 && had:
		m.expire(key, f)
	case op == 26 && had:
		e := db.Edit(key)
		for field, was := range maps.Clone(f) {
			if m.rng.IntN(2) == 0 {
				continue
			}
			want := hash.Done
			if was.deadline == 0 {
				want = hash.NoDeadline
			} else if was.deadline < m.now {
				want = hash.NoField
			}
			if got := hash.Persist(e, []byte(field), m.now); got != want {
				m.t.Fatalf("Persist of %q gives %d, want %d", field, got, want)
			}
			if want == hash.Done {
				f[field] = entry{was.val, 0}
			}
		}
		if got := hash.Persist(e, []byte("no such"), m.now); got != hash.NoField {
			m.t.Fatal("Persist of nothing gives", got)
		}
		m.tellDeadline(key, e)
	case op == 27 && m.rng.IntN(3) == 0:
		if db.Delete(key) != had {
			m.t.Fatal("Delete")
		}
		delete(m.hashes, string(key))
	case op == 28 && had:
		to := m.key()
		if db.Rename(key, to); string(to) != string(key) {
			delete(m.hashes, string(key))
			m.hashes[string(to)] = f
		}
	case op == 29 && had:
		if to := m.key(); string(to) != string(key) {
			db.CopyTo(key, db, to)
			m.hashes[string(to)] = maps.Clone(f)
		}
	case op < 32:
		m.now += m.rng.Int64N(400)
		m.k.SetNow(m.now)
		for key, f := range m.hashes {
			m.hashes[key] = maps.Clone(f)
		}
		for more := true; more; {
			_, more = m.k.ExpireDue(time.Second)
		}
		for key, f := range m.hashes {
			for field, x := range f {
				if x.deadline != 0 && x.deadline+32 < m.now {
					m.t.Fatalf("field %q of %q is %d ms late", field, key, m.now-x.deadline)
				}
			}
		}
	case op == 32 && len(m.views) < 3:
		m.views = append(m.views, view{m.k.Freeze(), maps.Clone(m.hashes)})
	case op == 33 && len(m.views) > 0:
		m.leave(m.rng.IntN(len(m.views)))
	case op == 34 && had:
		m.scan(key, f)
	case op == 35 && had:
		m.sample(key, f)
	default:
		m.drain()
		if had {
			m.same(db.Lookup(key), f)
			if err := hash.Check(m.heap, db.Lookup(key)); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

func (m *model) expire(key []byte, f fields) {
	db := m.k.DB(0)
	e := db.Edit(key)
	hash.AllowDeadlines(e)
	when := m.now + m.rng.Int64N(3000)
	for range 1 + m.rng.IntN(8) {
		field, c, passed := m.word(m.words), hash.Condition(m.rng.IntN(5)), m.rng.IntN(10) == 0
		was, there := f[string(field)]
		holds := [...]bool{true, was.deadline == 0, was.deadline != 0, was.deadline != 0 && when > was.deadline,
			was.deadline == 0 || when < was.deadline}[c]
		want := hash.Done
		switch {
		case !there:
			want = hash.NoField
		case !holds:
			want = hash.NotMet
		case passed:
			want = hash.Removed
		}
		if got := hash.Expire(e, field, when, c, passed); got != want {
			m.t.Fatalf("Expire of %q until %d (%+v), condition %d, passed %t gives %d, want %d",
				field, when, was, c, passed, got, want)
		}
		switch want {
		case hash.Done:
			f[string(field)] = entry{was.val, when}
		case hash.Removed:
			if delete(f, string(field)); len(f) == 0 {
				db.Remove(e)
				delete(m.hashes, string(key))
				return
			}
		}
	}
	m.tellDeadline(key, e)
	least, bound := int64(0), db.FieldsDeadline(key)
	for _, x := range f {
		if x.deadline != 0 && (least == 0 || x.deadline < least) {
			least = x.deadline
		}
	}
	if (least == 0) != (bound == 0) && e.Packed() != nil || bound > least && least != 0 {
		m.t.Fatalf("fields of %q are due at %d, the keyspace was told %d", key, least, bound)
	}
	if got := hash.Earliest(e.Value()); got != least {
		m.t.Fatalf("Earliest of %q is %d, want %d", key, got, least)
	}
}

func (m *model) scan(key []byte, f fields) {
	v := m.k.DB(0).Lookup(key)
	seen := fields{}
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		cursor = hash.Scan(v, cursor, 10, func(field, val listpack.Element, deadline int64) {
			seen[string(field.Append(nil))] = entry{string(val.Append(nil)), deadline}
		})
	}
	if !maps.Equal(seen, f) {
		m.t.Fatalf("Scan of %q sees %d of %d", key, len(seen), len(f))
	}
}

func (m *model) sample(key []byte, f fields) {
	v := m.k.DB(0).Lookup(key)
	n, seen, alive := m.rng.IntN(len(f)+3), map[string]bool{}, len(f)
	var live func(int64) bool
	if m.rng.IntN(2) == 0 {
		live = func(deadline int64) bool { return deadline%2 == 0 }
		for _, x := range f {
			if !live(x.deadline) {
				alive--
			}
		}
	}
	hash.Sample(v, m.k.Rand(), n, live, func(field, val listpack.Element) {
		name := string(field.Append(nil))
		if x, ok := f[name]; !ok || x.val != string(val.Append(nil)) || seen[name] || live != nil && !live(x.deadline) {
			m.t.Fatalf("Sample of %q yields %q", key, name)
		}
		seen[name] = true
	})
	if len(seen) != min(n, alive) {
		m.t.Fatalf("Sample yields %d of %d, of %d that live", len(seen), n, alive)
	}
	field, val, deadline := hash.Random(v, m.k.Rand())
	if x, ok := f[string(field.Append(nil))]; !ok || x != (entry{string(val.Append(nil)), deadline}) {
		m.t.Fatalf("Random of %q yields %q", key, field.Append(nil))
	}
}

// same compares a hash, live or frozen, with the model.
func (m *model) same(v value.Value, f fields) {
	m.t.Helper()
	n := 0
	hash.All(v, func(field, val listpack.Element, deadline int64) bool {
		n++
		if x, ok := f[string(field.Append(nil))]; !ok || x != (entry{string(val.Append(nil)), deadline}) {
			m.t.Fatalf("%q has %q = %q until %d, want %+v", v.Key(), field.Append(nil), val.Append(nil), deadline, x)
		}
		return true
	})
	if n != len(f) || hash.Len(v) != n {
		m.t.Fatalf("%q has %d fields, Len %d, want %d", v.Key(), n, hash.Len(v), len(f))
	}
	for field, x := range f {
		if val, deadline, ok := hash.Get(v, []byte(field)); !ok || deadline != x.deadline ||
			string(val.Append(nil)) != x.val {
			m.t.Fatalf("%q: Get(%q) is %q until %d, %t; want %+v", v.Key(), field, val.Append(nil), deadline, ok, x)
		}
	}
	if _, _, ok := hash.Get(v, []byte("no such")); ok {
		m.t.Fatal("a field that is not there")
	}
}

// leave reads a view, while memory that it has passed is freed, and closes it.
func (m *model) leave(i int) {
	w := m.views[i]
	n := 0
	w.v.Walk(0, 0, 1, func(v value.Value) bool {
		n++
		m.same(v, w.hashes[string(v.Key())])
		m.heap.Drain(100)
		return true
	})
	if n != len(w.hashes) {
		m.t.Fatalf("the view has %d keys, want %d", n, len(w.hashes))
	}
	w.v.Close()
	m.views = append(m.views[:i], m.views[i+1:]...)
}

func (m *model) drain() {
	m.heap.Drain(1000)
	if job, _ := m.heap.TakeJob(); job != nil {
		for !job(50) {
		}
	}
}

// TestModel takes random steps on hashes and on Go maps, with open views.
func TestModel(t *testing.T) {
	for _, words := range []int{40, 3000} {
		t.Run(strconv.Itoa(words), func(t *testing.T) {
			m := newModel(t, words)
			empty := m.heap.Used()
			n := 20_000
			if testing.Short() {
				n = 5_000
			}
			for range n {
				m.step()
			}
			for key, f := range m.hashes {
				m.same(m.k.DB(0).Lookup([]byte(key)), f)
			}
			for len(m.views) > 0 {
				m.leave(0)
			}
			m.k.DB(0).Flush()
			for range 100 {
				for job, _ := m.heap.TakeJob(); job != nil; job, _ = m.heap.TakeJob() {
					for !job(100) {
					}
				}
				m.heap.Drain(10_000)
			}
			if left := m.heap.Used() - empty; left != 0 {
				t.Errorf("%d bytes are left", left)
			}
		})
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
